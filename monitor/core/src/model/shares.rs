//! CPU shares and weights as the kubelet computes them.
//! Source: kubelet `pkg/kubelet/cm/helpers_linux.go` and `cgroup_manager_linux.go`.

/// The kernel's minimum.
pub const MIN_SHARES: u64 = 2;
/// The kernel's maximum.
pub const MAX_SHARES: u64 = 262_144;
/// The kernel's maximum.
const MAX_WEIGHT: u64 = 10_000;

/// Shares for a CPU request in thousandths of a CPU: `MilliCPUToShares`.
pub fn shares(milli: u64) -> u64 {
    (milli.saturating_mul(1_024) / 1_000).clamp(MIN_SHARES, MAX_SHARES)
}

/// `cpu.weight` of the cgroups that the kubelet writes (kubepods, QoS slices, pods, reserved
/// cgroups): linear. Container runtimes use another scale.
pub fn weight(shares: u64) -> u64 {
    if shares >= MAX_SHARES {
        return MAX_WEIGHT;
    }
    1 + shares.saturating_sub(MIN_SHARES) * 9_999 / 262_142
}

/// The shares that the kubelet derives from a `cpu.weight`.
pub fn shares_of_weight(weight: u64) -> u64 {
    weight.saturating_sub(1).saturating_mul(262_142) / 9_999 + MIN_SHARES
}

#[cfg(test)]
mod tests;
