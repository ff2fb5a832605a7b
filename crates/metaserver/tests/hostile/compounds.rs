//! Random compounds: valid encodings of every operation, with arguments that are partly what earlier replies
//! gave and partly nonsense. Every reply can be read, every status is one that the protocol allows there, and
//! the store is sound.

use std::collections::BTreeMap;

use bytes::Bytes;
use wire::nfs4::fattr::{ModeUmask, SetTime};
use wire::nfs4::*;

use crate::Scene;
use crate::client::Client;
use crate::table;

/// How many compounds; a seed that fails is in the message.
const COMPOUNDS: usize = 1500;
const SEEDS: [u64; 2] = [1, 2];

/// SplitMix64: the same numbers for a seed, for ever.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }
}

/// What replies gave, to be used again.
#[derive(Default)]
struct Seen {
    handles: Vec<Bytes>,
    stateids: Vec<Stateid>,
    devices: Vec<DeviceId>,
}

impl Seen {
    fn note(&mut self, result: &ResOp) {
        let stateid = match result {
            ResOp::GetFh(Ok(found)) => {
                if !self.handles.contains(&found.object.0) {
                    self.handles.push(found.object.0.clone());
                }
                return;
            }
            ResOp::Open(Ok(found)) => found.stateid,
            ResOp::OpenDowngrade(Ok(found)) => found.open_stateid,
            ResOp::Lock(Ok(found)) => found.lock_stateid,
            ResOp::LockU(Ok(found)) => found.lock_stateid,
            ResOp::LayoutGet(Ok(found)) => {
                for layout in &found.layouts {
                    if let Some(id) = layout.body.first_chunk() {
                        self.devices.push(DeviceId(*id));
                    }
                }
                found.stateid
            }
            _ => return,
        };
        self.stateids.push(stateid);
        // The old ones stay for a while: they are what a confused client sends.
        if self.stateids.len() > 40 {
            self.stateids.remove(0);
        }
    }
}

struct Chooser<'a> {
    dice: &'a mut Dice,
    seen: &'a Seen,
}

