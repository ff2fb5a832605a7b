//! Restarts of a server by its supervisor, `heorot run`.

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};

use crate::process::{ADMIN_PORT, Server, heorot, own_ip, wait_until};

/// The child process of `parent` that is the data server, if it runs.
fn data_server(parent: u32) -> Option<i32> {
    let processes = std::fs::read_dir("/proc").unwrap();
    processes.flatten().find_map(|process| {
        let stat = std::fs::read_to_string(process.path().join("stat")).ok()?;
        // State and parent follow the name, which is in brackets.
        let of_parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)? == parent.to_string();
        let words = std::fs::read(process.path().join("cmdline")).ok()?;
        let is_ds = words.split(|byte| *byte == 0).nth(1)? == b"ds";
        (of_parent && is_ds).then(|| process.file_name().to_str()?.parse().ok())?
    })
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// ```text
/// no descriptors left, the data server dies -> it is not restarted, the metaserver goes on
/// there are descriptors                     -> it is restarted
/// the program is removed, it dies           -> it is restarted, too
/// ```
#[test]
fn a_server_that_cannot_be_restarted_now_is_restarted_later_and_the_others_go_on() {
    let (dir, ip) = (tempfile::tempdir().unwrap(), own_ip());
    let program = dir.path().join("heorot");
    copy_program(&program);
    let (path, address, admin) =
        (dir.path().join("node").display().to_string(), ip.to_string(), format!("{ip}:{ADMIN_PORT}"));
    let init = ["init", "--dir", &path, "--address", &address, "--name", "ash", "--admin", &admin];
    assert!(heorot(&init).output().unwrap().status.success());
    let mut command = Command::new(&program);
    command.args(["run", &path]).env("HEOROT_LOG", "off").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut up = Server::of(command);
    up.ready();
    let (parent, first) = (up.child.id(), data_server(up.child.id()).expect("it runs"));

    let limit = |current| {
        let (pid, maximum) = (Pid::from_child(&up.child), getrlimit(Resource::Nofile).maximum);
        prlimit(Some(pid), Resource::Nofile, Rlimit { current, maximum }).unwrap().current
    };
    let before = limit(Some(1));
    kill(first);
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert_eq!(data_server(parent), None);
    limit(before);
    wait_until("it is restarted", &mut [&mut up], || data_server(parent).is_some_and(|pid| pid != first));

    std::fs::remove_file(&program).unwrap();
    let second = data_server(parent).unwrap();
    kill(second);
    wait_until("it is restarted", &mut [&mut up], || data_server(parent).is_some_and(|pid| pid != second));
    assert_eq!(up.signal(Signal::TERM), Some(0));
}

fn copy_program(to: &Path) {
    // A hard link would be quicker, and would keep the program's file in place when it is removed.
    std::fs::copy(env!("CARGO_BIN_EXE_heorot"), to).unwrap();
}
