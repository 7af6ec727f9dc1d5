//! Writes families of metrics. A family without a sample is left out, with its help.

use std::fmt;

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeMetric, LabelSetEncoder, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit as BaseUnit;

use super::catalogue::{Kind, Metric, Unit};
use isobar_core::model::quantity::Quantity;
use isobar_core::model::units::{Bytes, Micros, Nanos, Percent};

/// A value in the base unit of its metric.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value {
    Whole(u64),
    Real(f64),
}

impl From<u64> for Value {
    fn from(n: u64) -> Self {
        Self::Whole(n)
    }
}

impl From<Quantity> for Value {
    fn from(amount: Quantity) -> Self {
        const WHOLE: i128 = 1_000_000_000;
        let nanos = amount.nanos();
        match u64::try_from(nanos / WHOLE) {
            Ok(whole) if nanos % WHOLE == 0 => Self::Whole(whole),
            _ => Self::Real(nanos as f64 / WHOLE as f64),
        }
    }
}

impl From<bool> for Value {
    fn from(holds: bool) -> Self {
        Self::Whole(holds.into())
    }
}

impl From<Bytes> for Value {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(bytes.0)
    }
}

impl From<Nanos> for Value {
    fn from(time: Nanos) -> Self {
        Self::Real(seconds(time))
    }
}

impl From<Micros> for Value {
    fn from(time: Micros) -> Self {
        Nanos::from(time).into()
    }
}

impl From<Percent> for Value {
    fn from(share: Percent) -> Self {
        Self::Real(f64::from(share.0) / 100_00.0)
    }
}

fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / Nanos::SECOND.0 as f64
}

/// The writer of one scrape.
pub(super) struct Families<'a>(pub(super) DescriptorEncoder<'a>);

impl Families<'_> {
    /// Writes the samples of a counter or a gauge, each with the values of its labels.
    pub(super) fn write<'l, const N: usize, V: Into<Value>>(
        &mut self,
        metric: &Metric,
        samples: impl IntoIterator<Item = ([&'l str; N], V)>,
    ) -> fmt::Result {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return Ok(());
        }
        debug_assert_eq!(metric.labels.len(), N, "{}", metric.name);
        let unit = metric.unit().map(base);
        let kind = match metric.kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge | Kind::Histogram => MetricType::Gauge,
        };
        let (name, help) = (metric.stem(), metric.help);
        let mut encoder = self.0.encode_descriptor(name, help, unit.as_ref(), kind)?;
        for (labels, value) in samples {
            let labels = Labels { keys: metric.labels, values: &labels };
            let one = match labels.is_empty() {
                true => return encode(metric.kind, value.into(), encoder),
                false => encoder.encode_family(&labels)?,
            };
            encode(metric.kind, value.into(), one)?;
        }
        Ok(())
    }

    /// Writes a histogram: counts by upper bound, the last without one.
    pub(super) fn write_histogram(
        &mut self,
        metric: &Metric,
        bounds: impl IntoIterator<Item = Nanos>,
        counts: &[u64],
        sum: Nanos,
    ) -> fmt::Result {
        let Some(n_bounds) = counts.len().checked_sub(1) else { return Ok(()) };
        let unit = metric.unit().map(base);
        let bounds = bounds.into_iter().take(n_bounds).map(seconds).chain([f64::INFINITY]);
        let buckets: Vec<_> = bounds.zip(counts.iter().copied()).collect();
        let (name, help, kind) = (metric.stem(), metric.help, MetricType::Histogram);
        let mut encoder = self.0.encode_descriptor(name, help, unit.as_ref(), kind)?;
        let count = counts.iter().sum();
        encoder.encode_histogram::<NoLabelSet>(seconds(sum), count, &buckets, None)
    }
}

fn encode(kind: Kind, value: Value, to: MetricEncoder<'_>) -> fmt::Result {
    match (kind, value) {
        (Kind::Counter, Value::Whole(n)) => ConstCounter::new(n).encode(to),
        (Kind::Counter, Value::Real(n)) => ConstCounter::new(n).encode(to),
        (_, Value::Whole(n)) => ConstGauge::new(n).encode(to),
        (_, Value::Real(n)) => ConstGauge::new(n).encode(to),
    }
}

fn base(unit: Unit) -> BaseUnit {
    match unit {
        Unit::Seconds => BaseUnit::Seconds,
        Unit::Bytes => BaseUnit::Bytes,
        // The library's own is in the plural, which no metric's name has.
        Unit::Ratio => BaseUnit::Other(unit.name().into()),
    }
}

/// Labels of one sample. One without a value is as good as none to Prometheus, and is left out.
#[derive(Debug)]
struct Labels<'a> {
    keys: &'a [&'a str],
    values: &'a [&'a str],
}

impl Labels<'_> {
    fn is_empty(&self) -> bool {
        self.values.iter().all(|value| value.is_empty())
    }
}

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        let all = self.keys.iter().copied().zip(self.values.iter().copied());
        let set: Vec<(&str, &str)> = all.filter(|(_, value)| !value.is_empty()).collect();
        set.encode(encoder)
    }
}
