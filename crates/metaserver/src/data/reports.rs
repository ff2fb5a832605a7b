//! Client reports about data servers (LAYOUTERROR, LAYOUTSTATS), and the reactions to them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use namespace::TargetId;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::{Registry, Unit};
use wire::data::{self, Procedure};

use crate::data::Data;

/// Time limit of a health check. A data server without an answer in this time gets no new files.
const LOOK_TIME_MAX: Duration = Duration::from_secs(3);

/// Counters, and targets with a health check under way.
#[derive(Debug, Default)]
pub struct Reports {
    pub(crate) layout_errors: Counter,
    pub(crate) straight_read_bytes: Counter,
    pub(crate) straight_written_bytes: Counter,
    looking: Mutex<BTreeSet<TargetId>>,
}

impl Reports {
    /// Registers the counters with `registry`.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "layout_errors",
            "Failures of data servers that clients reported (LAYOUTERROR)",
            self.layout_errors.clone(),
        );
        for (name, help, counter) in [
            (
                "layoutstats_read",
                "File bytes that clients report to have read straight",
                &self.straight_read_bytes,
            ),
            (
                "layoutstats_written",
                "File bytes that clients report to have written straight",
                &self.straight_written_bytes,
            ),
        ] {
            registry.register_with_unit(name, help, Unit::Bytes, counter.clone());
        }
    }

    /// Returns true if no health check of `target` is under way; then the caller must do it.
    fn begin(&self, target: TargetId) -> bool {
        self.looking.lock().insert(target)
    }

    fn end(&self, target: TargetId) {
        self.looking.lock().remove(&target);
    }
}

impl Data {
    /// Checks the health of these targets' data servers, in the background. A server without an answer counts
    /// as silent at once, before its heartbeats are missed, until its next heartbeat.
    pub(crate) fn look_at(&self, targets: &[TargetId]) {
        for target in targets.iter().copied().filter(|target| self.reports.begin(*target)) {
            let (reports, data) = (Arc::clone(&self.reports), Arc::clone(&self.cluster.data_servers));
            tokio::spawn(async move {
                if let Some(peer) = data.peer(target) {
                    let answer =
                        peer.call(Procedure::Status as u32, &data::status::Args {}, LOOK_TIME_MAX).await;
                    let status: Result<data::status::Res, _> = answer;
                    let known = match status {
                        Ok(Ok(status)) => status.targets.into_iter().find(|space| space.target == target.0),
                        Ok(Err(_)) | Err(_) => None,
                    };
                    match known {
                        Some(space) => data.update(target, space),
                        None => {
                            tracing::warn!(address = %peer.address(), "the data server does not answer us either");
                            data.silence(target);
                        }
                    }
                }
                reports.end(target);
            });
        }
    }
}
