//! A data server whose process is dead, beside one that hangs: the leader tells one from the other by its machine.

use rustix::process::Signal;

use crate::servers::{Cluster, until};

const ROUNDS_MAX: usize = 5;
const DEAD: &str = "the process of a data server is dead";

#[test]
fn chains_go_on_without_a_dead_process_by_the_word_of_its_machine_and_without_one_that_hangs_by_its_lease() {
    let mut cluster = Cluster::start(1, 3);
    cluster.ask(0, &["stripe", "set", "/", "--copies", "2"]).unwrap();
    let chains =
        |cluster: &Cluster, state: &str| cluster.status()["chains"][state].as_u64().expect("a number");
    until("chains", || chains(&cluster, "count") > 0 && cluster.is_whole());
    let log = |cluster: &Cluster| cluster.metaservers[0].1.as_ref().expect("runs").log();
    let said = |cluster: &Cluster| log(cluster).matches(DEAD).count();
    let signal = |cluster: &Cluster, signal| cluster.data_servers[1].as_ref().expect("runs").signal(signal);

    // It keeps its lease to the end: it may go on at any time, and serve by it.
    signal(&cluster, Signal::STOP);
    until("chains go on without the one that hangs", || chains(&cluster, "incomplete") > 0);
    assert_eq!(said(&cluster), 0, "it lives");
    signal(&cluster, Signal::CONT);
    until("it is back", || cluster.is_whole());

    // On a busy machine its lease may end before the leader has asked.
    for _ in 0..ROUNDS_MAX {
        cluster.data_servers[2] = None; // kill -9
        until("chains go on without the dead one", || chains(&cluster, "incomplete") > 0);
        let known = said(&cluster);
        cluster.start_data_server(2);
        until("it is back", || cluster.is_whole());
        assert_eq!(said(&cluster), known, "its next process is another one");
        if known > 0 {
            return;
        }
    }
    panic!("its death was never seen: {}", log(&cluster));
}
