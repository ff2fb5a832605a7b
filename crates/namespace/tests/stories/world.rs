//! The domain's language: a store, and commands by path.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use namespace::*;
use store::{Durability, MemoryStore, Store, StoreError, View};

/// A reply that was not refused, or why it was.
pub type Outcome = Result<Reply, Error>;

/// One store, and a clock that ticks a second with each command.
pub struct World {
    pub store: Box<dyn Store>,
    pub seconds: i64,
    /// Commands are not followed by a look at the whole store, because it is large.
    pub is_large: bool,
}

pub const READ: Share = Share::READ;
pub const WRITE: Share = Share::WRITE;
pub const BOTH: Share = Share::BOTH;
pub const NONE: Share = Share::NONE;

/// The address that clients come from.
pub const HOME: [u8; 4] = [10, 0, 0, 1];

pub const LAYOUT: FileLayout =
    FileLayout { device: DeviceId(1), first: 0, unit: StripeUnit::DEFAULT, columns: 2 };

pub const CHANNELS: Channels = {
    let channel = Channel {
        request_bytes_max: 1 << 20,
        response_bytes_max: 1 << 20,
        cached_bytes_max: 4096,
        operations_max: 16,
        slots: 8,
    };
    let callback = Callback { program: 0x4000_0000, credential: CallbackCredential::Nobody };
    Channels { fore: channel, back: channel, callback }
};

impl World {
    pub fn new() -> Self {
        Self::over(Box::new(MemoryStore::new()))
    }

    /// Over an empty store.
    pub fn over(store: Box<dyn Store>) -> Self {
        let stamp = Stamp { time: at(0), random: 0xfeed_beef_0000_0001 };
        store.batch(Durability::Immediate, &mut |edit| format(edit, &stamp, [7; 16])).expect("formats");
        Self { store, seconds: 0, is_large: false }
    }

    pub fn view(&self) -> Box<dyn View + Send + Sync> {
        Box::new(Snapshots(self.store.snapshot().expect("a snapshot")))
    }

    pub fn apply(&mut self, command: Command) -> Outcome {
        self.apply_from(None, command)
    }

    pub fn apply_from(&mut self, request: Option<RequestId>, command: Command) -> Outcome {
        self.seconds += 1;
        self.apply_at(self.seconds, 0x1111_2222_3333_0000 + self.seconds as u64, request, command)
    }

    /// So many commands in one moment, without a look at the store in between.
    pub fn many(&mut self, count: u64, command: impl Fn(u64) -> (Option<RequestId>, Command)) {
        let time = at(self.seconds);
        self.store
            .batch(Durability::Deferred, &mut |edit| {
                (0..count).try_for_each(|random| {
                    let (request, command) = command(random);
                    apply(edit, &Proposal::new(Stamp { time, random }, request, command))
                        .map(drop)
                        .map_err(Into::into)
                })
            })
            .expect("applies");
    }

    pub fn apply_at(
        &mut self,
        seconds: i64,
        random: u64,
        request: Option<RequestId>,
        command: Command,
    ) -> Outcome {
        // As of a metaserver with the same state.
        let generations = Generations::of(&*self.view(), &command).expect("reads");
        self.apply_knowing(Proposal {
            generations,
            ..Proposal::new(Stamp { time: at(seconds), random }, request, command)
        })
    }

    /// What the leader does without a request: ids of operations on objects, and 0 if there are leftovers.
    fn work(&self) -> BTreeSet<u64> {
        let is_of_request = |op: &DeferredOp| matches!(op.kind, DeferredKind::Truncate(_));
        let ops = read::deferred_ops(&*self.view(), usize::MAX).expect("reads").into_iter();
        let leftovers = read::has_leftovers(&*self.view()).expect("reads").then_some(0);
        ops.filter(|op| !is_of_request(op)).map(|op| op.id).chain(leftovers).collect()
    }

