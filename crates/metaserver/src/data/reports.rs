//! What clients report of their dealings with data servers (LAYOUTERROR, LAYOUTSTATS), and what is done about
//! it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use namespace::TargetId;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::{Registry, Unit};
use wire::data::{self, Procedure};

use crate::data::Data;

/// A data server that says nothing for this long when it is asked how it is gets no new files.
const LOOK_TIME_MAX: Duration = Duration::from_secs(3);

/// Counters, and the targets that are being looked at.
#[derive(Debug, Default)]
pub struct Reports {
    pub(crate) layout_errors: Counter,
    pub(crate) straight_read_bytes: Counter,
    pub(crate) straight_written_bytes: Counter,
    looking: Mutex<BTreeSet<TargetId>>,
}

impl Reports {
    /// Puts the counters into `registry`.
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

    /// Whether nobody else is looking at `target`; then the caller has to.
    fn begin(&self, target: TargetId) -> bool {
        self.looking.lock().insert(target)
    }

    fn end(&self, target: TargetId) {
        self.looking.lock().remove(&target);
    }
}

impl Data {
    /// Asks the data servers of these targets how they are, in the background. One that does not answer
    /// counts as silent at once, and not only when its reports stay away, until it reports again.
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
