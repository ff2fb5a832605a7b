//! A cluster of several machines, set up as an operator does it: each machine is a loopback address and a
//! directory.

mod process;
#[path = "nodes/target_add.rs"]
mod target_add;
#[path = "nodes/up_group.rs"]
mod up_group;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Output;

use process::{ADMIN_PORT, PORT, Server, ask, heorot, own_ip, refusal, status, wait_until};
use rustix::process::Signal;

/// One machine.
struct Machine {
    ip: Ipv4Addr,
    dir: PathBuf,
    name: &'static str,
}

impl Machine {
    fn new(lab: &Path, name: &'static str) -> Self {
        Self { ip: own_ip(), dir: lab.join(name), name }
    }

    /// Options of the machine for every command.
    fn words(&self) -> Vec<String> {
        let (dir, ip) = (self.dir.display(), self.ip);
        let text = format!("--dir {dir} --address {ip} --name {} --admin {ip}:{ADMIN_PORT}", self.name);
        text.split(' ').map(str::to_owned).collect()
    }

    fn command(&self, words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).chain(self.words()).collect()
    }

    fn init(&self) -> String {
        done(&self.command(&["init"]))
    }

    fn join(&self, token: &str, other: &Machine, more: &[&str]) -> Vec<String> {
        self.join_at(token, &other.consensus().to_string(), more)
    }

    fn join_at(&self, token: &str, member: &str, more: &[&str]) -> Vec<String> {
        let file = self.dir.with_extension("token");
        std::fs::write(&file, token).unwrap();
        let words = ["join", member, "--token-file", file.to_str().unwrap()];
        self.command(&[&words, more].concat())
    }

    fn consensus(&self) -> SocketAddr {
        (self.ip, PORT + 3).into()
    }

    fn run(&self) -> Server {
        Server::start(&["run", &self.dir.display().to_string()])
    }

    /// Makes a join token; this machine runs.
    fn token(&self, more: &[&str]) -> String {
        let dir = self.dir.display().to_string();
        let words = [&["token", "--admin", &dir], more].concat();
        done(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).trim().to_owned()
    }

    /// Makes a join token on a machine that is started only for it.
    fn token_of_a_short_life(&self) -> String {
        let mut server = self.run();
        server.ready();
        let token = self.token(&[]);
        assert_eq!(server.signal(Signal::TERM), Some(0));
        token
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.join(name)).unwrap()
    }

    fn exists(&self) -> bool {
        self.dir.exists()
    }
}

/// Runs a command to its end and checks its success.
fn done(args: &[String]) -> String {
    let Output { status, stdout, stderr } =
        heorot(&args.iter().map(String::as_str).collect::<Vec<_>>()).output().unwrap();
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.success() && stderr.is_empty(), "{args:?}: {stderr}");
    String::from_utf8(stdout).unwrap()
}

