//! The kubelet of this node: what pods have on disk, the configuration that it runs with, and the
//! pods while the API server does not tell of them.

mod summary;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::Request;
use kube::Client;
use serde::Deserialize;
use tokio::time::sleep;

use self::summary::Summary;
use super::board::{Board, Configz, Namer, Report};
use super::client::{Failure, KUBELET, PATIENCE, answered_by, connect_kubelet};
use super::jitter::about;
use super::pods::{Seen, Told};
use crate::clock;
use crate::config;
use crate::config::kubernetes::{Access, Kubelet};
use isobar_core::model::disk::{DiskReading, DiskSource};

/// The names of these parts in capabilities.
const NAME: &str = "kubelet";
pub const CONFIGURATION: &str = "kubelet configuration";
const PERMISSION: &str =
    "allow it to get nodes/stats, nodes/pods and nodes/configz (fine-grained authorization)";
const NO_ADDRESS: &str = "its address is not known: disk use of pods is not measured by it; \
                          set NODE_IP, or name it with --kubelet";
/// Source: kubernetes `cmd/kubelet/app/auth.go`; `authentication.webhook.cacheTTL` and
/// `authorization.webhook.cacheAuthorizedTTL` of its configuration, as they are by default.
const UNCHECKED: &str = "the API server has to answer first: the kubelet has the API server check a token and \
                         its rights, and remembers the answers for 2 and 5 minutes";
/// Disks fill slowly; the kubelet itself looks as often.
const READ_EVERY: Duration = Duration::from_secs(10);
/// The kubelet reads its configuration only when it starts, which takes it less time than a round: limits
/// that isobar writes by the one before would overwrite the kubelet's.
const CONFIG_EVERY: u32 = 1;
/// While it does not tell it.
const CONFIG_AGAIN: u32 = 6;

/// Asks it for as long as the agent runs.
pub(super) async fn ask(access: &Access, is_answering: &AtomicBool, board: &Board) {
    let Some(kubelet) = &access.kubelet else {
        return board.report(NAME, Report::Off(NO_ADDRESS.into()));
    };
    let mut talk = Talk::default();
    loop {
        match talk.read(access, kubelet, is_answering, board).await {
            Ok(said) => board.report(NAME, Report::Works(said)),
            Err(why) => {
                // Its certificate may have changed, and its configuration.
                talk = talk.anew();
                board.report(NAME, refusal(why, is_answering, board));
                board.set_disks(None);
            }
        }
        sleep(about(READ_EVERY)).await;
    }
}

/// What has been said since the kubelet was reached.
#[derive(Default)]
struct Talk {
    client: Option<Client>,
    /// In how many rounds it is asked for its configuration.
    config_in: u32,
    named: Seen,
}

impl Talk {
    /// The kubelet is reached anew; what was said of its pods is not said again.
    fn anew(self) -> Self {
        Self { named: self.named, ..Self::default() }
    }

    /// What it told this time, in words.
    async fn read(
        &mut self,
        access: &Access,
        kubelet: &Kubelet,
        is_answering: &AtomicBool,
        board: &Board,
    ) -> Result<String, Failure> {
        let client = match &mut self.client {
            Some(client) => client,
            empty => empty.insert(connect_kubelet(access, kubelet).await?),
        };
        if self.config_in == 0 {
            let is_told = configuration(client, is_answering, board).await;
            self.config_in = if is_told { CONFIG_EVERY } else { CONFIG_AGAIN };
        }
        self.config_in -= 1;
        let disks = disks(client, board).await;
        let names = match has_names(is_answering, board) {
            true => {
                self.named = Seen::default();
                String::new()
            }
            false => name_pods(client, (&mut self.named, &access.node), is_answering, board).await,
        };
        let n = disks?;
        Ok(format!("disk use of {n} pods by {}{names}", kubelet.url))
    }
}

/// Of how many pods it was told.
async fn disks(client: &Client, board: &Board) -> Result<usize, Failure> {
    let at = clock::now().boot;
    let summary: Summary = serde_json::from_str(&get(client, "/stats/summary").await?)
        .map_err(|why| unreadable("/stats/summary", &why))?;
    let pods = summary.pods();
    let n = pods.len();
    board.set_disks(Some(Arc::new(DiskReading { at, pods, source: DiskSource::Kubelet })));
    Ok(n)
}

