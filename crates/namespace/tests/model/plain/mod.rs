//! The model: what the state machine should do, in the plainest words.
//!
//! It shares with the machine the types of its interface and nothing else. Nothing is stored that can be
//! counted.

mod boot;
mod chains;
mod clients;
mod clones;
mod cluster;
mod coverage;
mod delegations;
mod epochs;
mod inline;
mod names;
mod pools;
mod snapshots;
mod states;
mod unsettled;
mod volumes;
mod xattrs;

use std::collections::{BTreeMap, BTreeSet};

pub use boot::MACS;
pub use clients::{PlainClient, PlainSession};
pub use clones::{INHERITED, PlainOrigin};
pub use coverage::Coverage;
pub use delegations::PlainDelegation;
use namespace::*;
pub use snapshots::{PlainHistory, PlainKept, PlainObjects, PlainSnapshot, Shown};
pub use states::{LAST_BYTE, PlainLayout, PlainLock, PlainOpen};
pub use volumes::PlainVolume;

/// The outcome of an operation, before it becomes a reply.
pub type Outcome = Result<Reply, Error>;

/// The whole world.
#[derive(Debug, Clone)]
pub struct Plain {
    pub now: Time,
    pub random: u64,
    /// Who asks, if it is a client of NFSv4.
    pub caller: Option<ClientId>,

    pub nodes: BTreeMap<InodeId, Node>,
    /// The first one, too.
    pub volumes: BTreeMap<VolumeId, PlainVolume>,
    pub snapshots: BTreeMap<VolumeId, PlainSnapshot>,
    pub histories: BTreeMap<VolumeId, PlainHistory>,
    pub origins: BTreeMap<VolumeId, PlainOrigin>,
    /// Of files whose objects were made, or copied, after a snapshot.
    pub objects: BTreeMap<InodeId, PlainObjects>,
    pub kept: Vec<PlainKept>,
    pub clients: BTreeMap<ClientId, PlainClient>,
    pub sessions: BTreeMap<SessionId, PlainSession>,
    pub opens: BTreeMap<StateId, PlainOpen>,
    pub locks: BTreeMap<StateId, PlainLock>,
    pub layouts: BTreeMap<StateId, PlainLayout>,
    /// Files that had a layout to write since they were settled: grant and version.
    pub unsettled: BTreeMap<InodeId, (u64, u64)>,
    pub delegations: BTreeMap<StateId, PlainDelegation>,
    /// Files with delegations that a change waits for.
    pub contended: BTreeSet<InodeId>,
    pub deferred: BTreeMap<u64, DeferredOp>,
    pub servers: BTreeMap<DataServerId, DataServer>,
    pub devices: Vec<Device>,
    /// Chains, without the processes that started since.
    pub chains: BTreeMap<ChainId, Chain>,
    pub map_head: MapHead,
    pub map_settings: BTreeMap<String, String>,
    pub map_nodes: BTreeMap<NodeKey, namespace::Node>,
    pub declared_targets: BTreeMap<TargetId, TargetState>,
    pub pool_names: BTreeMap<PoolId, String>,
    /// Those that say something.
    pub pool_policies: BTreeMap<PoolId, PoolPolicy>,
    pub pools_of_targets: BTreeMap<TargetId, PoolId>,
    pub tokens: BTreeMap<u64, JoinToken>,
    pub boot_groups: BTreeMap<String, BootGroup>,
    pub boot_nodes: BTreeMap<String, BootNode>,

    pub next_volume: u32,
    pub next_snapshot: u32,
    pub next_clone: u32,
    pub next_state: u64,
    pub next_client: u64,
    pub next_session: u32,
    pub next_deferred: u64,
}

/// An inode, without what is counted: links, and a directory's size.
#[derive(Debug, Clone)]
pub struct Node {
    pub generation: u32,
    pub content: Content,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub accessed: Time,
    pub modified: Time,
    pub changed: Time,
    pub created: Time,
    pub change: u64,
    pub verifier: Option<[u8; 8]>,
    /// Extended attributes by name: cookie and value.
    pub xattrs: BTreeMap<Vec<u8>, (u64, Vec<u8>)>,
}

#[derive(Debug, Clone)]
pub enum Content {
    /// `bytes`: the data of a small file that are not in objects yet.
    File {
        layout: FileLayout,
        place: DataPlace,
        bytes: Vec<u8>,
        size: u64,
        written: u64,
        space_used: u64,
        space_is_told: bool,
        epoch: u32,
        layout_epoch: u32,
    },
    Directory {
        entries: BTreeMap<Vec<u8>, (u64, InodeId)>,
        next_cookie: u64,
        stripe: Option<StripePolicy>,
    },
    Symlink(Vec<u8>),
    Other(Kind),
}

/// Whether a command may be refused for a limit.
fn is_limited(command: &Command) -> bool {
    let makes = matches!(command, Command::Create(_) | Command::Open(_) | Command::OpenOrDelegate(_));
    makes || matches!(command, Command::WriteInline { .. } | Command::SetAttributes { .. })
}

