//! How much one address has at a time: a stranger does not take the place of all nodes.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;

/// Bits of an IPv6 address that are one network, of which a machine may have all addresses.
const NETWORK_BITS: u32 = 64;

/// Counts of all addresses.
#[derive(Clone)]
pub(super) struct Addresses {
    counts: Arc<Mutex<HashMap<IpAddr, usize>>>,
    max: usize,
}

/// One of an address; drop gives it back.
pub(super) struct Counted {
    all: Addresses,
    address: IpAddr,
}

impl Addresses {
    /// Counts with at most `max` of one address.
    pub(super) fn of(max: usize) -> Self {
        Self { counts: Arc::default(), max }
    }

    /// Counts one more of an address; none: it has too many.
    pub(super) fn count(&self, address: IpAddr) -> Option<Counted> {
        let address = match address {
            IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
                Some(v4) => v4.into(),
                None => Ipv6Addr::from_bits(v6.to_bits() & !(u128::MAX >> NETWORK_BITS)).into(),
            },
            v4 => v4,
        };
        let mut counts = self.counts.lock();
        let count = counts.entry(address).or_default();
        if *count >= self.max {
            return None;
        }
        *count += 1;
        drop(counts);
        Some(Counted { all: self.clone(), address })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.all.counts.lock();
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_or_one_network_of_ipv6_has_so_many_until_they_end() {
        let all = Addresses::of(2);
        let of = |text: &str| all.count(text.parse().unwrap());
        let first = of("10.0.0.1").unwrap();
        let _second = of("::ffff:10.0.0.1").unwrap();
        assert!(of("10.0.0.1").is_none() && of("10.0.0.2").is_some());
        drop(first);
        let _third = of("10.0.0.1").unwrap();
        let _network = [of("fd00::1").unwrap(), of("fd00::2:3").unwrap()];
        assert!(of("fd00::ffff:4").is_none() && of("fd00:0:0:1::1").is_some());
    }
}
