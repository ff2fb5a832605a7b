//! Memory bounds against clients that do not read or that send half records; other clients are served.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use nfs::{Answer, Call, Connection, Limits, Metrics, Program, Programs, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use wire::rpc::{CallHeader, Credential, FragmentHeader, Rejection, ReplyHeader, frame};
use wire::xdr::{Decode, Decoder, Encode, Encoder};

const NUMBER: u32 = 0x2000_0002;
const READ: u32 = 1;
const GATED: u32 = 2;
const MIB: usize = 1 << 20;
/// Time limit of a wait, long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Program that answers with the requested number of bytes, and counts those in memory.
struct Reader {
    live: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    gate: Semaphore,
}

struct Counted(Vec<u8>, Arc<AtomicUsize>);

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(self.0.len(), Ordering::SeqCst);
    }
}

impl Program for Reader {
    fn number(&self) -> u32 {
        NUMBER
    }

    fn versions(&self) -> RangeInclusive<u32> {
        1..=1
    }

    fn trusts(&self, _: &CallHeader, _: Decoder, _: &Connection) -> bool {
        true
    }

    fn call(self: Arc<Self>, mut call: Call) -> Answer {
        Box::pin(async move {
            let len = u32::decode(&mut call.arguments).map_err(|_| Rejection::GarbageArguments)? as usize;
            if call.header.procedure == GATED {
                self.gate.acquire().await.map_err(|_| Rejection::SystemError)?.forget();
            }
            call.room.take(len).await.map_err(|_| Rejection::SystemError)?;
            let live = self.live.fetch_add(len, Ordering::SeqCst) + len;
            self.most.fetch_max(live, Ordering::SeqCst);
            let data = Bytes::from_owner(Counted(vec![7; len], Arc::clone(&self.live)));
            let mut e = Encoder::new();
            e.payload(&data.into());
            Ok(e.finish())
        })
    }
}

struct Scene {
    server: Server,
    program: Arc<Reader>,
}

async fn scene(limits: Limits) -> Scene {
    let program = Arc::new(Reader { live: Arc::default(), most: Arc::default(), gate: Semaphore::new(0) });
    let programs = Programs::new(vec![Arc::clone(&program) as Arc<dyn Program>]);
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::start(address, programs, limits, Arc::<Metrics>::default()).await.unwrap();
    Scene { server, program }
}

impl Scene {
    /// Client with a small receive buffer.
    async fn connect(&self) -> TcpStream {
        self.connect_from([127, 0, 0, 1]).await
    }

    async fn connect_from(&self, address: [u8; 4]) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((address, 0).into()).unwrap();
        socket.set_recv_buffer_size(16 << 10).unwrap();
        socket.connect(self.server.address()).await.unwrap()
    }

    /// Waits until no payload is in memory.
    async fn nothing_is_held(&self) {
        let gone = async {
            while self.program.live.load(Ordering::SeqCst) > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, gone).await.expect("what clients held that do not read comes back");
    }
}

fn call(xid: u32, procedure: u32, len: usize) -> Vec<u8> {
    let mut e = Encoder::new();
    CallHeader { xid, program: NUMBER, version: 1, procedure, credential: Credential::None }.encode(&mut e);
    e.u32(len as u32);
    frame(e.finish()).concat()
}

/// Length of the next reply's payload; none when the connection ended first.
async fn payload(stream: &mut TcpStream) -> Option<usize> {
    let mut header = [0; 4];
    stream.read_exact(&mut header).await.ok()?;
    let mut record = vec![0; FragmentHeader::from_bytes(header).len as usize];
    stream.read_exact(&mut record).await.ok()?;
    let mut d = Decoder::new(record.into());
    assert_eq!(ReplyHeader::decode(&mut d).unwrap().outcome, Ok(()));
    Some(Bytes::decode(&mut d).unwrap().len())
}

async fn asks(stream: &mut TcpStream, len: usize) -> Option<usize> {
    stream.write_all(&call(1, READ, len)).await.ok()?;
    timeout(PATIENCE, payload(stream)).await.expect("an answer, or an end")
}

