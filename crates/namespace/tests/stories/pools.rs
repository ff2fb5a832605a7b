//! Pools: targets, directories and chains of them.

use namespace::*;

use crate::world::*;

const CHAIN: ChainId = ChainId(900);

fn server(id: u64, process: u64, targets: &[u64]) -> DataServer {
    DataServer {
        id: DataServerId(id),
        name: format!("ds{id}"),
        addresses: vec![format!("10.0.0.{id}:2050")],
        service_address: None,
        zone: String::new(),
        targets: targets.iter().copied().map(TargetId).collect(),
        process,
    }
}

/// Data servers 1 to 4, each with the target of its number.
fn world() -> World {
    let mut w = World::new();
    for id in 1..=4 {
        w.apply(Command::PutDataServer { server: server(id, 1, &[id]), known: None }).unwrap();
    }
    w
}

fn make(w: &mut World, name: &str) -> Result<PoolId, Error> {
    w.apply(Command::Map(MapChange::MakePool(name.into())))?;
    Ok(read::pools(&*w.view()).unwrap().into_iter().find(|pool| pool.name == name).expect("it is made").id)
}

fn put(w: &mut World, pool: PoolId, targets: &[u64]) -> Result<Reply, Error> {
    let targets = targets.iter().copied().map(TargetId).collect();
    let version = read::cluster_map(&*w.view()).unwrap().head.version;
    w.apply(Command::Map(MapChange::PoolTargets(pool, targets, version)))
}

fn remove(w: &mut World, pool: PoolId) -> Result<Reply, Error> {
    w.apply(Command::Map(MapChange::RemovePool(pool)))
}

fn choose(w: &mut World, path: &str, pool: Option<PoolId>) -> Result<Reply, Error> {
    let policy = |pool| StripePolicy { unit: StripeUnit::DEFAULT, columns: 0, copies: 1, pool };
    w.apply(Command::SetStripe { dir: w.id(path), policy: pool.map(policy) })
}

fn pool(w: &World, id: PoolId) -> Pool {
    read::pools(&*w.view()).unwrap().into_iter().find(|pool| pool.id == id).expect("a pool")
}

#[test]
fn a_pool_has_targets_and_is_kept_while_it_has_any_or_a_directory_names_it() {
    let mut w = world();
    let flash = make(&mut w, "flash").unwrap();
    assert_eq!((make(&mut w, "flash"), make(&mut w, DEFAULT_POOL)), (Err(Error::Exists), Err(Error::Exists)));
    assert_eq!(w.apply(Command::Map(MapChange::MakePool(String::new()))), Err(Error::Invalid));
    assert_eq!(put(&mut w, flash, &[1, 99]), Err(Error::NoDevice), "all or none");
    put(&mut w, flash, &[1, 2]).unwrap();
    let map = read::cluster_map(&*w.view()).unwrap();
    assert_eq!((map.pool_of(TargetId(1)), map.pool_of(TargetId(3))), (flash, PoolId::DEFAULT));
    assert_eq!((map.pool_named("flash"), map.pool_named(DEFAULT_POOL)), (Some(flash), Some(PoolId::DEFAULT)));
    assert_eq!(
        (map.pool_named("disk"), map.pool_name(flash), map.pool_name(PoolId(99))),
        (None, "flash", "default")
    );
    put(&mut w, flash, &[1, 2]).unwrap();
    assert_eq!(read::cluster_map(&*w.view()).unwrap().head.version, map.head.version, "nothing changed");

    w.dir("/a");
    w.dir("/a/b");
    choose(&mut w, "/a", Some(flash)).unwrap();
    choose(&mut w, "/a/b", Some(flash)).unwrap();
    assert_eq!((pool(&w, flash).targets, pool(&w, flash).directories), (2, 2));
    let b = w.id("/a/b");
    assert_eq!(read::stripe_policy(&*w.view(), b).unwrap().unwrap().pool, flash);
    assert_eq!(choose(&mut w, "/a", Some(PoolId(99))), Err(Error::NoEntry));
    assert_eq!(remove(&mut w, flash), Err(Error::NotEmpty));
    assert_eq!(put(&mut w, PoolId::DEFAULT, &[1, 2]), Err(Error::NotEmpty), "directories name it");
    w.remove("/a/b").unwrap();
    assert_eq!(pool(&w, flash).directories, 1, "that of a removed directory is forgotten");
    choose(&mut w, "/a", None).unwrap();
    assert_eq!(remove(&mut w, flash), Err(Error::NotEmpty), "it has targets");
    let late = MapChange::PoolTargets(PoolId::DEFAULT, vec![TargetId(1)], 1);
    assert_eq!(w.apply(Command::Map(late)), Err(Error::Delay), "by an old map");
    // A target that no data server has any more.
    w.apply(Command::PutDataServer { server: server(1, 1, &[]), known: None }).unwrap();
    put(&mut w, PoolId::DEFAULT, &[1, 2]).unwrap();
    assert_eq!(put(&mut w, flash, &[1]), Err(Error::NoDevice));
    assert_eq!(choose(&mut w, "/a", Some(flash)), Err(Error::NoDevice), "it has no targets");
    remove(&mut w, flash).unwrap();
    assert_eq!(remove(&mut w, flash), Err(Error::NoEntry));
    assert_eq!(put(&mut w, flash, &[1]), Err(Error::NoEntry));
    assert_ne!(make(&mut w, "flash").unwrap(), flash, "ids are not used again");
}

