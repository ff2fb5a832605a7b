//! Everything that can be observed, taken from the store and from the model.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::ControlFlow;

use namespace::*;
use store::View;

use crate::plain::{MACS, Plain, PlainDelegation, PlainHistory, PlainOrigin, Shown};

/// What is seen of the world.
#[derive(Debug, Default, PartialEq)]
pub struct Picture {
    inodes: BTreeMap<InodeId, Inode>,
    inodes_counted: u64,
    volumes: Vec<Volume>,
    removed_volumes: Vec<(VolumeId, u64)>,
    usages: BTreeMap<VolumeId, Vec<(Subject, Usage)>>,
    rooms: BTreeMap<InodeId, u64>,
    entries: BTreeMap<InodeId, Vec<Entry>>,
    inline_data: BTreeMap<InodeId, Vec<u8>>,
    names_found: BTreeMap<(InodeId, Vec<u8>), InodeId>,
    stripe_policies: BTreeMap<InodeId, Option<StripePolicy>>,
    xattrs: BTreeMap<(InodeId, Vec<u8>), (u64, Vec<u8>)>,
    clients: BTreeMap<ClientId, ClientRecord>,
    clients_with_state: Vec<ClientId>,
    sessions: BTreeMap<SessionId, SessionRecord>,
    states: BTreeMap<StateId, Seen>,
    locks: BTreeMap<InodeId, Vec<Held>>,
    layouts: BTreeMap<InodeId, Vec<(ClientId, Stateid, IoMode)>>,
    unsettled: BTreeMap<InodeId, (u64, u64)>,
    to_settle: Vec<InodeId>,
    delegations: BTreeMap<InodeId, Vec<(ClientId, Stateid)>>,
    revoked: Vec<ClientId>,
    shares: BTreeMap<InodeId, Vec<bool>>,
    lock_tests: BTreeMap<InodeId, Vec<Option<Conflict>>>,
    held_files: BTreeMap<InodeId, (bool, bool)>,
    deferred: Vec<DeferredOp>,
    servers: Vec<DataServer>,
    map: ClusterMap,
    tokens: Vec<JoinToken>,
    boot_groups: Vec<BootGroup>,
    boot_nodes: Vec<BootNode>,
    boot_macs: Vec<Option<String>>,
    devices: Vec<Device>,
    chains: Vec<Chain>,
    snapshots: BTreeMap<VolumeId, Vec<Snapshot>>,
    shown: BTreeMap<VolumeId, Vec<Shown>>,
    histories: BTreeMap<VolumeId, History>,
    objects: BTreeMap<InodeId, Option<InodeId>>,
    origins: BTreeMap<VolumeId, (VolumeId, u64, u8, bool)>,
}

/// A state, without what only the machine needs.
#[derive(Debug, PartialEq)]
enum Seen {
    Open {
        stateid: Stateid,
        client: ClientId,
        inode: InodeId,
        owner: Vec<u8>,
        access: Share,
        deny: Share,
    },
    Lock {
        stateid: Stateid,
        client: ClientId,
        inode: InodeId,
        owner: Vec<u8>,
        open: StateId,
    },
    Layout {
        stateid: Stateid,
        client: ClientId,
        inode: InodeId,
        mode: IoMode,
        recalled: bool,
        times_set: bool,
    },
    Delegation(DelegationState),
}

/// Locks that a stranger and one of the owners might ask for.
const LOCK_TESTS: [(LockKind, u64, u64); 4] = [
    (LockKind::Read, 0, u64::MAX),
    (LockKind::Write, 0, u64::MAX),
    (LockKind::Write, 5, 7),
    (LockKind::Read, 12, 13),
];

/// When there is asked for room: in the middle of a case.
const LATER: Time = Time { seconds: 70, nanoseconds: 0 };

