//! Which cgroups are listed, in which order, under which name: as a list or as the tree that they
//! are.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use isobar_core::model::cgroup::CgroupId;
use isobar_core::model::pod::Place;
use isobar_core::model::snapshot::{IoRate, Scope, Snapshot, working_set};
use isobar_core::model::units::{Bytes, Nanos, Percent};
use isobar_core::view::View;
use isobar_core::view::lead::{Lead, lead};
use isobar_core::view::waiting::{Level, name, waiting_most, worst_share};

use super::figures::{amount, cores, or_dash, percent, some, throttled, time, union};
use super::trail::shares;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Column {
    Name,
    /// What the headline ranks by.
    #[default]
    Lead,
    Wait,
    Cpus,
    Contention,
    Throttled,
    Memory,
    Io,
    Held,
    /// Read from devices and written to them.
    Moved,
}

/// Names are not shortened below this while another column can be left out.
const SHORTEST_NAME: usize = 24;

impl Column {
    pub(super) const ALL: [Self; 10] = [
        Self::Name,
        Self::Lead,
        Self::Wait,
        Self::Cpus,
        Self::Contention,
        Self::Throttled,
        Self::Memory,
        Self::Io,
        Self::Moved,
        Self::Held,
    ];

    /// In the order in which columns are left out where there is no room.
    const LESS: [Self; 7] = [
        Self::Moved,
        Self::Throttled,
        Self::Held,
        Self::Contention,
        Self::Io,
        Self::Memory,
        Self::Cpus,
    ];

    pub(super) fn heading(self, by: Lead) -> &'static str {
        match self {
            Self::Name => "NAME",
            Self::Lead => match by {
                Lead::Took => "TOOK",
                Lead::Lost => "LOST/s",
                Lead::MemoryWait => "MEM-WAIT/s",
                Lead::IoWait => "IO-WAIT/s",
            },
            Self::Wait => "WAIT%",
            Self::Cpus => "CPUS",
            Self::Contention => "CONT%",
            Self::Throttled => "THROTTLED",
            Self::Memory => "MEM%",
            Self::Io => "IO%",
            Self::Held => "MEMORY",
            Self::Moved => "DISK/s",
        }
    }

    /// The width of its widest usual value; the name has what is left.
    pub(super) fn width(self) -> usize {
        match self {
            Self::Name => SHORTEST_NAME,
            Self::Lead => 10,
            Self::Wait | Self::Cpus | Self::Contention | Self::Memory | Self::Io => 6,
            Self::Throttled => 9,
            Self::Held | Self::Moved => 7,
        }
    }

    /// The columns that fit, among them the one that rows are sorted by, and the width that is left
    /// for the name.
    pub(super) fn fitting(width: usize, sorted: Self) -> (Vec<Self>, usize) {
        let mut columns = Self::ALL.to_vec();
        let others = |columns: &[Self]| -> usize {
            columns.iter().filter(|one| **one != Self::Name).map(|one| one.width() + 1).sum()
        };
        for less in Self::LESS.into_iter().filter(|less| *less != sorted) {
            if others(&columns) + SHORTEST_NAME <= width {
                break;
            }
            columns.retain(|column| *column != less);
        }
        let name = width.saturating_sub(others(&columns));
        (columns, name)
    }

    pub(super) fn cell(self, row: &Row<'_>) -> String {
        let scope = row.scope;
        match self {
            Self::Name => name(scope),
            Self::Lead => or_dash(row.lead.clone()),
            Self::Cpus => cores(scope.cpu_usage),
            Self::Throttled => time(throttled(scope)),
            Self::Held => amount(held(scope)),
            Self::Moved => amount(scope.io.map(IoRate::bytes)),
            Self::Wait | Self::Contention | Self::Memory | Self::Io => percent(self.share(scope)),
        }
    }

    /// What stands in it, if that is a share of time.
    pub(super) fn share(self, scope: &Scope) -> Option<Percent> {
        match self {
            Self::Wait => shares(scope).iter().any(Option::is_some).then(|| worst_share(scope)),
            Self::Contention => union(scope.contention),
            Self::Memory => some(scope.pressure.memory),
            Self::Io => some(scope.pressure.io),
            Self::Name | Self::Lead | Self::Cpus | Self::Throttled | Self::Held | Self::Moved => {
                None
            }
        }
    }

    /// What it is sorted by, largest first; what is not known comes last.
    fn key(self, scope: &Scope) -> Option<u64> {
        match self {
            Self::Cpus => scope.cpu_usage.map(|cpus| cpus.0),
            Self::Throttled => throttled(scope).map(|Nanos(time)| time),
            Self::Held => held(scope).map(|Bytes(n)| n),
            Self::Moved => scope.io.map(|rate| rate.bytes().0),
            Self::Name | Self::Lead => None,
            Self::Wait | Self::Contention | Self::Memory | Self::Io => {
                self.share(scope).map(|Percent(share)| share.into())
            }
        }
    }

    /// The next one to the right or left, round about.
    pub(super) fn beside(self, by: usize) -> Self {
        let at = Self::ALL.iter().position(|one| *one == self).unwrap_or(0);
        Self::ALL[(at + by) % Self::ALL.len()]
    }
}

/// The working set, or all that is charged where that cannot be told.
fn held(scope: &Scope) -> Option<Bytes> {
    let files = scope.files.as_ref()?;
    working_set(files).or(files.memory.current)
}

