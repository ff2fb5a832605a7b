//! Several metaservers, each in a network namespace of its own, with service addresses that move between
//! them.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::heorot::{BEGIN, DS_ADMIN_PORT, DS_PORT, MDS_ADMIN_PORT, NFS_PORT, READY, mount_script};
use lab::{Namespace, Server};
use rustix::process::Signal;

use crate::{Client, Lab, MOUNT_POINT, Metrics, binary, must};

const CONSENSUS_PORT: u16 = 2052;
const START_TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// Last part of the first service address; no server or client of a lab has it.
const SERVICE_FIRST: u8 = 240;
/// The same of the first data server's service address.
const DATA_SERVICE_FIRST: u8 = 230;

/// Cluster with a group of metaservers; drop kills them, and prints their logs if the test fails.
pub struct Metaservers {
    /// Folder of the metaservers' directories, with their admin sockets.
    folder: PathBuf,
    metaservers: Vec<Server>,
    places: Vec<Namespace>,
    data_servers: Vec<Server>,
    /// Places of the data servers, if each has one of its own.
    data_places: Vec<Namespace>,
    services: Vec<IpAddr>,
}

/// Machines of the data servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DataPlaces {
    /// All on this machine.
    Shared,
    /// Each in a namespace of its own, with a service address, on a link of this speed if there is one.
    Own(Option<lab::Link>),
}

impl Metaservers {
    /// Starts metaservers, data servers and service addresses; returns when all of them are ready.
    #[track_caller]
    pub fn start(lab: &Lab, metaservers: usize, data_servers: usize, services: u8) -> Metaservers {
        Self::start_in(lab, metaservers, data_servers, services, DataPlaces::Shared)
    }

    /// Starts the same with each data server in a network namespace of its own, with a service address.
    #[track_caller]
    pub fn with_data_addresses(lab: &Lab, metaservers: usize, data_servers: usize) -> Metaservers {
        Self::start_in(lab, metaservers, data_servers, 1, DataPlaces::Own(None))
    }

    /// Starts one metaserver, and data servers in network namespaces on links of this speed.
    #[track_caller]
    pub fn with_data_links(lab: &Lab, data_servers: usize, link: lab::Link) -> Metaservers {
        Self::start_in(lab, 1, data_servers, 1, DataPlaces::Own(Some(link)))
    }

    #[track_caller]
    fn start_in(
        lab: &Lab,
        metaservers: usize,
        data_servers: usize,
        services: u8,
        data_places: DataPlaces,
    ) -> Metaservers {
        let folder = lab.folder().join("group");
        let places: Vec<Namespace> = (0..metaservers).map(|_| must(lab.inner().namespace(None))).collect();
        let [a, b, c, _] = lab.address().octets();
        let services: Vec<IpAddr> =
            (0..services).map(|n| IpAddr::from([a, b, c, SERVICE_FIRST + n])).collect();
        let at = |n: usize, port: u16| SocketAddr::from((places[n].address, port));
        let listed = |all: Vec<String>| format!("[{}]", all.join(", "));
        let mut cluster = Metaservers {
            folder: folder.clone(),
            metaservers: vec![],
            places: vec![],
            data_servers: vec![],
            data_places: vec![],
            services: vec![],
        };
        for (n, place) in places.iter().enumerate() {
            let join = if n == 0 { String::new() } else { format!("join = \"{}\"\n", at(0, CONSENSUS_PORT)) };
            let text = format!(
                "listen = \"0.0.0.0:{NFS_PORT}\"\nadmin = \"{}\"\ndata_dir = {:?}\nsecret_file = {:?}\n\
                 name = \"mds{n}\"\nconsensus = \"{}\"\n{join}",
                at(n, MDS_ADMIN_PORT),
                make(folder.join(format!("mds{n}"))),
                folder.join("secret"),
                at(n, CONSENSUS_PORT),
            );
            if n == 0 {
                let services = listed(services.iter().map(|service| format!("\"{service}\"")).collect());
                let begin = lab.folder().join("mds0.begin.toml");
                fs::write(&begin, format!("{BEGIN}service_addresses = {services}\n"))
                    .unwrap_or_else(|e| panic!("write {}: {e}", begin.display()));
            }
            let mut server = configured(lab, &format!("mds{n}"), "mds", &text, Some(place));
            // The first one makes the secret and founds the group.
            must(server.start());
            cluster.metaservers.push(server);
        }
        let all = listed((0..metaservers).map(|n| format!("\"{}\"", at(n, NFS_PORT))).collect());
        for (n, port) in (0..data_servers).zip(DS_PORT..) {
            let (addresses, place) = match data_places {
                DataPlaces::Shared => {
                    let admin = SocketAddr::from((lab.address(), DS_ADMIN_PORT + port - DS_PORT));
                    let listen = SocketAddr::from((lab.address(), port));
                    (format!("listen = \"{listen}\"\nadmin = \"{admin}\"\n"), None)
                }
                DataPlaces::Own(link) => {
                    let place = must(lab.inner().namespace(link));
                    let service = IpAddr::from([a, b, c, DATA_SERVICE_FIRST + n as u8]);
                    let text = addresses_of(&place, service);
                    cluster.data_places.push(place);
                    (text, cluster.data_places.last())
                }
            };
            let text = data_server_text(&folder, n, &addresses, &all);
            let mut server = configured(lab, &format!("ds{n}"), "ds", &text, place);
            must(server.start());
            cluster.data_servers.push(server);
        }
        (cluster.places, cluster.services) = (places, services);
        cluster.wait_until("all data servers are known, and all service addresses held", |cluster| {
            let knows = |n| {
                let status = cluster.status(n);
                let servers = status["data_servers"].as_array().map_or(0, |servers| {
                    servers.iter().filter(|server| server["targets"][0]["state"] == "ok").count()
                });
                servers == data_servers
            };
            (0..metaservers).all(knows) && cluster.services.iter().all(|s| cluster.holder(*s).is_some())
        });
        cluster
    }

