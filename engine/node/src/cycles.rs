//! The cycle counter by which a replica's stages are timed: the processor's, if it counts at a constant rate, or else
//! the system's clock.

use quorate_storage::account::thread_cpu_ns;
use quorate_types::stages::Clocks;

/// Returns the clocks of this machine.
pub(crate) fn clocks() -> Clocks {
    #[cfg(target_arch = "x86_64")]
    if x86_64::is_constant() {
        return Clocks { name: "tsc", cycles: x86_64::cycles, thread_cpu_ns };
    }
    #[cfg(target_arch = "aarch64")]
    return Clocks { name: "cntvct", cycles: aarch64::cycles, thread_cpu_ns };
    #[cfg(not(target_arch = "aarch64"))]
    Clocks { name: "clock", cycles: clock::nanoseconds, thread_cpu_ns }
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::{__cpuid, _rdtsc};

    /// Leaf of `cpuid` that reports whether the counter is invariant, and the highest leaf before it.
    const POWER_LEAF: u32 = 0x8000_0007;
    const HIGHEST_LEAF: u32 = 0x8000_0000;
    const INVARIANT_TSC: u32 = 1 << 8;

    /// Returns whether the counter has the same constant rate on all cores, independently of their frequency.
    // Newer compilers know that the function is safe; the oldest supported one does not.
    #[allow(unused_unsafe)]
    pub fn is_constant() -> bool {
        // SAFETY: every processor of this architecture has the instruction.
        let registers = |leaf| unsafe { (__cpuid(leaf).eax, __cpuid(leaf).edx) };
        registers(HIGHEST_LEAF).0 >= POWER_LEAF && registers(POWER_LEAF).1 & INVARIANT_TSC != 0
    }

    pub fn cycles() -> u64 {
        // SAFETY: every processor of this architecture has the instruction, and reading the counter changes nothing.
        unsafe { _rdtsc() }
    }
}

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    pub fn cycles() -> u64 {
        let count: u64;
        // SAFETY: reads a register that user programs may read, and changes nothing.
        unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack)) };
        count
    }
}

#[cfg(not(target_arch = "aarch64"))]
mod clock {
    use std::sync::LazyLock;
    use std::time::Instant;

    static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

    /// Returns nanoseconds since the first call.
    pub fn nanoseconds() -> u64 {
        BEGAN.elapsed().as_nanos() as u64
    }
}
