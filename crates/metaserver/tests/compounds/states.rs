//! OPEN with every claim, stateids, share reservations, and the operations around them.

use wire::nfs4::compound::CompoundReply;
use wire::nfs4::open::{Claim, CreateHow, DelegationType, ExclusiveAttrs, OpenHow, RESULT_PRESERVE_UNLINKED};
use wire::nfs4::{ArgOp, Bitmap, Fattr, OP_ILLEGAL, OpNum, OwnerName, ResOp, Stateid, Status};
use wire::nfs4::{PROC_COMPOUND, PROGRAM, VERSION};
use wire::nfs4::{close, free_stateid, getattr, lock, locku, lookup, nverify, open_downgrade};
use wire::nfs4::{reclaim_complete, remove, secinfo, secinfo_no_name, setattr, test_stateid, verify, write};
use wire::xdr::{Decode, Encode, Encoder};

use crate::raw::{Client, Raw, null, putfh};
use crate::world::World;

const READ: u32 = 1;
const WRITE: u32 = 2;
const BOTH: u32 = 3;
const MODE: u32 = 33;
const SIZE: u32 = 4;

fn file_write(stateid: Stateid) -> ArgOp {
    let data = bytes::Bytes::new().into();
    ArgOp::Write(write::Args { stateid, offset: 0, stable: wire::nfs4::StableHow::FileSync, data })
}

fn closing(open_stateid: Stateid) -> ArgOp {
    ArgOp::Close(close::Args { seqid: 0, open_stateid })
}

/// RFC 8881, sections 8.4.2 and 18.51: no state is ever lost, so there is nothing to reclaim, and nothing new
/// before the client has said so.
#[tokio::test]
async fn nothing_new_before_reclaim_complete_and_nothing_old_ever() {
    let world = World::start().await;
    let mut raw = Raw::connect(&world).await;
    let known = raw.exchange_id("ash", 1, 0).await.expect("exchanges ids");
    let made = raw.create_session(known.clientid, 1).await.expect("makes a session");
    let mut ash = Client { raw, id: known.clientid, session: made.sessionid, sequence: 0 };
    assert_eq!(ash.open("f", BOTH, 0).await, Err(Status::Grace));
    let complete = |one_fs| ArgOp::ReclaimComplete(reclaim_complete::Args { one_fs });
    assert_eq!(ash.status(vec![complete(true)]).await, Status::NoFileHandle);
    assert_eq!(ash.status(vec![ArgOp::PutRootFh, complete(true)]).await, Status::Ok);
    assert_eq!(ash.open("f", BOTH, 0).await, Err(Status::Grace), "that was one file system");
    assert_eq!(ash.status(vec![complete(false)]).await, Status::Ok);
    assert_eq!(ash.status(vec![complete(false)]).await, Status::CompleteAlready);
    let (file, open) = ash.open("f", BOTH, 0).await.expect("opens");
    let reclaim = ash.open_how("o", BOTH, 0, OpenHow::NoCreate, Claim::Previous(DelegationType::None));
    assert_eq!(ash.status(vec![putfh(&file), reclaim]).await, Status::NoGrace);
    let ArgOp::Lock(args) = ash.lock_op("l", open, 0, 1) else { unreachable!() };
    let reclaim = ArgOp::Lock(lock::Args { reclaim: true, ..args });
    assert_eq!(ash.status(vec![putfh(&file), reclaim]).await, Status::NoGrace);
    let previous = ash.open_how("o", BOTH, 0, OpenHow::NoCreate, Claim::DelegPrevFh);
    assert_eq!(ash.status(vec![putfh(&file), previous]).await, Status::NotSupp);
}

