//! Network of streams of one machine, for `nfs`: TCP's place is taken by [`crate::streams::Streams`].

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use nfs::{Stream, StreamFuture, StreamListener, StreamNetwork, StreamWriter};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::net::Address;
use crate::shared::Shared;

/// The one port of a machine.
const PORT: u16 = 2049;
/// 10.0.0.0: machines have the addresses after it.
const FIRST: u32 = 0x0a00_0000;

/// Socket address of a machine.
#[must_use]
pub fn socket_address(address: Address) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::from_bits(FIRST + address as u32).into(), PORT)
}

fn machine(at: SocketAddr) -> io::Result<Address> {
    match at.ip() {
        IpAddr::V4(ip) if at.port() == PORT => Ok(u64::from(ip.to_bits().wrapping_sub(FIRST))),
        _ => Err(io::ErrorKind::AddrNotAvailable.into()),
    }
}

/// Says if the power of a machine has gone.
pub type PowerIsGone = Arc<dyn Fn() -> bool + Send + Sync>;

/// Network as one machine sees it.
pub struct SimNetwork {
    from: Address,
    /// If the machine has a disk: when the power goes, no word leaves the machine any more.
    power_is_gone: Option<PowerIsGone>,
    shared: Arc<Shared>,
}

impl SimNetwork {
    /// Network of the machine at `from`.
    #[must_use]
    pub fn new(from: Address, shared: &Arc<Shared>) -> Self {
        Self { from, power_is_gone: None, shared: Arc::clone(shared) }
    }

    /// The same of a machine whose power may go.
    #[must_use]
    pub fn with_power(self, is_gone: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { power_is_gone: Some(Arc::new(is_gone)), ..self }
    }

    /// Both halves of a stream's end.
    fn opened(&self, stream: u64, end: usize, local: Address, peer: Address) -> Stream {
        let (gone, shared) = (&self.power_is_gone, &self.shared);
        let half = || Half { stream, end, power_is_gone: gone.clone(), shared: Arc::clone(shared) };
        Stream {
            reader: Box::new(half()),
            writer: Box::new(half()),
            peer: socket_address(peer),
            local: socket_address(local),
        }
    }
}

/// Attempt to connect, forgotten when it is dropped.
struct Attempt {
    number: u64,
    shared: Arc<Shared>,
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.shared.streams().forget_dial(self.number);
    }
}

impl StreamNetwork for SimNetwork {
    fn connect(&self, to: SocketAddr) -> StreamFuture<'_, Stream> {
        Box::pin(async move {
            let to = machine(to)?;
            let delay_ms = self.shared.net().conditions.delay_ms;
            let number = self.shared.streams().dial(self.from, to, delay_ms);
            let attempt = Attempt { number, shared: Arc::clone(&self.shared) };
            let outcome = poll_fn(|cx| match self.shared.streams().dialled(attempt.number, cx.waker()) {
                Some(outcome) => Poll::Ready(outcome),
                None => Poll::Pending,
            });
            Ok(self.opened(outcome.await?, 0, self.from, to))
        })
    }

    fn listen(&self, at: SocketAddr) -> StreamFuture<'_, Box<dyn StreamListener>> {
        Box::pin(async move {
            let at = machine(at)?;
            let number = self.shared.streams().listen(at);
            let (power_is_gone, shared) = (self.power_is_gone.clone(), Arc::clone(&self.shared));
            let network = Self { from: self.from, power_is_gone, shared };
            let listener: Box<dyn StreamListener> = Box::new(SimListener { at, number, network });
            Ok(listener)
        })
    }
}

struct SimListener {
    at: Address,
    number: u64,
    network: SimNetwork,
}

impl StreamListener for SimListener {
    fn address(&self) -> io::Result<SocketAddr> {
        Ok(socket_address(self.at))
    }

    fn accept(&mut self) -> StreamFuture<'_, Stream> {
        Box::pin(poll_fn(|cx| {
            let accepted = self.network.shared.streams().accepted(self.at, self.number, cx.waker());
            match accepted {
                Some((stream, from)) => Poll::Ready(Ok(self.network.opened(stream, 1, self.at, from))),
                None => Poll::Pending,
            }
        }))
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        self.network.shared.streams().forget_listener(self.at, self.number);
    }
}

/// Half of a stream's end.
struct Half {
    stream: u64,
    end: usize,
    power_is_gone: Option<PowerIsGone>,
    shared: Arc<Shared>,
}

impl AsyncRead for Half {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = self.shared.streams().read(self.stream, self.end, buf.remaining(), cx.waker());
        match read {
            None => Poll::Pending,
            Some(Err(error)) => Poll::Ready(Err(error)),
            Some(Ok(data)) => {
                buf.put_slice(&data);
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl AsyncWrite for Half {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if self.power_is_gone.as_ref().is_some_and(|is_gone| is_gone()) {
            return Poll::Ready(Ok(data.len()));
        }
        let conditions = self.shared.net().conditions;
        let conditions = (conditions.delay_ms, conditions.lost);
        let written = self.shared.streams().write(self.stream, self.end, data, conditions, cx.waker());
        written.map_or(Poll::Pending, Poll::Ready)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.streams().end(self.stream, self.end);
        Poll::Ready(Ok(()))
    }
}

impl StreamWriter for Half {
    fn set_forgets(&self, _: bool) {}
}

impl Drop for Half {
    fn drop(&mut self) {
        self.shared.streams().drop_half(self.stream, self.end);
    }
}
