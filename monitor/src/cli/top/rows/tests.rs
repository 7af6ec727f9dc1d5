use isobar_core::model::cgroup::{Cgroup, CgroupPath};
use isobar_core::model::psi::{Line, Pressure, Pressures};
use isobar_core::model::snapshot::{CpuWait, Union, Waited};
use isobar_core::model::units::MilliCpu;

use super::*;

/// a.slice/{a.service, b.service}, c.service; CPUs used in thousandths.
fn node() -> Snapshot {
    let scope = |path: &str, parent: Option<u64>, cpus: Option<u64>| Scope {
        path: CgroupPath(path.into()),
        parent: parent.map(CgroupId),
        cpu_usage: cpus.map(MilliCpu),
        ..Scope::default()
    };
    let scopes = [
        (CgroupId(1), scope("/a.slice", Some(99), Some(300))),
        (CgroupId(2), scope("/a.slice/a.service", Some(1), Some(100))),
        (CgroupId(3), scope("/a.slice/b.service", Some(1), Some(200))),
        (CgroupId(4), scope("/c.service", Some(99), None)),
    ];
    Snapshot { scopes: scopes.into(), ..Snapshot::default() }
}

#[test]
fn rows_are_sorted_filtered_and_folded() {
    let list = |sort, is_tree, filter: &str| List {
        sort,
        is_tree,
        filter: filter.into(),
        ..List::default()
    };
    let folded = List { folded: [CgroupId(1)].into(), ..list(Column::Cpus, true, "") };
    let reversed = List { is_reversed: true, ..list(Column::Name, false, "") };
    let three = List { shows_all: true, most: Some(3), ..list(Column::Cpus, false, "") };
    #[rustfmt::skip]
    let table: [(List, &[u64]); 8] = [
        // list, ids
        (list(Column::Cpus, false, ""),        &[3, 2, 4]), // not known comes last
        (list(Column::Name, false, ""),        &[2, 3, 4]),
        (reversed,                             &[4, 3, 2]),
        (list(Column::Cpus, false, "B.SERV"),  &[3]),
        (list(Column::Cpus, true, ""),         &[1, 3, 2, 4]),
        (list(Column::Cpus, true, "b.serv"),   &[1, 3]),    // and what stands above it
        (folded,                               &[1, 4]),
        (three,                                &[1, 3, 2]),
    ];
    let node = View { snapshot: node(), ..View::default() };
    for (list, want) in table {
        let got: Vec<_> = list.rows(&node).iter().map(|row| row.id.0).collect();
        assert_eq!(got, want, "{list:?}");
    }
}

/// Services of which each has most of one figure.
fn most_of_one_each() -> Snapshot {
    let share = |n: u64, of: u64| Percent(if n == of { 50_00 } else { 1_00 });
    let psi = |n, of| {
        let line = Line { avg10: share(n, of), ..Line::default() };
        Some(Pressure { some: Some(line), ..Pressure::default() })
    };
    let waited = |n: u64, of: u64| {
        let now = if n == of { Nanos(2) } else { Nanos(1) };
        Some(Waited { now, ..Waited::default() })
    };
    let scope = |n: u64| {
        let mut files = Cgroup::default();
        files.memory.current = Some(if n == 5 { Bytes(2) } else { Bytes(1) });
        let scope = Scope {
            path: CgroupPath(format!("/{n}.service").into()),
            parent: Some(CgroupId(99)),
            contention: Some(Union { avg10: share(n, 1), ..Union::default() }),
            cpu: Some(CpuWait {
                throttled_own: waited(n, 2),
                throttled_ancestor: waited(n, 2),
                ..CpuWait::default()
            }),
            pressure: Pressures { memory: psi(n, 3), io: psi(n, 4), ..Pressures::default() },
            files: Some(files.into()),
            ..Scope::default()
        };
        (CgroupId(n), scope)
    };
    Snapshot { scopes: (1..=5).map(scope).collect(), ..Snapshot::default() }
}

#[test]
fn rows_are_sorted_by_each_figure() {
    let node = View { snapshot: most_of_one_each(), ..View::default() };
    #[rustfmt::skip]
    let table = [
        // column, the first of the rows
        (Column::Contention, 1),
        (Column::Throttled,  2),
        (Column::Memory,     3),
        (Column::Io,         4),
        (Column::Held,       5),
    ];
    for (sort, first) in table {
        for is_reversed in [false, true] {
            let list = List { sort, is_reversed, ..List::default() };
            let rows = list.rows(&node);
            let found = if is_reversed { rows.last() } else { rows.first() };
            assert_eq!(found.map(|row| row.id.0), Some(first), "{list:?}");
        }
    }
}

#[test]
fn fitting_leaves_room_for_names() {
    #[rustfmt::skip]
    let table = [
        // columns of the terminal, sorted by, columns of the list, of the name
        (200, Column::Lead,      10, 128),
        (80,  Column::Moved,     8, 26),
        (80,  Column::Lead,      8, 26),
        (80,  Column::Throttled, 8, 24),
        (60,  Column::Lead,      5, 28),
        (60,  Column::Io,        5, 28),
        (40,  Column::Lead,      3, 22),
        (40,  Column::Held,      4, 14),
        (5,   Column::Lead,      3, 0),
    ];
    for (width, sorted, n, name) in table {
        let (columns, left) = Column::fitting(width, sorted);
        assert_eq!((columns.len(), left), (n, name), "{width} {columns:?}");
        assert!(columns.contains(&sorted), "{width} {columns:?}");
    }
}
