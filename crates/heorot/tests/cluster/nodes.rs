//! Nodes: list, drain, remove, and leadership transfer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;

use crate::servers::{Cluster, mount, until};

/// Time limit of a leadership transfer, long enough for a busy machine or an election.
const STALL_MAX: Duration = Duration::from_secs(5);

#[test]
fn all_servers_are_listed_with_what_they_do_by_any_metaserver() {
    let cluster = Cluster::start(3, 2);
    for n in 0..3 {
        let leaders: Vec<_> =
            (0..3).filter(|of| cluster.node(n, &format!("mds{of}"))["role"] == "leader").collect();
        assert_eq!(leaders.len(), 1);
        for name in ["mds0", "mds1", "mds2", "ds0", "ds1"] {
            until("everybody serves and is heard of", || {
                let node = cluster.node(n, name);
                node["state"] == "serving"
                    && node["version"] == env!("CARGO_PKG_VERSION")
                    && node["seen_ms"].is_u64()
            });
        }
        until("nobody lags", || (0..3).all(|of| cluster.node(n, &format!("mds{of}"))["lag"] == 0));
    }
    let table = cluster.ask(1, &["node", "list"]).unwrap();
    assert_eq!(table.lines().count(), 6, "{table}");
    assert!(table.contains(&format!("{}:2049", cluster.metaservers[2].0)), "{table}");
    for to in ["mds2", "mds0", "mds1"] {
        assert_eq!(cluster.ask(0, &["leader", to]).unwrap(), format!("{to} leads"));
        until("all know", || (0..3).all(|n| cluster.ask(n, &["leader"]).is_ok_and(|leader| leader == to)));
    }
    let wrong = cluster.ask(0, &["leader", "mds7"]).unwrap_err();
    assert_eq!(wrong, "heorot: no server is called \"mds7\"; heorot node list shows them");
}

#[test]
fn a_metaserver_that_is_removed_stops_and_says_why_also_when_it_is_started_again() {
    let mut cluster = Cluster::start(3, 1);
    cluster.ask(0, &["leader", "mds2"]).unwrap();
    let said = cluster.ask(0, &["node", "remove", "mds2"]).unwrap();
    assert_eq!(said, "mds2 is removed, and stops");
    for start_again in [true, false] {
        let mut gone = cluster.metaservers[2].1.take().unwrap();
        assert_eq!(gone.ends().code(), Some(3));
        assert!(gone.log().contains("was removed from its group"), "{}", gone.log());
        drop(gone);
        if start_again {
            let (config, log) = (cluster.file("mds2.toml"), cluster.file("again.log"));
            let args = ["mds", "--config", config.to_str().unwrap()];
            cluster.metaservers[2].1 = Some(crate::servers::Process::start(&args, &log));
        }
    }
    until("the map says so", || cluster.node(1, "mds2")["state"] == "removed");
    assert!(!cluster.ask(0, &["node", "list"]).unwrap().contains("mds2"));
    // Two are left: neither can be removed while the other is down.
    cluster.metaservers[1].1 = None;
    until("it is noticed", || cluster.node(0, "mds1")["seen_ms"].as_u64().is_none_or(|ms| ms > 1500));
    let why = cluster.ask(0, &["node", "remove", "mds1"]).unwrap_err();
    assert!(
        why.ends_with("nothing can be changed now: too few metaservers with a vote can be reached"),
        "{why}"
    );
    cluster.start_metaserver(1);
    until("it can lead", || cluster.ask(0, &["leader", "mds1"]).is_ok_and(|said| said == "mds1 leads"));
}

#[test]
fn what_would_leave_too_few_voters_is_refused_with_how_many_there_are() {
    let mut cluster = Cluster::start(3, 0);
    cluster.ask(0, &["leader", "mds0"]).unwrap();
    cluster.metaservers[1].1 = None;
    until("it is noticed", || cluster.node(0, "mds1")["seen_ms"].as_u64().is_none_or(|ms| ms > 1500));
    let why = cluster.ask(0, &["node", "remove", "mds2"]).unwrap_err();
    assert!(why.contains("2 with a vote, of which 1 can be reached now and 2 are needed"), "{why}");
    assert_eq!(cluster.node(0, "mds2")["state"], "serving", "as before");
    assert_eq!(cluster.ask(2, &["node", "remove", "mds1"]).unwrap(), "mds1 is removed, and stops");
}

