//! Round trips of every procedure, and hostile bytes.

use bytes::Bytes;
use proptest::prelude::*;

use super::{
    Call, ObjectEntry, ObjectName, Piece, Procedure, Reply, Run, Status, TargetCondition, TargetSpace,
};
use super::{Chain, Member, MemberState};
use super::{
    allocate, attach, block, chain, chain_records, commit, copy, dirty_regions, list, make, member, mend,
    punch, read, read_plus, remove, seek, status,
};
use super::{stat, truncate, usage, write};
use crate::nfs3::testing::{bytes_of, hostile, mutated, round_trip, seeds};
use crate::xdr::{Decoder, Payload};

fn handle() -> Bytes {
    Bytes::from_static(&[7; 45])
}

fn data() -> Payload {
    Bytes::from_static(b"hwaet!!").into()
}

fn chain_of_three() -> Chain {
    let member = |target, state| Member { target, address: Bytes::from_static(b"10.0.0.5:2050"), state };
    let members =
        vec![member(4, MemberState::Away), member(5, MemberState::In), member(6, MemberState::Refilling)];
    Chain { id: 1 << 60, version: 7, verifier: 8, members }
}

fn of_member(change: member::Change) -> Call {
    Call::Member(member::Args { handle: handle(), change })
}

fn calls() -> Vec<Call> {
    let after = Some(ObjectName { inode: 3, column: 1 });
    vec![
        Call::Read(read::Args { handle: handle(), offset: 1 << 40, count: 65536 }),
        Call::Write(write::Args {
            handle: handle(),
            offset: 9,
            stable: true,
            sums: vec![7, 8],
            data: data(),
        }),
        Call::Commit(commit::Args { handle: handle() }),
        Call::Truncate(truncate::Args { handle: handle(), len: 5 }),
        Call::Remove(remove::Args { handles: vec![handle(), Bytes::new()], only: remove::Only::LeftBehind }),
        Call::List(list::Args { target: 4, after, max: 100, chain: 0 }),
        Call::List(list::Args { target: 4, after: None, max: 100, chain: 9 }),
        Call::Status(status::Args {}),
        Call::Seek(seek::Args { handle: handle(), offset: 7, what: seek::What::Hole }),
        Call::Allocate(allocate::Args { handle: handle(), offset: 7, len: 8, ask: true }),
        Call::Punch(punch::Args { handle: handle(), offset: 7, len: 8 }),
        Call::Copy(copy::Args {
            source: handle(),
            address: Bytes::from_static(b"10.0.0.5:2050"),
            handle: handle(),
            pieces: vec![Piece { from: 1, to: 2, len: 3 }; 2],
            stable: true,
        }),
        Call::Attach(attach::Args {
            handle: handle(),
            base: ObjectEntry { volume: 1, inode: 2, generation: 3, column: 4 },
        }),
        Call::ReadPlus(read::Args { handle: handle(), offset: 1 << 40, count: 65536 }),
        Call::Make(make::Args { handles: vec![handle(), Bytes::new()] }),
        Call::Stat(stat::Args { handles: vec![handle(), Bytes::new()], sync: true }),
        Call::Chain(chain::Args {
            chains: vec![chain_of_three(); 2],
            stop: vec![chain::Stop { chain: 1, version: 2, target: 3 }],
        }),
        of_member(member::Change::Make(member::Epochs { epoch: 3, layout_epoch: 2, truncated: 1 })),
        of_member(member::Change::Fill(member::Fill { offset: 7, sums: vec![9], data: data() })),
        of_member(member::Change::Clear(member::Clear { offset: 7, len: 8 })),
        of_member(member::Change::Length(9)),
        of_member(member::Change::Sync),
        of_member(member::Change::Remove),
        of_member(member::Change::Modified(1 << 60)),
        of_member(member::Change::Mend(member::Fill { offset: 1 << 16, sums: vec![9], data: data() })),
        of_member(member::Change::Damaged(member::Fill { offset: 1 << 16, sums: vec![9], data: data() })),
        Call::Mend(mend::Args {
            handle: handle(),
            member: 4,
            block: 5,
            except: vec![mend::Extent { offset: 7, len: 8 }; 2],
        }),
        Call::Block(block::Args { handle: handle(), block: 5 }),
        Call::Usage(usage::Args { target: 4, after }),
        Call::ChainRecords(chain_records::Args { target: 4, after: Some(5) }),
        Call::DirtyRegions(dirty_regions::Args { target: 4, chain: 5, version: 6, since: 3, after: None }),
        Call::DirtyRegions(dirty_regions::Args {
            target: 4,
            chain: 5,
            version: 6,
            since: 3,
            after: Some(object_entry()),
        }),
    ]
}

fn object_entry() -> ObjectEntry {
    ObjectEntry { volume: 1, inode: 2, generation: 3, column: 4 }
}

