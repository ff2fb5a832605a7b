//! Notifies systemd that the service is ready or stops (sd_notify(3)): a datagram to the socket in
//! NOTIFY_SOCKET, if it is set.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::process::descriptor;

const SOCKET: &str = "NOTIFY_SOCKET";

/// Reports that the service is ready.
pub(crate) fn ready() {
    send("READY=1\n", None);
}

/// Reports that the service stops.
pub(crate) fn stopping() {
    send("STOPPING=1\n", None);
}

/// Sends the service manager a state, with or without a descriptor.
pub(crate) fn send(state: &str, descriptor: Option<BorrowedFd<'_>>) {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    if let Err(error) = send_to(socket.as_encoded_bytes(), state, descriptor) {
        tracing::warn!(socket = %socket.display(), %error, "cannot notify the service manager");
    }
}

fn send_to(socket: &[u8], state: &str, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let address = match socket.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(std::str::from_utf8(socket).map_err(io::Error::other)?)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    descriptor::send(&socket, state.as_bytes(), descriptor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_and_an_abstract_socket_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let name = format!("heorot-notify-{}", std::process::id());
        let abstract_address = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        let sockets = [
            (UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap().to_owned()),
            (UnixDatagram::bind_addr(&abstract_address).unwrap(), format!("@{name}")),
        ];
        for (socket, address) in sockets {
            send_to(address.as_bytes(), "READY=1\n", None).unwrap();
            let mut told = [0; 64];
            let bytes = socket.recv(&mut told).unwrap();
            assert_eq!(&told[..bytes], b"READY=1\n");
        }
        assert!(send_to(b"/no/such/socket", "READY=1\n", None).is_err());
    }
}
