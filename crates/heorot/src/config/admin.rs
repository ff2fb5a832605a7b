//! Configuration of the admin interface: the three keys that metaservers and data servers share.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::{ConfigError, Reader, admin, path, string};

/// Configuration of the admin interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AdminConfig {
    /// Address of the metrics page, and of the admin interface with the token; none: "off".
    pub address: Option<SocketAddr>,
    /// Group whose members may use the admin socket, by name or number; none: `heorot`, if the machine has
    /// it.
    pub group: Option<String>,
    /// Token file; none: the address serves metrics only.
    pub token_file: Option<PathBuf>,
}

/// Reads the keys. `default`: the default address.
pub(crate) fn read(r: &Reader<'_>, default: &str) -> Result<AdminConfig, ConfigError> {
    let remedy = format!("an address such as \"{default}\", or \"off\"");
    let address = r.optional("admin", &remedy, admin)?.unwrap_or_else(|| default.parse().ok());
    let token_file =
        r.optional("admin_token_file", "a file such as \"/etc/heorot/admin-token\"", |v| match address {
            None => Err("it is for `admin`, and that is \"off\"".into()),
            Some(_) => path(v),
        })?;
    Ok(AdminConfig {
        address,
        group: r.optional("admin_group", "a group of this machine, such as \"heorot\"", string)?,
        token_file,
    })
}