/// How the operator wants the list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct List {
    pub(super) sort: Column,
    pub(super) is_reversed: bool,
    pub(super) is_tree: bool,
    /// Slices and containers too.
    pub(super) shows_all: bool,
    pub(super) filter: String,
    /// Branches of the tree of which only the root is shown.
    pub(super) folded: BTreeSet<CgroupId>,
    pub(super) most: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row<'a> {
    pub(super) id: CgroupId,
    pub(super) scope: &'a Scope,
    /// In the tree; 0 in a list.
    pub(super) depth: usize,
    /// `Some` for a branch of the tree.
    pub(super) is_folded: Option<bool>,
    /// What stands in [`Column::Lead`]; `None` for what the headline does not rank.
    pub(super) lead: Option<String>,
}

impl Row<'_> {
    /// The name in its place: in the tree what stands above it says the rest.
    pub(super) fn name(&self, is_tree: bool) -> String {
        if !is_tree {
            return name(self.scope);
        }
        let own = match &self.scope.place {
            Place::Other if self.scope.name.is_none() => {
                self.scope.path.segments().next_back().unwrap_or("/").to_owned()
            }
            _ => name(self.scope),
        };
        let mark = match self.is_folded {
            Some(true) => "+ ",
            Some(false) => "- ",
            None => "  ",
        };
        format!("{}{mark}{own}", "  ".repeat(self.depth))
    }
}

impl List {
    /// Beside the heading of the sorted column: whether its figures, or names, fall or rise downwards.
    pub(super) fn sign(&self) -> char {
        let do_fall = (self.sort == Column::Name) == self.is_reversed;
        if do_fall { '▼' } else { '▲' }
    }

    pub(super) fn rows<'a>(&self, view: &'a View) -> Vec<Row<'a>> {
        let snapshot = &view.snapshot;
        let (by, ranked) = lead(view);
        let level = if self.is_tree || self.shows_all { Level::All } else { Level::Units };
        let mut sorted = waiting_most(snapshot, level, usize::MAX);
        match self.sort {
            Column::Wait => {}
            Column::Lead => {
                let places = places(snapshot, &ranked);
                sorted.sort_by_key(|(id, _)| places.get(id).copied().unwrap_or(usize::MAX));
            }
            Column::Name => sorted.sort_by_cached_key(|(_, scope)| name(scope)),
            column => sorted.sort_by_cached_key(|(_, scope)| Reverse(column.key(scope))),
        }
        if self.is_reversed {
            sorted.reverse();
        }
        let mut rows = if self.is_tree {
            self.tree(snapshot, sorted)
        } else {
            let shown = sorted.into_iter().filter(|(_, scope)| self.finds(scope));
            let row = |(id, scope)| Row { id, scope, depth: 0, is_folded: None, lead: None };
            shown.map(row).collect()
        };
        rows.truncate(self.most.unwrap_or(usize::MAX));
        let figures: BTreeMap<_, _> = ranked.into_iter().collect();
        for row in &mut rows {
            row.lead = figures.get(&row.id).map(|n| match by {
                Lead::Took => amount(Some(Bytes(*n))),
                Lead::Lost | Lead::MemoryWait | Lead::IoWait => time(Some(Nanos(*n))),
            });
        }
        rows
    }

    fn finds(&self, scope: &Scope) -> bool {
        let wanted = self.filter.to_lowercase();
        let holds = |text: &str| text.to_lowercase().contains(&wanted);
        wanted.is_empty() || holds(&scope.path.0) || holds(&name(scope))
    }

    /// Each branch below its root, siblings in the order of `sorted`; of a filter also what stands
    /// above.
    fn tree<'a>(&self, snapshot: &'a Snapshot, sorted: Vec<(CgroupId, &'a Scope)>) -> Vec<Row<'a>> {
        let above = |id: &CgroupId| snapshot.scopes.get(id)?.parent;
        let mut found = BTreeSet::new();
        for (id, _) in sorted.iter().filter(|(_, scope)| self.finds(scope)) {
            let mut next = Some(*id);
            while let Some(id) = next.filter(|id| found.insert(*id)) {
                next = above(&id);
            }
        }
        let mut below = BTreeMap::<Option<CgroupId>, Vec<(CgroupId, &Scope)>>::new();
        for (id, scope) in sorted.into_iter().filter(|(id, _)| found.contains(id)) {
            let parent = scope.parent.filter(|parent| snapshot.scopes.contains_key(parent));
            below.entry(parent).or_default().push((id, scope));
        }
        // A stack, not a call for each level: the tree is as deep as any user makes it.
        let mut rows = Vec::new();
        let mut open = below.remove(&None).unwrap_or_default();
        open.reverse();
        let mut open: Vec<_> = open.into_iter().map(|(id, scope)| (id, scope, 0)).collect();
        while let Some((id, scope, depth)) = open.pop() {
            let children = below.remove(&Some(id));
            let is_folded = children.is_some().then(|| self.folded.contains(&id));
            rows.push(Row { id, scope, depth, is_folded, lead: None });
            let children = children.filter(|_| is_folded == Some(false)).unwrap_or_default();
            open.extend(children.into_iter().rev().map(|(id, scope)| (id, scope, depth + 1)));
        }
        rows
    }
}

/// The place of each cgroup among what the headline ranks; a branch has that of its first cgroup.
fn places(snapshot: &Snapshot, ranked: &[(CgroupId, u64)]) -> BTreeMap<CgroupId, usize> {
    let mut places = BTreeMap::new();
    for (place, (id, _)) in ranked.iter().enumerate() {
        let mut next = Some(*id);
        // What stands above a branch that has its place has one, too.
        while let Some(id) = next.filter(|id| !places.contains_key(id)) {
            places.insert(id, place);
            next = snapshot.scopes.get(&id).and_then(|scope| scope.parent);
        }
    }
    places
}

#[cfg(test)]
mod tests;
