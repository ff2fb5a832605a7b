//! Round trips of every procedure, and hostile bytes.

use bytes::Bytes;
use proptest::prelude::*;

use super::{Call, DirPath, Name, PATH_BYTES_MAX, Procedure, Reply, Status};
use super::{dump, export, mnt, null, umnt, umntall};
use crate::nfs3::FileHandle;
use crate::nfs3::testing::{bytes_of, hostile, mutated, round_trip, seeds};
use crate::rpc::Rejection;
use crate::xdr::{DecodeError, Decoder};

fn path() -> DirPath {
    DirPath(Bytes::from_static(b"/home"))
}

fn name(text: &'static str) -> Name {
    Name(Bytes::from_static(text.as_bytes()))
}

fn calls() -> Vec<Call> {
    vec![
        Call::Null(null::Args {}),
        Call::Mnt(mnt::Args { path: path() }),
        Call::Dump(dump::Args {}),
        Call::Umnt(umnt::Args { path: path() }),
        Call::UmntAll(umntall::Args {}),
        Call::Export(export::Args {}),
    ]
}

fn replies() -> Vec<Reply> {
    let handle = FileHandle(Bytes::from_static(&[3; 33]));
    let mounts = vec![dump::Mount { host: name("node1"), path: path() }; 2].into();
    let exports = vec![
        export::Export { path: path(), groups: vec![name("lab"), name("farm")].into() },
        export::Export { path: path(), groups: vec![].into() },
    ];
    vec![
        Reply::Null(null::Res {}),
        Reply::Mnt(Ok(mnt::ResOk { handle, auth_flavors: vec![mnt::AUTH_SYS, mnt::AUTH_NONE] })),
        Reply::Mnt(Err(Status::NoEnt)),
        Reply::Dump(dump::Res { mounts }),
        Reply::Umnt(umnt::Res {}),
        Reply::UmntAll(umntall::Res {}),
        Reply::Export(export::Res { exports: exports.into() }),
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
    for (number, procedure) in (0..).zip(Procedure::ALL) {
        assert_eq!(Procedure::from_u32(number), Some(*procedure));
        assert!(calls().iter().any(|c| c.procedure() == *procedure), "{}", procedure.name());
        assert!(replies().iter().any(|r| r.procedure() == *procedure), "{}", procedure.name());
    }
    assert_eq!(Procedure::ALL.len(), 6);
}

#[test]
fn a_call_is_decoded_from_its_number_or_rejected() {
    for call in calls() {
        let decoded = Call::of_number(call.procedure() as u32, &mut Decoder::new(bytes_of(&call)));
        assert_eq!(decoded, Ok(call));
    }
    let rejected = |number| Call::of_number(number, &mut Decoder::new(Bytes::new()));
    assert_eq!(rejected(6), Err(Rejection::ProcedureUnavailable));
    assert_eq!(rejected(Procedure::Mnt as u32), Err(Rejection::GarbageArguments));
}

#[test]
fn an_export_list_is_linked_twice() {
    let groups = vec![name("lab")].into();
    let exports = vec![export::Export { path: DirPath(Bytes::from_static(b"/a")), groups }].into();
    let words = [1, 2, 0x2f61_0000, 1, 3, 0x6c61_6200, 0, 0u32];
    let expected: Vec<u8> = words.iter().flat_map(|w| w.to_be_bytes()).collect();
    assert_eq!(bytes_of(&export::Res { exports }), expected);
}

#[test]
fn a_path_beyond_the_bound_is_refused() {
    let long = DirPath(vec![b'a'; PATH_BYTES_MAX + 1].into());
    let bytes = bytes_of(&mnt::Args { path: long });
    assert_eq!(Call::decode(Procedure::Mnt, &mut Decoder::new(bytes)), Err(DecodeError::Length(1025)));
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
    seeds("nfs3", calls.chain(replies));
}
