//! Listen addresses, and errors with a remedy for an address that is not available.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use command_line::Failure;

/// Port of NFS.
pub(crate) const PORT_DEFAULT: u16 = 2049;

/// Address with an optional port, as in `heorot up --listen`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListenAddress(pub SocketAddr);

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
        let address = text.parse::<SocketAddr>().or_else(|_| {
            bare.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, PORT_DEFAULT)).map_err(|_| {
                format!("{text:?} is not an address such as 127.0.0.1, 10.0.0.1:2049 or [fd00::1]:2049")
            })
        })?;
        if address.port() == 0 {
            return Err("port 0 would be another one at each start; name one such as 2049".into());
        }
        // Clients connect to the data servers' addresses, so the unspecified address is not allowed.
        if address.ip().is_unspecified() {
            return Err(format!(
                "{} is no address that clients can reach; name one of this machine",
                address.ip()
            ));
        }
        Ok(Self(address))
    }
}

/// Error with a remedy for an address that is not available. `setting`: the option or key that names it, such
/// as `--listen`.
pub(crate) fn refused(address: SocketAddr, setting: &str, error: &io::Error) -> Failure {
    let what_to_do = match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "is taken; stop the program that listens there (another heorot, or the kernel's NFS server?), or choose another \
             port with {setting}"
        ),
        io::ErrorKind::PermissionDenied => format!(
            "is not permitted; ports below 1024 need root or CAP_NET_BIND_SERVICE: choose a higher one with {setting}"
        ),
        io::ErrorKind::AddrNotAvailable => {
            format!("is not an address of this machine; name one that is with {setting}")
        }
        _ => format!("cannot be listened on: {error}; choose another with {setting}"),
    };
    Failure::new(format!("{address} {what_to_do}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_have_a_port() {
        let cases = [
            ("127.0.0.1", "127.0.0.1:2049"),
            ("10.0.0.1:3049", "10.0.0.1:3049"),
            ("::1", "[::1]:2049"),
            ("[::1]", "[::1]:2049"),
            ("[::1]:3049", "[::1]:3049"),
        ];
        for (text, address) in cases {
            assert_eq!(text.parse(), Ok(ListenAddress(address.parse().unwrap())), "{text}");
        }
        for text in ["", "localhost", "0.0.0.0", "[::]:2049", "10.0.0.1:0", "10.0.0.1:99999", "10.0.0"] {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_taken_port_is_named_with_the_option() {
        let error = io::Error::from(io::ErrorKind::AddrInUse);
        let line = refused("127.0.0.1:2049".parse().unwrap(), "--listen", &error).to_string();
        assert!(line.starts_with("127.0.0.1:2049 is taken; ") && line.ends_with("with --listen"), "{line}");
    }
}
