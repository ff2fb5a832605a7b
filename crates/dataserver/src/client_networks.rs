//! The networks that clients come from: those that anything is exported to, as the cluster map has them.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

use host::Network;

/// The networks as metaservers told them last.
#[derive(Default)]
pub struct ClientNetworks(RwLock<Option<Arc<BTreeSet<Network>>>>);

impl ClientNetworks {
    /// A metaserver told them, with a heartbeat's answer.
    pub fn set(&self, networks: BTreeSet<Network>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(networks));
    }

    /// Whether clients come from an address; none: no metaserver has told the networks since this process began.
    #[must_use]
    pub fn admit(&self, address: IpAddr) -> Option<bool> {
        let networks = self.0.read().unwrap_or_else(PoisonError::into_inner).clone()?;
        Some(networks.iter().any(|network| network.contains(address)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_known_before_a_metaserver_has_told() {
        let (networks, ash) = (ClientNetworks::default(), IpAddr::from([10, 1, 0, 1]));
        assert_eq!(networks.admit(ash), None);
        networks.set(["10.0.0.0/8".parse().unwrap()].into());
        assert_eq!((networks.admit(ash), networks.admit([11, 0, 0, 1].into())), (Some(true), Some(false)));
        networks.set(BTreeSet::new());
        assert_eq!(networks.admit(ash), Some(false));
    }
}
