//! CPU requests as the kernel is told of them: shares and weights.
//! In: thousandths of a CPU. Out: what the kubelet or the runtime writes.
//! Source: kubelet `pkg/kubelet/cm/helpers_linux.go`; opencontainers/cgroups `utils.go`.

/// The kernel's minimum.
pub const MIN_SHARES: u64 = 2;
/// The kernel's maximum.
pub const MAX_SHARES: u64 = 262_144;
/// The kernel's maximum.
const MAX_WEIGHT: u64 = 10_000;
/// Shares for a CPU request in thousandths of a CPU: `MilliCPUToShares`.
#[must_use]
pub fn shares(milli: u64) -> u64 {
    if milli == 0 {
        return MIN_SHARES;
    }
    let shares = u128::from(milli) * 1_024 / 1_000;
    u64::try_from(shares).unwrap_or(u64::MAX).clamp(MIN_SHARES, MAX_SHARES)
}

/// `cpu.weight` of the cgroups that the kubelet itself writes (kubepods, the QoS slices, pods,
/// the reserved cgroups): linear.
#[must_use]
pub fn weight(shares: u64) -> u64 {
    if shares >= MAX_SHARES {
        return MAX_WEIGHT;
    }
    1 + shares.saturating_sub(MIN_SHARES) * 9_999 / 262_142
}

/// The shares that the kubelet derives from a `cpu.weight`.
#[must_use]
pub fn shares_of_weight(weight: u64) -> u64 {
    weight.saturating_sub(1).saturating_mul(262_142) / 9_999 + MIN_SHARES
}

/// `cpu.weight` of containers, as runc 1.3 and crun write it: quadratic in the logarithm, so that
/// the defaults of both scales meet (1,024 shares are a weight of 100). 0 leaves it unset.
///
/// `ceil(10^((l² + 125 l) / 612 - 7/34))` for `l = log2(shares)`: the smallest weight `w` for
/// which `612 log10(w) + 126` is not below `l² + 125 l`. With all logarithms to the base of two,
/// only one kind of logarithm is needed, and no power.
#[must_use]
pub fn container_weight(shares: u64) -> u64 {
    match shares {
        0 => return 0,
        1 | MIN_SHARES => return 1,
        MAX_SHARES.. => return MAX_WEIGHT,
        _ => {}
    }
    let (l, ten) = (log2(shares), log2(10));
    let wanted = (((l * l) >> FRACTION) + 125 * l) * ten;
    let reaches = |weight: u64| {
        let offered = ((612 * log2(weight)) << FRACTION) + 126 * ten * ONE;
        offered + NEARLY >= wanted
    };
    let (mut low, mut high) = (1, MAX_WEIGHT);
    while low < high {
        let middle = low.midpoint(high);
        if reaches(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// Binary digits after the point of a logarithm.
const FRACTION: u32 = 48;
/// 1.0 as a logarithm.
const ONE: u128 = 1 << FRACTION;
/// What counts as equal, in units of a logarithm times a logarithm. At 1,024 shares both sides
/// are equal, but cut off at their ends; nowhere else do they come nearer than a thousand times
/// this.
const NEARLY: u128 = 1 << (2 * FRACTION - 32);

/// The logarithm of `n` to the base of two, cut off after [`FRACTION`] binary digits; 0 for 0.
///
/// Digit by digit: squaring a number doubles its logarithm.
fn log2(n: u64) -> u128 {
    let Some(whole) = n.checked_ilog2() else { return 0 };
    // Between 1 and 2, with 63 binary digits behind the point.
    let mut rest = u128::from(n) << (63 - whole);
    let mut log = u128::from(whole);
    for _ in 0..FRACTION {
        rest = (rest * rest) >> 63;
        let digit = rest >> 64;
        rest >>= digit;
        log = (log << 1) | digit;
    }
    log
}

#[cfg(test)]
mod tests;
