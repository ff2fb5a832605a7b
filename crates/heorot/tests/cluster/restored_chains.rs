//! A restore from a backup that is older than changes of chains: what was written last is read, or waited for.

use std::time::Duration;

use bytes::Bytes;

use crate::servers::{Client, Cluster, run, until};
use crate::targets::{json, mount3};

const BYTES: usize = 8 << 20;
/// Time in which a read of old data would have come.
const SILENCE: Duration = Duration::from_secs(1);

fn chains(cluster: &Cluster, state: &str) -> u64 {
    json(cluster, &["status", "--json"])["chains"][state].as_u64().expect("a number")
}

async fn write(client: &Client, file: &Bytes, byte: u8) {
    nfs_rs::write_all(&**client, file.clone(), 0, Bytes::from(vec![byte; BYTES])).await.unwrap();
    client.commit(file.clone(), 0, 0).await.unwrap();
}

/// Checks a byte of each 256 KiB.
async fn check(client: &Client, name: &str, byte: u8) {
    let file = client.lookup_path(name).await.unwrap().fh;
    for at in (0..BYTES as u64).step_by(1 << 18) {
        let read = client.read(file.clone(), at, 1).await.unwrap_or_else(|e| panic!("{name} at {at}: {e}"));
        assert_eq!(read.as_ref(), [byte], "{name} at {at}");
    }
}

/// A cluster of these data servers with two copies, and its backup.
async fn backed_up(data_servers: usize, byte: u8) -> (Cluster, Client, Vec<Bytes>) {
    let cluster = Cluster::start(1, data_servers);
    cluster.ask(0, &["set", "rebalance", "false"]).unwrap();
    cluster.ask(0, &["stripe", "set", "/", "--copies", "2"]).unwrap();
    until("chains", || chains(&cluster, "count") > 0);
    let client = mount3(&cluster).await;
    let mut files = Vec::new();
    for n in 0..6 {
        let file = client.create_path(&format!("f{n}"), Some(0o644)).await.unwrap().fh;
        write(&client, &file, byte).await;
        files.push(file);
    }
    cluster.ask(0, &["backup", cluster.file("backup").to_str().unwrap()]).unwrap();
    (cluster, client, files)
}

/// Starts the metaserver again with what is in the backup.
fn restore(cluster: &mut Cluster) {
    let dir = cluster.file("mds0");
    std::fs::remove_dir_all(&dir).unwrap();
    let [backup, secret] = ["backup", "secret"].map(|name| cluster.file(name).display().to_string());
    run(&["restore", &backup, dir.to_str().unwrap(), "--secret-file", &secret]).unwrap();
    cluster.start_metaserver(0);
}

fn adopt(cluster: &Cluster, n: usize) {
    let place = cluster.file(&format!("ds{n}")).display().to_string();
    until("it has heard of the restored group", || run(&["ds", "adopt", "--admin", &place]).is_ok());
}

/// The data have moved from the two data servers of the backup to two that it does not know.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_that_moved_after_the_backup_are_there_after_the_restore() {
    let (mut cluster, client, files) = backed_up(2, 1).await;
    (2..4).for_each(|n| cluster.add_data_server(n));
    for n in ["ds0", "ds1"] {
        cluster.ask(0, &["node", "drain", n]).unwrap();
    }
    until("the data have moved", || {
        cluster.is_whole() && ["ds0", "ds1"].iter().all(|n| cluster.chains_of(n) == 0)
    });
    for file in &files {
        write(&client, file, 2).await;
    }
    cluster.stop_metaserver(0);
    restore(&mut cluster);
    (0..2).for_each(|n| adopt(&cluster, n));
    until("the two that the backup knows are there", || {
        (0..2).all(|n| cluster.node(0, &format!("ds{n}"))["seen_ms"].is_u64())
    });
    tokio::time::sleep(SILENCE).await;
    let all = chains(&cluster, "count");
    assert_eq!((chains(&cluster, "in_doubt"), chains(&cluster, "waiting")), (all, all), "they have nothing");
    let status = cluster.ask(0, &["status"]).unwrap();
    assert!(status.contains("chains of targets wait since the restore"), "{status}");
    (2..4).for_each(|n| adopt(&cluster, n));
    // Killed in the midst of it.
    cluster.metaservers[0].1 = None;
    cluster.data_servers[3] = None;
    cluster.start_metaserver(0);
    cluster.start_data_server(3);
    until("all have told", || chains(&cluster, "in_doubt") == 0);
    let client = mount3(&cluster).await;
    for n in 0..6 {
        check(&client, &format!("f{n}"), 2).await;
    }
    until("there are two copies", || cluster.is_whole());

    // The same backup once more: what was written since the first restore counts.
    for n in 0..6 {
        let file = client.lookup_path(&format!("f{n}")).await.unwrap().fh;
        write(&client, &file, 3).await;
    }
    cluster.stop_metaserver(0);
    restore(&mut cluster);
    (0..4).for_each(|n| adopt(&cluster, n));
    until("all have told again", || chains(&cluster, "in_doubt") == 0);
    let client = mount3(&cluster).await;
    for n in 0..6 {
        check(&client, &format!("f{n}"), 3).await;
    }
    until("there are two copies again", || cluster.is_whole());
}

