//! The operator's configuration, and where to get it again.

use std::error::Error;
use std::fmt;

use super::recorder::Record;
use crate::config::KubeletSource;
use crate::config::kubernetes::Publish;
use isobar_core::model::settings::Settings;
use isobar_core::model::workload::Pods;

/// The operator's configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    pub settings: Settings,
    /// What the cluster is told.
    pub publish: Publish,
    /// Where the kubelet's fields of `settings` come from.
    pub kubelet: KubeletSource,
    /// The pods of this node by uid; `None` if no source names them.
    pub pods: Option<Pods>,
}

/// Reads the configuration again, with what the kubelet answers of its own, if it has; an error says
/// all that is wrong with it.
type Again = Box<dyn FnMut(Option<&[u8]>) -> Result<Plan, Box<dyn Error>> + Send>;

/// The configuration, where to get it again, and what to record.
pub struct Orders {
    pub(super) plan: Plan,
    pub(super) again: Again,
    pub record: Record,
}

impl Orders {
    /// `plan` holds until SIGHUP or an answer of the kubelet's `/configz`, then what `again` gives.
    pub fn new(
        plan: Plan,
        again: impl FnMut(Option<&[u8]>) -> Result<Plan, Box<dyn Error>> + Send + 'static,
    ) -> Self {
        Self { plan, again: Box::new(again), record: Record::Off }
    }
}

impl fmt::Debug for Orders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut orders = f.debug_struct("Orders");
        orders.field("plan", &self.plan).field("record", &self.record).finish_non_exhaustive()
    }
}
