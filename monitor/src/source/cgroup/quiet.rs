//! Tells when a cgroup is so quiet that its pressure, `io.stat` and `memory.events` stay as they
//! were: most cgroups of a node sleep most of the time, and these are half of what is read.
//!
//! As a rule what is carried over is still true. Whoever starts to wait has to run first, which
//! shows in `usage_usec`, the subtree's as the totals are. Whoever goes on waiting without running
//! (for IO, asleep at `memory.high`, throttled) made a total grow in the reading before, which is
//! then no quiet one.
//! Averages that still fall are followed until they are 0.00.
//!
//! The exceptions happen to a cgroup that does not run: a sleeper is woken and gets no CPU, a
//! waiting task is moved in, dirty pages are written back, protected memory is reclaimed (`low`),
//! pressure is switched off. They are seen late, at its next turn or when it next runs, and not
//! lost: all are counts since the beginning, or states. Once one is seen to grow it is read each
//! tick. A total that grew unseen for seconds may be doubted as too fast for its one interval.

use isobar_core::model::cgroup::Cgroup;
use isobar_core::model::psi::{Line, Pressures};
use isobar_core::model::units::{Micros, Percent};

/// The CPU time at which the cgroup stood still: as long as it stays the same, so does the rest.
/// `None` if anything moved between the reading `before` and `now`, or is not known.
pub(crate) fn still_at(before: &Cgroup, now: &Cgroup) -> Option<Micros> {
    let stood_still = now.pressure == before.pressure
        && now.io == before.io
        && now.memory.events == before.memory.events;
    (stood_still && is_zero(&now.pressure)).then_some(now.cpu.usage).flatten()
}

/// Whether there is pressure to go by, and all its averages are 0.00.
fn is_zero(pressure: &Pressures) -> bool {
    let Pressures { cpu, memory, io, irq } = pressure;
    let lines =
        [cpu, memory, io, irq].into_iter().flatten().flat_map(|file| [file.some, file.full]);
    let averages = |line: Line| [line.avg10, line.avg60, line.avg300];
    cpu.is_some() && lines.flatten().flat_map(averages).all(|average| average == Percent(0))
}

/// Takes over what a quiet cgroup's files said.
pub(crate) fn carry(last: &Cgroup, now: &mut Cgroup) {
    now.pressure = last.pressure;
    now.io = last.io;
    now.memory.events = last.memory.events;
}
