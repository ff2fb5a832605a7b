//! Service addresses of data servers, under real clients with files of two copies: the address of one that
//! hangs, is cut off or dies moves to another, and its clients go on within seconds. A connection to a machine
//! that is silent would hold Linux up for minutes.

use std::time::Duration;

use rustix::process::Signal;
use tests::stalls::{self, Work};
use tests::{Client, Lab, MOUNT_POINT, Metaservers};

const DATA_SERVERS: usize = 4;
/// Size of the file that is written, in MiB.
const DATA_MIB: &str = "4";
/// Far above what a take-over needs on a busy machine, and far below the minutes without one.
const STALL_MAX: Duration = Duration::from_secs(30);

/// Fault of a data server's machine, and its end.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Hang,
    CutOff,
    Kill,
}

impl Fault {
    fn begin(self, cluster: &mut Metaservers, victim: usize) {
        match self {
            Fault::Hang => cluster.data_server(victim).send(Signal::STOP),
            Fault::CutOff => cluster.set_data_server_cut_off(victim, true),
            Fault::Kill => cluster.data_server(victim).kill(),
        }
    }

    fn end(self, cluster: &mut Metaservers, victim: usize) {
        match self {
            Fault::Hang => cluster.data_server(victim).send(Signal::CONT),
            Fault::CutOff => cluster.set_data_server_cut_off(victim, false),
            Fault::Kill => cluster.data_server(victim).start().expect("starts again"),
        }
    }
}

/// Number of faults of each kind: `HEOROT_KILLS`, or one.
fn faults_of_each_kind() -> usize {
    std::env::var("HEOROT_KILLS").map_or(1, |text| text.parse().expect("HEOROT_KILLS is a number"))
}

/// New files have two copies, without a setting: the data servers are on machines of their own.
#[test]
fn clients_of_a_data_server_that_hangs_is_cut_off_or_dies_go_on_within_seconds() {
    let lab = Lab::open();
    let mut cluster = Metaservers::with_data_addresses(&lab, 1, DATA_SERVERS);
    cluster.wait_until("new files have two copies", |cluster| {
        cluster.status(0)["chains"]["copies_of_new_files"] == 2
    });
    cluster.wait_until("all chains have all members", Metaservers::has_whole_chains);
    cluster.wait_until("each data server has its address", |cluster| {
        (0..DATA_SERVERS).all(|n| cluster.data_holder(cluster.data_service(n)) == Some(n))
    });
    let (pnfs, v3) = (lab.client("pnfs"), lab.client("v3"));
    cluster.mount(&pnfs, 0, "vers=4.2");
    cluster.mount(&v3, 0, "vers=3");
    let mut victims = (0..DATA_SERVERS).cycle();
    for fault in [Fault::Hang, Fault::CutOff, Fault::Kill] {
        let mut longest = Vec::new();
        for number in 0..faults_of_each_kind() {
            let victim = victims.next().expect("there is always another");
            longest.push(longest_during(fault, victim, &mut cluster, &pnfs, &v3, number));
        }
        longest.sort();
        let (median, max) = (longest[longest.len() / 2], longest[longest.len() - 1]);
        println!("{fault:?}, {} times: longest operation {max:.2?}, median {median:.2?}", longest.len());
        assert!(max < STALL_MAX, "{fault:?}: longest operation {max:?}");
    }
}

/// Has clients work while a data server has a fault and recovers. Returns the time of their longest operation.
fn longest_during(
    fault: Fault,
    victim: usize,
    cluster: &mut Metaservers,
    pnfs: &Client,
    v3: &Client,
    number: usize,
) -> Duration {
    let path = |name: &str| format!("{MOUNT_POINT}/{name}.{fault:?}.{number}");
    let mut works = [
        Work::begin(pnfs, "data", stalls::DATA, &[&path("pnfs"), DATA_MIB]),
        Work::begin(pnfs, "large", stalls::LARGE_FILES, &[&path("large.pnfs")]),
        Work::begin(v3, "data", stalls::DATA, &[&path("v3"), DATA_MIB]),
        Work::begin(v3, "large", stalls::LARGE_FILES, &[&path("large.v3")]),
    ];
    works.iter_mut().for_each(|work| work.does_more(1));
    fault.begin(cluster, victim);
    works.iter_mut().for_each(|work| work.does_more(2));
    cluster.wait_until("another has its address", |cluster| {
        cluster.data_holder(cluster.data_service(victim)).is_some_and(|holder| holder != victim)
    });
    fault.end(cluster, victim);
    cluster.wait_until("all chains have all members again", Metaservers::has_whole_chains);
    cluster.wait_until("its address is at home again", |cluster| {
        cluster.data_holder(cluster.data_service(victim)) == Some(victim)
    });
    let stalls = works.into_iter().flat_map(|work| work.end().1);
    stalls.map(|stall| stall.took).max().unwrap_or_default()
}

/// ```text
/// mds0 and ds1 on one machine, each with its service address; ds0 on another
/// ds1 hangs          ds0 holds its address, mds0 keeps its own
/// ds1 goes on        it has its address again
/// ds2 wants the address of ds1, and metaservers are to share it: refused
/// ```
#[test]
fn a_node_holds_the_addresses_of_both_its_servers_and_no_two_servers_have_the_same() {
    let lab = Lab::open();
    let mut cluster = Metaservers::with_data_addresses(&lab, 1, 1);
    let (of_metaservers, own) = (cluster.service(0), cluster.data_service(7));
    let beside = cluster.add_data_server(&lab, Some(0), own);
    let holds_both =
        |cluster: &Metaservers| cluster.holder(own) == Some(0) && cluster.holder(of_metaservers) == Some(0);
    cluster.wait_until("the node holds both", holds_both);

    cluster.data_server(beside).send(Signal::STOP);
    cluster.wait_until("the other data server holds its address", |cluster| {
        cluster.data_holder(own) == Some(0) && cluster.holder(own).is_none()
    });
    assert_eq!(cluster.holder(of_metaservers), Some(0), "the metaserver does not hang");
    // It is known as held with the next beat.
    cluster.wait_until("the list of nodes says so", |cluster| {
        let nodes = cluster.heorot(0, &["node", "list", "--json"]);
        let nodes: serde_json::Value = serde_json::from_str(&nodes).expect("it is JSON");
        let of_ds0 = nodes.as_array().and_then(|all| all.iter().find(|node| node["name"] == "ds0"));
        of_ds0.is_some_and(|node| node["service_addresses"].to_string().contains(&own.to_string()))
    });
    cluster.data_server(beside).send(Signal::CONT);
    cluster.wait_until("the node holds both again", holds_both);

    let same = cluster.add_data_server(&lab, None, own);
    cluster.wait_until("its log says why it is refused", |cluster| {
        cluster.data_server_log(same).contains("its `service_address` is another server's")
    });
    assert!(cluster.log(0).contains(&format!("{own} is the service address of ds{beside}")));
    assert!(holds_both(&cluster), "where it was");
    let why = cluster.refused(0, &["service-address", "add", &own.to_string()]);
    assert!(why.contains(&format!("is the service address of the data server ds{beside}")), "{why}");
}
