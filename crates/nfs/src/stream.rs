//! Byte streams, and the network that connects and accepts them: TCP in production, simulated streams in a
//! simulation.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};

/// Future of a network's work.
pub type StreamFuture<'a, T> = Pin<Box<dyn Future<Output = std::io::Result<T>> + Send + 'a>>;

/// Reading half of a stream.
pub type StreamReader = Box<dyn AsyncRead + Send + Unpin>;

/// Writing half of a stream.
pub trait StreamWriter: AsyncWrite + Send + Unpin {
    /// Choice of the stream's end: with `forgets` unsent data are dropped and nothing of the stream is left
    /// once it is closed; otherwise what was written last still arrives.
    fn set_forgets(&self, forgets: bool);
}

/// Open stream.
pub struct Stream {
    /// Reading half.
    pub reader: StreamReader,
    /// Writing half.
    pub writer: Box<dyn StreamWriter>,
    /// Address of the other end.
    pub peer: SocketAddr,
    /// Address of this end.
    pub local: SocketAddr,
}

/// Listener at one address.
pub trait StreamListener: Send {
    /// Its address, with the port that it got if port 0 was asked for.
    ///
    /// # Errors
    /// When the system does not say.
    fn address(&self) -> std::io::Result<SocketAddr>;

    /// The next stream.
    fn accept(&mut self) -> StreamFuture<'_, Stream>;
}

/// Network of streams.
pub trait StreamNetwork: Send + Sync + 'static {
    /// Connects to a server of our own cluster, whose silence is noticed within seconds.
    fn connect(&self, to: SocketAddr) -> StreamFuture<'_, Stream>;

    /// Listens at an address.
    fn listen(&self, at: SocketAddr) -> StreamFuture<'_, Box<dyn StreamListener>>;
}
