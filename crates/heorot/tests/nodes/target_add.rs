//! `heorot target add` on a node, which finds the data server by the node's directory, and with `heorot up`, whose data
//! servers have one target each.

use rustix::process::Signal;

use super::process::{ADMIN_PORT, PORT, Server, own_ip, refusal, status, wait_until};
use super::{Machine, done};

fn words(dir: &std::path::Path, more: &[&str]) -> Vec<String> {
    let dir = dir.to_str().expect("a path in UTF-8");
    ["target", "add", dir].iter().chain(more).map(|word| (*word).to_owned()).collect()
}

fn targets(machine: &Machine) -> usize {
    status(machine.ip)["data_servers"][0]["targets"].as_array().map_or(0, Vec::len)
}

#[test]
fn a_node_gets_a_target_by_its_directory_whether_it_runs_or_not() {
    let lab = tempfile::tempdir().unwrap();
    let ash = Machine::new(lab.path(), "ash");
    ash.init();
    let before = ash.file("ds.toml");
    let [first, second] = ["first", "second"].map(|name| lab.path().join(name));
    for dir in [&first, &second] {
        std::fs::create_dir(dir).unwrap();
    }
    let dir = ash.dir.to_str().unwrap();
    let said = done(&words(&first, &["--admin", dir]));
    assert!(
        said.contains("the data server does not run, and uses the target from its next start on"),
        "{said}"
    );
    let mut node = ash.run();
    node.ready();
    wait_until("it has both", &mut [&mut node], || targets(&ash) == 2);
    let said = done(&words(&second, &["--admin", dir]));
    assert!(said.contains("second is a target of ash from now on"), "{said}");
    assert_eq!(targets(&ash), 3);
    // The text of the example, with all that it explains.
    let after = ash.file("ds.toml");
    assert_eq!(after.lines().count(), before.lines().count());
    assert_eq!(
        after.lines().zip(before.lines()).filter(|(after, before)| after != before).count(),
        1,
        "{after}"
    );
    let line = refusal(&words(&second, &["--admin", dir]));
    assert!(line.contains("second: is a target of this data server already"), "{line}");
    assert_eq!(node.signal(Signal::TERM), Some(0));

    // A target that another data server may serve, or a copy of one.
    let moved = lab.path().join("moved");
    std::fs::rename(&second, &moved).unwrap();
    let before = ash.file("ds.toml");
    let line = refusal(&words(&moved, &["--admin", dir]));
    assert!(line.contains("cannot ask whether another one serves that; nothing was changed"), "{line}");
    assert_eq!(ash.file("ds.toml"), before);
}

#[test]
fn the_data_servers_of_heorot_up_get_no_more_targets() {
    let lab = tempfile::tempdir().unwrap();
    let (ip, dir) = (own_ip(), lab.path().join("data"));
    let target = lab.path().join("more");
    std::fs::create_dir(&target).unwrap();
    let dir = dir.to_str().unwrap();
    let (listen, admin) = (format!("{ip}:{PORT}"), format!("{ip}:{ADMIN_PORT}"));
    let mut up =
        Server::start(&["up", "--data", dir, "--listen", &listen, "--admin", &admin, "--data-servers", "1"]);
    up.ready();
    let line = refusal(&words(&target, &["--admin", dir]));
    assert!(line.contains("the data servers of heorot up have one target each"), "{line}");
    assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0);
    assert_eq!(up.signal(Signal::TERM), Some(0));
}
