//! `/livez`, `/healthz` and `/readyz`, in the format of a Kubernetes component.

use std::fmt::Write as _;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::NO_SAMPLE_YET;
use super::Shared;
use crate::clock;
use isobar_core::model::capability::{Capability, CapabilityState};
use isobar_core::model::units::Nanos;

/// Without a sample for this long (ten missed ticks) the sampler counts as dead.
const SILENCE: Nanos = Nanos(10 * Nanos::SECOND.0);
/// The first comes after the eBPF programs were loaded, which may take long on a busy node.
const FIRST_WITHIN: Nanos = Nanos(60 * Nanos::SECOND.0);

/// 200 while the sampler runs; a recording has none.
pub(super) async fn livez(State(shared): State<Shared>) -> Response {
    if shared.film.opened().is_some() {
        return "ok".into_response();
    }
    let last = shared.latest.borrow().as_ref().map(|p| p.at.boot);
    let silent = clock::now().boot.since(last.unwrap_or(shared.since.boot));
    let patience = if last.is_some() { SILENCE } else { FIRST_WITHIN };
    if silent <= patience {
        return "ok".into_response();
    }
    let text = format!("no sample for {} s\n", silent.0 / Nanos::SECOND.0);
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

/// 200 from the first sample on. A missing capability is listed, but the agent is ready without it.
pub(super) async fn readyz(State(shared): State<Shared>, RawQuery(query): RawQuery) -> Response {
    let verbose = query.as_deref().is_some_and(|query| {
        query.split('&').any(|pair| pair == "verbose" || pair.starts_with("verbose="))
    });
    let Some(published) = shared.latest.borrow().clone() else {
        let text = format!("[-]sample {NO_SAMPLE_YET}\nreadyz check failed\n");
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    };
    if !verbose {
        return "ok".into_response();
    }
    let mut text = format!("[+]sample ok: tick {}\n", published.tick);
    for capability in &published.view.capabilities {
        line(&mut text, capability);
    }
    text.push_str("readyz check passed\n");
    text.into_response()
}

fn line(text: &mut String, capability: &Capability) {
    let Capability { name, state, detail, remedy } = capability;
    let sign = if *state == CapabilityState::Attached { '+' } else { '-' };
    let colon = if detail.is_empty() { "" } else { ": " };
    let written = match remedy {
        Some(remedy) => writeln!(text, "[{sign}]{name} {}{colon}{detail} ({remedy})", state.name()),
        None => writeln!(text, "[{sign}]{name} {}{colon}{detail}", state.name()),
    };
    written.expect("writing to a string cannot fail");
}
