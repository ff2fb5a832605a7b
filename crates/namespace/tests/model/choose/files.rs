//! Commands of files and of their clients.

use namespace::*;

use super::*;

impl Chooser<'_> {
    pub(super) fn command_of_any(&mut self, kind: usize) -> Command {
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
                if self.seldom(6)
                    && let Some(of) = self.past_request()
                {
                    return Command::ClaimWrite { inode, id: 1 + self.pick(3) as u64, of };
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
                let bytes = self.one([1, 100, 5000, u64::MAX]);
                Command::Wrote { inode, end: self.one(SIZES), bytes, epoch }
            }
            35..37 => {
                let (unit, pool) = (StripeUnit::DEFAULT, self.pool());
                let policy = self.one([
                    None,
                    Some(StripePolicy { unit, columns: 1, copies: 1, pool }),
                    Some(StripePolicy { unit, columns: 0, copies: 2, pool }),
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
                0..4 => {
                    let sequence = (self.pick(3) == 0).then(|| self.pick(3) as u32);
                    Command::LapseLease { client: self.client(), sequence }
                }
                4 => Command::RenewLease { client: self.client() },
                5 | 6 => Command::ExpireClient { client: self.lapsed() },
                _ => Command::ReclaimComplete { client: self.client() },
            },
            48..60 if self.seldom(6) => self.keep_open(),
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
                let export = InodeId::ROOT;
                let open = Open { client, owner, target, access, deny, delegate, export };
                if self.pick(3) == 0 { Command::OpenOrDelegate(open) } else { Command::Open(open) }
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

    fn keep_open(&mut self) -> Command {
        let confirmed = self.plain.clients.iter().filter(|(_, client)| client.confirmed).map(|(id, _)| *id);
        let client = self.any(confirmed).unwrap_or(ClientId(1));
        let id = match self.pick(8) {
            7 => self.any(self.plain.opens.keys().copied()).unwrap_or(StateId(1)),
            few => StateId(1 << 63 | few as u64),
        };
        let stateid = Stateid { sequence: if self.seldom(6) { 0 } else { 2 }, id };
        let target = OpenTarget::Inode(self.file());
        let owner = self.one(OPEN_OWNERS).as_bytes().to_vec();
        let access = self.one([Share::READ, Share::BOTH]);
        let delegate = self.seldom(8);
        let open = Open { client, owner, target, access, deny: Share::NONE, delegate, export: InodeId::ROOT };
        Command::KeepOpen { open, stateid }
    }

    pub(super) fn command_of_volume(&mut self) -> Command {
        if self.pick(3) == 2 {
            return self.set_limits();
        }
        let (dir, name) = (self.dir(), self.name());
        if self.pick(3) < 2 {
            let attributes =
                NewAttributes { mode: 0o755, uid: 1, gid: 2, accessed: self.time(), modified: None };
            let (unit, pool) = (StripeUnit::DEFAULT, self.pool());
            let stripe = self.seldom(4).then_some(StripePolicy { unit, columns: 1, copies: 1, pool });
            return Command::MakeVolume(NewVolume { dir, name, attributes, stripe });
        }
        let roots = self.plain.entries().filter(|(dir, .., inode)| dir.volume() != inode.volume());
        let root = self.any(roots.map(|(dir, name, ..)| (dir, name)));
        let force = self.pick(3) == 0;
        match root {
            Some((dir, name)) if !self.seldom(4) => Command::RemoveVolume { dir, name: name.clone(), force },
            _ => Command::RemoveVolume { dir, name, force },
        }
    }

    pub(super) fn command_of_snapshot(&mut self) -> Command {
        if self.seldom(4) {
            return self.command_of_clone();
        }
        let shared = self.plain.nodes.keys().copied().filter(|id| self.plain.is_shared(*id));
        let copying = self.plain.objects.iter().filter_map(|(id, own)| Some((*id, own.copy?.0)));
        match self.pick(3) {
            1 => {
                let shared = self.any(shared);
                let inode = if self.seldom(8) { self.file() } else { shared.unwrap_or_else(|| self.file()) };
                return Command::CopyObjects { inode };
            }
            2 => {
                if let Some((inode, copy)) = self.any(copying) {
                    let epoch = self.plain.epoch(inode).wrapping_sub(u32::from(self.seldom(8)));
                    let copy = if self.seldom(8) { InodeId(copy.0 - 1) } else { copy };
                    return Command::CopiedObjects { inode, copy, epoch };
                }
            }
            _ => {}
        }
        let volumes = self.plain.volumes.keys().copied();
        let volume = if self.seldom(12) { None } else { self.any(volumes) }.unwrap_or(VolumeId(1000));
        if self.seldom(5) {
            let all = self.plain.snapshots_of(volume);
            let one = if self.seldom(3) { all.first() } else { all.last() };
            let name = one.map_or_else(|| self.name(), |one| one.name.clone());
            return Command::RollBack { volume, name, force: self.pick(3) > 0 };
        }
        if self.seldom(8) {
            let schedule = Schedule { hourly: self.one([0, 1, 24]), daily: self.one([0, 7]), weekly: 0 };
            return Command::SetSchedule { volume, schedule };
        }
        if self.pick(5) < 3 {
            let name =
                if self.seldom(12) { self.one([&b""[..], b"..", b"a/b"]).to_vec() } else { self.name() };
            return Command::MakeSnapshot { volume, name };
        }
        let all = self.plain.snapshots.values().map(|snapshot| &snapshot.snapshot);
        let (volume, name) = match self.any(all) {
            Some(snapshot) if !self.seldom(8) => (snapshot.volume, snapshot.name.clone()),
            _ => (volume, self.name()),
        };
        Command::RemoveSnapshot { volume, name, force: self.pick(2) == 0 }
    }

    fn command_of_clone(&mut self) -> Command {
        let clones = self.plain.origins.keys().copied();
        if self.pick(3) == 2
            && let Some(volume) = self.any(clones)
        {
            return Command::Promote { volume: if self.seldom(3) { VolumeId::FIRST } else { volume } };
        }
        let any = self.any(self.plain.snapshots.keys().copied());
        let snapshot = any.filter(|_| !self.seldom(8)).unwrap_or(VolumeId(1 << 23));
        Command::MakeClone { snapshot, dir: self.dir(), name: self.name() }
    }

    fn set_limits(&mut self) -> Command {
        let volumes = self.plain.volumes.keys().copied();
        let volume = if self.seldom(12) { None } else { self.any(volumes) }.unwrap_or(VolumeId(1000));
        let id = self.one([1, 2, 3, 4]);
        let subject = self.one([Subject::Volume, Subject::User(id), Subject::Group(id)]);
        let limits = Limits {
            bytes_hard: self.one([0, 0, 8192, 20_000, 1 << 40]),
            bytes_soft: self.one([0, 0, 1, 4096, 10_000]),
            inodes_hard: self.one([0, 0, 4, 8, 20]),
            inodes_soft: self.one([0, 0, 2, 5]),
            grace_seconds: self.one([0, 3, 20, 1000]),
        };
        // Seldom any, so that there is room for all else.
        let limits = if self.pick(3) == 2 { limits } else { Limits::default() };
        Command::SetLimits { volume, subject, limits }
    }

    pub(super) fn command_of_xattr(&mut self) -> Command {
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
}
