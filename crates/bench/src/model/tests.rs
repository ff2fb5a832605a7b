//! Cases of the paper, cases computed by hand, and properties of every setup.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::advice::{Change, apply, to_double};
use super::*;
use crate::phase::Phase;
use crate::result::{Cache, Unit};
use crate::task::{Direction, Order, Records, Task, Transfer};

const MB: f64 = 1e6;
const GB: u64 = 1_000_000_000;

fn rate(text: &str) -> Option<Rate> {
    Some(text.parse().unwrap())
}

fn hardware(data_servers: u64) -> Hardware {
    Hardware {
        data_servers,
        disks: Disks::PerServer(1),
        client_link: rate("100Mbit/s"),
        server_link: rate("100Mbit/s"),
        disk: rate("50MB/s"),
        client_cpu: None,
        uplink: None,
        switch: None,
        replication: 1,
        stripe_width: None,
    }
}

fn reads(clients: u64) -> Load {
    Load { clients, direction: Direction::Read, files: Files::PerClient(1) }
}

fn writes(clients: u64) -> Load {
    Load { direction: Direction::Write, ..reads(clients) }
}

fn solve(hardware: Hardware, load: Load) -> Solution {
    Solution::of(&Setup::new(hardware, load).unwrap())
}

/// S in MB/s, to the tenth, and the binding resource.
fn answer(hardware: Hardware, load: Load) -> (f64, Resource) {
    let solution = solve(hardware, load);
    ((solution.rate() / MB * 10.0).round() / 10.0, solution.binds())
}

#[test]
fn one_client_and_one_server_are_as_fast_as_the_narrower_of_link_and_disk() {
    let slow_disk = Hardware { disk: rate("5MB/s"), ..hardware(1) };
    for load in [reads(1), writes(1)] {
        assert_eq!(answer(hardware(1), load), (12.5, Resource::ClientLinks));
        assert_eq!(answer(slow_disk, load), (5.0, Resource::Disks));
    }
    let solution = solve(slow_disk, reads(1));
    assert!((solution.seconds(GB) - 200.0).abs() < 1e-9);
}

#[test]
fn many_clients_of_one_server_are_as_fast_as_the_narrower_of_its_link_and_its_disk() {
    assert_eq!(answer(hardware(1), reads(19)), (12.5, Resource::ServerLinks));
    assert_eq!(answer(Hardware { disk: rate("5MB/s"), ..hardware(1) }, reads(19)), (5.0, Resource::Disks));
}

#[test]
fn one_client_of_many_servers_is_as_fast_as_its_link_or_all_disks() {
    assert_eq!(answer(hardware(8), reads(1)), (12.5, Resource::ClientLinks));
    // Eight disks of 1 MB/s: striping makes them one of 8 MB/s.
    assert_eq!(answer(Hardware { disk: rate("1MB/s"), ..hardware(8) }, reads(1)), (8.0, Resource::Disks));
}

#[test]
fn many_clients_of_many_servers_are_as_fast_as_the_fewer_links_or_all_disks() {
    assert_eq!(answer(hardware(12), reads(21)), (150.0, Resource::ServerLinks));
    assert_eq!(answer(hardware(21), reads(12)), (150.0, Resource::ClientLinks));
    assert_eq!(
        answer(Hardware { disk: rate("10MB/s"), ..hardware(12) }, reads(21)),
        (120.0, Resource::Disks)
    );
}

#[test]
fn copies_count_on_server_links_and_disks_of_writes_and_not_of_reads() {
    // 12 links of 12.5 MB/s carry 150 MB/s; each byte arrives at three servers: 50 MB/s are new.
    let three = Hardware { replication: 3, ..hardware(12) };
    assert_eq!(answer(three, writes(21)), (50.0, Resource::ServerLinks));
    assert_eq!(answer(three, reads(21)), (150.0, Resource::ServerLinks));
    // 12 disks of 10 MB/s write 120 MB/s, a third of it new.
    let slow_disks = Hardware { disk: rate("10MB/s"), ..three };
    assert_eq!(answer(slow_disks, writes(21)), (40.0, Resource::Disks));
    // One client's link is full before its copies fill the servers': 12 · 12.5 / 3 = 50 > 12.5.
    assert_eq!(answer(three, writes(1)), (12.5, Resource::ClientLinks));
}

