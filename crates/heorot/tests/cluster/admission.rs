//! Admission at data servers: NFS only for the exported networks of the cluster map.

use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use wire::cluster;
use wire::handshake::{hello, prove};
use wire::nfs4::compound::{CompoundCall, CompoundReply};
use wire::nfs4::{ArgOp, OwnerName, Status, exchange_id};
use wire::rpc::{CallHeader, Credential, FragmentHeader, ReplyHeader, frame};
use wire::xdr::{Decode, Decoder, Encode, Encoder};

use crate::servers::{Cluster, PORT, metric, until};

/// Default address of clients of this machine, and an address without an export.
const CLIENT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

async fn connect(server: Ipv4Addr, from: Ipv4Addr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    socket.connect((IpAddr::from(server), PORT).into()).await.unwrap()
}

/// Calls a procedure; returns the decoder at its results.
async fn call(
    stream: &mut TcpStream,
    (program, version, procedure): (u32, u32, u32),
    arguments: &dyn Encode,
) -> Decoder {
    let mut e = Encoder::new();
    CallHeader { xid: 1, program, version, procedure, credential: Credential::None }.encode(&mut e);
    arguments.encode(&mut e);
    stream.write_all(&frame(e.finish()).concat()).await.unwrap();
    let mut header = [0; 4];
    stream.read_exact(&mut header).await.unwrap();
    let mut record = vec![0; FragmentHeader::from_bytes(header).len as usize];
    stream.read_exact(&mut record).await.unwrap();
    let mut d = Decoder::new(record.into());
    ReplyHeader::decode(&mut d).unwrap().outcome.unwrap();
    d
}

/// Status of EXCHANGE_ID at the data server for a client of this address.
async fn exchange_id(server: Ipv4Addr, from: Ipv4Addr) -> Status {
    let ownerid = Bytes::from(format!("a client at {from}")).into();
    let args = exchange_id::Args {
        clientowner: exchange_id::ClientOwner { verifier: [1; 8], ownerid },
        flags: exchange_id::USE_PNFS_DS,
        state_protect: exchange_id::StateProtectArgs::None,
        client_impl_id: None,
    };
    let ops = vec![ArgOp::ExchangeId(args)];
    let compound = CompoundCall { tag: OwnerName::default(), minor_version: 1, ops };
    let mut d = call(&mut connect(server, from).await, (100_003, 4, 1), &compound).await;
    CompoundReply::decode(&mut d).unwrap().ops[0].status()
}

/// ```text
/// exported to all              -> both are admitted
/// to 127.0.0.1 only            -> the other one is refused within seconds, logged once, counted
/// no metaserver, ds restarted  -> the same
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_exports_reaches_data_servers_and_outlives_their_restart() {
    let mut cluster = Cluster::start(1, 1);
    let ds = cluster.data_server_ips[0];
    assert_eq!([exchange_id(ds, CLIENT).await, exchange_id(ds, STRANGER).await], [Status::Ok; 2]);

    cluster.ask(0, &["export", "add", "/", "--network", &CLIENT.to_string()]).unwrap();
    cluster.ask(0, &["export", "remove", "/", "--network", "*"]).unwrap();
    let told = "admits clients of the exported networks networks=127.0.0.1\n";
    until("the data server is told", || cluster.data_servers[0].as_ref().unwrap().log().contains(told));
    assert_eq!(exchange_id(ds, CLIENT).await, Status::Ok);
    for _ in 0..3 {
        assert_eq!(exchange_id(ds, STRANGER).await, Status::Perm);
    }
    assert_eq!(metric(ds, "heorot_refused_clients_total"), 3.0);
    let log = cluster.data_servers[0].as_ref().unwrap().log();
    assert_eq!(log.matches("refused a client").count(), 2, "the first and the second: {log}");

    until("it is written down", || {
        std::fs::read_to_string(cluster.file("ds0").join("server.networks")).unwrap() == "127.0.0.1\n"
    });
    cluster.stop_metaserver(0);
    assert_eq!(cluster.data_servers[0].take().unwrap().stop().code(), Some(0));
    let _ = std::fs::remove_file(cluster.file("ds0.log"));
    let mut again = cluster.process("ds", "ds0");
    again.wait_for_log("ready");
    assert_eq!(exchange_id(ds, CLIENT).await, Status::Ok);
    assert_eq!(exchange_id(ds, STRANGER).await, Status::Perm);
    assert!(!again.log().contains("registered"));
}

/// An attacker who knows the cluster's id and tries secrets cannot fill the log: a line for the first wrong
/// proof, and for each doubling.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_proofs_are_logged_at_each_doubling_of_their_number() {
    let cluster = Cluster::start(1, 1);
    let status: serde_json::Value =
        serde_json::from_str(&cluster.ask(0, &["status", "--json"]).unwrap()).unwrap();
    let digits = status["cluster"].as_str().unwrap();
    let mut id = [0; 16];
    hex::decode_to_slice(digits, &mut id).unwrap();
    let (mds, ds) = (cluster.metaservers[0].0, cluster.data_server_ips[0]);
    for (server, (program, version)) in
        [(mds, (cluster::PROGRAM, cluster::VERSION)), (ds, (wire::data::PROGRAM, wire::data::VERSION))]
    {
        let mut stream = connect(server, STRANGER).await;
        for _ in 0..20 {
            let args = hello::Args { cluster: id, nonce: [1; 32] };
            let mut greeted = call(&mut stream, (program, version, hello::HELLO), &args).await;
            hello::Res::decode(&mut greeted).unwrap().unwrap();
            let args = prove::Args { proof: [2; 32] };
            let mut refused = call(&mut stream, (program, version, hello::PROVE), &args).await;
            assert_eq!(prove::Res::decode(&mut refused).unwrap(), Err(cluster::Status::NotProven));
        }
    }
    for log in
        [cluster.metaservers[0].1.as_ref().unwrap().log(), cluster.data_servers[0].as_ref().unwrap().log()]
    {
        assert_eq!(log.matches("wrong proof of the cluster's secret").count(), 5, "1, 2, 4, 8, 16: {log}");
    }
}
