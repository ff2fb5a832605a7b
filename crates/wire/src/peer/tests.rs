//! Every procedure there and back, and bytes that no metaserver sends.

use bytes::Bytes;
use proptest::prelude::*;

use super::addresses::{addresses_free, grant, release};
use super::balance;
use super::clients::{call_back, connected, connected_to, heard, write_opens};
use super::files::{migrate, spaces, truncate};
use super::group::{clock, report};
use super::{Call, Procedure, Reply};
use crate::nfs3::testing::{bytes_of, hostile, mutated, round_trip, seeds};
use crate::nfs4::callback::{CbArgOp, RecallArgs};
use crate::nfs4::{Stateid, Status};

fn calls() -> Vec<Call> {
    let address = Bytes::from_static(b"10.0.0.100");
    let clients = vec![Bytes::from_static(b"10.0.0.7:834"); 2];
    let fh = Bytes::from_static(&[7; 40]).into();
    let op = CbArgOp::Recall(RecallArgs { stateid: Stateid::ANONYMOUS, truncate: false, fh });
    vec![
        Call::Heard(heard::Args { clients: vec![1, 2] }),
        Call::CallBack(call_back::Args { client: 3, op }),
        Call::Grant(grant::Args { member: 1, held: vec![address.clone()] }),
        Call::Release(release::Args { member: 2 }),
        Call::AddressesFree(addresses_free::Args {}),
        Call::Connected(connected::Args {
            held: vec![connected::Connections { address: address.clone(), clients }],
        }),
        Call::ConnectedTo(connected_to::Args { address }),
        Call::Migrate(migrate::Args { inode: 9 }),
        Call::Truncate(truncate::Args { operation: 10 }),
        Call::Spaces(spaces::Args {}),
        Call::Report(report::Args {}),
        Call::Clock(clock::Args {}),
        Call::Balance(balance::Args { look: true }),
        Call::WriteOpens(write_opens::Args { states: vec![1 << 63] }),
    ]
}

fn replies() -> Vec<Reply> {
    let address = Bytes::from_static(b"10.0.0.100");
    let member = report::MemberReport {
        member: 1,
        heard_ms: Some(5),
        matched: None,
        lives: true,
        out_of_service: true,
    };
    let clock = report::ClockReport { is_data_server: true, server: 4, ahead_ms: -7 };
    let report = report::Report {
        members: vec![member],
        addresses: vec![report::AddressReport { address: address.clone(), holder: None }],
        data_addresses: vec![report::AddressReport { address: address.clone(), holder: Some(9) }],
        clocks: vec![clock],
    };
    let pool = balance::PoolBalance {
        pool: Bytes::from_static(b"flash"),
        fullest: 612,
        emptiest: 205,
        fullest_target: 3,
        emptiest_target: 4,
        moving: 16,
        incomplete: 1,
        state: balance::State::Moving,
    };
    vec![
        Reply::Heard(heard::Res {}),
        Reply::CallBack(call_back::Res { status: Some(Status::Delay) }),
        Reply::CallBack(call_back::Res { status: None }),
        Reply::Grant(grant::Res { granted: Some(vec![address.clone()]) }),
        Reply::Grant(grant::Res { granted: None }),
        Reply::Release(release::Res {}),
        Reply::AddressesFree(addresses_free::Res {}),
        Reply::Connected(connected::Res {}),
        Reply::ConnectedTo(connected_to::Res { clients: vec![address] }),
        Reply::Migrate(migrate::Res { status: Status::NoSpc }),
        Reply::Truncate(truncate::Res { outcome: truncate::Outcome::Io }),
        Reply::Spaces(spaces::Res { targets: vec![] }),
        Reply::Report(report::Res { report: Some(report) }),
        Reply::Report(report::Res { report: None }),
        Reply::Clock(clock::Res { clock_ms: 1_900_000_000_000, out_of_service: true }),
        Reply::Balance(balance::Res { pools: Some(vec![pool]) }),
        Reply::Balance(balance::Res { pools: None }),
        Reply::WriteOpens(write_opens::Res {}),
    ]
}

#[test]
fn every_procedure_goes_there_and_back() {
    for call in calls() {
        round_trip(&call, |d| Call::decode(call.procedure(), d));
        assert_eq!(Call::of_message(call.message().into()), Ok(call));
    }
    for reply in replies() {
        round_trip(&reply, |d| Reply::decode(reply.procedure(), d));
    }
    for (number, procedure) in (0..).zip(Procedure::ALL) {
        assert_eq!(Procedure::from_u32(number), Some(*procedure));
        assert!(calls().iter().any(|c| c.procedure() == *procedure), "{}", procedure.name());
        assert!(replies().iter().any(|r| r.procedure() == *procedure), "{}", procedure.name());
    }
}

#[test]
fn a_message_has_one_call_and_nothing_behind_it() {
    let mut message = calls()[0].message();
    assert!(Call::of_message(Bytes::from_static(&[0, 0, 1, 0])).is_err(), "an unknown procedure");
    assert!(Call::of_message(message[..message.len() - 1].to_vec().into()).is_err(), "half a call");
    message.extend([0; 4]);
    assert!(Call::of_message(message.into()).is_err(), "bytes behind it");
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
