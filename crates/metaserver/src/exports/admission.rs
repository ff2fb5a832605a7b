//! Which calls are served at all: those through an export that admits the address that they come from.
//!
//! A handle names the export that its client came through ([`Via`]). The export is looked up at each call, so
//! that a change of exports holds for mounted clients, and a handle that was learnt from a client of another
//! export is refused.

use std::sync::Arc;
use std::time::Duration;

use cluster::{Access, Consistency, Export, Exports, Rules, changes_pending};
use namespace::{Inode, InodeId, MapChange};
use nfs::Connection;
use store::View;
use wire::handle;
use wire::nfs4::{ArgOp, Status};
use wire::rpc::Credential;

use crate::compound::Context;
use crate::errors::FileError;
use crate::exports::Admission;
use crate::user::User;

/// Ports that only a client's root can call from end before this one.
const RESERVED_PORTS_END: u16 = 1024;
/// Directories between an export and a directory in it: the components of the longest path that a program can
/// name, 4096 bytes. What is deeper is not served through the export of a directory.
pub(crate) const DEPTH_MAX: usize = 2048;

/// How often the leader looks for changes of exports that an earlier leader did not finish.
const PENDING_LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a client came to a file through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    /// The export of this directory; of the root: of the whole volume.
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
    /// Asks layouts to write back whenever exports have changed: data servers know no directories, so a
    /// client that may no longer write must not keep one. The leader does it, once for all metaservers. The
    /// state machine knows of the change until that is done, so that the next leader goes on.
    pub(crate) async fn recall_when_exports_change(self: Arc<Self>) {
        loop {
            // The first answer of a leader that was just elected may be late.
            let _ = tokio::time::timeout(PENDING_LOOK_EVERY, self.cluster.exports_changed.notified()).await;
            let pending = changes_pending(&self.cluster.map().settings);
            if pending.is_empty() || !self.machine.replica.leads() {
                continue;
            }
            if !Arc::clone(&self.state).recall_layouts_to_write().await {
                continue;
            }
            // Those that were seen before: one that came meanwhile has its own turn.
            let done = pending.into_iter().map(|key| (key, None)).collect();
            if let Err(error) = self.cluster.change_map(MapChange::Set(done)).await {
                tracing::info!(
                    %error,
                    "layouts to write are called back once more: the cluster map could not be changed"
                );
            }
        }
    }

    /// The rules of the export of a directory for calls from this connection.
    ///
    /// # Errors
    /// `Access` for an address that nothing is exported to, and for an unprivileged source port where
    /// privileged ones are asked for. `Stale` for an address that other directories are exported to: a handle
    /// that it learnt elsewhere.
    pub(crate) fn rules(&self, connection: &Connection, export: InodeId) -> Result<Rules, FileError> {
        let exports = self.cluster.exports.get();
        match exports.find(export, connection.peer().ip()) {
            Some(export) if admits_port(&export.rules, connection) => Ok(export.rules),
            Some(_) => Err(FileError::Access),
            None if admits_any(&exports, connection) => Err(FileError::Stale),
            None => Err(FileError::Access),
        }
    }

    /// Whether this connection is admitted to any export.
    ///
    /// # Errors
    /// `Access` if not.
    pub(crate) fn check_admitted(&self, connection: &Connection) -> Result<(), FileError> {
        if admits_any(&self.cluster.exports.get(), connection) { Ok(()) } else { Err(FileError::Access) }
    }

    /// The exports that this connection is admitted to, one for each directory.
    pub(crate) fn admitted_exports(&self, connection: &Connection) -> Vec<Export> {
        let exports = self.cluster.exports.get();
        admitted(&exports, connection).cloned().collect()
    }

    /// Whether this connection is admitted to lazy exports only.
    pub(crate) fn is_lazy_client(&self, connection: &Connection) -> bool {
        let exports = self.cluster.exports.get();
        exports.any_lazy()
            && admits_any(&exports, connection)
            && admitted(&exports, connection).all(|export| export.rules.consistency == Consistency::Lazy)
    }

    /// The caller's identity in an export.
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

    /// Whether an operation of NFSv4 is served: by the export of the current filehandle; by any, of an
    /// operation without one or in the pseudo file system.
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

    /// Whether the current file may be changed.
    ///
    /// # Errors
    /// `ReadOnly` if not, or as [`Admission::rules`].
    pub(crate) fn check_writable(&self, context: &Context) -> Result<(), Status> {
        let Via::Export(export) = context.state.current()?.via else { return Err(Status::RoFs) };
        match self.rules(&context.connection, export)?.access {
            Access::ReadWrite => Ok(()),
            Access::ReadOnly => Err(Status::RoFs),
        }
    }

    /// Whether a directory is in the export that it was named through. It is not when it was moved out of it:
    /// nothing is looked up or made there any more through that export.
    ///
    /// # Errors
    /// `Stale` if not.
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

/// What shows and changes no file for one who has a session: names of handles, and what gives state back. A
/// client that an export was taken from can still leave in order. To begin (EXCHANGE_ID, CREATE_SESSION) a
/// client needs an export: else any stranger could fill the tables of clients, and end the client whose name
/// it says. RFC 8881 has no such error for these (section 15.2); Linux says "access denied" to
/// NFS4ERR_ACCESS, as to any other server's refusal.
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
