//! Cores on which a benchmark runs.

use std::marker::PhantomData;

/// Returns how many cores this process may use.
pub fn available() -> usize {
    platform::allowed().map_or_else(|_| std::thread::available_parallelism().map_or(1, usize::from), |all| all.len())
}

/// Pins the calling thread, and the threads and processes that it starts, to a few cores until dropped.
pub struct Pinned {
    before: Vec<usize>,
    /// Not `Send`: only the pinned thread may drop this.
    _not_send: PhantomData<*const ()>,
}

impl Pinned {
    /// Pins the calling thread to the first `cores` of the cores that it may use.
    ///
    /// # Errors
    /// If it may use fewer, or the system refuses.
    pub fn to(cores: usize) -> std::io::Result<Pinned> {
        let before = platform::allowed()?;
        let few = before.get(..cores).ok_or_else(|| {
            let what = format!("{cores} cores are more than the {} that this machine offers", before.len());
            std::io::Error::new(std::io::ErrorKind::InvalidInput, what)
        })?;
        platform::allow(few)?;
        Ok(Pinned { before, _not_send: PhantomData })
    }
}

impl Pinned {
    /// Pins the calling thread to one of its allowed cores: index `core` modulo their number.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn at(core: usize) -> std::io::Result<Pinned> {
        let before = platform::allowed()?;
        platform::allow(&[before[core % before.len()]])?;
        Ok(Pinned { before, _not_send: PhantomData })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // Fails only if this process has lost these cores in the meantime; the thread then stays where it is.
        let _ = platform::allow(&self.before);
    }
}

#[cfg(target_os = "linux")]
mod platform {
    use std::io;
    use std::mem::{size_of, zeroed};

    const SET_BYTES: usize = size_of::<libc::cpu_set_t>();

    /// Returns the cores that the calling thread may use.
    pub fn allowed() -> io::Result<Vec<usize>> {
        // SAFETY: a set of cores is plain data, and the call writes at most its size.
        let (answer, set) = unsafe {
            let mut set: libc::cpu_set_t = zeroed();
            (libc::sched_getaffinity(0, SET_BYTES, &raw mut set), set)
        };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the core is within the set.
        Ok((0..SET_BYTES * 8).filter(|core| unsafe { libc::CPU_ISSET(*core, &set) }).collect())
    }

    pub fn allow(cores: &[usize]) -> io::Result<()> {
        // SAFETY: the cores are within the set, which the call only reads.
        let answer = unsafe {
            let mut set: libc::cpu_set_t = zeroed();
            cores.iter().for_each(|core| libc::CPU_SET(*core, &mut set));
            libc::sched_setaffinity(0, SET_BYTES, &raw const set)
        };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use std::io;

    pub fn allowed() -> io::Result<Vec<usize>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this system cannot pin threads to cores; help: omit --cores"))
    }

    pub fn allow(_: &[usize]) -> io::Result<()> {
        allowed().map(|_| ())
    }
}