impl Chooser<'_> {
    fn name(&mut self) -> Bytes {
        let good: [&[u8]; 6] = [b"a", b"b", b"c", b"d", b"e", b"caf\xe9"];
        let bad: [&[u8]; 7] = [b"", b".", b"..", b"x/y", b"nul\0", &[b'n'; 256], &[b'n'; 5000]];
        let name: &[u8] = if self.dice.one_in(8) { self.dice.pick(&bad) } else { self.dice.pick(&good) };
        Bytes::copy_from_slice(name)
    }

    fn number(&mut self) -> u64 {
        let last = i64::MAX as u64;
        let table = [
            0,
            1,
            2,
            3,
            10,
            4095,
            4096,
            65_536,
            1 << 20,
            1 << 40,
            last - 1,
            last,
            last + 1,
            u64::MAX - 1,
            u64::MAX,
        ];
        if self.dice.one_in(10) { self.dice.next() } else { self.dice.pick(&table) }
    }

    fn count(&mut self) -> u32 {
        let table = [0, 1, 10, 100, 512, 4096, 65_536, 1 << 20, u32::MAX];
        self.dice.pick(&table)
    }

    fn handle(&mut self) -> Bytes {
        if self.seen.handles.is_empty() || self.dice.one_in(12) {
            let len = self.dice.below(129);
            return (0..len).map(|_| self.dice.next() as u8).collect::<Vec<_>>().into();
        }
        let mut handle = self.dice.pick(&self.seen.handles).to_vec();
        if self.dice.one_in(20) {
            let bit = self.dice.below(handle.len() * 8);
            handle[bit / 8] ^= 1 << (bit % 8);
        }
        handle.into()
    }

    fn stateid(&mut self) -> Stateid {
        let special = [Stateid::ANONYMOUS, Stateid::BYPASS, Stateid::CURRENT, Stateid::INVALID];
        if self.seen.stateids.is_empty() || self.dice.one_in(4) {
            return self.dice.pick(&special);
        }
        let mut stateid = self.dice.pick(&self.seen.stateids);
        match self.dice.below(8) {
            0 => stateid.seqid = 0,
            1 => stateid.seqid = stateid.seqid.wrapping_add(1),
            2 => stateid.seqid = self.dice.next() as u32,
            3 => stateid.other[self.dice.below(12)] ^= 1,
            _ => {}
        }
        stateid
    }

    fn owner(&mut self) -> StateOwner {
        let owner = Bytes::from_static(self.dice.pick(&[&b"o"[..], b"p", b""]));
        StateOwner { clientid: ClientId(self.dice.next()), owner: owner.into() }
    }

    fn bits(&mut self) -> Bitmap {
        match self.dice.below(4) {
            0 => Fattr::KNOWN,
            1 => Bitmap::EMPTY,
            2 => (0..self.dice.below(10)).map(|_| self.dice.below(256) as u32).collect(),
            _ => Bitmap::of(&[attr::TYPE, attr::CHANGE, attr::SIZE, attr::MODE]),
        }
    }

    fn time(&mut self) -> Time {
        let seconds = self.dice.pick(&[0, -1, 1_700_000_000, i64::MAX, i64::MIN]);
        Time { seconds, nanoseconds: self.dice.below(1_000_000_000) as u32 }
    }

    fn attributes(&mut self) -> Box<Fattr> {
        let mut attrs = Fattr::default();
        for _ in 0..self.dice.below(4) {
            match self.dice.below(9) {
                0 => attrs.mode = Some(self.dice.next() as u32 & 0o17777),
                1 => attrs.size = Some(self.number()),
                2 => {
                    attrs.owner =
                        Some(self.dice.pick(&["0".into(), "1000".into(), "x@y".into(), Bytes::new()]))
                }
                3 => attrs.owner_group = Some(self.dice.pick(&["0".into(), "99999999999".into()])),
                4 => attrs.time_modify_set = Some(SetTime::Client(self.time())),
                5 => attrs.time_access_set = Some(SetTime::Server),
                6 => attrs.fileid = Some(self.number()),
                7 => attrs.numlinks = Some(3),
                _ => attrs.mode_umask = Some(ModeUmask { mode: 0o666, umask: 0o22 }),
            }
        }
        Box::new(attrs)
    }

    fn lock_type(&mut self) -> LockType {
        self.dice.pick(&[LockType::Read, LockType::Write, LockType::ReadWait, LockType::WriteWait])
    }

    fn layout_type(&mut self) -> LayoutType {
        if self.dice.one_in(6) { LayoutType(self.dice.next() as u32) } else { LayoutType::FILES }
    }

    fn io_mode(&mut self) -> LayoutIoMode {
        self.dice.pick(&[LayoutIoMode::Read, LayoutIoMode::ReadWrite, LayoutIoMode::Any])
    }

    fn verifier(&mut self) -> Verifier {
        self.dice.next().to_be_bytes()
    }

    fn payload(&mut self) -> Bytes {
        vec![7; self.dice.pick(&[0usize, 1, 10, 5000])].into()
    }

    fn device(&mut self) -> DeviceId {
        if self.seen.devices.is_empty() || self.dice.one_in(5) {
            return DeviceId([self.dice.next() as u8; 16]);
        }
        self.dice.pick(&self.seen.devices)
    }

    fn open(&mut self) -> open::Args {
        let attrs = self.attributes();
        let openhow = match self.dice.below(6) {
            0 | 1 => open::OpenHow::NoCreate,
            2 => open::OpenHow::Create(open::CreateHow::Guarded(attrs)),
            3 => open::OpenHow::Create(open::CreateHow::Exclusive(self.verifier())),
            4 => {
                let verifier = self.verifier();
                let attrs = open::ExclusiveAttrs { verifier, attrs };
                open::OpenHow::Create(open::CreateHow::Exclusive41(attrs))
            }
            _ => open::OpenHow::Create(open::CreateHow::Unchecked(attrs)),
        };
        let claim = match self.dice.below(12) {
            0 => open::Claim::Previous(open::DelegationType::None),
            1 | 2 => open::Claim::Fh,
            3 => open::Claim::DelegPrevFh,
            4 => open::Claim::DelegatePrev(self.name()),
            5 => open::Claim::DelegCurFh(self.stateid()),
            _ => open::Claim::Null(self.name()),
        };
        open::Args {
            seqid: self.count(),
            share_access: self.dice.pick(&[1, 2, 3, 3, 3, 0, 4, 0x403, 0x303, 0xffff_ffff]),
            share_deny: self.dice.pick(&[0, 0, 0, 0, 0, 1, 2, 3, 4]),
            owner: self.owner(),
            openhow,
            claim,
        }
    }

    fn lock(&mut self) -> lock::Args {
        let locker = if self.dice.one_in(2) {
            lock::Locker::New(lock::OpenToLockOwner {
                open_seqid: 0,
                open_stateid: self.stateid(),
                lock_seqid: 0,
                lock_owner: self.owner(),
            })
        } else {
            lock::Locker::Existing(lock::ExistLockOwner { lock_stateid: self.stateid(), lock_seqid: 0 })
        };
        let (locktype, offset, length) = (self.lock_type(), self.number(), self.number());
        lock::Args { locktype, reclaim: self.dice.one_in(10), offset, length, locker }
    }

    fn create(&mut self) -> create::Args {
        let device = SpecData { major: self.count(), minor: self.count() };
        let objtype = match self.dice.below(9) {
            0 => create::CreateType::Symlink(self.name()),
            1 => create::CreateType::Block(device),
            2 => create::CreateType::Char(device),
            3 => create::CreateType::Socket,
            4 => create::CreateType::Fifo,
            5 => create::CreateType::Other(self.dice.below(12) as u32),
            _ => create::CreateType::Directory,
        };
        create::Args { objtype, objname: self.name(), createattrs: self.attributes() }
    }

    /// An operation that sets or uses the current filehandle to some purpose: else all compounds would end
    /// early.
    fn beginning(&mut self) -> ArgOp {
        match self.dice.below(4) {
            0 => ArgOp::PutRootFh,
            _ => ArgOp::PutFh(putfh::Args { object: self.handle().into() }),
        }
    }

    #[rustfmt::skip]
    fn op(&mut self) -> ArgOp {
        let (stateid, offset, length) = (self.stateid(), self.number(), self.number());
        match self.dice.below(72) {
            0 => ArgOp::Access(access::Args { access: self.count() }),
            1 => ArgOp::Close(close::Args { seqid: 0, open_stateid: stateid }),
            2 => ArgOp::Commit(commit::Args { offset, count: self.count() }),
            3..=6 => ArgOp::Create(self.create()),
            8 => ArgOp::DelegReturn(delegreturn::Args { stateid }),
            9 => ArgOp::GetAttr(getattr::Args { attr_request: self.bits() }),
            10..=13 => ArgOp::GetFh,
            14 | 15 => ArgOp::Link(link::Args { newname: self.name() }),
            16..=18 => ArgOp::Lock(self.lock()),
            19 => ArgOp::LockT(lockt::Args { locktype: self.lock_type(), offset, length, owner: self.owner() }),
            20 => ArgOp::LockU(locku::Args { locktype: self.lock_type(), seqid: 0, lock_stateid: stateid, offset, length }),
            21..=24 => ArgOp::Lookup(lookup::Args { objname: self.name() }),
            25 => ArgOp::LookupP,
            26 => ArgOp::NVerify(nverify::Args { obj_attributes: self.attributes() }),
            27..=32 => ArgOp::Open(self.open()),
            34 => ArgOp::OpenDowngrade(open_downgrade::Args { open_stateid: stateid, seqid: 0, share_access: self.dice.below(5) as u32, share_deny: self.dice.below(5) as u32 }),
            35 => ArgOp::PutPubFh,
            36 => ArgOp::Read(read::Args { stateid, offset, count: self.count() }),
            37 => {
                let cookie = self.dice.pick(&[0, 1, 2, 3, 4, u64::MAX]);
                ArgOp::ReadDir(readdir::Args { cookie, cookieverf: [0; 8], dircount: self.count(), maxcount: self.count(), attr_request: self.bits() })
            }
            38 => ArgOp::ReadLink,
            39 | 40 => ArgOp::Remove(remove::Args { target: self.name() }),
            41 | 42 => ArgOp::Rename(rename::Args { oldname: self.name(), newname: self.name() }),
            43 => ArgOp::RestoreFh,
            44 | 45 => ArgOp::SaveFh,
            46 => ArgOp::SecInfo(secinfo::Args { name: self.name() }),
            47 => ArgOp::SetAttr(setattr::Args { stateid, obj_attributes: self.attributes() }),
            48 => ArgOp::Verify(verify::Args { obj_attributes: self.attributes() }),
            49 | 50 => ArgOp::Write(write::Args { stateid, offset, stable: StableHow::Unstable, data: self.payload().into() }),
            51 => ArgOp::FreeStateid(free_stateid::Args { stateid }),
            52 => ArgOp::GetDeviceInfo(getdeviceinfo::Args { device_id: self.device(), layout_type: self.layout_type(), maxcount: self.count(), notify_types: self.bits() }),
            53 => ArgOp::LayoutCommit(layoutcommit::Args {
                offset, length, reclaim: self.dice.one_in(8), stateid,
                last_write_offset: self.dice.one_in(2).then_some(offset),
                time_modify: self.dice.one_in(2).then(|| self.time()),
                layout_type: self.layout_type(), body: Bytes::new(),
            }),
            54 | 55 => ArgOp::LayoutGet(layoutget::Args {
                signal_layout_avail: self.dice.one_in(2), layout_type: self.layout_type(), iomode: self.io_mode(),
                offset, length, minlength: self.number(), stateid, maxcount: self.count(),
            }),
            56 => {
                let file = layoutreturn::ReturnFile { offset, length, stateid, body: Bytes::new() };
                let what = self.dice.pick(&[layoutreturn::Return::File(file), layoutreturn::Return::FsId, layoutreturn::Return::All]);
                ArgOp::LayoutReturn(layoutreturn::Args { reclaim: self.dice.one_in(8), layout_type: self.layout_type(), iomode: self.io_mode(), what })
            }
            57 => ArgOp::SecInfoNoName(secinfo_no_name::Args { style: secinfo_no_name::Style::Parent }),
            58 => ArgOp::TestStateid(test_stateid::Args { stateids: vec![stateid; self.dice.below(5)] }),
            59 => ArgOp::ReclaimComplete(reclaim_complete::Args { one_fs: self.dice.one_in(2) }),
            60 => ArgOp::Allocate(allocate::Args { stateid, offset, length }),
            61 => ArgOp::Deallocate(deallocate::Args { stateid, offset, length }),
            62 => ArgOp::Copy(copy::Args { src_stateid: stateid, dst_stateid: self.stateid(), src_offset: offset, dst_offset: length, count: self.number(), consecutive: true, synchronous: self.dice.one_in(2), source_server: vec![] }),
            63 => ArgOp::Clone(clone::Args { src_stateid: stateid, dst_stateid: self.stateid(), src_offset: offset, dst_offset: length, count: self.number() }),
            64 => ArgOp::Seek(seek::Args { stateid, offset, what: self.dice.below(3) as u32 }),
            65 => ArgOp::ReadPlus(read_plus::Args { stateid, offset, count: self.count() }),
            66 => ArgOp::GetXattr(getxattr::Args { name: self.name() }),
            67 => ArgOp::SetXattr(setxattr::Args { option: setxattr::SetOption::Either, name: self.name(), value: self.payload() }),
            68 => ArgOp::ListXattrs(listxattrs::Args { cookie: offset, maxcount: self.count() }),
            69 => ArgOp::RemoveXattr(removexattr::Args { name: self.name() }),
            7 | 33 | 70 => self.rare(stateid, offset, length),
            _ => ArgOp::Illegal(self.dice.pick(&[0, 1, 2, 76, 77, 10_044, u32::MAX])),
        }
    }

    #[rustfmt::skip]
    fn rare(&mut self, stateid: Stateid, offset: u64, length: u64) -> ArgOp {
        match self.dice.below(11) {
            0 => ArgOp::IoAdvise(io_advise::Args { stateid, offset, count: length, hints: self.bits() }),
            1 => ArgOp::LayoutError(layouterror::Args { offset, length, stateid, errors: vec![layouterror::DeviceError { deviceid: self.device(), status: Status::Io, opnum: 38 }] }),
            2 => ArgOp::LayoutStats(layoutstats::Args { offset, length, stateid, read: IoInfo::default(), write: IoInfo::default(), deviceid: self.device(), layout_type: self.layout_type(), body: Bytes::new() }),
            3 => ArgOp::BackchannelCtl(backchannel_ctl::Args { cb_program: self.count(), sec_parms: vec![] }),
            _ => ArgOp::Unsupported(self.dice.pick(&[7, 19, 20, 30, 35, 36, 39, 46, 48, 54, 56, 61, 66, 67, 70])),
        }
    }
}

