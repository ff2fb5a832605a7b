//! A bit that a disk flips: a read of its block is an error, and never wrong bytes.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde_json::Value;

use crate::servers::{Cluster, mount, until};

/// Larger than inline data.
const BYTES: u64 = 200 << 10;
const BLOCK: u64 = 64 << 10;

/// The file of the only object that has data.
fn object(target: &Path) -> PathBuf {
    let folders = std::fs::read_dir(target.join("objects")).unwrap();
    let mut files = folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
    let found = files.find_map(|file| {
        let path = file.unwrap().path();
        (path.extension().is_some_and(|last| last != "sums") && path.metadata().unwrap().len() == BYTES)
            .then_some(path)
    });
    found.expect("the file has one column")
}

fn state(cluster: &Cluster) -> String {
    let status = cluster.ask(0, &["status", "--json"]).unwrap_or_default();
    let status: Value = serde_json::from_str(&status).unwrap_or_default();
    status["data_servers"][0]["targets"][0]["state"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_bit_on_a_disk_is_an_error_for_the_client_and_shown_to_the_operator() {
    let mut cluster = Cluster::start(1, 1);
    let client = mount(cluster.metaservers[0].0).await;
    let file = client.create_path("kept", Some(0o644)).await.unwrap().fh;
    nfs_rs::write_all(&*client, file.clone(), 0, Bytes::from(vec![7; BYTES as usize])).await.unwrap();
    client.commit(file.clone(), 0, 0).await.unwrap();
    assert_eq!(client.read(file.clone(), 100, 16).await.unwrap()[..], [7; 16]);
    assert_eq!(state(&cluster), "ok");

    let flipped = std::fs::OpenOptions::new().write(true).open(object(&cluster.file("target0"))).unwrap();
    flipped.write_all_at(&[7 ^ 1], BLOCK + 5000).unwrap();
    for (offset, count) in [(BLOCK, 16), (BLOCK + 5000, 1), (2 * BLOCK - 16, 16)] {
        let error = client.read(file.clone(), offset, count).await.expect_err("its block is damaged");
        assert!(error.to_string().contains("i/o error"), "{error}");
    }
    assert_eq!(client.read(file.clone(), 2 * BLOCK, 16).await.unwrap()[..], [7; 16], "another block");
    cluster.data_servers[0].as_mut().unwrap().wait_for_log("a block of an object does not fit its checksum");
    until("the metaserver names the target's state", || state(&cluster) == "damaged");

    // Bytes for the whole block end it.
    let block = Bytes::from(vec![8; BLOCK as usize]);
    nfs_rs::write_all(&*client, file.clone(), BLOCK, block).await.unwrap();
    assert_eq!(client.read(file, BLOCK + 5000, 16).await.unwrap()[..], [8; 16]);
    until("the target is well again", || state(&cluster) == "ok");
    client.umount().await.unwrap();
}
