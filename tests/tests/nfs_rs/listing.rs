//! READDIR and READDIRPLUS of a changing directory.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::{join, join_all};
use futures_util::{StreamExt, TryStreamExt};
use nfs_rs::DirectoryCookie;

use crate::file::put;
use crate::scene::{ALL, Client, Version, each, mount, mount_with};
use crate::server::Server;

const ENTRIES: usize = 10_000;
/// Minimal number of directories that are created, and mostly removed, during the listings.
const CHANGES_MIN: usize = 100;
/// Number of concurrent makers, so that creations share commits.
const MAKERS: usize = 64;
/// Option for about 150 pages of 10,000 entries, instead of one or two.
const SMALL_PAGES: &str = "&readdir-buffer=8192";

/// Permanent entries are listed once, temporary ones at most once: in big pages and small, with attributes
/// and without, by all versions.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_entries_are_each_listed_once_while_others_come_and_go() {
    let server = Server::start();
    let root = mount(&server, Version::V42, "/").await;
    root.mkdir_path("many", 0o755).await.expect("mkdir");
    root.umount().await.expect("unmount");
    fill(&server, "/many").await;
    let churner = mount(&server, Version::V42, "/many").await;
    for version in ALL {
        for options in ["", SMALL_PAGES] {
            println!("{version:?} {options}");
            let lister = mount_with(&server, version, "/many", options).await;
            let (stop, changes) = (AtomicBool::new(false), AtomicUsize::new(0));
            let listings = async {
                while changes.load(Ordering::Relaxed) < CHANGES_MIN {
                    each_once(&list(&lister).await);
                    each_once(&list_plus(&lister).await);
                }
                stop.store(true, Ordering::Relaxed);
            };
            join(churn(&churner, &stop, &changes), listings).await;
            lister.umount().await.expect("unmount");
        }
    }
    churner.umount().await.expect("unmount");
}