impl Picture {
    /// `plain` only tells which inodes to ask about besides those that can be reached.
    pub fn of_view(view: &dyn View, plain: &Plain) -> Self {
        let view = &Snapshots(view);
        let mut picture = Picture {
            inodes_counted: read::counts(view).expect("reads"),
            volumes: read::volumes(view).expect("reads"),
            removed_volumes: read::removed_volumes(view).expect("reads"),
            deferred: read::deferred_ops(view, usize::MAX).expect("reads"),
            revoked: read::revoked(view).expect("reads"),
            servers: read::data_servers(view).expect("reads"),
            map: read::cluster_map(view).expect("reads"),
            tokens: read::join_tokens(view).expect("reads"),
            boot_groups: read::boot_groups(view).expect("reads"),
            boot_nodes: read::boot_nodes(view).expect("reads"),
            boot_macs: MACS
                .map(|mac| read::boot_node_of_mac(view, mac).expect("reads").map(|node| node.name))
                .into(),
            devices: read::devices(view).expect("reads"),
            chains: read::chains(view).expect("reads"),
            ..Picture::default()
        };
        let mut reached = vec![InodeId::ROOT];
        reached.extend(plain.nodes.keys());
        while let Some(id) = reached.pop() {
            let Some(inode) = read::inode(view, id).expect("reads") else { continue };
            for (cookie, name) in read::xattrs(view, id).expect("reads") {
                let value = read::xattr(view, id, &name).expect("reads").expect("it is listed");
                picture.xattrs.insert((id, name), (cookie, value));
            }
            if picture.inodes.insert(id, inode.clone()).is_none() && inode.directory().is_some() {
                let entries = list(view, id, &mut picture.names_found);
                reached.extend(entries.iter().map(|entry| entry.inode));
                picture.entries.insert(id, entries);
                picture.stripe_policies.insert(id, read::stripe_policy(view, id).expect("reads"));
            }
        }
        let mut names = BTreeMap::new();
        for volume in &picture.volumes {
            let snapshots = read::snapshots(view, volume.id).expect("reads");
            for snapshot in &snapshots {
                picture.shown.insert(snapshot.id, shown(view, snapshot.id));
            }
            let listed = list(view, volume.id.snapshots_directory(), &mut names);
            let listed: Vec<InodeId> = listed.into_iter().map(|entry| entry.inode).collect();
            assert_eq!(listed, snapshots.iter().map(|one| one.id.root()).collect::<Vec<_>>());
            picture.snapshots.insert(volume.id, snapshots);
            if let Some(Origin { snapshot, first, depth, stage }) =
                read::origin(view, volume.id).expect("reads")
            {
                let clones = read::clones(view, snapshot).expect("reads");
                assert!(clones.contains(&volume.id), "{clones:?}");
                picture.origins.insert(volume.id, (snapshot, first, depth, stage == Stage::Promotes));
            }
            let history = read::history(view, volume.id).expect("reads");
            picture.histories.insert(volume.id, History { kept: 0, ..history });
            picture.usages.insert(volume.id, read::usages(view, volume.id).expect("reads"));
        }
        for inode in picture.inodes.values() {
            picture.rooms.insert(inode.id, read::room_bytes(view, inode, LATER).expect("reads"));
            if inode.columns().is_some() {
                let objects = read::objects(view, inode).expect("reads").map(|objects| objects.id);
                picture.objects.insert(inode.id, objects);
            }
        }
        for id in read::clients(view).expect("reads") {
            let client = read::client(view, id).expect("reads").expect("it is listed");
            picture.clients.insert(id, client);
            if read::has_state(view, id).expect("reads") {
                picture.clients_with_state.push(id);
            }
            for session in read::sessions(view, id).expect("reads") {
                let record = read::session(view, session).expect("reads").expect("it is listed");
                picture.sessions.insert(session, record);
            }
            for state in read::states(view, id).expect("reads") {
                let record = read::state(view, state).expect("reads").expect("it is listed");
                picture.states.insert(state, see(view, record));
            }
        }
        picture.to_settle = read::to_settle(view, InodeId(0), usize::MAX).expect("reads");
        let asks = askers(plain);
        for (id, inode) in &picture.inodes {
            if inode.layout().is_none() {
                continue;
            }
            let id = *id;
            picture.inline_data.insert(id, read::inline_data(view, id).expect("reads").to_vec());
            picture.locks.insert(id, read::locks(view, id).expect("reads"));
            picture.layouts.insert(id, read::layouts(view, id).expect("reads"));
            if let Some(Unsettled { grant, version, .. }) = read::unsettled(view, id).expect("reads") {
                picture.unsettled.insert(id, (grant, version));
            }
            let delegations = read::delegations(view, id).expect("reads");
            if !delegations.is_empty() {
                picture.delegations.insert(id, delegations);
            }
            let shares = share_questions(plain)
                .map(|(wanted, except)| read::share_conflict(view, id, wanted, except).expect("reads"));
            picture.shares.insert(id, shares.collect());
            let mut tests = Vec::new();
            for (client, owner) in &asks {
                for (kind, start, end) in LOCK_TESTS {
                    let range = ByteRange { start, end };
                    let conflict = read::conflicting_lock(view, id, *client, owner, kind, range);
                    tests.push(conflict.expect("reads"));
                }
            }
            picture.lock_tests.insert(id, tests);
            let held = read::in_use(view, id).expect("reads");
            picture.held_files.insert(id, (held, read::pending_truncation(view, id).expect("reads")));
        }
        picture
    }

