//! Without a quorum of metaservers, every command ends with an answer or one line of an error.

use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::servers::{Cluster, LIMIT, places, until};

/// All commands that use a running server. Commands that change state are refused.
const COMMANDS: [&[&str]; 27] = [
    &["status"],
    &["status", "--json"],
    &["node", "list"],
    &["node", "list", "--json"],
    &["node", "drain", "mds1"],
    &["node", "undrain", "mds1"],
    &["node", "promote", "mds1"],
    &["node", "demote", "mds1"],
    &["node", "remove", "mds1", "--force"],
    &["node", "remove", "ds0", "--role", "ds"],
    &["target", "list"],
    &["target", "lost", "ds0"],
    &["files", "--on", "ds0"],
    &["leader"],
    &["leader", "mds0"],
    &["token"],
    &["token", "list"],
    &["token", "revoke", "00"],
    &["stripe", "get", "/"],
    &["stripe", "set", "/", "--columns", "1"],
    &["export", "list"],
    &["export", "add", "/", "--network", "10.0.0.0/8"],
    &["service-address", "list"],
    &["service-address", "add", "127.0.0.9"],
    &["get"],
    &["set", "lease", "20s"],
    &["clean"],
];

fn start(cluster: &Cluster, args: &[&str]) -> Child {
    let admin = places::of(cluster.metaservers[0].0);
    Command::new(env!("CARGO_BIN_EXE_heorot"))
        .args(args)
        .args(["--admin", &admin])
        .env("HEOROT_LOG", "off")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn every_command_answers_without_a_quorum() {
    let mut cluster = Cluster::start(3, 1);
    cluster.metaservers[1].1 = None;
    cluster.metaservers[2].1 = None;
    until("no leader is known", || run_status(&cluster) == Some(2));

    let backup = cluster.file("backup").display().to_string();
    let mut commands: Vec<Vec<&str>> = COMMANDS.iter().map(|args| args.to_vec()).collect();
    commands.push(vec!["backup", &backup]);
    commands.push(vec!["backup", "-"]);
    let mut running: Vec<(Vec<&str>, Child)> =
        commands.into_iter().map(|args| (args.clone(), start(&cluster, &args))).collect();
    let began = Instant::now();
    for (args, child) in &mut running {
        while child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < LIMIT, "{args:?} does not end");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
    for (args, child) in running {
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        let code = output.status.code().expect("it is not killed");
        match args[0] {
            // The exit status is the verdict.
            "status" => assert_eq!((code, error.as_str()), (2, ""), "{args:?}"),
            _ if code == 0 => {}
            _ => {
                assert_eq!(error.trim_end().lines().count(), 1, "{args:?}: {error}");
                assert!(error.starts_with("heorot"), "{args:?}: {error}");
            }
        }
        println!("{} -> {code} {}", args.join(" "), error.trim_end());
        let changes = ["drain", "remove", "add", "set", "lost", "promote", "demote", "revoke"];
        let is_change = args.iter().any(|word| changes.contains(word)) || args[0] == "clean";
        assert!(!is_change || code != 0, "{args:?} changed something without a majority");
    }
}

fn run_status(cluster: &Cluster) -> Option<i32> {
    start(cluster, &["status"]).wait_with_output().unwrap().status.code()
}