/// The same, in lockstep: after each page, entries vanish and appear before, at and after the position of the
/// listing.
#[tokio::test(flavor = "multi_thread")]
async fn cookies_stay_good_when_the_entry_they_stand_for_is_removed() {
    const KEPT: usize = 600;
    each(&ALL, async |scene| {
        let directory = scene.ash.mkdir_path("lockstep", 0o755).await.expect("mkdir").fh;
        put(&scene.ash, "target", b"").await;
        let target = scene.ash.lookup_path("target").await.expect("look up").fh;
        let link = async |name: String| {
            scene.ash.link(target.clone(), directory.clone(), &name).await.expect("link");
        };
        let names = (0..KEPT).flat_map(|n| [format!("kept.{n:04}"), format!("gone.{n:04}")]);
        futures_util::stream::iter(names).for_each_concurrent(MAKERS, &link).await;
        let path = format!("{}/lockstep", scene.folder);
        let lister = mount_with(scene.server, scene.version, &path, "&readdir-buffer=2048").await;
        let root = lister.getfh().await;
        let (mut position, mut seen, mut pages) = (DirectoryCookie::default(), HashMap::new(), 0);
        loop {
            let page = lister.readdirplus_page(root.clone(), position).await.expect("a page");
            for entry in &page.entries {
                *seen.entry(entry.file_name.clone()).or_insert(0) += 1;
            }
            pages += 1;
            if page.eof {
                break;
            }
            // The cookie is of the last entry of the page; the first one is before it.
            let names = page.entries.iter().map(|entry| entry.file_name.as_str());
            let removable: BTreeSet<&str> = names.filter(|name| name.starts_with("gone.")).collect();
            for name in BTreeSet::from_iter([removable.first(), removable.last()]).into_iter().flatten() {
                scene.elm.remove(directory.clone(), name).await.expect("remove");
            }
            link(format!("new.{pages}")).await;
            position = page.next;
        }
        assert!(pages > 10, "{pages} pages");
        for n in 0..KEPT {
            assert_eq!(seen.get(&format!("kept.{n:04}")), Some(&1), "kept.{n:04}");
        }
        let twice: Vec<_> = seen.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "{twice:?}");
        lister.umount().await.expect("unmount");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn listed_attributes_and_handles_are_those_of_the_files() {
    each(&ALL, async |scene| {
        put(&scene.ash, "file", b"12345").await;
        scene.ash.mkdir_path("directory", 0o700).await.expect("mkdir");
        scene.ash.symlink_path("file", "link").await.expect("symlink");
        let root = scene.elm.getfh().await;
        let page = scene.elm.readdirplus_page(root, DirectoryCookie::default()).await.expect("a page");
        assert!(page.eof);
        let mut names: Vec<&str> = page.entries.iter().map(|entry| entry.file_name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["directory", "file", "link"]);
        for entry in &page.entries {
            let expected = scene.ash.getattr_path(&entry.file_name).await.expect("attributes");
            let listed = entry.attr.as_ref().expect("attributes in the listing");
            assert_eq!(entry.fileid, expected.fileid);
            assert_eq!(
                (listed.type_, listed.file_mode, listed.nlink, listed.filesize, &listed.mtime),
                (expected.type_, expected.file_mode, expected.nlink, expected.filesize, &expected.mtime),
            );
            if !entry.handle.is_empty() {
                let by_handle = scene.elm.getattr(entry.handle.clone()).await.expect("attributes by handle");
                assert_eq!(by_handle.fileid, expected.fileid);
            }
        }
    })
    .await;
}

/// Hard links of one file: a listing depends on names only.
async fn fill(server: &Server, folder: &str) {
    let maker = mount(server, Version::V3, folder).await;
    put(&maker, "kept.0", b"").await;
    let target = maker.lookup_path("kept.0").await.expect("look up").fh;
    let root = maker.getfh().await;
    let link = async |n| {
        maker.link(target.clone(), root.clone(), &format!("kept.{n}")).await.expect("link");
    };
    futures_util::stream::iter(1..ENTRIES).for_each_concurrent(MAKERS, link).await;
    maker.umount().await.expect("unmount");
}

/// Creates and removes directories, until a stop. No name is used twice.
async fn churn(client: &Client, stop: &AtomicBool, changes: &AtomicUsize) {
    const HANDS: usize = 4;
    const ALIVE: usize = 3; // of each hand
    static NAMES: AtomicUsize = AtomicUsize::new(0);
    let root = client.getfh().await;
    let hand = async || {
        let mut alive = VecDeque::new();
        while !stop.load(Ordering::Relaxed) {
            let name = format!("churn.{}", NAMES.fetch_add(1, Ordering::Relaxed));
            client.mkdir(root.clone(), &name, 0o755).await.expect("make");
            alive.push_back(name);
            if alive.len() > ALIVE {
                let oldest = alive.pop_front().expect("some are alive");
                client.rmdir(root.clone(), &oldest).await.expect("remove");
            }
            changes.fetch_add(1, Ordering::Relaxed);
        }
        for name in alive {
            client.rmdir(root.clone(), &name).await.expect("remove");
        }
    };
    join_all((0..HANDS).map(|_| hand())).await;
}

async fn list(client: &Client) -> Vec<String> {
    let root = client.getfh().await;
    let entries: Vec<_> = client.readdir(root).await.try_collect().await.expect("READDIR");
    entries.into_iter().map(|entry| entry.file_name).collect()
}

async fn list_plus(client: &Client) -> Vec<String> {
    let root = client.getfh().await;
    let entries: Vec<_> = client.readdirplus(root).await.try_collect().await.expect("READDIRPLUS");
    entries.into_iter().map(|entry| entry.file_name).collect()
}

#[track_caller]
fn each_once(names: &[String]) {
    let mut times: HashMap<&str, usize> = HashMap::new();
    for name in names {
        *times.entry(name).or_default() += 1;
    }
    let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "listed more than once: {twice:?}");
    let missing: Vec<usize> =
        (0..ENTRIES).filter(|n| !times.contains_key(format!("kept.{n}").as_str())).collect();
    assert!(missing.is_empty(), "{} of {ENTRIES} are missing: {missing:?}", missing.len());
}
