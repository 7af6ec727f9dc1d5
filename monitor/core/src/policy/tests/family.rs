//! What goes wrong on a generated node: pods of every class and size, and one or more that misbehave.

use super::node::{Growth, Kib, MIB, Node, Party};
use crate::model::pod::QosClass;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    LeakBestEffort,
    LeakBurstable,
    LeakWithinRequest,
    LeakToOwnLimit,
    SmallAndFast,
    TwoLeaks,
    Daemon,
    /// A daemon that the node could not do without.
    VitalDaemon,
    WarmUp,
    Sawtooth,
    NearLimit,
    SharedMemory,
    BurstThenLeak,
    /// Many pods of one owner, each too small to matter.
    Swarm,
    /// Bursts with pauses, instead of a steady growth.
    Bursts,
    /// A pod takes what it was promised while another one holds that.
    Promised,
    /// Beside a leak, a pod starts and warms up just as memory becomes short.
    WarmUpInShortage,
    /// Beside a leak, a heap fills and is emptied again and again.
    HeapBesideLeak,
    /// Beside a daemon that leaks, pods start and warm up one after the other.
    WarmUpsBesideDaemon,
    /// Memory runs short by a leak that takes some hundredths of a percent of it a second.
    SlowLeak,
    /// Beside a leak, a pod goes up and down by much of what is free.
    SwingBesideLeak,
}

impl Family {
    pub(super) const ALL: [Self; 21] = [
        Self::LeakBestEffort,
        Self::LeakBurstable,
        Self::LeakWithinRequest,
        Self::LeakToOwnLimit,
        Self::SmallAndFast,
        Self::TwoLeaks,
        Self::Daemon,
        Self::VitalDaemon,
        Self::WarmUp,
        Self::Sawtooth,
        Self::NearLimit,
        Self::SharedMemory,
        Self::BurstThenLeak,
        Self::Swarm,
        Self::Bursts,
        Self::Promised,
        Self::WarmUpInShortage,
        Self::HeapBesideLeak,
        Self::WarmUpsBesideDaemon,
        Self::SlowLeak,
        Self::SwingBesideLeak,
    ];
}

/// Numbers that look random and are the same in each run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn between(&mut self, low: Kib, high: Kib) -> Kib {
        low + (self.next() % (high - low + 1).max(1) as u64) as Kib
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[(self.next() % all.len() as u64) as usize]
    }
}