/// Whether the API server names the pods, and knows better.
fn has_names(is_answering: &AtomicBool, board: &Board) -> bool {
    is_answering.load(Ordering::Relaxed) && board.is_followed()
}

/// The pods as the kubelet has them, those of its node; what to say of that.
async fn name_pods(
    client: &Client,
    (named, node): (&mut Seen, &str),
    is_answering: &AtomicBool,
    board: &Board,
) -> String {
    let text = get(client, "/pods").await;
    let items = text.as_ref().map_err(Failure::clone).and_then(|text| {
        let list = serde_json::from_str(text).map_err(|why| unreadable("/pods", &why))?;
        let List { items } = list;
        Ok(items.unwrap_or_default())
    });
    match items {
        // It has come back meanwhile, and knows better.
        Ok(_) if has_names(is_answering, board) => String::new(),
        Ok(items) => {
            named.list(items, node);
            board.set_pods(named.pods(), Namer::Kubelet);
            let omission = named.omission();
            format!(", and their names while the API server does not tell them{omission}")
        }
        Err(why) => format!("; it does not name them: {}", why.words),
    }
}

/// What `/pods` answers. The kubelet writes `null` for no pods.
#[derive(Deserialize)]
struct List {
    items: Option<Vec<Told>>,
}

/// Reads the configuration that the kubelet runs with; what was read before holds if it cannot be.
/// Whether it was read.
async fn configuration(client: &Client, is_answering: &AtomicBool, board: &Board) -> bool {
    let read = get(client, "/configz").await.and_then(|answer| {
        let settings = config::kubelet_of(&answer).map_err(Failure::of_answer)?;
        Ok(Configz { answer, settings })
    });
    match read {
        Ok(configz) => {
            board.set_configz(configz);
            board.report(CONFIGURATION, Report::Works("read from the kubelet's /configz".into()));
            true
        }
        Err(why) => {
            board.report(CONFIGURATION, refusal(why, is_answering, board));
            false
        }
    }
}

/// While the API server does not answer, a kubelet refuses every token that it does not remember: 401, or 500
/// where it remembers the token and not its rights.
fn refusal(why: Failure, is_answering: &AtomicBool, board: &Board) -> Report {
    let is_away = !is_answering.load(Ordering::Relaxed) && board.lacks_pods();
    match why.code {
        Some(401 | 500) if is_away => Report::Fails(why.words, Some(UNCHECKED)),
        _ => why.report(PERMISSION),
    }
}

async fn get(client: &Client, path: &str) -> Result<String, Failure> {
    let request = Request::get(path).body(Vec::new());
    let request = request.map_err(Failure::of_answer)?;
    answered_by(KUBELET, PATIENCE, client.request_text(request)).await
}

fn unreadable(path: &str, why: &serde_json::Error) -> Failure {
    Failure::of_answer(format!("the kubelet's {path} cannot be read: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn talk_anew_keeps_what_was_said_of_pods() {
        let text = r#"{"items": [{"metadata": {"name": "web", "uid": "u1"}, "spec": {"nodeName": "n2"}}]}"#;
        let mut talk = Talk { config_in: 3, ..Talk::default() };
        talk.named.list(serde_json::from_str::<List>(text).unwrap().items.unwrap(), "n1");
        let talk = talk.anew();
        assert_eq!((talk.config_in, &*talk.named.omission()), (0, "; 1 are left out, see the log"));
    }

    #[test]
    fn list_of_pods_may_be_null() {
        #[rustfmt::skip]
        let table = [
            // answer, how many items; None: it is no list
            (r#"{"items":null}"#,        Some(0)),
            (r#"{"kind":"PodList"}"#,    Some(0)),
            (r#"{"items":[{}, 7, []]}"#, Some(3)),
            (r#"{"items":7}"#,           None),
            (r#"{"items":[{}"#,          None),
        ];
        for (answer, want) in table {
            let list = serde_json::from_str::<List>(answer).ok();
            let read = list.map(|list| list.items.unwrap_or_default().len());
            assert_eq!(read, want, "{answer}");
        }
    }
}
