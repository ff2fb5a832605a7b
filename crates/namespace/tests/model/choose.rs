//! Chooses commands. A command is chosen by a row of numbers, each picking one of what there is: so a row
//! means something in every world, rows can be left out, and smaller numbers are simpler commands. That is
//! what shrinks well.

mod boot;
mod cluster;
mod files;
mod states;

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
    fn made(&mut self, inode: InodeId) -> Option<Placed> {
        let (layout, epoch) = match self.plain.nodes.get(&inode).map(|node| &node.content) {
            Some(Content::File { layout, epoch, .. }) => (*layout, *epoch),
            _ => return None,
        };
        let placed = Placed { layout, epoch };
        let others = [
            Some(Placed { layout: FileLayout { first: 9, ..layout }, epoch }),
            Some(Placed { layout, epoch: epoch.wrapping_sub(1) }),
            None,
        ];
        if self.seldom(3) { self.one(others) } else { Some(placed) }
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

    /// A client's request of before, or the next one of a slot.
    fn past_request(&mut self) -> Option<CompoundRequest> {
        let of = |proposal: &Proposal| match proposal.request {
            Some(RequestId::Compound(request)) => Some(request),
            _ => None,
        };
        let past: Vec<CompoundRequest> = self.past.iter().filter_map(of).collect();
        let request = self.any(past.into_iter())?;
        let sequence = if self.pick(2) == 0 { request.sequence } else { request.sequence + 1 };
        Some(CompoundRequest { sequence, ..request })
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
        if self.seldom(12) {
            return if self.pick(5) < 3 { self.command_of_snapshot() } else { self.command_of_volume() };
        }
        let kind = self.pick(100);
        // What needs a state that there is none of becomes a create.
        self.command_of_state(kind).unwrap_or_else(|| self.command_of_any(kind))
    }
}
