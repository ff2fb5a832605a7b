//! Address of an NFS server without a mount: `nfs://host[:port]/path?version=4.2`.

use std::fmt;
use std::str::FromStr;

/// Default version.
const VERSION_DEFAULT: &str = "4.2";
const VERSIONS: [&str; 3] = ["3", "4.1", "4.2"];
/// Parameters after the question mark, each at most once.
const OPTIONS: [&str; 5] = ["version", "uid", "gid", "mountport", "noresvport"];
/// Characters with a meaning for nfs-rs in an URL; paths must not have them.
const NOT_IN_A_PATH: [char; 3] = ['%', '#', ' '];

/// Valid address; the server may not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NfsAddress {
    /// Text as given.
    text: String,
    /// URL for nfs-rs, with all parameters.
    url: String,
    version: &'static str,
}

impl NfsAddress {
    /// True if `text` has the form of such an address.
    #[must_use]
    pub fn is_meant_by(text: &str) -> bool {
        text.starts_with("nfs://")
    }

    /// URL for nfs-rs.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// `3`, `4.1` or `4.2`.
    #[must_use]
    pub fn version(&self) -> &'static str {
        self.version
    }
}

impl fmt::Display for NfsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for NfsAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shape = || format!("{text}: not an address such as nfs://10.0.0.1:2049/path?version=4.2");
        let rest = text.strip_prefix("nfs://").ok_or_else(shape)?;
        let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
        let (host_port, path) = place.split_once('/').unwrap_or((place, ""));
        let (host, port) = split_port(host_port).ok_or_else(shape)?;
        if host.is_empty() || host.contains('@') {
            return Err(shape());
        }
        if path.contains(NOT_IN_A_PATH) || path.split('/').any(|name| name == "..") {
            return Err(format!("{text}: the path may have no %, #, blank or .. in it"));
        }
        let mut given = Vec::new();
        for option in query.into_iter().flat_map(|query| query.split('&')) {
            let (name, value) = option.split_once('=').ok_or_else(shape)?;
            let known = OPTIONS.into_iter().find(|known| *known == name);
            let Some(name) = known.filter(|name| given.iter().all(|(other, _)| other != name)) else {
                return Err(format!("{text}: {name} is not one of {}, each once", OPTIONS.join(", ")));
            };
            check(name, value).map_err(|line| format!("{text}: {line}"))?;
            given.push((name, value));
        }
        let value = |name| given.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        let version = value("version").unwrap_or(VERSION_DEFAULT);
        let version = VERSIONS.into_iter().find(|known| *known == version).unwrap_or(VERSION_DEFAULT);
        let mut url = format!("nfs://{host_port}/{path}?version={version}");
        for (name, value) in &given {
            if *name != "version" {
                url.push_str(&format!("&{name}={value}"));
            }
        }
        // With a port there is no port mapper, and MOUNT is on the same port, as in `heorot`.
        if let (Some(port), None) = (port, value("mountport")) {
            url.push_str(&format!("&mountport={port}"));
        }
        // Only root may use the ports below 1024, the default of nfs-rs.
        if value("noresvport").is_none() && !rustix::process::geteuid().is_root() {
            url.push_str("&noresvport=true");
        }
        Ok(Self { text: text.to_owned(), url, version })
    }
}

fn check(name: &str, value: &str) -> Result<(), String> {
    let right = match name {
        "version" => VERSIONS.contains(&value),
        "uid" | "gid" => value.parse::<u32>().is_ok(),
        "mountport" => value.parse::<u16>().is_ok_and(|port| port > 0),
        _ => value.parse::<bool>().is_ok(),
    };
    let wanted = match name {
        "version" => "3, 4.1 or 4.2",
        "noresvport" => "true or false",
        _ => "such a number",
    };
    if right { Ok(()) } else { Err(format!("{name}={value} is not {wanted}")) }
}

/// Splits `10.0.0.1:2049`, `[fd00::1]:2049`, or a host without a port.
fn split_port(host_port: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match host_port.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (host_port, None),
    };
    match port {
        Some(port) => port.parse().ok().filter(|port| *port > 0).map(|port| (host, Some(port))),
        None => Some((host, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// URL without the parameter that depends on whether the test runs as root.
    fn url(text: &str) -> String {
        let address: NfsAddress = text.parse().unwrap();
        assert_eq!(address.to_string(), text);
        address.url().replace("&noresvport=true", "")
    }

    #[test]
    fn an_address_becomes_what_nfs_rs_understands() {
        assert_eq!(url("nfs://host"), "nfs://host/?version=4.2");
        assert_eq!(url("nfs://host/"), "nfs://host/?version=4.2");
        assert_eq!(
            url("nfs://10.0.0.1:3049/a/b?version=3"),
            "nfs://10.0.0.1:3049/a/b?version=3&mountport=3049"
        );
        assert_eq!(
            url("nfs://[fd00::1]:2049/?version=4.1&uid=7"),
            "nfs://[fd00::1]:2049/?version=4.1&uid=7&mountport=2049"
        );
        assert_eq!(url("nfs://[fd00::1]/"), "nfs://[fd00::1]/?version=4.2");
        assert_eq!(
            url("nfs://h:1/?version=3&mountport=635"),
            "nfs://h:1/?version=3&mountport=635",
            "one that was given stays"
        );
    }

    #[test]
    fn what_is_no_address_is_refused_with_what_would_be_one() {
        let cases = [
            ("nfs://", "such as nfs://10.0.0.1:2049/path"),
            ("nfs:///path", "such as"),
            ("nfs://host:0/", "such as"),
            ("nfs://host:70000/", "such as"),
            ("nfs://host/?", "such as"),
            ("nfs://host/a b", "no %, #, blank"),
            ("nfs://host/a/../b", "no %, #, blank or .."),
            ("nfs://host/?version=4.0", "version=4.0 is not 3, 4.1 or 4.2"),
            ("nfs://host/?uid=-1", "uid=-1 is not such a number"),
            ("nfs://host/?rsize=1", "rsize is not one of version, uid, gid, mountport, noresvport"),
            ("nfs://host/?version=3&version=4.1", "each once"),
        ];
        for (text, part) in cases {
            let line = text.parse::<NfsAddress>().unwrap_err();
            assert!(line.starts_with(text) && line.contains(part), "{line}");
        }
    }
}
