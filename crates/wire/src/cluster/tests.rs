//! Round trips of every procedure, hostile bytes, and proofs of the handshake.

use bytes::Bytes;
use proptest::prelude::*;

use super::{Call, Procedure, Reply, Status, TargetCondition, TargetSpace};
use super::{cluster_status, hold_addresses, register, size};
use crate::data::{Chain, Member, MemberState};
use crate::handshake::{client_proof, proof_matches, server_proof};
use crate::nfs3::testing::{bytes_of, hostile, mutated, round_trip, seeds};

fn calls() -> Vec<Call> {
    let path = Bytes::from_static(b"/data/sda");
    let target = TargetSpace {
        file_system: 5,
        target: 4,
        path,
        total: 100,
        free: 60,
        objects: 7,
        condition: TargetCondition::ReadOnly,
        reflinks: true,
        name_space: 0,
        incarnation: 0,
        trash: 1,
        reserve: 2,
    };
    vec![
        Call::Register(register::Args {
            server: 5,
            name: Bytes::from_static(b"ds5"),
            addresses: vec![Bytes::from_static(b"10.0.0.5:2050"), Bytes::from_static(b"[fd00::5]:2050")],
            service_address: Bytes::from_static(b"10.0.0.105:2050"),
            zone: Bytes::from_static(b"rack-1"),
            targets: vec![target; 2],
            version: Bytes::from_static(b"0.1.0"),
            map_version: 6,
            clock_ms: 1_900_000_000_000,
            process: 9,
            known: 8,
            chains_of_map: 6,
            refilled: vec![register::Refilled { chain: 1, version: 2, target: 3 }; 2],
            left: vec![register::LeftChain { chain: 4, version: 5, target: 6 }],
            refill: register::Refill { members: 2, bytes: 1 << 41, left: 1 << 40, compared: 3 },
        }),
        Call::Size(size::Args { handle: Bytes::from_static(&[4; 45]) }),
        Call::Status(cluster_status::Args {}),
        Call::HoldAddresses(hold_addresses::Args {
            server: 5,
            port: 2050,
            held: vec![Bytes::from_static(b"10.0.0.105"); 2],
            tells_connections: true,
            connections: vec![connections(); 2],
        }),
    ]
}

fn connections() -> hold_addresses::Connections {
    let (address, client) = (Bytes::from_static(b"10.0.0.105"), Bytes::from_static(b"10.0.0.7:834"));
    hold_addresses::Connections { address, clients: vec![client; 2] }
}

fn replies() -> Vec<Reply> {
    let member = Member { target: 4, address: Bytes::from_static(b"10.0.0.5:2050"), state: MemberState::In };
    vec![
        Reply::Register(Ok(register::ResOk {
            heartbeat_ms: 1000,
            map_version: 7,
            name_space: 7,
            incarnation: 8,
            epoch: 2,
            process: 9,
            metaservers: vec![Bytes::from_static(b"10.0.0.1:2049")],
            networks: vec![Bytes::from_static(b"10.0.0.0/8")],
            trash_seconds: 86_400,
            chain_lease_ms: 2000,
            verify_at_scrub: vec![1],
            chains: vec![Chain { id: 1, version: 2, verifier: 3, members: vec![member; 2] }],
        })),
        Reply::Register(Err(Status::Delay)),
        Reply::Size(Ok(size::ResOk { len: 1 << 40 })),
        Reply::Size(Err(Status::Stale)),
        Reply::Status(Ok(cluster_status::ResOk { json: Bytes::from_static(b"{}") })),
        Reply::HoldAddresses(Ok(hold_addresses::ResOk {
            leads: true,
            beat_ms: 150,
            lease_ms: 1000,
            granted: vec![Bytes::from_static(b"10.0.0.105"); 2],
            connections: vec![connections(); 2],
        })),
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
    assert_eq!(Procedure::ALL.len(), 4);
}

#[test]
fn a_proof_holds_for_one_key_one_side_and_one_pair_of_nonces() {
    let (key, client, server) = ([1; 32], [2; 32], [3; 32]);
    let proof = server_proof(&key, &client, &server);
    assert!(proof_matches(&server_proof(&key, &client, &server), &proof));
    for other in [
        client_proof(&key, &client, &server),
        server_proof(&[9; 32], &client, &server),
        server_proof(&key, &[9; 32], &server),
        server_proof(&key, &client, &[9; 32]),
        server_proof(&key, &server, &client),
    ] {
        assert!(!proof_matches(&other, &proof));
    }
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