#[test]
fn a_file_keeps_no_more_servers_busy_than_it_is_striped_over_for_each_copy_in_use() {
    let narrow = Hardware { stripe_width: Some(2), ..hardware(12) };
    let shared = |clients, direction| Load { clients, direction, files: Files::Shared(1) };
    // One file over two servers: two links, however many clients.
    assert_eq!(answer(narrow, shared(21, Direction::Read)), (25.0, Resource::ServerLinks));
    // Kept three times: 21 readers use all copies, two readers two, on four servers; 2 · 12.5 fills their own
    // links.
    let three = Hardware { replication: 3, ..narrow };
    assert_eq!(answer(three, shared(21, Direction::Read)), (75.0, Resource::ServerLinks));
    assert_eq!(answer(three, shared(2, Direction::Read)), (25.0, Resource::ClientLinks));
    // Writes go to six servers, three times.
    assert_eq!(answer(three, shared(21, Direction::Write)), (25.0, Resource::ServerLinks));
    // Files of their own: four clients keep eight servers busy, six all twelve.
    let disks = Hardware { disk: rate("5MB/s"), ..narrow };
    assert_eq!(answer(disks, reads(4)), (40.0, Resource::Disks));
    assert_eq!(answer(disks, reads(6)), (60.0, Resource::Disks));
    assert_eq!(answer(disks, reads(7)), (60.0, Resource::Disks));
    // One client with four files keeps as many servers busy as four clients with one, up to the speed of its
    // link.
    let one = Load { files: Files::PerClient(4), ..reads(1) };
    assert_eq!(solve(disks, one).terms[2].at_work, 8);
}

#[test]
fn only_disks_of_servers_that_work_work_and_servers_may_share_disks() {
    let at_work = |servers, disks, width| {
        let hardware = Hardware { disks, stripe_width: Some(width), ..hardware(servers) };
        let shared = Load { files: Files::Shared(1), ..reads(21) };
        let setup = Setup::new(hardware, shared).unwrap();
        (setup.disks_at_work(), setup.disks())
    };
    assert_eq!(at_work(12, Disks::PerServer(2), 3), (6, 24));
    assert_eq!(at_work(12, Disks::InAll(24), 3), (6, 24));
    assert_eq!(at_work(12, Disks::InAll(13), 3), (6, 13));
    assert_eq!(at_work(12, Disks::InAll(1), 3), (1, 1));
    assert_eq!(at_work(12, Disks::InAll(4), 12), (4, 4));
}

#[test]
fn an_uplink_carries_each_byte_once_and_a_switch_each_copy() {
    let bare = Hardware { replication: 2, disk: None, client_link: None, server_link: None, ..hardware(4) };
    let uplink = Hardware { uplink: rate("1Gbit/s"), ..bare };
    assert_eq!(answer(uplink, writes(4)), (125.0, Resource::Uplink));
    let switch = Hardware { switch: rate("1Gbit/s"), ..bare };
    assert_eq!(answer(switch, writes(4)), (62.5, Resource::Switch));
    assert_eq!(answer(switch, reads(4)), (125.0, Resource::Switch));
}

#[test]
fn clients_that_compute_for_each_byte_bind_until_there_are_more() {
    // 2 ns for each byte: 500 MB/s at each client.
    let busy = Hardware {
        client_cpu: Some("2ns/B".parse().unwrap()),
        client_link: rate("10Gbit/s"),
        server_link: rate("10Gbit/s"),
        disk: None,
        ..hardware(4)
    };
    assert_eq!(answer(busy, reads(2)), (1000.0, Resource::ClientCpu));
    assert_eq!(answer(busy, reads(11)), (5000.0, Resource::ServerLinks));
}

#[test]
fn setups_that_make_no_sense_are_refused_in_one_line_that_says_why() {
    let base = hardware(4);
    let cases = [
        (Hardware { disks: Disks::InAll(0), ..base }, reads(1), "the number of disks must be at least 1"),
        (Hardware { data_servers: 0, ..base }, reads(1), "the number of data servers must be at least 1"),
        (base, reads(0), "the number of clients must be at least 1"),
        (base, Load { files: Files::Shared(0), ..reads(1) }, "the number of files must be at least 1"),
        (Hardware { replication: 0, ..base }, reads(1), "replication must be at least 1"),
        (Hardware { replication: 5, ..base }, reads(1), "replication 5 needs 5 data servers, not 4"),
        (Hardware { stripe_width: Some(5), ..base }, reads(1), "stripe width 5 needs 5 data servers, not 4"),
        (Hardware { stripe_width: Some(0), ..base }, reads(1), "the stripe width must be at least 1"),
        (base, reads(u64::MAX), "the number of clients can be 1000000000 at most, not 18446744073709551615"),
        (
            Hardware { client_link: None, server_link: None, disk: None, ..base },
            reads(1),
            "nothing limits the throughput: give at least one speed, such as that of the links",
        ),
    ];
    for (hardware, load, line) in cases {
        assert_eq!(Setup::new(hardware, load).unwrap_err().to_string(), line);
    }
}

