//! Listening sockets of data servers. Their supervisor holds them, too: while a data server starts again, the
//! kernel goes on to take connections to its address, and they wait. Refused connections would make Linux leave
//! a whole device of data servers alone for two minutes.
//!
//! ```text
//! supervisor ── the child's standard input, a Unix socket: one byte, and the listening socket ──▶ data server
//!            ◀── its end ends the child
//! ```

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use crate::process::descriptor;
use crate::process::fd_store::{self, Kept};

/// Listening socket that outlives the processes which serve it, and this one where systemd keeps it.
#[derive(Debug)]
pub(crate) struct HeldSocket {
    name: String,
    socket: TcpListener,
}

impl HeldSocket {
    /// Takes the socket of the server `name` at `address`, if it is among those `kept` of an earlier process, or
    /// listens there.
    pub(crate) fn open(name: &str, address: SocketAddr, kept: &mut Vec<Kept>) -> io::Result<Self> {
        let at_address = |kept: &Kept| kept.socket.local_addr().is_ok_and(|at| at == address);
        let socket = match kept.iter().position(|kept| kept.name == name && at_address(kept)) {
            Some(at) => kept.swap_remove(at).socket,
            None => {
                let socket = nfs::listen(address)?;
                // Of its earlier address: the store has one socket of a name.
                kept.retain(|kept| kept.name != name);
                fd_store::keep(name, &socket);
                socket
            }
        };
        Ok(Self { name: name.into(), socket })
    }

    /// Closes the socket: connections to its address are refused from now on.
    pub(crate) fn close(self) {
        fd_store::forget(&self.name);
    }
}

/// Sends a child the socket that it is to serve, or that there is none.
pub(crate) fn send(socket: Option<&HeldSocket>, to: &UnixStream) -> io::Result<()> {
    descriptor::send(to, &[0], socket.map(|held| held.socket.as_fd()))
}

/// Receives the socket that this process is to serve, from its supervisor. Waits for the message; none also if
/// the supervisor is gone.
pub(crate) fn receive() -> io::Result<Option<TcpListener>> {
    receive_from(io::stdin())
}

fn receive_from(from: impl AsFd) -> io::Result<Option<TcpListener>> {
    Ok(descriptor::receive(from)?.map(TcpListener::from))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn a_connection_waits_for_the_next_process_that_gets_the_socket() {
        let held = HeldSocket::open("ds", "127.0.0.1:0".parse().unwrap(), &mut Vec::new()).unwrap();
        let address = held.socket.local_addr().unwrap();
        let hand_over = || {
            let (ours, theirs) = UnixStream::pair().unwrap();
            send(Some(&held), &ours).unwrap();
            receive_from(theirs).unwrap().expect("a socket")
        };
        drop(hand_over());
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(b"call").unwrap();
        let next = hand_over();
        assert_eq!(next.local_addr().unwrap(), address);
        next.set_nonblocking(false).unwrap();
        let (mut server, _) = next.accept().unwrap();
        let mut call = [0; 4];
        server.read_exact(&mut call).unwrap();
        assert_eq!(&call, b"call");
        drop((held, next, server));
        assert!(TcpStream::connect(address).is_err(), "it is closed everywhere");
    }

    #[tokio::test]
    async fn a_socket_that_an_earlier_process_left_is_taken_by_its_address() {
        let kept = |name: &str| Kept {
            name: name.into(),
            socket: nfs::listen("127.0.0.1:0".parse().unwrap()).unwrap(),
        };
        let mut all = vec![kept("ds1"), kept("ds0")];
        let address = all[1].socket.local_addr().unwrap();
        let held = HeldSocket::open("ds0", address, &mut all).unwrap();
        assert_eq!((held.socket.local_addr().unwrap(), all.len()), (address, 1));
        assert!(
            HeldSocket::open("ds0", address, &mut all).is_err(),
            "it is in use, and not among those kept"
        );
        // Else the new one is removed from the store with it.
        let mut earlier = vec![kept("ds0")];
        HeldSocket::open("ds0", "127.0.0.1:0".parse().unwrap(), &mut earlier).unwrap();
        assert!(earlier.is_empty(), "one of an earlier address is closed");
    }

    #[test]
    fn there_may_be_no_socket_and_no_supervisor() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        send(None, &ours).unwrap();
        assert!(receive_from(&theirs).unwrap().is_none());
        drop(ours);
        assert!(receive_from(&theirs).unwrap().is_none());
    }
}
