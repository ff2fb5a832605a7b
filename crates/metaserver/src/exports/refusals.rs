//! Refused clients: each address gets a log line with the reason and the remedy, then it is counted.
//!
//! ```text
//! refused for the 1st, 2nd, 4th, 8th, … time, or an hour after the last line   one log line
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

/// Maximum of (address, reason) pairs with log lines of their own: about 100 KiB. All others share one line
/// for each reason.
const KNOWN_MAX: usize = 1024;
/// Interval of log lines for a client that is refused all the time.
const LINE_EVERY: Duration = Duration::from_secs(3600);
/// Maximum of bytes of the requested path in a log line.
const ASKED_BYTES_MAX: usize = 256;

/// Reason of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// No export admits the client's address.
    Address,
    /// The exports that admit the address require a reserved port.
    Port,
    /// No export that admits the client has the path.
    Path,
    /// The export of the handle does not admit the client.
    Handle,
}

impl Reason {
    /// Value of the metric's label.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Port => "port",
            Self::Path => "path",
            Self::Handle => "handle",
        }
    }

    /// Advice for the operator, for a client that should be served.
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

/// Count of refusals of an address for one reason.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    count: u64,
    /// Time of the last log line, on the monotonic clock.
    line_at: Duration,
}

/// Last refusal, for the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Last {
    pub address: IpAddr,
    pub reason: Reason,
}

/// Counters of refusals.
#[derive(Default)]
pub struct Refusals {
    counts: Family<Vec<(&'static str, &'static str)>, Counter>,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    count: u64,
    last: Option<Last>,
    /// Without an address: all addresses beyond [`KNOWN_MAX`].
    known: BTreeMap<(Option<IpAddr>, Reason), Known>,
}

impl Refusals {
    /// Registers the counters with `registry`. Each exists from the start, at 0, so that the first refusal is
    /// seen as an increase.
    pub fn register(&self, registry: &mut Registry) {
        for reason in [Reason::Address, Reason::Port, Reason::Path, Reason::Handle] {
            drop(self.counts.get_or_create(&vec![("reason", reason.word())]));
        }
        registry.register("refused_mounts", "Clients that were refused, by reason", self.counts.clone());
    }

    /// Counts a refusal. Returns the count of its kind if a log line is due.
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

    /// Number of refusals, and the last one.
    pub(crate) fn seen(&self) -> (u64, Option<Last>) {
        let memory = self.memory.lock();
        (memory.count, memory.last)
    }
}

/// Network of an address: an IPv6 host has all addresses of a 64-bit network.
fn one_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

impl Admission {
    /// Counts a refusal for the error `why`.
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

    /// Counts a refusal for `reason`.
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

    /// Refusals since the start.
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
