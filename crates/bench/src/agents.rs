//! Agents: a coordinator and one agent on each of many machines execute a run together.
//!
//! ```text
//! coordinator                          agent, one for each machine
//!   listens                       ◀──  connects; both send their version
//!                                 ◀──  Hello: its machine, and its target
//!   Clock?  (several times)       ◀─▶  its clocks
//!                    for each phase
//!   Prepare: tasks of the agent   ──▶  opens files, allocates memory
//!                                 ◀──  Ready
//!   Clock?  (several times)       ◀─▶  its clocks
//!   Start: a time of the agent's  ──▶  all start at the same time, not at the arrival of the message
//!     clock, converted here
//!                                 ◀──  Progress, a few times a second
//!   Highest                       ◀─▶  Reached: at the stonewall, if the phase has one
//!                                 ◀──  Done: results of its workers, or an error
//!   Home                          ──▶  ends
//! ```
//!
//! An agent executes requests of the coordinator only below the directory that it was started with (`check`).
//! A coordinator accepts every agent with the right version. There is no authentication: run this on networks
//! whose machines trust each other.

mod agent;
mod check;
mod clocks;
mod coordinator;
mod gather;
mod message;
mod round;
mod wire;

use std::net::{IpAddr, SocketAddr};

pub use agent::join;
pub use coordinator::Coordinator;
pub use gather::gather;

/// Default port of a coordinator.
const PORT_DEFAULT: u16 = 20480;

/// Host name or address, with the default port if it has none.
#[must_use]
pub fn with_port(text: &str) -> String {
    match text.parse::<IpAddr>() {
        Ok(ip) => SocketAddr::new(ip, PORT_DEFAULT).to_string(),
        Err(_) if text.contains(':') => text.to_owned(),
        Err(_) => format!("{text}:{PORT_DEFAULT}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_added_where_there_is_none() {
        let cases = [
            ("10.0.0.1", "10.0.0.1:20480"),
            ("10.0.0.1:7", "10.0.0.1:7"),
            ("node7", "node7:20480"),
            ("node7:7", "node7:7"),
            ("fd00::1", "[fd00::1]:20480"),
            ("[fd00::1]:7", "[fd00::1]:7"),
        ];
        for (text, address) in cases {
            assert_eq!(with_port(text), address);
        }
    }
}
