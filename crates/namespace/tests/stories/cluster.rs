//! Data servers and devices.

use namespace::*;

use crate::world::*;

fn server(id: u64, targets: &[u64]) -> DataServer {
    DataServer {
        id: DataServerId(id),
        name: format!("ds{id}"),
        addresses: vec![format!("10.0.0.{id}:2050")],
        service_address: None,
        zone: String::new(),
        targets: targets.iter().copied().map(TargetId).collect(),
        process: 1,
    }
}

fn define(w: &mut World, chains: &[u64]) -> Result<DeviceId, Error> {
    let chains = chains.iter().copied().map(ChainId).collect();
    match w.apply(Command::DefineDevice { chains })? {
        Reply::Device { id } => Ok(id),
        reply => panic!("{reply:?}"),
    }
}

#[test]
fn a_device_is_an_exact_list_of_known_targets() {
    let mut w = World::new();
    w.apply(Command::PutDataServer { server: server(1, &[11, 12]), known: None }).unwrap();
    w.apply(Command::PutDataServer { server: server(2, &[21]), known: None }).unwrap();
    assert_eq!(read::data_servers(&*w.view()).unwrap(), [server(1, &[11, 12]), server(2, &[21])]);
    let one = define(&mut w, &[11, 21]).unwrap();
    assert_eq!(define(&mut w, &[11, 21]), Ok(one));
    let other = define(&mut w, &[21, 11]).unwrap();
    assert_ne!(one, other, "the order counts");
    assert_eq!(define(&mut w, &[11, 99]), Err(Error::NoDevice));
    assert_eq!(define(&mut w, &[]), Err(Error::NoDevice));
    let device = read::device(&*w.view(), other).unwrap().unwrap();
    assert_eq!((device.id, device.chains), (other, vec![ChainId(21), ChainId(11)]));
    assert_eq!(read::devices(&*w.view()).unwrap().len(), 2);
}

#[test]
fn a_target_moves_with_its_disk() {
    let mut w = World::new();
    w.apply(Command::PutDataServer { server: server(1, &[11, 12]), known: None }).unwrap();
    w.apply(Command::PutDataServer { server: server(2, &[12, 21, 12]), known: None }).unwrap();
    assert_eq!(read::data_servers(&*w.view()).unwrap(), [server(1, &[11]), server(2, &[12, 21])]);
    assert_eq!(read::target_server(&*w.view(), TargetId(12)).unwrap(), Some(DataServerId(2)));
    w.apply(Command::PutDataServer { server: server(2, &[21]), known: None }).unwrap();
    assert_eq!(read::target_server(&*w.view(), TargetId(12)).unwrap(), None);
}

fn node(key: NodeKey, state: NodeState) -> Node {
    let (name, address) = ("mds1".to_string(), "10.0.0.1:2049".to_string());
    Node { key, name, address, version: "0.1.0".to_string(), state }
}

#[test]
fn each_change_of_the_map_raises_its_version_and_what_changes_nothing_does_not() {
    let mut w = World::new();
    let key = NodeKey::Metaserver(7);
    let map = |w: &World| read::cluster_map(&*w.view()).unwrap();
    assert_eq!((map(&w).head.version, map(&w).pools.len(), map(&w).head.groups.len()), (0, 0, 1));
    for _ in 0..2 {
        w.apply(Command::Map(MapChange::Put(node(key, NodeState::Serving)))).unwrap();
    }
    assert_eq!((map(&w).head.version, map(&w).state(key)), (1, NodeState::Serving));
    w.apply(Command::PutDataServer { server: server(1, &[11]), known: None }).unwrap();
    w.apply(Command::PutDataServer { server: server(1, &[11]), known: None }).unwrap();
    assert_eq!(map(&w).head.version, 2);
    let addresses = vec![[10, 0, 0, 100].into()];
    w.apply(Command::Map(MapChange::ServiceAddresses(addresses.clone()))).unwrap();
    assert_eq!((map(&w).head.version, map(&w).head.service_addresses), (3, addresses));
    let twice = vec![[10, 0, 0, 100].into(); 2];
    assert_eq!(w.apply(Command::Map(MapChange::ServiceAddresses(twice))), Err(Error::Invalid));
}

