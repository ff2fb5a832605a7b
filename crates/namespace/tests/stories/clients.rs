//! EXCHANGE_ID, sessions, and the end of clients. The cases are those of RFC 8881, section 18.35.5.

use namespace::*;

use crate::world::*;

fn other() -> Principal {
    Principal::Sys { uid: 7, machine: b"elsewhere".to_vec() }
}

/// A confirmed client without a session.
fn bare_client(w: &mut World, owner: &str) -> ClientId {
    let (id, sequence, _) = client_of(w.exchange(owner, 1, &root(), false));
    let session = w.create_session(id, sequence).unwrap();
    w.apply(Command::DestroySession { session }).unwrap();
    id
}

#[test]
fn case_1_a_new_owner_gets_an_unconfirmed_client() {
    let mut w = World::new();
    let (a, sequence, confirmed) = client_of(w.exchange("a", 1, &root(), false));
    assert_eq!((sequence, confirmed), (1, false));
    let (b, ..) = client_of(w.exchange("b", 1, &root(), false));
    assert_ne!(a, b);
    assert_eq!(a.0 >> 32, 0xfeed_beef, "the high half is this store's own");
}

#[test]
fn case_2_the_same_client_again_gets_the_same_id() {
    let mut w = World::new();
    let a = w.client("a");
    assert_eq!(client_of(w.exchange("a", 1, &root(), false)), (a, 2, true));
}

#[test]
fn case_3_another_principal_waits_until_the_first_has_nothing_to_lose() {
    let mut w = World::new();
    let a = w.client("a");
    assert_eq!(w.exchange("a", 1, &other(), false), Err(Error::ClientInUse));
    w.expire(a).unwrap();
    let b = bare_client(&mut w, "a");
    let (c, _, confirmed) = client_of(w.exchange("a", 1, &other(), false));
    assert!(c != b && !confirmed);
    assert_eq!(read::clients(&*w.view()).unwrap(), [c]);
}

#[test]
fn case_4_an_unconfirmed_client_is_replaced() {
    let mut w = World::new();
    let (a, ..) = client_of(w.exchange("a", 1, &root(), false));
    let (b, ..) = client_of(w.exchange("a", 1, &root(), false));
    assert_ne!(a, b);
    assert_eq!(w.create_session(a, 1), Err(Error::StaleClient));
    w.create_session(b, 1).unwrap();
}

/// A caller at another address claims the name of a client that mounts.
#[test]
fn a_claim_from_another_address_takes_no_unconfirmed_client_away() {
    let mut w = World::new();
    let stranger = |n: u8| [10, 1, 0, n];
    let (a, ..) = client_of(w.exchange("a", 1, &root(), false));
    let claims: Vec<_> =
        (0..7).map(|n| client_of(w.exchange_from(stranger(n), "a", 9, &root(), false)).0).collect();
    w.create_session(a, 1).unwrap();
    assert_eq!(read::clients(&*w.view()).unwrap(), [a], "the claims end when the name has a client");
    assert_eq!(w.create_session_from(stranger(0), claims[0], 1, &root()), Err(Error::StaleClient));
    // One host with a network of IPv6 addresses counts once.
    w.exchange("c", 1, &root(), false).unwrap();
    let before = read::clients(&*w.view()).unwrap().len();
    for n in 0..20u16 {
        let address = std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 7, 0, 0, 0, n).into();
        let (owner, verifier, principal) = (b"c".to_vec(), [9; 8], root());
        w.apply(Command::ExchangeId { owner, verifier, principal, update: false, address }).unwrap();
    }
    assert_eq!(read::clients(&*w.view()).unwrap().len(), before + 1);
    // They are few.
    let owner = "b";
    let claims: Vec<_> =
        (0..20).map(|n| client_of(w.exchange_from(stranger(n), owner, 9, &root(), false)).0).collect();
    assert_eq!(read::clients(&*w.view()).unwrap()[before + 1..], claims[20 - UNCONFIRMED_OF_OWNER_MAX..]);
}

