//! Many machines as one team: a coordinator, and an agent on each machine.
//!
//! ```text
//! coordinator                          agent, one for each machine
//!   listens                       ◀──  connects; both say their version
//!                                 ◀──  Hello: its machine, what it measures
//!   Clock?  (several times)       ◀─▶  its clocks
//!                    for each phase
//!   Prepare: its part             ──▶  files opened, memory had
//!                                 ◀──  Ready
//!   Clock?  (several times)       ◀─▶  its clocks
//!   Start: an instant of its own  ──▶  all go at the same moment, not when the message comes
//!     clock, converted by us
//!                                 ◀──  Progress, a few times a second
//!   Highest                       ◀─▶  Reached: at the stonewall, if the phase has one
//!                                 ◀──  Done: what its workers did, or what went wrong
//!   Home                          ──▶  ends
//! ```
//!
//! An agent does what a coordinator says, below the directory that it was started with, and nowhere else
//! (`check`). A coordinator takes whoever comes with the right version. Neither knows who the other is: run
//! this on networks whose machines trust each other.

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

/// Where a coordinator listens, unless told otherwise.
const PORT_DEFAULT: u16 = 20480;

/// A name or an address, with the port if none is given.
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
