//! Admission of calls: a call is served through an export that admits its client address.
//!
//! A file handle names the export through which its client reached the file ([`Via`]). The export is looked
//! up at each call. So a change of exports is valid for mounted clients, and a handle taken from a client of
//! another export is refused.

use std::sync::Arc;
use std::time::Duration;

use cluster::{Access, Consistency, Export, Exports, Rules, changes_pending};
use namespace::{Inode, InodeId, MapChange};
use nfs::Connection;
use store::View;
use wire::handle;
use wire::nfs4::{ArgOp, Status};
use wire::rpc::Credential;

use crate::compound::{Context, Current};
use crate::errors::FileError;
use crate::exports::Admission;
use crate::user::User;

/// End of the port range that only root of a client can use.
const RESERVED_PORTS_END: u16 = 1024;
/// Maximum of directories between an export and a directory in it: the components of the longest path that a
/// program can use, 4096 bytes. Deeper directories are not served through the export of a directory.
pub(crate) const DEPTH_MAX: usize = 2048;

/// Interval of the leader's check for changes of exports that an earlier leader did not finish.
const PENDING_LOOK_EVERY: Duration = Duration::from_secs(1);

/// Export or pseudo file system through which a client reached a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    /// Export of this directory; the root directory stands for the whole volume.
    Export(InodeId),
    /// The pseudo file system above the exports (RFC 8881, section 7.3).
    Pseudo,
}

impl From<handle::Via> for Via {
    fn from(via: handle::Via) -> Self {
        match via {
            handle::Via::Volume => Self::Export(InodeId::ROOT),
            handle::Via::Directory(export) => Self::Export(InodeId(export)),
            handle::Via::Pseudo => Self::Pseudo,
        }
    }
}

impl From<Via> for handle::Via {
    fn from(via: Via) -> Self {
        match via {
            Via::Export(InodeId::ROOT) => Self::Volume,
            Via::Export(export) => Self::Directory(export.0),
            Via::Pseudo => Self::Pseudo,
        }
    }
}

impl Admission {
    /// Recalls layouts to write and write delegations whenever exports have changed. Data servers know no directories, so a
    /// client that may no longer write must not keep such a layout; nor open files for writing by itself. The leader does
    /// this, once for all metaservers. The change stays recorded in the state machine until then, so that a new leader goes
    /// on. Write delegations are recalled also while the cluster is set to have none. Never returns.
    pub(crate) async fn recall_when_exports_change(self: Arc<Self>) {
        loop {
            // The first notification may come before this metaserver is the leader.
            let _ = tokio::time::timeout(PENDING_LOOK_EVERY, self.cluster.exports_changed.notified()).await;
            if !self.cluster.settings().write_delegations && self.machine.replica.leads() {
                let _ = self.state.recall_all_writers().await; // tried again soon
            }
            let pending = changes_pending(&self.cluster.map().settings);
            if pending.is_empty() || !self.machine.replica.leads() {
                continue;
            }
            if !Arc::clone(&self.state).recall_all_writing().await {
                continue;
            }
            // Only the changes seen before the recall: a later change gets a recall of its own.
            let done = pending.into_iter().map(|key| (key, None)).collect();
            if let Err(error) = self.cluster.change_map(MapChange::Set(done)).await {
                tracing::info!(
                    %error,
                    "layouts to write are called back once more: the cluster map could not be changed"
                );
            }
        }
    }

    /// Rules of the export of a directory for calls over this connection.
    ///
    /// # Errors
    /// `Access` for an address without any export, and for an unprivileged source port where a reserved port
    /// is required. `Stale` for an address that has only exports of other directories: the handle is from
    /// another client.
    pub(crate) fn rules(&self, connection: &Connection, export: InodeId) -> Result<Rules, FileError> {
        let exports = self.cluster.exports.get();
        match exports.find(export, connection.peer().ip()) {
            Some(export) if admits_port(&export.rules, connection) => Ok(export.rules),
            Some(_) => Err(FileError::Access),
            None if admits_any(&exports, connection) => Err(FileError::Stale),
            None => Err(FileError::Access),
        }
    }

    /// Checks that an export admits this connection.
    ///
    /// # Errors
    /// `Access` if none does.
    pub(crate) fn check_admitted(&self, connection: &Connection) -> Result<(), FileError> {
        if admits_any(&self.cluster.exports.get(), connection) { Ok(()) } else { Err(FileError::Access) }
    }

    /// Exports that admit this connection, one for each directory.
    pub(crate) fn admitted_exports(&self, connection: &Connection) -> Vec<Export> {
        let exports = self.cluster.exports.get();
        admitted(&exports, connection).cloned().collect()
    }