#[test]
fn settings_change_all_together_or_not_at_all_and_a_cluster_begins_once() {
    let mut w = World::new();
    let map = |w: &World| read::cluster_map(&*w.view()).unwrap();
    let rows = |map: &ClusterMap| {
        map.settings.iter().map(|(key, value)| format!("{key} {value}")).collect::<Vec<_>>().join(", ")
    };
    let begin = |lease: &str| {
        let settings = vec![("lease".to_string(), lease.to_string()), ("trash".into(), "1d".into())];
        Command::Map(MapChange::Begin { settings, service_addresses: vec![[10, 0, 0, 100].into()] })
    };
    w.apply(begin("30s")).unwrap();
    w.apply(begin("5s")).unwrap();
    assert_eq!((map(&w).head.version, map(&w).head.begun), (1, true));
    assert_eq!((rows(&map(&w)).as_str(), map(&w).head.service_addresses.len()), ("lease 30s, trash 1d", 1));

    let set = |changes: &[(&str, Option<&str>)]| {
        let owned = changes.iter().map(|(key, value)| (key.to_string(), value.map(str::to_string)));
        Command::Map(MapChange::Set(owned.collect()))
    };
    w.apply(set(&[("lease", Some("20s")), ("trash", None), ("export / *", Some("rw"))])).unwrap();
    assert_eq!(rows(&map(&w)), "export / * rw, lease 20s");
    assert_eq!((map(&w).head.version, map(&w).head.settings), (2, 2));
    w.apply(set(&[("lease", Some("20s")), ("trash", None)])).unwrap();
    assert_eq!(map(&w).head.version, 2, "nothing is new");
    let long = "x".repeat(SETTING_VALUE_BYTES_MAX + 1);
    for wrong in [
        set(&[("lease", Some("9s")), ("lease", Some("8s"))]),
        set(&[("lease", Some("9s")), ("", Some("8s"))]),
        set(&[("lease", Some("9s")), ("more", Some(&long))]),
    ] {
        assert_eq!(w.apply(wrong), Err(Error::Invalid));
    }
    let many: Vec<_> = (0..SETTINGS_MAX).map(|n| (n.to_string(), Some("x".to_string()))).collect();
    assert_eq!(w.apply(Command::Map(MapChange::Set(many))), Err(Error::Invalid), "two more than fit");
    assert_eq!(rows(&map(&w)), "export / * rw, lease 20s");
}

#[test]
fn service_addresses_come_and_go_one_by_one() {
    let mut w = World::new();
    let [one, two] = [100, 101].map(|last| std::net::IpAddr::from([10, 0, 0, last]));
    let add = |address| Command::Map(MapChange::AddServiceAddress(address));
    let remove = |address| Command::Map(MapChange::RemoveServiceAddress(address));
    for change in [add(one), add(two), remove(one)] {
        w.apply(change).unwrap();
    }
    assert_eq!(w.apply(add(two)), Err(Error::Exists));
    assert_eq!(w.apply(remove(one)), Err(Error::NoEntry));
    let head = read::cluster_map(&*w.view()).unwrap().head;
    assert_eq!((head.version, head.service_addresses), (3, vec![two]));
}

#[test]
fn a_server_that_was_drained_or_removed_stays_so_when_it_says_that_it_serves() {
    let mut w = World::new();
    let key = NodeKey::DataServer(DataServerId(1));
    let unknown = Command::Map(MapChange::State(key, NodeState::Draining));
    assert_eq!(w.apply(unknown), Err(Error::NoEntry));
    for state in [NodeState::Draining, NodeState::Removed] {
        w.apply(Command::Map(MapChange::Put(node(key, NodeState::Serving)))).unwrap();
        w.apply(Command::Map(MapChange::State(key, state))).unwrap();
        w.apply(Command::Map(MapChange::Put(node(key, NodeState::Serving)))).unwrap();
        assert_eq!(read::cluster_map(&*w.view()).unwrap().state(key), state);
        w.apply(Command::Map(MapChange::State(key, NodeState::Serving))).unwrap();
    }
    let mut long = node(key, NodeState::Serving);
    long.name = "n".repeat(NODE_TEXT_BYTES_MAX + 1);
    assert_eq!(w.apply(Command::Map(MapChange::Put(long))), Err(Error::Invalid));
}

#[test]
fn a_registration_that_is_late_does_not_undo_that_of_the_next_process() {
    let mut w = World::new();
    let run = |process| DataServer { process, ..server(1, &[11]) };
    let put = |process, known| Command::PutDataServer { server: run(process), known };
    let process = |w: &World| read::cluster_map(&*w.view()).unwrap().data_servers[0].process;
    w.apply(put(1, None)).unwrap();
    w.apply(put(2, Some(1))).unwrap();
    // Of a metaserver that has not heard of process 2, nor of 1.
    for known in [Some(1), None] {
        assert_eq!(w.apply(put(1, known)), Err(Error::Delay));
        assert_eq!(w.apply(put(3, known)), Err(Error::Delay));
    }
    assert_eq!(process(&w), 2);
    w.apply(put(2, Some(1))).unwrap();
    let moved = DataServer { zone: "b".into(), ..run(2) };
    w.apply(Command::PutDataServer { server: moved, known: Some(1) }).unwrap();
    w.apply(put(3, Some(2))).unwrap();
    assert_eq!(process(&w), 3);
}

