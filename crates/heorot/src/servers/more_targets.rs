//! More targets for a running data server: of `heorot target add`, and of its file when SIGHUP comes.
//!
//! ```text
//! check ─▶ ds.toml ─▶ open, serve ─▶ registration, at once ─▶ answer
//! ```
//!
//! The file comes first. If the process ends after it, the next one has the target; if the opening fails, the file
//! gets its text of before.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dataserver::{AdditionError, DataServer, is_same_directory, plain_path};

use crate::admin::api::Status;
use crate::config::ds::DsConfig;
use crate::node::ds_file::DsFile;
use crate::servers::known_metaservers::KnownMetaservers;
use crate::servers::reload::read_again;
use command_line::Failure;

/// Time limit of the wait for a metaserver that completes the registration: an election takes some seconds.
const REGISTER_TIME_MAX: Duration = Duration::from_secs(15);

/// The data server, its file, and the metaservers that it knows.
pub(crate) struct MoreTargets {
    file: PathBuf,
    data_server: Arc<DataServer>,
    metaservers: Arc<KnownMetaservers>,
    one_at_a_time: tokio::sync::Mutex<()>,
}

impl MoreTargets {
    pub(crate) fn new(
        file: PathBuf,
        data_server: Arc<DataServer>,
        metaservers: Arc<KnownMetaservers>,
    ) -> Arc<Self> {
        Arc::new(Self { file, data_server, metaservers, one_at_a_time: tokio::sync::Mutex::default() })
    }

    /// Puts a directory into the file, unless it is there already, and serves it. Returns a line about it.
    ///
    /// # Errors
    /// The reason, and what is as it was.
    pub(crate) async fn add(self: Arc<Self>, dir: PathBuf) -> Result<String, Failure> {
        let _alone = self.one_at_a_time.lock().await;
        let this = Arc::clone(&self);
        let (file, dir, id) = tokio::task::spawn_blocking(move || this.check(&dir)).await??;
        self.check_elsewhere(&dir, id).await?;
        let (this, shown, path) = (Arc::clone(&self), dir.display().to_string(), file.path().to_owned());
        let id = tokio::task::spawn_blocking(move || this.note_and_serve(&file, &dir)).await??;
        self.check_registered(&shown, &path, id).await?;
        Ok(format!(
            "{shown} is a target of {} from now on, with the id {id:016x}, and is in {}: new files go there at once, and data \
             with copies move there while it is emptier than others",
            self.data_server.name(),
            path.display()
        ))
    }

    /// Serves those of the directories that the file names now and that are no targets yet. Logs what cannot be had,
    /// and targets that the file does not name any more.
    pub(crate) async fn follow(self: &Arc<Self>) {
        let _alone = self.one_at_a_time.lock().await;
        // Only now: a command may have put a directory there that could not be served, and taken it out again.
        let Some(DsConfig { targets: listed, .. }) = read_again(&self.file, DsConfig::parse) else { return };
        let listed = &listed[..];
        let own = self.data_server.target_paths();
        let is_among = |dir: &PathBuf, all: &[PathBuf]| all.iter().any(|other| is_same_directory(dir, other));
        for dir in own.iter().filter(|dir| !is_among(dir, listed)) {
            tracing::warn!(
                target = %dir.display(),
                "the file does not name a target any more: it is served until the next start of the data server"
            );
        }
        for dir in listed.iter().filter(|dir| !is_among(dir, &own)) {
            if let Err(why) = self.serve_listed(dir).await {
                tracing::error!("a directory in `targets` is not served: {why}");
            }
        }
    }

    async fn serve_listed(self: &Arc<Self>, dir: &Path) -> Result<(), Failure> {
        let (this, dir) = (Arc::clone(self), plain_path(dir)?);
        let checked = dir.clone();
        let id =
            tokio::task::spawn_blocking(move || this.data_server.check_addition(&checked, &[])).await??;
        self.check_elsewhere(&dir, id).await?;
        let this = Arc::clone(self);
        tokio::task::spawn_blocking(move || this.data_server.add_target(&dir)).await??;
        Ok(())
    }

    /// Locks the file, and checks the directory. Blocks.
    fn check(&self, dir: &Path) -> Result<(DsFile, PathBuf, Option<u64>), Failure> {
        let dir = plain_path(dir)?;
        let file = DsFile::lock(&self.file)?;
        let is_other = |target: &PathBuf| !is_same_directory(target, &dir);
        let others: Vec<PathBuf> = file.config.targets.iter().filter(|t| is_other(t)).cloned().collect();
        let id = self.data_server.check_addition(&dir, &others).map_err(|error| match error {
            // Named in the file, and served.
            AdditionError::IsTarget(_) if !file.lists(&dir) => Failure::new(format!(
                "{}: is served until the next start of the data server, and is not in {} any more; add it there with an editor \
                 to keep it",
                dir.display(),
                file.path().display()
            )),
            error => error.into(),
        })?;
        Ok((file, dir, id))
    }

    /// Checks that no other data server serves the target that is in the directory: metaservers would refuse this
    /// data server with all of its targets.
    async fn check_elsewhere(&self, dir: &Path, id: Option<u64>) -> Result<(), Failure> {
        let Some(id) = id.map(|id| format!("{id:016x}")) else { return Ok(()) };
        let dir = dir.display();
        let Some(status) = self.metaservers.cluster_status().await else {
            return Err(Failure::new(format!(
                "{dir}: is the target {id} already, and no metaserver answers the question whether another data server serves \
                 that; nothing was changed. See heorot status, and try again"
            )));
        };
        let status: Status = serde_json::from_value(status)?;
        let own = format!("{:016x}", self.data_server.id());
        let others = status.data_servers.iter().filter(|server| server.id != own);
        let serves = |state: &str| !["missing", "silent"].contains(&state);
        for server in others {
            if let Some(target) = server.targets.iter().find(|t| t.id == id && serves(&t.state)) {
                return Err(Failure::new(format!(
                    "{dir}: is the target {id}, which {} serves in {}, and a target can be served once; nothing was changed. \
                     Stop {0} first if its disk has moved here, or name an empty directory",
                    server.name, target.path
                )));
            }
        }
        Ok(())
    }

    /// Blocks.
    fn note_and_serve(&self, file: &DsFile, dir: &Path) -> Result<u64, Failure> {
        let is_listed = file.lists(dir);
        if !is_listed {
            file.add(dir)?;
        }
        self.data_server.add_target(dir).map_err(|why| {
            let undone = if is_listed { Ok(()) } else { file.undo(dir) };
            let and = match undone {
                Ok(()) if is_listed => format!("{} names it, as before", file.path().display()),
                Ok(()) => format!("{} is as it was", file.path().display()),
                Err(error) => {
                    format!("{} names it, which cannot be undone: {error}", file.path().display())
                }
            };
            Failure::new(format!("{why}; {and}"))
        })
    }

    async fn check_registered(&self, dir: &str, file: &Path, id: u64) -> Result<(), Failure> {
        let registered = tokio::time::timeout(REGISTER_TIME_MAX, self.data_server.until_registered(id)).await;
        registered.map_err(|_| {
            Failure::new(format!(
                "{dir}: is in {}, and served, but no metaserver has registered it within {} s: it gets files once one does; \
                 heorot status, and the log of the data server, may say why none does",
                file.display(),
                REGISTER_TIME_MAX.as_secs()
            ))
        })
    }
}
