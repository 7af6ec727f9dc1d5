//! Thresholds as a share of the capacity: the one place where the kubelet's floats matter.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A share from 0 to 1 in float32, as the kubelet stores percent thresholds. It multiplies in
/// float64, so 5 % of 10Gi is 536870920 bytes, not 536870912.
///
/// Source: kubelet `pkg/kubelet/eviction/helpers.go`, `parsePercentage` and
/// `GetThresholdQuantity`.
///
/// Holds the float's bits: without a sign they compare as the float does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "f32"))]
pub struct Fraction(u32);

impl Fraction {
    /// `percent` in float32, as the kubelet has it; `None` outside 0 to 100.
    pub fn of_percent(percent: f32) -> Option<Self> {
        Self::checked(percent / 100.0)
    }

    /// This share of `capacity`, truncated. Above 2^53 the capacity is rounded first, as in Go.
    pub fn of(self, capacity: u64) -> u64 {
        // The fraction is not negative, and the cast saturates.
        (capacity as f64 * f64::from(self.float())) as u64
    }

    fn float(self) -> f32 {
        f32::from_bits(self.0)
    }

    fn checked(fraction: f32) -> Option<Self> {
        // `abs` turns -0.0 into 0.0.
        (0.0..=1.0).contains(&fraction).then(|| Self(fraction.abs().to_bits()))
    }
}

/// As a percentage, `15%`: the shortest text that reads back as the same fraction.
impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |digits| format!("{:.digits$}", f64::from(self.float()) * 100.0);
        let is_same = |text: &String| text.parse().ok().and_then(Self::of_percent) == Some(*self);
        let shortest = (0..LONGEST).map(percent).find(is_same);
        write!(f, "{}%", shortest.unwrap_or_else(|| percent(LONGEST)))
    }
}

/// Most decimals that are tried.
const LONGEST: usize = 12;

impl Serialize for Fraction {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f32(self.float())
    }
}

impl<'de> Deserialize<'de> for Fraction {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let fraction = Self::checked(f32::deserialize(from)?);
        fraction.ok_or_else(|| de::Error::custom("a fraction is a number from 0 to 1"))
    }
}

#[cfg(test)]
mod tests;
