//! Rolling restart: each of three metaservers is stopped and restarted, including the leader and holders of
//! service addresses, while real Linux clients work. No operation fails, and the longest stall is printed.
//! `HEOROT_RESTARTS` is the number of restarts.

use std::time::{Duration, Instant};

use tests::stalls::{self, Stall, Work, clock};
use tests::{Client, Lab, Metaservers};

/// Number of restarts: each metaserver once; the first of them leads.
const RESTARTS: usize = METASERVERS;
const METASERVERS: usize = 3;
/// Number of service addresses: each metaserver holds one, loses it, and gets one back.
const SERVICES: usize = 3;
/// Size of pNFS data.
const DATA_MIB: &str = "4";
/// Limit of a stall, for a busy machine; without a transfer of leadership and addresses a client would wait
/// longer if its metaserver's process ends before the address has moved.
const STALL_MAX: Duration = Duration::from_secs(5);
const WORTH_TELLING: Duration = Duration::from_millis(300);

/// Restart of one metaserver.
struct Restart {
    metaserver: usize,
    /// Begin by the client's clock.
    began: f64,
    led: bool,
    held: usize,
    took: Duration,
}

impl Restart {
    fn new(cluster: &mut Metaservers, metaserver: usize, client: &Client) -> Self {
        let led = cluster.leader() == Some(metaserver);
        let held = (0..SERVICES).filter(|n| cluster.holder(cluster.service(*n)) == Some(metaserver)).count();
        let began = clock(client);
        let asked = Instant::now();
        cluster.stop(metaserver);
        let took = asked.elapsed();
        cluster.start_again(metaserver);
        Self { metaserver, began, led, held, took }
    }

    fn tell(&self, stalls: &[Stall], end: f64) {
        let meanwhile: Vec<&Stall> = stalls
            .iter()
            .filter(|stall| stall.began + stall.took.as_secs_f64() > self.began && stall.began < end)
            .collect();
        let longest = meanwhile.iter().map(|stall| stall.took).max().unwrap_or_default();
        println!(
            "mds{}{}, with {} addresses: stopped in {:.2} s; the longest operation took {:.2} s",
            self.metaserver,
            if self.led { ", the leader" } else { "" },
            self.held,
            self.took.as_secs_f64(),
            longest.as_secs_f64()
        );
        for stall in meanwhile.iter().filter(|stall| stall.took > WORTH_TELLING) {
            println!("    {stall}, begun {:.2} s after SIGTERM", stall.began - self.began);
        }
    }
}

#[test]
fn each_metaserver_is_restarted_in_turn_and_no_operation_of_a_client_fails() {
    let lab = Lab::open();
    let mut cluster = Metaservers::start(&lab, METASERVERS, 2, SERVICES as u8);
    let (ash, elm) = (lab.client("ash"), lab.client("elm"));
    cluster.mount(&ash, 0, "vers=4.2");
    cluster.mount(&elm, 1, "vers=4.2");
    let mut works = [
        Work::begin(&ash, "everything", stalls::EVERYTHING, &["/mnt/h/everything"]),
        Work::begin(&ash, "renames", stalls::RENAMES, &["/mnt/h/renames"]),
        Work::begin(&elm, "data", stalls::DATA, &["/mnt/h/data", DATA_MIB]),
        Work::begin(&elm, "counts", stalls::COUNTS, &["/mnt/h/count"]),
    ];
    let restarts = std::env::var("HEOROT_RESTARTS").map_or(RESTARTS, |text| text.parse().expect("a number"));
    let mut done = vec![];
    for restart in 0..restarts {
        works[0].does_more(2);
        done.push(Restart::new(&mut cluster, restart % METASERVERS, &ash));
    }
    works.iter_mut().for_each(|work| work.does_more(1));
    let end = clock(&ash);
    let stalls: Vec<Stall> = works.into_iter().flat_map(|work| work.end().1).collect();
    for (restart, next) in done.iter().zip(done.iter().skip(1).map(|next| next.began).chain([end])) {
        restart.tell(&stalls, next);
    }
    let longest = stalls.iter().max_by_key(|stall| stall.took);
    println!(
        "{restarts} restarts; the longest operation: {}",
        longest.map_or("-".into(), ToString::to_string)
    );
    assert!(longest.is_none_or(|stall| stall.took < STALL_MAX), "{longest:?}");
}
