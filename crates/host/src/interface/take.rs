//! Taking an address: ask whether it is free, add it, tell everybody. Waiting is the caller's: `sleep` is
//! `tokio::time::sleep`, or a simulation's.

use std::net::IpAddr;
use std::time::Duration;

use super::{Error, Interfaces, Mac, Result};

/// When to announce an address again, each after the one before: a frame may be lost, a switch that is just
/// coming up may forward none. RFC 5227 says twice in 2 s, RFC 4861 up to three times a second apart.
pub const ANNOUNCEMENT_GAPS: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(900), Duration::from_secs(2)];

/// Time to wait for an answer of another holder of the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// How often to ask: one frame may be lost.
    pub solicitations: u32,
    /// How long an answer may take.
    pub gap: Duration,
}

impl Default for Patience {
    /// RFC 5227 (section 1.1) asks three times in 4 to 7 s and allows less on links that are known to be
    /// quick: clients stand still meanwhile. A machine in the same network that takes a tenth of a second to
    /// answer is not well.
    fn default() -> Self {
        Self { solicitations: 3, gap: Duration::from_millis(100) }
    }
}

/// Who else on the network of `interface` has `address`, found in at most `solicitations` times `gap`. Not
/// for an address that this machine holds: nobody is asked about those.
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

/// Has `address` on the interface that [`Interfaces::find`] finds, for `time`, and announces it once. Where
/// an earlier life of this server left it, its time begins again. Gives the name of the interface, for
/// [`Interfaces::hold`] every third of `time` and [`announce_with_gaps`].
///
/// # Errors
/// [`Error::InUse`], and as each step. After a failed announcement the address is held until `time` is over:
/// take it again, or release it.
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

/// Announces `address` after each gap, as long as this machine has it: who announces an address that has
/// moved on takes the neighbours away from the machine that has it now.
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