/// Statuses that the protocol does not allow where they came, with the first operation that got each.
type Wrong = BTreeMap<(&'static str, Status), String>;

/// What must hold of every reply to `sent`, which had SEQUENCE in front.
fn check(sent: &[ArgOp], reply: &compound::CompoundReply, context: &str, wrong: &mut Wrong) {
    let (last, before) = reply.ops.split_last().expect("a result for SEQUENCE");
    assert!(before.len() <= sent.len(), "{context}: more results than operations");
    assert!(before.iter().all(|result| result.status() == Status::Ok), "{context}: goes on after a failure");
    assert_eq!(last.status(), reply.status, "{context}");
    let whole = before.len() == sent.len();
    assert!(whole || reply.status != Status::Ok, "{context}: ends without a failure");
    for (op, result) in sent.iter().zip(&reply.ops[1..]) {
        let number = match op {
            ArgOp::Illegal(_) => OP_ILLEGAL,
            op => op.number(),
        };
        assert_eq!(result.number(), number, "{context}: {op:?} -> {result:?}");
        let number = OpNum::from_u32(number).expect("a number that the protocol has");
        if !table::allows(number, result.status()) {
            wrong.entry((number.name(), result.status())).or_insert_with(|| format!("{context}: {op:?}"));
        }
    }
}

async fn run(seed: u64) {
    let mut wrong = Wrong::new();
    let scene = Scene::start().await;
    let mut clients = [Client::mount(&scene, "one").await, Client::mount(&scene, "two").await];
    let (mut dice, mut seen) = (Dice(seed), Seen::default());
    let mut reached = BTreeMap::new();
    for n in 0..COMPOUNDS {
        // Layouts are the first client's alone: what is recalled of a client that does not listen takes
        // seconds.
        let who = usize::from(dice.one_in(6));
        let mut chooser = Chooser { dice: &mut dice, seen: &seen };
        let mut ops = vec![chooser.beginning()];
        for _ in 0..chooser.dice.below(7) {
            let op = if chooser.dice.one_in(5) { chooser.beginning() } else { chooser.op() };
            let op = if who == 1 && touches_layouts(&op) { ArgOp::GetFh } else { op };
            // The server decodes nothing after such an operation.
            let last = matches!(op, ArgOp::Unsupported(_) | ArgOp::Illegal(_));
            ops.push(op);
            if last {
                break;
            }
        }
        clients[who].raw.uid = if dice.one_in(10) { 1000 } else { 0 };
        let reply = clients[who].run(ops.clone()).await;
        check(&ops, &reply, &format!("seed {seed}, compound {n}"), &mut wrong);
        for result in &reply.ops {
            seen.note(result);
            *reached.entry((result.name(), format!("{:?}", result.status()))).or_insert(0usize) += 1;
        }
    }
    assert!(wrong.is_empty(), "not allowed there: {wrong:#?}");
    let fine = reached.keys().filter(|(_, status)| status == "Ok").count();
    assert!(fine >= 25, "most operations succeed now and then: {reached:?}");
    scene.stop();
}

/// Asks for a layout, or does what has those of others recalled.
fn touches_layouts(op: &ArgOp) -> bool {
    matches!(
        op,
        ArgOp::LayoutGet(_)
            | ArgOp::SetAttr(_)
            | ArgOp::Open(_)
            | ArgOp::Write(_)
            | ArgOp::Allocate(_)
            | ArgOp::Deallocate(_)
            | ArgOp::Copy(_)
            | ArgOp::Clone(_)
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn random_compounds_end_as_the_protocol_allows_and_leave_a_sound_store() {
    for seed in SEEDS {
        run(seed).await;
    }
}
