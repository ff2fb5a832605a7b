//! RPC connection as RFC 5531 requires, over a real socket with hand-made bytes.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nfs::{Answer, Call, Connection, Limits, Metrics, Program, Programs, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use wire::rpc::{AuthStat, CallHeader, Credential, FragmentHeader, Rejection, ReplyHeader, frame};
use wire::xdr::{Decode, Decoder, Encode, Encoder, Message};

const NUMBER: u32 = 0x2000_0001;
const ECHO: u32 = 1;
const GATED: u32 = 2;

/// Program of version 3 or 4 that echoes a number, at once or when the gate opens.
struct Echo {
    version: u32,
    gate: Arc<Semaphore>,
}

impl Program for Echo {
    fn number(&self) -> u32 {
        NUMBER
    }

    fn versions(&self) -> RangeInclusive<u32> {
        self.version..=self.version
    }

    fn trusts(&self, _: &CallHeader, _: Decoder, _: &Connection) -> bool {
        true
    }

    fn call(self: Arc<Self>, mut call: Call) -> Answer {
        Box::pin(async move {
            let number = u32::decode(&mut call.arguments).map_err(|_| Rejection::GarbageArguments)?;
            match call.header.procedure {
                ECHO => {}
                GATED => self.gate.acquire().await.map_err(|_| Rejection::SystemError)?.forget(),
                _ => return Err(Rejection::ProcedureUnavailable),
            }
            let mut e = Encoder::new();
            e.u32(number);
            Ok(e.finish())
        })
    }
}

struct Scene {
    server: Server,
    gate: Arc<Semaphore>,
}

async fn scene(limits: Limits) -> Scene {
    let gate = Arc::new(Semaphore::new(0));
    let echo = |version| Arc::new(Echo { version, gate: Arc::clone(&gate) }) as Arc<dyn Program>;
    let programs = Programs::new(vec![echo(3), echo(4)]);
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::start(address, programs, limits, Arc::<Metrics>::default()).await.unwrap();
    Scene { server, gate }
}

struct Peer(TcpStream);

impl Peer {
    async fn connect(scene: &Scene) -> Self {
        Self(TcpStream::connect(scene.server.address()).await.unwrap())
    }

    async fn call(&mut self, xid: u32, program: u32, version: u32, procedure: u32, number: u32) {
        let header = CallHeader { xid, program, version, procedure, credential: Credential::None };
        let mut e = Encoder::new();
        header.encode(&mut e);
        e.u32(number);
        self.send(e.finish()).await;
    }

    async fn send(&mut self, message: Message) {
        for segment in frame(message) {
            self.0.write_all(&segment).await.unwrap();
        }
    }

    /// Reads the next reply; none when the server closed the connection.
    async fn reply(&mut self) -> Option<(ReplyHeader, Decoder)> {
        let mut header = [0; 4];
        self.0.read_exact(&mut header).await.ok()?;
        let header = FragmentHeader::from_bytes(header);
        assert!(header.last);
        let mut record = vec![0; header.len as usize];
        self.0.read_exact(&mut record).await.ok()?;
        let mut d = Decoder::new(Bytes::from(record));
        Some((ReplyHeader::decode(&mut d).unwrap(), d))
    }

    async fn echoed(&mut self) -> (u32, u32) {
        let (header, mut d) = self.reply().await.unwrap();
        assert_eq!(header.outcome, Ok(()));
        (header.xid, d.u32().unwrap())
    }

    async fn rejected(&mut self) -> Rejection {
        self.reply().await.unwrap().0.outcome.unwrap_err()
    }
}

#[tokio::test]
async fn calls_are_answered_as_they_finish_not_as_they_came() {
    let scene = scene(Limits::default()).await;
    let mut peer = Peer::connect(&scene).await;
    peer.call(1, NUMBER, 3, GATED, 10).await;
    peer.call(2, NUMBER, 4, ECHO, 20).await;
    peer.call(3, NUMBER, 3, ECHO, 30).await;
    let mut early = [peer.echoed().await, peer.echoed().await];
    early.sort_unstable();
    assert_eq!(early, [(2, 20), (3, 30)]);
    scene.gate.add_permits(1);
    assert_eq!(peer.echoed().await, (1, 10));
}

