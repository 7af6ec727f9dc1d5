//! How the allocator is set for a process that must go on where memory runs out: it keeps what a
//! tick needs and gives back what a burst has left. glibc's own does that where it is told to.
//! musl's returns pages with each `free`, so that each tick waits for the kernel to give them
//! again: there the allocator is mimalloc.

pub use self::allocator::{collect, settle, trim};

/// Some memory in hand: touched, and freed again, it stays with the allocator.
pub fn reserve(size: usize) {
    // mimalloc keeps blocks of up to 10 KiB, of up to 64 KiB and larger ones in regions of their own,
    // and a tick has some of each. One block of that size would be mapped and unmapped.
    const SIZES: [usize; 3] = [4 << 10, 32 << 10, 256 << 10];
    let parts = SIZES.map(|part| vec![vec![1_u8; part]; size / SIZES.len() / part]);
    drop(std::hint::black_box(parts));
}

#[cfg(target_env = "gnu")]
mod allocator {
    /// One heap for all threads, which does not give back to the kernel each time that a tick is
    /// over what the next one would have to ask for, and wait. True if the C library agrees. Called
    /// before there is another thread.
    pub fn settle() -> bool {
        let settings = [
            (libc::M_ARENA_MAX, 1),
            (libc::M_MMAP_THRESHOLD, 4 << 20),
            // Above the reserve, so that it stays when what lies before it is freed.
            (libc::M_TRIM_THRESHOLD, 8 << 20),
        ];
        // SAFETY: sets numbers of the allocator; no other thread is there yet.
        settings.iter().all(|(what, value)| unsafe { libc::mallopt(*what, *value) } == 1)
    }

    /// Does nothing: all threads share one heap, of which [`trim`] gives back.
    pub fn collect() {}

    /// Gives free memory back to the kernel, but for `keep` bytes at the end of the heap. Memory
    /// freed in the middle is not returned by itself, because later allocations lie above it.
    pub fn trim(keep: usize) {
        // SAFETY: touches nothing but free memory.
        unsafe { libc::malloc_trim(keep) };
    }
}

#[cfg(not(target_env = "gnu"))]
mod allocator {
    use libmimalloc_sys::{mi_collect, mi_option_set};
    use mimalloc::MiMalloc;

    #[global_allocator]
    static ALLOCATOR: MiMalloc = MiMalloc;

    /// `mi_option_purge_delay` of mimalloc.h, which the crate does not name.
    const PURGE_DELAY: i32 = 15;
    /// An hour in milliseconds: longer than between two bursts, after which `trim` is called.
    /// A delay that never ends would forbid that as well.
    const HOUR: i64 = 3_600_000;

    /// Keeps pages that were freed until `trim`.
    pub fn settle() -> bool {
        // SAFETY: sets a number of the allocator.
        unsafe { mi_option_set(PURGE_DELAY, HOUR) };
        true
    }

    /// Hands what this thread has freed to those that all threads share, of which [`trim`] gives back.
    /// Each thread has a heap of its own, which no other thread can reach.
    pub fn collect() {
        // SAFETY: touches nothing but free memory.
        unsafe { mi_collect(false) };
    }

    /// Gives free memory back to the kernel. mimalloc knows no end of the heap to keep a part of, so
    /// half of `keep` bytes are taken anew; the next ticks take as much, which stays once it is freed.
    pub fn trim(keep: usize) {
        // SAFETY: touches nothing but free memory.
        unsafe { mi_collect(true) };
        crate::heap::reserve(keep / 2);
    }
}
