//! Listening sockets of data servers. Their supervisor holds them, too: while a data server starts again, the
//! kernel goes on to take connections to its address, and they wait. Refused connections would make Linux leave
//! a whole device of data servers alone for two minutes.
//!
//! ```text
//! supervisor ── the child's standard input, a Unix socket: one byte, and the listening socket ──▶ data server
//!            ◀── its end ends the child
//! ```

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// Listening socket that outlives the processes which serve it.
#[derive(Debug)]
pub(crate) struct HeldSocket(TcpListener);

impl HeldSocket {
    /// Listens on `address`.
    pub(crate) fn open(address: SocketAddr) -> io::Result<Self> {
        nfs::listen(address).map(Self)
    }
}

/// Sends a child the socket that it is to serve, or that there is none.
pub(crate) fn send(socket: Option<&HeldSocket>, to: &UnixStream) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = socket.map(|socket| [socket.0.as_fd()]);
    if let Some(descriptors) = &descriptors
        && !control.push(SendAncillaryMessage::ScmRights(descriptors))
    {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    sendmsg(to, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives the socket that this process is to serve, from its supervisor. Waits for the message; none also if
/// the supervisor is gone.
pub(crate) fn receive() -> Option<TcpListener> {
    receive_from(io::stdin()).unwrap_or_else(|error| {
        tracing::warn!(%error, "no listening socket from the supervisor; a restart refuses connections for a moment");
        None
    })
}

fn receive_from(from: impl AsFd) -> io::Result<Option<TcpListener>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(from, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let rights = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok(rights.map(TcpListener::from))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn a_connection_waits_for_the_next_process_that_gets_the_socket() {
        let held = HeldSocket::open("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = held.0.local_addr().unwrap();
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
        assert!(TcpStream::connect(address).is_err(), "nobody holds it");
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
