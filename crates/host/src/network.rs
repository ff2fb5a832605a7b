//! Networks in text form: `10.0.0.0/8`, `fd00::/8`, `192.168.1.7`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Network: an address and its prefix length, such as 10.0.0.0/8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// All IPv4 addresses.
    pub const ALL_V4: Network = Network { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), prefix: 0 };
    /// All IPv6 addresses.
    pub const ALL_V6: Network = Network { address: IpAddr::V6(Ipv6Addr::UNSPECIFIED), prefix: 0 };

    /// Prefix length in bits.
    #[must_use]
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Network with this prefix length that contains `address`; none: the address has fewer bits.
    #[must_use]
    pub fn around(address: IpAddr, prefix: u8) -> Option<Self> {
        let address = address.to_canonical();
        if prefix > Self::bits(address).1 {
            return None;
        }
        let masked = Self::masked(address, prefix);
        let address = match address {
            IpAddr::V4(_) => Ipv4Addr::from_bits((masked >> 96) as u32).into(),
            IpAddr::V6(_) => Ipv6Addr::from_bits(masked).into(),
        };
        Some(Self { address, prefix })
    }

    fn bits(address: IpAddr) -> (u128, u8) {
        match address {
            IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, 32),
            IpAddr::V6(v6) => (v6.to_bits(), 128),
        }
    }

    /// Bits of `address` in the network's prefix.
    fn masked(address: IpAddr, prefix: u8) -> u128 {
        // Prefix 0: a shift by all bits is `None` in Rust.
        Self::bits(address).0 & u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0)
    }

    /// Whether the network contains `address`. An IPv4-mapped address (`::ffff:10.0.0.1`) counts as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4()
            && Self::masked(address, self.prefix) == Self::masked(self.address, self.prefix)
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let no_network = || format!("{text:?} is neither an address nor a network");
        let (address, prefix) = match text.split_once('/') {
            None => (text, None),
            Some((address, prefix)) => (address, Some(prefix)),
        };
        let address: IpAddr = address.parse().map_err(|_| no_network())?;
        let bits = Self::bits(address).1;
        let prefix = match prefix.map(str::parse::<u8>) {
            None => bits,
            Some(Ok(prefix)) if prefix <= bits => prefix,
            Some(_) => return Err(format!("{text:?}: a prefix is a number from 0 to {bits}")),
        };
        let masked = Self::masked(address, prefix);
        if masked != Self::bits(address).0 {
            let network =
                Self::around(address, prefix).map_or_else(String::new, |network| network.to_string());
            return Err(format!("{text:?} has bits beyond its prefix; that network is {network}"));
        }
        Ok(Self { address, prefix })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.prefix == Self::bits(self.address).1 {
            write!(f, "{}", self.address)
        } else {
            write!(f, "{}/{}", self.address, self.prefix)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_is_an_address_and_a_prefix() {
        for (text, shown) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("192.168.1.7", "192.168.1.7"),
            ("192.168.1.7/32", "192.168.1.7"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("fd00::/8", "fd00::/8"),
            ("::1", "::1"),
            ("::/0", "::/0"),
        ] {
            assert_eq!(text.parse::<Network>().map(|n| n.to_string()), Ok(shown.to_string()));
        }
        for (text, error) in [
            ("", "\"\" is neither an address nor a network"),
            ("node7", "\"node7\" is neither an address nor a network"),
            ("10.0.0/8", "\"10.0.0/8\" is neither an address nor a network"),
            ("10.0.0.0/33", "\"10.0.0.0/33\": a prefix is a number from 0 to 32"),
            ("10.0.0.0/255.0.0.0", "\"10.0.0.0/255.0.0.0\": a prefix is a number from 0 to 32"),
            ("fd00::/129", "\"fd00::/129\": a prefix is a number from 0 to 128"),
            ("10.1.0.0/8", "\"10.1.0.0/8\" has bits beyond its prefix; that network is 10.0.0.0/8"),
            ("fd00::1/64", "\"fd00::1/64\" has bits beyond its prefix; that network is fd00::/64"),
        ] {
            assert_eq!(text.parse::<Network>(), Err(error.to_string()));
        }
    }

    #[test]
    fn an_address_is_in_a_network_of_its_own_family() {
        let table = [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("10.0.0.0/8", "::ffff:10.0.0.1", true),
            ("10.64.0.0/10", "10.127.255.255", true),
            ("10.64.0.0/10", "10.128.0.0", false),
            ("0.0.0.0/0", "255.255.255.255", true),
            ("0.0.0.0/0", "fd00::1", false),
            ("::/0", "10.0.0.1", false),
            ("::/0", "fd00::1", true),
            ("fd00::/8", "fdff::1", true),
            ("fd00::/8", "fe00::", false),
            ("192.168.1.7", "192.168.1.7", true),
            ("192.168.1.7", "192.168.1.6", false),
        ];
        for (text, address, inside) in table {
            assert_eq!(network(text).contains(address.parse().unwrap()), inside, "{address} in {text}");
        }
    }
}
