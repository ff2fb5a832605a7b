//! Speed limit of a link, by `tc` at both ends.
//!
//! ```text
//!   server's namespace                  the machine
//!   eth0 ─ token bucket ──────────▶ ┐
//!                                   ├─ bridge      a veth pair: each end shapes what it sends
//!        ◀────────── token bucket ─ ┘
//!
//!   client's kernel
//!   vec0 ──▶ tap ─▶ ifb ─ token bucket ─▶ ┐
//!                                         ├─ bridge     no change in the client's kernel: the host shapes
//!        ◀── tap ◀─────── token bucket ── ┘             what the client sends
//! ```
//!
//! A link of `mbit` has the throughput of a real one: Ethernet puts 24 bytes (preamble, checksum, gap) around
//! each frame, which the kernel does not count. Frames travel in groups here (GSO), so `tbf overhead` would
//! add these bytes once for each group: instead the rate is reduced by their share of a full frame. A plain
//! TCP stream then gets 94.1 % of the link, as on a real one.

use std::time::Duration;

use crate::command::{ip, tc};
use crate::{Error, Result};

/// Bytes of a full frame with its header: counted by the kernel, and on a wire.
const FRAME_BYTES: (u64, u64) = (1514, 1538);

/// Burst after a pause: 1.3 ms of 100 Mbit/s. It must hold one group of frames ([`GROUP_BYTES`]); less would
/// cost CPU, and more would weaken the limit: it is 0.1 % of 16 MiB.
const BURST_BYTES: u64 = 16 << 10;

/// Maximal length of a group of frames that is not split.
const GROUP_BYTES: u64 = 15 << 10;

/// Maximal queue length, as time: beyond it frames are lost, as in a switch, and TCP slows down.
const QUEUE: Duration = Duration::from_millis(20);

/// Link, the same in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Speed in millions of bits a second.
    pub mbit: u64,
    /// Delay from end to end.
    pub delay: Duration,
}

impl Link {
    /// Speed in bytes a second, including the headers of Ethernet, IP and TCP.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        self.mbit as f64 * 1e6 / 8.0
    }

    /// Checks that this kernel supports the link.
    pub(crate) fn check(&self) -> Result<()> {
        if self.mbit == 0 {
            return Err(Error::Impossible("a link of 0 Mbit/s: it must be at least 1".into()));
        }
        Ok(())
    }

    /// Shapes frames that leave through `device`, here or in a namespace.
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

    /// Shapes frames that enter through `device`: redirects them through `ifb`, a new device, which shapes
    /// them.
    pub(crate) fn shape_entering(&self, device: &str, ifb: &str) -> Result<()> {
        ip(&format!("link add name {ifb} type ifb"))?;
        ip(&format!("link set {ifb} up"))?;
        self.shape(None, ifb)?;
        tc(&format!("qdisc add dev {device} handle ffff: ingress"))?;
        tc(&format!(
            "filter add dev {device} parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev {ifb}"
        ))
    }

    /// Limits groups of frames to a size that the token bucket passes whole.
    pub(crate) fn limit_groups(namespace: Option<&str>, device: &str) -> Result<()> {
        let within = namespace.map_or_else(String::new, |namespace| format!("-n {namespace} "));
        ip(&format!("{within}link set {device} gso_max_size {GROUP_BYTES}"))
    }
}
