//! The state machine against a model of it: random commands on both, and after each the same reply and the
//! same world.
//!
//! The model (`plain/`) is plain structs in maps, written for clarity: it counts links by looking for names,
//! keeps locks byte by byte, and looks at every open to find a conflict. The commands (`choose.rs`) come from
//! few names, clients and offsets, so that they meet. A failing sequence is shrunk to the shortest that still
//! fails (`rows.rs`).
//!
//! `HEOROT_MODEL_OPERATIONS` says how many commands in all, `HEOROT_MODEL_SEED` which.

#![allow(clippy::disallowed_methods)] // a test may ask the environment

mod choose;
mod picture;
mod plain;
mod rows;

use std::panic::{AssertUnwindSafe, catch_unwind};

use choose::Chooser;
use namespace::{Generations, Proposal, Reply, Stamp, Time, apply, check, format};
use picture::Picture;
use plain::{Coverage, Plain};
use rows::Picks;
use store::{Durability, MemoryStore, Store};

const OPERATIONS_DEFAULT: u64 = 100_000;

/// Commands of one case: more than that, and the tree is too large for names to meet.
const OPERATIONS_OF_A_CASE: u64 = 200;

/// A command on which the machine and the model do not agree.
struct Disagreement {
    /// Which command of the case.
    at: usize,
    /// What differs, and the commands so far.
    story: String,
}

#[test]
fn the_machine_does_what_the_model_does() {
    let number = |name, default| {
        std::env::var(name)
            .map_or(default, |number| number.parse().unwrap_or_else(|_| panic!("{name}={number}")))
    };
    let operations = number("HEOROT_MODEL_OPERATIONS", OPERATIONS_DEFAULT);
    let first_seed = number("HEOROT_MODEL_SEED", 1);
    let mut coverage = Coverage::default();
    for seed in first_seed..first_seed + operations.div_ceil(OPERATIONS_OF_A_CASE) {
        let rows = rows::of_seed(seed, OPERATIONS_OF_A_CASE as usize);
        if let Err(Disagreement { at, .. }) = run(&rows, &mut coverage) {
            let disagrees = |rows: &[Picks]| run(rows, &mut Coverage::default()).err().map(|found| found.at);
            let shortest = rows::shrink(&rows[..=at], disagrees);
            let story = run(&shortest, &mut Coverage::default()).err().map(|found| found.story);
            panic!("HEOROT_MODEL_SEED={seed} (command {at}): {}", story.unwrap_or_default());
        }
    }
    if operations >= OPERATIONS_DEFAULT {
        coverage.assert_everything_happened();
    }
}

/// Runs one case on an empty store.
fn run(rows: &[Picks], coverage: &mut Coverage) -> Result<(), Disagreement> {
    let store = MemoryStore::new();
    let stamp = Stamp { time: Time { seconds: 0, nanoseconds: 0 }, random: 0xabcd_0123_0000_0009 };
    store.batch(Durability::Immediate, &mut |edit| format(edit, &stamp, [7; 16])).expect("formats");
    let mut plain = Plain::new(&stamp);
    let mut past: Vec<Proposal> = Vec::new();
    for proposal in choose::beginning() {
        step(&store, &mut plain, &proposal).expect("the beginning is good");
        past.push(proposal);
    }
    for (at, row) in rows.iter().enumerate() {
        let proposal = Chooser::new(row, &plain, &past).proposal(past.len() as u32);
        // A machine that panics disagrees too, and can be shrunk.
        let outcome = catch_unwind(AssertUnwindSafe(|| step(&store, &mut plain, &proposal)));
        match outcome.unwrap_or_else(|_| Err("it panicked".to_string())) {
            Ok(reply) => coverage.note(&proposal.command, &reply),
            Err(difference) => {
                return Err(Disagreement { at, story: format!("{difference}\n{}", tell(&past, &proposal)) });
            }
        }
        past.push(proposal);
    }
    Ok(())
}

/// One command on both; what differs, if anything does.
fn step(store: &MemoryStore, plain: &mut Plain, proposal: &Proposal) -> Result<Reply, String> {
    let expected = plain.apply(proposal);
    let mut reply = None;
    store
        .batch(Durability::Deferred, &mut |edit| {
            // Of a metaserver that has the same state: they change nothing.
            let generations = Generations::of(edit, &proposal.command)?;
            reply = Some(apply(edit, &Proposal { generations, ..proposal.clone() })?);
            Ok(())
        })
        .map_err(|error| error.to_string())?;
    if reply.as_ref() != Some(&expected) {
        return Err(format!("the reply:\n  found    {reply:?}\n  expected {expected:?}"));
    }
    let view = store.snapshot().map_err(|error| error.to_string())?;
    let findings = check(&*view).map_err(|error| error.to_string())?;
    if !findings.is_empty() {
        return Err(format!("it is broken: {findings:#?}"));
    }
    match Picture::of_view(&*view, plain).difference(&Picture::of_plain(plain)) {
        None => Ok(expected),
        Some(difference) => Err(difference),
    }
}

/// The commands so far, to be read.
fn tell(past: &[Proposal], last: &Proposal) -> String {
    let mut story = String::from("after:\n");
    for Proposal { stamp, request, command, .. } in past.iter().chain([last]) {
        story += &format!("  {:3} {command:?}", stamp.time.seconds);
        if let Some(request) = request {
            story += &format!("  [{request:?}]");
        }
        story += "\n";
    }
    story
}

/// Whether a reply says that something was done.
fn is_done(reply: &Reply) -> bool {
    !matches!(reply, Reply::Refused(_) | Reply::Denied(_) | Reply::Delegated { .. })
}
