//! Chooses commands. A command is chosen by a row of numbers, each picking one of what there is: so a row
//! means something in every world, rows can be left out, and smaller numbers are simpler commands. That is
//! what shrinks well.

use std::net::IpAddr;

use namespace::*;

use crate::plain::{Content, LAST_BYTE, Plain};
use crate::rows::Picks;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const CLIENT_OWNERS: [&str; 3] = ["x", "y", "z"];
const OPEN_OWNERS: [&str; 2] = ["p", "q"];
const LOCK_OWNERS: [&str; 2] = ["l", "m"];
const SIZES: [u64; 6] = [0, 1, 5, 100, i64::MAX as u64, u64::MAX];
const SHARES: [Share; 5] = [Share::READ, Share::WRITE, Share::BOTH, Share::NONE, Share(4)];

fn address(number: u8) -> IpAddr {
    [10, 0, 0, number].into()
}

/// What happens first in every case: two clients with a session each, and files to fight for.
pub fn beginning() -> Vec<Proposal> {
    let mut commands = Vec::new();
    for (number, owner) in CLIENT_OWNERS.iter().take(2).enumerate() {
        commands.push(Command::ExchangeId {
            owner: owner.as_bytes().to_vec(),
            verifier: [1; 8],
            principal: principal(0),
            update: false,
            address: address(0),
        });
        commands.push(Command::CreateSession {
            client: ClientId((0xabcd_0123 << 32) + 1 + number as u64),
            sequence: 1,
            principal: principal(0),
            channels: channels(),
            address: address(0),
        });
    }
    for (name, node) in
        [("a", NewNode::File(layout(1))), ("b", NewNode::File(layout(2))), ("c", NewNode::Directory)]
    {
        commands.push(Command::Create(Create {
            dir: InodeId::ROOT,
            name: name.as_bytes().to_vec(),
            node,
            attributes: NewAttributes { mode: 0o6755, uid: 1, gid: 1, accessed: None, modified: None },
            exists: Exists::Refuse,
        }));
    }
    // One whose data are in objects; the other is small.
    commands.push(Command::Migrate { inode: InodeId(3), made: None });
    let stamped = commands.into_iter().enumerate();
    stamped.map(|(step, command)| Proposal::new(stamp(step as u32), None, command)).collect()
}

fn stamp(step: u32) -> Stamp {
    // Not always forward: leaders change, and clocks with them.
    let seconds = i64::from(step / 3 * 2 + step % 2);
    let random = u64::from(step).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Stamp { time: Time { seconds, nanoseconds: step }, random }
}

fn principal(pick: u16) -> Principal {
    match pick {
        0 => Principal::Sys { uid: 0, machine: b"host".to_vec() },
        _ => Principal::Nobody,
    }
}

fn channels() -> Channels {
    let channel = Channel {
        request_bytes_max: 1 << 20,
        response_bytes_max: 1 << 20,
        cached_bytes_max: 4096,
        operations_max: 8,
        slots: 4,
    };
    Channels { fore: channel, back: channel, callback: callback(7) }
}

fn callback(program: u32) -> Callback {
    Callback { program, credential: CallbackCredential::Nobody }
}

fn layout(columns: u32) -> FileLayout {
    FileLayout { device: DeviceId(1), first: 0, unit: StripeUnit::DEFAULT, columns }
}

/// Reads a row of numbers against the world as it is.
pub struct Chooser<'a> {
    picks: std::slice::Iter<'a, u16>,
    plain: &'a Plain,
    past: &'a [Proposal],
}

impl<'a> Chooser<'a> {
    pub fn new(picks: &'a Picks, plain: &'a Plain, past: &'a [Proposal]) -> Self {
        Self { picks: picks.iter(), plain, past }
    }

    pub fn proposal(mut self, step: u32) -> Proposal {
        let stamp = stamp(step);
        if self.seldom(12)
            && let Some(past) = self.of(self.past)
        {
            // A compound sent again, perhaps long after: under the same request id, at another time.
            return Proposal { stamp, ..past.clone() };
        }
        let request = self.request();
        Proposal::new(stamp, request, self.command())
    }

