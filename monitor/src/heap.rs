//! The allocator, and how it is set for a process that must go on where memory runs out: it keeps
//! what a tick needs and gives back what a burst has left. It is mimalloc wherever isobar runs, so
//! that what is tested is what is released: musl's own returns pages with each `free`, so that each
//! tick waits for the kernel to give them again, and of glibc's all threads share one lock.

use libmimalloc_sys::{mi_collect, mi_option_set};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// `mi_option_purge_delay` of mimalloc.h, which the crate does not name.
const PURGE_DELAY: i32 = 15;
/// An hour in milliseconds: longer than between two bursts, after which `trim` is called.
/// A delay that never ends would forbid that as well.
const HOUR: i64 = 3_600_000;

/// Keeps pages that were freed until [`trim`].
pub fn settle() {
    // SAFETY: sets a number of the allocator.
    unsafe { mi_option_set(PURGE_DELAY, HOUR) };
}

/// Some memory in hand: touched, and freed again, it stays with the allocator.
pub fn reserve(size: usize) {
    // mimalloc keeps blocks of up to 10 KiB, of up to 64 KiB and larger ones in regions of their own,
    // and a tick has some of each.
    const SIZES: [usize; 3] = [4 << 10, 32 << 10, 256 << 10];
    let parts = SIZES.map(|part| vec![vec![1_u8; part]; size / SIZES.len() / part]);
    drop(std::hint::black_box(parts));
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
    reserve(keep / 2);
}
