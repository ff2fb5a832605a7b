//! The binary as a process: starts, refusals with their line, and stops.

#[path = "startup/admin_port.rs"]
mod admin_port;
#[path = "startup/fd_store.rs"]
mod fd_store;
#[path = "startup/private.rs"]
mod private;
mod process;
#[path = "startup/strip.rs"]
mod strip;
#[path = "startup/supervisor.rs"]
mod supervisor;
#[path = "startup/unit_file.rs"]
mod unit_file;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

use process::{ADMIN_PORT, PORT, Server, ask, http, own_ip, refusal, status, wait_until};
use rustix::process::Signal;

fn up(dir: &Path, ip: Ipv4Addr, data_servers: u16) -> Server {
    Server::start(&up_args(dir, ip, data_servers).iter().map(String::as_str).collect::<Vec<_>>())
}

fn up_args(dir: &Path, ip: Ipv4Addr, data_servers: u16) -> Vec<String> {
    let listen = format!("{ip}:{PORT}");
    let admin = format!("{ip}:{ADMIN_PORT}");
    let data = dir.display().to_string();
    let count = data_servers.to_string();
    ["up", "--data", &data, "--data-servers", &count, "--listen", &listen, "--admin", &admin]
        .map(Into::into)
        .into()
}

fn write(path: &Path, text: &str) -> String {
    std::fs::write(path, text).unwrap();
    path.display().to_string()
}

#[test]
fn up_says_how_to_mount_answers_questions_and_ends_cleanly() {
    let (dir, ip) = (tempfile::tempdir().unwrap(), own_ip());
    let mut server = up(dir.path(), ip, 2);
    let said = server.ready();
    assert!(said.contains(&format!("mount -t nfs -o vers=4.2,port={PORT} {ip}:/ /mnt\n")), "{said}");
    let cluster = status(ip)["cluster"].clone();
    assert_eq!(status(ip)["data_servers"].as_array().unwrap().len(), 2);
    let table = ask(ip, &["status"]).unwrap();
    assert!(table.contains("ds1") && table.contains("balance: 0 to 0 objects"), "{table}");

    assert_eq!(
        ask(ip, &["stripe", "get", "/"]).unwrap(),
        "/: 1 MiB on each of 4 targets, 1 copy (the default)\n"
    );
    let set = ask(ip, &["stripe", "set", "/", "--columns", "1", "--unit", "64KiB"]).unwrap();
    assert_eq!(set, "/: 64 KiB on each of 1 target, 1 copy (set here)\n");
    let wrong = ask(ip, &["stripe", "set", "/", "--unit", "100KiB"]).unwrap_err();
    assert!(wrong.contains("a stripe unit is a multiple of 64KiB up to 1GiB"), "{wrong}");
    let missing = ask(ip, &["stripe", "get", "/no"]).unwrap_err();
    assert!(missing.starts_with("heorot: /no: no such directory in the volume; "), "{missing}");
    assert_eq!(ask(ip, &["clean"]).unwrap(), "0 objects seen, 0 without a file removed\n");
    let page = http((ip, ADMIN_PORT).into(), "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let counter = "heorot_file_written_bytes_total{role=\"dataserver\",server=\"ds1\",caller=\"client\"} 0\n";
    assert!(page.contains(counter) && page.contains("heorot_inodes 1\n"), "{page}");
    assert_eq!(server.signal(Signal::TERM), Some(0));

    // Restart, unchanged; one more data server may be added, but later not left out.
    let mut server = up(dir.path(), ip, 3);
    server.ready();
    assert_eq!(status(ip)["cluster"], cluster);
    assert_eq!(status(ip)["data_servers"].as_array().unwrap().len(), 3);
    let get = ask(ip, &["stripe", "get", "/"]).unwrap();
    assert_eq!(get, "/: 64 KiB on each of 1 target, 1 copy (set here)\n");
    let used = refusal(&up_args(dir.path(), own_ip(), 3));
    assert!(used.contains(&format!("already in use by process {}; ", server.child.id())), "{used}");
    assert_eq!(server.signal(Signal::INT), Some(0));
    let fewer = refusal(&up_args(dir.path(), ip, 2));
    assert!(fewer.contains("has 3 data servers") && fewer.contains("--data-servers 3 or more"), "{fewer}");
}

#[test]
fn a_port_that_is_taken_is_named_and_nothing_is_lost() {
    let (dir, ip) = (tempfile::tempdir().unwrap(), own_ip());
    for port in [PORT, PORT + 2] {
        let _taken = TcpListener::bind(SocketAddr::from((ip, port))).unwrap();
        let line = refusal(&up_args(dir.path(), ip, 2));
        assert!(
            line.starts_with(&format!("{ip}:{port} is taken; ")) && line.ends_with("with --listen"),
            "{line}"
        );
    }
    let _taken = TcpListener::bind(SocketAddr::from((ip, ADMIN_PORT))).unwrap();
    let line = refusal(&up_args(dir.path(), ip, 2));
    assert!(line.ends_with("with --admin"), "{line}");
    drop(_taken);
    let mut server = up(dir.path(), ip, 2);
    server.ready();
    assert_eq!(server.signal(Signal::TERM), Some(0));
}

#[test]
fn the_directory_of_another_cluster_is_refused_and_left_as_it_was() {
    let (dir, ip) = (tempfile::tempdir().unwrap(), own_ip());
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    for data in [&ours, &theirs] {
        let mut server = up(data, ip, 1);
        server.ready();
        assert_eq!(server.signal(Signal::TERM), Some(0));
    }
    let swap = |name: &str| {
        let aside = dir.path().join("aside");
        std::fs::rename(ours.join(name), &aside).unwrap();
        std::fs::rename(theirs.join(name), ours.join(name)).unwrap();
        std::fs::rename(&aside, theirs.join(name)).unwrap();
    };
    for name in ["secret", "mds", "ds0"] {
        swap(name);
        let line = refusal(&up_args(&ours, ip, 1));
        assert!(line.contains("belongs to cluster ") && line.contains("; name "), "{name}: {line}");
        swap(name);
    }
    std::fs::rename(ours.join("secret"), dir.path().join("secret")).unwrap();
    let line = refusal(&up_args(&ours, ip, 1));
    assert!(line.contains("there is no secret, and ") && line.contains("bring it back"), "{line}");
    std::fs::rename(dir.path().join("secret"), ours.join("secret")).unwrap();
    std::fs::rename(ours.join("ds0"), dir.path().join("ds0")).unwrap();
    let line = refusal(&up_args(&ours, ip, 1));
    assert!(line.contains("ds0: the storage target is gone"), "{line}");
    std::fs::rename(dir.path().join("ds0"), ours.join("ds0")).unwrap();
    for name in ["log", "namespace.redb"] {
        std::fs::rename(ours.join("mds").join(name), dir.path().join(name)).unwrap();
    }
    let line = refusal(&up_args(&ours, ip, 1));
    assert!(line.contains("the metadata of this metaserver are gone"), "{line}");
    for name in ["log", "namespace.redb"] {
        std::fs::rename(dir.path().join(name), ours.join("mds").join(name)).unwrap();
    }
    up(&ours, ip, 1).ready();
}

#[test]
fn a_directory_that_cannot_be_used_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    write(&file, "");
    // Root may write everywhere, but not below a file.
    let line = refusal(&up_args(&file.join("data"), own_ip(), 1));
    assert!(
        line.contains("file/data: cannot create: Not a directory") && line.contains("; name a"),
        "{line}"
    );
    let line = refusal(&up_args(dir.path(), own_ip(), 1));
    assert!(
        line.contains("not empty and not a directory of heorot (it holds \"file\"); name an empty"),
        "{line}"
    );
}

#[test]
fn a_configuration_that_is_one_letter_off_is_refused_by_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mds.toml");
    let run = |command: &[&str], text: &str| {
        let config = write(&path, text);
        let args: Vec<_> = command.iter().map(|s| s.to_string()).chain([config]).collect();
        refusal(&args).replace(&dir.path().display().to_string(), "")
    };
    let off = "data_dir = \"/d\"\nsecret_fil = \"/s\"\n";
    let line = "/mds.toml:2: there is no key `secret_fil`; did you mean `secret_file`?";
    assert_eq!(run(&["mds", "--config"], off), line);
    assert_eq!(run(&["check-config"], off), line);
    let moved = "data_dir = \"/d\"\nsecret_file = \"/s\"\n[[export]]\nclients = \"10.0.0.0/8\"\n";
    let line = run(&["check-config"], moved);
    assert_eq!(
        line,
        "/mds.toml:3: `export` does not stand here: it holds for the whole cluster; take the line out, and use a command \
         such as heorot export add / --network 10.0.0.0/8"
    );
    let value = "data_dir = \"/d\"\nsecret_file = \"/s\"\nlisten = \"10.0.0.l:2049\"\n";
    let line = run(&["check-config"], value);
    assert!(
        line.starts_with("/mds.toml:3: `listen` is not right: \"10.0.0.l:2049\" is no address"),
        "{line}"
    );
}