/// Waits until the server has ended the connection. It checks by writes, since reads would let the replies
/// flow.
async fn cut(stream: &TcpStream) {
    let ended = async {
        while !stream.try_write(&call(0, READ, 0)).is_err_and(|e| e.kind() != ErrorKind::WouldBlock) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, ended).await.expect("the server ends the connection");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_do_not_read_hold_the_reply_budget_at_most_and_a_good_one_is_served() {
    let limits = Limits {
        connection_reply_bytes_max: 4 * MIB,
        // One address has a quarter of this.
        server_reply_bytes_max: 32 * MIB,
        pressed_time_max: Duration::from_millis(300),
        reply_time_max: Duration::from_secs(5),
        ..Limits::default()
    };
    let scene = scene(limits).await;
    let mut bad = Vec::new();
    for _ in 0..16 {
        let mut stream = scene.connect().await;
        for xid in 0..24 {
            stream.write_all(&call(xid, READ, MIB)).await.unwrap();
        }
        bad.push(stream);
    }
    let mut good = scene.connect().await;
    for _ in 0..3 {
        assert_eq!(asks(&mut good, MIB).await, Some(MIB));
    }
    for stream in &bad {
        cut(stream).await;
    }
    scene.nothing_is_held().await;
    let most = scene.program.most.load(Ordering::SeqCst);
    assert!((4 * MIB..=8 * MIB).contains(&most), "{most} bytes of payloads at one time");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_is_cut_after_the_reply_time_though_nobody_waits() {
    let limits = Limits { reply_time_max: Duration::from_millis(300), ..Limits::default() };
    let scene = scene(limits).await;
    let mut bad = scene.connect().await;
    for xid in 0..64 {
        if bad.write_all(&call(xid, READ, MIB)).await.is_err() {
            break;
        }
    }
    cut(&bad).await;
    scene.nothing_is_held().await;
    let most = scene.program.most.load(Ordering::SeqCst);
    assert!(most <= 32 * MIB, "{most} bytes for one connection");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_client_is_not_a_stuck_one() {
    let limits = Limits { reply_time_max: Duration::from_secs(5), ..Limits::default() };
    let scene = scene(limits).await;
    let mut slow = scene.connect().await;
    slow.write_all(&call(1, READ, 8 * MIB)).await.unwrap();
    let mut left = 4 + 24 + 4 + 8 * MIB;
    let mut piece = vec![0; 256 << 10];
    while left > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let n = slow.read(&mut piece).await.unwrap();
        assert!(n > 0, "cut with {left} bytes to go");
        left -= n;
    }
}

/// Beginning of a call of a megabyte, longer than the limit for untrusted callers, so that it takes room if
/// `trusted`.
fn half_call(trusted: bool) -> Vec<u8> {
    let announced = FragmentHeader { last: true, len: MIB as u32 }.to_bytes();
    let call = if trusted { call(1, READ, 100)[4..].to_vec() } else { vec![0; 40] };
    [&announced[..], &call, &[0; 20_000]].concat()
}

/// Sends a call of a megabyte that requests `len` bytes.
async fn asks_at_length(stream: &mut TcpStream, len: usize) -> Option<usize> {
    let call = call(1, READ, len)[4..].to_vec();
    let announced = FragmentHeader { last: true, len: MIB as u32 }.to_bytes();
    let rest = vec![0; MIB - call.len()];
    stream.write_all(&[&announced[..], &call, &rest].concat()).await.ok()?;
    timeout(PATIENCE, payload(stream)).await.expect("an answer, or an end")
}

#[tokio::test(flavor = "multi_thread")]
async fn half_records_hold_the_request_budget_only_until_somebody_waits_for_it() {
    let limits = Limits {
        server_bytes_max: 2 * MIB,
        connection_bytes_max: 2 * MIB,
        pressed_time_max: Duration::from_millis(300),
        ..Limits::default()
    };
    let scene = scene(limits).await;
    let mut bad = Vec::new();
    for _ in 0..8 {
        let mut stream = scene.connect().await;
        stream.write_all(&half_call(true)).await.unwrap();
        bad.push(stream);
    }
    let mut good = scene.connect().await;
    assert_eq!(asks_at_length(&mut good, 100).await, Some(100));
}

/// Without a time limit on half records: served clients do not wait for them.
#[tokio::test(flavor = "multi_thread")]
async fn half_records_hold_up_nobody_but_their_own_address() {
    let limits = Limits {
        server_bytes_max: 8 * MIB,
        pressed_time_max: Duration::from_secs(3600),
        record_time_max: Duration::from_secs(3600),
        ..Limits::default()
    };
    let scene = scene(limits).await;
    let mut half = Vec::new();
    for (address, trusted) in [([127, 0, 0, 1], false), ([127, 0, 0, 2], true)] {
        for _ in 0..40 {
            let mut stream = scene.connect_from(address).await;
            stream.write_all(&half_call(trusted)).await.unwrap();
            half.push(stream);
        }
    }
    let mut good = scene.connect().await;
    assert_eq!(asks_at_length(&mut good, 100).await, Some(100));
    assert_eq!(asks(&mut good, 100).await, Some(100));
    let mut beside = scene.connect_from([127, 0, 0, 2]).await;
    assert_eq!(asks(&mut beside, 100).await, Some(100), "short calls, from that address too");
    let mut byte = [0];
    for stream in &half {
        let outcome = stream.try_read(&mut byte).map_err(|e| e.kind());
        assert_eq!(outcome, Err(ErrorKind::WouldBlock), "none of them had to be ended for that");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_connection_takes_the_place_of_the_one_that_is_idle_for_longest() {
    let scene = scene(Limits { connections_max: 8, ..Limits::default() }).await;
    let mut busy = scene.connect().await;
    busy.write_all(&call(1, GATED, 10)).await.unwrap();
    let mut crowd = Vec::new();
    for _ in 0..100 {
        crowd.push(scene.connect().await);
    }
    let mut good = scene.connect().await;
    assert_eq!(asks(&mut good, 100).await, Some(100));
    assert_eq!(timeout(PATIENCE, payload(&mut crowd[0])).await.expect("an end"), None);
    scene.program.gate.add_permits(1);
    assert_eq!(timeout(PATIENCE, payload(&mut busy)).await.unwrap(), Some(10), "who works is not idle");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_calls_at_once_are_all_answered() {
    let scene = scene(Limits::default()).await;
    let mut stream = scene.connect().await;
    let calls: Vec<u8> = (0..1000).flat_map(|xid| call(xid, READ, 100)).collect();
    let (mut read, mut write) = stream.split();
    let send = async { write.write_all(&calls).await.unwrap() };
    let receive = async {
        let mut answers = vec![0; 1000 * (4 + 24 + 4 + 100)];
        read.read_exact(&mut answers).await.unwrap();
    };
    timeout(PATIENCE, async { tokio::join!(send, receive) }).await.expect("a thousand answers");
}
