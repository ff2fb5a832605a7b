//! Chains: the members that have all data, and those that have not.

use namespace::MemberState::{Away, Doubted, In, Refilling};
use namespace::*;

use crate::world::*;

const CHAIN: ChainId = ChainId(900);

/// A data server with one target, whose id is ten times as large.
fn server(id: u64, process: u64) -> Command {
    Command::PutDataServer {
        server: DataServer {
            id: DataServerId(id),
            name: format!("ds{id}"),
            addresses: vec![format!("10.0.0.{id}:2050")],
            service_address: None,
            zone: String::new(),
            targets: vec![TargetId(10 * id)],
            process,
        },
        known: process.checked_sub(1),
    }
}

fn make(w: &mut World, id: u64, targets: &[u64]) -> Result<Reply, Error> {
    let targets = targets.iter().copied().map(TargetId).collect();
    w.apply(Command::MakeChains { chains: vec![NewChain { id: ChainId(id), targets }] })
}

/// A chain of the targets 10, 20, 30.
fn chain_of_three() -> World {
    let mut w = World::new();
    for id in 1..=4 {
        w.apply(server(id, 1)).unwrap();
    }
    make(&mut w, CHAIN.0, &[10, 20, 30]).unwrap();
    w
}

fn chain(w: &World) -> Chain {
    read::chain(&*w.view(), CHAIN).unwrap().unwrap()
}

fn members(w: &World) -> Vec<(u64, MemberState)> {
    chain(w).members.iter().map(|member| (member.target.0, member.state)).collect()
}

/// Applies a step to the present version. Returns true if it had an effect.
fn step(w: &mut World, step: ChainStep) -> bool {
    let version = chain(w).version;
    w.apply(Command::ChangeChains { changes: vec![ChainChange { chain: CHAIN, version, step }] }).unwrap();
    chain(w).version == version + 1
}

#[test]
fn a_chain_is_of_known_targets_on_different_servers() {
    let mut w = chain_of_three();
    assert_eq!(make(&mut w, CHAIN.0, &[10, 20]), Err(Error::Invalid), "there is one");
    assert_eq!(make(&mut w, 10, &[20, 30]), Err(Error::Invalid), "the id of a target");
    assert_eq!(make(&mut w, 901, &[10]), Err(Error::Invalid));
    assert_eq!(make(&mut w, 901, &[10, 20, 30, 40]), Err(Error::Invalid));
    assert_eq!(make(&mut w, 901, &[10, 10]), Err(Error::Invalid));
    assert_eq!(make(&mut w, 901, &[10, 99]), Err(Error::NoDevice));
    let device = Command::DefineDevice { chains: vec![CHAIN, ChainId(40)] };
    assert!(matches!(w.apply(device), Ok(Reply::Device { .. })), "chains of three and of one");
    assert_eq!(read::chains_of_target(&*w.view(), TargetId(20)).unwrap(), [CHAIN]);
    assert_eq!(read::chains_of_target(&*w.view(), TargetId(40)).unwrap(), []);
}

#[test]
fn a_member_leaves_returns_and_is_refilled() {
    let mut w = chain_of_three();
    assert!(step(&mut w, ChainStep::Leave(TargetId(10))));
    assert_eq!(members(&w), [(20, In), (30, In), (10, Away)]);
    assert!(!step(&mut w, ChainStep::Leave(TargetId(10))), "it has");
    assert!(!step(&mut w, ChainStep::Complete(TargetId(10))), "it is not there");
    assert!(step(&mut w, ChainStep::Return(TargetId(10))));
    assert_eq!(members(&w), [(20, In), (30, In), (10, Refilling)]);
    assert!(step(&mut w, ChainStep::Leave(TargetId(20))));
    assert_eq!(members(&w), [(30, In), (10, Refilling), (20, Away)]);
    assert!(!step(&mut w, ChainStep::Leave(TargetId(30))), "it alone has all data");
    assert!(step(&mut w, ChainStep::Complete(TargetId(10))));
    assert!(step(&mut w, ChainStep::Leave(TargetId(30))));
    assert_eq!((members(&w), chain(&w).version), (vec![(10, In), (30, Away), (20, Away)], 6));
    let late = ChainChange { chain: CHAIN, version: 5, step: ChainStep::Return(TargetId(20)) };
    w.apply(Command::ChangeChains { changes: vec![late] }).unwrap();
    assert_eq!(chain(&w).version, 6, "a change of an earlier version");
}

