//! PostgreSQL with its data directory on Heorot: its machine dies, another one takes over, and each
//! acknowledged transaction is there.

use std::time::Duration;

use tests::{Client, Cluster, Lab, Running, postgres};

const DIR: &str = "/mnt/h/postgres";
const WRITERS: u32 = 3;
/// Rows before a kill: about eight segments of WAL and a checkpoint.
const ROWS: u32 = 1500;
const KILLS: u32 = 4;
/// Recovery waits for the lease of the dead machine.
const TAKE_OVER: Duration = Duration::from_secs(240);
const START: Duration = Duration::from_secs(600);

/// ```text
/// oak   inserts ───────▶ notes acknowledged rows ──────────────────▶ checks, and continues
/// ash   postgres ▶ killed                          boots ─▶ postgres ▶ killed …
/// elm                     postgres: recovers ▶ killed …
/// ```
#[test]
#[ignore = "minutes, and needs PostgreSQL: make postgres"]
fn what_postgresql_acknowledged_is_there_when_another_machine_takes_over() {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, 4);
    let oak = lab.client("oak");
    let mut host = lab.client("ash");
    cluster.mount(&host, "vers=4.2");
    host.run_within(START, &postgres::init(DIR));
    let mut server = serve(&host);
    host.run(&postgres::make_table());
    let mut rows = 0;
    for kill in 1..=KILLS {
        let writers = oak.spawn(&postgres::insert(host.address(), WRITERS, kill * 1_000_000));
        oak.run_within(START, &postgres::wait_acknowledged(rows + ROWS));
        // Kill the machine's kernel, in the middle of transactions.
        drop(host);
        drop(server);
        writers.kill();
        writers.wait(START);
        host = lab.client(if kill % 2 == 0 { "ash" } else { "elm" });
        cluster.mount(&host, "vers=4.2");
        server = serve(&host);
        let found: u32 =
            oak.run_within(TAKE_OVER, &postgres::check(host.address())).trim().parse().expect("a count");
        rows = oak.run(postgres::acknowledged()).trim().parse().expect("a count");
        println!("kill {kill}: {rows} rows acknowledged, {found} found");
        assert!(found >= rows && found <= rows + kill * WRITERS, "each writer has one transaction in flight");
    }
    host.run_within(TAKE_OVER, &postgres::stop(DIR));
    server.wait(TAKE_OVER);
    host.run_within(START, &postgres::check_pages(DIR));
    host.run("umount /mnt/h");
}

fn serve(host: &Client) -> Running {
    let server = host.spawn(&postgres::serve(DIR));
    host.run_within(TAKE_OVER, &postgres::wait_ready());
    server
}
