//! Read barriers before compounds and calls, by the consistency of the export.
//!
//! *Strict*: a barrier before every compound and call, so that every read sees every change that was answered
//! before it.
//!
//! *Lazy*: a barrier where close-to-open consistency needs it. OPEN, LOCK, every change, and in NFSv3 GETATTR
//! and LOOKUP, with which its clients open, see all changes answered before them. Later reads of the same
//! client at this metaserver are at least as new. Other reads may miss recent changes that other clients made
//! at other metaservers. Two bounds limit this:
//!
//! - a client's own changes are made here; or the client has come over a new connection, and its first call
//!   uses a barrier;
//! - the last barrier was within the last [`LAZY_MAX`], so that an isolated metaserver shows nothing older.

use std::time::Duration;

use nfs::Connection;
use wire::nfs3;
use wire::nfs4::{ArgOp, SessionId};

use crate::errors::FileError;
use crate::exports::Admission;

/// Maximum age of a lazy read: less than the shortest time of Linux' own caches (`acregmin` is 3 s).
const LAZY_MAX: Duration = Duration::from_secs(1);

/// Stands for a session in NFSv3, which has none.
const NO_SESSION: SessionId = SessionId([0; 16]);

impl Admission {
    /// Barrier before a compound of `session` over `connection`. Returns true if its operations see all
    /// changes answered before. Otherwise operations that are not [`may_be_lazy`] take the barrier
    /// themselves.
    pub(crate) async fn barrier_before_compound(
        &self,
        connection: &Connection,
        session: SessionId,
    ) -> Result<bool, FileError> {
        if self.may_read_lazily(connection, session) {
            return Ok(false);
        }
        self.machine.read_barrier().await.map(|()| true)
    }

    /// Barrier before a call of NFSv3.
    pub(crate) async fn barrier_before_call3(
        &self,
        connection: &Connection,
        procedure: nfs3::Procedure,
    ) -> Result<(), FileError> {
        if may_be_lazy3(procedure) && self.may_read_lazily(connection, NO_SESSION) {
            return Ok(());
        }
        self.machine.read_barrier().await?;
        connection.associate(NO_SESSION);
        Ok(())
    }

    fn may_read_lazily(&self, connection: &Connection, session: SessionId) -> bool {
        self.is_lazy_client(connection)
            // The client must see its own changes from another metaserver, before it came here.
            && connection.is_associated(session)
            && is_recent(self.machine.group.last_barrier(), self.machine.clock.monotonic())
    }
}

/// True if the last barrier is recent enough for a lazy read.
fn is_recent(last_barrier: Option<Duration>, now: Duration) -> bool {
    last_barrier.is_some_and(|at| now.saturating_sub(at) < LAZY_MAX)
}

/// True for operations that only read, and may miss recent changes of other clients.
pub(crate) fn may_be_lazy(op: &ArgOp) -> bool {
    matches!(
        op,
        ArgOp::PutFh(_)
            | ArgOp::PutRootFh
            | ArgOp::PutPubFh
            | ArgOp::SaveFh
            | ArgOp::RestoreFh
            | ArgOp::GetFh
            | ArgOp::GetAttr(_)
            | ArgOp::Access(_)
            | ArgOp::Lookup(_)
            | ArgOp::LookupP
            | ArgOp::Verify(_)
            | ArgOp::NVerify(_)
            | ArgOp::Read(_)
            | ArgOp::ReadPlus(_)
            | ArgOp::ReadDir(_)
            | ArgOp::ReadLink
            | ArgOp::Seek(_)
            | ArgOp::GetXattr(_)
            | ArgOp::ListXattrs(_)
            | ArgOp::SecInfo(_)
            | ArgOp::SecInfoNoName(_)
            | ArgOp::GetDeviceInfo(_)
            | ArgOp::IoAdvise(_)
            | ArgOp::LayoutStats(_)
            | ArgOp::Illegal(_)
    )
}

fn may_be_lazy3(procedure: nfs3::Procedure) -> bool {
    use nfs3::Procedure as P;
    match procedure {
        P::Access | P::ReadLink | P::Read | P::ReadDir | P::ReadDirPlus => true,
        P::Null | P::FsStat | P::FsInfo | P::PathConf => true,
        // Procedures with which a client opens a file, and changes.
        P::GetAttr | P::Lookup => false,
        P::SetAttr | P::Write | P::Create | P::MkDir | P::SymLink | P::MkNod => false,
        P::Remove | P::RmDir | P::Rename | P::Link | P::Commit => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_recent_for_a_second() {
        let ms = Duration::from_millis;
        assert!(!is_recent(None, ms(5)), "never asked");
        assert!(is_recent(Some(ms(7000)), ms(7000)) && is_recent(Some(ms(7000)), ms(7999)));
        assert!(!is_recent(Some(ms(7000)), ms(8000)));
    }
}
