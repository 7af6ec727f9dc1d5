//! Copies and compares bytes in a release for x86_64, in place of musl's `memcpy`, `memmove`, `memcmp`
//! and `bcmp`. Those take 24 to 69 ns to copy 3 to 250 bytes, because they begin with `rep movsq`, and
//! 37 ns to compare 100, byte by byte; glibc's take 2 to 4. More than half of the CPU time of writing a
//! recording was spent in `memcpy` (docs/performance.md).
//!
//! No loop that copies is Rust's: the compiler would know it, and call `memcpy`. Nor is any of it in a
//! build without optimisation, in which `read_unaligned` calls that.

use std::arch::asm;
use std::arch::x86_64::{__m128i, __m256i, __m512i, _mm_cmpeq_epi8, _mm_movemask_epi8};
use std::cmp::Ordering;

/// Copies `n` bytes; both places may overlap.
///
/// # Safety
/// `from` can be read and `to` written for `n` bytes.
#[inline(always)]
unsafe fn copy(to: *mut u8, from: *const u8, n: usize) {
    // SAFETY: what is read and written lies within `n` bytes. All of it is read before anything is
    // written, or in an order in which nothing is written before it was read.
    unsafe {
        match n {
            0 => {}
            1 => to.write(from.read()),
            2..=3 => ends::<u16>(to, from, n),
            4..=7 => ends::<u32>(to, from, n),
            8..=16 => ends::<u64>(to, from, n),
            17..=32 => ends::<__m128i>(to, from, n),
            33..=64 => ends::<__m256i>(to, from, n),
            65..=128 => ends::<__m512i>(to, from, n),
            _ => long(to, from, n),
        }
    }
}

/// Copies the first and the last bytes, of as many as a `T` has, which together are all `n`. Where the
/// CPU has no register as large, the compiler takes several.
#[inline(always)]
unsafe fn ends<T: Copy>(to: *mut u8, from: *const u8, n: usize) {
    let last = n - size_of::<T>();
    // SAFETY: as the caller says, and `n` is at least the size of a `T`.
    unsafe {
        let (first, end) = (from.cast::<T>().read_unaligned(), from.add(last).cast::<T>());
        let end = end.read_unaligned();
        to.cast::<T>().write_unaligned(first);
        to.add(last).cast::<T>().write_unaligned(end);
    }
}

/// Copies eight bytes at a time. Where `to` begins within what is read, that goes from the end to the
/// start; else from the first place on that eight divides, because elsewhere it takes four times as
/// long. The first and the last eight are read before, and written at the end.
#[inline(always)]
unsafe fn long(to: *mut u8, from: *const u8, n: usize) {
    // SAFETY: as the caller says, and `n` is at least sixteen. The direction is set back.
    unsafe {
        let first = from.cast::<u64>().read_unaligned();
        let last = from.add(n - 8).cast::<u64>().read_unaligned();
        if to.addr().wrapping_sub(from.addr()) < n {
            let (to, from) = (to.add(n - 8), from.add(n - 8));
            asm!(
                "std", "rep movsq", "cld",
                inout("rcx") n / 8 => _, inout("rdi") to => _, inout("rsi") from => _,
                options(nostack)
            );
        } else {
            let skipped = 8 - to.addr() % 8;
            let (words, to, from) = ((n - skipped) / 8, to.add(skipped), from.add(skipped));
            asm!(
                "rep movsq",
                inout("rcx") words => _, inout("rdi") to => _, inout("rsi") from => _,
                options(nostack, preserves_flags)
            );
        }
        to.cast::<u64>().write_unaligned(first);
        to.add(n - 8).cast::<u64>().write_unaligned(last);
    }
}

/// Compares `n` bytes, as numbers without a sign, from the first on.
///
/// # Safety
/// Both can be read for `n` bytes.
#[inline(always)]
unsafe fn compare(a: *const u8, b: *const u8, n: usize) -> Ordering {
    // SAFETY: what is read lies within `n` bytes.
    unsafe {
        match n {
            0..4 => {
                let mut at = 0;
                while at < n && a.add(at).read() == b.add(at).read() {
                    at += 1;
                }
                if at == n { Ordering::Equal } else { a.add(at).read().cmp(&b.add(at).read()) }
            }
            4..8 => {
                let word = |of: *const u8, at| {
                    u64::from(u32::from_be(of.add(at).cast::<u32>().read_unaligned()))
                };
                let both = |of| word(of, 0) << 32 | word(of, n - 4);
                both(a).cmp(&both(b))
            }
            8..16 => {
                let word =
                    |of: *const u8, at| u64::from_be(of.add(at).cast::<u64>().read_unaligned());
                word(a, 0).cmp(&word(b, 0)).then_with(|| word(a, n - 8).cmp(&word(b, n - 8)))
            }
            _ => {
                let mut at = 0;
                loop {
                    let (x, y) = (a.add(at).cast::<__m128i>(), b.add(at).cast::<__m128i>());
                    let equal = _mm_cmpeq_epi8(x.read_unaligned(), y.read_unaligned());
                    let n_equal = _mm_movemask_epi8(equal).trailing_ones() as usize;
                    if n_equal < 16 {
                        return a.add(at + n_equal).read().cmp(&b.add(at + n_equal).read());
                    }
                    if at == n - 16 {
                        return Ordering::Equal;
                    }
                    // The last sixteen may lie over some that are equal.
                    at = (at + 16).min(n - 16);
                }
            }
        }
    }
}

/// What the compiler and the C parts of a release call.
#[cfg(not(test))]
mod called {
    use crate::musl::{compare, copy};

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
        // SAFETY: as C has it.
        unsafe { copy(to, from, n) };
        to
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
        // SAFETY: as C has it.
        unsafe { copy(to, from, n) };
        to
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
        // SAFETY: as C has it.
        unsafe { compare(a, b, n) as i32 }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
        // SAFETY: as C has it.
        unsafe { compare(a, b, n) as i32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_is_right_for_each_length_and_overlap() {
        let before: Vec<u8> = (0..900_u32).map(|i| (i * 7 % 251) as u8).collect();
        let places = [0, 1, 3, 8, 15, 16, 17, 64, 130, 300];
        for n in (0..=300).chain([511, 512, 513, 600]) {
            for from in places {
                for to in places {
                    let mut got = before.clone();
                    let start = got.as_mut_ptr();
                    // SAFETY: 300 + 600 bytes are all there are.
                    unsafe { copy(start.add(to), start.add(from), n) };
                    let mut want = before.clone();
                    want.copy_within(from..from + n, to);
                    assert!(got == want, "{n} bytes from {from} to {to}");
                }
            }
        }
    }

    #[test]
    fn compare_finds_the_first_difference() {
        for n in 0..100 {
            let same: Vec<u8> = (0..n).map(|i| (i * 7 % 251) as u8).collect();
            // SAFETY: both have `n` bytes.
            let compared = |a: &[u8], b: &[u8]| unsafe { compare(a.as_ptr(), b.as_ptr(), a.len()) };
            assert_eq!(compared(&same, &same.clone()), Ordering::Equal, "{n} bytes");
            for at in 0..same.len() {
                let mut other = same.clone();
                for byte in [0, 1, 127, 128, 255] {
                    // What comes after the first difference says the opposite.
                    let opposite = if byte > same[at] { 0 } else { 255 };
                    other[at..].fill(opposite);
                    other[at] = byte;
                    assert_eq!(compared(&other, &same), other.cmp(&same), "{n} bytes, {at}");
                    assert_eq!(compared(&same, &other), same.cmp(&other), "{n} bytes, {at}");
                }
            }
        }
    }
}
