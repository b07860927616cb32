//! Processes with keys leave no core dumps.

use quorate_node::secrecy::forbid_core_dumps;

fn is_dumpable() -> bool {
    // SAFETY: it takes no pointer.
    unsafe { libc::prctl(libc::PR_GET_DUMPABLE, 0, 0, 0, 0) != 0 }
}

#[test]
fn a_process_without_core_dumps_has_none_by_a_limit_or_by_a_handler() {
    assert!(is_dumpable());
    forbid_core_dumps().expect("it is always allowed");
    let is_forbidden = !is_dumpable();
    // Other tests of this process look at it. SAFETY: it takes no pointer.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
    assert!(is_forbidden);
    let mut limit = libc::rlimit { rlim_cur: 1, rlim_max: 1 };
    // SAFETY: the kernel writes one `rlimit` to a valid place.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_CORE, &raw mut limit) }, 0);
    assert_eq!((limit.rlim_cur, limit.rlim_max), (0, 0));
}
