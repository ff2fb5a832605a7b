//! `heorot check-config`: checks a configuration file before a restart of its server.

use std::path::Path;

use crate::cli::CheckConfigArgs;
use crate::config::ds::{self, DsConfig};
use crate::config::mds::{self, MdsConfig};
use crate::config::{self, ConfigError};
use command_line::Failure;

/// `heorot check-config`.
pub(crate) fn check_config(args: &CheckConfigArgs) -> Result<(), Failure> {
    println!("{}", check(&args.file, &config::read(&args.file)?)?);
    Ok(())
}

/// Kind of server that the file configures: the kind with more of its keys in the file.
fn check(file: &Path, text: &str) -> Result<String, ConfigError> {
    let name = file.display();
    if config::matching_keys(text, &ds::KEYS) > config::matching_keys(text, &mds::KEYS) {
        let DsConfig { advertise, metaservers, targets, .. } = DsConfig::parse(file, text)?;
        let metaserver = metaservers.join(", ");
        let count = targets.len();
        return Ok(format!(
            "{name}: right: a data server at {advertise} with {count} targets, of metaserver {metaserver}"
        ));
    }
    let MdsConfig { listen, data_dir, .. } = MdsConfig::parse(file, text)?;
    let data_dir = data_dir.display();
    Ok(format!("{name}: right: a metaserver at {listen} with its data in {data_dir}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str) -> String {
        check(Path::new("f"), text).unwrap_or_else(|e| e.to_string())
    }

    #[test]
    fn the_kind_of_server_is_told_by_the_keys() {
        let ds = include_str!("../../../../docs/examples/ds.toml");
        assert_eq!(
            checked(ds),
            "f: right: a data server at 10.0.0.5:2049 with 2 targets, of metaserver 10.0.0.1:2049"
        );
        let mds = include_str!("../../../../docs/examples/mds.toml");
        assert_eq!(
            checked(mds),
            "f: right: a metaserver at 10.0.0.1:2049 with its data in /var/lib/heorot/mds"
        );
        let off = ds.replace("\ntargets", "\ntarget");
        assert!(
            checked(&off).ends_with("there is no key `target`; did you mean `targets`?"),
            "{}",
            checked(&off)
        );
    }
}