    /// Service address `number`.
    pub fn service(&self, number: usize) -> IpAddr {
        self.services[number]
    }

    /// Mounts the root from service address `number` on the client's [`MOUNT_POINT`].
    #[track_caller]
    pub fn mount(&self, client: &Client, number: usize, version: &str) {
        self.mount_from(client, self.service(number), version);
    }

    /// Status of the cluster from metaserver `n`; null without an answer.
    pub fn status(&self, n: usize) -> serde_json::Value {
        let output =
            Command::new(binary()).args(["status", "--json", "--admin"]).arg(self.directory(n)).output();
        let output = output.expect("heorot can be run");
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// True if all chains have all members, and none moves.
    pub fn has_whole_chains(&self) -> bool {
        let chains = &self.status(0)["chains"];
        chains["count"].as_u64() > Some(0)
            && ["refilling", "moving", "incomplete", "waiting"].iter().all(|state| chains[*state] == 0)
    }

    fn directory(&self, n: usize) -> PathBuf {
        self.folder.join(format!("mds{n}"))
    }

    /// Runs `heorot` with `arguments` at metaserver `n`, and returns its output.
    #[track_caller]
    pub fn heorot(&self, n: usize, arguments: &[&str]) -> String {
        let output = Command::new(binary()).args(arguments).arg("--admin").arg(self.directory(n)).output();
        let output = output.expect("heorot can be run");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
        said
    }

    /// Runs `heorot` with `arguments` at metaserver `n`, which refuses. Returns its error.
    #[track_caller]
    pub fn refused(&self, n: usize, arguments: &[&str]) -> String {
        let output = Command::new(binary()).args(arguments).arg("--admin").arg(self.directory(n)).output();
        let output = output.expect("heorot can be run");
        assert!(!output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// What `heorot` with `arguments` says at metaserver `n`, whether it is refused or not.
    pub fn try_heorot(&self, n: usize, arguments: &[&str]) -> String {
        let output = self.begin_heorot(n, arguments).wait_with_output().expect("heorot can be waited for");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    /// Starts `heorot` with `arguments` at metaserver `n`. Its standard input is a pipe.
    pub fn begin_heorot(&self, n: usize, arguments: &[&str]) -> Child {
        let mut command = Command::new(binary());
        command.args(arguments).arg("--admin").arg(self.directory(n));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("heorot can be run")
    }

    /// Metrics of metaserver `n`.
    #[track_caller]
    pub fn metrics(&self, n: usize) -> Metrics {
        Metrics::read(SocketAddr::from((self.places[n].address, MDS_ADMIN_PORT)))
    }

    /// Metrics of data server `n`, if it is in no namespace of its own.
    #[track_caller]
    pub fn data_metrics(&self, n: u16) -> Metrics {
        let IpAddr::V4(first) = self.services[0] else { panic!("the lab has addresses of IPv4") };
        let [a, b, c, _] = first.octets();
        Metrics::read(SocketAddr::from(([a, b, c, 1], DS_ADMIN_PORT + n)))
    }

    /// CPU seconds of all servers since their start.
    #[track_caller]
    pub fn cpu_seconds(&self) -> f64 {
        self.metaservers.iter().chain(&self.data_servers).map(|server| must(server.cpu_seconds())).sum()
    }

    /// Index of the leader, according to a live metaserver.
    pub fn leader(&self) -> Option<usize> {
        let statuses = (0..self.metaservers.len()).map(|n| self.status(n));
        let leaders = statuses.filter_map(|status| {
            let all = status["metaservers"].as_array()?;
            let leader = all.iter().find(|metaserver| metaserver["role"] == "leader")?;
            number(leader["name"].as_str()?)
        });
        leaders.max()
    }

    /// Index of the metaserver whose machine has a service address.
    pub fn holder(&self, service: IpAddr) -> Option<usize> {
        self.places.iter().position(|place| has_address(place, service))
    }

    /// Kills metaserver `n` (`kill -9`).
    pub fn kill(&mut self, n: usize) {
        self.metaservers[n].kill();
    }

    /// Disconnects metaserver `n` from the network, or connects it, at the other end of its link.
    pub fn set_cut_off(&self, n: usize, is_cut_off: bool) {
        set_link(&self.places[n], !is_cut_off);
    }

    /// The same for data server `n`, which has a namespace of its own.
    pub fn set_data_server_cut_off(&self, n: usize, is_cut_off: bool) {
        set_link(&self.data_places[n], !is_cut_off);
    }

    /// Starts one more data server with this service address: beside a metaserver, or in a namespace of its own.
    /// Returns its index.
    #[track_caller]
    pub fn add_data_server(&mut self, lab: &Lab, beside: Option<usize>, service: IpAddr) -> usize {
        let n = self.data_servers.len();
        let place = match beside {
            Some(metaserver) => &self.places[metaserver],
            None => {
                self.data_places.push(must(lab.inner().namespace(None)));
                &self.data_places[self.data_places.len() - 1]
            }
        };
        let metaserver = format!("\"{}\"", SocketAddr::from((self.places[0].address, NFS_PORT)));
        let text = data_server_text(&self.folder, n, &addresses_of(place, service), &metaserver);
        let mut server = configured(lab, &format!("ds{n}"), "ds", &text, Some(place));
        must(server.start());
        self.data_servers.push(server);
        n
    }

    /// Data server `n`, for signals, kills and starts.
    pub fn data_server(&mut self, n: usize) -> &mut Server {
        &mut self.data_servers[n]
    }

    /// First and last lines of data server `n`'s log.
    pub fn data_server_log(&self, n: usize) -> String {
        self.data_servers[n].log_ends()
    }

    /// Service address of data server `n`.
    pub fn data_service(&self, n: usize) -> IpAddr {
        let IpAddr::V4(first) = self.services[0] else { panic!("the lab has addresses of IPv4") };
        let [a, b, c, _] = first.octets();
        IpAddr::from([a, b, c, DATA_SERVICE_FIRST + n as u8])
    }

    /// Index of the data server, of those with a namespace of their own, whose machine has a service address.
    pub fn data_holder(&self, service: IpAddr) -> Option<usize> {
        self.data_places.iter().position(|place| has_address(place, service))
    }

    /// Folder of the servers' directories: `ds0/target` and so on.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Partitions metaserver `n` from the others, or ends that; clients still reach it.
    #[track_caller]
    pub fn set_parted(&self, n: usize, is_parted: bool) {
        let verb = if is_parted { "add" } else { "del" };
        for other in self.places.iter().filter(|place| **place != self.places[n]) {
            self.ip(n, &format!("route {verb} blackhole {}/32", other.address));
        }
    }

    /// Fixed address of a metaserver.
    pub fn own_address(&self, n: usize) -> IpAddr {
        self.places[n].address.into()
    }

    /// Mounts the root from `address` on the client's [`MOUNT_POINT`].
    #[track_caller]
    pub fn mount_from(&self, client: &Client, address: IpAddr, version: &str) {
        client.run(&mount_script((address, NFS_PORT).into(), version, MOUNT_POINT));
    }

    /// Runs `ip` in the namespace of metaserver `n`.
    #[track_caller]
    pub fn ip(&self, n: usize, arguments: &str) {
        let done = Command::new("ip").args(["-n", &self.places[n].name]).args(arguments.split(' ')).status();
        assert!(done.is_ok_and(|status| status.success()), "ip {arguments}");
    }

    /// First and last lines of metaserver `n`'s log.
    pub fn log(&self, n: usize) -> String {
        self.metaservers[n].log_ends()
    }

    /// Freezes metaserver `n` until it is thawed: to others it seems to be cut off.
    pub fn freeze(&self, n: usize) {
        self.metaservers[n].send(Signal::STOP);
    }

    /// Thaws metaserver `n`.
    pub fn thaw(&self, n: usize) {
        self.metaservers[n].send(Signal::CONT);
    }

    /// Next metaserver to kill: alternately the holder of `service`, and the leader.
    pub fn victim(&self, service: IpAddr, kill: usize) -> Option<usize> {
        if kill.is_multiple_of(2) { self.holder(service) } else { self.leader() }
    }

    /// Restarts metaserver `n`, and waits until it serves.
    #[track_caller]
    pub fn start_again(&mut self, n: usize) {
        must(self.metaservers[n].start());
    }

    /// Starts all stopped ones at the same time: none is ready without another.
    #[track_caller]
    pub fn start_all_again(&mut self) {
        for server in &mut self.metaservers {
            must(server.begin());
        }
        for server in &mut self.metaservers {
            must(server.start());
        }
    }

    /// Sends SIGTERM to metaserver `n`, which must exit.
    #[track_caller]
    pub fn stop(&mut self, n: usize) {
        must(self.metaservers[n].stop());
    }

    /// Waits for a condition.
    #[track_caller]
    pub fn wait_until(&mut self, what: &str, done: impl Fn(&Metaservers) -> bool) {
        let asked = Instant::now();
        while !done(self) {
            assert!(asked.elapsed() < START_TIMEOUT, "not within {START_TIMEOUT:?}: {what}");
            sleep(POLL);
        }
    }
}

/// Lines of a data server's file with its addresses, for a machine of its own.
fn addresses_of(place: &Namespace, service: IpAddr) -> String {
    let admin = SocketAddr::from((place.address, DS_ADMIN_PORT));
    let advertise = SocketAddr::from((place.address, DS_PORT));
    format!(
        "listen = \"0.0.0.0:{DS_PORT}\"\nadvertise = \"{advertise}\"\nservice_address = \"{service}\"\n\
         admin = \"{admin}\"\n"
    )
}

fn data_server_text(folder: &Path, n: usize, addresses: &str, metaservers: &str) -> String {
    format!(
        "name = \"ds{n}\"\n{addresses}metaserver = {metaservers}\nsecret_file = {:?}\n\
         data_dir = {:?}\ntargets = [{:?}]\n",
        folder.join("secret"),
        make(folder.join(format!("ds{n}/identity"))),
        make(folder.join(format!("ds{n}/target"))),
    )
}

fn has_address(place: &Namespace, address: IpAddr) -> bool {
    let words = ["-n", &place.name, "-o", "addr", "show", "to", &address.to_string()];
    let output = Command::new("ip").args(words).output();
    output.is_ok_and(|output| !output.stdout.is_empty())
}

fn set_link(place: &Namespace, is_up: bool) {
    // `lab` names both ends of a link so.
    let link = place.name.replace('-', "s");
    let to = if is_up { "up" } else { "down" };
    let done = Command::new("ip").args(["link", "set", &link, to]).status();
    assert!(done.is_ok_and(|status| status.success()), "ip link set {link} {to}");
}

fn number(name: &str) -> Option<usize> {
    name.strip_prefix("mds")?.parse().ok()
}

fn configured(lab: &Lab, name: &str, role: &str, text: &str, place: Option<&Namespace>) -> Server {
    let file = lab.folder().join(format!("{name}.toml"));
    fs::write(&file, text).unwrap_or_else(|e| panic!("write {}: {e}", file.display()));
    let command = vec![binary().into(), role.into(), "--config".into(), file.into()];
    Server::new(name, command, place, READY, lab.folder().join(format!("{name}.log")))
}

fn make(folder: PathBuf) -> PathBuf {
    fs::create_dir_all(&folder).unwrap_or_else(|e| panic!("make {}: {e}", folder.display()));
    folder
}

impl Drop for Metaservers {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for server in self.metaservers.iter().chain(&self.data_servers) {
                eprintln!("---- log of {}\n{}", server.name(), server.log_ends());
            }
        }
    }
}
