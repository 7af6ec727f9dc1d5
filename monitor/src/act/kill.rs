//! Ends all processes of a cgroup at once.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::process::Signal;

use super::cgroup::{Group, write_all};
use super::failure::Failure;
use super::process::{Held, hold};

/// Rounds of signals in which a cgroup that forks must become empty.
const ROUNDS: usize = 32;
/// Processes held at once in such a round.
const MOST: usize = 256;

/// The file that ends a cgroup, opened before it is needed.
pub(super) fn door(group: &Group) -> Result<OwnedFd, Failure> {
    let door = group.file("cgroup.kill", OFlags::WRONLY);
    door.map_err(|why| group.unwritten("cgroup.kill", "1", why))
}

/// Ends all processes in and below `group`; what was done, in words.
///
/// Linux 5.14+ does it at once, whoever forks meanwhile, and in a frozen cgroup as well. Where
/// that is not to be had, each process is signalled until none is left.
pub(super) fn kill(
    proc: &Path,
    group: &Group,
    door: Option<&OwnedFd>,
) -> Result<&'static str, Failure> {
    let written = match door {
        Some(door) => write_all(door, "1").map_err(|why| group.unwritten("cgroup.kill", "1", why)),
        None => group.write("cgroup.kill", "1"),
    };
    match written {
        Ok(()) => Ok("cgroup.kill"),
        Err(failure @ Failure::Gone(_)) => Err(failure),
        Err(first) => one_by_one(proc, group).map_err(|second| match second {
            Failure::Signal { .. } | Failure::Hidden { .. } => {
                Failure::Told(format!("{first}; {second}"))
            }
            other => other,
        }),
    }
}

/// Ends what is there, and what that has forked meanwhile.
fn one_by_one(proc: &Path, group: &Group) -> Result<&'static str, Failure> {
    // A frozen process takes the signal, but one that is thawed dies sooner. Where nothing is
    // frozen, or nothing may be written, this changes nothing.
    let is_frozen = group.read("cgroup.freeze").is_ok_and(|text| text == "1");
    if is_frozen && group.write("cgroup.freeze", "0").is_err() {
        tracing::debug!(cgroup = %group.path, "stays frozen");
    }
    let mut dying: Vec<Held> = Vec::new();
    for _ in 0..ROUNDS {
        dying.retain(|held| !held.has_ended());
        let known = dying.len();
        let listed = hold(proc, group, &mut dying, known + MOST)?;
        if listed.hidden > 0 {
            return Err(Failure::Hidden { path: group.path.clone(), n: listed.hidden });
        }
        let mut refused = listed.refused.filter(|_| dying.len() == known);
        for held in &dying[known..] {
            if let Err(why) = held.send(Signal::KILL) {
                refused = Some(Failure::Signal { path: group.path.clone(), pid: held.pid, why });
            }
        }
        match refused {
            Some(failure) => return Err(failure),
            None if dying.len() == known => break,
            None => {}
        }
    }
    Ok("SIGKILL to each")
}
