//! A full table of clients, and sessions that are too many.

use host::{ManualClock, SeededEntropy};

use super::*;

const FIRST: [u8; 4] = [10, 0, 0, 1];
/// This server's own address.
const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 200));

fn exchange(clients: &Clients, owner: &str) -> ClientId {
    exchange_from(clients, owner, FIRST)
}

fn exchange_from(clients: &Clients, owner: &str, from: [u8; 4]) -> ClientId {
    let args = exchange_id::Args {
        clientowner: exchange_id::ClientOwner {
            verifier: [1; 8],
            ownerid: Bytes::from(owner.to_owned()).into(),
        },
        flags: 0,
        state_protect: StateProtectArgs::None,
        client_impl_id: None,
    };
    clients.exchange_id(args, None, (HERE, from.into())).expect("there is always room").clientid
}

/// From the client's own address.
fn confirm(clients: &Clients, clientid: ClientId) -> Result<SessionId, Status> {
    let address = clients.records().get(clientid.0).map(|client| client.address);
    confirm_from(clients, clientid, address.unwrap_or(FIRST.into()))
}

fn confirm_from(clients: &Clients, clientid: ClientId, address: IpAddr) -> Result<SessionId, Status> {
    let attrs = ChannelAttrs {
        max_request_size: 4096,
        max_response_size: 4096,
        max_operations: 8,
        max_requests: 1,
        ..ChannelAttrs::default()
    };
    let args = create_session::Args {
        clientid,
        sequence: 1,
        flags: 0,
        fore_chan_attrs: attrs,
        back_chan_attrs: attrs,
        cb_program: 0,
        sec_parms: vec![],
    };
    clients.create_session(&args, None, address).map(|made| made.sessionid)
}

/// ```text
/// in use · idle without a session · unconfirmed, unconfirmed      four places
/// two more     -> the unconfirmed ones go, the oldest first
/// they confirm
/// one more     -> the idle one goes; then none can
/// ```
#[test]
fn a_full_table_makes_room_from_the_oldest_that_nobody_uses() {
    let clock = Arc::new(ManualClock::default());
    let mut clients = Clients::new(1, clock.clone(), Arc::new(SeededEntropy::new(1)));
    clients.clients_max = 4;
    let used = confirm(&clients, exchange(&clients, "used")).unwrap();
    let idle = exchange(&clients, "idle");
    clients.destroy_session(confirm(&clients, idle).unwrap()).unwrap();
    let strangers: Vec<_> = (0..4)
        .map(|n| {
            clock.advance(Duration::from_millis(1));
            exchange(&clients, &format!("stranger {n}"))
        })
        .collect();
    assert_eq!(confirm(&clients, strangers[0]), Err(Status::StaleClientid));
    assert_eq!(confirm(&clients, strangers[1]), Err(Status::StaleClientid));
    confirm(&clients, strangers[2]).unwrap();
    confirm(&clients, strangers[3]).unwrap();
    confirm(&clients, exchange(&clients, "late")).unwrap();
    assert_eq!(clients.destroy_client(idle, FIRST.into()), Err(Status::StaleClientid), "its place was taken");
    assert!(clients.session(used).is_some());
    confirm(&clients, exchange(&clients, "one more")).expect("the idlest that lives gives way");
    assert!(clients.session(used).is_none(), "it comes back with two round trips");
}

/// ```text
/// one address, more clients than its share  -> its own idlest go, those of others stay
/// the whole table full                      -> the idlest of the address that has most
/// ```
#[test]
fn one_address_cannot_push_out_the_others() {
    let clock = Arc::new(ManualClock::default());
    let mut clients = Clients::new(1, clock.clone(), Arc::new(SeededEntropy::new(1)));
    (clients.clients_max, clients.clients_of_address_max) = (6, 4);
    let other = confirm(&clients, exchange_from(&clients, "other", [10, 0, 0, 2])).unwrap();
    let all: Vec<_> = (0..20)
        .map(|n| {
            clock.advance(Duration::from_millis(1));
            confirm(&clients, exchange(&clients, &format!("{n}"))).unwrap()
        })
        .collect();
    assert_eq!(all.iter().filter(|id| clients.session(**id).is_some()).count(), 4);
    let third = confirm(&clients, exchange_from(&clients, "third", [10, 0, 0, 3])).unwrap();
    clock.advance(Duration::from_millis(1));
    all.iter().for_each(|id| drop(clients.session(*id)));
    let fourth = confirm(&clients, exchange_from(&clients, "fourth", [10, 0, 0, 4])).unwrap();
    assert_eq!(all.iter().filter(|id| clients.session(**id).is_some()).count(), 3);
    assert!([other, third, fourth].iter().all(|id| clients.session(*id).is_some()));
}

