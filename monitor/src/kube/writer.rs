//! Keeps the node's object as it should be: isobar's conditions and taints.
//! Written on a change and as a heartbeat, never more than once a second; what others write is left
//! alone.

use std::collections::BTreeSet;
use std::mem::replace;
use std::pin::pin;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeCondition;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use super::board::{Board, Report};
use super::client::{Failure, answered};
use super::jitter::about;
use super::managed::{MANAGER, foreign, own};
use super::node::Node;
use super::pace::{Pace, after};
use super::{Wanted, conditions, node, taints};
use crate::clock;
use crate::config::kubernetes::{Access, AtExit, Publish};
use isobar_core::model::decision::Taint;
use isobar_core::model::units::Nanos;

/// How often an unchanged condition is written: as the kubelet does, `nodeStatusReportFrequency`.
const HEARTBEAT: Duration = Duration::from_secs(300);
/// A condition of another writer whose heartbeat is older than this has been given up.
const GIVEN_UP: i64 = 900;
/// A list of taints that others change at the same time is read and written again so often.
const CONFLICTS: usize = 3;

/// How far the last taints go ahead of the last conditions: a write of the node between their reading
/// and their writing would have them read anew.
const HEAD_START: Duration = Duration::from_millis(600);
/// How long the node is read for before that, at most: the last word has 1.5 s.
const READ_WITHIN: Duration = Duration::from_millis(500);

/// The names of these parts in capabilities.
const CONDITIONS: &str = "node conditions";
const TAINTS: &str = "node taints";
const TAINTING: &str = "allow it to get and patch nodes";

/// Writes until the agent leaves.
pub(super) async fn keep(
    client: Client,
    access: &Access,
    mut wanted: watch::Receiver<Wanted>,
    board: &Board,
) {
    let (to_live, mut live) = watch::channel(None);
    let mut leaving = wanted.clone();
    let mut writer = Writer::new(node::api(client.clone()), &access.node, board);
    let writing = async {
        loop {
            tokio::select! {
                changed = wanted.changed() => if changed.is_err() { return },
                changed = live.changed() => {
                    if changed.is_err() { return }
                    writer.live = live.borrow_and_update().clone();
                }
            }
            let wanted = wanted.borrow_and_update().clone();
            if wanted.is_last {
                return writer.last_word(&wanted).await;
            }
            tokio::select! {
                () = writer.write(&wanted) => {}
                // What hangs would take the time of the last word.
                _ = leaving.wait_for(|wanted| wanted.is_last) => {}
            }
        }
    };
    tokio::select! {
        () = node::watch(client, &access.node, &to_live, board) => {}
        () = writing => {}
    }
}

struct Writer<'a> {
    api: Api<Node>,
    name: &'a str,
    board: &'a Board,
    /// The node's object as it was last seen.
    live: Option<Node>,
    /// A patch was sent whose answer did not come, and nothing was read or written since: the node may
    /// have what `live` does not say.
    is_unsure: bool,
    /// Types that this agent wrote: if another writer takes one over, it keeps writing it.
    written: BTreeSet<String>,
    /// Which conditions and taints of isobar's the node may have while none is to be published.
    old: Old,
    /// Keys of former settings of which no taint is left: one that comes later is another writer's.
    gone: BTreeSet<String>,
    /// When conditions are written although they have not changed.
    heartbeat: Nanos,
    /// When each may be written again: a failing patch of one holds up no other.
    pace: (Pace, Pace),
}

#[derive(Debug, Clone, Copy, Default)]
struct Old {
    conditions: Left,
    taints: Left,
}

/// Whether something that this agent, or one before it that was killed, wrote is on the node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Left {
    /// Not looked yet.
    #[default]
    Perhaps,
    /// This agent wrote it.
    Ours,
    Nothing,
    /// It may not be taken away, which was said.
    Refused,
}

impl<'a> Writer<'a> {
    fn new(api: Api<Node>, name: &'a str, board: &'a Board) -> Self {
        let (live, is_unsure, written, old, gone, pace) = Default::default();
        Self { api, name, board, live, is_unsure, written, old, gone, heartbeat: Nanos(0), pace }
    }

    async fn write(&mut self, wanted: &Wanted) {
        let (Some(publish), Some(live)) = (wanted.publish, self.live.clone()) else { return };
        if self.pace.0.is_due() {
            let done = self.write_conditions(publish, wanted, &live).await;
            self.pace.0.note(done);
        }
        if self.pace.1.is_due() {
            let done = self.write_taints(publish, wanted).await;
            self.pace.1.note(done);
        }
    }

