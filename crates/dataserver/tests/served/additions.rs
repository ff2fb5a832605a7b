//! Targets that a data server gets while it runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dataserver::{AdditionError, Reached, Target, TargetError};
use host::SystemEntropy;
use wire::cluster::register;
use wire::data::{Status, TargetCondition};
use wire::handle::ObjectHandle;

use crate::data::{get, make, peer, put};
use crate::{CLUSTER, INCARNATION, NAME_SPACE, Served, key, open, peer_key};

/// Makes an empty directory.
fn directory(path: PathBuf) -> PathBuf {
    fs::create_dir_all(&path).unwrap();
    path
}

/// All names below a directory, and the texts of the files.
fn content(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = vec![];
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(content(&path));
        } else {
            all.push((path.clone(), fs::read(&path).unwrap_or_default()));
        }
        all.push((path, vec![]));
    }
    all.sort();
    all
}

/// ```text
/// add target -> it is reported, serves metaservers at once, and is cared for
/// restart    -> it is one of the targets that were there: gone, it is not made anew
/// ```
#[tokio::test]
async fn a_target_that_is_added_serves_at_once_and_is_known_from_then_on() {
    let served = Served::start().await;
    let mut additions = served.ds.additions();
    let dir = directory(served.dir.path().join("second"));
    let id = served.ds.add_target(&dir).unwrap();
    tokio::time::timeout(Duration::from_secs(5), additions.next()).await.expect("notice of it");
    let space = served.ds.space();
    assert_eq!((space.len(), space[1].target, space[1].condition), (2, id, TargetCondition::Ok));
    assert_eq!((space[1].name_space, space[1].incarnation), (NAME_SPACE, INCARNATION.id), "as the first one");
    assert_eq!(served.ds.checks_of_targets().len(), 2);

    let handle = ObjectHandle { target: id, chain: id, ..served.object(1) }.seal(&key());
    let peer = peer(&served, peer_key());
    assert_eq!(make(&peer, std::slice::from_ref(&handle)).await, Ok(()));
    put(&peer, &handle, 0, true, b"kept").await.unwrap();
    assert_eq!(get(&peer, &handle, 0, 9).await, Ok((Bytes::from_static(b"kept"), true)));
    let elsewhere = ObjectHandle { target: id + 1, chain: id + 1, ..served.object(1) }.seal(&key());
    assert!(matches!(
        make(&peer, &[elsewhere]).await,
        Err(Status::NotFound | Status::BadHandle | Status::Stale)
    ));

    let noted = fs::read_to_string(served.dir.path().join("server.targets")).unwrap();
    assert!(noted.contains(&format!("{id:016x} {}\n", dir.display())), "{noted}");
    let twice = served.ds.add_target(&dir).unwrap_err();
    assert!(matches!(twice, AdditionError::IsTarget(_)), "{twice}");
}