#[test]
fn a_forced_removal_that_too_few_agree_on_says_so_and_is_done_when_it_is_asked_again() {
    let mut cluster = Cluster::start(3, 0);
    cluster.ask(0, &["leader", "mds0"]).unwrap();
    cluster.metaservers[1].1 = None;
    until("it is noticed", || cluster.node(0, "mds1")["seen_ms"].as_u64().is_none_or(|ms| ms > 1500));
    let why = cluster.ask(0, &["node", "remove", "mds2", "--force"]).unwrap_err();
    assert!(
        why.contains("the membership change waits for a majority")
            && why.contains("heorot node undrain mds2"),
        "{why}"
    );
    cluster.start_metaserver(1);
    until("it is removed", || cluster.ask(0, &["node", "remove", "mds2"]).is_ok());
}

#[test]
fn one_that_is_left_alone_says_that_nobody_leads_and_one_that_starts_says_whom_it_waits_for() {
    let mut cluster = Cluster::start(3, 0);
    cluster.ask(0, &["leader", "mds0"]).unwrap();
    for n in [0, 1] {
        cluster.metaservers[n].1 = None;
    }
    until("it is noticed", || {
        let asked = cluster.ask(2, &["leader"]);
        asked.is_err_and(|why| why.starts_with("heorot: no leader: too few metaservers"))
    });
    let roles = [0, 1, 2].map(|n| cluster.node(2, &format!("mds{n}"))["role"].clone());
    assert_eq!(roles, ["voter"; 3]);
    let (config, log) = (cluster.file("mds0.toml"), cluster.file("alone.log"));
    cluster.metaservers[2].1 = None;
    let mut alone = crate::servers::Process::start(&["mds", "--config", config.to_str().unwrap()], &log);
    alone.wait_for_log("waiting for a majority of the voters");
    let missing = [1, 2].map(|n| format!("mds{n} at {}", cluster.metaservers[n].0));
    assert!(missing.iter().all(|member| alone.log().contains(member)), "{}", alone.log());
    cluster.start_metaserver(2);
    alone.wait_for_log("ready");
}

