//! Evictions of the pods of a group: the API knows no groups.

use kube::Client;

use super::Doubts;
use crate::act::evict::{Refusal, Request};
use crate::kube::board::Board;

/// Evicts the pods of a group, one after the other. Those that the API server evicts end, whatever it says of
/// the others; a disruption budget that keeps one of them keeps the next step from it, too.
pub(super) async fn in_time(
    client: &Client,
    request: &Request,
    doubts: Doubts<'_>,
    board: &Board,
) -> Result<String, Refusal> {
    let (mut n_evicted, mut forbidden, mut failed) = (0, None, None);
    for uid in &request.members {
        // One that the API server lists no longer is gone.
        let Some((namespace, name)) = board.name_of(uid) else { continue };
        let (uid, members) = (uid.clone(), Vec::new());
        let one = Request { namespace, name, uid, members, ..request.clone() };
        match super::in_time(client, &one, doubts).await {
            Ok(_) => n_evicted += 1,
            Err(Refusal::Forbidden(why) | Refusal::Partly(why)) => {
                forbidden = forbidden.or(Some(why));
            }
            Err(Refusal::Failed(why)) => failed = failed.or(Some(why)),
        }
    }
    let Request { namespace, name, members, .. } = request;
    let evicted = format!("the API server evicts {n_evicted} of {} pods", members.len());
    let story = format!("{evicted} of {namespace}/{name}");
    match (forbidden, failed) {
        (Some(why), _) if n_evicted > 0 => Err(Refusal::Partly(format!("{story}; {why}"))),
        (Some(why), _) => Err(Refusal::Forbidden(format!("{story}; {why}"))),
        (None, Some(why)) if n_evicted == 0 => Err(Refusal::Failed(why)),
        (None, Some(why)) => Ok(format!("{story}; {why}")),
        (None, None) if n_evicted == 0 => Err(Refusal::Failed(format!("{story}: it knows none"))),
        (None, None) => Ok(story),
    }
}
