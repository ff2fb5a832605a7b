//! rtnetlink requests to the kernel, one at a time, on a socket of their own. The kernel works inside `send`,
//! so the answer is there when `send` returns.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, netlink, recv, send, socket_with,
};

/// Buffer length for an answer: the kernel sends parts of long answers as large as the buffer, up to this.
const ANSWER_BYTES_MAX: usize = 32 << 10;

/// Time limit of an answer. Not needed as above, but a lost answer must not hang a server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Socket in the network namespace of the thread that opened it.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    pub(super) fn open() -> io::Result<Self> {
        // Protocol 0 is rtnetlink.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        bind(&socket, &netlink::SocketAddrNetlink::new(0, 0))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER_TIMEOUT))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Socket for queries about interfaces that need any socket.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends one change or one query. `flags` are NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE.
    ///
    /// # Errors
    /// Error of the kernel.
    pub(super) fn request(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.exchange(message, NLM_F_ACK | flags)
    }

    /// Lists all objects of a kind.
    ///
    /// # Errors
    /// Error of the kernel.
    pub(super) fn dump(&mut self, message: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.exchange(message, NLM_F_DUMP)
    }

    fn exchange(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::from(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        send(&self.socket, &bytes, SendFlags::empty())?;

        let mut answers = Vec::new();
        let mut buffer = vec![0; ANSWER_BYTES_MAX];
        loop {
            let (_, length) = recv(&self.socket, &mut buffer[..], RecvFlags::TRUNC)?;
            let mut rest = buffer.get(..length).ok_or_else(|| wrong("an answer that is too long"))?;
            while !rest.is_empty() {
                let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest).map_err(wrong)?;
                let length = (answer.header.length as usize).next_multiple_of(4).min(rest.len());
                rest = &rest[length..];
                if answer.header.sequence_number != self.sequence {
                    continue; // of a request that timed out
                }
                match answer.payload {
                    NetlinkPayload::InnerMessage(message) => answers.push(message),
                    NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                    NetlinkPayload::Error(_) | NetlinkPayload::Done(_) => return Ok(answers),
                    _ => {}
                }
            }
        }
    }
}

fn wrong(what: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
