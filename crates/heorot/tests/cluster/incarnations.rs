//! Trial restore beside the live cluster, with its secret and a route to its data servers.

use bytes::Bytes;

use crate::name_space::objects;
use crate::servers::{ADMIN_PORT, Client, Cluster, PORT, Process, ask, mount, own_ip, run, until};
use crate::trash::in_trash;

/// Larger than inline data.
const BYTES: usize = 200 << 10;

async fn write(client: &Client, name: &str, byte: u8) {
    let file = client.create_path(name, Some(0o644)).await.unwrap();
    nfs_rs::write_all(&**client, file.fh.clone(), 0, Bytes::from(vec![byte; BYTES])).await.unwrap();
    client.close(file.fh).await.unwrap();
}

async fn read(client: &Client, name: &str) -> Vec<u8> {
    let file = client.open_path(name, nfs_rs::OPEN_READ).await.unwrap().fh;
    let data = client.read(file.clone(), 100, 16).await.unwrap();
    client.close(file).await.unwrap();
    data.to_vec()
}

/// ```text
/// backup; then "later" is written, "early" removed at the living cluster
/// restored elsewhere: clean         -> nothing is cleaned: no data server registered with it
/// the living cluster                -> has "later"; what was removed is in the trash
/// data server told of the restored  -> refuses it, until heorot ds adopt
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trying_out_a_backup_beside_the_living_cluster_touches_no_object() {
    let mut cluster = Cluster::start(1, 1);
    let target = cluster.file("target0");
    let client = mount(cluster.metaservers[0].0).await;
    write(&client, "early", 1).await;
    write(&client, "kept", 2).await;
    let folder = cluster.dir.path().to_owned();
    let name = |file: &str| folder.join(file).display().to_string();
    let (backup, dir, secret) = (name("backup"), name("restored"), name("secret"));
    cluster.ask(0, &["backup", &backup]).unwrap();
    write(&client, "later", 3).await;
    client.remove_path("early").await.unwrap();
    until("the object of a removed file is in the trash", || objects(&target) == 2);
    assert_eq!(in_trash(&target), 1);

    run(&["restore", &backup, &dir, "--secret-file", &secret]).unwrap();
    let ip = own_ip();
    let config = cluster.file("restored.toml");
    let text = format!(
        "listen = \"{ip}:{PORT}\"\nadmin = \"{ip}:{ADMIN_PORT}\"\nsecret_file = {secret:?}\n\
         data_dir = {dir:?}\n"
    );
    std::fs::write(&config, text).unwrap();
    let mut trial =
        Process::start(&["mds", "--config", config.to_str().unwrap()], &cluster.file("restored.log"));
    trial.wait_for_log("ready");
    let refused = ask(ip, &["clean"]).unwrap_err();
    assert!(
        refused.contains("not cleaned: this group was restored from a backup less than an hour ago"),
        "{refused}"
    );
    let refused = ask(ip, &["clean", "--after-restore"]).unwrap_err();
    assert!(refused.contains("not cleaned"), "{refused}");
    let trial_client = mount(ip).await;
    // The removal of a file of the backup must not reach the live cluster's object, either.
    trial_client.remove_path("kept").await.unwrap();
    let _ = ask(ip, &["clean", "--after-restore"]);
    assert_eq!((objects(&target), in_trash(&target)), (2, 1));
    assert_eq!((read(&client, "later").await, read(&client, "kept").await), (vec![3; 16], vec![2; 16]));
    client.umount().await.unwrap();
    trial_client.umount().await.unwrap();

    // The data server has not heard of a restored group: nothing to adopt.
    let nothing = run(&["ds", "adopt", "--admin", &name("ds0")]).unwrap_err();
    assert!(nothing.contains("nothing to adopt"), "{nothing}");
    cluster.stop_metaserver(0);
    assert_eq!(cluster.data_servers[0].take().unwrap().stop().code(), Some(0));
    let first = cluster.metaservers[0].0;
    let toml = cluster.file("ds0.toml");
    let text = std::fs::read_to_string(&toml).unwrap();
    std::fs::write(&toml, text.replace(&format!("{first}:{PORT}"), &format!("{ip}:{PORT}"))).unwrap();
    let _ = std::fs::remove_file(cluster.file("ds0").join("server.metaservers"));
    let mut ds = Process::start(&["ds", "--config", toml.to_str().unwrap()], &cluster.file("ds0.again.log"));
    ds.wait_for_log("it was restored from a backup (incarnation 2)");
    trial.wait_for_log("this data server obeys another incarnation");
    assert_eq!((objects(&target), in_trash(&target)), (2, 1));
    run(&["ds", "adopt", "--admin", &name("ds0")]).unwrap();
    ds.wait_for_log("registered");
    // The operator confirmed it: objects that the restored metadata do not have go to the trash now. The hour
    // counts from the restore, not from a start of the metaserver.
    assert!(ask(ip, &["clean"]).unwrap_err().contains("less than an hour ago"));
    until("it is cleaned", || ask(ip, &["clean", "--after-restore"]).is_ok() && objects(&target) == 0);
    assert_eq!(in_trash(&target), 3);
}
