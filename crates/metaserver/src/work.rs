//! Work on objects: truncate and remove. A command leaves a record (the intent), the work is done here, and
//! [`Command::WorkDone`] takes the record away (the outcome). Whoever runs after a crash finds the records and goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use namespace::{Command, TargetId, Work, WorkKind, read};
use wire::data::{self, Procedure};
use wire::nfs4::Status;

use crate::Metaserver;
use crate::errors::store_failed;

/// Records taken up at one time: bounds one REMOVE call to a data server.
const WORK_MAX: usize = 256;
/// How long to wait after a data server did not answer.
const RETRY: Duration = Duration::from_millis(500);

impl Metaserver {
    /// Does one piece of work that a client waits for. An error leaves the record: it is done later, and until then
    /// the file's data are answered `Delay`.
    pub(crate) async fn finish_work(&self, id: Option<u64>) -> Result<(), Status> {
        let Some(id) = id else { return Ok(()) };
        let work = {
            let view = self.view()?;
            read::work_after(&*view, id.saturating_sub(1), 1).map_err(store_failed)?
        };
        match work.into_iter().find(|w| w.id == id) {
            None => Ok(()),
            Some(work) => match self.carry_out(&work).await {
                Ok(()) => self.work_done(vec![id]).await,
                Err(status) => {
                    self.work_ready.notify_one();
                    Err(if status == Status::Io { Status::Io } else { Status::Delay })
                }
            },
        }
    }

    async fn carry_out(&self, work: &Work) -> Result<(), Status> {
        match work.kind {
            WorkKind::Truncate(size) => {
                let data = self.file_data_of(work.inode, work.generation, work.layout)?;
                self.truncate_data(&data, size).await
            }
            WorkKind::Remove => {
                let mut removals = BTreeMap::new();
                self.gather(work, &mut removals)?;
                for (target, handles) in removals {
                    self.remove_objects(target, handles).await?;
                }
                Ok(())
            }
        }
    }

    fn gather(&self, work: &Work, into: &mut BTreeMap<TargetId, Vec<Bytes>>) -> Result<(), Status> {
        let data = self.file_data_of(work.inode, work.generation, work.layout)?;
        for (target, handle) in self.object_handles(&data) {
            into.entry(target).or_default().push(handle);
        }
        Ok(())
    }

    pub(crate) async fn remove_objects(&self, target: TargetId, handles: Vec<Bytes>) -> Result<(), Status> {
        let args = data::remove::Args { handles };
        self.call_target::<_, ()>(target, Procedure::Remove, args).await
    }

    async fn work_done(&self, ids: Vec<u64>) -> Result<(), Status> {
        self.propose(None, Command::WorkDone { ids }).await.map(drop)
    }

    /// Does what is left over, for ever: removals, and what a crash or a dead data server interrupted.
    pub(crate) async fn work_off(self: Arc<Self>) {
        loop {
            // One is enough; the others wait until they lead.
            let outcome = if self.replica.leads() { self.work_round().await } else { Ok(false) };
            match outcome {
                Ok(true) => {}
                Ok(false) => {
                    // Notified at each removal; the time-out is for what failed before.
                    let _ = tokio::time::timeout(RETRY * 10, self.work_ready.notified()).await;
                }
                Err(status) => {
                    tracing::debug!(?status, "work on objects waits");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// One pass over all records; whether any were done.
    async fn work_round(&self) -> Result<bool, Status> {
        // Not what another one, who leads by now, has done long ago.
        self.see_all().await?;
        let mut after = 0;
        let mut any = false;
        let mut trouble = None;
        loop {
            let batch = {
                let view = self.view()?;
                read::work_after(&*view, after, WORK_MAX).map_err(store_failed)?
            };
            let Some(last) = batch.last() else { break };
            after = last.id;
            match self.work_batch(&batch).await {
                Ok(done) => any |= done,
                Err(status) => trouble = Some(status),
            }
        }
        trouble.map_or(Ok(any), Err)
    }

    /// Removals of many files in one call to each target, then truncations one by one.
    async fn work_batch(&self, batch: &[Work]) -> Result<bool, Status> {
        let mut removals = BTreeMap::new();
        let mut done = Vec::new();
        for work in batch.iter().filter(|w| w.kind == WorkKind::Remove) {
            self.gather(work, &mut removals)?;
            done.push(work.id);
        }
        let mut trouble = None;
        let mut away = BTreeSet::new();
        for (target, handles) in removals {
            if let Err(status) = self.remove_objects(target, handles).await {
                trouble = Some(status);
                away.insert(target);
            }
        }
        if !away.is_empty() {
            // Files with a column there stay on the list; a second removal of their other objects does no harm.
            let mut reached = Vec::new();
            for work in batch.iter().filter(|w| w.kind == WorkKind::Remove) {
                let data = self.file_data_of(work.inode, work.generation, work.layout)?;
                if !self.object_handles(&data).iter().any(|(target, _)| away.contains(target)) {
                    reached.push(work.id);
                }
            }
            done = reached;
        }
        for work in batch.iter().filter(|w| w.kind != WorkKind::Remove) {
            match self.carry_out(work).await {
                Ok(()) => done.push(work.id),
                Err(status) => trouble = Some(status),
            }
        }
        let any = !done.is_empty();
        if any {
            self.work_done(done).await?;
        }
        trouble.map_or(Ok(any), Err)
    }
}