#[tokio::test]
async fn what_cannot_be_called_is_said_in_the_rfcs_words() {
    let scene = scene(Limits::default()).await;
    let mut peer = Peer::connect(&scene).await;
    peer.call(1, NUMBER + 1, 3, ECHO, 0).await;
    assert_eq!(peer.rejected().await, Rejection::ProgramUnavailable);
    peer.call(2, NUMBER, 5, ECHO, 0).await;
    assert_eq!(peer.rejected().await, Rejection::ProgramMismatch { low: 3, high: 4 });
    peer.call(3, NUMBER, 3, 99, 0).await;
    assert_eq!(peer.rejected().await, Rejection::ProcedureUnavailable);

    let mut short = Encoder::new();
    CallHeader { xid: 4, program: NUMBER, version: 3, procedure: ECHO, credential: Credential::None }
        .encode(&mut short);
    peer.send(short.finish()).await;
    assert_eq!(peer.rejected().await, Rejection::GarbageArguments);

    let mut other_rpc = Encoder::new();
    [5, 0, 3, NUMBER, 3, ECHO, 0, 0, 0, 0].iter().for_each(|word| other_rpc.u32(*word));
    peer.send(other_rpc.finish()).await;
    assert_eq!(peer.rejected().await, Rejection::RpcMismatch);

    let mut long_credential = Encoder::new();
    [6, 0, 2, NUMBER, 3, ECHO, 1, 401].iter().for_each(|word| long_credential.u32(*word));
    peer.send(long_credential.finish()).await;
    assert_eq!(peer.rejected().await, Rejection::Auth(AuthStat::BadCred));

    peer.call(7, NUMBER, 3, ECHO, 77).await;
    assert_eq!(peer.echoed().await, (7, 77), "the connection lived through all of it");
}

#[tokio::test]
async fn a_record_that_cannot_be_taken_ends_its_connection_and_no_other() {
    let scene = scene(Limits { record_time_max: Duration::from_millis(100), ..Limits::default() }).await;
    let two_gib = FragmentHeader { last: true, len: 0x7fff_ffff }.to_bytes();
    let half = [&FragmentHeader { last: true, len: 100 }.to_bytes()[..], &[0; 50]].concat();
    let not_a_call = [&FragmentHeader { last: true, len: 6 }.to_bytes()[..], &[0; 6]].concat();
    let mut good = Peer::connect(&scene).await;
    for bytes in [&two_gib[..], &half, &not_a_call] {
        let mut bad = Peer::connect(&scene).await;
        bad.0.write_all(bytes).await.unwrap();
        assert!(bad.reply().await.is_none(), "closed without a reply: {bytes:?}");
        good.call(1, NUMBER, 3, ECHO, 5).await;
        assert_eq!(good.echoed().await, (1, 5));
    }
}

#[tokio::test]
async fn a_connection_with_too_many_calls_is_not_read_until_one_is_answered() {
    let limits = Limits { connection_calls_max: 4, ..Limits::default() };
    let scene = scene(limits).await;
    let mut peer = Peer::connect(&scene).await;
    for xid in 1..=4 {
        peer.call(xid, NUMBER, 3, GATED, xid).await;
    }
    peer.call(5, NUMBER, 3, ECHO, 5).await;
    let early = tokio::time::timeout(Duration::from_millis(200), peer.reply()).await;
    assert!(early.is_err(), "the fifth call waits outside");
    let mut other = Peer::connect(&scene).await;
    other.call(1, NUMBER, 3, ECHO, 6).await;
    assert_eq!(other.echoed().await, (1, 6), "another client does not wait for it");
    scene.gate.add_permits(4);
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push(peer.echoed().await.0);
    }
    seen.sort_unstable();
    assert_eq!(seen, [1, 2, 3, 4, 5]);
}

/// Network whose first accepts fail, as when the process has no descriptor left.
struct Short(usize);

struct ShortListener(Box<dyn nfs::StreamListener>, usize);

impl nfs::StreamNetwork for Short {
    fn connect(&self, to: SocketAddr) -> nfs::StreamFuture<'_, nfs::Stream> {
        nfs::TcpNetwork.connect(to)
    }

    fn listen(&self, at: SocketAddr) -> nfs::StreamFuture<'_, Box<dyn nfs::StreamListener>> {
        Box::pin(async move {
            let listener = nfs::TcpNetwork.listen(at).await?;
            Ok(Box::new(ShortListener(listener, self.0)) as Box<dyn nfs::StreamListener>)
        })
    }
}

impl nfs::StreamListener for ShortListener {
    fn address(&self) -> std::io::Result<SocketAddr> {
        self.0.address()
    }

    fn accept(&mut self) -> nfs::StreamFuture<'_, nfs::Stream> {
        match self.1.checked_sub(1) {
            Some(left) => {
                self.1 = left;
                Box::pin(async { Err(std::io::Error::from_raw_os_error(24)) }) // EMFILE
            }
            None => self.0.accept(),
        }
    }
}

#[tokio::test]
async fn a_server_without_descriptors_accepts_when_it_has_some_again() {
    let any = ([127, 0, 0, 1], 0).into();
    let programs = Programs::default();
    let server = Server::start_on(&Short(3), any, programs, Limits::default(), Arc::<Metrics>::default())
        .await
        .unwrap();
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    // A call of a program that it does not have: what counts is that there is an answer.
    let mut call = Encoder::new();
    for word in [7_u32, 0, 2, 99, 1, 0, 0, 0, 0, 0] {
        call.u32(word);
    }
    let call = call.finish().into_bytes();
    stream.write_all(&(call.len() as u32 | 1 << 31).to_be_bytes()).await.unwrap();
    stream.write_all(&call).await.unwrap();
    let mut answer = [0; 8];
    tokio::time::timeout(Duration::from_secs(30), stream.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(answer[4..], 7_u32.to_be_bytes());
}
