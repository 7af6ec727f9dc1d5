//! On which kernels a scenario is played.

use serde::Deserialize;

use crate::machine::Series;

/// `"all"`, or a list.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "expected \"all\" or a list of \"6.1\", \"6.12\", \"6.18\", \"7.x\"")]
pub(super) enum Kernels {
    These(Vec<Series>),
    Every(Every),
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Every {
    All,
}

impl Default for Kernels {
    fn default() -> Self {
        Self::These(vec![Series::V6_12])
    }
}

/// Kernels on which a scenario makes no sense.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NeverOn {
    pub(super) kernels: Vec<Series>,
    pub(super) reason: String,
}

impl Kernels {
    pub(super) fn has(&self, series: Series) -> bool {
        match self {
            Self::These(kernels) => kernels.contains(&series),
            Self::Every(Every::All) => true,
        }
    }
}