#[test]
fn separate_servers_find_each_other_through_one_secret() {
    let (dir, ip) = (tempfile::tempdir().unwrap(), own_ip());
    let at = |name: &str| dir.path().join(name).display().to_string();
    let mds = format!(
        "listen = \"{ip}:{PORT}\"\nadmin = \"{ip}:{ADMIN_PORT}\"\ndata_dir = {:?}\nsecret_file = {:?}\n",
        at("mds"),
        at("secret")
    );
    let ds = format!(
        "listen = \"{ip}:{}\"\nadmin = \"off\"\nmetaserver = \"{ip}:{PORT}\"\ndata_dir = {:?}\nname = \"ds7\"\n\
         targets = [{:?}, {:?}]\nsecret_file = {:?}\n",
        PORT + 1,
        at("ds"),
        at("a"),
        at("b"),
        at("secret")
    );
    let (mds, ds) = (write(&dir.path().join("mds.toml"), &mds), write(&dir.path().join("ds.toml"), &ds));
    let line = refusal(&["ds".into(), "--config".into(), ds.clone()]);
    assert!(line.contains("there is no secret, and a data server does not make one"), "{line}");

    let mut mds = Server::start(&["mds", "--config", &mds]);
    wait_until("a metaserver", &mut [&mut mds], || status(ip)["role"] == "metaserver");
    assert_eq!(status(ip)["health"]["verdict"], "degraded");
    let problem = status(ip)["health"]["findings"][0]["problem"].clone();
    assert!(problem.as_str().unwrap().starts_with("there is no data server"), "{problem}");
    let mut ds = Server::start(&["ds", "--config", &ds]);
    let alive = || {
        let targets = status(ip)["data_servers"][0]["targets"].clone();
        targets.as_array().is_some_and(|t| t.len() == 2 && t.iter().all(|t| t["state"] == "ok"))
    };
    wait_until("a data server", &mut [&mut mds, &mut ds], alive);
    assert_eq!(status(ip)["data_servers"][0]["name"], "ds7");
    assert_eq!(ds.signal(Signal::TERM), Some(0));
    assert_eq!(mds.signal(Signal::TERM), Some(0));
}