#[test]
fn case_5_a_restarted_client_loses_its_old_state_when_it_confirms() {
    let mut w = World::new();
    let a = w.client("a");
    w.file("/f");
    let open = w.open(a, "/f", BOTH).unwrap();
    let (b, sequence, confirmed) = client_of(w.exchange("a", 2, &root(), false));
    assert!(b != a && !confirmed);
    assert!(w.state(open).is_some(), "until it is confirmed, it may be an impostor");
    w.create_session(b, sequence).unwrap();
    assert_eq!(w.state(open), None);
    assert_eq!(read::clients(&*w.view()).unwrap(), [b]);
}

#[test]
fn cases_6_to_9_an_update_is_for_the_confirmed_client() {
    let mut w = World::new();
    assert_eq!(w.exchange("a", 1, &root(), true), Err(Error::NotConfirmed));
    let (a, ..) = client_of(w.exchange("a", 1, &root(), false));
    assert_eq!(w.exchange("a", 1, &root(), true), Err(Error::NotConfirmed), "case 7");
    w.create_session(a, 1).unwrap();
    assert_eq!(client_of(w.exchange("a", 1, &root(), true)), (a, 2, true), "case 6");
    assert_eq!(w.exchange("a", 2, &root(), true), Err(Error::NotSame), "case 8");
    assert_eq!(w.exchange("a", 2, &other(), true), Err(Error::NotSame), "case 8");
    assert_eq!(w.exchange("a", 1, &other(), true), Err(Error::Permission), "case 9");
}

#[test]
fn create_session_sent_again_gets_the_same_session() {
    let mut w = World::new();
    let (a, ..) = client_of(w.exchange("a", 1, &root(), false));
    assert_eq!(w.create_session(a, 0), Err(Error::Misordered), "nothing to repeat yet");
    assert_eq!(w.create_session(a, 2), Err(Error::Misordered));
    assert_eq!(w.create_session_as(a, 1, &other()), Err(Error::ClientInUse));
    let first = w.create_session(a, 1).unwrap();
    assert_eq!(w.create_session(a, 1), Ok(first));
    let second = w.create_session_as(a, 2, &other()).expect("confirmed: any principal of the client may");
    assert_ne!(first, second);
    assert_eq!(w.create_session(a, 1), Err(Error::Misordered));
    assert_eq!(w.create_session(a, 2), Ok(second));
    let mut sessions = read::sessions(&*w.view(), a).unwrap();
    sessions.sort();
    assert_eq!(sessions.len(), 2);
    let record = read::session(&*w.view(), second).unwrap().unwrap();
    assert_eq!((record.id, record.client, record.channels), (second, a, CHANNELS));
    assert_eq!(w.create_session(ClientId(5), 1), Err(Error::StaleClient));
}

#[test]
fn a_session_is_destroyed_once() {
    let mut w = World::new();
    let (a, ..) = client_of(w.exchange("a", 1, &root(), false));
    let session = w.create_session(a, 1).unwrap();
    w.apply(Command::DestroySession { session }).unwrap();
    assert_eq!(w.apply(Command::DestroySession { session }), Err(Error::BadSession));
    assert_eq!(read::session(&*w.view(), session).unwrap(), None);
    assert!(read::client(&*w.view(), a).unwrap().unwrap().confirmed, "the client stays");
}

#[test]
fn a_client_is_destroyed_when_it_has_nothing() {
    let mut w = World::new();
    let a = w.client("a");
    assert_eq!(w.apply(Command::DestroyClient { client: a }), Err(Error::ClientBusy));
    let session = read::sessions(&*w.view(), a).unwrap()[0];
    w.file("/f");
    let open = w.open(a, "/f", READ).unwrap();
    w.apply(Command::DestroySession { session }).unwrap();
    assert!(read::has_state(&*w.view(), a).unwrap());
    assert_eq!(w.apply(Command::DestroyClient { client: a }), Err(Error::ClientBusy));
    w.close(a, open).unwrap();
    assert!(!read::has_state(&*w.view(), a).unwrap());
    w.apply(Command::DestroyClient { client: a }).unwrap();
    assert_eq!(w.apply(Command::DestroyClient { client: a }), Err(Error::StaleClient));
}