#[test]
fn a_target_that_is_known_can_be_declared_lost_and_found_again() {
    let mut w = World::new();
    let declare = |target, state| Command::Map(MapChange::Target(TargetId(target), state));
    let lost = |w: &World| read::cluster_map(&*w.view()).unwrap().lost_targets().collect::<Vec<_>>();
    assert_eq!(w.apply(declare(11, TargetState::Lost)), Err(Error::NoDevice));
    w.apply(Command::PutDataServer { server: server(1, &[11, 12]), known: None }).unwrap();
    define(&mut w, &[12]).unwrap();
    // Its data server has it no more, but files may.
    w.apply(Command::PutDataServer { server: server(1, &[11]), known: None }).unwrap();
    for _ in 0..2 {
        for target in [12, 11] {
            w.apply(declare(target, TargetState::Lost)).unwrap();
        }
        assert_eq!(lost(&w), [TargetId(11), TargetId(12)]);
    }
    let version = read::cluster_map(&*w.view()).unwrap().head.version;
    w.apply(Command::PutDataServer { server: server(2, &[11]), known: None }).unwrap();
    assert_eq!(lost(&w).len(), 2, "another server has it: it stays lost");
    for _ in 0..2 {
        w.apply(declare(11, TargetState::InUse)).unwrap();
        assert_eq!(lost(&w), [TargetId(12)]);
        assert_eq!(read::cluster_map(&*w.view()).unwrap().head.version, version + 2);
    }
}

#[test]
fn a_target_drains_and_is_removed_once_no_chain_has_it() {
    let mut w = World::new();
    for id in [1, 2, 3] {
        w.apply(Command::PutDataServer { server: server(id, &[id + 10]), known: None }).unwrap();
    }
    let targets = vec![TargetId(11), TargetId(12)];
    w.apply(Command::MakeChains { chains: vec![NewChain { id: ChainId(99), targets }] }).unwrap();
    let declare = |target, state| Command::Map(MapChange::Target(TargetId(target), state));
    let state = |w: &World, target| read::cluster_map(&*w.view()).unwrap().target_state(TargetId(target));
    w.apply(Command::Map(MapChange::MakePool("flash".into()))).unwrap();
    let version = read::cluster_map(&*w.view()).unwrap().head.version;
    w.apply(Command::Map(MapChange::PoolTargets(PoolId(1), vec![TargetId(11)], version))).unwrap();
    assert_eq!(w.apply(declare(11, TargetState::Removed)), Err(Error::Invalid), "it may get data");
    w.apply(declare(11, TargetState::Draining)).unwrap();
    assert_eq!(w.apply(declare(11, TargetState::Removed)), Err(Error::NotEmpty));
    assert_eq!(state(&w, 11), TargetState::Draining);
    let map = read::cluster_map(&*w.view()).unwrap();
    assert!(map.is_draining(TargetId(11), DataServerId(1)) && map.lost_targets().next().is_none());
    // Another one takes its place.
    let steps = [
        ChainStep::Move(TargetId(11), TargetId(13)),
        ChainStep::Complete(TargetId(13)),
        ChainStep::Drop(TargetId(11)),
    ];
    for (version, step) in (1..).zip(steps) {
        let change = ChainChange { chain: ChainId(99), version, step };
        w.apply(Command::ChangeChains { changes: vec![change] }).unwrap();
    }
    w.apply(declare(11, TargetState::Removed)).unwrap();
    let lost: Vec<_> = read::cluster_map(&*w.view()).unwrap().lost_targets().collect();
    assert_eq!(lost, [TargetId(11)], "nothing waits for it");
    w.apply(Command::Map(MapChange::RemovePool(PoolId(1)))).expect("the pool has no targets");
    assert_eq!(w.apply(declare(11, TargetState::Draining)), Err(Error::Invalid));
    w.apply(declare(11, TargetState::InUse)).unwrap();
    assert_eq!(state(&w, 11), TargetState::InUse);
}

