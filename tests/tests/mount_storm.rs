//! Many clients mount at once, as after a power cut: each creates a client id and a session at the
//! metaserver, reads the root, and creates a client id and a session at the data server. `make mount-storm`
//! prints the times for a chosen number of clients.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tests::{Metrics, Up, cpu_seconds};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use wire::nfs4::compound::{CompoundCall, CompoundReply};
use wire::nfs4::{ArgOp, ResOp, SessionId, create_session, exchange_id, getattr, reclaim_complete, sequence};
use wire::rpc::{AuthSys, CallHeader, Credential, FragmentHeader, ReplyHeader, frame};
use wire::xdr::{Decode, Decoder, Encode, Encoder};

/// Number of clients, enough to detect a wrong count.
const CLIENTS: usize = 200;

/// Connection of a client to one server.
struct Connection {
    stream: TcpStream,
    xid: u32,
}

impl Connection {
    /// Opens a connection from an address of the client's own.
    async fn open(client: usize, to: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        let [.., high, low] = (client as u32).to_be_bytes();
        socket.bind((Ipv4Addr::new(127, 9, high, low), 0).into()).unwrap();
        Self { stream: socket.connect(to).await.unwrap(), xid: 0 }
    }

    async fn compound(&mut self, ops: Vec<ArgOp>) -> Vec<ResOp> {
        self.xid += 1;
        let (xid, credential) = (self.xid, Credential::Sys(AuthSys::default()));
        let mut e = Encoder::new();
        CallHeader { xid, program: 100_003, version: 4, procedure: 1, credential }.encode(&mut e);
        CompoundCall::new(2, ops).encode(&mut e);
        self.stream.write_all(&frame(e.finish()).concat()).await.unwrap();
        let mut header = [0; 4];
        self.stream.read_exact(&mut header).await.unwrap();
        let mut record = vec![0; FragmentHeader::from_bytes(header).len as usize];
        self.stream.read_exact(&mut record).await.unwrap();
        let mut d = Decoder::new(record.into());
        ReplyHeader::decode(&mut d).unwrap().outcome.unwrap();
        CompoundReply::decode(&mut d).unwrap().ops
    }

    /// Sends EXCHANGE_ID and CREATE_SESSION.
    async fn session(&mut self, client: usize) -> SessionId {
        let ownerid = Bytes::from(format!("Linux NFSv4.2 node{client}")).into();
        let exchange_id = ArgOp::ExchangeId(exchange_id::Args {
            clientowner: exchange_id::ClientOwner { verifier: (client as u64).to_be_bytes(), ownerid },
            flags: 0,
            state_protect: exchange_id::StateProtectArgs::None,
            client_impl_id: None,
        });
        let known = match self.compound(vec![exchange_id]).await.remove(0) {
            ResOp::ExchangeId(Ok(known)) => known,
            other => panic!("client {client}: {other:?}"),
        };
        let attrs = create_session::ChannelAttrs {
            max_request_size: 1 << 20,
            max_response_size: 1 << 20,
            max_response_size_cached: 7584,
            max_operations: 8,
            max_requests: 64,
            ..create_session::ChannelAttrs::default()
        };
        let create_session = ArgOp::CreateSession(create_session::Args {
            clientid: known.clientid,
            sequence: known.sequenceid,
            flags: 0,
            fore_chan_attrs: attrs,
            back_chan_attrs: attrs,
            cb_program: 0x4000_0000,
            sec_parms: vec![],
        });
        match self.compound(vec![create_session]).await.remove(0) {
            ResOp::CreateSession(Ok(made)) => made.sessionid,
            other => panic!("client {client}: {other:?}"),
        }
    }
}

/// Waiting times of one client.
struct Mounted {
    sessions: [SessionId; 2],
    metaserver: Duration,
    data_server: Duration,
    /// Connections, which stay open like those of a mount.
    _connections: [Connection; 2],
}

async fn mount(client: usize, [metaserver, data]: [SocketAddr; 2], all: Arc<Barrier>) -> Mounted {
    all.wait().await;
    let began = Instant::now();
    let mut mds = Connection::open(client, metaserver).await;
    let session = mds.session(client).await;
    let in_session = |sequenceid| {
        ArgOp::Sequence(sequence::Args {
            sessionid: session,
            sequenceid,
            slotid: 0,
            highest_slotid: 0,
            cachethis: false,
        })
    };
    let reclaim = ArgOp::ReclaimComplete(reclaim_complete::Args { one_fs: false });
    let getattr = ArgOp::GetAttr(getattr::Args { attr_request: [1, 3, 4].into_iter().collect() });
    for (sequence, ops) in [(1, vec![reclaim]), (2, vec![ArgOp::PutRootFh, getattr])] {
        let done = mds.compound([vec![in_session(sequence)], ops].concat()).await;
        assert!(done.iter().all(|res| res.status() == wire::nfs4::Status::Ok), "client {client}: {done:?}");
    }
    let at_metaserver = began.elapsed();
    let began = Instant::now();
    let mut ds = Connection::open(client, data).await;
    let of_data_server = ds.session(client).await;
    Mounted {
        sessions: [session, of_data_server],
        metaserver: at_metaserver,
        data_server: began.elapsed(),
        _connections: [mds, ds],
    }
}

/// Median, 99th percentile, and maximum.
fn quantiles(mut all: Vec<Duration>) -> String {
    all.sort_unstable();
    let at = |percent: usize| all[(all.len() * percent / 100).min(all.len() - 1)];
    format!("p50 {:.0?}, p99 {:.0?}, longest {:.0?}", at(50), at(99), at(100))
}

#[test]
fn every_one_of_many_clients_that_mount_at_once_gets_its_sessions() {
    let clients =
        std::env::var("HEOROT_STORM_CLIENTS").map_or(CLIENTS, |text| text.parse().expect("a number"));
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let up = Up::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cpu = cpu_seconds(up.pid());
    let began = Instant::now();
    let mounted = runtime.block_on(async {
        let all = Arc::new(Barrier::new(clients));
        let mut mounts = JoinSet::new();
        (0..clients)
            .for_each(|client| drop(mounts.spawn(mount(client, [up.nfs, up.data], Arc::clone(&all)))));
        mounts.join_all().await
    });
    println!(
        "{clients} clients have mounted after {:.2?}: {:.2} s of the server's CPU, {} MiB of its memory at most\n  \
         at the metaserver: {}\n  at the data server: {}",
        began.elapsed(),
        cpu_seconds(up.pid()) - cpu,
        up.most_memory() >> 20,
        quantiles(mounted.iter().map(|m| m.metaserver).collect()),
        quantiles(mounted.iter().map(|m| m.data_server).collect()),
    );
    for server in [0, 1] {
        let sessions: std::collections::HashSet<_> = mounted.iter().map(|m| m.sessions[server]).collect();
        assert_eq!(sessions.len(), clients, "each has a session of its own");
    }
    let metrics = Metrics::read(up.admin);
    assert_eq!(
        [metrics.sum("heorot_clients", &[]), metrics.sum("heorot_sessions", &[])],
        [clients as f64; 2]
    );
    assert_eq!(metrics.sum("heorot_refused_clients_total", &[]), 0.0);
}
