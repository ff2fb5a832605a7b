//! Machines on one Ethernet: network namespaces, each with an interface `eth0` on a bridge in its own
//! namespace.
//!
//! ```text
//!   host-PID-N-1      host-PID-N-2      host-PID-N-3        eth0: 10.77.1.NUMBER/24, fd77::NUMBER/64
//!        └──────────── host-PID-N-0 ──────────┘             a bridge
//! ```

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::panic::resume_unwind;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

const NAMESPACES: &str = "/run/netns";
const PREFIX: &str = "host-";

/// Time limit of every wait.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Network of machines; removed on drop.
pub struct Lan {
    name: String,
    machines: u8,
}

impl Lan {
    /// Machines 1 to `machines`. First removes the remains of killed tests.
    pub fn new(machines: u8) -> Lan {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        remove_those_of_the_dead();
        let name = format!("{PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let lan = Lan { name, machines };
        lan.add_namespace(0);
        lan.ip(0, "link add lan type bridge mcast_snooping 0");
        lan.ip(0, "link set lan up");
        for number in 1..=machines {
            lan.add_namespace(number);
            let machine = lan.namespace(number);
            lan.ip(0, &format!("link add port{number} type veth peer name eth0 netns {machine}"));
            lan.ip(0, &format!("link set port{number} master lan up"));
            lan.ip(number, "link set eth0 up");
            lan.ip(number, &format!("addr add 10.77.1.{number}/24 dev eth0"));
            lan.ip(number, &format!("addr add fd77::{number}/64 dev eth0 nodad"));
        }
        // A link-local address needs the carrier, and then a second.
        for number in 1..=machines {
            wait_until("a link-local address", || {
                let said = lan.ip(number, "-6 -o addr show dev eth0 scope link");
                said.contains("fe80:") && !said.contains("tentative")
            });
            lan.set_detect_duplicates(number, true);
        }
        lan
    }

    fn add_namespace(&self, number: u8) {
        run("ip", &format!("netns add {}", self.namespace(number)));
        self.set_detect_duplicates(number, false);
        self.ip(number, "link set lo up");
    }

    /// Sets the kernel's duplicate address detection (RFC 4862, section 5.4) for addresses added from now on.
    fn set_detect_duplicates(&self, number: u8, detect: bool) {
        self.on(number, || {
            for which in ["default", "all"] {
                let path = format!("/proc/sys/net/ipv6/conf/{which}/accept_dad");
                fs::write(&path, u8::from(detect).to_string())
                    .unwrap_or_else(|e| panic!("write {path}: {e}"));
            }
        });
    }

    fn namespace(&self, number: u8) -> String {
        format!("{}-{number}", self.name)
    }

    /// Runs `ip ARGUMENTS` on a machine; it must succeed.
    pub fn ip(&self, number: u8, arguments: &str) -> String {
        run("ip", &format!("-n {} {arguments}", self.namespace(number)))
    }

    /// Runs `work` on a thread in the namespace of a machine.
    pub fn on<T: Send>(&self, number: u8, work: impl FnOnce() -> T + Send) -> T {
        let path = Path::new(NAMESPACES).join(self.namespace(number));
        let result = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                use std::os::fd::AsFd;
                let namespace = fs::File::open(&path).unwrap_or_else(|e| panic!("open {path:?}: {e}"));
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                    .unwrap_or_else(|e| panic!("enter {path:?}: {e} (these tests run as root)"));
                work()
            });
            thread.join()
        });
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// MAC address of a machine, in the format of `ip`.
    pub fn mac(&self, number: u8) -> String {
        let said = self.ip(number, "-o link show eth0");
        word_after(&said, "link/ether").unwrap_or_else(|| panic!("no MAC address: {said}"))
    }

    /// MAC address in a machine's neighbour table.
    pub fn neighbour(&self, number: u8, address: IpAddr) -> Option<String> {
        word_after(&self.ip(number, &format!("neigh show {address} dev eth0")), "lladdr")
    }

    /// Whether a machine has `address`.
    pub fn has(&self, number: u8, address: IpAddr) -> bool {
        let said = self.ip(number, "-o addr show");
        said.lines().any(|line| line.contains(&format!(" {address}/")))
    }

    /// Starts `hold_address` on a machine, and waits until it holds the address.
    pub fn start_holder(&self, number: u8, address: IpAddr, seconds: u64) -> Holder {
        self.start_hold_address(number, address, &[&seconds.to_string()])
    }

    /// Starts `hold_address` with a listener on port 2049; the address goes away before the listener.
    pub fn start_listening_holder(&self, number: u8, address: IpAddr, seconds: u64) -> Holder {
        self.start_hold_address(number, address, &[&seconds.to_string(), "listen"])
    }

    fn start_hold_address(&self, number: u8, address: IpAddr, words: &[&str]) -> Holder {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hold_address"));
        command.arg(address.to_string()).args(words).stdout(Stdio::piped());
        // Not by `ip netns exec`, which would be the process to kill: a child inherits its thread's
        // namespace.
        let mut child = self.on(number, || command.spawn().expect("start hold_address"));
        let mut line = String::new();
        let read = BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line);
        let holder = Holder(child);
        assert!(read.is_ok() && line.starts_with(&format!("holds {address} ")), "hold_address said {line:?}");
        holder
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        for number in 0..=self.machines {
            let _ = try_run("ip", &format!("netns del {}", self.namespace(number)));
        }
    }
}

/// Process, killed on drop.
pub struct Holder(pub Child);

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for a condition.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < TIMEOUT, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn remove_those_of_the_dead() {
    for entry in fs::read_dir(NAMESPACES).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = try_run("ip", &format!("netns del {name}"));
        }
    }
}

fn word_after(text: &str, word: &str) -> Option<String> {
    text.split_whitespace().skip_while(|found| *found != word).nth(1).map(String::from)
}

#[track_caller]
fn run(program: &str, arguments: &str) -> String {
    let output = try_run(program, arguments).unwrap_or_else(|e| panic!("{program}: {e}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments}: {said} (these tests run as root)");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn try_run(program: &str, arguments: &str) -> std::io::Result<Output> {
    Command::new(program).args(arguments.split_whitespace()).output()
}