#[test]
fn a_process_that_starts_again_is_refilled_and_the_last_one_leads() {
    let mut w = chain_of_three();
    let verifier = chain(&w).verifier;
    w.apply(server(1, 2)).unwrap();
    assert_eq!(members(&w), [(10, Away), (20, In), (30, In)]);
    assert_eq!(chain(&w).head(), Some(TargetId(20)));
    assert!(!step(&mut w, ChainStep::Lead(TargetId(10))), "others have all data");
    assert!(step(&mut w, ChainStep::Return(TargetId(10))));
    w.apply(server(1, 3)).unwrap();
    assert!(!step(&mut w, ChainStep::Complete(TargetId(10))), "it started again meanwhile");
    w.apply(server(2, 2)).unwrap();
    w.apply(server(3, 2)).unwrap();
    assert_eq!(chain(&w).head(), None);
    assert!(!step(&mut w, ChainStep::Return(TargetId(10))), "nothing refills it");
    assert!(!step(&mut w, ChainStep::Lead(TargetId(10))), "it had not all data");
    assert_eq!(chain(&w).verifier, verifier);
    assert!(step(&mut w, ChainStep::Lead(TargetId(30))));
    assert_eq!(members(&w), [(30, In), (20, Away), (10, Away)]);
    assert_ne!(chain(&w).verifier, verifier, "unsynced writes may be lost");
}

#[test]
fn a_lost_target_is_replaced() {
    let mut w = chain_of_three();
    let replace = ChainStep::Replace(TargetId(20), TargetId(40));
    assert!(!step(&mut w, replace), "it is in");
    assert!(step(&mut w, ChainStep::Leave(TargetId(20))));
    assert!(!step(&mut w, ChainStep::Replace(TargetId(20), TargetId(30))), "a member already");
    assert!(!step(&mut w, ChainStep::Replace(TargetId(20), TargetId(99))), "unknown");
    assert!(step(&mut w, replace));
    assert_eq!(members(&w), [(10, In), (30, In), (40, Refilling)]);
    assert_eq!(read::chains_of_target(&*w.view(), TargetId(20)).unwrap(), []);
    assert_eq!(read::chains_of_target(&*w.view(), TargetId(40)).unwrap(), [CHAIN]);
}

#[test]
fn a_target_takes_the_place_of_one_that_still_serves() {
    let mut w = chain_of_three();
    w.apply(server(5, 1)).unwrap();
    assert!(!step(&mut w, ChainStep::Drop(TargetId(10))), "three copies are wanted");
    assert!(!step(&mut w, ChainStep::Add(TargetId(10))) && !step(&mut w, ChainStep::Add(TargetId(99))));
    assert!(step(&mut w, ChainStep::Add(TargetId(40))));
    assert!(!step(&mut w, ChainStep::Add(TargetId(50))), "one more at a time");
    assert!(!step(&mut w, ChainStep::Drop(TargetId(10))), "the new one has not all data yet");
    assert!(step(&mut w, ChainStep::Complete(TargetId(40))));
    assert!(step(&mut w, ChainStep::Drop(TargetId(10))));
    assert_eq!(members(&w), [(20, In), (30, In), (40, In)]);
    assert_eq!(read::chains_of_target(&*w.view(), TargetId(10)).unwrap(), []);
}