#[test]
fn the_name_of_a_client_that_lives_is_not_taken_from_elsewhere() {
    let clock = Arc::new(ManualClock::default());
    let clients = Clients::new(1, clock.clone(), Arc::new(SeededEntropy::new(1)));
    let session = confirm(&clients, exchange(&clients, "a")).unwrap();
    let restarted = |from: [u8; 4]| {
        let args = exchange_id::Args {
            clientowner: exchange_id::ClientOwner { verifier: [2; 8], ownerid: Bytes::from("a").into() },
            flags: 0,
            state_protect: StateProtectArgs::None,
            client_impl_id: None,
        };
        clients.exchange_id(args, None, (HERE, from.into())).map(|answer| answer.clientid)
    };
    assert_eq!(restarted([10, 0, 0, 9]), Err(Status::ClidInUse));
    assert!(clients.session(session).is_some());
    assert!(restarted([10, 0, 0, 1]).is_ok(), "it restarted itself");
    clock.advance(LEASE * 2);
    assert!(restarted([10, 0, 0, 9]).is_ok(), "its lease has run out");
}

/// Ids of clients are easy to guess.
#[test]
fn a_client_gets_sessions_and_ends_only_from_where_it_showed_its_verifier() {
    let clients = Clients::new(1, Arc::new(ManualClock::default()), Arc::new(SeededEntropy::new(1)));
    let (own, stranger, second) = (FIRST.into(), [10, 0, 0, 9].into(), [10, 0, 1, 1]);
    let id = exchange(&clients, "a");
    assert_eq!(confirm_from(&clients, id, stranger), Err(Status::StaleClientid));
    assert_eq!(clients.destroy_client(id, stranger), Err(Status::StaleClientid));
    let session = confirm_from(&clients, id, own).unwrap();
    assert_eq!(confirm_from(&clients, id, stranger), Err(Status::StaleClientid), "not a repetition, either");
    clients.destroy_session(session).unwrap();
    assert_eq!(exchange_from(&clients, "a", second), id, "another interface of the client");
    assert_eq!(confirm_from(&clients, id, second.into()), Ok(session), "a repetition");
    assert_eq!(clients.destroy_client(id, stranger), Err(Status::StaleClientid));
    assert_eq!(clients.destroy_client(id, second.into()), Ok(()));
}

#[test]
fn a_client_with_too_many_sessions_loses_the_oldest() {
    let clients = Clients::new(1, Arc::new(ManualClock::default()), Arc::new(SeededEntropy::new(1)));
    let id = exchange(&clients, "a");
    let sessions: Vec<_> = (1..=SESSIONS_MAX as u32 + 1)
        .map(|sequence| {
            let attrs = ChannelAttrs {
                max_request_size: 4096,
                max_response_size: 4096,
                max_operations: 8,
                max_requests: 1,
                ..ChannelAttrs::default()
            };
            let args = create_session::Args {
                clientid: id,
                sequence,
                flags: 0,
                fore_chan_attrs: attrs,
                back_chan_attrs: attrs,
                cb_program: 0,
                sec_parms: vec![],
            };
            clients.create_session(&args, None, FIRST.into()).expect("never refused").sessionid
        })
        .collect();
    let live: Vec<_> = sessions.iter().map(|id| clients.session(*id).is_some()).collect();
    assert_eq!(live, [false, true, true, true, true]);
}