    // Small picks.

    fn pick(&mut self, count: usize) -> usize {
        let pick = self.picks.next().copied().unwrap_or_default();
        usize::from(pick) % count.max(1)
    }

    /// True once in `times`, never for a 0.
    fn seldom(&mut self, times: usize) -> bool {
        self.pick(times) == times - 1
    }

    fn of<T: 'a>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.pick(all.len()))
    }

    fn one<T: Copy, const N: usize>(&mut self, all: [T; N]) -> T {
        all[self.pick(N)]
    }

    fn any<T: Copy>(&mut self, all: impl Iterator<Item = T>) -> Option<T> {
        let all: Vec<T> = all.collect();
        all.get(self.pick(all.len())).copied()
    }

    // Things of the world.

    fn name(&mut self) -> Vec<u8> {
        self.one(NAMES).as_bytes().to_vec()
    }

    fn dir(&mut self) -> InodeId {
        if self.seldom(12) {
            return self.inode();
        }
        let dirs =
            self.plain.nodes.iter().filter(|(_, node)| matches!(node.content, Content::Directory { .. }));
        self.any(dirs.map(|(id, _)| *id)).unwrap_or(InodeId::ROOT)
    }

    fn inode(&mut self) -> InodeId {
        let some = self.plain.nodes.keys().copied();
        self.any(some.chain([InodeId(1000)])).unwrap_or(InodeId::ROOT)
    }

    fn file(&mut self) -> InodeId {
        if self.seldom(10) {
            return self.inode();
        }
        // One time in two the oldest, so that there is something to fight for.
        let few = if self.pick(2) == 0 { 1 } else { usize::MAX };
        let files = self.plain.nodes.keys().copied().filter(|id| self.plain.is_file(*id));
        self.any(files.take(few)).unwrap_or(InodeId::ROOT)
    }

    /// Mostly a file whose data are with its inode.
    fn small_file(&mut self) -> InodeId {
        let small = |id: &InodeId| self.plain.place(*id) == Some(DataPlace::Inline);
        match self.plain.nodes.keys().copied().find(small) {
            Some(small) if !self.seldom(4) => small,
            _ => self.file(),
        }
    }

    /// Which objects were made before a command: mostly those of the file's layout.
    fn made(&mut self, inode: InodeId) -> Option<FileLayout> {
        let layout = match self.plain.nodes.get(&inode).map(|node| &node.content) {
            Some(Content::File { layout, .. }) => *layout,
            _ => return None,
        };
        self.one([Some(layout), Some(layout), Some(layout), None, Some(FileLayout { first: 9, ..layout })])
    }

    fn client(&mut self) -> ClientId {
        let clients = self.plain.clients.keys().copied();
        if self.seldom(20) { ClientId(77) } else { self.any(clients).unwrap_or(ClientId(77)) }
    }

    /// Mostly one whose lease has run out.
    fn lapsed(&mut self) -> ClientId {
        let lapsed = self.plain.clients.iter().filter(|(_, client)| client.lapsed.is_some());
        self.any(lapsed.map(|(id, _)| *id)).unwrap_or_else(|| self.client())
    }

    /// A stateid with its client and file; mostly the right ones.
    fn bent(
        &mut self,
        id: StateId,
        sequence: u32,
        client: ClientId,
        inode: InodeId,
    ) -> (Stateid, ClientId, InodeId) {
        let sequence = match self.pick(10) {
            0..6 => sequence,
            6 | 7 => 0,
            8 => sequence.saturating_sub(1),
            _ => sequence + 1,
        };
        let right = (Stateid { sequence, id }, client, inode);
        match self.pick(24) {
            21 => (right.0, self.client(), inode),
            22 => (right.0, client, self.inode()),
            23 => (Stateid { sequence, id: StateId(5000) }, client, inode),
            _ => right,
        }
    }

    fn open_state(&mut self) -> Option<(Stateid, ClientId, InodeId)> {
        let opens = self.plain.opens.iter().map(|(id, open)| (*id, open.sequence, open.client, open.inode));
        let (id, sequence, client, inode) = self.any(opens)?;
        Some(self.bent(id, sequence, client, inode))
    }

    fn lock_state(&mut self) -> Option<(Stateid, ClientId, InodeId)> {
        let locks = self.plain.locks.iter().map(|(id, lock)| (*id, lock.sequence, lock.client, lock.inode));
        let (id, sequence, client, inode) = self.any(locks)?;
        Some(self.bent(id, sequence, client, inode))
    }

    fn layout_state(&mut self) -> Option<(Stateid, ClientId, InodeId)> {
        let layouts =
            self.plain.layouts.iter().map(|(id, layout)| (*id, layout.sequence, layout.client, layout.inode));
        let (id, sequence, client, inode) = self.any(layouts)?;
        Some(self.bent(id, sequence, client, inode))
    }

    fn delegation_state(&mut self) -> Option<(Stateid, ClientId, InodeId)> {
        let delegations = self.plain.delegations.iter().map(|(id, held)| (*id, held.client, held.inode));
        let (id, client, inode) = self.any(delegations)?;
        Some(self.bent(id, 1, client, inode))
    }

    fn any_state(&mut self) -> Option<(Stateid, ClientId, InodeId)> {
        match self.pick(4) {
            0 => self.open_state(),
            1 => self.lock_state(),
            2 => self.layout_state(),
            _ => self.delegation_state(),
        }
    }

    fn range(&mut self) -> ByteRange {
        let start = self.pick(LAST_BYTE as usize) as u64;
        let len = self.pick(10) as u64;
        if len == 9 {
            return ByteRange { start, end: u64::MAX };
        }
        ByteRange { start, end: (start + len).min(LAST_BYTE) }
    }

    fn request(&mut self) -> Option<RequestId> {
        if self.pick(3) < 2 {
            return None;
        }
        let session = match self.any(self.plain.sessions.keys().copied()) {
            Some(session) if !self.seldom(20) => session,
            _ => SessionId([9; 16]),
        };
        let slot = self.pick(2) as u32;
        let known = self.plain.sessions.get(&session).and_then(|session| session.slots.get(&slot));
        let (sequence, next_index) = match known {
            Some((sequence, replies)) => (*sequence, replies.len() as u32),
            None => (100, 0), // so that a straggler may be older
        };
        let (sequence, index) = match self.pick(8) {
            0..4 => (sequence + 1, 0),
            4..7 => (sequence, next_index),
            _ => (sequence - 1, 0),
        };
        Some(RequestId::Compound(CompoundRequest { session, slot, sequence, index }))
    }

    fn time(&mut self) -> Option<Time> {
        let seconds = self.one([None, None, Some(5), Some(10_000)]);
        seconds.map(|seconds| Time { seconds, nanoseconds: 1 })
    }

    fn create(&mut self, node: NewNode) -> Create {
        let exists = self.one([
            Exists::Refuse,
            Exists::Take,
            Exists::Take,
            Exists::Verify([1; 8]),
            Exists::Verify([2; 8]),
        ]);
        let mode = self.one([0o644, 0o6755, 0o107_777]);
        let attributes = NewAttributes { mode, uid: 1, gid: 2, accessed: self.time(), modified: None };
        Create { dir: self.dir(), name: self.name(), node, attributes, exists }
    }

    // Commands.

    fn command(&mut self) -> Command {
        if self.seldom(16) {
            return self.command_of_xattr();
        }
        if self.seldom(30)
            && let Some(command) = self.command_of_delegation()
        {
            return command;
        }
        let kind = self.pick(100);
        // What needs a state that there is none of becomes a create.
        self.command_of_state(kind).unwrap_or_else(|| self.command_of_any(kind))
    }

    fn command_of_state(&mut self, kind: usize) -> Option<Command> {
        Some(match kind {
            60..64 => {
                let (stateid, client, _) = self.open_state()?;
                Command::Close { client, stateid }
            }
            64..68 => {
                let (stateid, client, _) = self.open_state()?;
                let (access, deny) = (self.one(SHARES), self.one([Share::NONE, Share::NONE, Share::WRITE]));
                Command::OpenDowngrade { client, stateid, access, deny }
            }
            68..75 => {
                let (open, client, inode) = self.open_state()?;
                let kind = self.one([LockKind::Read, LockKind::Write]);
                let owner = LockOwner::New { open, owner: self.one(LOCK_OWNERS).as_bytes().to_vec() };
                Command::Lock { client, inode, owner, kind, range: self.range() }
            }
            75..80 => {
                let (lock, client, inode) = self.lock_state()?;
                let kind = self.one([LockKind::Read, LockKind::Write]);
                Command::Lock { client, inode, owner: LockOwner::Known { lock }, kind, range: self.range() }
            }
            80..83 => {
                let (stateid, client, _) = self.lock_state()?;
                let all = ByteRange { start: 0, end: u64::MAX };
                let range = if self.pick(3) == 1 { all } else { self.range() };
                Command::Unlock { client, stateid, range }
            }
            83..85 => {
                let (stateid, client, _) =
                    if self.pick(3) < 2 { self.lock_state()? } else { self.any_state()? };
                Command::FreeState { client, stateid }
            }
            90 => {
                let (_, client, inode) = self.layout_state()?;
                Command::LayoutRecall { client, inode }
            }
            85..90 => {
                let (stateid, client, inode) = self.open_state()?;
                let mode = self.one([IoMode::Read, IoMode::ReadWrite]);
                let made = self.made(inode);
                let version = self.one([1, 2, 3]);
                Command::LayoutGet { client, inode, stateid, mode, made, version, export: InodeId::ROOT }
            }
            91 => {
                let (stateid, client, inode) = self.any_state()?;
                let mode = self.one([IoMode::Read, IoMode::ReadWrite]);
                let made = self.made(inode);
                let version = self.one([1, 2, 3]);
                Command::LayoutGet { client, inode, stateid, mode, made, version, export: InodeId::ROOT }
            }
            92 => Command::Observe { files: vec![self.observation()?; self.one([1, 1, 2])] },
            93..96 => {
                let (stateid, client, inode) =
                    if self.seldom(8) { self.any_state()? } else { self.layout_state()? };
                let last_write = self.one([None, Some(0), Some(7), Some(300), Some(u64::MAX)]);
                let observed = if self.seldom(2) { self.observation() } else { None };
                let modified = self.time();
                Command::LayoutCommit { client, inode, stateid, last_write, modified, observed }
            }
            96..99 => {
                let (stateid, client, inode) =
                    if self.seldom(8) { self.any_state()? } else { self.layout_state()? };
                let scope = match self.pick(6) {
                    0..3 => ReturnScope::File { inode, stateid },
                    3 => ReturnScope::Revoke { layout: stateid.id },
                    4 => ReturnScope::Unknown { layout: stateid.id },
                    _ => ReturnScope::All,
                };
                Command::LayoutReturn { client, scope }
            }
            _ => return None,
        })
    }

    fn command_of_any(&mut self, kind: usize) -> Command {
        match kind {
            4..7 => {
                let offset = self.one([0, 0, 2, 7, 65_535]);
                let bytes = vec![self.pick(256) as u8; self.one([1, 1, 4, 9, 0])];
                Command::WriteInline { inode: self.small_file(), offset, data: bytes.into() }
            }
            7 if self.pick(3) == 0 => {
                let inode = self.small_file();
                Command::Migrate { inode, made: self.made(inode) }
            }
            7 if self.pick(3) == 0 => {
                let columns = self.one([1, 2, 3, 0]);
                Command::PlaceAs { inode: self.small_file(), layout: layout(columns) }
            }
            7 if self.pick(3) == 0 => {
                let inode = self.file();
                let other = FileLayout { device: DeviceId(2), ..layout(self.one([1, 1, 2])) };
                let there = self.plain.layout_of(inode).unwrap_or(other);
                let (first, from) = (self.pick(2) as u32, if self.seldom(4) { other } else { there });
                let columns = if self.seldom(4) { other.columns } else { there.columns };
                if self.seldom(6) {
                    return Command::RaiseEpoch { inode, epoch: self.plain.epoch(inode) };
                }
                let mut checked = self.plain.version(inode);
                match self.pick(20) {
                    0 => checked.epoch = checked.epoch.wrapping_add(1),
                    1 => checked.change += 1,
                    2 => checked.grant ^= 1,
                    _ => {}
                }
                Command::Relocate { inode, from, to: FileLayout { first, columns, ..other }, checked }
            }
            7 => {
                let place = |id: &InodeId| self.plain.place(*id) == Some(DataPlace::Migrating);
                let migrating = self.plain.nodes.keys().copied().find(place);
                let inode = migrating.unwrap_or_else(|| self.file());
                let there = self.plain.layout_of(inode).filter(|_| !self.seldom(6));
                let epoch = self.plain.epoch(inode).wrapping_sub(u32::from(self.seldom(8)));
                Command::Migrated { inode, layout: there.unwrap_or(layout(3)), epoch }
            }
            10..14 => Command::Link { inode: self.inode(), dir: self.dir(), name: self.name() },
            14..20 => {
                let expect =
                    self.one([Expect::Anything, Expect::Anything, Expect::Directory, Expect::NotDirectory]);
                Command::Remove { dir: self.dir(), name: self.name(), expect }
            }
            20..27 => Command::Rename {
                from_dir: self.dir(),
                from: self.name(),
                to_dir: self.dir(),
                to: self.name(),
            },
            27..32 => {
                let inode = if self.seldom(4) { self.inode() } else { self.file() };
                let guard = match self.pick(6) {
                    4 => self.plain.nodes.get(&inode).map(|node| node.changed),
                    5 => Some(Time::default()),
                    _ => None,
                };
                let set = SetAttributes {
                    size: self.one([None, None, Some(())]).map(|()| self.one(SIZES)),
                    mode: self.one([None, None, Some(0o4711), Some(0o100_644)]),
                    uid: self.one([None, None, Some(3)]),
                    gid: self.one([None, None, Some(4)]),
                    accessed: None,
                    modified: self.time(),
                    layout_of: self.one([None, Some(())]).map(|()| self.client()),
                    guard,
                };
                Command::SetAttributes { inode, set }
            }
            32..35 => {
                let inode = self.file();
                // Seldom one that began before the last truncation.
                let epoch = self.plain.epoch(inode).wrapping_sub(u32::from(self.seldom(10)));
                Command::Wrote { inode, end: self.one(SIZES), epoch }
            }
            35..37 => {
                let unit = StripeUnit::DEFAULT;
                let policy = self.one([
                    None,
                    Some(StripePolicy { unit, columns: 1 }),
                    Some(StripePolicy { unit, columns: 0 }),
                ]);
                Command::SetStripe { dir: self.dir(), policy }
            }
            37..40 => {
                let owner = self.one(CLIENT_OWNERS).as_bytes().to_vec();
                let known =
                    self.plain.clients.values().find(|client| client.confirmed && client.owner == owner);
                let verifier = match known {
                    Some(known) if !self.seldom(5) => known.verifier,
                    _ => [self.pick(3) as u8; 8],
                };
                let principal = principal(u16::from(self.seldom(5)));
                let address = address(u8::from(self.seldom(4)));
                Command::ExchangeId { owner, verifier, principal, update: self.seldom(3), address }
            }
            40..44 => {
                // Mostly one that wants to be confirmed.
                let unconfirmed = self.plain.clients.iter().filter(|(_, client)| !client.confirmed);
                let unconfirmed = self.any(unconfirmed.map(|(id, _)| *id));
                let client = unconfirmed.unwrap_or_else(|| self.client());
                let known = self.plain.clients.get(&client);
                let next = known.map_or(1, |known| known.sequence + 1);
                let sequence = match self.pick(8) {
                    0..5 => next,
                    5 | 6 => next - 1,
                    _ => next + 1,
                };
                let principal = match known {
                    Some(known) if !self.seldom(8) => known.principal.clone(),
                    _ => principal(1),
                };
                let address = match known {
                    Some(known) if !self.seldom(8) => known.addresses[0],
                    _ => address(1),
                };
                Command::CreateSession { client, sequence, principal, channels: channels(), address }
            }
            44 => {
                let sessions = self.plain.sessions.keys().copied();
                let session = self.any(sessions.chain([SessionId([8; 16])])).unwrap_or(SessionId([8; 16]));
                if self.pick(3) == 2 {
                    return Command::BackchannelCtl { session, callback: callback(self.pick(9) as u32) };
                }
                Command::DestroySession { session }
            }
            45 => Command::DestroyClient { client: self.client() },
            46 => Command::ReclaimComplete { client: self.client() },
            47 => match self.pick(8) {
                0..4 => Command::LapseLease { client: self.client() },
                4 => Command::RenewLease { client: self.client() },
                5 | 6 => Command::ExpireClient { client: self.lapsed() },
                _ => Command::ReclaimComplete { client: self.client() },
            },
            48..60 => {
                let target = match self.pick(8) {
                    0..3 => OpenTarget::Inode(self.file()),
                    3..5 => OpenTarget::Name { dir: self.dir(), name: self.name() },
                    _ => {
                        let node = if self.seldom(20) { NewNode::Fifo } else { NewNode::File(layout(1)) };
                        OpenTarget::Create { truncate: self.seldom(4), create: self.create(node) }
                    }
                };
                let (odd_access, odd_deny) = (self.one(SHARES), self.one(SHARES));
                let access = self.one([Share::BOTH, Share::BOTH, Share::READ, Share::WRITE, odd_access]);
                let deny = self.one([Share::NONE, Share::NONE, Share::NONE, Share::NONE, odd_deny]);
                let confirmed = self.plain.clients.iter().filter(|(_, client)| client.confirmed);
                let confirmed = self.any(confirmed.map(|(id, _)| *id));
                let client = match confirmed {
                    Some(client) if !self.seldom(12) => client,
                    _ => self.client(),
                };
                let owner = self.one(OPEN_OWNERS).as_bytes().to_vec();
                let delegate = self.pick(3) < 2;
                Command::Open(Open { client, owner, target, access, deny, delegate, export: InodeId::ROOT })
            }
            _ if kind == 99 || kind == 8 => self.command_of_cluster(),
            9 => Command::DeferredDone { ids: self.deferred_ids() },
            _ => {
                let node = match self.pick(10) {
                    0..4 => NewNode::File(layout(self.one([1, 3, 1, 0]))),
                    4..7 => NewNode::Directory,
                    7 => NewNode::Symlink(b"else/where".to_vec()),
                    8 => NewNode::Fifo,
                    _ => NewNode::CharacterDevice(1, 3),
                };
                Command::Create(self.create(node))
            }
        }
    }

    /// Of an unsettled file, most often up to date.
    fn observation(&mut self) -> Option<Observation> {
        let plain = self.plain;
        let (inode, grant) = self.any(plain.unsettled.iter().map(|(inode, (grant, _))| (*inode, *grant)))?;
        let inode = if self.seldom(12) { self.inode() } else { inode };
        let epoch = match plain.nodes.get(&inode).map(|node| &node.content) {
            Some(Content::File { epoch, .. }) => epoch.wrapping_add(u32::from(self.seldom(8))),
            _ => 0,
        };
        Some(Observation {
            inode,
            grant: grant.wrapping_add(u64::from(self.seldom(8))),
            epoch,
            end: self.one([0, 5, 90, 70_000, u64::MAX]),
            modified: self.time().unwrap_or_default(),
            version: self.one([1, 2, 3]),
            durable: self.one([true, false]),
        })
    }

    fn command_of_delegation(&mut self) -> Option<Command> {
        let (stateid, client, inode) = self.delegation_state()?;
        Some(match self.pick(5) {
            0 | 1 => Command::DelegationReturn { client, stateid },
            2 => Command::DelegationRevoke { client, delegation: stateid.id },
            3 => Command::FreeState { client, stateid },
            _ => {
                let made = self.made(inode);
                Command::LayoutGet {
                    client,
                    inode,
                    stateid,
                    mode: IoMode::Read,
                    made,
                    version: 0,
                    export: InodeId::ROOT,
                }
            }
        })
    }

    fn command_of_xattr(&mut self) -> Command {
        // Few objects, so that attributes meet.
        let inode = if self.seldom(4) { self.inode() } else { self.one([InodeId::ROOT, InodeId(3)]) };
        let name = if self.seldom(20) { vec![b'n'; self.one([0, 256])] } else { self.name() };
        if self.pick(3) == 2 {
            return Command::RemoveXattr { inode, name };
        }
        let exists = self.one([XattrExists::Either, XattrExists::Create, XattrExists::Replace]);
        let length = self.one([0, 1, 5, 0, 1, 5, 65_536, 65_537]);
        Command::SetXattr { inode, name, value: vec![b'v'; length], exists }
    }

    fn deferred_ids(&mut self) -> Vec<u64> {
        let all: Vec<u64> = self.plain.deferred.keys().copied().collect();
        if self.seldom(2) { vec![999] } else { all }
    }

    fn map_change(&mut self) -> MapChange {
        let key = match self.pick(2) {
            0 => NodeKey::Metaserver(self.pick(2) as u64),
            _ => NodeKey::DataServer(DataServerId(self.pick(2) as u64)),
        };
        let states = [NodeState::Joining, NodeState::Serving, NodeState::Draining, NodeState::Removed];
        let state = states[self.pick(4)];
        match self.pick(8) {
            7 => {
                let state = if self.seldom(3) { TargetState::InUse } else { TargetState::Lost };
                MapChange::Target(TargetId(self.pick(4) as u64), state)
            }
            0 => MapChange::State(key, state),
            1 => {
                let length = if self.seldom(4) { NODE_TEXT_BYTES_MAX + 1 } else { self.pick(3) };
                let (name, version) = ("n".repeat(length), format!("0.{}", self.pick(2)));
                MapChange::Put(Node { key, name, address: String::new(), version, state })
            }
            2 => {
                let addresses = (0..self.pick(3)).map(|_| self.service_address());
                MapChange::ServiceAddresses(addresses.collect())
            }
            3 => MapChange::AddServiceAddress(self.service_address()),
            4 => MapChange::RemoveServiceAddress(self.service_address()),
            5 => {
                let change = |this: &mut Self| (this.setting(), (!this.seldom(3)).then(|| this.setting()));
                MapChange::Set((0..self.pick(3)).map(|_| change(self)).collect())
            }
            _ => {
                let settings = (0..self.pick(3)).map(|_| (self.setting(), self.setting())).collect();
                MapChange::Begin { settings, service_addresses: vec![self.service_address()] }
            }
        }
    }

    fn token_change(&mut self) -> TokenChange {
        let id = 1 + self.pick(2) as u64;
        match self.pick(3) {
            0 => {
                let after = self.pick(60) as u64;
                TokenChange::Make { id, expires: (self.plain.now.seconds as u64 + after).saturating_sub(5) }
            }
            1 => TokenChange::Use { id, name: "ash".into(), ticket: [self.pick(2) as u8; 32] },
            _ => TokenChange::Revoke { id },
        }
    }

    fn service_address(&mut self) -> std::net::IpAddr {
        [10, 0, 0, self.pick(2) as u8].into()
    }

    fn setting(&mut self) -> String {
        ["", "lease", "trash", "export"][self.pick(4)].to_string()
    }

    fn command_of_cluster(&mut self) -> Command {
        match self.pick(6) {
            4 => Command::Map(self.map_change()),
            5 => Command::JoinToken(self.token_change()),
            0 => {
                let id = DataServerId(1 + self.pick(2) as u64);
                let targets = vec![TargetId(self.pick(4) as u64), TargetId(self.pick(4) as u64)];
                let addresses = vec![format!("10.0.0.{}:2050", id.0)];
                Command::PutDataServer(DataServer { id, name: "ds".to_string(), addresses, targets })
            }
            1 => Command::DefineDevice {
                targets: (0..self.pick(3)).map(|_| TargetId(self.pick(4) as u64)).collect(),
            },
            2 => Command::Format { incarnation: [9; 16] },
            _ => Command::DeferredDone { ids: self.deferred_ids() },
        }
    }
}
