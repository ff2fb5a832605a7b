//! Round trips of every procedure, and hostile bytes.

use bytes::Bytes;
use proptest::prelude::*;

use super::{Call, Procedure, Reply, Status, call};
use crate::nfs3::testing::{bytes_of, hostile, mutated, round_trip, seeds};

fn calls() -> Vec<Call> {
    vec![Call::Call(call::Args { body: Bytes::from_static(b"a message") })]
}

fn replies() -> Vec<Reply> {
    vec![
        Reply::Call(Ok(call::ResOk { body: Bytes::from_static(b"an answer") })),
        Reply::Call(Err(Status::Invalid)),
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
    assert_eq!(Procedure::ALL.len(), 1);
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
