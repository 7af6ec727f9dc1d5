//! What must come of a scenario: a table of typed fields. What is not said is not judged.

use std::fmt;

use isobar_core::model::condition::ConditionName;
use serde::{Deserialize, Deserializer, de};
use toml::Spanned;

use super::figure::Figure;
use crate::amount::{Quantity, Seconds, Unit};

/// What must come of a scenario.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Expect {
    /// One of these pods must be killed, and nothing else.
    pub(crate) act: Vec<Spanned<String>>,
    /// These may be killed, and nothing else.
    pub(crate) may: Vec<Spanned<String>>,
    /// Nothing may be killed.
    pub(crate) no_kill: bool,
    /// By when the first victim must be dead, since the onset.
    pub(crate) within: Option<Seconds>,
    /// Of each victim nothing is left in the end.
    pub(crate) whole: bool,
    /// How many may lose processes.
    pub(crate) victims: Option<usize>,
    /// How many kills by the kernel there may be.
    pub(crate) oom_kills: Option<u64>,
    /// By when the node must have recovered: since the first kill, or the onset without one.
    pub(crate) recover: Option<Seconds>,
    /// How many times its idle 99th percentile the bystander's may be.
    pub(crate) slower: Option<f64>,
    /// No condition of the node may become true.
    pub(crate) no_condition: bool,
    /// These must become true.
    pub(crate) conditions: Vec<Condition>,
    /// These may not.
    pub(crate) conditions_false: Vec<Condition>,
    /// What the agent must have said in its explanation.
    pub(crate) says: Vec<String>,
    /// What it may not have said.
    pub(crate) never_says: Vec<String>,
    /// `memory.high`, `memory.max`, `cpu.weight` and `io.weight` of all pods are what they were.
    pub(crate) limits_restored: bool,
    /// How long the agent may take until it is ready.
    pub(crate) ready: Option<Seconds>,
    /// How long it may take to leave, after a SIGTERM.
    pub(crate) leaves: Option<Seconds>,
    /// How much of one CPU the agent may take.
    pub(crate) agent_cpu: Option<f64>,
    /// What must have been written to the API server, in this order: parts of lines, as the report
    /// has them.
    pub(crate) requests: Vec<String>,
    /// What may not have been.
    pub(crate) never_requests: Vec<String>,
    /// Incidents that it must tell of once it has left and was started again, oldest first: parts of
    /// lines as the report has them, with ` .. ` between the parts of one line.
    pub(crate) incidents: Vec<String>,
    /// What no incident may say.
    pub(crate) never_incidents: Vec<String>,
    /// These alerts fire over what it serves at `/metrics`, and no other; empty: none may.
    pub(crate) alerts: Option<Vec<String>>,
    /// What the agent must have measured.
    pub(crate) figures: Vec<Spanned<Claim>>,
}

impl Expect {
    pub(super) fn judges_something(&self) -> bool {
        let kills = self.no_kill || !self.act.is_empty() || !self.may.is_empty();
        let counts = self.victims.is_some() || self.oom_kills.is_some() || self.recover.is_some();
        let said = self.no_condition || !self.conditions.is_empty() || !self.says.is_empty();
        let agent = self.agent_cpu.is_some() || self.ready.is_some() || self.leaves.is_some();
        let measured = agent || !self.figures.is_empty();
        kills || counts || said || measured || self.limits_restored || self.alerts.is_some()
    }

    pub(crate) fn asks_for_incidents(&self) -> bool {
        !self.incidents.is_empty() || !self.never_incidents.is_empty()
    }

    /// Pods, services and cgroups that may lose processes.
    pub(crate) fn allowed(&self) -> impl Iterator<Item = &Spanned<String>> {
        self.act.iter().chain(&self.may)
    }
}

/// A condition of the node, by its type as KEP-4205 has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Condition(pub(crate) ConditionName);

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let found = ConditionName::ALL.into_iter().find(|name| name.name() == text);
        found.map(Self).ok_or_else(|| de::Error::custom(format!("no condition is called {text:?}")))
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One figure and what it must be: `{ figure = .., above = "5%", of = .. }`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "RawClaim")]
pub(crate) struct Claim {
    pub(crate) figure: Figure,
    pub(crate) relation: Relation,
    /// Shares are of this figure; without it, of one.
    pub(crate) of: Option<Figure>,
}

/// How a figure is compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Relation {
    Above(Quantity),
    Below(Quantity),
    Equals(Quantity),
    /// No further from the amount than this: a share of it, or as much as this itself.
    About(Quantity, Quantity),
    /// The agent does not know the figure, and says so by leaving it out.
    Unknown,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawClaim {
    figure: Figure,
    of: Option<Figure>,
    above: Option<Quantity>,
    below: Option<Quantity>,
    equals: Option<Quantity>,
    about: Option<Quantity>,
    within: Option<Quantity>,
    #[serde(default)]
    unknown: bool,
}

impl TryFrom<RawClaim> for Claim {
    type Error = String;

    fn try_from(raw: RawClaim) -> Result<Self, String> {
        let RawClaim { figure, of, above, below, equals, about, within, unknown } = raw;
        let relation = match (above, below, equals, about.zip(within), unknown) {
            (Some(amount), None, None, None, false) => Relation::Above(amount),
            (None, Some(amount), None, None, false) => Relation::Below(amount),
            (None, None, Some(amount), None, false) => Relation::Equals(amount),
            (None, None, None, Some((amount, by)), false) => Relation::About(amount, by),
            (None, None, None, None, true) => Relation::Unknown,
            _ => {
                let one = "`above`, `below`, `equals`, `about` with `within`, `unknown`";
                return Err(format!("expected exactly one of {one}"));
            }
        };
        if about.is_some() != within.is_some() {
            return Err("`about` and `within` belong together".into());
        }
        let claim = Self { figure, relation, of };
        claim.check_units()?;
        Ok(claim)
    }
}

impl Claim {
    fn check_units(&self) -> Result<(), String> {
        let unit = self.figure.unit();
        let wanted = match &self.of {
            Some(of) if of.unit() != unit => {
                return Err(format!("the figure is {unit}, and that of `of` is {}", of.unit()));
            }
            Some(_) => Unit::Share,
            None => unit,
        };
        let (amount, by) = match self.relation {
            Relation::Above(amount) | Relation::Below(amount) | Relation::Equals(amount) => {
                (amount, None)
            }
            Relation::About(amount, by) => (amount, Some(by)),
            Relation::Unknown => return Ok(()),
        };
        if amount.unit != wanted {
            return Err(format!("expected {wanted}, found {}", amount.unit));
        }
        match by {
            Some(by) if by.unit != Unit::Share && by.unit != unit => {
                Err(format!("the figure is {unit}, and `within` is {}", by.unit))
            }
            _ => Ok(()),
        }
    }

    /// True if what was read fits. `of` is 1 where there is no other figure.
    pub(crate) fn holds(&self, read: Option<f64>, of: f64) -> bool {
        let Some(read) = read else { return self.relation == Relation::Unknown };
        match self.relation {
            Relation::Above(amount) => read > amount.value * of,
            Relation::Below(amount) => read < amount.value * of,
            Relation::Equals(amount) => read == amount.value * of,
            Relation::About(amount, by) => {
                let amount = amount.value * of;
                let by = if by.unit == Unit::Share { by.value * amount.abs() } else { by.value };
                (read - amount).abs() <= by
            }
            Relation::Unknown => false,
        }
    }
}
