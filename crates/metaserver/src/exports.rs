//! Exports: who may do what, by the network that a client calls from.
//!
//! The narrowest network that holds an address decides, whatever the order in which exports are written, so that an
//! exception needs no place before its rule. An address in no network is served nothing.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::consistency::Consistency;

/// The user and group of calls by nobody, unless an export names others.
pub const NOBODY: u32 = 65534;
/// Networks of all exports together: each request looks through them.
pub const NETWORKS_MAX: usize = 1024;

/// An address and how many of its bits count, such as 10.0.0.0/8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// Every address of IPv4.
    pub const ALL_V4: Network = Network { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), prefix: 0 };
    /// Every address of IPv6.
    pub const ALL_V6: Network = Network { address: IpAddr::V6(Ipv6Addr::UNSPECIFIED), prefix: 0 };

    fn bits(address: IpAddr) -> (u128, u8) {
        match address {
            IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, 32),
            IpAddr::V6(v6) => (v6.to_bits(), 128),
        }
    }

    /// The bits of `address` that count in a network with this prefix.
    fn masked(address: IpAddr, prefix: u8) -> u128 {
        // All of a network of prefix 0: a shift by all bits is none in Rust.
        Self::bits(address).0 & u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0)
    }

    /// Whether `address` is in it. One of IPv4 inside of IPv6 (`::ffff:10.0.0.1`) is one of IPv4.
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
            let network: IpAddr = match address {
                IpAddr::V4(_) => Ipv4Addr::from_bits((masked >> 96) as u32).into(),
                IpAddr::V6(_) => Ipv6Addr::from_bits(masked).into(),
            };
            return Err(format!("{text:?} has bits beyond its prefix; that network is {network}/{prefix}"));
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

/// What may be done through an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everything that the permission bits allow.
    ReadWrite,
    /// Nothing that changes anything.
    ReadOnly,
}

/// Whose calls are taken for those of nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Squash {
    /// Only those without a user (AUTH_NONE).
    None,
    /// Those of user 0, too, and group 0 wherever a call has it.
    Root,
    /// All.
    All,
}

/// What holds for the clients of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// What may be done.
    pub access: Access,
    /// Who becomes nobody.
    pub squash: Squash,
    /// Nobody's user.
    pub anonymous_uid: u32,
    /// Nobody's group.
    pub anonymous_gid: u32,
    /// Only source ports below 1024 are served, which only a client's root can use.
    pub secure: bool,
    /// How new what they read is, where there are several metaservers.
    pub consistency: Consistency,
}

impl Rules {
    /// Everything for everybody but the root of a client, whose calls must come from a reserved port: where nothing
    /// else is said.
    pub const SAFE: Rules = Rules {
        access: Access::ReadWrite,
        squash: Squash::Root,
        anonymous_uid: NOBODY,
        anonymous_gid: NOBODY,
        secure: true,
        consistency: Consistency::Strict,
    };
    /// Everything for everybody: for a machine's own address.
    pub const OPEN: Rules = Rules { squash: Squash::None, secure: false, ..Rules::SAFE };
}

/// Rules, and the clients that they hold for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Where the clients are.
    pub clients: Vec<Network>,
    /// What holds for them.
    pub rules: Rules,
}

/// All exports of a metaserver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exports {
    exports: Vec<Export>,
    /// Each network with the index of its export.
    narrowest_first: Vec<(Network, usize)>,
}

impl Exports {
    /// From all exports, in any order.
    ///
    /// # Errors
    /// A network that two of them have, with the index of the second one.
    pub fn new(exports: Vec<Export>) -> Result<Self, (Network, usize)> {
        let mut narrowest_first = Vec::new();
        for (index, export) in exports.iter().enumerate() {
            for network in &export.clients {
                if narrowest_first.iter().any(|(other, _)| other == network) {
                    return Err((*network, index));
                }
                narrowest_first.push((*network, index));
            }
        }
        narrowest_first.sort_by_key(|(network, _)| std::cmp::Reverse(network.prefix));
        Ok(Self { exports, narrowest_first })
    }

    /// The same rules for every address.
    #[must_use]
    pub fn everybody(rules: Rules) -> Self {
        let clients = vec![Network::ALL_V4, Network::ALL_V6];
        let narrowest_first = clients.iter().map(|network| (*network, 0)).collect();
        Self { exports: vec![Export { clients, rules }], narrowest_first }
    }

    /// The export of an address.
    #[must_use]
    pub fn find(&self, address: IpAddr) -> Option<&Export> {
        let holds = |(network, _): &&(Network, usize)| network.contains(address);
        let (_, index) = self.narrowest_first.iter().find(holds)?;
        self.exports.get(*index)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.exports.len()
    }

    /// Whether nobody is served.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.exports.is_empty()
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

    #[test]
    fn the_narrowest_network_decides_in_any_order() {
        let read_only = Rules { access: Access::ReadOnly, ..Rules::SAFE };
        let mut exports = vec![
            Export { clients: vec![network("10.0.0.0/8"), network("fd00::/8")], rules: read_only },
            Export { clients: vec![network("10.1.0.0/16")], rules: Rules::SAFE },
            Export { clients: vec![network("10.1.0.9")], rules: Rules::OPEN },
        ];
        for _ in 0..2 {
            let all = Exports::new(exports.clone()).unwrap();
            let rules = |address: &str| all.find(address.parse().unwrap()).map(|export| export.rules);
            assert_eq!(rules("10.2.0.1"), Some(read_only));
            assert_eq!(rules("fd12::1"), Some(read_only));
            assert_eq!(rules("10.1.0.1"), Some(Rules::SAFE));
            assert_eq!(rules("10.1.0.9"), Some(Rules::OPEN));
            assert_eq!(rules("11.0.0.1"), None);
            exports.reverse();
        }
        exports.push(Export { clients: vec![network("10.1.0.0/16")], rules: read_only });
        assert_eq!(Exports::new(exports), Err((network("10.1.0.0/16"), 3)));
        let all = Exports::everybody(Rules::OPEN);
        assert!(all.find("::1".parse().unwrap()).is_some() && all.find("9.9.9.9".parse().unwrap()).is_some());
        assert_eq!(Exports::new(vec![]).unwrap().find("10.0.0.1".parse().unwrap()), None);
    }
}
