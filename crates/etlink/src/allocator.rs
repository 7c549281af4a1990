//! Settings of the system's allocator, for commands that must use little memory.

/// Returns blocks of 128 KiB and more to the system as soon as they are freed.
///
/// glibc at first takes each block of that size directly from the system. But once such a block is
/// freed, it takes all blocks up to that size, 32 MiB at most, from a heap (`M_MMAP_THRESHOLD` in
/// mallopt(3)). A heap only shrinks at its end, and a column that grows in it is copied. The tables
/// of a trace are columns of some megabytes: when a rank was linked in parts, a third of the memory
/// was free but not returned.
///
/// Blocks taken directly from the system cost page faults. So commands that allocate many such
/// blocks and keep few do this only if memory is scarce.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn return_large_blocks() {
    use nix::libc::{M_MMAP_THRESHOLD, mallopt};

    /// Initial threshold of glibc, in bytes. Once set explicitly, it stays.
    const THRESHOLD: i32 = 128 << 10;
    // SAFETY: the call takes two numbers and sets a parameter of the allocator under its own lock.
    #[expect(unsafe_code, reason = "no safe function of the system does this")]
    let _is_set = unsafe { mallopt(M_MMAP_THRESHOLD, THRESHOLD) };
}

/// Does nothing: other allocators behave differently.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn return_large_blocks() {}