#[tokio::test]
async fn an_open_by_handle_opens_and_never_makes() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let (file, first) = ash.open("f", READ, 0).await.expect("opens");
    let open = ash.open_how("owner", WRITE, 0, OpenHow::NoCreate, Claim::Fh);
    let results = ash.ok(vec![putfh(&file), open]).await;
    let ResOp::Open(Ok(opened)) = &results[1] else { panic!("{results:?}") };
    assert_eq!(opened.stateid, Stateid { seqid: 2, ..first }, "the same owner, one state");
    assert_eq!(opened.rflags & RESULT_PRESERVE_UNLINKED, RESULT_PRESERVE_UNLINKED);
    let make = OpenHow::Create(CreateHow::Unchecked(Box::default()));
    let create = ash.open_how("owner", WRITE, 0, make, Claim::Fh);
    assert_eq!(ash.status(vec![putfh(&file), create]).await, Status::Inval);
    let root = ash.open_how("owner", READ, 0, OpenHow::NoCreate, Claim::Fh);
    assert_eq!(ash.status(vec![ArgOp::PutRootFh, root]).await, Status::IsDir);
    for (access, deny) in [(0, 0), (4, 0), (BOTH, 4)] {
        let odd = ash.open_how("owner", access, deny, OpenHow::NoCreate, Claim::Fh);
        assert_eq!(ash.status(vec![putfh(&file), odd]).await, Status::Inval, "{access} {deny}");
    }
}

/// What RESULT_PRESERVE_UNLINKED promises.
#[tokio::test]
async fn a_removed_file_is_there_until_its_last_close() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let (file, open) = ash.open("f", BOTH, 0).await.expect("opens");
    let remove = ArgOp::Remove(remove::Args { target: bytes::Bytes::from_static(b"f") });
    ash.ok(vec![ArgOp::PutRootFh, remove]).await;
    ash.ok(vec![putfh(&file), file_write(open)]).await;
    ash.ok(vec![putfh(&file), closing(open)]).await;
    assert_eq!(ash.status(vec![putfh(&file)]).await, Status::Stale);
}

#[tokio::test]
async fn an_exclusive_create_sets_attributes_and_says_which() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let how = |verifier: u8, mode| {
        let attrs = Box::new(Fattr { mode: Some(mode), ..Fattr::default() });
        OpenHow::Create(CreateHow::Exclusive41(ExclusiveAttrs { verifier: [verifier; 8], attrs }))
    };
    let get = ArgOp::GetAttr(getattr::Args { attr_request: Bitmap::from_iter([MODE]) });
    let open = ash.open_how("o", BOTH, 0, how(1, 0o640), null("f"));
    let results = ash.ok(vec![ArgOp::PutRootFh, open.clone(), get]).await;
    let (ResOp::Open(Ok(opened)), ResOp::GetAttr(Ok(got))) = (&results[1], &results[2]) else {
        panic!("{results:?}")
    };
    assert!(opened.attrset.contains(MODE), "{:?}", opened.attrset);
    assert_eq!(got.attrs.mode, Some(0o640));
    assert_eq!(ash.status(vec![ArgOp::PutRootFh, open]).await, Status::Ok, "the same verifier: a retry");
    let other = ash.open_how("o", BOTH, 0, how(2, 0o600), null("f"));
    assert_eq!(ash.status(vec![ArgOp::PutRootFh, other]).await, Status::Exist);
}

/// ```text
/// ash open read+write · open read deny write     elm open write -> denied
/// ash downgrade to read, deny write              -> ok
/// ash downgrade to write                         -> inval: it was never opened so
/// ```
#[tokio::test]
async fn a_downgrade_goes_to_what_was_opened_before() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let mut elm = Client::mount(&world, "elm").await;
    ash.open("f", BOTH, 0).await.expect("opens");
    let (file, open) = ash.open("f", READ, WRITE).await.expect("opens once more");
    assert_eq!(elm.open("f", WRITE, 0).await, Err(Status::ShareDenied));
    assert_eq!(elm.open("f", READ, READ).await, Err(Status::ShareDenied));
    let to = |open_stateid, share_access, share_deny| {
        ArgOp::OpenDowngrade(open_downgrade::Args { open_stateid, seqid: 0, share_access, share_deny })
    };
    assert_eq!(ash.status(vec![putfh(&file), to(open, WRITE, 0)]).await, Status::Inval);
    let results = ash.ok(vec![putfh(&file), to(open, READ, WRITE)]).await;
    let ResOp::OpenDowngrade(Ok(lower)) = &results[1] else { panic!("{results:?}") };
    assert_eq!(ash.status(vec![putfh(&file), file_write(lower.open_stateid)]).await, Status::OpenMode);
    assert_eq!(ash.status(vec![putfh(&file), file_write(open)]).await, Status::OldStateid);
    assert_eq!(elm.open("f", WRITE, 0).await, Err(Status::ShareDenied), "denied yet");
    elm.open("f", READ, 0).await.expect("ash reads only");
}