#[test]
fn a_chain_gets_more_copies_and_never_fewer() {
    let mut w = World::new();
    for id in [1, 2] {
        w.apply(Command::PutDataServer { server: server(id, &[id + 10]), known: None }).unwrap();
    }
    let targets = vec![TargetId(11), TargetId(12)];
    w.apply(Command::MakeChains { chains: vec![NewChain { id: ChainId(99), targets }] }).unwrap();
    let chain = |w: &World| read::cluster_map(&*w.view()).unwrap().chains[0].clone();
    let step = |w: &mut World, version, step| {
        let change = ChainChange { chain: ChainId(99), version, step };
        w.apply(Command::ChangeChains { changes: vec![change] }).unwrap();
    };
    for (version, copies, expected) in [(1, 2, 2), (1, 4, 2), (1, 3, 3), (2, 2, 3)] {
        step(&mut w, version, ChainStep::Copies(copies));
        assert_eq!(chain(&w).copies, expected, "{copies}");
    }
    // One that is about to move a member keeps it.
    let targets = vec![TargetId(11), TargetId(12)];
    w.apply(Command::MakeChains { chains: vec![NewChain { id: ChainId(98), targets }] }).unwrap();
    w.apply(Command::PutDataServer { server: server(3, &[13]), known: None }).unwrap();
    for (version, step) in (1..).zip([ChainStep::Move(TargetId(11), TargetId(13)), ChainStep::Copies(3)]) {
        let change = ChainChange { chain: ChainId(98), version, step };
        w.apply(Command::ChangeChains { changes: vec![change] }).unwrap();
    }
    let moved = read::cluster_map(&*w.view()).unwrap().chains[0].clone();
    assert_eq!((moved.id, moved.copies, moved.leaving, moved.members.len()), (ChainId(98), 3, None, 3));
}

#[test]
fn a_removed_data_server_stays_in_the_map_and_is_not_present() {
    let mut w = World::new();
    for id in [1, 2] {
        w.apply(Command::PutDataServer { server: server(id, &[id * 10]), known: None }).unwrap();
        let key = NodeKey::DataServer(DataServerId(id));
        w.apply(Command::Map(MapChange::Put(node(key, NodeState::Serving)))).unwrap();
    }
    let key = NodeKey::DataServer(DataServerId(1));
    w.apply(Command::Map(MapChange::State(key, NodeState::Removed))).unwrap();
    let map = read::cluster_map(&*w.view()).unwrap();
    let present: Vec<_> = map.present_data_servers().map(|server| server.id.0).collect();
    assert_eq!((present, map.data_servers.len()), (vec![2], 2));
    assert!(map.is_removed(DataServerId(1)) && !map.is_removed(DataServerId(2)));
}

#[test]
fn a_join_token_lets_one_machine_in_until_it_ends_or_is_revoked() {
    let mut w = World::new();
    let at = |w: &World| w.seconds.unsigned_abs();
    let token = |change| Command::JoinToken(change);
    let make = |id, expires| token(TokenChange::Make { id, expires });
    let uses =
        |id, name: &str, ticket| token(TokenChange::Use { id, name: name.into(), ticket: [ticket; 32] });
    let end = at(&w) + 60;
    w.apply(make(7, end)).unwrap();
    assert_eq!(w.apply(make(7, end)), Err(Error::Exists));
    assert_eq!(w.apply(make(8, at(&w))), Err(Error::Invalid), "it has ended");
    assert_eq!(w.apply(uses(9, "elm", 1)), Err(Error::NoEntry));
    w.apply(uses(7, "elm", 1)).unwrap();
    w.apply(uses(7, "elm", 1)).unwrap();
    assert_eq!(w.apply(uses(7, "elm", 2)), Err(Error::Exists), "another machine, whatever it is called");
    let all = read::join_tokens(&*w.view()).unwrap();
    assert_eq!(all[0].used.as_ref().map(|used| used.name.as_str()), Some("elm"));

    w.apply(make(8, end)).unwrap();
    w.apply(token(TokenChange::Revoke { id: 8 })).unwrap();
    assert_eq!(w.apply(uses(8, "oak", 3)), Err(Error::NoEntry));
    assert_eq!(w.apply(token(TokenChange::Revoke { id: 8 })), Err(Error::NoEntry));

    w.apply(make(9, end)).unwrap();
    w.seconds += 61;
    assert_eq!(w.apply(uses(9, "oak", 3)), Err(Error::NoEntry));
    assert_eq!(w.apply(uses(7, "elm", 1)), Err(Error::NoEntry));
    let later = end + 10_000;
    for id in 0..JOIN_TOKENS_MAX as u64 {
        w.apply(make(100 + id, later)).unwrap();
    }
    assert_eq!(w.apply(make(99, later)), Err(Error::Invalid), "so many at most");
    assert_eq!(read::join_tokens(&*w.view()).unwrap().len(), JOIN_TOKENS_MAX, "those that ended are gone");
}
