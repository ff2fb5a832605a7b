//! Round trips of every procedure, and hostile bytes.

use proptest::prelude::*;

use super::{Call, Procedure, Reply, Status, hello, null, prove};
use crate::nfs3::testing::{bytes_of, hostile, mutated, round_trip, seeds};

fn calls() -> Vec<Call> {
    vec![
        Call::Null(null::Args {}),
        Call::Hello(hello::Args { cluster: [1; 16], nonce: [2; 32] }),
        Call::Prove(prove::Args { proof: [3; 32] }),
    ]
}

fn replies() -> Vec<Reply> {
    vec![
        Reply::Null(null::Res {}),
        Reply::Hello(Ok(hello::ResOk { nonce: [2; 32], proof: [3; 32] })),
        Reply::Hello(Err(Status::WrongCluster)),
        Reply::Prove(Ok(())),
        Reply::Prove(Err(Status::NotProven)),
    ]
}

#[test]
fn every_procedure_goes_there_and_back() {
    for call in calls() {
        round_trip(&call, |d| Call::decode(call.procedure(), d));
        mutated(&bytes_of(&call), |d| Call::decode(call.procedure(), d));
    }
    for reply in replies() {
        round_trip(&reply, |d| Reply::decode(reply.procedure(), d));
        mutated(&bytes_of(&reply), |d| Reply::decode(reply.procedure(), d));
    }
    for (number, procedure) in (0..).zip(Procedure::ALL) {
        assert_eq!(Procedure::from_u32(number), Some(*procedure));
        assert!(calls().iter().any(|c| c.procedure() == *procedure), "{}", procedure.name());
        assert!(replies().iter().any(|r| r.procedure() == *procedure), "{}", procedure.name());
    }
}

/// Reply of every private program to a caller without a proof, for any procedure.
#[test]
fn a_failure_is_a_status_alone() {
    assert_eq!(bytes_of(&Err::<(), _>(Status::NotProven)), bytes_of(&Reply::Prove(Err(Status::NotProven))));
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for procedure in Procedure::ALL {
            hostile(&bytes, |d| Call::decode(*procedure, d));
            hostile(&bytes, |d| Reply::decode(*procedure, d));
        }
    }
}

#[test]
#[ignore = "writes seeds for the fuzzer: make fuzz"]
fn seeds_for_the_fuzzer() {
    let calls = calls().into_iter().map(|c| (vec![1, c.procedure() as u32, 0], bytes_of(&c)));
    let replies = replies().into_iter().map(|r| (vec![1, r.procedure() as u32, 1], bytes_of(&r)));
    seeds("private", calls.chain(replies));
}