/// RFC 8881, section 16.2.3.1.2.
#[tokio::test]
async fn the_current_stateid_goes_with_the_current_filehandle() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let open = ash.open_op("owner", "f", BOTH, 0);
    let current = Stateid::CURRENT;
    let ops = vec![ArgOp::PutRootFh, open.clone(), file_write(current), closing(current)];
    ash.ok(ops).await;
    let (file, _) = ash.open("f", BOTH, 0).await.expect("opens");
    assert_eq!(
        ash.status(vec![putfh(&file), file_write(current)]).await,
        Status::BadStateid,
        "PUTFH has none"
    );
    // SAVEFH and RESTOREFH take it along.
    let saved = vec![
        ArgOp::PutRootFh,
        open.clone(),
        ArgOp::SaveFh,
        ArgOp::PutRootFh,
        ArgOp::RestoreFh,
        file_write(current),
    ];
    ash.ok(saved).await;
    let lost = vec![ArgOp::PutRootFh, open.clone(), putfh(&file), file_write(current)];
    assert_eq!(ash.status(lost).await, Status::BadStateid);
    // LOCK, LOCKU, FREE_STATEID in one go.
    let lock = ash.lock_op("l", current, 0, 10);
    let unlock = ArgOp::LockU(locku::Args {
        locktype: wire::nfs4::LockType::Write,
        seqid: 0,
        lock_stateid: current,
        offset: 0,
        length: 10,
    });
    let free = ArgOp::FreeStateid(free_stateid::Args { stateid: current });
    ash.ok(vec![ArgOp::PutRootFh, open, lock, unlock, free]).await;
}

#[tokio::test]
async fn stateids_are_tested_and_freed() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let mut elm = Client::mount(&world, "elm").await;
    let (file, open) = ash.open("f", BOTH, 0).await.expect("opens");
    let locked = ash.ok(vec![putfh(&file), ash.lock_op("l", open, 0, 10)]).await;
    let ResOp::Lock(Ok(lock::ResOk { lock_stateid })) = locked[1] else { panic!("{locked:?}") };
    let older = Stateid { seqid: 7, ..open };
    let asked = vec![
        open,
        Stateid { seqid: 0, ..open },
        older,
        lock_stateid,
        Stateid::ANONYMOUS,
        Stateid::BYPASS,
        Stateid::CURRENT,
        Stateid::INVALID,
        Stateid { seqid: 1, other: [9; 12] },
    ];
    let test = ArgOp::TestStateid(test_stateid::Args { stateids: asked });
    let tested = |results: Vec<ResOp>| match &results[0] {
        ResOp::TestStateid(Ok(res)) => res.status_codes.clone(),
        other => panic!("{other:?}"),
    };
    let bad = Status::BadStateid;
    let right = [Status::Ok, Status::Ok, bad, Status::Ok, bad, bad, bad, bad, bad];
    assert_eq!(tested(ash.ok(vec![test.clone()]).await), right);
    assert_eq!(tested(elm.ok(vec![test]).await), [bad; 9], "somebody else's");

    let free = |stateid| ArgOp::FreeStateid(free_stateid::Args { stateid });
    assert_eq!(ash.status(vec![free(open)]).await, Status::LocksHeld);
    assert_eq!(ash.status(vec![free(lock_stateid)]).await, Status::LocksHeld);
    assert_eq!(elm.status(vec![free(lock_stateid)]).await, Status::BadStateid);
    assert_eq!(ash.status(vec![free(Stateid::ANONYMOUS)]).await, Status::BadStateid);
    assert_eq!(ash.status(vec![putfh(&file), closing(lock_stateid)]).await, Status::BadStateid);
    let results = ash.ok(vec![putfh(&file), closing(open)]).await;
    let ResOp::Close(Ok(closed)) = &results[1] else { panic!("{results:?}") };
    assert_eq!(closed.open_stateid, Stateid::INVALID);
    assert_eq!(ash.status(vec![free(lock_stateid)]).await, Status::BadStateid, "it went with the open");
}