    async fn write_conditions(
        &mut self,
        publish: Publish,
        wanted: &Wanted,
        live: &Node,
    ) -> Result<(), ()> {
        if !publish.conditions {
            return self.clear_conditions(live).await;
        }
        self.old.conditions = Left::Ours;
        let now = now();
        let others = self.others(wanted, live, now);
        let is_due = clock::now().boot >= self.heartbeat;
        let stale = stale(wanted, live);
        let patch =
            conditions::patch(&wanted.conditions, there(live), (&others, &stale), now, is_due);
        let Some(patch) = patch else { return Ok(()) };
        if let Err(why) = self.patch_status(&patch).await {
            self.board.report(CONDITIONS, why.report("allow it to patch nodes/status"));
            return Err(());
        }
        self.heartbeat = after(about(HEARTBEAT));
        let own = wanted.conditions.iter().map(|condition| condition.kind.clone());
        self.written = own.filter(|kind| !others.contains(kind)).collect();
        let n = self.written.len();
        self.board.report(
            CONDITIONS,
            match others.len() {
                0 => Report::Works(format!("{n} are published")),
                _ => {
                    let others: Vec<_> = others.into_iter().collect();
                    Report::Off(format!(
                        "{n} are published; left to another writer: {}",
                        others.join(", ")
                    ))
                }
            },
        );
        Ok(())
    }

    /// Takes away what isobar wrote and publishes no longer.
    async fn clear_conditions(&mut self, live: &Node) -> Result<(), ()> {
        let old = stale(&Wanted::default(), live);
        let cleared = match (self.old.conditions, old.is_empty()) {
            (Left::Refused, false) => return Ok(()),
            (Left::Nothing, _) | (_, true) => Ok(()),
            _ => self.patch_status(&conditions::removal(old.iter().map(|kind| &**kind))).await,
        };
        let remedy = "allow it to patch nodes/status";
        let left = self.cleared(CONDITIONS, cleared, "kubernetes.conditions is false", remedy);
        self.written.clear();
        left.map(|left| self.old.conditions = left)
    }

    /// What there is after an attempt to clear it. A refusal is told once, and not tried again.
    fn cleared(
        &self,
        what: &'static str,
        cleared: Result<(), Failure>,
        why_off: &str,
        remedy: &'static str,
    ) -> Result<Left, ()> {
        let Err(why) = cleared else {
            self.board.report(what, Report::Off(why_off.into()));
            return Ok(Left::Nothing);
        };
        let is_refused = why.code == Some(403);
        let words = format!("{why_off}; old ones of isobar's stay: {}", why.words);
        self.board.report(what, Failure { words, ..why }.report(remedy));
        is_refused.then_some(Left::Refused).ok_or(())
    }

    /// Conditions that another writer keeps.
    fn others(&self, wanted: &Wanted, live: &Node, now: Timestamp) -> BTreeSet<String> {
        let foreign = foreign(live);
        let is_alive = |kind: &str| {
            let beats = there(live).iter().filter(|one| one.type_ == kind);
            let mut beats = beats.filter_map(|one| one.last_heartbeat_time.as_ref());
            beats.any(|beat| now.as_second() - beat.0.as_second() < GIVEN_UP)
        };
        let kinds = wanted.conditions.iter().map(|condition| &condition.kind);
        let others = kinds.filter(|kind| {
            foreign.contains(*kind) && (is_alive(kind) || self.written.contains(*kind))
        });
        others.cloned().collect()
    }

    async fn write_taints(&mut self, publish: Publish, wanted: &Wanted) -> Result<(), ()> {
        if !publish.taints {
            return self.clear_taints(&self.own_keys(wanted)).await;
        }
        self.old.taints = Left::Ours;
        if let Err(why) = self.set_taints(&wanted.taints, &self.own_keys(wanted)).await {
            self.board.report(TAINTS, why.report(TAINTING));
            return Err(());
        }
        self.gone.clone_from(&wanted.former_keys);
        let n = wanted.taints.len();
        self.board.report(TAINTS, Report::Works(format!("{n} are set")));
        Ok(())
    }

    /// Keys of the taints that are isobar's.
    fn own_keys(&self, wanted: &Wanted) -> BTreeSet<String> {
        wanted.former_keys.difference(&self.gone).chain(&wanted.taint_keys).cloned().collect()
    }

    /// Once: an agent that was killed took its taints back no more. Those that come later are
    /// another writer's.
    async fn clear_taints(&mut self, own: &BTreeSet<String>) -> Result<(), ()> {
        let there = self.live.iter().flat_map(|live| live.spec.taints.iter().flatten());
        let is_any = there.into_iter().any(|taint| own.contains(&taint.key));
        let cleared = match (self.old.taints, is_any) {
            (Left::Refused, true) => return Ok(()),
            (Left::Nothing, _) | (_, false) => Ok(()),
            _ => self.set_taints(&[], own).await,
        };
        let left = self.cleared(TAINTS, cleared, "kubernetes.taints is false", TAINTING);
        left.map(|left| self.old.taints = left)
    }

