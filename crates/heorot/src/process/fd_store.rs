//! Listening sockets that outlive this process, in systemd's file descriptor store (FDSTORE in sd_notify(3)):
//! while the service starts again, also with a new program, clients are not refused.
//!
//! ```text
//! heorot ── NOTIFY_SOCKET: FDSTORE=1, FDNAME=ds, the socket ─▶ systemd ── LISTEN_FDS ─▶ the next heorot
//! ```

use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;

use listenfd::ListenFd;
use rustix::io::{FdFlags, fcntl_setfd};

use crate::process::notify;

/// Environment variable with the names of the descriptors.
const NAMES: &str = "LISTEN_FDNAMES";
/// Prefix of our names.
const PREFIX: &str = "heorot-";

/// Socket that systemd kept, with the name that [`keep`] gave it.
pub(crate) struct Kept {
    pub name: String,
    pub socket: TcpListener,
}

/// Takes the sockets that systemd kept for this service.
pub(crate) fn take() -> Vec<Kept> {
    let mut descriptors = ListenFd::from_env();
    let names = std::env::var(NAMES).unwrap_or_default();
    let named = (0..descriptors.len()).zip(names.split(':'));
    let ours = named.filter_map(|(at, name)| Some((at, name.strip_prefix(PREFIX)?)));
    let taken = ours.filter_map(|(at, name)| match take_one(&mut descriptors, at) {
        Ok(socket) => Some(Kept { name: name.into(), socket: socket? }),
        Err(error) => {
            tracing::warn!(name, %error, "a descriptor of the service manager is no listening socket");
            None
        }
    });
    taken.collect()
}

fn take_one(descriptors: &mut ListenFd, at: usize) -> io::Result<Option<TcpListener>> {
    let Some(socket) = descriptors.take_tcp_listener(at)? else { return Ok(None) };
    fcntl_setfd(&socket, FdFlags::CLOEXEC)?; // not for all child processes
    socket.set_nonblocking(true)?;
    Ok(Some(socket))
}

/// Has systemd keep a socket, in place of an earlier one of this name.
pub(crate) fn keep(name: &str, socket: &TcpListener) {
    forget(name);
    notify::send(&format!("FDSTORE=1\nFDNAME={PREFIX}{name}\n"), Some(socket.as_fd()));
}

/// Has systemd close the socket of this name, if it has one.
pub(crate) fn forget(name: &str) {
    notify::send(&format!("FDSTOREREMOVE=1\nFDNAME={PREFIX}{name}\n"), None);
}
