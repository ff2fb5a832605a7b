//! How a server is administered: the three keys that metaservers and data servers share.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::{ConfigError, Reader, admin, path, string};

/// Administrators of a server, and its admin address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AdminConfig {
    /// The address of the metrics page, and of the admin interface for those that show the token; none:
    /// "off".
    pub address: Option<SocketAddr>,
    /// The group whose members may use the admin socket, by name or number; none: `heorot`, if there is one.
    pub group: Option<String>,
    /// The file with the token; none: the admin interface is not served on the address.
    pub token_file: Option<PathBuf>,
}

/// Takes the keys from a file. `default`: the address where none is said.
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