#[test]
fn reclaim_is_complete_once() {
    let mut w = World::new();
    let a = w.client("a");
    w.apply(Command::ReclaimComplete { client: a }).unwrap();
    assert_eq!(w.apply(Command::ReclaimComplete { client: a }), Err(Error::CompleteAlready));
    assert_eq!(w.apply(Command::ReclaimComplete { client: ClientId(1) }), Err(Error::StaleClient));
}

#[test]
fn expire_client_frees_everything() {
    let mut w = World::new();
    let (a, b) = (w.client("a"), w.client("b"));
    let kept = w.file("/f");
    let orphan = w.file("/g");
    let empty = w.dump().len();
    let open = w.open_as(a, "o", "/f", BOTH, WRITE).unwrap();
    w.lock_new(a, open, "l", LockKind::Write, 0..u64::MAX).unwrap();
    w.layout(a, "/f", open, IoMode::ReadWrite).unwrap();
    w.open(a, "/g", READ).unwrap();
    w.remove("/g").unwrap();
    assert_eq!(w.open(b, "/f", WRITE), Err(Error::ShareDenied));
    assert_eq!(w.apply(Command::ExpireClient { client: a }), Err(Error::ClientBusy), "its lease runs");
    w.expire(a).unwrap();
    assert_eq!(w.expire(a), Err(Error::StaleClient));
    assert_eq!(w.deferred(), [(kept, DeferredKind::Fence), (orphan, DeferredKind::Remove)]);
    let ids = w.deferred_ops().iter().take(1).map(|fence| fence.id).collect();
    w.apply(Command::DeferredDone { ids }).unwrap();
    // Of a: client, owner, session, its index. Of /g: name, cookie, inode; and one deferred operation more.
    // What their address has is counted in one record, for b.
    assert_eq!(w.dump().len(), empty - 4 - 3 + 1 + 2, "no trace of it is left");
    let open = w.open(b, "/f", WRITE).unwrap();
    w.lock_new(b, open, "l", LockKind::Write, 0..u64::MAX).unwrap();
}

#[test]
fn an_unconfirmed_client_opens_nothing() {
    let mut w = World::new();
    w.file("/f");
    let (a, ..) = client_of(w.exchange("a", 1, &root(), false));
    assert_eq!(w.open(a, "/f", READ), Err(Error::StaleClient));
    assert_eq!(w.open(ClientId(1), "/f", READ), Err(Error::StaleClient));
}

/// ```text
/// strangers at 8 addresses, 2 · UNCONFIRMED_MAX exchange_id -> ok, each
/// a create_session                                          -> ok, and stays
/// the first stranger create_session                         -> stale: its record went for a later one
/// ```
#[test]
fn a_flood_of_exchange_id_takes_the_place_of_the_oldest_unconfirmed_only() {
    let mut w = World::new();
    let confirmed = w.client("a");
    let address = |n: u32| [10, 1, 0, (n % 8) as u8];
    let strangers: Vec<_> = (0..UNCONFIRMED_MAX + 8)
        .map(|n| client_of(w.exchange_unchecked(address(n), &format!("s{n}"))).0)
        .collect();
    let clients = read::clients(&*w.view()).unwrap();
    assert_eq!(clients.len(), UNCONFIRMED_MAX as usize + 1);
    assert_eq!(clients[0], confirmed);
    assert_eq!(clients[1..], strangers[8..]);
    assert_eq!(w.create_session_from(address(1), strangers[1], 1, &root()), Err(Error::StaleClient));
    w.create_session_from(address(8), strangers[8], 1, &root()).unwrap();
    // Confirmed ones do not count: one more goes in without anybody's going.
    w.exchange("late", 1, &root(), false).unwrap();
    w.create_session_from(address(9), strangers[9], 1, &root()).unwrap();
}

#[test]
fn one_address_that_floods_takes_the_place_of_its_own_clients_only() {
    let mut w = World::new();
    let (quiet, ..) = client_of(w.exchange("quiet", 1, &root(), false));
    let flood = [10, 1, 0, 1];
    let strangers: Vec<_> = (0..UNCONFIRMED_OF_ADDRESS_MAX + 2)
        .map(|n| client_of(w.exchange_unchecked(flood, &format!("s{n}"))).0)
        .collect();
    assert_eq!(read::clients(&*w.view()).unwrap().len(), UNCONFIRMED_OF_ADDRESS_MAX as usize + 1);
    assert_eq!(w.create_session_from(flood, strangers[1], 1, &root()), Err(Error::StaleClient));
    w.create_session(quiet, 1).unwrap();
}

