//! Data servers that are killed and start again while a real client writes to them: their address goes on to
//! take connections, so that the client stays with its layout.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use lab::{Ready, Server};
use tests::stalls::{self, Work};
use tests::{FileBytes, Lab, Metrics, binary};

/// Number of kills, of each data server in turn.
const KILLS: usize = 4;
const DATA_SERVERS: usize = 2;
const DATA_MIB: &str = "16";
/// Limit of an operation, for a busy machine; without the held address Linux leaves all data servers of the
/// device alone for two minutes.
const STALL_MAX: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(90);

/// `heorot up` with each server as a process of its own.
struct Processes {
    up: Server,
    admin: SocketAddr,
}

impl Processes {
    fn start(lab: &Lab) -> Self {
        let [listen, admin] = [2049, 9100].map(|port| SocketAddr::from((lab.address(), port)));
        let data = lab.folder().join("data");
        let arguments = format!(
            "up --data {} --metaservers 2 --data-servers {DATA_SERVERS} --listen {listen} --admin {admin} --no-root-squash",
            data.display()
        );
        let command =
            std::iter::once(binary().into()).chain(arguments.split(' ').map(OsString::from)).collect();
        let mut up = Server::new("up", command, None, Ready::SaysLine("ready"), lab.folder().join("up.log"));
        up.start().unwrap_or_else(|e| panic!("{e}"));
        Self { up, admin }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.up.log()).unwrap_or_default()
    }

    /// Process ids that the server `name` has had, in order.
    fn pids(&self, name: &str) -> Vec<u32> {
        let log = self.log();
        let first = log.lines().find_map(|line| line.strip_prefix("processes: "));
        let first = first.into_iter().flat_map(|all| all.split(", ")).filter_map(|one| one.split_once(' '));
        let later = log.lines().filter(|line| line.contains("server restarted")).filter_map(|line| {
            let field = |name: &str| line.split_whitespace().find_map(|word| word.strip_prefix(name));
            Some((field("server=")?.trim_matches('"'), field("pid=")?))
        });
        let ours = first.chain(later).filter(|(server, _)| *server == name);
        ours.map(|(_, pid)| pid.parse().unwrap_or_else(|_| panic!("a process id: {pid:?}\n{log}"))).collect()
    }

    /// Kills the server, and waits until another process has taken its place.
    fn kill(&self, name: &str) {
        let before = self.pids(name);
        let pid = before.last().unwrap_or_else(|| panic!("{name} runs:\n{}", self.log()));
        let killed = Command::new("kill").args(["-9", &pid.to_string()]).status().expect("kill");
        assert!(killed.success(), "{name} has the process id {pid}");
        let began = Instant::now();
        while self.pids(name).len() == before.len() {
            assert!(began.elapsed() < PATIENCE, "{name} is not started again:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// File bytes that clients moved through metaservers.
    fn through_metaservers(&self) -> FileBytes {
        let one = |n| {
            let page = Metrics::read((self.admin.ip(), self.admin.port() + n).into());
            page.with("role", "metaserver").with("caller", "client").file_bytes()
        };
        let (a, b) = (one(0), one(1));
        FileBytes { read: a.read + b.read, written: a.written + b.written }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", self.up.log_ends());
        }
    }
}

#[test]
fn a_data_server_that_is_killed_comes_back_to_clients_that_kept_their_layouts() {
    let lab = Lab::open();
    let mut processes = Processes::start(&lab);
    let ash = lab.client("ash");
    ash.run(&lab::heorot::mount_script((lab.address(), 2049).into(), "vers=4.2", "/mnt/h"));
    let mut work = Work::begin(&ash, "data", stalls::DATA, &["/mnt/h/data", DATA_MIB]);
    work.does_more(1);
    let before = processes.through_metaservers();
    for kill in 0..KILLS {
        processes.kill(&format!("ds{}", kill % DATA_SERVERS));
        work.does_more(2);
    }
    assert_eq!(processes.through_metaservers(), before, "all data went straight to the data servers");
    let (said, stalls) = work.end();
    let longest = stalls.iter().max_by_key(|stall| stall.took);
    println!(
        "{KILLS} kills, {} rounds; the longest operation: {}",
        said.trim(),
        longest.map_or("-".into(), ToString::to_string)
    );
    assert!(longest.is_none_or(|stall| stall.took < STALL_MAX), "{longest:?}");
    drop(ash);
    // Its servers end with it; killed, it would leave them behind for a moment.
    processes.up.stop().unwrap_or_else(|e| panic!("{e}"));
}