#[test]
fn a_learner_stays_one_when_it_is_started_again_until_it_is_promoted() {
    let mut cluster = Cluster::start(3, 0);
    cluster.ask(0, &["leader", "mds0"]).unwrap();
    cluster.ask(0, &["node", "demote", "mds2"]).unwrap();
    for role in ["learner", "voter"] {
        until("all know", || (0..3).all(|n| cluster.node(n, "mds2")["role"] == role));
        cluster.stop_metaserver(2);
        cluster.start_metaserver(2);
        assert_eq!(cluster.node(0, "mds2")["role"], role, "as before");
        if role == "learner" {
            cluster.ask(0, &["node", "promote", "mds2"]).unwrap();
        }
    }
    // A configured learner never votes.
    let (config, text) =
        (cluster.file("mds3.toml"), std::fs::read_to_string(cluster.file("mds2.toml")).unwrap());
    let ip = crate::servers::own_ip();
    let text = text.replace(&cluster.metaservers[2].0.to_string(), &ip.to_string()).replace("mds2", "mds3");
    std::fs::write(config, format!("{text}learner = true\n")).unwrap();
    cluster.metaservers.push((ip, None));
    cluster.start_metaserver(3);
    until("all know", || (0..4).all(|n| cluster.node(n, "mds3")["role"] == "learner"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_drains_gets_nothing_new_and_a_data_server_with_objects_is_not_removed() {
    let mut cluster = Cluster::start(3, 2);
    cluster.ask(0, &["leader", "mds1"]).unwrap();
    let said = cluster.ask(2, &["node", "drain", "mds1"]).unwrap();
    assert!(said.starts_with("mds1 drains: it holds no service address"), "{said}");
    let leader = cluster.ask(2, &["leader"]).unwrap();
    assert_ne!(leader, "mds1");
    cluster.ask(0, &["node", "undrain", "mds1"]).unwrap();
    assert_eq!(cluster.node(0, "mds1")["state"], "serving");

    let said = cluster.ask(0, &["node", "drain", "ds0"]).unwrap();
    assert_eq!(
        said,
        "ds0 takes no new files; its 0 objects are served, and move to other data servers that have room"
    );
    // Ask another metaserver than the one that executed the command: it knows from the map.
    until("the map says so", || cluster.node(1, "ds0")["state"] == "draining");
    let client = mount(cluster.metaservers[1].0).await;
    for n in 0..8 {
        let file = client.create_path(&format!("f{n}"), Some(0o644)).await.unwrap();
        nfs_rs::write_all(&*client, file.fh.clone(), 0, Bytes::from(vec![7; 200 << 10])).await.unwrap();
        client.close(file.fh).await.unwrap();
    }
    until("its objects are counted", || cluster.node(0, "ds1")["objects"].as_u64() >= Some(8));
    assert_eq!(cluster.node(0, "ds0")["objects"], 0);
    let why = cluster.ask(0, &["node", "remove", "ds1"]).unwrap_err();
    assert!(why.contains("ds1 has data of files: these files could not be read any more"), "{why}");
    assert_eq!(cluster.ask(0, &["node", "remove", "ds0"]).unwrap(), "ds0 is removed; stop it");
    cluster.data_servers[0].as_mut().unwrap().wait_for_log("it was removed from the cluster");
    client.umount().await.unwrap();
    // ds1 was configured with one metaserver and found the others by the map.
    cluster.stop_metaserver(0);
    until("ds1 is still heard of", || cluster.node(2, "ds1")["seen_ms"].as_u64().is_some_and(|ms| ms < 3000));
    let again = mount(cluster.metaservers[2].0).await;
    let file = again.create_path("after", Some(0o644)).await.unwrap();
    nfs_rs::write_all(&*again, file.fh.clone(), 0, Bytes::from(vec![8; 200 << 10])).await.unwrap();
    again.close(file.fh).await.unwrap();
    again.umount().await.unwrap();
}

#[test]
fn a_data_server_that_starts_when_the_metaserver_of_its_configuration_is_gone_finds_the_others() {
    let mut cluster = Cluster::start(3, 1);
    let (file, others) = (cluster.file("ds0/server.metaservers"), [1, 2].map(|n| cluster.metaservers[n].0));
    until("it has written them down", || {
        let written = std::fs::read_to_string(&file).unwrap_or_default();
        others.iter().all(|ip| written.contains(&format!("{ip}:2049\n")))
    });
    cluster.stop_metaserver(0);
    assert_eq!(cluster.data_servers[0].take().unwrap().stop().code(), Some(0));
    let began = Instant::now();
    cluster.start_data_server(0);
    for n in [1, 2] {
        until("it is heard of", || {
            let seen = cluster.node(n, "ds0")["seen_ms"].as_u64();
            seen.is_some_and(|ms| Duration::from_millis(ms) < began.elapsed())
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_one_metaserver_does_not_notice_that_the_others_are_restarted_the_leader_too() {
    let mut cluster = Cluster::start(3, 0);
    let client = mount(cluster.metaservers[2].0).await;
    let stop = Arc::new(AtomicBool::new(false));
    let work = tokio::spawn({
        let stop = Arc::clone(&stop);
        async move {
            let (mut count, mut longest) = (0, Duration::ZERO);
            while !stop.load(Ordering::Relaxed) {
                let began = Instant::now();
                client
                    .mkdir_path(&format!("d{count}"), 0o755)
                    .await
                    .unwrap_or_else(|e| panic!("mkdir d{count}: {e}"));
                (count, longest) = (count + 1, longest.max(began.elapsed()));
            }
            client.umount().await.unwrap();
            (count, longest)
        }
    });
    for n in [0, 1, 0] {
        // Make each metaserver the leader before it stops.
        cluster.ask(2, &["leader", &format!("mds{n}")]).unwrap();
        cluster.stop_metaserver(n);
        cluster.start_metaserver(n);
    }
    stop.store(true, Ordering::Relaxed);
    let (count, longest) = work.await.unwrap();
    println!("{count} directories while leaders were restarted; the longest took {longest:?}");
    assert!(count >= 3, "{count} directories");
    assert!(longest < STALL_MAX, "{longest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_whose_data_server_has_objects_is_not_removed_by_half() {
    let mut cluster = Cluster::start(3, 1);
    // Give both servers of one machine the same name, as `heorot join` does.
    assert_eq!(cluster.data_servers[0].take().unwrap().stop().code(), Some(0));
    let config = cluster.file("ds0.toml");
    let text = std::fs::read_to_string(&config).unwrap().replace("name = \"ds0\"", "name = \"mds2\"");
    std::fs::write(config, text).unwrap();
    std::fs::remove_file(cluster.file("ds0.log")).unwrap();
    cluster.start_data_server(0);
    let client = mount(cluster.metaservers[0].0).await;
    let file = client.create_path("f", Some(0o644)).await.unwrap();
    nfs_rs::write_all(&*client, file.fh.clone(), 0, Bytes::from(vec![7; 200 << 10])).await.unwrap();
    client.close(file.fh).await.unwrap();
    client.umount().await.unwrap();
    let both = || -> Vec<Value> {
        let list = cluster.ask(0, &["node", "list", "--json"]).unwrap_or_default();
        let list: Vec<Value> = serde_json::from_str(&list).unwrap_or_default();
        list.into_iter().filter(|node| node["name"] == "mds2").collect()
    };
    until("its objects are counted", || both().iter().any(|node| node["objects"].as_u64() >= Some(1)));
    let why = cluster.ask(0, &["node", "remove", "mds2"]).unwrap_err();
    assert!(why.contains("mds2 is a data server with 1 objects and a metaserver"), "{why}");
    let why = cluster.ask(0, &["node", "remove", "mds2", "--role", "ds"]).unwrap_err();
    assert!(why.contains("mds2 has data of files"), "{why}");
    assert!(both().len() == 2 && both().iter().all(|node| node["state"] == "serving"), "{:?}", both());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_server_that_has_only_empty_columns_of_files_is_removed_and_they_go_elsewhere() {
    let cluster = Cluster::start(1, 3);
    cluster.ask(0, &["set", "stripe_columns", "2"]).unwrap();
    let client = mount(cluster.metaservers[0].0).await;
    let on = |n: usize| cluster.ask(0, &["files", "--on", &format!("ds{n}")]).unwrap();
    // Each file has data in its first column only.
    for n in 0..6 {
        let name = format!("f{n}");
        let file = client.create_path(&name, Some(0o644)).await.unwrap();
        nfs_rs::write_all(&*client, file.fh.clone(), 0, Bytes::from(vec![n; 200 << 10])).await.unwrap();
        client.link_path(&name, &format!("also-{name}")).await.unwrap();
        client.close(file.fh).await.unwrap();
    }
    until("each has objects", || {
        (0..3).map(|n| cluster.node(0, &format!("ds{n}"))["objects"].as_u64().unwrap_or(0)).sum::<u64>() == 12
    });
    // A file is listed for each of its columns while its size is not settled.
    let names = |n: usize| on(n).lines().filter(|path| path.starts_with("/f")).count();
    until("all sizes are settled", || (0..3).map(names).sum::<usize>() == 6);
    // Remove the files that have data there; one of them is still open.
    let of_ds0 = on(0);
    assert!(!of_ds0.is_empty(), "nothing was placed there");
    let mut kept = None;
    for name in of_ds0.lines().filter_map(|path| path.strip_prefix('/')).filter(|name| name.starts_with('f'))
    {
        if kept.is_none() {
            kept = Some(client.open_path(name, nfs_rs::OPEN_READ).await.unwrap());
        }
        client.remove_path(name).await.unwrap();
        client.remove_path(&format!("also-{name}")).await.unwrap();
    }
    assert_eq!(on(0), "");
    let why = cluster.ask(0, &["node", "remove", "ds0"]).unwrap_err();
    assert!(why.contains("ds0 has 1 objects of files that are still open or written to"), "{why}");
    assert_eq!(cluster.node(0, "ds0")["state"], "serving", "it was not removed");
    client.close(kept.unwrap().fh).await.unwrap();
    until("it is removed", || {
        cluster.ask(0, &["node", "remove", "ds0"]).is_ok_and(|said| said == "ds0 is removed; stop it")
    });

    // The remaining files are complete, and grow into the moved columns.
    let left: Vec<u8> = (0..6).filter(|n| !of_ds0.lines().any(|path| path == format!("/f{n}"))).collect();
    assert!(!left.is_empty() && left.len() < 6, "files without data on ds0: {left:?}");
    const LEN: usize = 2 << 20;
    for n in left {
        let file = client.open_path(&format!("f{n}"), nfs_rs::OPEN_BOTH).await.unwrap().fh;
        nfs_rs::write_all(&*client, file.clone(), 200 << 10, Bytes::from(vec![n; LEN])).await.unwrap();
        for at in (0..LEN).step_by(64 << 10) {
            let read = client.read(file.clone(), at as u64, 64 << 10).await.unwrap();
            assert!(!read.is_empty() && read.iter().all(|byte| *byte == n), "f{n} at {at}");
        }
        client.close(file).await.unwrap();
    }
    client.umount().await.unwrap();
}