/// ```text
/// a creates 64 sessions      -> ok
/// once more the last         -> the same session
/// a 65th                     -> no room
/// it destroys one, the 65th  -> ok
/// ```
#[test]
fn a_client_has_so_many_sessions_and_a_repetition_is_none() {
    let mut w = World::new();
    let a = w.client("a");
    let sessions: Vec<_> =
        (2..=SESSIONS_OF_CLIENT_MAX as u32).map(|n| w.create_session(a, n).unwrap()).collect();
    let last = SESSIONS_OF_CLIENT_MAX as u32;
    assert_eq!(w.create_session(a, last), Ok(*sessions.last().unwrap()));
    assert_eq!(w.create_session(a, last + 1), Err(Error::TooManyClients));
    w.apply(Command::DestroySession { session: sessions[0] }).unwrap();
    w.create_session(a, last + 1).unwrap();
}

#[test]
fn half_of_a_session_id_is_random() {
    let mut w = World::new();
    let a = w.client("a");
    let [first, second] = [2, 3].map(|n| w.create_session(a, n).unwrap().0);
    assert_eq!(first[..4], second[..4], "the client");
    assert_ne!(first[4..8], second[4..8]);
    let random = |id: [u8; 16]| u64::from_be_bytes(id[8..].try_into().unwrap());
    assert_eq!(random(second) - random(first), 1, "the stamp's random bits, all of them");
}

/// ```text
/// a at home opens /f
/// a stranger with its name, elsewhere   -> in use
/// a restarts at home                    -> its old state goes
/// ```
#[test]
fn nobody_else_ends_a_client_that_is_alive() {
    let mut w = World::new();
    let a = w.client("a");
    w.file("/f");
    let open = w.open(a, "/f", BOTH).unwrap();
    let elsewhere = [10, 9, 9, 9];
    assert_eq!(w.exchange_from(elsewhere, "a", 2, &root(), false), Err(Error::ClientInUse));
    // With its id, and the next sequence, from there.
    assert_eq!(w.create_session_from(elsewhere, a, 2, &root()), Err(Error::StaleClient));
    assert!(w.state(open).is_some());

    let (again, sequence, _) = client_of(w.exchange("a", 2, &root(), false));
    assert_eq!(w.create_session_from(elsewhere, again, sequence, &root()), Err(Error::StaleClient));
    w.create_session(again, sequence).unwrap();
    assert_eq!(w.state(open), None);
    assert_eq!(read::clients(&*w.view()).unwrap(), [again]);
}

/// DHCP, or another interface: as soon as the lease of its former life has run out.
#[test]
fn a_client_that_restarts_at_another_address_waits_for_its_old_lease() {
    let mut w = World::new();
    let a = w.client("a");
    w.file("/f");
    w.open_as(a, "o", "/f", BOTH, BOTH).unwrap();
    let new = [10, 0, 0, 77];
    assert_eq!(w.exchange_from(new, "a", 2, &root(), false), Err(Error::ClientInUse));
    w.lapse(a).unwrap();
    let (again, sequence, _) = client_of(w.exchange_from(new, "a", 2, &root(), false));
    w.create_session_from(new, again, sequence, &root()).unwrap();
    assert_eq!(read::clients(&*w.view()).unwrap(), [again]);
    w.open(again, "/f", BOTH).unwrap();
}

/// Several service addresses, and a client with several of its own: it is known by its verifier at each, and
/// may come from any of them when it restarts.
#[test]
fn a_client_that_shows_its_verifier_from_another_address_has_that_one_too() {
    let mut w = World::new();
    let a = w.client("a");
    let second = [10, 0, 1, 1];
    assert_eq!(w.create_session_from(second, a, 2, &root()), Err(Error::StaleClient), "not yet");
    assert_eq!(client_of(w.exchange_from(second, "a", 1, &root(), false)), (a, 2, true));
    w.create_session_from(second, a, 2, &root()).unwrap();
    let (again, sequence, _) = client_of(w.exchange_from(second, "a", 2, &root(), false));
    w.create_session_from(second, again, sequence, &root()).unwrap();
    assert_eq!(read::clients(&*w.view()).unwrap(), [again]);
    // No more of them than a machine has: the first stays, where the client counts.
    for n in 0..2 * ADDRESSES_OF_CLIENT_MAX as u8 {
        w.exchange_from([10, 2, 0, n], "a", 2, &root(), false).unwrap();
    }
    let addresses = read::client(&*w.view(), again).unwrap().unwrap().addresses;
    assert_eq!(addresses.len(), ADDRESSES_OF_CLIENT_MAX);
    assert_eq!(addresses[0], std::net::IpAddr::from(second));
}