#[test]
fn a_member_moves_to_another_target_when_that_one_has_all_data() {
    let mut w = chain_of_three();
    let [from, to] = [10, 40].map(TargetId);
    let whole = [(10, In), (20, In), (30, In)];
    assert!(!step(&mut w, ChainStep::Move(TargetId(99), to)), "no member");
    assert!(!step(&mut w, ChainStep::Move(from, TargetId(20))), "a member already");
    assert!(!step(&mut w, ChainStep::Move(from, TargetId(99))), "no data server has it");
    assert_eq!((members(&w), chain(&w).leaving), (whole.to_vec(), None));
    assert!(step(&mut w, ChainStep::Move(from, to)));
    assert_eq!(members(&w), [(10, In), (20, In), (30, In), (40, Refilling)]);
    assert_eq!(chain(&w).leaving, Some(from));
    assert!(!step(&mut w, ChainStep::Move(TargetId(20), to)) && !step(&mut w, ChainStep::Drop(from)));
    assert!(step(&mut w, ChainStep::Complete(to)) && step(&mut w, ChainStep::Drop(from)));
    assert_eq!((members(&w), chain(&w).leaving), (vec![(20, In), (30, In), (40, In)], None));
    // The new member is lost before it has all data: nothing has moved.
    assert!(step(&mut w, ChainStep::Move(TargetId(20), from)));
    assert!(step(&mut w, ChainStep::Leave(from)) && step(&mut w, ChainStep::Drop(from)));
    assert_eq!((members(&w), chain(&w).leaving), (vec![(20, In), (30, In), (40, In)], None));
    // A chain that lacks a member does not move.
    assert!(step(&mut w, ChainStep::Leave(TargetId(40))));
    assert!(!step(&mut w, ChainStep::Move(TargetId(40), from)), "it is away");
}

#[test]
fn columns_that_exist_are_put_on_open_chains_of_their_targets() {
    let mut w = World::new();
    (1..=4).for_each(|id| drop(w.apply(server(id, 1)).unwrap()));
    let open = |id, target, copies| Command::OpenChains {
        chains: vec![OpenChain { id: ChainId(id), target: TargetId(target), copies }],
    };
    w.apply(open(CHAIN.0, 10, 2)).unwrap();
    assert_eq!(w.apply(open(CHAIN.0, 10, 2)), Err(Error::Invalid), "there is one");
    assert_eq!(w.apply(open(20, 10, 2)), Err(Error::Invalid), "the id of a target");
    assert_eq!(w.apply(open(901, 99, 2)), Err(Error::NoDevice));
    assert_eq!(w.apply(open(901, 10, 0)), Err(Error::Invalid));
    assert_eq!(w.apply(open(901, 10, 4)), Err(Error::Invalid));
    make(&mut w, 902, &[10, 20]).unwrap();
    assert!(chain(&w).is_open() && !read::chain(&*w.view(), ChainId(902)).unwrap().unwrap().is_open());

    // A file of two columns on the targets 10 and 20.
    let device = |w: &mut World, chains: [u64; 2]| {
        let chains = chains.map(ChainId).to_vec();
        let Ok(Reply::Device { id }) = w.apply(Command::DefineDevice { chains }) else { panic!("no device") };
        id
    };
    let (alone, joined) = (device(&mut w, [10, 20]), device(&mut w, [20, CHAIN.0]));
    let (filled, other) = (device(&mut w, [20, 902]), device(&mut w, [20, 30]));
    let a = w.client("a");
    let inode = w.file("/f");
    let open_state = w.open(a, "/f", BOTH).unwrap();
    w.layout(a, "/f", open_state, IoMode::ReadWrite).unwrap();
    w.close(a, open_state).unwrap();
    let there = w.stat("/f").columns().unwrap();
    let from = FileLayout { device: alone, first: 0, columns: 2, ..there };
    let relocate = |w: &mut World, from, to| {
        let checked = w.version("/f");
        w.apply(Command::Relocate { inode, from, to, checked })
    };
    if there.columns == 2 {
        relocate(&mut w, there, from).unwrap();
    }
    let to = |device| FileLayout { device, first: 1, ..from };
    assert_eq!(relocate(&mut w, from, to(filled)), Err(Error::Delay), "target 20 would lack the object");
    relocate(&mut w, from, to(joined)).unwrap();
    assert_eq!(w.stat("/f").columns(), Some(to(joined)));
    relocate(&mut w, to(joined), to(other)).unwrap();
    relocate(&mut w, to(other), from).unwrap();

    // It gets no members before it is closed, and no columns afterwards; a restart of its target leaves it open.
    assert!(
        !step(&mut w, ChainStep::Add(TargetId(20)))
            && !step(&mut w, ChainStep::Move(TargetId(10), TargetId(20)))
    );
    w.apply(server(1, 2)).unwrap();
    assert!(step(&mut w, ChainStep::Lead(TargetId(10))) && chain(&w).is_open());
    assert!(!step(&mut w, ChainStep::Closed) && step(&mut w, ChainStep::Close));
    assert!(!chain(&w).is_open() && !step(&mut w, ChainStep::Close));
    assert_eq!(relocate(&mut w, from, to(joined)), Err(Error::Delay));
    // No object is looked for at other members before all know of the chain; a restore changes nothing in that.
    assert!(!step(&mut w, ChainStep::Add(TargetId(20))));
    step(&mut w, ChainStep::Doubt);
    let version = chain(&w).version;
    let adopt = ChainStep::Adopt([Some(TargetId(10)), None, None], 1);
    let changes = vec![ChainChange { chain: CHAIN, version, step: adopt }];
    w.apply(Command::ChangeChains { changes }).unwrap();
    assert!(members(&w) == [(10, In)] && !step(&mut w, ChainStep::Add(TargetId(20))));
    assert!(step(&mut w, ChainStep::Closed) && !step(&mut w, ChainStep::Closed));
    assert!(step(&mut w, ChainStep::Add(TargetId(20))) && step(&mut w, ChainStep::Complete(TargetId(20))));
    assert_eq!(members(&w), [(10, In), (20, In)]);
}

