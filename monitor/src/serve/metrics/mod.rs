//! `/metrics`: the newest view and the totals since the start, for Prometheus.
//! In: what was published. Out: text, made on the first request of each tick and format.
//! What is not known has no line, because 0 would be a measurement.

mod agent;
pub mod catalogue;
mod families;
mod format;
mod headline;
mod judged;
mod pods;
mod pressure;
mod relief;

use std::fmt;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use self::families::Families;
pub(super) use self::format::Format;
use super::negotiate::whole;
use super::publish::Published;
use super::totals::Totals;
use super::{NO_SAMPLE_YET, Shared};
use isobar_core::view::View;

/// Of the checkout that an optimised build was made from.
pub const COMMIT: Option<&str> = option_env!("ISOBAR_COMMIT");

/// In the format that the client prefers.
pub(super) async fn scrape(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    if shared.film.opened().is_some() {
        let text = "a recording is not scraped: `isobar dump -o openmetrics` prints its metrics";
        return (StatusCode::NOT_FOUND, text).into_response();
    }
    let Some(published) = shared.latest.borrow().clone() else {
        return (StatusCode::SERVICE_UNAVAILABLE, NO_SAMPLE_YET).into_response();
    };
    let accepted = headers.get_all(header::ACCEPT).iter();
    let format = Format::of(accepted.filter_map(|value| value.to_str().ok()));
    // A cache must not give one client the other's format.
    let headers = [(header::CONTENT_TYPE, format.content_type()), (header::VARY, "accept")];
    (headers, whole(&published.metrics(format))).into_response()
}

/// All metrics of one tick.
pub(super) fn render(published: &Arc<Published>, format: Format) -> Bytes {
    let text = open_metrics(Metrics { of: Arc::clone(published), has_agent: true });
    match format {
        Format::OpenMetrics => text.into(),
        Format::Prometheus => format::to_prometheus(&text).into(),
    }
}

/// Those of the node and its pods: the cost of an agent and what it could do are not recorded.
pub(super) fn recorded(published: &Arc<Published>) -> String {
    open_metrics(Metrics { of: Arc::clone(published), has_agent: false })
}

fn open_metrics(metrics: Metrics) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(metrics));
    let mut text = String::new();
    encode(&mut text, &registry).expect("writing to a string cannot fail");
    text
}

/// Reads what was published while it is encoded.
#[derive(Debug)]
struct Metrics {
    of: Arc<Published>,
    has_agent: bool,
}

impl Collector for Metrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (view, totals): (&View, &Totals) = (&self.of.view, &self.of.lasting.totals);
        let families = &mut Families(encoder);
        pressure::write(families, view, totals)?;
        headline::write(families, &view.headline_figures)?;
        judged::write(families, view, totals)?;
        relief::write(families, view, totals)?;
        pods::write(families, view, totals)?;
        if self.has_agent {
            agent::write(families, view, totals)?;
        }
        Ok(())
    }
}
