//! The documents of one view: all of it, or a part under a path of its own.

use axum::body::Bytes;
use serde::ser::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use super::summary;
use isobar_core::model::sample::Moment;
use isobar_core::view::{API_VERSION, View};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Snapshot,
    Cgroups,
    Matrix,
    Conditions,
    Decisions,
    Allocatable,
    Capabilities,
    /// In the kubelet's shape.
    Summary,
}

/// A field that has the name, and the content, that it has in a snapshot.
type Field = (&'static str, Box<RawValue>);

/// A part, with what tells which view it is of.
struct Document {
    kind: &'static str,
    tick: u64,
    at: Moment,
    fields: Vec<Field>,
}

impl Serialize for Document {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { kind, tick, at, fields } = self;
        let head = [
            ("apiVersion", raw(API_VERSION)),
            ("kind", raw(kind)),
            ("tick", raw(tick)),
            ("at", raw(at)),
        ];
        to.collect_map(head.iter().chain(fields).map(|(name, value)| (name, value)))
    }
}

fn raw<T: Serialize + ?Sized>(value: &T) -> Box<RawValue> {
    to_raw_value(value)
        .expect("maps are keyed by numbers and closed enums, and writing to memory cannot fail")
}

impl Part {
    pub(super) const ALL: [Self; 8] = [
        Self::Snapshot,
        Self::Cgroups,
        Self::Matrix,
        Self::Conditions,
        Self::Decisions,
        Self::Allocatable,
        Self::Capabilities,
        Self::Summary,
    ];

    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Snapshot => "/api/v1/snapshot",
            Self::Cgroups => "/api/v1/cgroups",
            Self::Matrix => "/api/v1/matrix",
            Self::Conditions => "/api/v1/conditions",
            Self::Decisions => "/api/v1/decisions",
            Self::Allocatable => "/api/v1/allocatable",
            Self::Capabilities => "/api/v1/capabilities",
            Self::Summary => "/stats/summary",
        }
    }

    /// One line of JSON.
    pub(super) fn render(self, view: &View) -> Bytes {
        let snapshot = &view.snapshot;
        let (kind, fields) = match self {
            Self::Snapshot => return view.to_json(snapshot).into(),
            Self::Summary => return summary::render(view).into(),
            Self::Cgroups => ("Cgroups", vec![("scopes", raw(&snapshot.scopes))]),
            Self::Matrix => ("Matrix", matrix(view)),
            Self::Conditions => ("Conditions", conditions(view)),
            Self::Decisions => ("Decisions", decisions(view)),
            Self::Allocatable => ("Allocatable", allocatable(view)),
            Self::Capabilities => ("Capabilities", capabilities(view)),
        };
        let document = Document { kind, tick: snapshot.tick, at: snapshot.at, fields };
        serde_json::to_vec(&document).expect("every field is JSON already").into()
    }
}

fn matrix(view: &View) -> Vec<Field> {
    let snapshot = &view.snapshot;
    vec![("interval", raw(&snapshot.interval)), ("aggressions", raw(&snapshot.aggressions))]
}

fn conditions(view: &View) -> Vec<Field> {
    let assessment = &view.decision.assessment;
    vec![
        ("conditions", raw(&assessment.conditions)),
        ("taints", raw(&assessment.taints)),
        ("nodePressure", raw(&assessment.node_pressure)),
        ("refused", raw(&assessment.refused)),
    ]
}

fn decisions(view: &View) -> Vec<Field> {
    vec![("decision", raw(&view.decision)), ("explanation", raw(&view.explanation))]
}

fn allocatable(view: &View) -> Vec<Field> {
    let assessment = &view.decision.assessment;
    vec![
        ("limits", raw(&view.limits)),
        ("observations", raw(&assessment.observations)),
        ("unobserved", raw(&assessment.unobserved)),
        ("outlooks", raw(&assessment.outlooks)),
    ]
}

fn capabilities(view: &View) -> Vec<Field> {
    let snapshot = &view.snapshot;
    vec![
        ("capabilities", raw(&view.capabilities)),
        ("covers", raw(&snapshot.covers)),
        ("gaps", raw(&snapshot.gaps)),
        ("lost", raw(&snapshot.lost)),
    ]
}