#[test]
fn a_chain_of_one_copy_gets_more_when_it_is_closed() {
    let mut w = World::new();
    (1..=2).for_each(|id| drop(w.apply(server(id, 1)).unwrap()));
    let chains = vec![OpenChain { id: CHAIN, target: TargetId(10), copies: 1 }];
    w.apply(Command::OpenChains { chains }).unwrap();
    assert!(!step(&mut w, ChainStep::Copies(2)));
    assert!(step(&mut w, ChainStep::Close) && !step(&mut w, ChainStep::Copies(2)));
    assert!(step(&mut w, ChainStep::Closed));
    for refused in [0, 1, 4] {
        assert!(!step(&mut w, ChainStep::Copies(refused)));
    }
    assert!(step(&mut w, ChainStep::Copies(2)) && !step(&mut w, ChainStep::Copies(2)));
    assert!(step(&mut w, ChainStep::Add(TargetId(20))) && step(&mut w, ChainStep::Complete(TargetId(20))));
    assert!(!step(&mut w, ChainStep::Drop(TargetId(10))));
}

#[test]
fn after_a_restore_the_members_are_those_that_were_in_last() {
    let mut w = chain_of_three();
    assert!(step(&mut w, ChainStep::Leave(TargetId(20))));
    let adopt =
        |targets: [Option<u64>; 3], version| ChainStep::Adopt(targets.map(|t| t.map(TargetId)), version);
    assert!(!step(&mut w, adopt([Some(40), None, None], 7)), "there are members with all data");
    let (version, verifier) = (chain(&w).version, chain(&w).verifier);
    step(&mut w, ChainStep::Doubt);
    assert_eq!(members(&w), [(20, Away), (10, Doubted), (30, Doubted)]);
    assert_eq!((chain(&w).version, chain(&w).head()), (version, None));
    for refused in
        [ChainStep::Lead(TargetId(10)), ChainStep::Return(TargetId(20)), ChainStep::Leave(TargetId(10))]
    {
        assert!(!step(&mut w, refused), "{refused:?}");
    }
    assert!(!step(&mut w, adopt([Some(99), None, None], 7)), "no such target");
    assert!(!step(&mut w, adopt([Some(40), None, None], u32::MAX)), "no such version");
    let change = ChainChange { chain: CHAIN, version, step: adopt([Some(40), Some(30), None], 7) };
    w.apply(Command::ChangeChains { changes: vec![change] }).unwrap();
    assert_eq!(members(&w), [(40, In), (30, Away), (20, Away)]);
    assert_eq!(chain(&w).version, 1 << 16, "later than all that data servers know of this history");
    assert_ne!(chain(&w).verifier, verifier);
    let of_target = |target| read::chains_of_target(&*w.view(), TargetId(target)).unwrap().len();
    assert_eq!([10, 20, 30, 40].map(of_target), [0, 1, 1, 1]);
    assert!(step(&mut w, ChainStep::Return(TargetId(30))) && step(&mut w, ChainStep::Complete(TargetId(30))));
}