#[test]
fn doubling_says_all_that_is_needed() {
    // 12 server links bind at 150 MB/s; 21 client links would at 262.5, which is less than 300.
    let needs = to_double(&Setup::new(hardware(12), reads(21)).unwrap());
    let names: Vec<_> = needs.iter().map(|need| need.resource).collect();
    assert_eq!(names, [Resource::ClientLinks, Resource::ServerLinks]);
    assert_eq!(needs[0].ways[0], [Change::Clients(24)]);
    assert_eq!(needs[0].ways[1], [Change::ClientLink(Rate::new(300.0 * MB / 21.0).unwrap())]);
    assert_eq!(needs[1].ways[0], [Change::DataServers(24)]);
    assert_eq!(needs[1].ways[1], [Change::ServerLink(rate("200Mbit/s").unwrap())]);
    assert!((needs[0].factor - 300.0 / 262.5).abs() < 1e-9);
}

#[test]
fn doubling_widens_stripes_before_it_buys_servers() {
    let narrow = Hardware { stripe_width: Some(2), disk: None, ..hardware(12) };
    let shared = Load { files: Files::Shared(1), ..reads(21) };
    let needs = to_double(&Setup::new(narrow, shared).unwrap());
    assert_eq!(needs.len(), 1);
    assert_eq!(needs[0].ways[0], [Change::StripeWidth(4)]);
    let own = to_double(&Setup::new(Hardware { stripe_width: Some(1), ..narrow }, reads(2)).unwrap());
    assert_eq!(own[1].ways[..2], [vec![Change::StripeWidth(2)], vec![Change::Clients(4)]]);
}

#[test]
fn a_phase_has_the_bound_of_the_machines_that_work_and_the_files_they_work_on() {
    let transfer = |path: &str, direction| {
        let records = Records::run(0, 1 << 20, 1 << 20);
        Task::Transfer(Transfer { path: path.into(), direction, records, order: Order::Forward, seed: 1 })
    };
    let read = |path| transfer(path, Direction::Read);
    let phase = |tasks, cache| Phase {
        name: "read".into(),
        at: BTreeMap::new(),
        tasks,
        unit: Unit::Bytes,
        cache,
        verify: false,
        limit: None,
        counts: true,
    };
    let narrow = Hardware { stripe_width: Some(1), disk: None, ..hardware(12) };
    let of = |tasks, cache| bound(&narrow, &phase(tasks, cache)).map(|b| (b.rate / MB, b.binds));
    // Two machines, two processes on the first, an idle third one; three files.
    let separate = vec![vec![read("a"), read("b")], vec![read("c")], vec![Task::Rest]];
    assert_eq!(of(separate.clone(), Cache::NotHere), Some((25.0, "client-links".into())));
    assert_eq!(of(separate, Cache::Warm), None);
    // One file: its one server binds.
    let shared = vec![vec![read("a"), read("a")], vec![read("a")]];
    assert_eq!(of(shared, Cache::Direct), Some((12.5, "server-links".into())));
    let both_ways = vec![vec![read("a"), transfer("a", Direction::Write)]];
    assert_eq!(of(both_ways, Cache::Direct), None);
    assert_eq!(of(vec![vec![Task::Rest]], Cache::Direct), None);
}

