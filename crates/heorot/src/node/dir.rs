//! Directory of a node: the servers of one machine. `heorot init` and `heorot join` make it, operators edit
//! its files, `heorot run` runs it.
//!
//! ```text
//! DIR/ secret   identity.toml   mds.toml  mds/    of a metaserver
//!                               ds.toml   ds/     of a data server; and its targets, here or elsewhere
//! ```
//!
//! identity.toml is written last: a directory without it is incomplete, and may be made again.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use toml::Value;

use crate::cli::{NodeSetupArgs, Role};
use crate::config::ds::{DsConfig, can_move};
use crate::config::mds::MdsConfig;
use crate::node::listen;
use crate::servers::ds;
use command_line::Failure;

/// Kind of a node's directory.
pub(crate) const KIND: &str = "node";
pub(crate) const SECRET_FILE: &str = "secret";
pub(crate) const MDS_FILE: &str = "mds.toml";
pub(crate) const DS_FILE: &str = "ds.toml";
/// Default consensus port of a metaserver: the third after the clients' port.
pub(crate) const CONSENSUS_PORT: u16 = listen::PORT_DEFAULT + CONSENSUS_AFTER;
const CONSENSUS_AFTER: u16 = 3;
/// Distance of a data server's port from the metaserver's port of the same machine.
const DATA_AFTER: u16 = 1;

/// Examples in docs/, the initial files of a node.
const MDS_EXAMPLE: &str = include_str!("../../../../docs/examples/mds.toml");
const DS_EXAMPLE: &str = include_str!("../../../../docs/examples/ds.toml");

/// Plan of a new node.
pub(crate) struct Plan {
    pub dir: PathBuf,
    pub name: String,
    pub address: IpAddr,
    pub metaserver: bool,
    pub data_server: bool,
    targets: Vec<PathBuf>,
    data_service_address: Option<IpAddr>,
    zone: Option<String>,
    port: u16,
    admin: SocketAddr,
}

impl Plan {
    /// Plan from the command line. `address`: finds this machine's address, if the command line has none.
    pub(crate) fn new(
        args: &NodeSetupArgs,
        address: impl FnOnce() -> Result<IpAddr, Failure>,
    ) -> Result<Self, Failure> {
        let absolute = |path: &Path| {
            std::path::absolute(path)
                .map_err(|e| Failure::new(format!("{}: {e}; name a directory", path.display())))
        };
        let dir = absolute(&args.dir)?;
        let name = args.name.clone().unwrap_or_else(ds::host_name);
        let (metaserver, data_server) = (args.roles.contains(&Role::Mds), args.roles.contains(&Role::Ds));
        for (option, is_given) in [
            ("--target", !args.targets.is_empty()),
            ("--data-service-address", args.data_service_address.is_some()),
            ("--zone", args.zone.is_some()),
        ] {
            if is_given && !data_server {
                return Err(Failure::new(format!(
                    "{option} is for a data server, and --role does not have ds; add it, or leave {option} out"
                )));
            }
        }
        let targets = match args.targets.as_slice() {
            [] => vec![dir.join("target")],
            targets => targets.iter().map(|target| absolute(target)).collect::<Result<_, _>>()?,
        };
        if args.port.checked_add(CONSENSUS_AFTER).is_none() || args.admin.port() == u16::MAX {
            return Err(Failure::new(
                "a node uses the ports after --port and --admin, too; choose lower ones",
            ));
        }
        let address = match args.address {
            Some(address) => address,
            None => address()?,
        };
        Ok(Self {
            dir,
            name,
            address,
            metaserver,
            data_server,
            targets,
            data_service_address: args.data_service_address,
            zone: args.zone.clone(),
            port: args.port,
            admin: args.admin,
        })
    }