#[test]
fn three_machines_become_a_cluster_by_one_line_each() {
    let lab = tempfile::tempdir().unwrap();
    let [ash, elm, oak, fir] = ["ash", "elm", "oak", "fir"].map(|name| Machine::new(lab.path(), name));
    let said = ash.init();
    assert!(said.contains(&format!("heorot run {}\n", ash.dir.display())), "{said}");
    let mut first = ash.run();
    let mount = format!("mount -t nfs -o vers=4.2,port={PORT} {}:/ /mnt\n", ash.ip);
    assert!(first.ready().contains(&mount));

    let token = ash.token(&[]);
    let said = done(&elm.join(&token, &ash, &[]));
    assert!(said.starts_with("joined cluster ") && said.contains("heorot run "), "{said}");
    let mut second = elm.run();
    second.ready();
    // Join through another member, with another token.
    done(&oak.join(&ash.token(&[]), &elm, &[]));
    let mut third = oak.run();
    third.ready();
    done(&fir.join(&elm.token(&[]), &oak, &["--role", "ds"]));
    assert!(!fir.dir.join("mds.toml").exists());
    let mut fourth = fir.run();
    fourth.ready();

    // Each metaserver knows all data servers, also those that registered before it joined.
    let everyone = |machine: &Machine| {
        let status = status(machine.ip);
        let ok = |server: &serde_json::Value| server["targets"][0]["state"] == "ok";
        let voters =
            status["metaservers"].as_array().unwrap().iter().filter(|m| m["role"] != "learner").count();
        voters == 3 && status["data_servers"].as_array().unwrap().iter().filter(|s| ok(s)).count() == 4
    };
    let mut all = [&mut first, &mut second, &mut third, &mut fourth];
    wait_until("everybody knows everybody", &mut all, || [&ash, &elm, &oak].into_iter().all(everyone));

    // A change at one metaserver applies to all, also to one that joins later.
    ask(ash.ip, &["set", "lease", "20s"]).unwrap();
    ask(elm.ip, &["export", "set", "/", "--ro"]).unwrap();
    for machine in [&ash, &elm, &oak] {
        assert_eq!(ask(machine.ip, &["get", "lease"]).unwrap(), "20s\n");
        assert!(ask(machine.ip, &["export", "list"]).unwrap().contains("ro,squash=none"));
    }

    // Names, addresses and directories are unique. A refusal does not use the token.
    let token = ash.token(&[]);
    let again = Machine { name: "elm", ..Machine::new(lab.path(), "again") };
    let line = refusal(&again.join(&token, &ash, &["--role", "mds"]));
    let expected = format!(
        "not joined by {}: there is a metaserver \"elm\" already, at {}; choose another one with --name",
        ash.consensus(),
        elm.consensus()
    );
    assert!(line.starts_with(&expected), "{line}");
    let line = refusal(&again.join(&token, &ash, &["--role", "ds"]));
    assert!(line.contains("there is a data server \"elm\" already"), "{line}");
    assert!(!again.exists(), "nothing was written");
    let line = refusal(&elm.join(&token, &ash, &[]));
    assert!(
        line.ends_with(&format!(
            "is a node of this cluster already; run it: heorot run {}",
            elm.dir.display()
        ))
    );
    let line = refusal(&["run".to_owned(), elm.dir.display().to_string()]);
    assert!(line.contains(&format!("already in use by process {}", second.child.id())), "{line}");

    for server in [&mut fourth, &mut third, &mut second, &mut first] {
        assert_eq!(server.signal(Signal::TERM), Some(0));
    }
}

#[test]
fn a_machine_whose_metaserver_was_removed_runs_its_data_server_alone() {
    let lab = tempfile::tempdir().unwrap();
    let [ash, elm] = ["ash", "elm"].map(|name| Machine::new(lab.path(), name));
    ash.init();
    let mut first = ash.run();
    first.ready();
    done(&elm.join(&ash.token(&[]), &ash, &[]));
    let mut second = elm.run();
    second.ready();
    let metaserver = || -> serde_json::Value {
        let nodes = ask(ash.ip, &["node", "list", "--json"]).unwrap();
        let nodes: Vec<serde_json::Value> = serde_json::from_str(&nodes).unwrap();
        nodes.into_iter().find(|node| node["name"] == "elm" && node["role"] != "data server").unwrap()
    };
    let id = metaserver()["id"].as_str().unwrap().to_owned();
    ask(ash.ip, &["node", "remove", &id]).unwrap();
    let removed = || metaserver()["state"] == "removed";
    wait_until("it is removed", &mut [&mut first, &mut second], removed);
    assert_eq!(second.signal(Signal::TERM), Some(0));

    // It exits once more, and is not restarted; the data server still serves.
    let mut second = elm.run();
    second.ready();
    let serves = || {
        let status = status(ash.ip);
        let servers = status["data_servers"].as_array().unwrap();
        servers.iter().any(|server| server["name"] == "elm" && server["targets"][0]["state"] == "ok")
    };
    wait_until("the data server is back", &mut [&mut first, &mut second], serves);
    assert_eq!(second.signal(Signal::TERM), Some(0));
    assert_eq!(first.signal(Signal::TERM), Some(0));
}

