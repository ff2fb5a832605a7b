//! A cluster of metaservers' replicas, with its disks, its network and its clients, in one thread and from one seed.
//!
//! In: a [`Scenario`], which is a seed. Out: an [`Outcome`]: what the oracles found wrong, and a sum of all that happened,
//! which is the same whenever the seed is. docs/simulation.md tells what is simulated, what is the code that runs in
//! production, and what was found.

mod bug;
mod choose;
mod client;
mod cluster;
mod dice;
mod disk;
mod faults;
mod history;
mod joining;
mod member;
mod membership;
mod net;
mod oracles;
mod reference;
mod request;
mod restore;
mod shared;
mod store;

/// The plain model of the state machine, which the state machine's own tests hold it against.
#[expect(unused_imports, dead_code, reason = "tests of namespace, written as tests are")]
#[path = "../../namespace/tests/model/plain/mod.rs"]
mod plain;

pub use bug::Bug;
pub use cluster::{Outcome, Scenario, run};

/// Whether a reply says that something was done: for the model's account of itself, which nobody asks for here.
fn is_done(reply: &namespace::Reply) -> bool {
    use namespace::Reply;
    !matches!(reply, Reply::Refused(_) | Reply::Denied(_) | Reply::Delegated { .. })
}