    /// Sets isobar's taints, over what others write meanwhile.
    async fn set_taints(
        &mut self,
        wanted: &[Taint],
        own: &BTreeSet<String>,
    ) -> Result<(), Failure> {
        let mut conflicts = 0;
        loop {
            let Some(live) = &self.live else { return Ok(()) };
            let there = live.spec.taints.iter().flatten();
            let there: Vec<_> = there.cloned().collect();
            let Some(list) = taints::merged(&there, own, wanted) else { return Ok(()) };
            let version = &live.metadata.resource_version;
            let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": list}});
            let was_unsure = replace(&mut self.is_unsure, true);
            let (params, patch) = (params(), Patch::Merge(patch));
            match answered(self.api.patch(self.name, &params, &patch)).await {
                Ok(node) => {
                    self.live = Some(node);
                    self.is_unsure = false;
                    return Ok(());
                }
                Err(why) if why.code == Some(409) && conflicts < CONFLICTS => {
                    conflicts += 1;
                    self.live = Some(answered(self.api.get(self.name)).await?);
                    self.is_unsure = false;
                }
                Err(why) => {
                    self.is_unsure = was_unsure || is_open(&why);
                    return Err(why);
                }
            }
        }
    }

    async fn patch_status(&mut self, patch: &Value) -> Result<(), Failure> {
        let patch = Patch::Strategic(patch);
        let was_unsure = replace(&mut self.is_unsure, true);
        let patched = answered(self.api.patch_status(self.name, &params(), &patch)).await;
        self.is_unsure = patched.as_ref().is_err_and(|why| was_unsure || is_open(why));
        self.live = Some(patched?);
        Ok(())
    }

    /// The node as it is now. By a list: an agent that observes may not get it.
    async fn read(&self) -> Result<Option<Node>, Failure> {
        let only = ListParams::default().fields(&format!("metadata.name={}", self.name));
        Ok(answered(self.api.list(&only)).await?.items.pop())
    }

    /// What is said when the agent exits. Taints go first, and in any case: nothing else would take
    /// them back.
    async fn last_word(&mut self, wanted: &Wanted) {
        let Some(publish) = wanted.publish.filter(|_| self.live.is_some()) else { return };
        if self.is_unsure
            && let Ok(Ok(node)) = timeout(READ_WITHIN, self.read()).await
        {
            self.live = node;
        }
        let Some(live) = self.live.clone() else { return };
        let patch = self.last_conditions(publish, wanted, &live);
        let (api, name) = (self.api.clone(), self.name);
        let conditions = async {
            let Some(patch) = patch else { return };
            let patch = Patch::Strategic(patch);
            if let Err(why) = answered(api.patch_status(name, &params(), &patch)).await {
                tracing::warn!("the node's conditions stay as they are: {}", why.words);
            }
        };
        let mut taints = pin!(async {
            if self.old.taints == Left::Ours
                && let Err(why) = self.set_taints(&[], &self.own_keys(wanted)).await
            {
                tracing::warn!("the node's taints stay: {}", why.words);
            }
        });
        match timeout(HEAD_START, taints.as_mut()).await {
            Ok(()) => conditions.await,
            Err(_) => {
                tokio::join!(taints, conditions);
            }
        }
    }

    /// What becomes of the conditions that this agent wrote.
    fn last_conditions(&self, publish: Publish, wanted: &Wanted, live: &Node) -> Option<Value> {
        // One whose answer did not come may be there.
        let there_of_own = own(live);
        let is_own = |kind: &String| self.written.contains(kind) || there_of_own.contains(kind);
        let own = wanted.conditions.iter().filter(|one| is_own(&one.kind));
        let own: Vec<_> = own.cloned().collect();
        match publish.at_exit {
            _ if own.is_empty() || !publish.conditions => None,
            AtExit::Keep => None,
            AtExit::Unknown => Some(conditions::unknown(&own, there(live), now())),
            AtExit::Remove => Some(conditions::removal(own.iter().map(|one| &*one.kind))),
        }
    }
}

/// Whether a write that failed so may have been done.
fn is_open(why: &Failure) -> bool {
    why.code.is_none_or(|code| code >= 500)
}

fn params() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() }
}

fn there(node: &Node) -> &[NodeCondition] {
    let status = node.status.as_ref();
    status.and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

/// Conditions that isobar wrote and that have no rule any more.
fn stale(wanted: &Wanted, live: &Node) -> BTreeSet<String> {
    let is_wanted = |kind: &String| wanted.conditions.iter().any(|one| one.kind == *kind);
    let is_there = |kind: &String| there(live).iter().any(|one| one.type_ == *kind);
    own(live).into_iter().filter(|kind| is_there(kind) && !is_wanted(kind)).collect()
}

/// The wall clock: the node's object is for people, and for other nodes.
pub(super) fn now() -> Timestamp {
    let seconds = i64::try_from(clock::now().wall.0 / Nanos::SECOND.0).unwrap_or_default();
    Timestamp::from_second(seconds).unwrap_or_default()
}
