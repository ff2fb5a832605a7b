//! Directories that the version before wrote are read: `before/*.tar.gz` has one, and what was in it.
//!
//! ```text
//! HEOROT_OLD_BIN=heorot-of-before cargo test -p heorot --test cluster -- --ignored a_directory_of_this_version
//! ```
//!
//! makes such a file, named for the version of the log's commands.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::backup::{content, overwrite, trees, up, write};
use crate::servers::{Client, ask, mount, own_ip, until};

/// The volume, its snapshots, and directories of the first volume.
const TREES: [&str; 4] = ["dir", "vol", "vol/.snapshot/one", "vol/.snapshot/two"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/before")
}

fn tar(arguments: &[&str], folder: &Path) {
    let status = Command::new("tar").args(arguments).current_dir(folder).status().expect("tar runs");
    assert!(status.success(), "tar {arguments:?}: {status}");
}

/// All that clients and administrators see.
async fn seen(client: &Client, ip: std::net::Ipv4Addr) -> String {
    let mut text: String = trees(client, &TREES).await.into_iter().map(|one| format!("{one:?}\n")).collect();
    for question in [&["snapshot", "list", "--json"][..], &["quota", "report"]] {
        text += &ask(ip, question).unwrap_or_else(|error| panic!("{question:?}: {error}"));
        text.push('\n');
    }
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it makes a file for the next version"]
async fn a_directory_of_this_version_is_kept_for_later_ones() {
    let (place, ip) = (tempfile::tempdir().unwrap(), own_ip());
    let server = up(&place.path().join("data"), ip);
    let client = mount(ip).await;
    client.mkdir_path("dir", 0o750).await.unwrap();
    ask(ip, &["volume", "create", "/vol"]).unwrap();
    ask(ip, &["quota", "set", "/vol", "--files", "1000", "--bytes", "1GiB"]).unwrap();
    for n in 0..6 {
        write(&client, &format!("dir/f{n}"), content(n)).await;
        write(&client, &format!("vol/f{n}"), content(n)).await;
    }
    ask(ip, &["snapshot", "create", "/vol@one"]).unwrap();
    overwrite(&client, "vol/f1").await;
    client.remove_path("vol/f2").await.unwrap();
    ask(ip, &["snapshot", "create", "/vol@two"]).unwrap();
    overwrite(&client, "vol/f5").await;
    // The space of files is told some seconds later.
    let mut last = String::new();
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let now = seen(&client, ip).await;
        if now == last {
            break;
        }
        last = now;
    }
    std::fs::write(place.path().join("seen"), last).unwrap();
    client.umount().await.unwrap();
    assert_eq!(server.stop().code(), Some(0));
    let file = folder().join("made.tar.gz");
    tar(&["--sparse", "-czf", file.to_str().unwrap(), "data", "seen"], place.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_of_the_version_before_is_read() {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|kind| kind == "gz"));
    assert!(!files.is_empty());
    for file in files {
        println!("{}", file.display());
        let (place, ip) = (tempfile::tempdir().unwrap(), own_ip());
        tar(&["-xzf", file.to_str().unwrap()], place.path());
        let server = up(&place.path().join("data"), ip);
        let client = mount(ip).await;
        let known = std::fs::read_to_string(place.path().join("seen")).unwrap();
        assert_eq!(seen(&client, ip).await, known);
        // And it goes on: a clone of what the version before has kept, changes, removals.
        ask(ip, &["volume", "clone", "/vol@one", "/clone"]).unwrap();
        overwrite(&client, "clone/f2").await;
        overwrite(&client, "vol/f0").await;
        ask(ip, &["volume", "promote", "/clone", "--wait"]).unwrap();
        for name in ["/vol@two", "/vol@one"] {
            ask(ip, &["snapshot", "remove", name]).unwrap();
        }
        until("the removals are done", || ask(ip, &["snapshot", "list", "--json"]).unwrap().trim() == "[]");
        client.umount().await.unwrap();
        assert_eq!(server.stop().code(), Some(0));
    }
}