    pub fn of_plain(plain: &Plain) -> Self {
        let mut picture = Picture {
            inodes: plain.nodes.keys().map(|id| (*id, plain.inode(*id))).collect(),
            inodes_counted: plain.nodes.len() as u64,
            volumes: plain.volumes(),
            deferred: plain.deferred.values().cloned().collect(),
            servers: plain.servers.values().cloned().collect(),
            tokens: plain.tokens.values().cloned().collect(),
            boot_groups: plain.boot_groups.values().cloned().collect(),
            boot_nodes: plain.boot_nodes.values().cloned().collect(),
            boot_macs: MACS.map(|mac| plain.node_of_mac(mac).map(|node| node.name.clone())).into(),
            map: ClusterMap {
                head: plain.map_head.clone(),
                nodes: plain.map_nodes.values().cloned().collect(),
                data_servers: plain.servers.values().cloned().collect(),
                chains: plain.chains.values().cloned().collect(),
                declared_targets: plain.declared_targets.clone(),
                pools: plain.pools(),
                pools_of_targets: plain.pools_of_targets.clone(),
                settings: plain.map_settings.clone(),
            },
            devices: plain.devices.clone(),
            chains: plain.chains.values().map(|chain| plain.present_chain(chain)).collect(),
            ..Picture::default()
        };
        picture.snapshots = plain.volumes.keys().map(|id| (*id, plain.snapshots_of(*id))).collect();
        picture.shown = plain.snapshots.keys().map(|id| (*id, plain.shown(*id))).collect();
        let origin = |of: &PlainOrigin| (of.snapshot, of.first, of.depth, of.promotes);
        picture.origins = plain.origins.iter().map(|(id, of)| (*id, origin(of))).collect();
        let striped = plain.nodes.keys().filter(|id| plain.place(**id) == Some(DataPlace::Striped));
        picture.objects = striped.map(|id| (*id, plain.live_objects(*id))).collect();
        for id in plain.volumes.keys() {
            let history = plain.histories.get(id).copied().unwrap_or_default();
            let (snapshots, bytes) = (plain.snapshots_of(*id), plain.kept_bytes(*id));
            let PlainHistory { last, changes, changed, quiet_until, schedule } = history;
            let newest = snapshots.last().map_or(0, |one| one.version);
            let count = snapshots.len() as u32;
            // The model keeps worlds, not values.
            let seen = History {
                last,
                newest,
                count,
                kept: 0,
                bytes,
                changes,
                changed,
                quiet_until,
                schedule,
                rolls_back: false,
            };
            picture.histories.insert(*id, seen);
        }
        picture.usages = plain.volumes.keys().map(|id| (*id, plain.usages(*id))).collect();
        picture.rooms = plain.nodes.keys().map(|id| (*id, plain.room(*id, LATER))).collect();
        for id in plain.nodes.keys().filter(|id| plain.is_directory(**id)) {
            picture.entries.insert(*id, Vec::new());
            picture.stripe_policies.insert(*id, plain.stripe_policy(*id));
        }
        for (id, node) in &plain.nodes {
            picture
                .xattrs
                .extend(node.xattrs.iter().map(|(name, xattr)| ((*id, name.clone()), xattr.clone())));
        }
        for (dir, name, cookie, inode) in plain.entries() {
            let entries = picture.entries.get_mut(&dir).expect("a directory");
            entries.push(Entry { cookie, name: name.clone(), inode });
            entries.sort_by_key(|entry| entry.cookie);
            picture.names_found.insert((dir, name.clone()), inode);
        }
        for (id, client) in &plain.clients {
            let record = ClientRecord {
                id: *id,
                owner: client.owner.clone(),
                verifier: client.verifier,
                principal: client.principal.clone(),
                confirmed: client.confirmed,
                sequence: client.sequence,
                created_session: client.answered.clone(),
                reclaim_complete: client.reclaimed,
                lapsed: client.lapsed,
                addresses: client.addresses.clone(),
            };
            picture.clients.insert(*id, record);
            if plain.has_state(*id) {
                picture.clients_with_state.push(*id);
            }
        }
        for (id, session) in &plain.sessions {
            let channels = session.channels.clone();
            let record = SessionRecord { id: *id, client: session.client, channels };
            picture.sessions.insert(*id, record);
        }
        for (id, open) in &plain.opens {
            let (client, inode, owner) = (open.client, open.inode, open.owner.clone());
            let (access, deny) = (open.access(), open.deny());
            let stateid = Stateid { sequence: open.sequence, id: *id };
            picture.states.insert(*id, Seen::Open { stateid, client, inode, owner, access, deny });
        }
        for (id, lock) in &plain.locks {
            let (client, inode, owner, open) = (lock.client, lock.inode, lock.owner.clone(), lock.open);
            let stateid = Stateid { sequence: lock.sequence, id: *id };
            picture.states.insert(*id, Seen::Lock { stateid, client, inode, owner, open });
        }
        (picture.unsettled, picture.to_settle) = (plain.unsettled.clone(), plain.to_settle());
        for (id, layout) in &plain.layouts {
            let (client, inode, mode, recalled) = (layout.client, layout.inode, layout.mode, layout.recalled);
            let stateid = Stateid { sequence: layout.sequence, id: *id };
            picture.states.insert(
                *id,
                Seen::Layout { stateid, client, inode, mode, recalled, times_set: layout.times_set },
            );
        }
        for (id, PlainDelegation { client, inode, kind }) in &plain.delegations {
            let (client, inode, kind) = (*client, *inode, *kind);
            let stateid = Stateid { sequence: 1, id: *id };
            let seen =
                Seen::Delegation(DelegationState { stateid, client, inode, kind, export: InodeId::ROOT });
            picture.states.insert(*id, seen);
            if kind == DelegationKind::Revoked {
                picture.revoked.push(client);
            } else {
                let of_file = picture.delegations.entry(inode).or_default();
                of_file.push((client, stateid));
                of_file.sort();
            }
        }
        picture.revoked.sort();
        let asks = askers(plain);
        for id in plain.nodes.keys().filter(|id| plain.is_file(**id)) {
            let id = *id;
            picture.inline_data.insert(id, plain.inline_data(id));
            let locks = plain.locks.iter().filter(|(_, lock)| lock.inode == id);
            let mut held: Vec<Held> = locks
                .flat_map(|(state, lock)| {
                    lock.ranges().into_iter().map(|(range, kind)| Held { range, kind, state: *state })
                })
                .collect();
            held.sort_by_key(|held| (held.range.start, held.state));
            picture.locks.insert(id, held);

            let layouts = plain.layouts.iter().filter(|(_, layout)| layout.inode == id);
            let mut layouts: Vec<_> = layouts
                .map(|(state, layout)| {
                    (layout.client, Stateid { sequence: layout.sequence, id: *state }, layout.mode)
                })
                .collect();
            layouts.sort_by_key(|(client, ..)| *client);
            picture.layouts.insert(id, layouts);

            let opens: Vec<_> = plain.opens.values().filter(|open| open.inode == id).collect();
            let shares = share_questions(plain).map(|(wanted, except)| {
                opens.iter().any(|open| Some(open.client) != except && open.deny().intersects(wanted))
            });
            picture.shares.insert(id, shares.collect());

            let mut tests = Vec::new();
            for (client, owner) in &asks {
                for (kind, start, end) in LOCK_TESTS {
                    tests.push(plain.conflict(id, *client, owner, kind, ByteRange { start, end }));
                }
            }
            picture.lock_tests.insert(id, tests);
            let laid_out = plain.layouts.values().any(|layout| layout.inode == id);
            picture.held_files.insert(
                id,
                (laid_out || !opens.is_empty() || plain.is_delegated(id), plain.pending_truncation(id)),
            );
        }
        picture
    }