#[test]
fn a_directory_that_cannot_be_a_target_is_refused_and_left_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    let ds = open(&directory(at("ds")), &Arc::default(), &Arc::default(), 1).unwrap();
    ds.belong_to(NAME_SPACE, INCARNATION).unwrap();
    let target = |name: &str, cluster, belonging: Option<(u64, u64)>| {
        let target = Target::open_or_create(&at(name), cluster, &SystemEntropy).unwrap();
        if let Some((name_space, incarnation)) = belonging {
            target.belong_to(name_space, incarnation).unwrap();
        }
        target
    };
    drop(target("other cluster", [1; 16], None));
    drop(target("other name space", CLUSTER, Some((NAME_SPACE + 1, INCARNATION.id))));
    drop(target("other incarnation", CLUSTER, Some((NAME_SPACE, INCARNATION.id + 1))));
    let in_use = target("in use", CLUSTER, None);
    fs::create_dir_all(at("not ours/photos")).unwrap();
    fs::create_dir_all(at("without its marker/objects/00")).unwrap();
    fs::write(at("without its marker/objects/00/00000001.0000000000000001.00000001.00000000"), "").unwrap();
    fs::write(at("file"), "").unwrap();
    std::os::unix::fs::symlink(at("ds/target"), at("link")).unwrap();
    std::os::unix::fs::symlink(at("nowhere"), at("dangling")).unwrap();
    fs::create_dir_all(at("copy")).unwrap();
    fs::copy(at("ds/target/target.toml"), at("copy/target.toml")).unwrap();
    let listed = [directory(at("listed"))];
    fs::create_dir_all(at("listed/below")).unwrap();

    let before = content(home.path());
    for (name, why) in [
        ("nothing", "is not there; make the directory, or mount"),
        ("dangling", "is not there"),
        ("file", "is not a directory"),
        ("file/below", "is not a directory"),
        ("ds/target", "is a target of this data server already"),
        ("link", "is a target of this data server already"),
        ("listed", "is a target of this data server already"),
        ("listed/below", "is inside the target"),
        ("ds/target/objects", "is inside the target"),
        ("ds", "has the target"),
        ("", "has the target"),
        ("other cluster", "belongs to cluster 0101"),
        ("other name space", "of another name space of this cluster"),
        ("other incarnation", "obeys another incarnation of the metaservers"),
        ("copy", "has the same target id as"),
        ("in use", "another process serves this target"),
        ("not ours", "not empty and not a Heorot target (it holds \"photos\")"),
        ("without its marker", "holds objects but no target.toml"),
    ] {
        let found = ds.check_addition(&at(name), &listed);
        let error = found.expect_err(name).to_string();
        assert!(error.contains(why) && error.lines().count() == 1, "{name}: {error}");
        assert_eq!(content(home.path()), before, "{name}: nothing has changed");
    }
    drop(in_use);
    assert!(ds.check_addition(&at("in use"), &listed).unwrap().is_some(), "it is free now");
    assert_eq!(ds.check_addition(&directory(at("new")), &listed).unwrap(), None);
    assert_eq!(ds.space().len(), 1);
    let error = ds.add_target(&at("not ours")).unwrap_err();
    assert!(matches!(error, AdditionError::Target(TargetError::NotOurs(..))), "{error}");
    assert_eq!(ds.space().len(), 1);
}

#[test]
fn a_path_is_noted_in_its_plain_form() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path().canonicalize().unwrap();
    fs::create_dir_all(home.join("a/b")).unwrap();
    let plain = |path: &str| dataserver::plain_path(Path::new(path)).map_err(|e| e.to_string());
    let text = home.to_str().unwrap();
    assert_eq!(plain(&format!("{text}/a/./b/")), Ok(home.join("a/b")));
    assert_eq!(plain(&format!("{text}/a/b/..")), Ok(home.join("a")));
    assert!(plain("data/sdb").unwrap_err().contains("is not an absolute path"));
    assert!(plain("/data/s\ndb").unwrap_err().contains("control characters"));
    assert!(plain(&format!("{text}/no/..")).unwrap_err().contains("is not there"));
}

/// ```text
/// registration is sent                -> it reports one target
/// add target
/// answer: chains of the reported ones -> not followed: it says nothing of the second one
/// registration with both, answer      -> followed; the second one is registered
/// ```
#[tokio::test]
async fn an_answer_to_a_registration_from_before_an_addition_is_not_followed() {
    let home = tempfile::tempdir().unwrap();
    let ds = Arc::new(open(home.path(), &Arc::default(), &Arc::default(), 1).unwrap());
    ds.belong_to(NAME_SPACE, INCARNATION).unwrap();
    let reached =
        Reached { advertise: "127.0.0.1:2050".parse().unwrap(), service_address: None, zone: Bytes::new() };
    let answer = |process, map_version| register::ResOk {
        heartbeat_ms: 1000,
        map_version,
        metaservers: vec![],
        name_space: NAME_SPACE,
        incarnation: INCARNATION.id,
        epoch: 1,
        process,
        networks: vec![],
        trash_seconds: 0,
        chain_lease_ms: 1500,
        verify_at_scrub: vec![],
        chains: vec![],
    };
    let sent = ds.registration(&reached, |_| 0).await.unwrap();
    let id = ds.add_target(&directory(home.path().join("second"))).unwrap();
    ds.registered(&sent, &answer(sent.args.process, 7)).await.unwrap();
    assert_eq!(ds.chains_of_map(), 0);
    let registered = tokio::spawn({
        let ds = Arc::clone(&ds);
        async move { ds.until_registered(id).await }
    });
    let sent = ds.registration(&reached, |_| 0).await.unwrap();
    assert_eq!(sent.args.targets.len(), 2);
    assert!(!registered.is_finished());
    ds.registered(&sent, &answer(sent.args.process, 8)).await.unwrap();
    assert_eq!(ds.chains_of_map(), 8);
    registered.await.unwrap();
}