/// RFC 8881, section 8.2.3.
#[tokio::test]
async fn special_stateids_read_and_write_where_no_open_denies_it() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let mut elm = Client::mount(&world, "elm").await;
    let (file, open) = ash.open("f", BOTH, 0).await.expect("opens");
    elm.ok(vec![putfh(&file), file_write(Stateid::ANONYMOUS)]).await;
    ash.open("f", READ, WRITE).await.expect("opens");
    assert_eq!(elm.status(vec![putfh(&file), file_write(Stateid::ANONYMOUS)]).await, Status::Locked);
    assert_eq!(elm.status(vec![putfh(&file), file_write(Stateid::BYPASS)]).await, Status::Locked);
    let truncation = |stateid| {
        let obj_attributes = Box::new(Fattr { size: Some(0), ..Fattr::default() });
        ArgOp::SetAttr(setattr::Args { stateid, obj_attributes })
    };
    assert_eq!(elm.status(vec![putfh(&file), truncation(Stateid::ANONYMOUS)]).await, Status::Locked);
    assert_eq!(elm.status(vec![putfh(&file), file_write(open)]).await, Status::BadStateid, "ash's");
    assert_eq!(elm.status(vec![ArgOp::PutRootFh, file_write(Stateid::ANONYMOUS)]).await, Status::IsDir);
}

#[tokio::test]
async fn verify_and_nverify_end_a_compound_or_let_it_go_on() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let (file, _) = ash.open("f", BOTH, 0).await.expect("opens");
    let is = |size| Box::new(Fattr { size: Some(size), ..Fattr::default() });
    let verify = |size| ArgOp::Verify(verify::Args { obj_attributes: is(size) });
    let nverify = |size| ArgOp::NVerify(nverify::Args { obj_attributes: is(size) });
    assert_eq!(ash.status(vec![putfh(&file), verify(0), nverify(1)]).await, Status::Ok);
    assert_eq!(ash.status(vec![putfh(&file), verify(1)]).await, Status::NotSame);
    assert_eq!(ash.status(vec![putfh(&file), nverify(0)]).await, Status::Same);
    assert_eq!(ash.status(vec![verify(0)]).await, Status::NoFileHandle);
    let supported = ArgOp::GetAttr(getattr::Args { attr_request: Bitmap::from_iter([SIZE]) });
    ash.ok(vec![putfh(&file), supported]).await;
}

/// RFC 8881, sections 2.6.3.1.1.8 and 18.45.
#[tokio::test]
async fn secinfo_uses_the_filehandle_up() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    ash.open("f", BOTH, 0).await.expect("opens");
    let name = |name: &'static str| bytes::Bytes::from_static(name.as_bytes());
    let secinfo = |of| ArgOp::SecInfo(secinfo::Args { name: name(of) });
    let no_name = |style| ArgOp::SecInfoNoName(secinfo_no_name::Args { style });
    assert_eq!(ash.status(vec![ArgOp::PutRootFh, secinfo("f")]).await, Status::Ok);
    assert_eq!(ash.status(vec![ArgOp::PutRootFh, secinfo("f"), ArgOp::GetFh]).await, Status::NoFileHandle);
    assert_eq!(ash.status(vec![ArgOp::PutRootFh, secinfo("none")]).await, Status::NoEnt);
    let here = no_name(secinfo_no_name::Style::CurrentFh);
    assert_eq!(ash.status(vec![ArgOp::PutRootFh, here.clone()]).await, Status::Ok);
    assert_eq!(ash.status(vec![ArgOp::PutRootFh, here, ArgOp::GetFh]).await, Status::NoFileHandle);
    let parent = no_name(secinfo_no_name::Style::Parent);
    assert_eq!(ash.status(vec![ArgOp::PutRootFh, parent.clone()]).await, Status::NoEnt, "the root has none");
    let lookup = ArgOp::Lookup(lookup::Args { objname: name("f") });
    assert_eq!(ash.status(vec![ArgOp::PutRootFh, lookup, parent]).await, Status::NotDir);
}

