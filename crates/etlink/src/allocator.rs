//! The system's allocator, where a command has to take little memory.

/// Lets blocks of 128 KiB and more go back to the system as soon as they are freed.
///
/// glibc asks the system for each block of that size at first. But when such a block is freed, it
/// takes all blocks up to that size, 32 MiB at most, out of a heap from then on
/// (`M_MMAP_THRESHOLD` in mallopt(3)). A heap gives back its end alone, and a column that grows in
/// it is copied. The tables of a trace are columns of some megabytes: of a rank that is linked in
/// parts, a third of the memory was free and not given back.
///
/// Blocks of the system's own cost page faults. So commands that make many such blocks and keep few
/// do this only where memory is short.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn return_large_blocks() {
    use nix::libc::{M_MMAP_THRESHOLD, mallopt};

    /// glibc's own first threshold, bytes. Set once, it stays.
    const THRESHOLD: i32 = 128 << 10;
    // SAFETY: it takes two numbers and sets a parameter of the allocator under a lock of its own.
    #[expect(unsafe_code, reason = "no safe function of the system does this")]
    let _is_set = unsafe { mallopt(M_MMAP_THRESHOLD, THRESHOLD) };
}

/// Other allocators have other habits.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn return_large_blocks() {}
