//! TCP as the network of streams, with the options that our servers need.

use std::net::SocketAddr;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::stream::{Stream, StreamFuture, StreamListener, StreamNetwork, StreamWriter};

/// Connections that the kernel keeps until they are accepted: clients of a whole cluster that come back at
/// once. One for which there is no room is tried again by its client after 1 s, then 3 s and 7 s. The kernel
/// takes no more than net.core.somaxconn, 4096.
const BACKLOG: u32 = 4096;

/// A server that lost its power or its link says nothing, and a call to it would be waited for until its own
/// limit, or for ever. Its kernel is asked after so much silence, so often; and what is not acknowledged for
/// so long (asking included) ends the connection. Longer than a network's own troubles, and no process has to
/// run for an answer.
const ASK_AFTER: Duration = Duration::from_secs(3);
const ASK_EVERY: Duration = Duration::from_secs(1);
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(6);

/// The machine's TCP.
#[derive(Debug, Clone, Copy, Default)]
pub struct TcpNetwork;

impl StreamNetwork for TcpNetwork {
    fn connect(&self, to: SocketAddr) -> StreamFuture<'_, Stream> {
        Box::pin(async move {
            let stream = TcpStream::connect(to).await?;
            notice_silence(&stream)?;
            opened(stream)
        })
    }

    fn listen(&self, at: SocketAddr) -> StreamFuture<'_, Box<dyn StreamListener>> {
        Box::pin(async move {
            let listener: Box<dyn StreamListener> = Box::new(bound(at)?);
            Ok(listener)
        })
    }
}

fn bound(at: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if at.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A port is free again as soon as its server has ended, also where connections of it are still being
    // closed.
    socket.set_reuseaddr(true)?;
    socket.bind(at)?;
    socket.listen(BACKLOG)
}

/// Listens at an address for a server that is started later, perhaps by another process: see
/// [`crate::Server::start_with`]. Needs a tokio runtime.
///
/// # Errors
/// Error of bind or listen.
pub fn listen(at: SocketAddr) -> std::io::Result<std::net::TcpListener> {
    bound(at)?.into_std()
}

/// The listener of [`listen`].
pub(crate) fn adopted(listener: std::net::TcpListener) -> std::io::Result<Box<dyn StreamListener>> {
    listener.set_nonblocking(true)?;
    Ok(Box::new(TcpListener::from_std(listener)?))
}

impl StreamListener for TcpListener {
    fn address(&self) -> std::io::Result<SocketAddr> {
        self.local_addr()
    }

    fn accept(&mut self) -> StreamFuture<'_, Stream> {
        Box::pin(async move {
            loop {
                let (stream, _) = TcpListener::accept(self).await?;
                keep_alive(&stream);
                go_with_process(&stream);
                // One that ended before it was looked at is no failure of the listener.
                if let Ok(stream) = opened(stream) {
                    return Ok(stream);
                }
            }
        })
    }
}

impl StreamWriter for OwnedWriteHalf {
    fn set_forgets(&self, forgets: bool) {
        let linger = forgets.then_some(Duration::ZERO);
        let _ = sockopt::set_socket_linger(self.as_ref(), linger);
    }
}

fn opened(stream: TcpStream) -> std::io::Result<Stream> {
    // Without it a client that does not set it itself waits 35 ms for each answer.
    stream.set_nodelay(true)?;
    // One that came to `[::]` by IPv4 has the addresses that it would have otherwise.
    let plain = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
    let (peer, local) = (plain(stream.peer_addr()?), plain(stream.local_addr()?));
    let (reader, writer) = stream.into_split();
    Ok(Stream { reader: Box::new(reader), writer: Box::new(writer), peer, local })
}

/// If this process is killed the kernel forgets the connection at once. Otherwise, with its address gone, the
/// kernel keeps it for minutes to send its end (FIN-WAIT-1). When that address comes back here, what the
/// client sends about its newer connection to another machine meets this old one, and is answered with
/// nothing that would tell the client: it would wait until its call is too late, a minute and more.
fn go_with_process(stream: &TcpStream) {
    if let Err(error) = sockopt::set_socket_linger(stream, Some(Duration::ZERO)) {
        tracing::debug!(%error, "a connection may outlive this process");
    }
}

/// A client whose machine vanished is noticed: its connection would otherwise hold a place for ever.
fn keep_alive(stream: &TcpStream) {
    if let Err(error) = sockopt::set_socket_keepalive(stream, true) {
        tracing::debug!(%error, "keep-alive not set");
    }
}

/// Makes the kernel end a connection whose other end is gone without a word.
fn notice_silence(stream: &TcpStream) -> std::io::Result<()> {
    sockopt::set_tcp_keepidle(stream, ASK_AFTER)?;
    sockopt::set_tcp_keepintvl(stream, ASK_EVERY)?;
    sockopt::set_tcp_user_timeout(stream, UNACKNOWLEDGED_MAX.as_millis() as u32)?;
    sockopt::set_socket_keepalive(stream, true)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the socket options only: the kernel's reaction needs a network that can be cut.
    #[tokio::test]
    async fn a_server_that_is_gone_without_a_word_is_noticed_within_seconds() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        notice_silence(&stream).unwrap();
        let keepalive = sockopt::socket_keepalive(&stream).unwrap();
        let silence_ms = sockopt::tcp_user_timeout(&stream).unwrap();
        let asking_ms =
            (sockopt::tcp_keepidle(&stream).unwrap() + sockopt::tcp_keepintvl(&stream).unwrap()).as_millis();
        assert!(keepalive && (1000..10_000).contains(&silence_ms));
        assert!(
            asking_ms < u128::from(silence_ms),
            "it has the time to answer: {asking_ms} of {silence_ms} ms"
        );
    }
}