fn replies() -> Vec<Reply> {
    let entry = object_entry();
    let path = Bytes::from_static(b"/data/sda");
    let target = TargetSpace {
        file_system: 5,
        target: 4,
        path,
        total: 100,
        free: 60,
        objects: 7,
        condition: TargetCondition::Failed,
        reflinks: true,
        name_space: 0,
        incarnation: 0,
        trash: 1,
        reserve: 2,
    };
    vec![
        Reply::Read(Ok(read::ResOk { payload: data(), eof: true })),
        Reply::Read(Err(Status::BadHandle)),
        Reply::Write(Ok(write::ResOk { count: 7, verifier: [9; 8] })),
        Reply::Write(Err(Status::NoSpace)),
        Reply::Commit(Ok(commit::ResOk { verifier: [9; 8] })),
        Reply::Truncate(Ok(())),
        Reply::Remove(Err(Status::Io)),
        Reply::Make(Ok(())),
        Reply::Chain(Ok(())),
        Reply::Member(Ok(())),
        Reply::Mend(Ok(())),
        Reply::Mend(Err(Status::Damaged)),
        Reply::Block(Ok(block::ResOk { sum: 5, payload: data() })),
        Reply::Chain(Err(Status::ChainWaits)),
        Reply::Commit(Err(Status::StaleChain)),
        Reply::Make(Err(Status::TargetLost)),
        Reply::List(Ok(list::ResOk { objects: vec![entry; 3], done: false })),
        Reply::Usage(Ok(usage::ResOk {
            chains: vec![usage::ChainBytes { chain: 1, bytes: 2 }; 3],
            next: Some(ObjectName { inode: 3, column: 1 }),
        })),
        Reply::ChainRecords(Ok(chain_records::ResOk {
            records: vec![
                chain_records::ChainRecord {
                    chain: 1,
                    version: 2,
                    members_in: vec![3, 4],
                    refilled: vec![5]
                };
                2
            ],
            done: true,
        })),
        Reply::DirtyRegions(Ok(dirty_regions::ResOk {
            is_known: true,
            objects: vec![
                dirty_regions::DirtyObject {
                    object: entry,
                    extents: vec![dirty_regions::Extent { offset: 1 << 20, len: 1 << 20 }; 2],
                };
                2
            ],
            done: false,
            heads: 3,
        })),
        Reply::Status(Ok(status::ResOk { targets: vec![target; 2] })),
        Reply::Seek(Ok(seek::ResOk { found: Some(9) })),
        Reply::Seek(Ok(seek::ResOk { found: None })),
        Reply::Allocate(Ok(allocate::ResOk { needed: 1, free: 2, file_system: 3, verifier: [9; 8] })),
        Reply::Allocate(Err(Status::NotSupported)),
        Reply::Punch(Ok(())),
        Reply::Attach(Ok(())),
        Reply::Copy(Ok(copy::ResOk { verifier: [9; 8] })),
        Reply::Stat(Ok(stat::ResOk {
            objects: vec![Some(stat::ObjectStat { len: 9, modified_ns: 1 << 60, space_used: 512 }), None],
        })),
        Reply::ReadPlus(Ok(read_plus::ResOk { runs: vec![Run::Hole(1 << 33), Run::Data(data())] })),
    ]
}

#[test]
fn every_procedure_goes_there_and_back() {
    for call in calls() {
        round_trip(&call, |d| Call::decode(call.procedure(), d));
    }
    for reply in replies() {
        round_trip(&reply, |d| Reply::decode(reply.procedure(), d));
    }
    for (number, procedure) in (3..).zip(Procedure::ALL) {
        assert_eq!(Procedure::from_u32(number), Some(*procedure));
        assert!(calls().iter().any(|c| c.procedure() == *procedure), "{}", procedure.name());
        assert!(replies().iter().any(|r| r.procedure() == *procedure), "{}", procedure.name());
    }
    assert_eq!(Procedure::ALL.len(), 22);
}

#[test]
fn the_data_of_a_write_stay_where_they_were_read() {
    let bytes =
        bytes_of(&write::Args { handle: handle(), offset: 0, stable: false, sums: vec![], data: data() });
    let call = Call::decode(Procedure::Write, &mut Decoder::new(bytes.clone()));
    let Ok(Call::Write(args)) = call else { panic!("{call:?}") };
    let at = bytes.len() - 8; // seven bytes and one of padding
    assert_eq!(args.data.segments()[0].as_ptr(), bytes[at..].as_ptr());
}

#[test]
fn a_failure_that_says_ok_is_sent_as_invalid() {
    assert_eq!(bytes_of(&commit::Res::Err(Status::Ok)), bytes_of(&Status::Invalid));
}

proptest! {
    #[test]
    fn random_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        small in prop::collection::vec(0u32..6, 0..60),
    ) {
        let small: Vec<u8> = small.iter().flat_map(|w| w.to_be_bytes()).collect();
        for procedure in Procedure::ALL {
            for bytes in [&bytes, &small] {
                hostile(bytes, |d| Call::decode(*procedure, d));
                hostile(bytes, |d| Reply::decode(*procedure, d));
            }
        }
    }
}

#[test]
fn valid_messages_with_a_word_changed_never_panic() {
    for call in calls() {
        mutated(&bytes_of(&call), |d| Call::decode(call.procedure(), d));
    }
    for reply in replies() {
        mutated(&bytes_of(&reply), |d| Reply::decode(reply.procedure(), d));
    }
}

#[test]
#[ignore = "writes seeds for the fuzzer: make fuzz"]
fn seeds_for_the_fuzzer() {
    let calls = calls().into_iter().map(|c| (vec![super::PROGRAM, c.procedure() as u32, 0], bytes_of(&c)));
    let replies =
        replies().into_iter().map(|r| (vec![super::PROGRAM, r.procedure() as u32, 1], bytes_of(&r)));
    seeds("private", calls.chain(replies));
}