    /// Address for the other metaservers.
    pub(crate) fn consensus(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port + CONSENSUS_AFTER)
    }

    /// Address that clients mount.
    pub(crate) fn serves(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port)
    }

    /// Address of the data server.
    pub(crate) fn data(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port + DATA_AFTER)
    }

    pub(crate) fn roles(&self) -> &'static str {
        match (self.metaserver, self.data_server) {
            (true, true) => "metaserver and data server",
            (true, false) => "metaserver",
            (false, _) => "data server",
        }
    }

    /// Checks that the addresses are free now, while the operator is present.
    pub(crate) fn check_addresses(&self) -> Result<(), Failure> {
        let metaserver = self.metaserver.then_some([(self.serves(), "--port"), (self.consensus(), "--port")]);
        let data_server = self.data_server.then_some((self.data(), "--port"));
        for (address, setting) in metaserver.into_iter().flatten().chain(data_server) {
            TcpListener::bind(address).map_err(|error| {
                let setting =
                    if error.kind() == io::ErrorKind::AddrNotAvailable { "--address" } else { setting };
                listen::refused(address, setting, &error)
            })?;
        }
        Ok(())
    }

    /// Whether this machine has the address now.
    pub(crate) fn is_own(&self, address: IpAddr) -> bool {
        address == self.address || UdpSocket::bind((address, 0)).is_ok()
    }

    /// Checks that the data server's service address can move between machines, and has no other use.
    /// `of_metaservers`: the service addresses of the metaservers.
    pub(crate) fn check_data_service_address(&self, of_metaservers: &[IpAddr]) -> Result<(), Failure> {
        let Some(address) = self.data_service_address else { return Ok(()) };
        let fault = match address {
            _ if !can_move(address) => "cannot move between machines",
            _ if self.is_own(address) => "is this machine's own address",
            _ if of_metaservers.contains(&address) => "is a --service-address, too, which metaservers share",
            _ => return Ok(()),
        };
        Err(Failure::new(format!(
            "--data-service-address {address} {fault}; the data server's service address belongs to no machine, so that \
             another data server can hold it: choose one of the same network that is free"
        )))
    }

    /// Checks the targets' directories. A target below a missing directory is a typing error, or its disk is
    /// not mounted. Returns a note for the operator about targets on the root file system, which is seldom
    /// intended.
    pub(crate) fn check_targets(&self) -> Result<String, Failure> {
        let mut notes = String::new();
        if !self.data_server {
            return Ok(notes);
        }
        let device = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.dev()).ok();
        for target in &self.targets {
            // The default target is in the node's own directory, which is made.
            let above = if target.starts_with(&self.dir) {
                self.dir.ancestors().find(|dir| dir.exists())
            } else {
                target.parent()
            };
            let Some(above) = above.filter(|above| above.is_dir()) else {
                return Err(Failure::new(format!(
                    "--target {}: there is no directory {}; make it, or mount the disk that it should be on",
                    target.display(),
                    target.parent().unwrap_or(target).display()
                )));
            };
            let holds = if target.exists() { target } else { above };
            if device(holds).is_some() && device(holds) == device(Path::new("/")) {
                notes += &format!(
                    "\nThe target {} is on the root file system, which file data can fill; a disk of its own is better.\n",
                    target.display()
                );
            }
        }
        Ok(notes)
    }

    /// Text of the node's mds.toml. `everywhere`: it will serve addresses that it does not have yet.
    pub(crate) fn mds_toml(&self, join: Option<SocketAddr>, everywhere: bool) -> Result<String, Failure> {
        // Listen everywhere, since service addresses can be added at any time; not on loopback, which cannot
        // have them.
        let listen = match self.address {
            address if address.is_loopback() && !everywhere => self.serves(),
            IpAddr::V4(_) => SocketAddr::from(([0; 4], self.port)),
            IpAddr::V6(_) => SocketAddr::from(([0; 16], self.port)),
        };
        let mut settings: toml::Table = [
            ("listen".to_owned(), listen.to_string().into()),
            ("data_dir".to_owned(), text(&self.dir.join("mds"))?),
            ("secret_file".to_owned(), text(&self.dir.join(SECRET_FILE))?),
            ("admin".to_owned(), self.admin.to_string().into()),
            ("name".to_owned(), self.name.clone().into()),
            ("consensus".to_owned(), self.consensus().to_string().into()),
        ]
        .into_iter()
        .collect();
        settings.extend(join.map(|join| ("join".to_owned(), join.to_string().into())));
        let file = filled(MDS_EXAMPLE, settings);
        MdsConfig::parse(&self.dir.join(MDS_FILE), &file)?;
        Ok(file)
    }

    /// Text of the node's ds.toml.
    pub(crate) fn ds_toml(&self, metaservers: &[String]) -> Result<String, Failure> {
        let targets = self.targets.iter().map(|target| text(target)).collect::<Result<Vec<_>, _>>()?;
        let metaservers = metaservers.iter().cloned().map(Value::from).collect::<Vec<_>>();
        let admin = SocketAddr::new(self.admin.ip(), self.admin.port() + 1);
        // As in `mds_toml`: a service address can be added at any time.
        let listen = match self.address {
            address if address.is_loopback() && self.data_service_address.is_none() => self.data(),
            IpAddr::V4(_) => SocketAddr::from(([0; 4], self.data().port())),
            IpAddr::V6(_) => SocketAddr::from(([0; 16], self.data().port())),
        };
        let mut settings: toml::Table = [
            ("listen", listen.to_string().into()),
            ("advertise", self.data().to_string().into()),
            ("metaserver", metaservers.into()),
            ("secret_file", text(&self.dir.join(SECRET_FILE))?),
            ("data_dir", text(&self.dir.join("ds"))?),
            ("targets", targets.into()),
            ("admin", admin.to_string().into()),
            ("name", self.name.clone().into()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into_iter()
        .collect();
        let own = self.data_service_address.map(|own| ("service_address".to_owned(), own.to_string().into()));
        settings.extend(own);
        settings.extend(self.zone.clone().map(|zone| ("zone".to_owned(), zone.into())));
        let file = filled(DS_EXAMPLE, settings);
        DsConfig::parse(&self.dir.join(DS_FILE), &file)?;
        Ok(file)
    }
}

/// Path as a value of a configuration file.
pub(crate) fn text(path: &Path) -> Result<Value, Failure> {
    let text = path.to_str().map(Value::from);
    text.ok_or_else(|| {
        Failure::new(format!("{}: is not UTF-8, as a configuration file is; name another", path.display()))
    })
}

/// Example with its values replaced by `settings`, and missing keys added.
fn filled(example: &str, mut settings: toml::Table) -> String {
    let mut out = String::new();
    for line in example.lines() {
        let key = line.strip_prefix("# ").unwrap_or(line).split_once(" = ").map(|(key, _)| key);
        match key.and_then(|key| settings.remove(key).map(|value| format!("{key} = {value}"))) {
            Some(line) => out += &line,
            None => out += line,
        }
        out.push('\n');
    }
    if !settings.is_empty() {
        // Keys must stand above the sections.
        let rest: String = settings.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        out.insert_str(0, &rest);
    }
    out
}

/// Address of this machine in the network, if it is unambiguous. Nothing is sent.
pub(crate) fn own_address() -> Result<IpAddr, Failure> {
    let routed = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        // Documentation address (RFC 5737): only the route to it matters.
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    match routed.map(|address| address.ip()) {
        Ok(ip) if !ip.is_unspecified() && !ip.is_loopback() => Ok(ip),
        _ => Err(Failure::new(
            "which address do the other machines reach this one at? Name it with --address, such as --address 10.0.0.1",
        )),
    }
}

/// Writes the file atomically.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    host::replace(&host::SystemFiles, path, text.as_bytes()).map_err(|e| {
        Failure::new(format!("{}: cannot be written: {e}; name another directory with --dir", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn plan(line: &str) -> Plan {
        let Command::Init(args) = Cli::try_parse_from(line.split(' ')).unwrap().command else {
            panic!("{line}")
        };
        Plan::new(&args.node, || Ok([10, 0, 0, 9].into())).unwrap()
    }

    #[test]
    fn a_node_s_files_are_the_examples_with_its_own_values() {
        let plan = plan("heorot init --dir /n --name ash --address 10.0.0.1 --target /a --target /b");
        let mds = plan.mds_toml(None, false).unwrap();
        let config = MdsConfig::parse(Path::new("f"), &mds).unwrap();
        assert_eq!(config.listen, "0.0.0.0:2049".parse().unwrap(), "service addresses can come");
        assert_eq!(config.data_dir, Path::new("/n/mds"));
        let group = config.group.unwrap();
        assert_eq!((group.name.as_str(), group.join), ("ash", None));
        assert_eq!(group.consensus, "10.0.0.1:2052".parse().unwrap());
        assert_eq!(mds.lines().count(), MDS_EXAMPLE.lines().count(), "with all that it explains");

        let ds = plan.ds_toml(&["10.0.0.1:2049".into(), "10.0.0.2:2049".into()]).unwrap();
        let config = DsConfig::parse(Path::new("f"), &ds).unwrap();
        assert_eq!(config.listen, "0.0.0.0:2050".parse().unwrap(), "a service address can come");
        assert_eq!((config.advertise, config.metaservers.len()), ("10.0.0.1:2050".parse().unwrap(), 2));
        assert_eq!(config.targets, [Path::new("/a"), Path::new("/b")]);
        assert_eq!((config.name.as_deref(), config.service_address), (Some("ash"), None));
    }

    #[test]
    fn the_data_server_s_service_address_is_in_its_file() {
        for (own, listen) in
            [("10.0.0.1", "0.0.0.0:2050"), ("127.0.0.9", "0.0.0.0:2050"), ("fd00::1", "[::]:2050")]
        {
            let service = if own.contains(':') { "fd00::105" } else { "10.0.0.105" };
            let plan = plan(&format!(
                "heorot init --dir /n --address {own} --zone r1 --data-service-address {service}"
            ));
            plan.check_data_service_address(&[[10, 0, 0, 100].into()]).unwrap();
            let file = plan.ds_toml(&["10.0.0.1:2049".into()]).unwrap();
            assert!(file.contains(&format!("\nservice_address = \"{service}\"\n")), "{file}");
            assert_eq!(file.lines().count(), DS_EXAMPLE.lines().count(), "with all that it explains");
            let config = DsConfig::parse(Path::new("f"), &file).unwrap();
            assert_eq!(config.service_address, service.parse().ok());
            assert_eq!(config.zone.as_deref(), Some("r1"));
            assert_eq!((config.listen, config.advertise), (listen.parse().unwrap(), plan.data()));
        }
    }

    #[test]
    fn a_service_address_that_cannot_move_or_has_another_use_is_refused() {
        let of_metaservers = [[10, 0, 0, 100].into()];
        for (address, why) in [
            ("10.0.0.9", "is this machine's own address"),
            ("127.0.0.9", "cannot move between machines"),
            ("::1", "cannot move between machines"),
            ("0.0.0.0", "cannot move between machines"),
            ("224.0.0.1", "cannot move between machines"),
            ("10.0.0.100", "is a --service-address, too, which metaservers share"),
        ] {
            let plan = plan(&format!("heorot init --dir /n --data-service-address {address}"));
            let error = plan.check_data_service_address(&of_metaservers).unwrap_err().to_string();
            assert!(error.starts_with(&format!("--data-service-address {address} {why}; ")), "{error}");
            assert!(error.ends_with("choose one of the same network that is free"), "{error}");
        }
        let line = "heorot init --dir /n --role mds --data-service-address 10.0.0.105";
        let Command::Init(args) = Cli::try_parse_from(line.split(' ')).unwrap().command else { panic!() };
        let error = Plan::new(&args.node, || panic!("refused before")).err().unwrap().to_string();
        assert!(error.contains("--role does not have ds; add it, or leave"), "{error}");
    }

    #[test]
    fn one_that_joins_on_a_loopback_address_listens_there_alone() {
        let plan = plan("heorot init --dir /n --name ash --port 3049");
        assert_eq!(plan.address, IpAddr::from([10, 0, 0, 9]), "as it was found out");
        let local = Plan { address: [127, 0, 0, 9].into(), ..plan };
        let file = local.mds_toml("10.0.0.1:2052".parse().ok(), false).unwrap();
        let config = MdsConfig::parse(Path::new("f"), &file).unwrap();
        assert_eq!(config.listen, "127.0.0.9:3049".parse().unwrap());
        assert_eq!(config.group.unwrap().join, "10.0.0.1:2052".parse().ok());
    }

    #[test]
    fn a_target_below_a_directory_that_is_not_there_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let at =
            |target: &str| format!("heorot init --dir {0}/n --target {0}/{target}", home.path().display());
        assert!(plan(&at("disk")).check_targets().is_ok());
        let error = plan(&at("dsik/target")).check_targets().unwrap_err().to_string();
        assert!(
            error.contains("there is no directory") && error.contains("/dsik; make it, or mount"),
            "{error}"
        );
        let default = plan(&format!("heorot init --dir {}/made/later", home.path().display()));
        assert!(default.check_targets().is_ok(), "in the node's own directory");
    }

    #[test]
    fn a_target_on_the_root_file_system_is_said() {
        let home = tempfile::tempdir().unwrap();
        // Neither is made.
        let note = |target: &str| {
            let line = format!("heorot init --dir {}/n --target {target}", home.path().display());
            plan(&line).check_targets().unwrap()
        };
        assert!(note("/heorot-is-not-here").contains("/heorot-is-not-here is on the root file system"));
        assert_eq!(note("/proc/heorot-is-not-here"), "", "another file system");
    }
}