#[test]
fn a_data_server_whose_disk_was_lost_joins_again_under_its_name_and_address() {
    let lab = tempfile::tempdir().unwrap();
    let [ash, fir] = ["ash", "fir"].map(|name| Machine::new(lab.path(), name));
    ash.init();
    let mut first = ash.run();
    first.ready();
    done(&fir.join(&ash.token(&[]), &ash, &["--role", "ds"]));
    let mut second = fir.run();
    second.ready();
    let registered = || status(ash.ip)["data_servers"].as_array().is_some_and(|servers| servers.len() == 2);
    wait_until("both data servers are registered", &mut [&mut first, &mut second], registered);
    let line = ask(ash.ip, &["node", "remove", "ash"]).unwrap_err();
    assert!(line.contains("ash is a data server with 0 objects and a metaserver (leader)"), "{line}");
    assert!(line.trim_end().ends_with("say which one to remove: --role ds or --role mds"), "{line}");

    // The machine is lost with its directory.
    drop(second);
    std::fs::remove_dir_all(&fir.dir).unwrap();
    let token = ash.token(&[]);
    let line = refusal(&fir.join(&token, &ash, &["--role", "ds"]));
    assert!(line.contains("heorot node remove fir --force"), "{line}");
    ask(ash.ip, &["node", "remove", "fir", "--force"]).unwrap();
    done(&fir.join(&token, &ash, &["--role", "ds"]));
    let mut second = fir.run();
    second.ready();
    let serves = || {
        let status = status(ash.ip);
        let mut servers = status["data_servers"].as_array().unwrap().iter().filter(|s| s["name"] == "fir");
        servers.next().is_some_and(|server| server["targets"][0]["state"] == "ok") && servers.next().is_none()
    };
    wait_until("it serves, and nothing is left of the old one", &mut [&mut first, &mut second], serves);
    // Remove the data server of a machine with both roles by its role.
    ask(ash.ip, &["node", "remove", "ash", "--role", "ds"]).unwrap();
    let alone = || status(ash.ip)["data_servers"].as_array().unwrap().len() == 1;
    wait_until("only the other is left", &mut [&mut first, &mut second], alone);
    assert_eq!(second.signal(Signal::TERM), Some(0));
    assert_eq!(first.signal(Signal::TERM), Some(0));
}

