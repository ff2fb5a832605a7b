//! Commands that brief opens are in the way of: they are written to the state machine before the command is ordered.
//!
//! Two commands that are under way together may change the names by which they are looked up here. The one that comes second
//! therefore has all brief opens written, and not only those of its own file.

use std::sync::Arc;

use namespace::{ClientId, Command, InodeId, Open, OpenTarget, Share, StateId, read};
use replica::BeforeOrder;
use store::View;

use super::{BriefOpens, Table};
use crate::state::ClientState;

/// Brief opens that are in the way of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InTheWay {
    /// None.
    Nothing,
    /// Those of one file.
    File(InodeId),
    /// Those of one client.
    Client(ClientId),
    /// Those of one client and file.
    Of(ClientId, InodeId),
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
        if !conflicts(command) {
            return self.before_compatible(command);
        }
        let is_alone = self.brief_opens.conflict_begins();
        let guard = UnderWay(Arc::clone(&self));
        let view = self.machine.view().ok().filter(|_| is_alone || names_inode(command));
        let in_the_way = view.and_then(|view| in_the_way(&*view, command)).unwrap_or(InTheWay::All);
        let ids = self.brief_opens.table.lock().in_the_way(in_the_way);
        Some(Box::pin(async move {
            self.write_opens(ids).await;
            Box::new(guard) as Box<dyn Send>
        }))
    }

    /// For a command that other brief opens may come beside, while it is under way.
    fn before_compatible(self: Arc<Self>, command: &Command) -> Option<BeforeOrder> {
        if !self.brief_opens.has_some(client_of(command)?) {
            return None; // the usual case
        }
        let view = self.machine.view().ok()?;
        let in_the_way = in_the_way(&*view, command)?;
        let ids = self.brief_opens.table.lock().in_the_way(in_the_way);
        if ids.is_empty() {
            return None;
        }
        Some(Box::pin(async move {
            self.write_opens(ids).await;
            Box::new(()) as Box<dyn Send>
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
    pub(super) fn in_the_way(&self, which: InTheWay) -> Vec<StateId> {
        let of_file = |inode| {
            let of_file = self.of_file.range((inode, StateId(0))..=(inode, StateId(u64::MAX)));
            of_file.map(|(_, id)| *id)
        };
        let is_of =
            |id: &StateId, client| self.opens.get(id).is_some_and(|brief| brief.open.client == client);
        match which {
            InTheWay::Nothing => vec![],
            InTheWay::All => self.opens.keys().copied().collect(),
            InTheWay::Client(client) if !self.of_client.contains_key(&client) => vec![],
            InTheWay::Client(client) => self.opens.keys().filter(|id| is_of(id, client)).copied().collect(),
            InTheWay::File(inode) => of_file(inode).collect(),
            InTheWay::Of(client, inode) => of_file(inode).filter(|id| is_of(id, client)).collect(),
        }
    }
}

/// True if no brief open may be made while the command is under way: it may discard a file, deny its reading, or end or
/// judge a client by what it has.
fn conflicts(command: &Command) -> bool {
    match command {
        Command::Remove { .. }
        | Command::Rename { .. }
        | Command::RemoveVolume { .. }
        | Command::RollBack { .. }
        | Command::RemoveSnapshot { .. }
        | Command::DestroyClient { .. }
        | Command::LapseLease { .. } => true,
        Command::Open(open) | Command::OpenOrDelegate(open) => excludes_others(open),
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
        | Command::ExpireClient { .. }
        | Command::RenewLease { .. }
        | Command::BackchannelCtl { .. }
        | Command::Close { .. }
        | Command::OpenDowngrade { .. }
        | Command::Lock { .. }
        | Command::Unlock { .. }
        | Command::FreeState { .. }
        | Command::DelegationReturn { .. }
        | Command::DelegationsReturn { .. }
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
        | Command::Boot(_)
        | Command::KeepOpen { .. } => false,
    }
}

/// True if an OPEN may keep others from reading: it denies that, or may get a write delegation, which a creation gets only of a
/// file that is new.
fn excludes_others(open: &Open) -> bool {
    let creates = matches!(open.target, OpenTarget::Create { .. });
    open.deny != Share::NONE || open.delegate && open.access.intersects(Share::WRITE) && !creates
}

/// True for an OPEN by handle: another command under way cannot make it one of another file.
fn names_inode(command: &Command) -> bool {
    match command {
        Command::Open(open) | Command::OpenOrDelegate(open) => matches!(open.target, OpenTarget::Inode(_)),
        _ => false,
    }
}

/// Client whose own brief opens are in the way of a command that does not conflict with others.
fn client_of(command: &Command) -> Option<ClientId> {
    match command {
        Command::Open(open) | Command::OpenOrDelegate(open) => Some(open.client),
        Command::Close { client, .. } | Command::DelegationReturn { client, .. } => Some(*client),
        _ => None,
    }
}

/// Brief opens that are in the way of a command, by `view`. None: the view fails.
fn in_the_way(view: &dyn View, command: &Command) -> Option<InTheWay> {
    let named = |dir: InodeId, name: &[u8]| {
        // Without such a name: another command that is under way may make it.
        Some(read::lookup(view, dir, name).ok()?.map_or(InTheWay::All, InTheWay::File))
    };
    match command {
        Command::Remove { dir, name, .. } => named(*dir, name),
        Command::Rename { to_dir, to, .. } => match read::lookup(view, *to_dir, to).ok()? {
            Some(replaced) => Some(InTheWay::File(replaced)),
            None => Some(InTheWay::Nothing),
        },
        Command::DestroyClient { client } | Command::LapseLease { client, .. } => {
            Some(InTheWay::Client(*client))
        }
        Command::Open(open) | Command::OpenOrDelegate(open) => {
            let file = opened(view, open)?;
            Some(match (!excludes_others(open), file) {
                (true, Some(file)) => InTheWay::Of(open.client, file), // the owner has one stateid for a file
                (true, None) => InTheWay::Nothing,
                (false, Some(file)) => InTheWay::File(file),
                (false, None) => InTheWay::All,
            })
        }
        // With the last open of a client its layout ends.
        Command::Close { client, stateid } | Command::DelegationReturn { client, stateid } => {
            let state = read::state(view, stateid.id).ok()?;
            Some(state.map_or(InTheWay::Nothing, |state| InTheWay::Of(*client, state.inode())))
        }
        _ => Some(InTheWay::All),
    }
}

/// The file that an OPEN opens, if there is one yet. None: the view fails.
fn opened(view: &dyn View, open: &Open) -> Option<Option<InodeId>> {
    match &open.target {
        OpenTarget::Inode(inode) => Some(Some(*inode)),
        OpenTarget::Name { dir, name } => read::lookup(view, *dir, name).ok(),
        OpenTarget::Create { create, .. } => read::lookup(view, create.dir, &create.name).ok(),
    }
}
