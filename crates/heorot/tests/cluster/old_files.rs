//! Files that were made with one copy get copies, while servers are killed: the metaserver that does it, and data servers.

use std::time::Duration;

use bytes::Bytes;

use crate::killed_moves::{DATA_SERVERS, FILES, Worker, bytes, check_copies, leader, write};
use crate::servers::{Client, Cluster, PORT, ask, until};

/// Files that are not in use meanwhile.
const QUIET_FILES: usize = 60;
const QUIET_BYTES: usize = 200 << 10;

async fn make(client: &Client, name: &str, data: Bytes) -> Bytes {
    let file = client.create_path(name, Some(0o644)).await.unwrap().fh;
    write(client, &file, data).await;
    file
}

fn apply(ip: std::net::Ipv4Addr) -> Result<String, String> {
    ask(ip, &["stripe", "apply", "/"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_files_get_copies_while_the_metaserver_that_gives_them_and_data_servers_are_killed() {
    let mut cluster = Cluster::start(3, DATA_SERVERS);
    for (key, value) in [("rebalance", "false"), ("trash_time", "0s"), ("stripe_copies", "1")] {
        cluster.ask(0, &["set", key, value]).unwrap();
    }
    let spared = (leader(&cluster) + 1) % 3;
    let ip = cluster.metaservers[spared].0;
    let url = format!("nfs://{ip}:{PORT}/?version=3&mountport={PORT}&noresvport=true");
    let client: Client = nfs_rs::parse_url_and_mount(&url).await.unwrap().into();
    let mut files = Vec::new();
    for n in 0..FILES {
        files.push(make(&client, &format!("f{n}"), bytes(n, 0)).await);
    }
    let mut quiet = Vec::new();
    for n in 0..QUIET_FILES {
        quiet.push(make(&client, &format!("quiet{n}"), vec![n as u8; QUIET_BYTES].into()).await);
    }
    let worker = Worker::start(client.clone(), files);
    ask(ip, &["set", "stripe_copies", "2"]).unwrap();
    for round in 0..3 {
        let leads = leader(&cluster);
        let victim = if leads == spared { (spared + 1) % 3 } else { leads };
        let its_ip = cluster.metaservers[victim].0;
        let applies = std::thread::spawn(move || apply(its_ip));
        // A little later in each round, so that it dies at different places.
        tokio::time::sleep(Duration::from_millis(30 + 60 * round)).await;
        if round < 2 {
            cluster.metaservers[victim].1 = None; // kill -9
            cluster.start_metaserver(victim);
        } else {
            cluster.data_servers[0] = None;
            cluster.start_data_server(0);
        }
        let _ = applies.join().unwrap();
    }
    until("all files get copies", || apply(ip).is_ok());
    until("they have them", || cluster.is_whole());
    for killed in 0..DATA_SERVERS {
        cluster.data_servers[killed] = None;
        for (n, file) in quiet.iter().enumerate() {
            let read = client.read(file.clone(), (QUIET_BYTES - 64) as u64, 64).await.expect("a read");
            assert_eq!(read.as_ref(), &[n as u8; 64], "file {n} without ds{killed}");
        }
        cluster.start_data_server(killed);
        until("it is back", || cluster.is_whole());
    }
    assert!(worker.end().await > 0);
    until("it is quiet", || cluster.is_whole());
    check_copies(&cluster);
    let again = apply(ip).unwrap();
    assert!(again.contains(" 0 get copies"), "{again}");
}
