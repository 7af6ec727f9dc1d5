//! Whose request is worked on next, where that is one at a time: that of the client whose last turn
//! was the longest ago, so that no client keeps others from the past by asking for it all the time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::film::Asked;
use super::listen::Client;
use super::peer::Peer;
use crate::lock::lock;

/// Requests that wait. Of more, the client that has most loses its oldest.
const WAITING: usize = 32;
/// How long a request waits.
const WITHIN: Duration = Duration::from_secs(30);
/// A page asks for six documents of a moment, and the second costs little after the first.
const OF_A_MOMENT: usize = 8;

#[derive(Clone, Default)]
pub(super) struct Turns(Arc<Mutex<Queue>>);

#[derive(Default)]
struct Queue {
    is_taken: bool,
    /// The oldest first.
    waiting: Vec<Waiter>,
    /// Clients that had a turn, the last one last.
    had: Vec<Peer>,
    /// What the last turn was about, and how many it was in a row.
    last: Option<(Peer, Asked, usize)>,
}

struct Waiter {
    client: Client,
    /// `None` of a question that is answered for itself.
    about: Option<Asked>,
    turn: oneshot::Sender<Turn>,
}

/// Passed on when it is dropped.
pub(super) struct Turn(Turns);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.pass_on();
    }
}

impl Turns {
    /// The turn of a request; `None` if it has waited for too long, or had to make room for others.
    pub(super) async fn take(&self, client: &Client, about: Option<Asked>) -> Option<Turn> {
        let (turn, own) = oneshot::channel();
        if lock(&self.0).enter(Waiter { client: client.clone(), about, turn }) {
            self.pass_on();
        }
        timeout(WITHIN, own).await.ok()?.ok()
    }

    fn pass_on(&self) {
        let next = lock(&self.0).next();
        if let Some(next) = next {
            // One that has gone drops it, and so passes it on.
            let _ = next.turn.send(Turn(self.clone()));
        }
    }
}

impl Queue {
    /// Tells users of this node apart where there is a choice.
    fn look_up(&self) {
        if let [one, _, ..] = &self.waiting[..] {
            one.client.look_up();
        }
    }

    /// Whether there is a turn to be had.
    fn enter(&mut self, newcomer: Waiter) -> bool {
        self.waiting.retain(|one| !one.turn.is_closed());
        self.waiting.push(newcomer);
        if self.waiting.len() > WAITING {
            self.look_up();
            let mut n_of = BTreeMap::<Peer, usize>::new();
            self.waiting.iter().for_each(|one| *n_of.entry(one.client.peer()).or_default() += 1);
            let most = n_of.values().max().copied();
            let oldest = |one: &Waiter| n_of.get(&one.client.peer()).copied() == most;
            if let Some(oldest) = self.waiting.iter().position(oldest) {
                self.waiting.remove(oldest);
            }
        }
        !self.is_taken
    }

    fn next(&mut self) -> Option<Waiter> {
        self.waiting.retain(|one| !one.turn.is_closed());
        self.look_up();
        let goes_on = self.waiting.iter().position(|one| {
            let last = self.last.filter(|(.., n)| *n < OF_A_MOMENT);
            last.is_some_and(|(peer, asked, _)| {
                one.about == Some(asked) && one.client.peer() == peer
            })
        });
        let had = |peer| self.had.iter().position(|one| *one == peer);
        let first = (0..self.waiting.len()).min_by_key(|at| had(self.waiting[*at].client.peer()));
        let next = goes_on.or(first).map(|at| self.waiting.remove(at));
        self.is_taken = next.is_some();
        let next = next?;
        let peer = next.client.peer();
        let n = self.last.filter(|_| goes_on.is_some()).map_or(1, |(.., n)| n + 1);
        self.last = next.about.map(|about| (peer, about, n));
        self.had.retain(|one| *one != peer);
        self.had.push(peer);
        self.had.drain(..self.had.len().saturating_sub(WAITING));
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::film::Then;
    use crate::serve::peer::Link;
    use isobar_core::model::units::Nanos;

    /// Who had turns, in order: all ask while the first turn is held; `None` of those that had none.
    async fn order(asked: &[(u32, u64)]) -> (Vec<u32>, Vec<u32>) {
        let turns = Turns::default();
        let user = |uid| Client::unconnected(Link::Unix { uid });
        let held = turns.take(&user(0), None).await.unwrap();
        let had = Arc::new(Mutex::new(Vec::new()));
        let ask = |&(uid, wall): &(u32, u64)| {
            let (turns, had, client) = (turns.clone(), Arc::clone(&had), user(uid));
            let about = (wall > 0).then_some(Asked { wall: Nanos(wall), then: Then::Stay });
            tokio::spawn(async move {
                let Some(turn) = turns.take(&client, about).await else { return Some(uid) };
                had.lock().unwrap().push(uid);
                drop(turn);
                None
            })
        };
        let all: Vec<_> = asked.iter().map(ask).collect();
        // A round of the event loop takes some sixty tasks.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        drop(held);
        let mut refused = Vec::new();
        for one in all {
            refused.extend(one.await.unwrap());
        }
        let had = had.lock().unwrap().clone();
        (had, refused)
    }

    #[tokio::test]
    async fn take_gives_turns_to_clients_by_turns() {
        let many = |uid, n| vec![(uid, 0); n];
        #[rustfmt::skip]
        let table = [
            // user and moment of each request (0: none), turns, refused
            (many(1, 3),                             vec![1, 1, 1],                many(0, 0)),
            ([many(1, 4), many(2, 2)].concat(),      vec![1, 2, 1, 2, 1, 1],       many(0, 0)),
            (vec![(1, 5), (2, 7), (1, 5), (2, 7), (1, 6)], vec![1, 1, 2, 2, 1],    many(0, 0)),
            ([vec![(1, 5); 20], many(2, 1)].concat(), [vec![1; 8], vec![2], vec![1; 12]].concat(), many(0, 0)),
            ([many(1, 100), many(2, 1)].concat(),    [vec![1, 2], vec![1; 30]].concat(), many(1, 69)),
            ([many(2, 2), many(1, 100)].concat(),    [vec![2, 1, 2], vec![1; 29]].concat(), many(1, 70)),
        ];
        for (asked, had, refused) in table {
            let refused = refused.into_iter().map(|(uid, _)| uid).collect();
            assert_eq!(order(&asked).await, (had, refused), "{asked:?}");
        }
    }

    #[tokio::test]
    async fn take_passes_over_clients_that_have_gone() {
        let turns = Turns::default();
        let client = Client::unconnected(Link::Unix { uid: 1 });
        let held = turns.take(&client, None).await;
        let (own, of) = (turns.clone(), client.clone());
        let gone = tokio::spawn(async move { own.take(&of, None).await.is_some() });
        tokio::task::yield_now().await;
        // Its turn comes, and it leaves before it takes it.
        drop(held);
        gone.abort();
        assert!(turns.take(&client, None).await.is_some());
    }
}