#[test]
fn a_chain_is_of_one_pool_and_goes_to_another_with_its_members() {
    let mut w = world();
    let flash = make(&mut w, "flash").unwrap();
    put(&mut w, flash, &[1, 2]).unwrap();
    let chain = |id, targets: &[u64]| {
        let targets = targets.iter().copied().map(TargetId).collect();
        Command::MakeChains { chains: vec![NewChain { id: ChainId(id), targets }] }
    };
    assert_eq!(w.apply(chain(900, &[1, 3])), Err(Error::Invalid), "of two pools");
    w.apply(chain(900, &[1, 2])).unwrap();
    w.apply(chain(901, &[3, 4])).unwrap();
    w.apply(Command::OpenChains {
        chains: vec![OpenChain { id: ChainId(902), target: TargetId(2), copies: 2 }],
    })
    .unwrap();
    let of = |w: &World, id| read::chain(&*w.view(), ChainId(id)).unwrap().unwrap();
    assert_eq!([900, 901, 902].map(|id| of(&w, id).pool), [flash, PoolId::DEFAULT, flash]);

    let step = |w: &mut World, pool| {
        let version = of(w, 900).version;
        let step = ChainStep::Pool(pool);
        w.apply(Command::ChangeChains { changes: vec![ChainChange { chain: CHAIN, version, step }] })
            .unwrap();
        of(w, 900)
    };
    assert_eq!((step(&mut w, flash).version, step(&mut w, PoolId::DEFAULT).pool), (1, flash), "it stays");
    put(&mut w, PoolId::DEFAULT, &[1, 2]).unwrap();
    let moved = step(&mut w, PoolId::DEFAULT);
    assert_eq!((moved.pool, moved.version), (PoolId::DEFAULT, 2));
}

/// Else it would be recorded without a member that is in, and none could lead again.
#[test]
fn a_chain_whose_members_have_all_started_again_keeps_its_record() {
    let mut w = world();
    w.apply(Command::OpenChains { chains: vec![OpenChain { id: CHAIN, target: TargetId(1), copies: 2 }] })
        .unwrap();
    let change = |w: &mut World, step| {
        let version = read::chain(&*w.view(), CHAIN).unwrap().unwrap().version;
        w.apply(Command::ChangeChains { changes: vec![ChainChange { chain: CHAIN, version, step }] })
            .unwrap();
        read::chain(&*w.view(), CHAIN).unwrap().unwrap()
    };
    w.apply(Command::PutDataServer { server: server(1, 2, &[1]), known: Some(1) }).unwrap();
    let flash = make(&mut w, "flash").unwrap();
    put(&mut w, flash, &[1]).unwrap();
    for step in [ChainStep::Close, ChainStep::Pool(flash), ChainStep::Closed, ChainStep::Copies(2)] {
        assert_eq!(change(&mut w, step).version, 1, "{step:?}");
    }
    let led = change(&mut w, ChainStep::Lead(TargetId(1)));
    assert_eq!((led.head(), led.is_open()), (Some(TargetId(1)), true));
    assert_eq!(change(&mut w, ChainStep::Pool(flash)).pool, flash);
    assert!(change(&mut w, ChainStep::Close).is_closing());
    w.apply(Command::PutDataServer { server: server(1, 3, &[1]), known: Some(2) }).unwrap();
    assert!(change(&mut w, ChainStep::Closed).is_closing());
    change(&mut w, ChainStep::Lead(TargetId(1)));
    assert!(!change(&mut w, ChainStep::Closed).is_closing());
}

#[test]
fn a_rollback_puts_a_directory_back_whose_pool_has_no_targets_any_more() {
    let mut w = world();
    let flash = make(&mut w, "flash").expect("makes");
    put(&mut w, flash, &[1]).expect("puts");
    w.dir("/d");
    choose(&mut w, "/d", Some(flash)).expect("chooses");
    w.apply(Command::MakeSnapshot { volume: VolumeId::FIRST, name: b"one".to_vec() }).expect("makes");
    choose(&mut w, "/d", None).expect("chooses");
    put(&mut w, PoolId::DEFAULT, &[1]).expect("puts");
    let back = Command::RollBack { volume: VolumeId::FIRST, name: b"one".to_vec(), force: false };
    assert_eq!(
        w.apply(back.clone()),
        Ok(Reply::RolledBack { begun: true }),
        "nothing may refuse it half way"
    );
    assert_eq!(w.stat("/d").directory().expect("a directory").stripe, None);
    assert_eq!(pool(&w, flash).directories, 0);
    remove(&mut w, flash).expect("removes");
    w.apply(back).expect("rolls back");
}
