//! Space that files take at the data servers, as `du` shows it. While a file is written through layouts its
//! observations say it ([`crate::data::unsettled`]). After any other change, such as a write by NFSv3, a hole that was
//! punched, or a truncation, the state machine lists the file, and the leader asks.
//!
//! ```text
//! list of files ─▶ STAT of all columns ─▶ SpaceUsed ─▶ not on the list any more, unless the file has changed since
//! ```

use std::sync::Arc;
use std::time::Duration;

use namespace::{Command, Inode, InodeId, SpaceUsed, Unsettled, read};
use tokio::time::Instant;

use crate::data::Data;
use crate::data::hold::{SHORT_TIME_MAX, unheld};
use crate::data::unsettled::Asked;
use crate::errors::FileError;

/// Pause between two looks at the list.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Longest pause, while no file can be told about: its data servers are away.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Longest time of a look.
const LOOK_MAX: Duration = Duration::from_secs(1);
/// Files that are asked about at a time: their objects are looked at one after the other.
const FILES_AT_ONCE: usize = 32;

/// What a look at the list came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Looked {
    /// The last file that was looked at.
    last: InodeId,
    /// Number of files that were told about.
    told: usize,
}

impl Data {
    /// Asks for the space of changed files. Never returns.
    pub(crate) async fn look_at_space(self: Arc<Self>) {
        let (mut after, mut told, mut pause) = (InodeId(0), 0, LOOK_EVERY);
        loop {
            tokio::time::sleep(pause).await;
            if !self.machine.replica.leads() {
                (after, told, pause) = (InodeId(0), 0, LOOK_EVERY);
                continue;
            }
            let until = Instant::now() + LOOK_MAX;
            while Instant::now() < until {
                match self.look_at_space_of_some(after, until).await {
                    Ok(Some(looked)) => (after, told) = (looked.last, told + looked.told),
                    // The end of the list.
                    Ok(None) => {
                        let is_stuck = after != InodeId(0) && told == 0;
                        pause = if is_stuck { (pause * 2).min(PAUSE_MAX) } else { LOOK_EVERY };
                        (after, told) = (InodeId(0), 0);
                        break;
                    }
                    Err(error) => {
                        tracing::debug!(?error, "the space of files is not known yet, retrying");
                        break;
                    }
                }
            }
        }
    }

    /// Asks for the space of some files above `after`. None: there are no more.
    async fn look_at_space_of_some(
        &self,
        after: InodeId,
        until: Instant,
    ) -> Result<Option<Looked>, FileError> {
        let listed = read::space_untold(&*self.machine.view()?, after, FILES_AT_ONCE)?;
        let Some(last) = listed.last().copied() else { return Ok(None) };
        let (mut told, silent) = self.ask_for_space(&listed).await?;
        // Each by itself: one that cannot be asked about has the answer for all with objects on its targets fail.
        for file in silent {
            if Instant::now() >= until {
                break;
            }
            told += self.ask_for_space(&[file]).await?.0;
        }
        Ok(Some(Looked { last, told }))
    }

    /// Returns the inode with the space that the file takes now, if its data servers answer soon. For a client that will not
    /// ask again, since it has a write delegation.
    pub(crate) async fn space_now(&self, inode: Inode) -> Inode {
        if inode.space_is_told {
            return inode; // the usual case
        }
        let told = tokio::time::timeout(SHORT_TIME_MAX, self.ask_for_space(&[inode.id])).await;
        let now = self.machine.view().map(|view| read::inode(&*view, inode.id));
        match (told, now) {
            (Ok(Ok(_)), Ok(Ok(Some(now)))) if now.generation == inode.generation => now,
            _ => inode,
        }
    }

    /// Asks for the space of these files. Returns the number of those that are told, and those that a data server did not
    /// answer for.
    async fn ask_for_space(&self, files: &[InodeId]) -> Result<(usize, Vec<InodeId>), FileError> {
        let (mut asked, mut data, mut versions) = (Vec::new(), Vec::new(), Vec::new());
        {
            let view = self.machine.view()?;
            for id in files {
                let Some(inode) = read::inode(&*view, *id)? else { continue };
                let Some(layout) = inode.columns() else { continue };
                // Its objects are shorter soon.
                if read::pending_truncation(&*view, *id)? {
                    continue;
                }
                data.push(self.file_data(&inode)?);
                asked.push(Asked::new(&inode, Unsettled { grant: 0, version: 0, times_set: 0 }, layout));
                versions.push((inode.epoch, inode.change));
            }
        }
        let mut silent = unheld(self.stat_columns(&mut asked, &data, false)).await?;
        silent.sort();
        silent.dedup();
        let told = asked.iter().zip(versions).filter(|(asked, _)| !silent.contains(&asked.inode));
        let files: Vec<SpaceUsed> = told
            .filter_map(|(asked, (epoch, change))| {
                let bytes = asked.space_used()?;
                Some(SpaceUsed { inode: asked.inode, epoch, change, bytes })
            })
            .collect();
        let told = files.len();
        if told > 0 {
            self.state.propose(None, Command::SpaceUsed { files }).await?;
        }
        Ok((told, silent))
    }
}