    /// True if only lazy exports admit this connection.
    pub(crate) fn is_lazy_client(&self, connection: &Connection) -> bool {
        let exports = self.cluster.exports.get();
        exports.any_lazy()
            && admits_any(&exports, connection)
            && admitted(&exports, connection).all(|export| export.rules.consistency == Consistency::Lazy)
    }

    /// Identity of the caller in an export.
    ///
    /// # Errors
    /// As [`Admission::rules`].
    pub(crate) fn user(
        &self,
        connection: &Connection,
        credential: &Credential,
        export: InodeId,
    ) -> Result<User, FileError> {
        Ok(User::new(credential, &self.rules(connection, export)?, export))
    }

    /// Checks that an operation of NFSv4 is admitted: by the export of the current filehandle. Without a
    /// current filehandle, or in the pseudo file system, any export of the client is enough.
    ///
    /// # Errors
    /// As [`Admission::rules`].
    pub(crate) fn admit(&self, context: &Context, op: &ArgOp) -> Result<(), FileError> {
        match context.state.current.map(|current| current.via) {
            _ if is_for_everybody(op) => Ok(()),
            Some(Via::Export(export)) => self.rules(&context.connection, export).map(drop),
            Some(Via::Pseudo) | None => self.check_admitted(&context.connection),
        }
    }

    /// Checks that neither the current file's export is read-only, nor the file of a snapshot.
    ///
    /// # Errors
    /// `ReadOnly`, or as [`Admission::rules`].
    pub(crate) fn check_writable(&self, context: &Context) -> Result<(), Status> {
        let Current { inode, via: Via::Export(export), .. } = context.state.current()? else {
            return Err(Status::RoFs);
        };
        if inode.is_read_only() {
            return Err(Status::RoFs);
        }
        match self.rules(&context.connection, export)?.access {
            Access::ReadWrite => Ok(()),
            Access::ReadOnly => Err(Status::RoFs),
        }
    }

    /// Checks that a directory is in the export of its handle. After a move out of the export, nothing can be
    /// looked up or made in the directory through that export.
    ///
    /// # Errors
    /// `Stale` if it is not.
    pub(crate) fn check_inside(
        &self,
        view: &dyn View,
        export: InodeId,
        dir: &Inode,
    ) -> Result<(), FileError> {
        if export == InodeId::ROOT {
            return Ok(());
        }
        let (mut at, mut parent) = (dir.id, dir.directory().map(|directory| directory.parent));
        for _ in 0..DEPTH_MAX {
            if at == export {
                return Ok(());
            }
            let above = match parent {
                Some(above) if above != at => above,
                _ => return Err(FileError::Stale),
            };
            parent = self.machine.inode(view, above)?.directory().map(|directory| directory.parent);
            at = above;
        }
        Err(FileError::Stale)
    }
}

fn admits_port(rules: &Rules, connection: &Connection) -> bool {
    !rules.secure || connection.peer().port() < RESERVED_PORTS_END
}

fn admitted<'a>(exports: &'a Exports, connection: &'a Connection) -> impl Iterator<Item = &'a Export> {
    let all = exports.of_address(connection.peer().ip());
    all.filter(|export| admits_port(&export.rules, connection))
}

fn admits_any(exports: &Exports, connection: &Connection) -> bool {
    admitted(exports, connection).next().is_some()
}

/// True for operations that are served for every client with a session, since they show and change no file:
/// operations on filehandles, and return of state. So a client whose export was removed can still return its
/// state. DESTROY_CLIENTID has a check of its own. EXCHANGE_ID and CREATE_SESSION need an export. Otherwise
/// any host could fill the tables of clients, and end a client by using its client owner. RFC 8881 does not
/// list NFS4ERR_ACCESS for these two (section 15.2). Linux reports it as "access denied", like the refusal of
/// any other server.
pub(crate) fn is_for_everybody(op: &ArgOp) -> bool {
    matches!(
        op,
        ArgOp::DestroySession(_)
            | ArgOp::DestroyClientid(_)
            | ArgOp::Sequence(_)
            | ArgOp::ReclaimComplete(_)
            | ArgOp::PutFh(_)
            | ArgOp::PutRootFh
            | ArgOp::PutPubFh
            | ArgOp::SaveFh
            | ArgOp::RestoreFh
            | ArgOp::GetFh
            | ArgOp::Close(_)
            | ArgOp::LockU(_)
            | ArgOp::DelegReturn(_)
            | ArgOp::LayoutReturn(_)
            | ArgOp::FreeStateid(_)
            | ArgOp::TestStateid(_)
            | ArgOp::Illegal(_)
    )
}
