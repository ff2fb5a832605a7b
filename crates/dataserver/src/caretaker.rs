//! Care of the targets in the background: each has a task of its own, so that a disk that hangs holds no other.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::server::DataServer;
use crate::target::Target;

/// Interval of the settling of sums.
const SETTLE_EVERY: Duration = Duration::from_secs(1);

impl DataServer {
    /// Cares for the targets, for ever; ends when it is dropped, and a disk operation under way after it.
    pub async fn care_for_targets(self: Arc<Self>) {
        let mut tasks = JoinSet::new();
        for target in self.present_targets() {
            tasks.spawn(settle(Arc::clone(target)));
        }
        while tasks.join_next().await.is_some() {}
        // No target is there.
        std::future::pending().await
    }
}

async fn settle(target: Arc<Target>) {
    loop {
        tokio::time::sleep(SETTLE_EVERY).await;
        let settled = target.run(|objects| {
            objects.settle(&|_| ());
            Ok(())
        });
        let _ = settled.await; // what fails is logged where it fails
    }
}