/// ```text
/// many clients of some networks begin, confirm, end sessions, are heard of, are silent, in any order
/// -> the bounds hold, and what is kept twice agrees
/// ```
#[test]
fn whatever_clients_do_the_records_agree_and_the_bounds_hold() {
    let clock = Arc::new(ManualClock::default());
    let mut clients = Clients::new(1, clock.clone(), Arc::new(SeededEntropy::new(1)));
    (clients.clients_max, clients.clients_of_address_max) = (40, 12);
    let dice = SeededEntropy::new(7);
    let mut sessions = Vec::new();
    for _ in 0..5000 {
        let roll = dice.u64();
        let (owner, network) = (roll >> 8 & 0x7f, (roll >> 16 & 7) as u8);
        match roll & 7 {
            0..=2 => {
                // Refused where another address has the name of one that is alive.
                let args = exchange_id::Args {
                    clientowner: exchange_id::ClientOwner {
                        verifier: [(roll >> 32 & 3) as u8; 8],
                        ownerid: Bytes::from(format!("{owner}")).into(),
                    },
                    flags: 0,
                    state_protect: StateProtectArgs::None,
                    client_impl_id: None,
                };
                if let Ok(known) = clients.exchange_id(args, None, (HERE, [10, 0, network, 1].into()))
                    && roll >> 40 & 1 == 0
                    && let Ok(session) = confirm(&clients, known.clientid)
                {
                    sessions.push(session);
                }
            }
            3..=5 => {
                sessions.iter().skip(network.into()).step_by(3).for_each(|id| drop(clients.session(*id)))
            }
            6 => {
                // One that has ended already is refused.
                let _ = sessions.get(owner as usize).map(|id| clients.destroy_session(*id));
            }
            _ => clock.advance(Duration::from_secs(roll >> 48 & 0x3f)),
        }
        let records = clients.records();
        records.check();
        assert!(records.len() <= 40 && (0..8).all(|n| records.len_of([10, 0, n, 1].into()) <= 12));
    }
    assert!(sessions.iter().any(|id| clients.session(*id).is_some()));
}

/// Linux takes two servers with one name for one, and keeps on doing so when they part.
#[test]
fn a_service_address_is_a_server_of_its_own_with_the_same_name_wherever_it_is() {
    let clock = Arc::new(ManualClock::default());
    let here = Clients::new(1, clock.clone(), Arc::new(SeededEntropy::new(1)));
    let there = Clients::new(2, clock, Arc::new(SeededEntropy::new(2)));
    let service = IpAddr::from([10, 0, 0, 105]);
    let ask = |clients: &Clients, local| {
        let args = exchange_id::Args {
            clientowner: exchange_id::ClientOwner { verifier: [1; 8], ownerid: Bytes::from("ash").into() },
            flags: 0,
            state_protect: StateProtectArgs::None,
            client_impl_id: None,
        };
        let answer = clients.exchange_id(args, None, (local, FIRST.into())).expect("there is room");
        (answer.server_owner.major_id, answer.server_scope, answer.clientid)
    };
    let (own, ..) = ask(&here, HERE);
    assert_eq!(ask(&here, service).0, own, "nothing is known of the address yet");
    here.lease_service_addresses([service], Duration::from_secs(1));
    there.lease_service_addresses([service], Duration::from_secs(1));
    let (name, scope, client) = ask(&here, service);
    let elsewhere = ask(&there, service);
    assert_eq!((&elsewhere.0, &elsewhere.1), (&name, &scope), "the address has moved");
    assert_ne!(name, own);
    assert_ne!(ask(&here, HERE).2, client, "its own client ids");
    assert_eq!(ask(&here, HERE).0, own);
}

/// A process that hung longer than its lease must not carry out a call that waited in its sockets.
#[test]
fn nothing_is_served_at_a_service_address_without_a_lease() {
    let clock = Arc::new(ManualClock::default());
    let clients = Clients::new(1, clock.clone(), Arc::new(SeededEntropy::new(1)));
    let service = IpAddr::from([10, 0, 0, 105]);
    clients.lease_service_addresses([service], Duration::ZERO);
    assert!(!clients.may_serve_at(service) && clients.may_serve_at(HERE));
    let end = clock.monotonic() + Duration::from_secs(1);
    clients.lease_service_addresses([service], end);
    assert!(clients.may_serve_at(service));
    clients.lease_service_addresses([service], Duration::ZERO);
    assert!(clients.may_serve_at(service), "an answer that comes late shortens no lease");
    clock.advance(Duration::from_secs(2));
    assert!(!clients.may_serve_at(service));
}
