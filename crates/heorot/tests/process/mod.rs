//! The binary as a process.

pub mod places;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

pub const PORT: u16 = 2049;
pub const ADMIN_PORT: u16 = 20490;
pub const START_TIME_MAX: Duration = Duration::from_secs(60);

/// Loopback address that no other test uses, so that all tests can use the same ports.
pub fn own_ip() -> Ipv4Addr {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, high | 1, low, NEXT.fetch_add(1, Ordering::Relaxed) as u8)
}

pub fn heorot(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heorot"));
    command.args(args).env("HEOROT_LOG", "off").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Server process, killed at the end of its test if it still runs.
pub struct Server {
    pub child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Server {
    pub fn start(args: &[&str]) -> Self {
        places::note(args);
        Self::of(heorot(args))
    }

    /// Starts a command that becomes a server.
    pub fn of(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    /// Output until the server is ready.
    pub fn ready(&mut self) -> String {
        let mut text = String::new();
        while text != "ready\n" && !text.ends_with("\nready\n") {
            let before = text.len();
            self.stdout.read_line(&mut text).unwrap();
            if text.len() == before {
                let mut line = String::new();
                BufReader::new(self.child.stderr.take().unwrap()).read_line(&mut line).unwrap();
                panic!("not ready: {line}");
            }
        }
        text
    }

    pub fn signal(&mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command that must be refused, with one line.
pub fn refusal(args: &[String]) -> String {
    let Output { status, stdout, stderr } =
        heorot(&args.iter().map(String::as_str).collect::<Vec<_>>()).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert_eq!(status.code(), Some(1), "{stdout}{stderr}");
    assert_eq!(stderr.lines().count(), 1, "one line: {stderr}");
    assert_eq!(stdout, "");
    stderr.trim_end().strip_prefix("heorot: ").unwrap_or_else(|| panic!("{stderr}")).into()
}

pub fn ask(ip: Ipv4Addr, args: &[&str]) -> Result<String, String> {
    let Output { status, stdout, stderr } = heorot(args).args(["--admin", &places::of(ip)]).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if status.success() { Ok(text(stdout)) } else { Err(text(stderr)) }
}

/// Answer to an HTTP request over TCP.
#[allow(dead_code, reason = "nodes.rs asks none")]
pub fn http(to: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(START_TIME_MAX)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Output of `heorot status --json`, for any verdict.
pub fn status(ip: Ipv4Addr) -> serde_json::Value {
    let output = heorot(&["status", "--json"]).args(["--admin", &places::of(ip)]).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// Waits for `done`, while all of the servers run.
pub fn wait_until(what: &str, servers: &mut [&mut Server], mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < START_TIME_MAX, "not in {START_TIME_MAX:?}: {what}");
        for server in servers.iter_mut() {
            assert!(server.child.try_wait().unwrap().is_none(), "a server ended while waiting: {what}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
