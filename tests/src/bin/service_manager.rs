//! A service manager for one service, as systemd treats it: keeps the descriptors that the service stores
//! (FDSTORE in sd_notify(3)), and gives them to the next process of it (LISTEN_FDS).
//!
//! `service_manager COMMAND...`: SIGHUP restarts the service, SIGTERM ends it.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

const SOCKET: &str = "notify";
/// Becomes the service, which has the descriptor 3 and ends with this process.
const SCRIPT: &str = r#"exec 3<&0 0</dev/null; export LISTEN_PID=$$; exec "$@""#;

/// Descriptor that is kept, and its name.
type Kept = Arc<Mutex<Option<(String, OwnedFd)>>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let command: Vec<String> = std::env::args().skip(1).collect();
    let (mut restart, mut end) = (signal(SignalKind::hangup())?, signal(SignalKind::terminate())?);
    let _ = std::fs::remove_file(SOCKET);
    let told = UnixDatagram::bind(SOCKET)?;
    let kept = Kept::default();
    let keeps = Arc::clone(&kept);
    std::thread::spawn(move || {
        loop {
            note(&told, &keeps);
        }
    });
    loop {
        let service = start(&command, &kept)?;
        let restarts = tokio::select! {
            _ = restart.recv() => true,
            _ = end.recv() => false,
        };
        stop(service)?;
        if !restarts {
            return Ok(());
        }
    }
}

fn start(command: &[String], kept: &Kept) -> std::io::Result<Child> {
    let kept = kept.lock();
    let mut service = Command::new("setpriv");
    service.args(["--pdeathsig", "TERM", "bash", "-c", SCRIPT, "bash"]).args(command);
    service.env("NOTIFY_SOCKET", std::env::current_dir()?.join(SOCKET));
    match &*kept {
        Some((name, descriptor)) => {
            service.envs([("LISTEN_FDS", "1"), ("LISTEN_FDNAMES", name)]);
            service.stdin(Stdio::from(descriptor.try_clone()?));
        }
        None => drop(service.stdin(Stdio::null())),
    }
    service.spawn()
}

fn stop(mut service: Child) -> std::io::Result<()> {
    kill_process(Pid::from_child(&service), Signal::TERM)?;
    service.wait().map(drop)
}

/// Notes what the service says next.
fn note(told: &UnixDatagram, kept: &Kept) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; 256];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let Ok(got) = recvmsg(told, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) else { return };
    let text = String::from_utf8_lossy(&bytes[..got.bytes]).into_owned();
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
    let Some(name) = field("FDNAME=") else { return };
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    *kept.lock() = descriptor.map(|descriptor| (name, descriptor));
}
