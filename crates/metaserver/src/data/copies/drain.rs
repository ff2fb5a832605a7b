//! Targets that drain, alone or with their data servers: columns without copies move to other targets, and objects
//! that no file needs there are removed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use namespace::TargetId;
use tokio::time::Instant;

use super::{FILES_AT_A_TIME, Wanted};
use crate::data::Data;
use crate::errors::FileError;

/// Interval between two looks for targets that drain.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Interval between two looks at a target without columns to move: it takes no new files.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// Interval between two looks at a target of which no column could move.
const TRY_AFTER: Duration = Duration::from_secs(15);
/// Interval between two looks at a target without columns to move, which was asked to remove objects.
const SPARED_AFTER: Duration = Duration::from_secs(30);

/// What has become of the files on a target.
#[derive(Debug, Default, Clone, Copy)]
struct Moved {
    columns: u32,
    /// Files that are in use, or whose other columns are out of reach.
    left: u32,
    /// Why one of them is left.
    why: Option<FileError>,
    /// Objects that no file needs there, and whose removal was asked for.
    unneeded: u32,
}

impl Data {
    /// The leader puts columns without copies, of targets that drain, on chains, which move elsewhere. Never
    /// returns.
    pub(crate) async fn move_columns_of_draining(self: Arc<Self>) {
        let mut pauses = BTreeMap::<TargetId, Instant>::new();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let targets = self.draining_targets();
            pauses.retain(|target, until| targets.contains(target) && Instant::now() < *until);
            for target in &targets {
                if pauses.contains_key(target) || !self.machine.replica.leads() {
                    continue;
                }
                let pause = self.leave_for_a_while(*target, &targets).await;
                pauses.insert(*target, Instant::now() + pause);
            }
        }
    }

    /// Moves what can be moved now. Returns the time until the next try.
    async fn leave_for_a_while(&self, target: TargetId, draining: &BTreeSet<TargetId>) -> Duration {
        let id = format!("{:016x}", target.0);
        match self.leave_alone(target, draining).await {
            Ok(Moved { columns: 0, left: 0, unneeded: 0, .. }) => AGAIN_AFTER,
            // Some of them may have been spared.
            Ok(Moved { columns: 0, left: 0, .. }) => SPARED_AFTER,
            Ok(Moved { columns: 0, left, why, .. }) => {
                tracing::info!(target = %id, files = left, ?why, "files stay on a target that drains, retrying");
                TRY_AFTER
            }
            Ok(Moved { columns, left, .. }) => {
                tracing::info!(
                    target = %id, columns, files_left = left,
                    "columns without copies move from a target that drains"
                );
                LOOK_EVERY
            }
            Err(error) => {
                tracing::info!(target = %id, ?error, "columns of a target that drains cannot move yet, retrying");
                TRY_AFTER
            }
        }
    }

    fn draining_targets(&self) -> BTreeSet<TargetId> {
        let (map, lost) = (self.cluster.map(), self.cluster.data_servers.lost_targets());
        let of_server = |server: &namespace::DataServer| {
            let drains = |target: &TargetId| map.is_draining(*target, server.id) && !lost.contains(target);
            server.targets.iter().copied().filter(drains).collect::<Vec<_>>()
        };
        map.present_data_servers().flat_map(of_server).collect()
    }

    async fn leave_alone(&self, target: TargetId, draining: &BTreeSet<TargetId>) -> Result<Moved, FileError> {
        let (mut after, mut moved) = (None, Moved::default());
        let wanted = Wanted { copies: 1, targets: Some(draining) };
        loop {
            let page = self.list_objects(target, after).await?;
            let listed = self.by_owner(target, &page.objects)?;
            match self.remove_unneeded(target, &listed).await {
                Ok(asked_for) => moved.unneeded += asked_for,
                // Those of a read-only disk stay. Columns move all the same.
                Err(error) => {
                    let target = format!("{:016x}", target.0);
                    tracing::debug!(%target, ?error, "unneeded objects are not removed yet");
                }
            }
            let files = self.files_of(&listed.owned)?;
            let mut outcomes = stream::iter(files)
                .map(|file| self.put_on_chains(file, wanted))
                .buffer_unordered(FILES_AT_A_TIME);
            while let Some(outcome) = outcomes.next().await {
                match outcome {
                    Ok(columns) => moved.columns += columns,
                    Err(why) => (moved.left, moved.why) = (moved.left + 1, Some(why)),
                }
            }
            after = page.next();
            if after.is_none() {
                break;
            }
        }
        // Chains that no column was put on are used again, as long as there are files to come.
        match moved {
            Moved { left: 0, .. } => {
                let open = self.cluster.open_chains(Some(target), |_| true);
                self.close_chains(&open).await?;
            }
            _ => self.close_used_chains().await?,
        }
        Ok(moved)
    }
}