impl Plain {
    pub fn new(stamp: &Stamp) -> Self {
        let root = Node {
            generation: stamp.random as u32,
            content: Content::Directory { entries: BTreeMap::new(), next_cookie: 3, stripe: None },
            mode: 0o755,
            uid: 0,
            gid: 0,
            accessed: stamp.time,
            modified: stamp.time,
            changed: stamp.time,
            created: stamp.time,
            change: 1,
            verifier: None,
            xattrs: BTreeMap::new(),
        };
        Self {
            now: stamp.time,
            random: stamp.random,
            caller: None,
            nodes: BTreeMap::from([(InodeId(2), root)]),
            snapshots: BTreeMap::new(),
            histories: BTreeMap::new(),
            objects: BTreeMap::new(),
            kept: vec![],
            origins: BTreeMap::new(),
            next_snapshot: 1 << 23,
            next_clone: 1 << 22,
            volumes: BTreeMap::from([(VolumeId(0), PlainVolume::new(3, stamp.time))]),
            clients: BTreeMap::new(),
            sessions: BTreeMap::new(),
            opens: BTreeMap::new(),
            locks: BTreeMap::new(),
            layouts: BTreeMap::new(),
            unsettled: BTreeMap::new(),
            delegations: BTreeMap::new(),
            contended: BTreeSet::new(),
            deferred: BTreeMap::new(),
            servers: BTreeMap::new(),
            devices: Vec::new(),
            chains: BTreeMap::new(),
            map_head: MapHead::default(),
            tokens: BTreeMap::new(),
            boot_groups: BTreeMap::new(),
            boot_nodes: BTreeMap::new(),
            map_settings: BTreeMap::new(),
            map_nodes: BTreeMap::new(),
            declared_targets: BTreeMap::new(),
            pool_names: BTreeMap::new(),
            pool_policies: BTreeMap::new(),
            pools_of_targets: BTreeMap::new(),
            next_volume: 1,
            next_state: 1,
            next_client: (stamp.random >> 32 << 32) + 1,
            next_session: 1,
            next_deferred: 1,
        }
    }

    pub fn apply(&mut self, proposal: &Proposal) -> Reply {
        self.now = proposal.stamp.time;
        self.random = proposal.stamp.random;
        self.caller = None;
        let Some(RequestId::Compound(request)) = proposal.request else { return self.run(&proposal.command) };

        let Some(session) = self.sessions.get_mut(&request.session) else {
            return Reply::Refused(Error::BadSession);
        };
        self.caller = Some(session.client);
        let slot = session.slots.entry(request.slot).or_insert_with(|| (request.sequence, BTreeMap::new()));
        if request.sequence < slot.0 {
            return Reply::Refused(Error::Misordered);
        }
        if request.sequence > slot.0 {
            *slot = (request.sequence, BTreeMap::new());
        }
        if let Some(reply) = slot.1.get(&request.index) {
            return reply.clone();
        }
        let reply = self.run(&proposal.command);
        if let Some(session) = self.sessions.get_mut(&request.session) {
            if let Reply::Delegated { .. } | Reply::Claimed { .. } = reply {
                return reply; // it is to be asked again
            }
            let slot = session.slots.get_mut(&request.slot).expect("made above");
            slot.1.insert(request.index, reply.clone());
        }
        reply
    }

    fn run(&mut self, command: &Command) -> Reply {
        let before = self.clone();
        match self.execute(command) {
            Ok(reply @ Reply::Delegated { inode }) => {
                *self = before;
                self.contended.insert(inode);
                reply
            }
            Ok(reply) => match self.settle(&before, is_limited(command)) {
                Ok(()) => {
                    self.end_promotions();
                    reply
                }
                Err(error) => {
                    *self = before;
                    Reply::Refused(error)
                }
            },
            Err(error) => {
                *self = before; // whatever it had begun to do
                Reply::Refused(error)
            }
        }
    }

