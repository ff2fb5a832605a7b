//! The speed of a link, kept by `tc` at both of its ends.
//!
//! ```text
//!   server's namespace                  the machine
//!   eth0 ─ token bucket ──────────▶ ┐
//!                                   ├─ bridge      a veth pair: each end shapes what it sends
//!        ◀────────── token bucket ─ ┘
//!
//!   client's kernel
//!   vec0 ──▶ tap ─▶ ifb ─ token bucket ─▶ ┐
//!                                         ├─ bridge     the client's own kernel is left as Debian made it, so what it
//!        ◀── tap ◀─────── token bucket ── ┘             sends is shaped where it enters the machine
//! ```
//!
//! A link of `mbit` carries as much as a real one: Ethernet puts 24 bytes (preamble, checksum, gap) around
//! each frame, which the kernel does not count. Frames travel in groups here, as network cards take them from
//! a kernel, so the bytes cannot be added to each frame (`tbf overhead` would add them once for each group):
//! the rate is lowered by what they are to a full frame. A plain TCP stream then gets 94.1 % of the link, as
//! on a real one.

use std::time::Duration;

use crate::command::{ip, tc};
use crate::{Error, Result};

/// A full frame with its header, as the kernel counts it, and on a wire.
const FRAME_BYTES: (u64, u64) = (1514, 1538);

/// Burst after a pause: 1.3 ms of 100 Mbit/s. It must hold one group of frames ([`GROUP_BYTES`]); less
/// would cost CPU, and more would hide the limit: of 16 MiB it is 0.1 %.
const BURST_BYTES: u64 = 16 << 10;

/// The longest group of frames that is not taken apart on its way.
const GROUP_BYTES: u64 = 15 << 10;

/// Upper limit of the queue, as time: beyond it frames are lost, as in a switch, and TCP slows down.
const QUEUE: Duration = Duration::from_millis(20);

/// One link, the same both ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Millions of bits in a second, as network cards are sold.
    pub mbit: u64,
    /// From one end to the other.
    pub delay: Duration,
}

impl Link {
    /// Its speed in bytes a second, before Ethernet, IP and TCP take theirs.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        self.mbit as f64 * 1e6 / 8.0
    }

    /// Whether this kernel can do it.
    pub(crate) fn check(&self) -> Result<()> {
        if self.mbit == 0 {
            return Err(Error::Impossible("a link of 0 Mbit/s: it must be at least 1".into()));
        }
        Ok(())
    }

    /// Shapes what leaves through `device`, here or in a namespace.
    pub(crate) fn shape(&self, namespace: Option<&str>, device: &str) -> Result<()> {
        let within = namespace.map_or_else(String::new, |namespace| format!("-n {namespace} "));
        let bits = self.mbit * 1_000_000 * FRAME_BYTES.0 / FRAME_BYTES.1;
        let queue_bytes = bits / 8 * QUEUE.as_millis() as u64 / 1000 + 4 * BURST_BYTES;
        tc(&format!(
            "{within}qdisc add dev {device} root handle 1: tbf rate {bits}bit burst {BURST_BYTES} limit {queue_bytes}"
        ))?;
        if self.delay.is_zero() {
            return Ok(());
        }
        let frames = self.delay.as_secs_f64() * self.bytes_per_second() / 64.0 + 1000.0;
        let netem = format!(
            "{within}qdisc add dev {device} parent 1:1 handle 2: netem delay {}us limit {frames:.0}",
            self.delay.as_micros()
        );
        tc(&netem).map_err(|e| {
            Error::Impossible(format!(
                "{e}\nA delay needs a kernel with CONFIG_NET_SCH_NETEM (Debian's has it): set the link's delay_ms to 0."
            ))
        })
    }

    /// Shapes what enters through `device`: it goes through `ifb`, which is made for it, and shaped as it
    /// leaves that.
    pub(crate) fn shape_entering(&self, device: &str, ifb: &str) -> Result<()> {
        ip(&format!("link add name {ifb} type ifb"))?;
        ip(&format!("link set {ifb} up"))?;
        self.shape(None, ifb)?;
        tc(&format!("qdisc add dev {device} handle ffff: ingress"))?;
        tc(&format!(
            "filter add dev {device} parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev {ifb}"
        ))
    }

    /// Has the kernel send in groups of frames that a token bucket lets pass whole.
    pub(crate) fn limit_groups(namespace: Option<&str>, device: &str) -> Result<()> {
        let within = namespace.map_or_else(String::new, |namespace| format!("-n {namespace} "));
        ip(&format!("{within}link set {device} gso_max_size {GROUP_BYTES}"))
    }
}
