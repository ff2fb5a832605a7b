//! `heorot stripe apply`: files that exist get the copies that new files in their directories have.
//!
//! One walk at a time in each metaserver, in the background. It writes nothing down: a file that has its copies is
//! passed over, so a walk that ended early is begun again.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use cluster::AdminError;
use futures_util::{StreamExt, stream};
use namespace::{ChainId, Inode, InodeId, Kind, read};
use parking_lot::Mutex;

use super::{FILES_AT_A_TIME, Wanted};
use crate::admin::stripe::{server_failed, walk, written_out};
use crate::data::Data;
use crate::errors::FileError;

/// Entries of a directory that are looked at in one view.
const ENTRIES_AT_A_TIME: usize = 256;
/// Attempts at a file that is in use, and the pause before the second; before the third it is twice as long.
const TRIES_MAX: u32 = 3;
const PAUSE: Duration = Duration::from_millis(500);

/// How far a walk has come, or came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApplyReport {
    /// Directory where it began.
    pub path: String,
    /// True if it is not done yet.
    pub is_running: bool,
    /// Files that were looked at.
    pub files: u64,
    /// Files that get copies now, or will be made with them.
    pub changed: u64,
    /// Files that were in use all the time, or with a data server away: they stay as they are.
    pub left: u64,
    /// Files with more copies than new files have: they stay as they are.
    pub more_copies: u64,
    /// Why it ended early.
    pub error: Option<String>,
}

/// The last walk of this process.
#[derive(Default)]
pub(crate) struct LastApply(Mutex<Option<ApplyReport>>);

impl LastApply {
    fn note(&self, change: impl FnOnce(&mut ApplyReport)) {
        if let Some(report) = &mut *self.0.lock() {
            change(report);
        }
    }
}

/// A directory to walk.
struct Walked {
    dir: InodeId,
    /// Copies of new files in it.
    copies: u8,
    /// Cookie of the last entry that was looked at.
    after: u64,
}

/// What a file needs.
enum Need {
    Nothing,
    Copies,
    /// It has more copies than new files.
    More,
}

impl Data {
    /// Begins to give the files in and below a directory their copies; if that is under way, nothing else happens.
    ///
    /// # Errors
    /// [`AdminError::Invalid`] while the same is under way for another directory; that of the path.
    pub fn stripe_apply(self: &Arc<Self>, path: &str) -> Result<ApplyReport, AdminError> {
        let (dir, path) = {
            let view = self.machine.view().map_err(server_failed)?;
            let way = walk(&*view, path)?;
            (way.last().map_or(InodeId::ROOT, |(inode, ..)| *inode), written_out(&way))
        };
        let copies = self.copies_in(dir).map_err(server_failed)?;
        let begun = {
            let mut last = self.last_apply.0.lock();
            match &*last {
                Some(report) if report.is_running && report.path == path => return Ok(report.clone()),
                Some(ApplyReport { is_running: true, path, .. }) => {
                    return Err(AdminError::Invalid(format!(
                        "this is under way for {path}; wait for its end"
                    )));
                }
                _ => last.insert(ApplyReport { path, is_running: true, ..ApplyReport::default() }).clone(),
            }
        };
        let data = Arc::clone(self);
        tokio::spawn(async move {
            let outcome = data.apply_below(Walked { dir, copies, after: 0 }).await;
            // Also unused ones, and those of walks that ended early: a walk beside this one makes others.
            let error = match (
                outcome,
                data.close_chains(&data.cluster.open_chains(None, |copies| copies > 1)).await,
            ) {
                (Err(error), _) | (_, Err(error)) => Some(server_failed(error).to_string()),
                (Ok(()), Ok(())) => None,
            };
            data.last_apply.note(|report| (report.is_running, report.error) = (false, error));
        });
        Ok(begun)
    }

    /// How far the last walk of this metaserver has come; none: there was none since its start.
    #[must_use]
    pub fn stripe_applied(&self) -> Option<ApplyReport> {
        self.last_apply.0.lock().clone()
    }

    fn copies_in(&self, dir: InodeId) -> Result<u8, FileError> {
        let policy = read::stripe_policy(&*self.machine.view()?, dir)?;
        Ok(self.cluster.copies_of(&policy.unwrap_or(self.cluster.default_stripe().into())))
    }

    async fn apply_below(&self, top: Walked) -> Result<(), FileError> {
        let mut stack = vec![top];
        while let Some(walked) = stack.last_mut() {
            let copies = walked.copies;
            let entries = self.next_entries(walked)?;
            if entries.is_empty() {
                stack.pop();
                continue;
            }
            let mut files = Vec::new();
            for inode in entries {
                match inode.kind {
                    Kind::Directory(directory) => {
                        let copies =
                            directory.stripe.map_or(copies, |policy| self.cluster.copies_of(&policy));
                        stack.push(Walked { dir: inode.id, copies, after: 0 });
                    }
                    Kind::File(_) => files.push(inode),
                    _ => {}
                }
            }
            let outcomes = files.into_iter().map(|file| self.apply_to(file, copies));
            stream::iter(outcomes).buffer_unordered(FILES_AT_A_TIME).for_each(|()| async {}).await;
        }
        Ok(())
    }

    /// Inodes of the next entries of a directory.
    fn next_entries(&self, walked: &mut Walked) -> Result<Vec<Inode>, FileError> {
        let view = self.machine.view()?;
        let mut ids = Vec::new();
        read::list(&*view, walked.dir, walked.after, |entry| {
            walked.after = entry.cookie;
            ids.push(entry.inode);
            if ids.len() < ENTRIES_AT_A_TIME { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        let inodes = ids.into_iter().filter_map(|id| read::inode(&*view, id).transpose());
        Ok(inodes.collect::<Result<_, _>>()?)
    }

    async fn apply_to(&self, file: Inode, copies: u8) {
        let mut tries = 0;
        let outcome = loop {
            let outcome = match self.need(&file, copies) {
                Ok(Need::Copies) => {
                    let put = self.put_on_chains(file.id, Wanted { copies, targets: None }).await;
                    put.map(|columns| if columns > 0 { Need::Copies } else { Need::Nothing })
                }
                other => other,
            };
            tries += 1;
            if outcome.is_ok() || tries >= TRIES_MAX {
                break outcome;
            }
            tokio::time::sleep(PAUSE * tries).await;
        };
        if let Err(error) = &outcome {
            tracing::info!(inode = file.id.0, ?error, "a file stays without copies for now");
        }
        self.last_apply.note(|report| {
            report.files += 1;
            match outcome {
                Ok(Need::Nothing) => {}
                Ok(Need::Copies) => report.changed += 1,
                Ok(Need::More) => report.more_copies += 1,
                Err(_) => report.left += 1,
            }
        });
    }

    fn need(&self, file: &Inode, copies: u8) -> Result<Need, FileError> {
        let Some(layout) = file.layout() else { return Ok(Need::Nothing) };
        let data = self.file_data_of(file, layout)?;
        let all = self.cluster.chains();
        let copies_of = |chain: &ChainId| all.get(chain).map_or(1, |chain| chain.copies);
        let least = data.chains.iter().map(copies_of).min().unwrap_or(copies);
        Ok(match least {
            least if least < copies => {
                match file.columns().is_some() || self.copies_of(&data.chains) < copies {
                    true => Need::Copies,
                    false => Need::Nothing,
                }
            }
            least if file.columns().is_some() && least > copies => Need::More,
            _ => Need::Nothing,
        })
    }
}