/// A member was away when the files were written again; it is the first that is there after the restore.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_with_old_data_is_not_read_after_the_restore() {
    let (mut cluster, client, files) = backed_up(3, 1).await;
    cluster.data_servers[0] = None; // kill -9
    until("chains go on without it", || chains(&cluster, "incomplete") > 0);
    for file in &files {
        write(&client, file, 2).await;
    }
    cluster.stop_metaserver(0);
    // Their processes know nothing any more.
    cluster.data_servers.iter_mut().for_each(|server| *server = None);
    restore(&mut cluster);
    let start = |cluster: &mut Cluster, n: usize| {
        cluster.data_servers[n] = Some(cluster.process("ds", &format!("ds{n}")));
        adopt(cluster, n);
        until("it is there", || cluster.node(0, &format!("ds{n}"))["seen_ms"].is_u64());
    };
    start(&mut cluster, 0);
    tokio::time::sleep(SILENCE).await;
    assert_eq!(chains(&cluster, "in_doubt"), chains(&cluster, "count"), "it cannot know");
    start(&mut cluster, 1);
    start(&mut cluster, 2);
    until("all have told", || chains(&cluster, "in_doubt") == 0);
    let client = mount3(&cluster).await;
    for n in 0..6 {
        check(&client, &format!("f{n}"), 2).await;
    }
    until("there are two copies", || cluster.is_whole());
    for n in [1, 2] {
        cluster.data_servers[n] = None;
        until("chains go on without it", || {
            chains(&cluster, "incomplete") > 0 && chains(&cluster, "waiting") == 0
        });
        for n in 0..6 {
            check(&client, &format!("f{n}"), 2).await;
        }
        cluster.start_data_server(n);
        until("it is back", || cluster.is_whole());
    }
}

/// A data server is gone for good with its disks, as are the metaservers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chains_do_not_wait_for_a_target_that_is_declared_lost() {
    let (mut cluster, client, files) = backed_up(3, 1).await;
    for file in &files {
        write(&client, file, 2).await;
    }
    let identity = std::fs::read_to_string(cluster.file("target2").join("target.toml")).unwrap();
    let id =
        identity.lines().find_map(|line| line.strip_prefix("id = ")).unwrap().trim_matches('"').to_owned();
    cluster.stop_metaserver(0);
    cluster.data_servers[2] = None;
    restore(&mut cluster);
    (0..2).for_each(|n| adopt(&cluster, n));
    let all = chains(&cluster, "count");
    until("those of the others are known", || chains(&cluster, "in_doubt") < all);
    assert!(chains(&cluster, "in_doubt") > 0, "the others wait for it");
    cluster.ask(0, &["target", "lost", &id]).unwrap();
    until("none waits", || chains(&cluster, "in_doubt") == 0);
    let client = mount3(&cluster).await;
    for n in 0..6 {
        check(&client, &format!("f{n}"), 2).await;
    }
    until("there are two copies", || cluster.is_whole());
}
