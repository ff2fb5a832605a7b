//! Generations of the inodes in a command, as known to the proposing metaserver.
//!
//! A member with a key of its store changed by a bad disk may give the next file another inode number than
//! the others, until its digest is compared. A client of this member then uses a number that is another
//! file's at the majority. The generation is random for each file, so it distinguishes the two: apply refuses
//! the command with `Stale`.
//!
//! A command names inodes by number, by the state of a client (CLOSE, LOCKU) or by deferred operations. The
//! exported directory of an OPEN is only recorded, and not checked. The cost is one byte, and four for each
//! inode, and one read for each inode at the proposal and at the application.

use serde::{Deserialize, Serialize};
use store::{StoreError, View};

use crate::record::get;
use crate::{Command, DeferredOp, InodeId, NewVolume, OpenTarget, ReturnScope, State, StateId, keys, read};

/// Generation of an inode that the proposing metaserver does not have. Generations are never 0: see
/// `Plan::generation`.
const NONE: [u8; 4] = [0; 4];

/// Generations, one for each name of a command, in the order of [`Named::all`], little-endian. If it is
/// empty, there is no check.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Generations(Vec<[u8; 4]>);

impl Generations {
    /// Generations of the inodes in `command`, from `view`.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn of(view: &dyn View, command: &Command) -> Result<Self, StoreError> {
        let generation = |name: Named| Ok(name.generation(view)?.map_or(NONE, u32::to_le_bytes));
        Named::all(command).into_iter().map(generation).collect::<Result<_, _>>().map(Self)
    }

    /// True if the inodes in `command` have these generations in `view`. An inode that one side does not have
    /// was removed meanwhile: the operation itself returns the error.
    pub(crate) fn agree(&self, view: &dyn View, command: &Command) -> Result<bool, StoreError> {
        if self.0.is_empty() {
            return Ok(true);
        }
        for (name, expected) in Named::all(command).into_iter().zip(&self.0) {
            let found = if *expected == NONE { None } else { name.generation(view)? };
            if found.is_some_and(|found| found.to_le_bytes() != *expected) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Reference to an inode in a command.
#[derive(Debug, Clone, Copy)]
enum Named {
    Inode(InodeId),
    /// The file of a state.
    State(StateId),
    /// The file of a deferred operation.
    DeferredOp(u64),
}

impl Named {
    /// All references in a command.
    fn all(command: &Command) -> Vec<Named> {
        use Named::{Inode, State};
        match command {
            Command::Create(create) => vec![Inode(create.dir)],
            Command::Link { inode, dir, name: _ } => vec![Inode(*inode), Inode(*dir)],
            Command::Rename { from_dir, from: _, to_dir, to: _ } => vec![Inode(*from_dir), Inode(*to_dir)],
            Command::Remove { dir, .. }
            | Command::SetStripe { dir, .. }
            | Command::RemoveVolume { dir, .. }
            | Command::MakeClone { dir, .. }
            | Command::MakeVolume(NewVolume { dir, .. }) => vec![Inode(*dir)],
            Command::Open(open) | Command::OpenOrDelegate(open) | Command::KeepOpen { open, .. } => {
                match &open.target {
                    OpenTarget::Inode(inode) => vec![Inode(*inode)],
                    OpenTarget::Name { dir, name: _ } => vec![Inode(*dir)],
                    OpenTarget::Create { create, truncate: _ } => vec![Inode(create.dir)],
                }
            }
            Command::SetAttributes { inode, .. }
            | Command::Wrote { inode, .. }
            | Command::WriteInline { inode, .. }
            | Command::Migrate { inode, .. }
            | Command::Migrated { inode, .. }
            | Command::PlaceAs { inode, .. }
            | Command::SetXattr { inode, .. }
            | Command::RemoveXattr { inode, .. }
            | Command::Relocate { inode, .. }
            | Command::RaiseEpoch { inode, .. }
            | Command::ClaimWrite { inode, .. }
            | Command::CopyObjects { inode }
            | Command::CopiedObjects { inode, .. }
            | Command::Lock { inode, .. }
            | Command::LayoutGet { inode, .. }
            | Command::LayoutCommit { inode, .. }
            | Command::LayoutRecall { inode, .. } => vec![Inode(*inode)],
            Command::LayoutReturn { client: _, scope } => match scope {
                ReturnScope::File { inode, stateid: _ } => vec![Inode(*inode)],
                ReturnScope::Revoke { layout } | ReturnScope::Unknown { layout } => vec![State(*layout)],
                ReturnScope::All => vec![],
            },
            Command::Close { stateid, .. }
            | Command::OpenDowngrade { stateid, .. }
            | Command::Unlock { stateid, .. }
            | Command::FreeState { stateid, .. }
            | Command::DelegationReturn { stateid, .. } => vec![State(stateid.id)],
            Command::DelegationRevoke { delegation, .. } => vec![State(*delegation)],
            Command::DelegationsReturn { returned } => {
                returned.iter().map(|(_, stateid)| State(stateid.id)).collect()
            }
            Command::DeferredDone { ids } => ids.iter().copied().map(Named::DeferredOp).collect(),
            Command::Observe { files } => files.iter().map(|file| Inode(file.inode)).collect(),
            Command::SpaceUsed { files } => files.iter().map(|file| Inode(file.inode)).collect(),
            Command::ExchangeId { .. }
            | Command::CreateSession { .. }
            | Command::DestroySession { .. }
            | Command::DestroyClient { .. }
            | Command::ReclaimComplete { .. }
            | Command::ExpireClient { .. }
            | Command::LapseLease { .. }
            | Command::RenewLease { .. }
            | Command::BackchannelCtl { .. }
            | Command::PutDataServer { .. }
            | Command::DefineDevice { .. }
            | Command::MakeChains { .. }
            | Command::OpenChains { .. }
            | Command::ChangeChains { .. }
            | Command::ServerStarts { .. }
            | Command::Format { .. }
            | Command::Map(_)
            | Command::JoinToken(_)
            | Command::Boot(_)
            | Command::SetLimits { .. }
            | Command::MakeSnapshot { .. }
            | Command::Promote { .. }
            | Command::SetSchedule { .. }
            | Command::RollBack { .. }
            | Command::RemoveSnapshot { .. }
            | Command::RemoveLeftovers => vec![],
        }
    }

    /// Generation of the inode in `view`.
    fn generation(self, view: &dyn View) -> Result<Option<u32>, StoreError> {
        match self {
            Named::Inode(inode) => read::generation(view, inode),
            Named::State(state) => match get::<State>(view, &keys::state(state))? {
                Some(state) => read::generation(view, state.inode()),
                None => Ok(None),
            },
            Named::DeferredOp(deferred) => {
                Ok(get::<DeferredOp>(view, &keys::deferred(deferred))?.map(|deferred| deferred.generation))
            }
        }
    }
}
