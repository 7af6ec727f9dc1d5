//! Decides whether a cgroup is idle, so that its pressure, `io.stat` and `memory.events` need not
//! be read: most cgroups of a node sleep most of the time, and these files are half of all reads.
//!
//! What is carried over is normally still true. A task that starts to wait must run first, which
//! shows in `usage_usec`; that counter covers the subtree, as the pressure totals do. A task that
//! waits on without running (for IO, asleep at `memory.high`, throttled) made a total grow in the
//! last reading, so its cgroup is not idle. Falling averages are read until that over ten seconds is
//! 0.00, which takes a minute and a half; those over one minute and five fall for half an hour more
//! and are then at most ten ticks old.
//!
//! Where the kernel side saw that nothing ran in the subtree, the other files are carried over too.
//! A sleeper's memory changes when it is reclaimed, which shows in its parent's `pgscan` and in the
//! node's, and is then read. What others free that was charged to it (a shared file, a page that was
//! written back) is seen at its next turn, within thirty ticks.
//!
//! The exceptions happen to a cgroup that does not run: a sleeper is woken and gets no CPU, a
//! waiting task is moved in, dirty pages are written back, protected memory is reclaimed (`low`),
//! pressure is switched off. They are seen late, at its next turn or when it next runs, but not
//! lost: all are counters or states. A cgroup in which one is seen to grow is read every tick. A
//! total that grew unseen for seconds may look too fast for its single interval.

use isobar_core::model::cgroup::Cgroup;
use isobar_core::model::psi::{Line, Pressures};
use isobar_core::model::units::{Micros, Percent};

/// The cgroup's CPU time if it was idle between the readings `before` and `now`: it stays idle for
/// as long as its CPU time stays the same. `None` if anything changed or is unknown.
pub(crate) fn idle_since(before: &Cgroup, now: &Cgroup) -> Option<Micros> {
    let totals = |pressure| lines(pressure).map(|line: Line| line.total);
    let is_unchanged = totals(&now.pressure).eq(totals(&before.pressure))
        && now.io == before.io
        && now.memory.events == before.memory.events;
    (is_unchanged && is_zero(&now.pressure)).then_some(now.cpu.usage).flatten()
}

/// Lines of all files.
fn lines(pressure: &Pressures) -> impl Iterator<Item = Line> {
    let Pressures { cpu, memory, io, irq } = *pressure;
    [cpu, memory, io, irq].into_iter().flatten().flat_map(|file| [file.some, file.full]).flatten()
}

/// Whether there is pressure to judge by, and all averages over ten seconds are 0.00.
fn is_zero(pressure: &Pressures) -> bool {
    pressure.cpu.is_some() && lines(pressure).all(|line| line.avg10 == Percent(0))
}

/// Copies what an idle cgroup's files contained in the last reading.
pub(crate) fn carry(last: &Cgroup, now: &mut Cgroup) {
    now.pressure = last.pressure;
    now.io = last.io;
    now.memory.events = last.memory.events;
}
