//! CPUs, and the core, socket and NUMA node of each.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::cpuset::CpuSet;

/// Where a CPU is. Numbers are unique on the whole machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuPlace {
    /// Number of the core's lowest CPU, as the kubelet numbers cores.
    pub core: u32,
    pub socket: u32,
    pub node: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    pub cpus: BTreeMap<u32, CpuPlace>,
}

impl Topology {
    /// CPUs without known topology: one core each, one socket.
    pub fn flat(cpus: &CpuSet) -> Self {
        let place = |cpu: &u32| (*cpu, CpuPlace { core: *cpu, ..CpuPlace::default() });
        Self { cpus: cpus.0.iter().map(place).collect() }
    }

    /// CPUs as the kernel reports them. It numbers cores within their socket, so socket and number
    /// together identify a core.
    pub fn of(places: &BTreeMap<u32, CpuPlace>) -> Self {
        let mut first = BTreeMap::new();
        let number = |(cpu, place): (&u32, &CpuPlace)| {
            let core = *first.entry((place.socket, place.core)).or_insert(*cpu);
            (*cpu, CpuPlace { core, ..*place })
        };
        Self { cpus: places.iter().map(number).collect() }
    }

    pub fn all(&self) -> CpuSet {
        CpuSet(self.cpus.keys().copied().collect())
    }

    /// The topology of these CPUs alone.
    pub fn only(&self, cpus: &CpuSet) -> Self {
        let kept = self.cpus.iter().filter(|(cpu, _)| cpus.0.contains(cpu));
        Self { cpus: kept.map(|(cpu, place)| (*cpu, *place)).collect() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// A line is not four numbers.
    #[error(
        "line {line}: expected `CPU,Core,Socket,Node` as `lscpu -p=CPU,Core,Socket,Node` prints, found {found:?}"
    )]
    Line { line: usize, found: String },
    /// Two lines name the same CPU.
    #[error("line {line}: CPU {cpu} is listed twice")]
    Twice { line: usize, cpu: u32 },
    /// No line names a CPU.
    #[error("no CPU found: expected what `lscpu -p=CPU,Core,Socket,Node` prints")]
    Empty,
}

/// Parses `lscpu -p=CPU,Core,Socket,Node`. A machine without NUMA has an empty last field.
impl FromStr for Topology {
    type Err = TopologyError;

    fn from_str(text: &str) -> Result<Self, TopologyError> {
        let mut places = BTreeMap::new();
        for (line, found) in (1..).zip(text.lines().map(str::trim)) {
            if found.is_empty() || found.starts_with('#') {
                continue;
            }
            let (cpu, place) = place(found).ok_or_else(|| TopologyError::Line {
                line,
                found: found.chars().take(80).collect(),
            })?;
            if places.insert(cpu, place).is_some() {
                return Err(TopologyError::Twice { line, cpu });
            }
        }
        if places.is_empty() {
            return Err(TopologyError::Empty);
        }
        Ok(Self::of(&places))
    }
}

fn place(line: &str) -> Option<(u32, CpuPlace)> {
    let mut fields = line.split(',');
    let mut number = || fields.next()?.trim().parse().ok();
    let (cpu, core, socket) = (number()?, number()?, number()?);
    let node = match fields.next()?.trim() {
        "" => 0,
        node => node.parse().ok()?,
    };
    // Plain `lscpu -p` adds the caches after an empty field.
    let is_whole = fields.next().is_none_or(str::is_empty);
    is_whole.then_some((cpu, CpuPlace { core, socket, node }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn topology_cores_by_socket() {
        let text = "# comment\n0,0,0,0\n1,0,1,1\n2,1,0,0\n3,0,0,0\n\n";
        let topology: Topology = text.parse().unwrap();
        let cores: Vec<_> = topology.cpus.values().map(|place| place.core).collect();
        assert_eq!(cores, [0, 1, 2, 0]);
        assert_eq!(topology.all().to_string(), "0-3");
        for text in ["0,0,0,\n", "0,0,0,,,0,0,0,0\n"] {
            assert_eq!(text.parse::<Topology>().unwrap().cpus[&0], CpuPlace::default(), "{text}");
        }
    }

    #[test]
    fn topology_refusal_names_the_line() {
        #[rustfmt::skip]
        let table = [
            // text, what is said
            ("",                       "no CPU found"),
            ("# only this\n",          "no CPU found"),
            ("0,0,0,0\n1,0,0\n",       "line 2"),
            ("0,0,0,0,0\n",            "line 1"),
            ("0,0,0,-1\n",             "line 1"),
            ("0,0,0,0\n0,0,0,0\n",     "line 2: CPU 0 is listed twice"),
        ];
        for (text, want) in table {
            let got = text.parse::<Topology>().unwrap_err().to_string();
            assert!(got.contains(want), "{text:?}: {got}");
        }
    }

    proptest! {
        #[test]
        fn topology_groups_hold_known_cpus(text in "([0-9]{1,2},?){0,9}\n?.{0,20}") {
            if let Ok(topology) = text.parse::<Topology>() {
                let all = topology.all();
                prop_assert!(topology.cpus.values().all(|place| all.0.contains(&place.core)));
                prop_assert_eq!(topology.only(&all), topology);
            }
        }
    }
}
