//! Simulation of a cluster: metaservers' replicas, disks, network and clients, in one thread and from one
//! seed.
//!
//! In: a [`Scenario`], which is a seed. Out: an [`Outcome`]: the findings of the oracles, and a hash of all
//! events, which is the same for the same seed. docs/simulation.md lists the simulated parts, the parts that
//! are production code, and the findings.

mod bug;
mod choose;
mod claims;
mod client;
mod cluster;
mod columns;
mod copies;
mod data_scenario;
mod data_server;
mod disk;
mod faults;
mod flips;
mod history;
mod joining;
mod member;
mod membership;
mod mount;
mod net;
mod object_disk;
mod objects;
mod operators;
mod oracles;
mod plain_data_server;
mod records;
mod reference;
mod request;
mod restore;
mod rng;
mod scenario;
mod service;
mod services;
mod shared;
mod snapshots;
mod store;
mod stream_network;
mod streams;
mod whole_data_server;
mod wires;

/// Plain model of the state machine, with which the state machine's own tests compare it.
#[expect(unused_imports, dead_code, reason = "tests of namespace, written as tests are")]
#[path = "../../namespace/tests/model/plain/mod.rs"]
mod plain;

pub use bug::Bug;
pub use cluster::{Outcome, run};
pub use scenario::{Kind, Scenario};

/// True if a reply says that a command had an effect. For the model's statistics, which are not used here.
fn is_done(reply: &namespace::Reply) -> bool {
    use namespace::Reply;
    !matches!(reply, Reply::Refused(_) | Reply::Denied(_) | Reply::Delegated { .. })
}