    /// A proposal of a metaserver that knows these generations.
    pub fn apply_knowing(&mut self, proposal: Proposal) -> Outcome {
        let request = proposal.request;
        let before = if self.is_large { vec![] } else { self.dump() };
        let work_before = self.work();
        let (mut reply, mut leaves_work) = (None, false);
        self.store
            .batch(Durability::Deferred, &mut |edit| {
                let planned = plan(&*edit, &proposal)?;
                leaves_work = planned.changes.leaves_work();
                planned.changes.commit(edit)?;
                reply = Some(planned.reply);
                Ok::<(), StoreError>(())
            })
            .expect("applies");
        let is_told = leaves_work || self.work().is_subset(&work_before);
        assert!(is_told, "the leader is not told of {:?}: {proposal:?} -> {reply:?}", self.work());
        if !self.is_large {
            let findings = check(&*self.view()).expect("checks");
            assert_eq!(findings, Vec::<String>::new(), "after {proposal:?} -> {reply:?}");
        }
        match reply.expect("the batch ran") {
            Reply::Refused(error) => {
                assert!(
                    self.is_large || request.is_some() || self.dump() == before,
                    "{error:?} changed the store: {proposal:?}"
                );
                Err(error)
            }
            reply => Ok(reply),
        }
    }

    /// Every key and value.
    pub fn dump(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut pairs = Vec::new();
        self.view()
            .scan(&[], &[0xff], &mut |key, value| {
                pairs.push((key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            })
            .expect("scans");
        pairs
    }

    // The name space, by path.

    /// The inode at `path`.
    pub fn id(&self, path: &str) -> InodeId {
        self.find(path).unwrap_or_else(|| panic!("{path} is not there"))
    }

    pub fn find(&self, path: &str) -> Option<InodeId> {
        path.split('/').filter(|name| !name.is_empty()).try_fold(InodeId::ROOT, |dir, name| {
            read::lookup(&*self.view(), dir, name.as_bytes()).expect("looks up")
        })
    }

    /// The version of a file's data.
    pub fn version(&self, path: &str) -> FileVersion {
        read::version(&*self.view(), &self.stat(path)).unwrap()
    }

    pub fn stat(&self, path: &str) -> Inode {
        self.inode(self.id(path)).expect("an entry names an inode")
    }

    pub fn inode(&self, id: InodeId) -> Option<Inode> {
        read::inode(&*self.view(), id).expect("reads")
    }

    /// Names and cookies of a directory after a cookie.
    pub fn list_after(&self, path: &str, cookie: u64, max: usize) -> Vec<(String, u64)> {
        let mut entries = Vec::new();
        if max > 0 {
            read::list(&*self.view(), self.id(path), cookie, |entry| {
                entries.push((String::from_utf8(entry.name).expect("a test's name"), entry.cookie));
                if entries.len() < max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })
            .expect("lists");
        }
        entries
    }

    pub fn names(&self, path: &str) -> Vec<String> {
        self.list_after(path, 0, usize::MAX).into_iter().map(|(name, _)| name).collect()
    }

    pub fn make(&mut self, path: &str, node: NewNode, exists: Exists) -> Outcome {
        let (dir, name) = self.split(path);
        self.apply(Command::Create(create(dir, &name, node, exists)))
    }

    /// A file whose data are in objects.
    pub fn file(&mut self, path: &str) -> InodeId {
        let inode = self.small_file(path);
        self.apply(Command::Migrate { inode, made: Some(Placed { layout: LAYOUT, epoch: 1 }) })
            .expect("has no data to copy");
        inode
    }

    /// A file whose data are with its inode.
    pub fn small_file(&mut self, path: &str) -> InodeId {
        self.make(path, NewNode::File(LAYOUT), Exists::Refuse).expect("makes a file");
        self.id(path)
    }

    pub fn write_small(&mut self, path: &str, offset: u64, data: &str) -> Outcome {
        let data = data.as_bytes().to_vec().into();
        self.apply(Command::WriteInline { inode: self.id(path), offset, data })
    }

    /// The data that a file keeps with its inode, without the hole at its end.
    pub fn small_data(&self, path: &str) -> String {
        let data = read::inline_data(&*self.view(), self.id(path)).expect("reads");
        String::from_utf8(data.to_vec()).expect("a test's data")
    }

    pub fn dir(&mut self, path: &str) -> InodeId {
        self.make(path, NewNode::Directory, Exists::Refuse).expect("makes a directory");
        self.id(path)
    }

    pub fn volume(&mut self, path: &str) -> Result<VolumeId, Error> {
        let (dir, name) = self.split(path);
        let attributes = NewAttributes { mode: 0o755, uid: 0, gid: 0, accessed: None, modified: None };
        match self.apply(Command::MakeVolume(NewVolume { dir, name, attributes, stripe: None }))? {
            Reply::Created { inode, existed: false, .. } => Ok(inode.id.volume()),
            reply => panic!("{reply:?}"),
        }
    }

    pub fn limit(&mut self, volume: VolumeId, subject: Subject, limits: Limits) -> Outcome {
        self.apply(Command::SetLimits { volume, subject, limits })
    }

    pub fn name_of(&self, dir: InodeId, inode: InodeId) -> String {
        let name = read::name_of(&*self.view(), dir, inode).expect("reads").expect("is there");
        String::from_utf8(name).expect("a test's name")
    }

    /// Bytes and inodes.
    pub fn usage(&self, volume: VolumeId, subject: Subject) -> (u128, u64) {
        let usage = read::usage(&*self.view(), volume, subject).expect("reads").expect("is a volume");
        (usage.bytes, usage.inodes)
    }

    pub fn remove_volume(&mut self, path: &str, force: bool) -> Outcome {
        let (dir, name) = self.split(path);
        self.apply(Command::RemoveVolume { dir, name, force })
    }

    pub fn link(&mut self, path: &str, new: &str) -> Outcome {
        let (dir, name) = self.split(new);
        self.apply(Command::Link { inode: self.id(path), dir, name })
    }

    pub fn remove(&mut self, path: &str) -> Outcome {
        self.remove_as(path, Expect::Anything)
    }

    pub fn remove_as(&mut self, path: &str, expect: Expect) -> Outcome {
        let (dir, name) = self.split(path);
        self.apply(Command::Remove { dir, name, expect })
    }

    pub fn rename(&mut self, from: &str, to: &str) -> Outcome {
        let ((from_dir, from), (to_dir, to)) = (self.split(from), self.split(to));
        self.apply(Command::Rename { from_dir, from, to_dir, to })
    }

    pub fn set(&mut self, path: &str, set: SetAttributes) -> Outcome {
        self.apply(Command::SetAttributes { inode: self.id(path), set })
    }

    pub fn set_xattr(&mut self, path: &str, name: &str, value: &[u8], exists: XattrExists) -> Outcome {
        let (inode, name, value) = (self.id(path), name.as_bytes().to_vec(), value.to_vec());
        self.apply(Command::SetXattr { inode, name, value, exists })
    }

    pub fn remove_xattr(&mut self, path: &str, name: &str) -> Outcome {
        self.apply(Command::RemoveXattr { inode: self.id(path), name: name.as_bytes().to_vec() })
    }

    pub fn wrote(&mut self, path: &str, end: u64) -> Outcome {
        let Inode { id: inode, epoch, .. } = self.stat(path);
        self.apply(Command::Wrote { inode, end, bytes: 1 << 40, epoch })
    }

    pub fn split(&self, path: &str) -> (InodeId, Vec<u8>) {
        let (dir, name) = path.rsplit_once('/').expect("paths start with /");
        (self.id(dir), name.as_bytes().to_vec())
    }

    /// What is to be done with objects.
    pub fn deferred(&self) -> Vec<(InodeId, DeferredKind)> {
        self.deferred_ops().into_iter().map(|deferred| (deferred.inode, deferred.kind)).collect()
    }

    pub fn deferred_ops(&self) -> Vec<DeferredOp> {
        read::deferred_ops(&*self.view(), usize::MAX).expect("reads")
    }

    // Clients.

    pub fn exchange(&mut self, owner: &str, verifier: u8, principal: &Principal, update: bool) -> Outcome {
        self.exchange_from(HOME, owner, verifier, principal, update)
    }

    pub fn exchange_from(
        &mut self,
        address: [u8; 4],
        owner: &str,
        verifier: u8,
        principal: &Principal,
        update: bool,
    ) -> Outcome {
        self.apply(Command::ExchangeId {
            owner: owner.as_bytes().to_vec(),
            verifier: [verifier; 8],
            principal: principal.clone(),
            update,
            address: address.into(),
        })
    }

    /// The first EXCHANGE_ID of an owner, without a look at the whole store: for floods.
    pub fn exchange_unchecked(&mut self, address: [u8; 4], owner: &str) -> Outcome {
        let (owner, verifier, principal) = (owner.as_bytes().to_vec(), [1; 8], root());
        let address = address.into();
        let command = Command::ExchangeId { owner, verifier, principal, update: false, address };
        let proposal = Proposal::new(Stamp::default(), None, command);
        let mut reply = Err(Error::Delay);
        self.store
            .batch(Durability::Deferred, &mut |edit| {
                reply = Ok(apply(edit, &proposal)?);
                Ok::<(), StoreError>(())
            })
            .expect("applies");
        reply
    }

    pub fn create_session(&mut self, client: ClientId, sequence: u32) -> Result<SessionId, Error> {
        self.create_session_as(client, sequence, &root())
    }

    pub fn create_session_as(
        &mut self,
        client: ClientId,
        sequence: u32,
        principal: &Principal,
    ) -> Result<SessionId, Error> {
        self.create_session_from(HOME, client, sequence, principal)
    }

    pub fn create_session_from(
        &mut self,
        address: [u8; 4],
        client: ClientId,
        sequence: u32,
        principal: &Principal,
    ) -> Result<SessionId, Error> {
        let (principal, address) = (principal.clone(), address.into());
        let create = Command::CreateSession { client, sequence, principal, channels: CHANNELS, address };
        match self.apply(create)? {
            Reply::Session { id, client: of, .. } if of == client => Ok(id),
            reply => panic!("{reply:?}"),
        }
    }

    /// A confirmed client with a session.
    pub fn client(&mut self, owner: &str) -> ClientId {
        let (client, sequence, _) = client_of(self.exchange(owner, 1, &root(), false));
        self.create_session(client, sequence).expect("creates a session");
        client
    }

    /// Its lease runs out, and nobody is kind.
    pub fn expire(&mut self, client: ClientId) -> Outcome {
        self.lapse(client)?;
        if read::client(&*self.view(), client).expect("reads").is_none() {
            return Ok(Reply::Done);
        }
        self.apply(Command::ExpireClient { client })
    }

    pub fn lapse(&mut self, client: ClientId) -> Outcome {
        self.apply(Command::LapseLease { client, sequence: None })
    }

    // Opens.

    pub fn open(&mut self, client: ClientId, path: &str, access: Share) -> Result<Stateid, Error> {
        self.open_as(client, "owner", path, access, NONE)
    }

    pub fn open_as(
        &mut self,
        client: ClientId,
        owner: &str,
        path: &str,
        access: Share,
        deny: Share,
    ) -> Result<Stateid, Error> {
        let (dir, name) = self.split(path);
        self.open_target(client, owner, OpenTarget::Name { dir, name }, access, deny).map(opened)
    }

    pub fn open_target(
        &mut self,
        client: ClientId,
        owner: &str,
        target: OpenTarget,
        access: Share,
        deny: Share,
    ) -> Outcome {
        let owner = owner.as_bytes().to_vec();
        self.apply(Command::Open(Open {
            client,
            owner,
            target,
            access,
            deny,
            delegate: false,
            export: InodeId::ROOT,
        }))
    }

    /// OPEN with creation, with access to both.
    pub fn open_create(&mut self, client: ClientId, path: &str, exists: Exists, truncate: bool) -> Outcome {
        let (dir, name) = self.split(path);
        let create = create(dir, &name, NewNode::File(LAYOUT), exists);
        self.open_target(client, "owner", OpenTarget::Create { create, truncate }, BOTH, NONE)
    }

    /// OPEN for reading by a client that wants a delegation: the open, and what came with it.
    pub fn open_delegated(
        &mut self,
        client: ClientId,
        path: &str,
    ) -> Result<(Stateid, Option<Stateid>), Error> {
        let (dir, name) = self.split(path);
        let target = OpenTarget::Name { dir, name };
        let owner = b"owner".to_vec();
        let open =
            Open { client, owner, target, access: READ, deny: NONE, delegate: true, export: InodeId::ROOT };
        match self.apply(Command::Open(open))? {
            Reply::Opened { stateid, delegation, .. } => Ok((stateid, delegation)),
            reply => panic!("{reply:?}"),
        }
    }

    pub fn return_delegation(&mut self, client: ClientId, stateid: Stateid) -> Outcome {
        self.apply(Command::DelegationReturn { client, stateid })
    }

    pub fn close(&mut self, client: ClientId, stateid: Stateid) -> Outcome {
        self.apply(Command::Close { client, stateid })
    }

    // Locks.

    pub fn lock_new(
        &mut self,
        client: ClientId,
        open: Stateid,
        owner: &str,
        kind: LockKind,
        range: std::ops::Range<u64>,
    ) -> Outcome {
        let owner = LockOwner::New { open, owner: owner.as_bytes().to_vec() };
        self.lock(client, self.file_of(open), owner, kind, range)
    }

    pub fn lock_more(
        &mut self,
        client: ClientId,
        lock: Stateid,
        kind: LockKind,
        range: std::ops::Range<u64>,
    ) -> Outcome {
        self.lock(client, self.file_of(lock), LockOwner::Known { lock }, kind, range)
    }

    pub fn lock(
        &mut self,
        client: ClientId,
        inode: InodeId,
        owner: LockOwner,
        kind: LockKind,
        range: std::ops::Range<u64>,
    ) -> Outcome {
        let range = ByteRange { start: range.start, end: range.end };
        self.apply(Command::Lock { client, inode, owner, kind, range })
    }

    pub fn unlock(&mut self, client: ClientId, stateid: Stateid, range: std::ops::Range<u64>) -> Outcome {
        self.apply(Command::Unlock {
            client,
            stateid,
            range: ByteRange { start: range.start, end: range.end },
        })
    }

    fn file_of(&self, stateid: Stateid) -> InodeId {
        self.state(stateid).expect("the state is there").inode()
    }

    pub fn state(&self, stateid: Stateid) -> Option<State> {
        read::state(&*self.view(), stateid.id).expect("reads")
    }

    /// Locked ranges of a file, drawn: `r 0..10`, `w 10..20`.
    pub fn held(&self, path: &str) -> Vec<String> {
        let held = read::locks(&*self.view(), self.id(path)).expect("reads");
        held.iter()
            .map(|held| {
                let kind = if held.kind == LockKind::Read { "r" } else { "w" };
                match held.range.end {
                    u64::MAX => format!("{kind} {}..", held.range.start),
                    end => format!("{kind} {}..{end}", held.range.start),
                }
            })
            .collect()
    }

    // Layouts.

    pub fn layout(
        &mut self,
        client: ClientId,
        path: &str,
        stateid: Stateid,
        mode: IoMode,
    ) -> Result<Stateid, Error> {
        let (inode, made) = (self.id(path), self.stat(path).placed());
        match self.apply(Command::LayoutGet {
            client,
            inode,
            stateid,
            mode,
            made,
            version: 0,
            export: InodeId::ROOT,
        })? {
            Reply::Layout { stateid, inode, layout, generation, .. } => {
                let file = self.stat(path);
                assert_eq!((inode, layout, generation), (file.id, LAYOUT, file.generation));
                Ok(stateid)
            }
            reply => panic!("{reply:?}"),
        }
    }
}

pub fn at(seconds: i64) -> Time {
    Time { seconds, nanoseconds: 7 }
}

pub fn root() -> Principal {
    Principal::Sys { uid: 0, machine: b"heorot".to_vec() }
}

pub fn create(dir: InodeId, name: &[u8], node: NewNode, exists: Exists) -> Create {
    let attributes = NewAttributes { mode: 0o644, uid: 10, gid: 20, accessed: None, modified: None };
    Create { dir, name: name.to_vec(), node, attributes, exists }
}

/// The id, the sequence and whether it is confirmed, of an ExchangeId.
pub fn client_of(outcome: Outcome) -> (ClientId, u32, bool) {
    match outcome {
        Ok(Reply::Client { id, sequence, confirmed }) => (id, sequence, confirmed),
        outcome => panic!("{outcome:?}"),
    }
}

pub fn opened(reply: Reply) -> Stateid {
    match reply {
        Reply::Opened { stateid, .. } => stateid,
        reply => panic!("{reply:?}"),
    }
}

/// The stateid of a Lock, Unlock or OpenDowngrade.
pub fn stateid(outcome: Outcome) -> Stateid {
    match outcome {
        Ok(Reply::State { stateid: Some(stateid) }) => stateid,
        outcome => panic!("{outcome:?}"),
    }
}

/// `sequence` of the same state.
pub fn with_sequence(stateid: Stateid, sequence: u32) -> Stateid {
    Stateid { sequence, ..stateid }
}