/// RFC 8881, section 8.2.4: a stateid that does not go with the current filehandle.
#[tokio::test]
async fn a_stateid_is_good_for_its_own_file_only() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let (file, open) = ash.open("f", BOTH, 0).await.expect("opens");
    let (other, _) = ash.open("g", BOTH, 0).await.expect("opens");
    let locked = ash.ok(vec![putfh(&file), ash.lock_op("l", open, 0, 10)]).await;
    let ResOp::Lock(Ok(lock::ResOk { lock_stateid })) = locked[1] else { panic!("{locked:?}") };
    let unlock = ArgOp::LockU(locku::Args {
        locktype: wire::nfs4::LockType::Write,
        seqid: 0,
        lock_stateid,
        offset: 0,
        length: 10,
    });
    let lower = ArgOp::OpenDowngrade(open_downgrade::Args {
        open_stateid: open,
        seqid: 0,
        share_access: BOTH,
        share_deny: 0,
    });
    for op in [unlock, lower, closing(open), file_write(open), ash.lock_op("m", open, 20, 1)] {
        assert_eq!(ash.status(vec![putfh(&other), op.clone()]).await, Status::BadStateid, "{op:?}");
    }
    ash.ok(vec![putfh(&file), closing(open)]).await;
}

/// What RFC 8881, section 16.2.3, has for operations that are another version's, and for those that are
/// nobody's.
#[tokio::test]
async fn operations_that_there_are_not_are_told_from_those_that_we_have_not() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let not_served = [
        OpNum::DelegPurge,
        OpNum::OpenAttr,
        OpNum::OpenConfirm,
        OpNum::Renew,
        OpNum::SetClientid,
        OpNum::SetClientidConfirm,
        OpNum::ReleaseLockOwner,
        OpNum::GetDirDelegation,
        OpNum::GetDeviceList,
        OpNum::SetSsv,
        OpNum::WantDelegation,
    ];
    for op in not_served.map(|number| ArgOp::Unsupported(number as u32)) {
        assert_eq!(ash.status(vec![op.clone()]).await, Status::NotSupp, "{}", op.name());
        assert_eq!(ash.status(vec![ArgOp::PutRootFh, op.clone()]).await, Status::NotSupp, "{}", op.name());
    }
    const SEEK: u32 = 69; // of 4.2, and this is 4.1
    for number in [0, 1, 2, SEEK, 76, 10_043, 10_044] {
        assert_eq!(ash.status(vec![ArgOp::Illegal(number)]).await, Status::OpIllegal, "{number}");
    }
}

/// A compound of raw operations.
struct Operations<'a> {
    count: u32,
    decodable: &'a [ArgOp],
    /// What follows them.
    words: &'a [u32],
}

impl Encode for Operations<'_> {
    fn encode(&self, e: &mut Encoder) {
        OwnerName::default().encode(e);
        e.u32(1);
        e.u32(self.count);
        self.decodable.iter().for_each(|op| op.encode(e));
        self.words.iter().for_each(|word| e.u32(*word));
    }
}

/// A compound ends at the first operation that fails (RFC 8881, section 15.1): the arguments of one that is
/// not served, and all behind them, are not looked at.
#[tokio::test]
async fn operations_before_one_that_we_have_not_are_carried_out_whatever_follows_it() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let tails: [&[u32]; 3] = [&[], &[u32::MAX; 7], &[9, OpNum::Sequence as u32, OP_ILLEGAL]];
    for (number, tail) in [OpNum::WantDelegation, OpNum::SetSsv, OpNum::Renew].into_iter().zip(tails) {
        ash.sequence += 1;
        let sequence = ash.sequence_op(0, ash.sequence, true);
        let words = [&[number as u32], tail].concat();
        let call = Operations { count: 5, decodable: &[sequence, ArgOp::PutRootFh], words: &words };
        let mut replies = vec![];
        for _ in ["carried out", "from the reply cache"] {
            let mut d = ash.raw.exchange((PROGRAM, VERSION), PROC_COMPOUND, &call).await.expect("accepted");
            replies.push(CompoundReply::decode(&mut d).expect("a compound's reply"));
        }
        assert_eq!(replies[0], replies[1]);
        assert_eq!(replies[0].status, Status::NotSupp);
        let [ResOp::Sequence(Ok(_)), ResOp::PutRootFh(Ok(())), last] = &replies[0].ops[..] else {
            panic!("{replies:?}");
        };
        assert_eq!(*last, ResOp::Unsupported(number as u32, Status::NotSupp));
    }
    assert_eq!(ash.status(vec![ArgOp::PutRootFh]).await, Status::Ok, "the session goes on");
}
