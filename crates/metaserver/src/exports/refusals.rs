//! Refused clients: an address is logged once with the reason and what helps, then counted.
//!
//! ```text
//! refused for the 1st, 2nd, 4th, 8th, … time, or an hour after the last line   one line in the log
//! every time                                                                   heorot_refused_mounts_total{reason}
//! ```

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use nfs::Connection;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::errors::FileError;
use crate::exports::Admission;

/// Pairs of address and reason with lines of their own: about 100 KiB. All others share one line for each
/// reason.
const KNOWN_MAX: usize = 1024;
/// A client that is refused all the time has a line as often as this.
const LINE_EVERY: Duration = Duration::from_secs(3600);
/// Bytes that a line shows of what was asked for: a path of a reasonable length.
const ASKED_BYTES_MAX: usize = 256;

/// Why a client is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// No export admits its address.
    Address,
    /// The exports that admit its address ask for a reserved port.
    Port,
    /// The path is in no export that admits it.
    Path,
    /// The handle is of an export that does not admit it.
    Handle,
}

impl Reason {
    /// The value of the metric's label.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Port => "port",
            Self::Path => "path",
            Self::Handle => "handle",
        }
    }

    /// What an operator can do, where the client should be served.
    fn action(self) -> &'static str {
        match self {
            Self::Address => {
                "no export admits the address; if it should mount: heorot export add PATH --network ADDRESS"
            }
            Self::Port => {
                "the export asks for a source port below 1024; mount as root without noresvport, or: heorot export set \
                 PATH --insecure"
            }
            Self::Path => {
                "no export that admits the address has the path; heorot export list shows the exports"
            }
            Self::Handle => {
                "no export that the file was mounted through admits the address any more; heorot export list shows the \
                 exports"
            }
        }
    }
}

/// How often an address was refused for one reason.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    count: u64,
    /// When the last line was written, on the monotonic clock.
    line_at: Duration,
}

/// The last refusal, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Last {
    pub address: IpAddr,
    pub reason: Reason,
}

/// What is remembered of refusals.
#[derive(Default)]
pub struct Refusals {
    counts: Family<Vec<(&'static str, &'static str)>, Counter>,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    count: u64,
    last: Option<Last>,
    /// Without an address: of all addresses that had no place of their own.
    known: BTreeMap<(Option<IpAddr>, Reason), Known>,
}

impl Refusals {
    /// Puts the counters into `registry`; each is there from the start, at 0, so that the first refusal is
    /// seen as an increase.
    pub fn register(&self, registry: &mut Registry) {
        for reason in [Reason::Address, Reason::Port, Reason::Path, Reason::Handle] {
            drop(self.counts.get_or_create(&vec![("reason", reason.word())]));
        }
        registry.register("refused_mounts", "Clients that were refused, by reason", self.counts.clone());
    }

    /// Counts a refusal. Returns how many of the same kind there were, when that is worth a line in the log.
    fn note(&self, address: IpAddr, reason: Reason, now: Duration) -> Option<u64> {
        self.counts.get_or_create(&vec![("reason", reason.word())]).inc();
        let mut memory = self.memory.lock();
        memory.count += 1;
        memory.last = Some(Last { address, reason });
        let mut key = (Some(one_network(address)), reason);
        if !memory.known.contains_key(&key) && memory.known.len() >= KNOWN_MAX {
            memory.known.retain(|_, known| now.saturating_sub(known.line_at) < LINE_EVERY);
            if memory.known.len() >= KNOWN_MAX {
                key.0 = None;
            }
        }
        let known = memory.known.entry(key).or_default();
        known.count += 1;
        let is_due = known.count.is_power_of_two() || now.saturating_sub(known.line_at) >= LINE_EVERY;
        if is_due {
            known.line_at = now;
        }
        is_due.then_some(known.count)
    }

    /// How many refusals there were, and the last one.
    pub(crate) fn seen(&self) -> (u64, Option<Last>) {
        let memory = self.memory.lock();
        (memory.count, memory.last)
    }
}

/// An IPv6 host has all addresses of a network of 64 bits.
fn one_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

impl Admission {
    /// Notes that a client was refused by `why`.
    pub(crate) fn note_refused(&self, connection: &Connection, why: FileError, asked: &[u8]) {
        let reason = match why {
            FileError::Stale => Reason::Handle,
            _ if self.cluster.exports.get().of_address(connection.peer().ip()).next().is_some() => {
                Reason::Port
            }
            _ => Reason::Address,
        };
        self.note_refusal(connection, reason, asked);
    }

    /// Notes that a client was refused for `reason`.
    pub(crate) fn note_refusal(&self, connection: &Connection, reason: Reason, asked: &[u8]) {
        let address = connection.peer().ip().to_canonical();
        let Some(count) = self.refusals.note(address, reason, self.machine.clock.monotonic()) else { return };
        let asked = String::from_utf8_lossy(&asked[..asked.len().min(ASKED_BYTES_MAX)]);
        tracing::warn!(
            %address,
            reason = reason.word(),
            ?asked,
            count,
            "client refused: {}; logged again when the count doubles, at most an hour apart",
            reason.action()
        );
    }

    /// What was refused so far.
    #[must_use]
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_address_is_logged_at_doublings_and_once_an_hour() {
        let refusals = Refusals::default();
        let note = |address: &str, seconds| {
            refusals.note(address.parse().unwrap(), Reason::Address, Duration::from_secs(seconds))
        };
        let lines: Vec<u64> = (0..100).filter_map(|second| note("10.0.0.9", second)).collect();
        assert_eq!(lines, [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(
            (note("10.0.0.9", 3662), note("10.0.0.9", 3663)),
            (None, Some(102)),
            "an hour after the 64th"
        );
        assert_eq!((note("10.0.0.8", 3663), note("fd00::1", 3663)), (Some(1), Some(1)));
        assert_eq!(note("fd00::1:2:3:4", 3664), Some(2), "one host");
        assert_eq!(refusals.note("10.0.0.8".parse().unwrap(), Reason::Port, Duration::ZERO), Some(1));
        let (count, last) = refusals.seen();
        assert_eq!((count, last.unwrap().reason), (106, Reason::Port));
    }

    #[test]
    fn strangers_fill_no_memory_and_no_log() {
        let refusals = Refusals::default();
        let note = |number: u32, seconds| {
            let address = IpAddr::V4(number.into());
            refusals.note(address, Reason::Address, Duration::from_secs(seconds))
        };
        let lines = (0..100_000).filter(|number| note(*number, 5000).is_some()).count();
        assert!(lines < KNOWN_MAX + 20, "{lines}");
        assert!(refusals.memory.lock().known.len() <= KNOWN_MAX + 1);
        assert_eq!(note(100_000, 5000 + 3600), Some(1), "what was silent for an hour has made room");
    }
}
