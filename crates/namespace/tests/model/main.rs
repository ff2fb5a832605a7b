//! The state machine against a model of it: random commands on both, and after each the same reply and the same world.
//!
//! The model (`plain/`) is plain structs in maps, written for clarity: it counts links by looking for names, keeps locks
//! byte by byte, and looks at every open to find a conflict. The commands (`choose.rs`) come from few names, clients and
//! offsets, so that they meet. A failing sequence is shrunk to the shortest that still fails.
//!
//! `HEOROT_MODEL_OPERATIONS` says how many commands in all.

#![allow(clippy::disallowed_methods)] // a test may ask the environment

mod choose;
mod picture;
mod plain;

use choose::Chooser;
use namespace::{Proposal, Reply, Stamp, Time, apply, check, format};
use picture::Picture;
use plain::Plain;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use store::{Durability, MemoryStore, Store};

const OPERATIONS_DEFAULT: u32 = 20_000;

/// Commands of one case: more than that, and the tree is too large for names to meet.
const OPERATIONS_OF_A_CASE: u32 = 200;

/// What one command is chosen by: see [`Chooser`].
type Picks = [u16; 12];

#[test]
fn the_machine_does_what_the_model_does() {
    let operations = std::env::var("HEOROT_MODEL_OPERATIONS")
        .map_or(OPERATIONS_DEFAULT, |number| number.parse().expect("HEOROT_MODEL_OPERATIONS is a number"));
    let seed = std::env::var("HEOROT_MODEL_SEED")
        .map_or(0x0068_656f_726f_7400, |number| number.parse().expect("HEOROT_MODEL_SEED is a number"));
    let config = ProptestConfig {
        cases: operations.div_ceil(OPERATIONS_OF_A_CASE),
        max_shrink_iters: 5_000,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let commands = proptest::collection::vec(any::<Picks>(), OPERATIONS_OF_A_CASE as usize);
    let mut coverage = plain::Coverage::default();
    let coverage_cell = std::cell::RefCell::new(&mut coverage);
    let outcome =
        TestRunner::new(config).run(&commands, |commands| run(&commands, &mut coverage_cell.borrow_mut()));
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    if operations >= OPERATIONS_DEFAULT {
        coverage.assert_everything_happened();
    }
}

fn run(commands: &[Picks], coverage: &mut plain::Coverage) -> Result<(), TestCaseError> {
    let store = MemoryStore::new();
    let stamp = Stamp { time: Time { seconds: 0, nanoseconds: 0 }, random: 0xabcd_0123_0000_0009 };
    store.batch(Durability::Immediate, &mut |edit| format(edit, &stamp)).expect("formats");
    let mut plain = Plain::new(&stamp);
    let mut past: Vec<Proposal> = Vec::new();
    let beginning = choose::beginning();
    let count = beginning.len() + commands.len();
    for step in 0..count {
        let proposal = match beginning.get(step) {
            Some(proposal) => proposal.clone(),
            None => Chooser::new(&commands[step - beginning.len()], &plain, &past).proposal(step as u32),
        };
        let expected = plain.apply(&proposal);
        let mut reply = None;
        store
            .batch(Durability::Deferred, &mut |edit| {
                reply = Some(apply(edit, &proposal)?);
                Ok(())
            })
            .expect("applies");
        let story = || tell(&past, &proposal);
        prop_assert_eq!(reply.as_ref(), Some(&expected), "the replies differ{}", story());

        let view = store.snapshot().expect("a snapshot");
        prop_assert_eq!(check(&*view).expect("checks"), Vec::<String>::new(), "it is broken{}", story());
        if let Some(difference) = Picture::of_view(&*view, &plain).difference(&Picture::of_plain(&plain)) {
            return Err(TestCaseError::fail(format!("{difference}{}", story())));
        }
        coverage.note(&proposal.command, &expected);
        past.push(proposal);
    }
    Ok(())
}

/// The commands so far, to be read.
fn tell(past: &[Proposal], last: &Proposal) -> String {
    let mut story = String::from(", after:\n");
    for Proposal { stamp, origin, command } in past.iter().chain([last]) {
        story += &format!("  {:3} {command:?}", stamp.time.seconds);
        if let Some(origin) = origin {
            story += &format!("  [slot {} sequence {} index {}]", origin.slot, origin.sequence, origin.index);
        }
        story += "\n";
    }
    story
}

/// Whether a reply says that something was done.
fn is_done(reply: &Reply) -> bool {
    !matches!(reply, Reply::Refused(_) | Reply::Denied(_))
}