#[test]
fn clients_behind_one_address_are_told_apart_by_their_names() {
    let mut w = World::new();
    let (a, b) = (w.client("a"), w.client("b"));
    w.file("/f");
    let open = w.open(a, "/f", BOTH).unwrap();
    let (again, sequence, _) = client_of(w.exchange("b", 2, &root(), false));
    w.create_session(again, sequence).unwrap();
    assert!(w.state(open).is_some());
    assert_eq!(read::clients(&*w.view()).unwrap(), [a, again]);
    assert_ne!(again, b);
}

/// ```text
/// a opens /f, locks it      a's lease runs out
/// a renews                  -> all is there
/// ```
#[test]
fn a_client_that_comes_back_within_courtesy_finds_everything() {
    let mut w = World::new();
    let a = w.client("a");
    w.file("/f");
    let open = w.open(a, "/f", BOTH).unwrap();
    w.lock_new(a, open, "l", LockKind::Write, 0..9).unwrap();
    let before = w.dump();
    w.lapse(a).unwrap();
    let lapsed = read::client(&*w.view(), a).unwrap().unwrap().lapsed;
    assert!(lapsed.is_some());
    w.lapse(a).unwrap();
    assert_eq!(read::client(&*w.view(), a).unwrap().unwrap().lapsed, lapsed, "since the first time");
    w.apply(Command::RenewLease { client: a }).unwrap();
    assert_eq!(w.dump(), before);
    w.apply(Command::RenewLease { client: a }).unwrap();
    assert_eq!(w.dump(), before);
    w.lapse(a).unwrap();
    w.create_session(a, 2).unwrap();
    assert_eq!(read::client(&*w.view(), a).unwrap().unwrap().lapsed, None, "a new session is a sign of life");
    assert_eq!(w.apply(Command::RenewLease { client: ClientId(1) }), Err(Error::StaleClient));
}

#[test]
fn a_client_that_has_nothing_is_forgotten_when_its_lease_runs_out() {
    let mut w = World::new();
    let empty = w.dump().len();
    let a = w.client("a");
    let (b, ..) = client_of(w.exchange("b", 1, &root(), false));
    w.lapse(a).unwrap();
    w.lapse(b).unwrap();
    assert_eq!(w.dump().len(), empty);
}

/// ```text
/// a opens /f, denies writing     b opens /f to write -> share denied
/// a's lease runs out             b opens /f to write -> ok; of a there is nothing left
/// ```
#[test]
fn a_conflicting_open_goes_with_its_lapsed_client() {
    let mut w = World::new();
    let (a, b) = (w.client("a"), w.client("b"));
    w.file("/f");
    w.file("/g");
    w.open_as(a, "o", "/f", READ, WRITE).unwrap();
    let elsewhere = w.open(a, "/g", BOTH).unwrap();
    w.lapse(a).unwrap();
    w.open(b, "/f", READ).expect("nobody minds");
    assert!(w.state(elsewhere).is_some());
    assert_eq!(w.open_as(a, "p", "/f", WRITE, NONE), Err(Error::ShareDenied), "its own is not courtesy");
    w.open(b, "/f", WRITE).unwrap();
    assert_eq!(w.state(elsewhere), None);
    assert_eq!(read::client(&*w.view(), a).unwrap(), None);
}

