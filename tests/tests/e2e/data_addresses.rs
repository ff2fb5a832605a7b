//! Service addresses of data servers, under real clients with files of two copies: the address of one that
//! hangs, is cut off or dies moves to another, and its clients go on within seconds. A connection to a machine
//! that is silent would hold Linux up for minutes.

use std::time::Duration;

use rustix::process::Signal;
use tests::stalls::{self, Work};
use tests::{Lab, MOUNT_POINT, Metaservers};

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

fn are_whole(cluster: &Metaservers) -> bool {
    let chains = &cluster.status(0)["chains"];
    chains["count"].as_u64() > Some(0)
        && ["refilling", "incomplete", "waiting"].iter().all(|state| chains[*state] == 0)
}

#[test]
fn clients_of_a_data_server_that_hangs_is_cut_off_or_dies_go_on_within_seconds() {
    let lab = Lab::open();
    let mut cluster = Metaservers::with_data_addresses(&lab, 1, DATA_SERVERS);
    cluster.heorot(0, &["stripe", "set", "/", "--copies", "2"]);
    cluster.wait_until("all chains have all members", are_whole);
    cluster.wait_until("each data server has its address", |cluster| {
        (0..DATA_SERVERS).all(|n| cluster.data_holder(cluster.data_service(n)) == Some(n))
    });
    let (pnfs, v3) = (lab.client("pnfs"), lab.client("v3"));
    cluster.mount(&pnfs, 0, "vers=4.2");
    cluster.mount(&v3, 0, "vers=3");
    let mut longest = Duration::ZERO;
    for (victim, fault) in [Fault::Hang, Fault::CutOff, Fault::Kill].into_iter().enumerate() {
        let path = |name: &str| format!("{MOUNT_POINT}/{name}.{victim}");
        let mut works = [
            Work::begin(&pnfs, "data", stalls::DATA, &[&path("pnfs"), DATA_MIB]),
            Work::begin(&pnfs, "large", stalls::LARGE_FILES, &[&path("large.pnfs")]),
            Work::begin(&v3, "data", stalls::DATA, &[&path("v3"), DATA_MIB]),
            Work::begin(&v3, "large", stalls::LARGE_FILES, &[&path("large.v3")]),
        ];
        works.iter_mut().for_each(|work| work.does_more(1));
        fault.begin(&mut cluster, victim);
        works.iter_mut().for_each(|work| work.does_more(2));
        cluster.wait_until("another has its address", |cluster| {
            cluster.data_holder(cluster.data_service(victim)).is_some_and(|holder| holder != victim)
        });
        fault.end(&mut cluster, victim);
        cluster.wait_until("all chains have all members again", are_whole);
        cluster.wait_until("its address is at home again", |cluster| {
            cluster.data_holder(cluster.data_service(victim)) == Some(victim)
        });
        for (work, version) in works.into_iter().zip(["4.2 data", "4.2 large", "3 data", "3 large"]) {
            let (said, stalls) = work.end();
            let took = stalls.iter().map(|stall| stall.took).max().unwrap_or_default();
            println!("{fault:?}, vers={version}, {} rounds: longest operation {took:.2?}", said.trim());
            longest = longest.max(took);
        }
    }
    assert!(longest < STALL_MAX, "longest operation {longest:?}");
}
