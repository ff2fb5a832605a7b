//! Data servers serve NFS to the exported networks only, as the cluster map has them.

use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use wire::nfs4::compound::{CompoundCall, CompoundReply};
use wire::nfs4::{ArgOp, OwnerName, Status, exchange_id};
use wire::rpc::{CallHeader, Credential, FragmentHeader, ReplyHeader, frame};
use wire::xdr::{Decode, Decoder, Encode, Encoder};

use crate::servers::{Cluster, PORT, metric, until};

/// Where clients of this machine come from unless they say otherwise, and an address that nothing is exported to.
const CLIENT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

/// What EXCHANGE_ID at the data server is answered to a client of this address.
async fn exchange_id(server: Ipv4Addr, from: Ipv4Addr) -> Status {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let mut stream = socket.connect((IpAddr::from(server), PORT).into()).await.unwrap();
    let ownerid = Bytes::from(format!("a client at {from}")).into();
    let args = exchange_id::Args {
        clientowner: exchange_id::ClientOwner { verifier: [1; 8], ownerid },
        flags: exchange_id::USE_PNFS_DS,
        state_protect: exchange_id::StateProtectArgs::None,
        client_impl_id: None,
    };
    let ops = vec![ArgOp::ExchangeId(args)];
    let mut e = Encoder::new();
    CallHeader { xid: 1, program: 100_003, version: 4, procedure: 1, credential: Credential::None }
        .encode(&mut e);
    CompoundCall { tag: OwnerName::default(), minor_version: 1, ops }.encode(&mut e);
    stream.write_all(&frame(e.finish()).concat()).await.unwrap();
    let mut header = [0; 4];
    stream.read_exact(&mut header).await.unwrap();
    let mut record = vec![0; FragmentHeader::from_bytes(header).len as usize];
    stream.read_exact(&mut record).await.unwrap();
    let mut d = Decoder::new(record.into());
    ReplyHeader::decode(&mut d).unwrap().outcome.unwrap();
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