#[test]
fn what_is_wrong_with_a_join_is_said_in_one_line_and_nothing_is_written() {
    let lab = tempfile::tempdir().unwrap();
    let [ash, elm, oak] = ["ash", "elm", "oak"].map(|name| Machine::new(lab.path(), name));
    ash.init();
    oak.init();
    let (token, other) = (ash.token_of_a_short_life(), oak.token_of_a_short_life());
    let not_joined = |args: &[String]| {
        let line = refusal(args);
        assert!(!elm.exists(), "nothing was written: {line}");
        line
    };

    let line = not_joined(&elm.join(&token, &ash, &[]));
    assert!(line.contains("Connection refused") && line.contains("does heorot run there"), "{line}");
    let line = not_joined(&elm.join_at(&token, "no-such-host.invalid", &[]));
    assert!(
        line.starts_with("no-such-host.invalid: ") && line.contains("name a metaserver of the cluster"),
        "{line}"
    );
    let mut server = ash.run();
    server.ready();

    let line = not_joined(&elm.join(&other, &ash, &[]));
    assert!(line.contains("the join token is of another cluster"), "{line}");
    let typo = token.replace(&token[20..22], if &token[20..22] == "00" { "11" } else { "00" });
    let line = not_joined(&elm.join(&typo, &ash, &[]));
    assert!(line.starts_with("there is a mistake in this join token"), "{line}");
    let line = not_joined(&elm.join(&ash.consensus().to_string(), &ash, &[]));
    assert!(line.starts_with("this is no join token"), "{line}");
    let expired = ash.token(&["--valid", "1s"]);
    let list = || ask(ash.ip, &["token", "list", "--json"]).unwrap();
    let tokens = || serde_json::from_str::<Vec<serde_json::Value>>(&list()).unwrap();
    wait_until("the token ends", &mut [&mut server], || tokens().len() == 1);
    let line = not_joined(&elm.join(&expired, &ash, &[]));
    assert!(
        line.contains("the join token expired ") && line.contains("`heorot token` on a node prints"),
        "{line}"
    );
    let mounts = format!("{}:{PORT}", ash.ip);
    let line = not_joined(&elm.join_at(&token, &mounts, &[]));
    assert!(line.contains("does not take machines in; name a metaserver's `consensus` address"), "{line}");
    let line = not_joined(&elm.join_at(&token, &format!("{}:{ADMIN_PORT}", ash.ip), &[]));
    assert!(line.contains("does not answer as heorot does"), "{line}");
    let taken = TcpListener::bind((elm.ip, PORT + 1)).unwrap();
    let line = not_joined(&elm.join(&token, &ash, &[]));
    assert!(line.starts_with(&format!("{}:{} is taken; ", elm.ip, PORT + 1)), "{line}");
    drop(taken);
    let foreign = Machine { ip: [10, 77, 255, 254].into(), ..Machine::new(lab.path(), "elm") };
    let line = not_joined(&foreign.join(&token, &ash, &[]));
    assert!(line.contains("is not an address of this machine") && line.ends_with("with --address"), "{line}");

    // Interrupt a join while the member does not answer. SIGTERM, since a test in the background may ignore
    // SIGINT.
    let silent = TcpListener::bind((elm.ip, 999 + PORT)).unwrap();
    let member = silent.local_addr().unwrap().to_string();
    let args = elm.join_at(&token, &member, &[]);
    let mut waits = Server::start(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let _asked = silent.accept().unwrap();
    assert_eq!(waits.signal(Signal::TERM), None, "ended by the signal");
    assert!(!elm.exists());
    // A revoked token, a used one, and one on the command line.
    let revoked = ash.token(&[]);
    let unused = |token: &serde_json::Value| token["used_by"].is_null();
    let id =
        tokens().iter().filter(|token| unused(token)).map(|token| token["id"].clone()).next_back().unwrap();
    let said = ask(ash.ip, &["token", "revoke", id.as_str().unwrap()]).unwrap();
    assert!(said.contains("lets no machine in any more"), "{said}");
    let line = not_joined(&elm.join(&revoked, &ash, &[]));
    assert!(line.contains("the join token was revoked, or has ended"), "{line}");
    let words = elm.command(&["join", &token]);
    let shown = heorot(&words.iter().map(String::as_str).collect::<Vec<_>>()).output().unwrap();
    assert!(String::from_utf8_lossy(&shown.stderr).contains("which others may have seen now"), "{shown:?}");
    assert!(!elm.exists() && !shown.status.success());
    done(&elm.join(&token, &ash, &[]));
    assert_eq!(tokens()[0]["used_by"], "elm");
    let fir = Machine::new(lab.path(), "fir");
    let line = refusal(&fir.join(&token, &ash, &[]));
    assert!(line.contains("the join token has let \"elm\" in, and is good for one machine"), "{line}");
    assert_eq!(server.signal(Signal::TERM), Some(0));
}

#[test]
fn init_and_join_take_the_service_address_of_the_data_server() {
    const FREE: &str = "198.51.100.105";
    let lab = tempfile::tempdir().unwrap();
    let [ash, elm, oak] = ["ash", "elm", "oak"].map(|name| Machine::new(lab.path(), name));
    let own = elm.ip.to_string();
    let is_written = |machine: &Machine| {
        assert!(machine.file("ds.toml").contains(&format!("\nservice_address = \"{FREE}\"\n")));
        let file = machine.dir.join("ds.toml").display().to_string();
        done(&["check-config".to_owned(), file]);
    };
    let cannot_move =
        |address: &str| format!("--data-service-address {address} cannot move between machines; ");
    let faults = [
        ([own.as_str(), "mds,ds"], cannot_move(&own)),
        (["0.0.0.0", "mds,ds"], cannot_move("0.0.0.0")),
        (
            [FREE, "mds"],
            "--data-service-address is for a data server, and --role does not have ds; ".to_owned(),
        ),
    ];
    let not_made = |line: String, why: &str| {
        assert!(line.starts_with(why), "{line}");
        assert!(!elm.exists(), "nothing was written: {line}");
    };

    for ([address, role], why) in &faults {
        let words = ["init", "--data-service-address", address, "--role", role];
        not_made(refusal(&elm.command(&words)), why);
    }
    let words = ["init", "--service-address", FREE, "--data-service-address", FREE];
    let both =
        format!("--data-service-address {FREE} is a --service-address, too, which metaservers share; ");
    not_made(refusal(&elm.command(&words)), &both);
    done(&oak.command(&["init", "--data-service-address", FREE]));
    is_written(&oak);

    ash.init();
    let mut server = ash.run();
    server.ready();
    let token = ash.token(&[]);
    for ([address, role], why) in &faults {
        let more = ["--data-service-address", address, "--role", role];
        not_made(refusal(&elm.join(&token, &ash, &more)), why);
    }
    // The refusals have not used the token.
    done(&elm.join(&token, &ash, &["--role", "ds", "--data-service-address", FREE]));
    is_written(&elm);
    assert_eq!(server.signal(Signal::TERM), Some(0));
}

#[test]
fn a_directory_is_one_node_of_one_cluster() {
    let lab = tempfile::tempdir().unwrap();
    let [ash, elm] = ["ash", "elm"].map(|name| Machine::new(lab.path(), name));
    let line = refusal(&["run".to_owned(), ash.dir.display().to_string()]);
    assert!(line.ends_with(
        "is no node's directory; make a cluster there with heorot init, or join one with heorot join"
    ));
    ash.init();
    let secret = ash.file("secret");
    let line = refusal(&ash.command(&["init"]));
    assert!(
        line.contains(": belongs to cluster ") && line.contains("already; run that node (heorot run"),
        "{line}"
    );
    assert_eq!(ash.file("secret"), secret);
    elm.init();
    let line = refusal(&ash.join(&elm.token_of_a_short_life(), &elm, &[]));
    assert!(line.contains(": belongs to cluster "), "{line}");
    assert_eq!(ash.file("secret"), secret);

    let home = lab.path().join("home");
    std::fs::create_dir(&home).unwrap();
    std::fs::write(home.join("thesis.tex"), "…").unwrap();
    let line = refusal(&Machine { dir: home.clone(), ..Machine::new(lab.path(), "home") }.command(&["init"]));
    assert!(line.contains("not a directory of heorot (it holds \"thesis.tex\")"), "{line}");
    assert_eq!(std::fs::read_dir(&home).unwrap().count(), 1);
    let line = refusal(
        &Machine { dir: home.join("thesis.tex/a"), ..Machine::new(lab.path(), "a") }.command(&["init"]),
    );
    assert!(line.contains("thesis.tex/a") && line.contains("cannot read: Not a directory"), "{line}");
    let line = refusal(&Machine::new(lab.path(), "b").command(&["init", "--role", "ds"]));
    assert!(line.starts_with("the first node of a cluster is a metaserver"), "{line}");
    let c = Machine::new(lab.path(), "c");
    let line = refusal(&c.command(&["init", "--service-address", &c.ip.to_string()]));
    assert!(line.contains("is this machine's own address") && !c.dir.exists(), "{line}");

    // Misspell one key in the file.
    let text = ash.file("mds.toml").replace("\nlisten", "\nlistn");
    std::fs::write(ash.dir.join("mds.toml"), text).unwrap();
    let line = refusal(&["run".to_owned(), ash.dir.display().to_string()]);
    assert!(line.contains("there is no key `listn`; did you mean `listen`?"), "{line}");
}