fn setups() -> impl Strategy<Value = Setup> {
    let count = || prop_oneof![1_u64..6, 1_u64..60];
    let speed = || prop::option::of((1e5..1e10).prop_map(|r| Rate::new(r).unwrap()));
    let files = prop_oneof![(1_u64..5).prop_map(Files::PerClient), (1_u64..30).prop_map(Files::Shared)];
    let disks = prop_oneof![(1_u64..9).prop_map(Disks::PerServer), (1_u64..90).prop_map(Disks::InAll)];
    let direction = prop_oneof![Just(Direction::Read), Just(Direction::Write)];
    let load = (count(), direction, files).prop_map(|(clients, direction, files)| Load {
        clients,
        direction,
        files,
    });
    let speeds = (speed(), speed(), speed(), speed(), speed());
    let cpu = prop::option::of((1e-11..1e-7).prop_map(|c| CpuCost::new(c).unwrap()));
    let shape =
        (count(), disks, any::<prop::sample::Index>(), prop::option::of(any::<prop::sample::Index>()));
    (load, speeds, cpu, shape).prop_filter_map("nothing limits it", |(load, speeds, client_cpu, shape)| {
        let (client_link, server_link, disk, uplink, switch) = speeds;
        let (data_servers, disks, replication, width) = shape;
        let upto = |index: prop::sample::Index| index.index(data_servers as usize) as u64 + 1;
        let (replication, stripe_width) = (upto(replication), width.map(upto));
        let hardware = Hardware {
            data_servers,
            disks,
            client_link,
            server_link,
            disk,
            client_cpu,
            uplink,
            switch,
            replication,
            stripe_width,
        };
        Setup::new(hardware, load).ok()
    })
}

fn with(setup: &Setup, changes: &[Change]) -> Solution {
    let (hardware, load) = apply(setup, changes);
    Solution::of(&Setup::new(hardware, load).unwrap())
}

proptest! {
    #[test]
    fn s_is_the_least_of_the_terms_and_the_one_that_binds(setup in setups()) {
        let solution = Solution::of(&setup);
        let least = solution.terms.iter().map(|term| term.rate).min_by(f64::total_cmp).unwrap();
        prop_assert_eq!(solution.rate(), least);
        prop_assert!(least.is_finite() && least > 0.0);
        let binds = solution.terms.iter().find(|term| term.resource == solution.binds()).unwrap();
        prop_assert!(binds.rate <= least * (1.0 + 1e-8));
        for term in &solution.terms {
            prop_assert!(term.at_work <= term.of && term.at_work >= 1, "{:?}", term);
        }
    }

    #[test]
    fn s_never_falls_when_anything_is_added(setup in setups(), more in 1_u64..50, faster in 1.0..10.0) {
        let hardware = *setup.hardware();
        let up = |rate: Rate| Rate::new(rate.bytes_per_second() * faster).unwrap();
        let mut additions = vec![
            vec![Change::Clients(setup.load().clients + more)],
            vec![Change::DataServers(hardware.data_servers + more)],
            vec![Change::StripeWidth((setup.stripe_width() + more).min(hardware.data_servers))],
            vec![Change::Disks(match hardware.disks {
                Disks::InAll(disks) => Disks::InAll(disks + more),
                Disks::PerServer(disks) => Disks::PerServer(disks + more),
            })],
        ];
        additions.extend(hardware.client_link.map(|rate| vec![Change::ClientLink(up(rate))]));
        additions.extend(hardware.server_link.map(|rate| vec![Change::ServerLink(up(rate))]));
        additions.extend(hardware.disk.map(|rate| vec![Change::Disk(up(rate))]));
        additions.extend(hardware.uplink.map(|rate| vec![Change::Uplink(up(rate))]));
        additions.extend(hardware.switch.map(|rate| vec![Change::Switch(up(rate))]));
        let before = Solution::of(&setup).rate();
        for addition in additions {
            prop_assert!(with(&setup, &addition).rate() >= before * (1.0 - 1e-9), "{:?}", addition);
        }
    }

    #[test]
    fn whatever_way_is_chosen_for_each_need_s_doubles(setup in setups(), choice in any::<u64>()) {
        let needs = to_double(&setup);
        let solution = Solution::of(&setup);
        prop_assert!(needs.iter().any(|need| need.resource == solution.binds()));
        let mut changes = Vec::new();
        let mut choice = choice;
        for need in &needs {
            prop_assert!(need.factor > 1.0 && need.factor < 2.0 + 1e-8 && !need.ways.is_empty());
            let ways = need.ways.len() as u64;
            changes.extend(&need.ways[(choice % ways) as usize]);
            choice /= ways;
        }
        let doubled = with(&setup, &changes).rate();
        prop_assert!(doubled >= solution.rate() * 2.0 * (1.0 - 1e-8), "{} by {:?}", doubled, changes);
    }
}
