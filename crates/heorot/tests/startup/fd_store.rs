//! The listening socket of a data server outlives `heorot run`, as the service manager's: while the service
//! starts again, connections wait.

use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::process::{ADMIN_PORT, Server, heorot, own_ip};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::Signal;

/// Time limit of an answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// A call of NULL of NFSv4, with the xid 7.
const NULL_CALL: [u32; 11] = [0x8000_0000 | 40, 7, 0, 2, 100_003, 4, 0, 0, 0, 0, 0];

/// Messages to the service manager until READY, and the descriptor among them.
fn told(manager: &UnixDatagram) -> (Vec<String>, Option<OwnedFd>) {
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut messages, mut kept) = (Vec::new(), None);
    while messages.last().is_none_or(|last: &String| !last.contains("READY=1")) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 256];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let got = recvmsg(manager, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags).unwrap().bytes;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                kept = kept.into_iter().chain(descriptors).last();
            }
        }
        messages.push(String::from_utf8_lossy(&bytes[..got]).into_owned());
    }
    (messages, kept)
}

/// `heorot run`, with a socket that the service manager kept.
fn run(dir: &Path, notify: &Path, kept: Option<(&str, OwnedFd)>) -> Server {
    let program = env!("CARGO_BIN_EXE_heorot");
    let (names, count) = kept.as_ref().map_or(("", 0), |(name, _)| (*name, 1));
    let script = format!(
        "exec 3<&0 0</dev/null; export LISTEN_PID=$$ LISTEN_FDS={count} LISTEN_FDNAMES={names}; exec {program} run {}",
        dir.display()
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).env("HEOROT_LOG", "off").env("NOTIFY_SOCKET", notify);
    command.stdin(kept.map_or_else(Stdio::null, |(_, socket)| socket.into()));
    Server::of({
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    })
}

#[test]
fn connections_to_a_data_server_wait_while_its_service_starts_again() {
    let (lab, ip) = (tempfile::tempdir().unwrap(), own_ip());
    let (dir, notify) = (lab.path().join("node"), lab.path().join("notify"));
    let (address, admin) = (ip.to_string(), format!("{ip}:{ADMIN_PORT}"));
    let path = dir.display().to_string();
    let init = ["init", "--dir", &path, "--address", &address, "--name", "ash", "--admin", &admin];
    let init = heorot(&init).output().unwrap();
    assert!(init.status.success(), "{}", String::from_utf8_lossy(&init.stderr));
    let config = std::fs::read_to_string(dir.join("ds.toml")).unwrap();
    let listen = config.lines().find_map(|line| line.strip_prefix("listen = ")).expect("an address");
    let listen: SocketAddr = listen.trim_matches('"').parse().unwrap();
    let manager = UnixDatagram::bind(&notify).unwrap();

    let mut server = run(&dir, &notify, None);
    server.ready();
    let (messages, kept) = told(&manager);
    let name = "heorot-ds";
    assert_eq!(messages[0], format!("FDSTOREREMOVE=1\nFDNAME={name}\n"), "one of an earlier address");
    assert_eq!(messages[1], format!("FDSTORE=1\nFDNAME={name}\n"));
    assert_eq!(server.signal(Signal::TERM), Some(0));
    let kept = TcpListener::from(kept.expect("a socket"));
    assert_eq!(kept.local_addr().unwrap(), listen);
    while !told_stopping(&manager) {}

    let mut client = TcpStream::connect(listen).expect("it waits");
    client.write_all(&NULL_CALL.map(u32::to_be_bytes).concat()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut server = run(&dir, &notify, Some((name, kept.into())));
    server.ready();
    let mut answer = [0; 8];
    client.read_exact(&mut answer).expect("the connection from before is served");
    assert_eq!(answer[4..], 7_u32.to_be_bytes());
    let (messages, kept) = told(&manager);
    assert_eq!(messages, ["READY=1\n"], "the service manager has the socket already");
    assert!(kept.is_none());
    assert_eq!(server.signal(Signal::TERM), Some(0));
    let refused = TcpStream::connect(listen).expect_err("nothing holds the socket any more");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

fn told_stopping(manager: &UnixDatagram) -> bool {
    let mut bytes = [0; 256];
    let got = manager.recv(&mut bytes).unwrap();
    bytes[..got].starts_with(b"STOPPING=1")
}

/// A node that has no data server any more, for one.
#[test]
fn a_kept_socket_that_has_no_use_is_closed() {
    let (lab, ip) = (tempfile::tempdir().unwrap(), own_ip());
    let (dir, notify) = (lab.path().join("node"), lab.path().join("notify"));
    let (address, admin) = (ip.to_string(), format!("{ip}:{ADMIN_PORT}"));
    let path = dir.display().to_string();
    let init = ["init", "--dir", &path, "--address", &address, "--name", "ash", "--admin", &admin];
    assert!(heorot(&init).output().unwrap().status.success());
    let manager = UnixDatagram::bind(&notify).unwrap();
    let other = TcpListener::bind((ip, 0)).unwrap();
    let at = other.local_addr().unwrap();
    let mut server = run(&dir, &notify, Some(("heorot-ds7", other.into())));
    server.ready();
    let (messages, _) = told(&manager);
    assert!(messages.contains(&"FDSTOREREMOVE=1\nFDNAME=heorot-ds7\n".to_owned()), "{messages:?}");
    assert!(TcpStream::connect(at).is_err());
    assert_eq!(server.signal(Signal::TERM), Some(0));
}
