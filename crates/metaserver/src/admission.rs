//! Which calls are served at all: by the export of the address that they come from.

use std::sync::{Arc, PoisonError, RwLock};

use namespace::InodeId;
use nfs::Connection;
use wire::nfs4::{ArgOp, Status};
use wire::rpc::Credential;

use crate::Metaserver;
use crate::exports::{Access, Exports, Rules};
use crate::user::User;

/// Ports that only a client's root can call from end before this one.
const RESERVED_PORTS_END: u16 = 1024;

/// The exports in force, which can be replaced while clients are served.
#[derive(Default)]
pub(crate) struct CurrentExports(RwLock<Arc<Exports>>);

impl CurrentExports {
    pub(crate) fn get(&self) -> Arc<Exports> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether that changes anything for clients: where there were none nobody was served.
    pub(crate) fn replace(&self, exports: Exports) -> bool {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let changes = !current.is_empty() && **current != exports;
        *current = Arc::new(exports);
        changes
    }
}

impl Metaserver {
    /// Asks layouts to write back whenever exports have changed: data servers know no exports, so a client that may no longer
    /// write must not keep one.
    pub(crate) async fn recall_when_exports_change(self: Arc<Self>) {
        loop {
            self.exports_changed.notified().await;
            // Once for all metaservers.
            if self.replica.leads() {
                Arc::clone(&self).recall_layouts_to_write().await;
            }
        }
    }

    /// What holds for calls from this connection.
    ///
    /// # Errors
    /// `Access` for an address that nothing is exported to, and for an unprivileged source port where privileged ones
    /// are asked for.
    pub(crate) fn rules(&self, connection: &Connection) -> Result<Rules, Status> {
        let peer = connection.peer();
        let exports = self.exports.get();
        let rules = exports.find(InodeId::ROOT, peer.ip()).ok_or(Status::Access)?.rules;
        if rules.secure && peer.port() >= RESERVED_PORTS_END {
            return Err(Status::Access);
        }
        Ok(rules)
    }

    /// The caller's identity on this connection.
    ///
    /// # Errors
    /// As [`Metaserver::rules`].
    pub(crate) fn user(&self, connection: &Connection, credential: &Credential) -> Result<User, Status> {
        Ok(User::new(credential, &self.rules(connection)?))
    }

    /// Whether an operation of NFSv4 is served.
    ///
    /// # Errors
    /// As [`Metaserver::rules`].
    pub(crate) fn admit(&self, connection: &Connection, op: &ArgOp) -> Result<(), Status> {
        if is_for_everybody(op) { Ok(()) } else { self.rules(connection).map(drop) }
    }

    /// Whether calls from this connection may change anything.
    ///
    /// # Errors
    /// `RoFs` if not, or as [`Metaserver::rules`].
    pub(crate) fn check_writable(&self, connection: &Connection) -> Result<(), Status> {
        match self.rules(connection)?.access {
            Access::ReadWrite => Ok(()),
            Access::ReadOnly => Err(Status::RoFs),
        }
    }
}

/// What shows and changes no file for one who has a session: names of handles, and what gives state back. A client that an
/// export was taken from can still leave in order. To begin (EXCHANGE_ID, CREATE_SESSION) a client needs an export: else
/// any stranger could fill the tables of clients, and end the client whose name it says. RFC 8881 has no such error for
/// these (section 15.2); Linux says "access denied" to NFS4ERR_ACCESS, as to any other server's refusal.
fn is_for_everybody(op: &ArgOp) -> bool {
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
