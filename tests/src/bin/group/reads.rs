//! CPU cost of a read at the metaserver that serves it, and at the leader: the scaling of reads with
//! metaservers.

use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use crate::servers::{DIR, Group, create, stat};

const SERVERS: usize = 4;
const CLIENTS: usize = 8;
const FILES: usize = 200;
const TIME: Duration = Duration::from_secs(5);

/// CPU-seconds for one read.
struct Cost {
    server: f64,
    leader: f64,
    reads_per_second: f64,
}

/// Measures and prints the results.
pub fn run() {
    let alone = { cost(&Group::start(1), 0) };
    let group = Group::start(SERVERS);
    let [leader, other] = [cost(&group, 0), cost(&group, 1)];
    println!("Reads (LOOKUP), {CLIENTS} clients of one metaserver for {} s, CPU for each:", TIME.as_secs());
    println!("| served by | rate | its server | the leader |");
    println!("| --- | --- | --- | --- |");
    let row = |name: &str, cost: &Cost, leader: &str| {
        println!("| {name} | {:.0} /s | {:.1} µs | {leader} |", cost.reads_per_second, cost.server * 1e6);
    };
    row("the only one", &alone, "-");
    row(&format!("the leader of {SERVERS}"), &leader, "-");
    let at_leader =
        format!("{:.2} µs, {:.1} % of its own", other.leader * 1e6, other.leader / other.server * 100.0);
    row(&format!("another of {SERVERS}"), &other, &at_leader);
    // With each metaserver on a machine of its own, and all of them busy: the others use all their CPU for
    // reads, the leader the rest of its own.
    let others = (SERVERS - 1) as f64 / other.server;
    let left = 1.0 - others * other.leader;
    let reads = others + left / leader.server;
    println!("{SERVERS} metaservers, all busy: {:.2} times the reads of one alone", reads * alone.server);
    println!("and {:.2} times those of one of them", reads * other.server);
}

/// Cost of reads at metaserver `n`, without the leader's idle CPU use.
fn cost(group: &Group, n: usize) -> Cost {
    let clients: Vec<_> = (0..CLIENTS).map(|_| group.client(n)).collect();
    (0..FILES).for_each(|file| create(&clients[0], &format!("{DIR}/{n}-{file}")));
    let before = [group.cpu(n), group.cpu(0)];
    sleep(TIME);
    let idle = [group.cpu(n) - before[0], group.cpu(0) - before[1]];
    let before = [group.cpu(n), group.cpu(0)];
    let began = Instant::now();
    let reads: usize = thread::scope(|scope| {
        let read = |client| {
            move || {
                let mut reads = 0;
                while began.elapsed() < TIME {
                    stat(client, &format!("{DIR}/{n}-{}", reads % FILES));
                    reads += 1;
                }
                reads
            }
        };
        let readers: Vec<_> = clients.iter().map(|client| scope.spawn(read(client))).collect();
        readers.into_iter().map(|reader| reader.join().expect("it reads")).sum()
    });
    let took = began.elapsed().as_secs_f64() / TIME.as_secs_f64();
    let used = [group.cpu(n) - before[0] - idle[0] * took, group.cpu(0) - before[1] - idle[1] * took];
    let reads = reads as f64;
    Cost {
        server: used[0] / reads,
        leader: used[1] / reads,
        reads_per_second: reads / began.elapsed().as_secs_f64(),
    }
}