    fn execute(&mut self, command: &Command) -> Outcome {
        match command.clone() {
            Command::Format { .. } => Ok(Reply::Done),
            Command::Create(create) => self.create(&create),
            Command::Link { inode, dir, name } => self.link(inode, dir, &name),
            Command::Remove { dir, name, expect } => self.remove(dir, &name, expect),
            Command::Rename { from_dir, from, to_dir, to } => self.rename(from_dir, &from, to_dir, &to),
            Command::SetAttributes { inode, set } => self.set_attributes(inode, &set),
            Command::Wrote { inode, end, bytes, epoch } => self.wrote(inode, end, bytes, epoch),
            Command::WriteInline { inode, offset, data } => self.write_inline(inode, offset, &data),
            Command::Migrate { inode, made } => self.migrate(inode, made),
            Command::Migrated { inode, layout, epoch } => self.migrated(inode, layout, epoch),
            Command::PlaceAs { inode, layout } => self.place_as(inode, layout),
            Command::Relocate { inode, from, to, checked } => self.relocate(inode, from, to, checked),
            Command::RaiseEpoch { inode, epoch } => self.raise_epoch(inode, epoch),
            Command::ClaimWrite { inode, id, of } => self.claim_write(inode, id, &of),
            Command::SetStripe { dir, policy } => self.set_stripe(dir, policy),
            Command::SetXattr { inode, name, value, exists } => self.set_xattr(inode, name, value, exists),
            Command::RemoveXattr { inode, name } => self.remove_xattr(inode, &name),

            Command::ExchangeId { owner, verifier, principal, update, address } => {
                self.exchange_id(&owner, verifier, &principal, update, address)
            }
            Command::CreateSession { client, sequence, principal, channels, address } => {
                self.create_session(client, sequence, &principal, channels, address)
            }
            Command::DestroySession { session } => {
                self.sessions.remove(&session).map(|_| Reply::Done).ok_or(Error::BadSession)
            }
            Command::DestroyClient { client } => self.destroy_client(client),
            Command::ReclaimComplete { client } => self.reclaim_complete(client),
            Command::ExpireClient { client } => self.expire_client(client),
            Command::LapseLease { client, sequence } => self.lapse_lease(client, sequence),
            Command::RenewLease { client } => self.renew_lease(client),
            Command::BackchannelCtl { session, callback } => {
                let session = self.sessions.get_mut(&session).ok_or(Error::BadSession)?;
                session.channels.callback = callback;
                Ok(Reply::Done)
            }

            Command::Open(open) => self.open(&open, None),
            Command::KeepOpen { open, stateid } => self.open(&open, Some(stateid)),
            Command::OpenOrDelegate(open) => self.open_or_delegate(&open),
            Command::Close { client, stateid } => self.close(client, stateid),
            Command::OpenDowngrade { client, stateid, access, deny } => {
                self.downgrade(client, stateid, access, deny)
            }
            Command::Lock { client, inode, owner, kind, range } => {
                self.lock(client, inode, &owner, kind, range)
            }
            Command::Unlock { client, stateid, range } => self.unlock(client, stateid, range),
            Command::FreeState { client, stateid } => self.free_state(client, stateid),

            Command::DelegationReturn { client, stateid } => self.delegation_return(client, stateid),
            Command::DelegationsReturn { returned } => self.delegations_return(&returned),
            Command::DelegationRevoke { client, delegation } => self.delegation_revoke(client, delegation),

            Command::LayoutGet { client, inode, stateid, mode, made, version, export: _ } => {
                self.layout_get(client, inode, stateid, mode, made, version)
            }
            Command::LayoutCommit { client, inode, stateid, last_write, modified, observed } => {
                self.layout_commit(client, inode, stateid, last_write, modified, observed)
            }
            Command::Observe { files } => self.observe(&files),
            Command::SpaceUsed { files } => self.space_told(&files),
            // The model has none.
            Command::RemoveLeftovers => Ok(Reply::Done),
            Command::LayoutRecall { client, inode } => self.layout_recall(client, inode),
            Command::LayoutReturn { client, scope } => self.layout_return(client, &scope),

            Command::Map(change) => self.change_map(change),
            Command::JoinToken(change) => self.change_token(change),
            Command::Boot(change) => self.change_boot(change),
            Command::PutDataServer { server, known } => self.put_data_server(server, known),
            Command::DefineDevice { chains } => self.define_device(chains),
            Command::MakeChains { chains } => self.make_chains(chains),
            Command::OpenChains { chains } => self.open_chains(chains),
            Command::ChangeChains { changes } => self.change_chains(&changes),
            Command::DeferredDone { ids } => {
                self.deferred.retain(|id, _| !ids.contains(id));
                Ok(Reply::Done)
            }
            Command::MakeVolume(new) => self.make_volume(&new),
            Command::RemoveVolume { dir, name, force } => self.remove_volume(dir, &name, force),
            Command::SetLimits { volume, subject, limits } => self.set_limits(volume, subject, limits),
            Command::MakeSnapshot { volume, name } => self.make_snapshot(volume, &name),
            Command::MakeClone { snapshot, dir, name } => self.make_clone(snapshot, dir, &name),
            Command::Promote { volume } => self.promote(volume),
            Command::RollBack { volume, name, force } => self.roll_back(volume, &name, force),
            Command::SetSchedule { volume, schedule } => self.set_schedule(volume, schedule),
            Command::CopyObjects { inode } => self.copy_objects(inode),
            Command::CopiedObjects { inode, copy, epoch } => self.copied_objects(inode, copy, epoch),
            Command::RemoveSnapshot { volume, name, force } => self.remove_snapshot(volume, &name, force),
            Command::ServerStarts { .. } => unreachable!("the stories of `once` tell of metaservers"),
        }
    }
}