    /// What differs, in words.
    pub fn difference(&self, expected: &Picture) -> Option<String> {
        if self == expected {
            return None;
        }
        fn part<T: Debug + PartialEq>(name: &str, found: &T, expected: &T) -> Option<String> {
            (found != expected).then(|| format!("{name}:\n  found    {found:?}\n  expected {expected:?}\n"))
        }
        let parts = [
            part("inodes", &self.inodes, &expected.inodes),
            part("inodes counted", &self.inodes_counted, &expected.inodes_counted),
            part("volumes", &self.volumes, &expected.volumes),
            part("removed volumes", &self.removed_volumes, &expected.removed_volumes),
            part("usages", &self.usages, &expected.usages),
            part("rooms", &self.rooms, &expected.rooms),
            part("entries", &self.entries, &expected.entries),
            part("inline data", &self.inline_data, &expected.inline_data),
            part("names found", &self.names_found, &expected.names_found),
            part("extended attributes", &self.xattrs, &expected.xattrs),
            part("stripe policies", &self.stripe_policies, &expected.stripe_policies),
            part("clients", &self.clients, &expected.clients),
            part("clients with state", &self.clients_with_state, &expected.clients_with_state),
            part("sessions", &self.sessions, &expected.sessions),
            part("states", &self.states, &expected.states),
            part("locks", &self.locks, &expected.locks),
            part("layouts", &self.layouts, &expected.layouts),
            part("unsettled", &self.unsettled, &expected.unsettled),
            part("to settle", &self.to_settle, &expected.to_settle),
            part("delegations", &self.delegations, &expected.delegations),
            part("revoked", &self.revoked, &expected.revoked),
            part("shares", &self.shares, &expected.shares),
            part("lock tests", &self.lock_tests, &expected.lock_tests),
            part("held files", &self.held_files, &expected.held_files),
            part("work", &self.deferred, &expected.deferred),
            part("servers", &self.servers, &expected.servers),
            part("map", &self.map, &expected.map),
            part("devices", &self.devices, &expected.devices),
            part("chains", &self.chains, &expected.chains),
            part("snapshots", &self.snapshots, &expected.snapshots),
            part("shown", &self.shown, &expected.shown),
            part("objects", &self.objects, &expected.objects),
            part("origins", &self.origins, &expected.origins),
            part("histories", &self.histories, &expected.histories),
        ];
        Some(parts.into_iter().flatten().collect())
    }
}

