//! When a metaserver asks the leader whether it has all that others have answered, before it reads.
//!
//! *Strict*: before every compound and call, so that every read sees every change that was answered before
//! it.
//!
//! *Lazy*: where close-to-open asks for it. OPEN and LOCK, whatever makes a change, and in NFSv3 GETATTR and
//! LOOKUP, which is how its clients open, see all that was answered before them; what the same client then
//! reads at this metaserver is at least as new. Other reads may miss what another client did at another
//! metaserver a moment ago. Two bounds keep that from being more:
//!
//! - a client's own changes are made here, or it has come over a new connection, whose first call asks;
//! - the leader was asked within the last [`LAZY_MAX`], so that one that is cut off shows nothing older.

use std::time::Duration;

use nfs::Connection;
use wire::nfs3;
use wire::nfs4::{ArgOp, SessionId};

use crate::errors::FileError;
use crate::exports::Admission;

/// What a lazy read shows is this old at most: what Linux' own caches may be at their shortest (`acregmin` is
/// 3 s).
const LAZY_MAX: Duration = Duration::from_secs(1);

/// In the place of a session, for NFSv3, which has none.
const NO_SESSION: SessionId = SessionId([0; 16]);

impl Admission {
    /// Before a compound of `session` that came over `connection`. Whether all that was answered before it is
    /// seen: else its operations see to that, with [`may_be_lazy`].
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

    /// Before a call of NFSv3.
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
            // What the client did at another metaserver, before it came to this one, is its own.
            && connection.is_associated(session)
            && is_recent(self.machine.group.last_barrier(), self.machine.clock.monotonic())
    }
}

/// Whether the leader was asked so shortly ago that a lazy read may show what there was then.
fn is_recent(last_barrier: Option<Duration>, now: Duration) -> bool {
    last_barrier.is_some_and(|at| now.saturating_sub(at) < LAZY_MAX)
}

/// What only reads, and need not see what others did a moment ago.
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
        // How a client opens a file; and what makes a change.
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