#[test]
fn one_living_client_in_conflict_saves_the_lapsed_one_too() {
    let mut w = World::new();
    let (a, b, c) = (w.client("a"), w.client("b"), w.client("c"));
    w.file("/f");
    let open = w.open_as(a, "o", "/f", READ, WRITE).unwrap();
    w.open_as(b, "o", "/f", READ, WRITE).unwrap();
    w.lapse(a).unwrap();
    assert_eq!(w.open(c, "/f", WRITE), Err(Error::ShareDenied));
    assert!(w.state(open).is_some());
    w.lapse(b).unwrap();
    w.open(c, "/f", WRITE).unwrap();
}

/// The file has no name any more, and only the lapsed client had it open: it stays for who opens it by its
/// handle.
#[test]
fn a_removed_file_passes_from_a_lapsed_client_to_the_next() {
    let mut w = World::new();
    let (a, b) = (w.client("a"), w.client("b"));
    let f = w.file("/f");
    w.open_as(a, "o", "/f", BOTH, BOTH).unwrap();
    w.remove("/f").unwrap();
    w.lapse(a).unwrap();
    let open = opened(w.open_target(b, "o", OpenTarget::Inode(f), READ, NONE).unwrap());
    assert_eq!(w.deferred(), []);
    w.close(b, open).unwrap();
    assert_eq!(w.deferred(), [(f, DeferredKind::Remove)]);
}

#[test]
fn a_conflicting_lock_goes_with_its_lapsed_client() {
    let mut w = World::new();
    let (a, b, c) = (w.client("a"), w.client("b"), w.client("c"));
    w.file("/f");
    let opens = [a, b, c].map(|client| w.open(client, "/f", BOTH).unwrap());
    w.lock_new(a, opens[0], "l", LockKind::Write, 0..10).unwrap();
    w.lock_new(b, opens[1], "l", LockKind::Write, 20..30).unwrap();
    w.lapse(a).unwrap();
    let denied = |outcome| matches!(outcome, Ok(Reply::Denied(_)));
    assert!(denied(w.lock_new(c, opens[2], "l", LockKind::Read, 0..30)), "b is alive");
    assert_eq!(w.held("/f"), ["w 0..10", "w 20..30"]);
    assert!(!denied(w.lock_new(c, opens[2], "l", LockKind::Read, 0..20)));
    assert_eq!(w.held("/f"), ["r 0..20", "w 20..30"]);
    assert_eq!(w.state(opens[0]), None, "the open under it, too");
}

#[test]
fn the_name_of_a_lapsed_client_is_free_for_another_principal() {
    let mut w = World::new();
    let a = w.client("a");
    w.file("/f");
    w.open(a, "/f", READ).unwrap();
    w.lapse(a).unwrap();
    assert_eq!(client_of(w.exchange("a", 1, &root(), false)), (a, 2, true), "it is back");
    let (b, ..) = client_of(w.exchange("a", 1, &other(), false));
    assert_eq!(read::clients(&*w.view()).unwrap(), [b]);
}

#[test]
fn backchannel_ctl_changes_how_a_session_is_called_back() {
    let mut w = World::new();
    let a = w.client("a");
    let session = read::sessions(&*w.view(), a).unwrap()[0];
    let sys = CallbackCredential::Sys { machine: b"h".to_vec(), uid: 1, gid: 2, gids: vec![3] };
    let callback = Callback { program: 9, credential: sys };
    w.apply(Command::BackchannelCtl { session, callback: callback.clone() }).unwrap();
    let record = read::session(&*w.view(), session).unwrap().unwrap();
    assert_eq!(record.channels, Channels { callback: callback.clone(), ..CHANNELS });
    let session = SessionId([1; 16]);
    assert_eq!(w.apply(Command::BackchannelCtl { session, callback }), Err(Error::BadSession));
}

#[test]
fn a_client_with_a_new_session_does_not_lapse_by_an_earlier_judgment() {
    let mut w = World::new();
    let a = w.client("a");
    let sequence = read::client(&*w.view(), a).unwrap().unwrap().sequence;
    let lapse = |sequence| Command::LapseLease { client: a, sequence };
    assert_eq!(w.apply(lapse(Some(sequence.wrapping_sub(1)))), Err(Error::ClientBusy));
    assert!(read::client(&*w.view(), a).unwrap().is_some());
    assert_eq!(w.apply(lapse(Some(sequence))), Ok(Reply::Done));
    assert!(read::client(&*w.view(), a).unwrap().is_none(), "it has no state");
}
