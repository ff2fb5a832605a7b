//! Commands that brief opens are in the way of: they are written to the state machine before the command is ordered.
//!
//! Two commands that are under way together may change the names by which they are looked up here. The one that comes second
//! therefore has all brief opens written, and not only those of its own file.

use std::sync::Arc;

use namespace::{Command, InodeId, Open, OpenTarget, Share, StateId, read};
use replica::BeforeOrder;
use store::View;

use super::{BriefOpens, Table};
use crate::state::ClientState;

/// Brief opens that are in the way of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
enum InTheWay {
    /// Those of one file.
    File(InodeId),
    /// All.
    All,
}

/// A command that brief opens are in the way of is under way.
struct UnderWay(Arc<ClientState>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.brief_opens.table.lock().conflicts -= 1;
    }
}

impl ClientState {
    /// See [`replica::Observer::before_order`].
    pub(crate) fn before_order(self: Arc<Self>, command: &Command) -> Option<BeforeOrder> {
        if is_compatible(command) {
            return None;
        }
        let is_alone = self.brief_opens.conflict_begins();
        let guard = UnderWay(Arc::clone(&self));
        let in_the_way = match is_alone {
            true => {
                self.machine.view().ok().and_then(|view| in_the_way(&*view, command)).unwrap_or(InTheWay::All)
            }
            false => InTheWay::All,
        };
        let ids = self.brief_opens.table.lock().in_the_way(&in_the_way);
        Some(Box::pin(async move {
            self.write_opens(ids).await;
            Box::new(guard) as Box<dyn Send>
        }))
    }
}

impl BriefOpens {
    /// A conflicting command begins: there is no new brief open from now on. True if it is the only one.
    pub(super) fn conflict_begins(&self) -> bool {
        let mut table = self.table.lock();
        table.conflicts += 1;
        table.conflicts_begun += 1;
        table.conflicts == 1
    }
}

impl Table {
    fn in_the_way(&self, which: &InTheWay) -> Vec<StateId> {
        match which {
            InTheWay::All => self.opens.keys().copied().collect(),
            InTheWay::File(inode) => {
                let of_file = self.of_file.range((*inode, StateId(0))..=(*inode, StateId(u64::MAX)));
                of_file.map(|(_, id)| *id).collect()
            }
        }
    }
}

/// True if no open for reading is in the way of a command: it discards no file, and does not ask who has files open.
fn is_compatible(command: &Command) -> bool {
    match command {
        // A delegation is granted only if no client writes, and brief opens only read.
        Command::Open(open) => open.deny == Share::NONE,
        Command::Create(_)
        | Command::Link { .. }
        | Command::SetAttributes { .. }
        | Command::Wrote { .. }
        | Command::WriteInline { .. }
        | Command::Migrate { .. }
        | Command::Migrated { .. }
        | Command::PlaceAs { .. }
        | Command::SetStripe { .. }
        | Command::SetXattr { .. }
        | Command::RemoveXattr { .. }
        | Command::ExchangeId { .. }
        | Command::CreateSession { .. }
        | Command::DestroySession { .. }
        | Command::ReclaimComplete { .. }
        | Command::LapseLease { .. }
        | Command::RenewLease { .. }
        | Command::BackchannelCtl { .. }
        | Command::Close { .. }
        | Command::OpenDowngrade { .. }
        | Command::Lock { .. }
        | Command::Unlock { .. }
        | Command::FreeState { .. }
        | Command::DelegationReturn { .. }
        | Command::DelegationRevoke { .. }
        | Command::LayoutGet { .. }
        | Command::LayoutCommit { .. }
        | Command::LayoutRecall { .. }
        | Command::LayoutReturn { .. }
        | Command::PutDataServer { .. }
        | Command::DefineDevice { .. }
        | Command::MakeChains { .. }
        | Command::OpenChains { .. }
        | Command::ChangeChains { .. }
        | Command::DeferredDone { .. }
        | Command::ServerStarts { .. }
        | Command::Format { .. }
        | Command::Map(_)
        | Command::Relocate { .. }
        | Command::JoinToken(_)
        | Command::Observe { .. }
        | Command::RemoveLeftovers
        | Command::RaiseEpoch { .. }
        | Command::ClaimWrite { .. }
        | Command::SpaceUsed { .. }
        | Command::SetLimits { .. }
        | Command::MakeVolume(_)
        | Command::MakeSnapshot { .. }
        | Command::SetSchedule { .. }
        | Command::CopyObjects { .. }
        | Command::CopiedObjects { .. }
        | Command::MakeClone { .. }
        | Command::Promote { .. }
        | Command::Boot(_) => true,
        Command::Remove { .. }
        | Command::Rename { .. }
        | Command::DestroyClient { .. }
        | Command::ExpireClient { .. }
        | Command::RemoveVolume { .. }
        | Command::RollBack { .. }
        | Command::RemoveSnapshot { .. } => false,
    }
}

/// Brief opens that are in the way of a command, by `view`. None: the view fails.
fn in_the_way(view: &dyn View, command: &Command) -> Option<InTheWay> {
    let file = match command {
        Command::Remove { dir, name, .. } => read::lookup(view, *dir, name).ok()?,
        Command::Rename { to_dir, to, .. } => read::lookup(view, *to_dir, to).ok()?,
        Command::Open(Open { target, .. }) => match target {
            OpenTarget::Inode(inode) => Some(*inode),
            OpenTarget::Name { dir, name } => read::lookup(view, *dir, name).ok()?,
            OpenTarget::Create { create, .. } => read::lookup(view, create.dir, &create.name).ok()?,
        },
        _ => return Some(InTheWay::All),
    };
    // Without such a name the command is refused, or the file is new. Inode 0 is none.
    Some(InTheWay::File(file.unwrap_or(InodeId(0))))
}
