//! Metrics of one server, by role, for the Prometheus endpoint and `heorot status`.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// Labels of an operation: its protocol and its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OperationLabels {
    /// `nfs3`, `nfs4`, `data`, …
    pub protocol: &'static str,
    /// `READ`, `OPEN`, …
    pub operation: &'static str,
}

impl EncodeLabelSet for OperationLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), std::fmt::Error> {
        use prometheus_client::encoding::{EncodeLabelKey, EncodeLabelValue};
        for (key, value) in [("protocol", self.protocol), ("operation", self.operation)] {
            let mut label = encoder.encode_label();
            let mut k = label.encode_label_key()?;
            EncodeLabelKey::encode(&key, &mut k)?;
            let mut v = k.encode_label_value()?;
            EncodeLabelValue::encode(&value, &mut v)?;
            v.finish()?;
        }
        Ok(())
    }
}

type Histograms = Family<OperationLabels, Histogram, fn() -> Histogram>;

/// Counters of one server: a metaserver or a data server.
#[derive(Debug)]
pub struct Metrics {
    /// Bytes of requests, as received.
    received_bytes: Counter,
    /// Bytes of replies.
    sent_bytes: Counter,
    /// Calls in flight.
    calls_in_flight: Gauge<i64, AtomicI64>,
    /// Open connections.
    pub connections: Gauge<i64, AtomicI64>,
    /// Bytes of the reply budget in use, for replies that are built or written.
    pub(crate) reply_room: Gauge<i64, AtomicI64>,
    /// Failed operations, by protocol error status.
    errors: Family<OperationLabels, Counter<u64, AtomicU64>>,
    /// Duration of operations, and their number.
    latency: Histograms,
    /// File bytes that clients read from this server.
    pub file_bytes_read: Counter,
    /// File bytes that clients wrote to this server.
    pub file_bytes_written: Counter,
    /// Calls from addresses without an export.
    pub refused_clients: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        // 16 buckets from 20 µs to 0.65 s: an operation in memory to a stuck disk.
        let buckets: fn() -> Histogram = || Histogram::new(exponential_buckets(20e-6, 2.0, 16));
        Self {
            received_bytes: Counter::default(),
            sent_bytes: Counter::default(),
            calls_in_flight: Gauge::default(),
            connections: Gauge::default(),
            reply_room: Gauge::default(),
            errors: Family::default(),
            latency: Histograms::new_with_constructor(buckets),
            file_bytes_read: Counter::default(),
            file_bytes_written: Counter::default(),
            refused_clients: Counter::default(),
        }
    }
}

/// Guard that counts a call in flight until it is dropped.
#[derive(Debug)]
pub(crate) struct InFlight(Gauge<i64, AtomicI64>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    /// Registers all metrics in `registry`; the exposition prefixes their names with `heorot_`.
    pub fn register(self: &Arc<Self>, registry: &mut Registry) {
        let r = registry;
        r.register_with_unit("received", "Request bytes", Unit::Bytes, self.received_bytes.clone());
        r.register_with_unit("sent", "Reply bytes", Unit::Bytes, self.sent_bytes.clone());
        r.register("calls_in_flight", "Calls being worked on", self.calls_in_flight.clone());
        r.register("connections", "Open connections", self.connections.clone());
        r.register_with_unit("reply_room", "Memory held by replies", Unit::Bytes, self.reply_room.clone());
        r.register("operation_errors", "Operations that failed", self.errors.clone());
        r.register_with_unit("operation_latency", "Time of operations", Unit::Seconds, self.latency.clone());
        r.register_with_unit(
            "file_read",
            "File bytes that clients read here",
            Unit::Bytes,
            self.file_bytes_read.clone(),
        );
        r.register_with_unit(
            "file_written",
            "File bytes that clients wrote here",
            Unit::Bytes,
            self.file_bytes_written.clone(),
        );
        let refused = self.refused_clients.clone();
        r.register("refused_clients", "Calls from addresses that nothing is exported to", refused);
    }

    pub(crate) fn received(&self, bytes: usize) {
        self.received_bytes.inc_by(bytes as u64);
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.sent_bytes.inc_by(bytes as u64);
    }

    pub(crate) fn call_begins(&self) -> InFlight {
        self.calls_in_flight.inc();
        InFlight(self.calls_in_flight.clone())
    }

    /// Counts one operation and its duration.
    pub fn operation(&self, labels: OperationLabels, time: Duration, failed: bool) {
        self.latency.get_or_create(&labels).observe(time.as_secs_f64());
        if failed {
            self.errors.get_or_create(&labels).inc();
        }
    }
}

/// Renders a registry in the text format of Prometheus.
#[must_use]
pub fn exposition(registry: &Registry) -> String {
    let mut text = String::new();
    if prometheus_client::encoding::text::encode(&mut text, registry).is_err() {
        // Formatting into a String cannot fail; if it does, show it rather than half a page.
        let _ = writeln!(text, "# encoding failed");
    }
    text
}
