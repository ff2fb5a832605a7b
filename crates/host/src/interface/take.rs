//! Takes an address: conflict check, add, announce. The caller provides `sleep`: `tokio::time::sleep`, or a
//! simulation's.

use std::net::IpAddr;
use std::time::Duration;

use super::{Error, Interfaces, Mac, Result};

/// Gaps between repeated announcements: a frame may be lost, and a switch that is starting may forward none.
/// RFC 5227 has two announcements in 2 s, RFC 4861 up to three at intervals of a second.
pub const ANNOUNCEMENT_GAPS: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(900), Duration::from_secs(2)];

/// Waiting times of the conflict check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Number of solicitations: a frame may be lost.
    pub solicitations: u32,
    /// Time limit of an answer.
    pub gap: Duration,
}

impl Default for Patience {
    /// RFC 5227 (section 1.1) sends three probes in 4 to 7 s and allows less on fast links: clients wait
    /// during the check. A healthy machine in the same network answers within a tenth of a second.
    fn default() -> Self {
        Self { solicitations: 3, gap: Duration::from_millis(100) }
    }
}

/// MAC address of another machine on the network of `interface` that has `address`, found in at most
/// `solicitations` times `gap`. Not for an address of this machine: the kernel does not solicit for those.
///
/// # Errors
/// As [`Interfaces::solicit`] and [`Interfaces::answered`].
pub async fn owner_elsewhere<Sleep: Future>(
    interfaces: &dyn Interfaces,
    address: IpAddr,
    interface: &str,
    patience: Patience,
    sleep: impl Fn(Duration) -> Sleep,
) -> Result<Option<Mac>> {
    for _ in 0..patience.solicitations {
        interfaces.solicit(address, interface)?;
        sleep(patience.gap).await;
        let answered = interfaces.answered(address, interface)?;
        if answered.is_some() {
            return Ok(answered);
        }
    }
    Ok(None)
}

/// Takes `address` for `time` on the interface of [`Interfaces::find`], and announces it once. If an earlier
/// process of this server left the address here, its lifetime begins again. Returns the name of the
/// interface, for [`Interfaces::hold`] every third of `time` and [`announce_with_gaps`].
///
/// # Errors
/// [`Error::InUse`], and errors of each step. After a failed announcement the address is held until the end
/// of `time`: take it again, or release it.
pub async fn take<Sleep: Future>(
    interfaces: &dyn Interfaces,
    address: IpAddr,
    named: Option<&str>,
    time: Duration,
    patience: Patience,
    sleep: impl Fn(Duration) -> Sleep,
) -> Result<String> {
    let interface = interfaces.find(address, named)?;
    if !interfaces.holds(address)?
        && let Some(mac) = owner_elsewhere(interfaces, address, &interface, patience, sleep).await?
    {
        return Err(Error::InUse { address, interface, mac });
    }
    interfaces.hold(address, &interface, time)?;
    interfaces.announce(address, &interface)?;
    Ok(interface)
}

/// Announces `address` after each gap, while this machine has it: an announcement after the address has moved
/// would redirect the neighbours away from its new holder.
///
/// # Errors
/// As [`Interfaces::announce`].
pub async fn announce_with_gaps<Sleep: Future>(
    interfaces: &dyn Interfaces,
    address: IpAddr,
    interface: &str,
    gaps: &[Duration],
    sleep: impl Fn(Duration) -> Sleep,
) -> Result<()> {
    for gap in gaps {
        sleep(*gap).await;
        if !interfaces.holds(address)? {
            return Ok(());
        }
        interfaces.announce(address, interface)?;
    }
    Ok(())
}