/// All that a snapshot shows.
fn shown(view: &dyn View, id: VolumeId) -> Vec<Shown> {
    let (mut reached, mut shown, mut names) = (vec![id.root()], vec![], BTreeMap::new());
    while let Some(at) = reached.pop() {
        let inode = read::inode(view, at).expect("reads").unwrap_or_else(|| panic!("{at:?} is named"));
        let entries = if inode.directory().is_some() { list(view, at, &mut names) } else { vec![] };
        for entry in &entries {
            assert_eq!(names.get(&(at, entry.name.clone())), Some(&entry.inode), "by name and by cookie");
        }
        reached.extend(entries.iter().map(|entry| entry.inode));
        let objects = inode.columns().and_then(|_| read::objects(view, &inode).expect("reads"));
        let data = read::inline_data(view, at).expect("reads").to_vec();
        shown.push((inode, entries, data, objects.map(|of| of.id)));
    }
    shown.sort_by_key(|(inode, ..)| inode.id);
    shown.dedup_by_key(|(inode, ..)| inode.id);
    shown
}

/// A listing in pieces of two, as a client with a small buffer gets it; every name is looked up too.
fn list(view: &dyn View, dir: InodeId, found: &mut BTreeMap<(InodeId, Vec<u8>), InodeId>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        let (before, after) = (entries.len(), entries.last().map_or(0, |entry| entry.cookie));
        read::list(view, dir, after, |entry| {
            entries.push(entry);
            if entries.len() < before + 2 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
        .expect("lists");
        if entries.len() == before {
            break;
        }
    }
    for entry in &entries {
        if let Some(inode) = read::lookup(view, dir, &entry.name).expect("looks up") {
            found.insert((dir, entry.name.clone()), inode);
        }
    }
    entries
}

fn see(view: &dyn View, state: State) -> Seen {
    match state {
        State::Open(OpenState { stateid, client, inode, owner, access, deny, .. }) => {
            Seen::Open { stateid, client, inode, owner, access, deny }
        }
        State::Lock(LockState { stateid, client, inode, owner, open, .. }) => {
            Seen::Lock { stateid, client, inode, owner, open }
        }
        State::Delegation(delegation) => Seen::Delegation(delegation),
        State::Layout(layout) => {
            let mark = read::unsettled(view, layout.inode).expect("reads");
            let times_set = mark.is_some_and(|mark| mark.has_times_set(&layout));
            let LayoutState { stateid, client, inode, mode, recalled, .. } = layout;
            Seen::Layout { stateid, client, inode, mode, recalled, times_set }
        }
    }
}

/// Who might ask for a lock: a stranger, and an owner that may have one.
fn askers(plain: &Plain) -> Vec<(ClientId, Vec<u8>)> {
    let known = plain.locks.values().next().map(|lock| (lock.client, lock.owner.clone()));
    [(ClientId(0), b"stranger".to_vec())].into_iter().chain(known).collect()
}

/// What I/O without an open might ask.
fn share_questions(plain: &Plain) -> impl Iterator<Item = (Share, Option<ClientId>)> {
    let known = plain.opens.values().next().map(|open| open.client);
    [(Share::READ, None), (Share::WRITE, None), (Share::BOTH, known)].into_iter()
}