impl Node {
    pub(super) fn new(family: Family, seed: u64, memory: Kib) -> Self {
        let mut dice = Dice::new(seed * 31 + family as u64 * 7919);
        let base = dice.between(600, 1500) * MIB;
        let n = dice.of(&[5, 10, 20, 40, 80, 110]);
        let mut parties: Vec<Party> = Vec::new();
        let room = memory * dice.between(55, 85) / 100 - base;
        // A few large pods, many small ones.
        let weights: Vec<Kib> = (0..n).map(|_| 1_000_000 / dice.between(1_000, 100_000)).collect();
        let all: Kib = weights.iter().sum();
        for weight in weights {
            let held = (room * weight / all).max(4 * MIB);
            let class = dice.of(&[
                QosClass::BestEffort,
                QosClass::BestEffort,
                QosClass::Burstable,
                QosClass::Burstable,
                QosClass::Burstable,
                QosClass::Guaranteed,
            ]);
            let request = match class {
                QosClass::BestEffort => 0,
                QosClass::Burstable => held * dice.of(&[3, 7, 10, 13, 20]) / 10,
                QosClass::Guaranteed => held * 13 / 10,
            };
            let limit = match class {
                QosClass::Guaranteed => Some(request),
                QosClass::Burstable if dice.between(0, 1) == 0 => {
                    Some(held.max(request) * dice.between(11, 30) / 10)
                }
                _ => None,
            };
            parties.push(Party { class: Some(class), request, limit, ..steady(held) });
        }
        let free = memory - base - parties.iter().map(|party| party.held).sum::<Kib>();
        let rate = dice.of(&[5, 20, 60, 150, 400]) * MIB;
        let leak = |held: Kib, class, request: Kib, growth| Party {
            class: Some(class),
            request: request * MIB,
            growth,
            is_guilty: true,
            ..steady(held * MIB)
        };
        let (be, bu) = (QosClass::BestEffort, QosClass::Burstable);
        match family {
            Family::LeakBestEffort => {
                parties.push(leak(dice.between(20, 800), be, 0, Growth::Leak(rate)));
            }
            Family::LeakBurstable => {
                let request = dice.between(50, 300);
                parties.push(leak(dice.between(50, 800), bu, request, Growth::Leak(rate)));
            }
            Family::LeakWithinRequest => {
                let request = memory / MIB * 8 / 10;
                parties.push(leak(dice.between(50, 400), bu, request, Growth::Leak(rate)));
            }
            Family::LeakToOwnLimit => {
                let limit = Some(1000 * MIB);
                let pod = leak(300, QosClass::Guaranteed, 1000, Growth::Leak(rate));
                parties.push(Party { limit, ..pod });
            }
            Family::SmallAndFast => parties.push(leak(10, be, 0, Growth::Leak(rate))),
            Family::TwoLeaks => {
                parties.push(leak(50, be, 0, Growth::Leak(rate)));
                let other = rate * dice.between(3, 20) / 10;
                parties.push(leak(100, bu, 100, Growth::Leak(other)));
            }
            Family::Daemon | Family::VitalDaemon => {
                let name = if family == Family::Daemon { "leaky" } else { "containerd" };
                let path = format!("/system.slice/{name}.service");
                let daemon = leak(50, be, 0, Growth::Leak(rate));
                parties.push(Party { path, class: None, ..daemon });
            }
            Family::WarmUp => {
                let until = 50 * MIB + (free * dice.between(60, 97) / 100).min(free - 150 * MIB);
                let pod = leak(50, bu, 200, Growth::WarmUp(rate, until));
                parties.push(Party { is_guilty: false, ..pod });
            }
            Family::Sawtooth => {
                let until = 100 * MIB + (free * dice.between(60, 95) / 100).min(free - 250 * MIB);
                let pod = leak(100, bu, 100, Growth::Sawtooth(rate, until));
                parties.push(Party { is_guilty: false, ..pod });
            }
            Family::NearLimit => {
                let limit = Some(100 * MIB + free * dice.between(70, 98) / 100);
                parties.push(Party { limit, ..leak(100, bu, 100, Growth::Leak(rate)) });
            }
            Family::SharedMemory => {
                // Until the tmpfs is full.
                let until = 10 * MIB + free + dice.between(100, 1_000) * MIB;
                let pod = leak(10, be, 0, Growth::WarmUp(rate, until));
                parties.push(Party { is_shared: true, ..pod });
            }
            Family::BurstThenLeak => {
                let until = 50 * MIB + free * 6 / 10;
                let pod = leak(50, bu, 200, Growth::WarmUp(rate * 2, until));
                parties.push(Party { is_guilty: false, ..pod });
                parties.push(leak(10, be, 0, Growth::Leak(rate / 3)));
            }
            Family::Swarm => {
                let one = leak(5, be, 0, Growth::Leak(rate / 30));
                let one = Party { owner: Some("swarm"), ..one };
                parties.extend((0..30).map(|_| one.clone()));
            }
            Family::Promised => {
                // Whoever uses more than it requests holds what was promised.
                parties.iter_mut().for_each(|one| one.is_guilty = one.held > one.request);
                let (held, request) = (free * 6 / 10, free / 10);
                parties.push(leak(held / MIB, bu, request / MIB, Growth::Steady));
                let until = free - held + (held - request) / 2;
                let pod = leak(10, bu, until / MIB, Growth::WarmUp(rate, until * 95 / 100));
                parties.push(Party { is_guilty: false, ..pod });
            }
            Family::WarmUpInShortage | Family::HeapBesideLeak => {
                let rate = free / dice.between(30, 80);
                parties.push(leak(dice.between(20, 200), be, 0, Growth::Leak(rate)));
                let growth = match family {
                    Family::HeapBesideLeak => Growth::Heap(rate * 3 / 2),
                    _ => Growth::WhenLow(rate * 14 + 100 * MIB, rate * 4, 20 * MIB + rate * 12),
                };
                let pod = leak(20, bu, 20, growth);
                parties.push(Party { is_guilty: false, ..pod });
            }
            Family::WarmUpsBesideDaemon => {
                let rate = free / dice.between(40, 90);
                let daemon = leak(50, be, 0, Growth::Leak(rate));
                let path = "/system.slice/leaky.service".to_owned();
                parties.push(Party { path, class: None, ..daemon });
                for nth in 1..=3 {
                    let from = 15_000 + nth * dice.between(4_000, 15_000) as u64;
                    let until = free / 8;
                    let growth = Growth::WarmUpLater(from, rate * dice.between(5, 40) / 10, until);
                    let class = dice.of(&[be, bu]);
                    let request = if class == be { 0 } else { until / MIB + 1 };
                    parties.push(Party { is_guilty: false, ..leak(5, class, request, growth) });
                }
            }
            Family::SlowLeak => {
                let held = memory / MIB / dice.between(10, 40);
                let class = dice.of(&[be, bu]);
                parties.push(leak(
                    held,
                    class,
                    0,
                    Growth::Leak(memory / dice.between(9_000, 16_000)),
                ));
                // The largest, and it takes nothing.
                let spare = 100 * MIB + memory / dice.between(120, 160);
                let large = free - held * MIB - spare;
                parties
                    .push(Party { is_guilty: false, ..leak(large / MIB, be, 0, Growth::Steady) });
            }
            Family::SwingBesideLeak => {
                let leaks = Growth::Leak(free / dice.between(60, 140));
                parties.push(leak(100, dice.of(&[be, bu]), 0, leaks));
                let most = free * dice.between(30, 55) / 100;
                let swings = Growth::Swing(most, dice.of(&[14_000, 20_000, 30_000, 40_000]));
                let class = dice.of(&[be, bu]);
                parties.push(Party { is_guilty: false, ..leak(20, class, 0, swings) });
            }
            Family::Bursts => {
                parties.push(leak(dice.between(20, 200), bu, 20, Growth::Bursts(rate * 2)));
            }
        }
        for (at, party) in parties.iter_mut().enumerate() {
            let slice = match party.class {
                Some(QosClass::BestEffort) => "/kubepods/besteffort",
                Some(QosClass::Burstable) => "/kubepods/burstable",
                Some(QosClass::Guaranteed) => "/kubepods",
                None => continue,
            };
            party.path = format!("{slice}/pod{at}");
        }
        Self { dice, has_api: seed % 2 == 1, ..Self::of(memory, base, parties) }
    }
}

pub(super) fn steady(held: Kib) -> Party {
    Party {
        path: String::new(),
        class: None,
        owner: None,
        request: 0,
        limit: None,
        held,
        at_start: held,
        growth: Growth::Steady,
        is_shared: false,
        n_helpers: 0,
        n_alike: 1,
        is_guilty: false,
        is_critical: false,
        is_marked: false,
        is_squeezed: false,
        n_restarts: 0,
        n_oom_kills: 0,
        back: None,
        is_gone: false,
    }
}
