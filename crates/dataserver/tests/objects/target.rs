//! Directories that become targets, or cannot.

use dataserver::TargetError;

use super::*;

#[test]
fn a_target_keeps_its_id_and_changes_its_verifier() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path(), 1);
    let (id, verifier) = (first.id(), first.objects().verifier());
    put(first.objects(), name(1, 0), 0, &data(b"kept")).unwrap();
    drop(first);
    let second = open(dir.path(), 2);
    assert_eq!(second.id(), id);
    assert_ne!(second.objects().verifier(), verifier);
    assert_eq!(&second.objects().read(at(name(1, 0)), 0, 9).unwrap().data[..], b"kept");
    let space = second.objects().space().unwrap();
    assert!(space.free <= space.total && space.total > 0);
}

#[test]
fn a_directory_that_cannot_be_a_target_says_why() {
    let entropy = SeededEntropy::new(1);
    let refusal = |dir: &Path, cluster| {
        let error = Target::open_or_create(dir, cluster, &entropy).err().expect("refused");
        let text = error.to_string();
        assert!(!text.contains('\n'), "{text}");
        assert!(text.contains(dir.to_str().unwrap()), "{text}");
        (error, text)
    };
    let dir = tempfile::tempdir().unwrap();
    let held = open(dir.path(), 1);
    assert!(matches!(refusal(dir.path(), CLUSTER).0, TargetError::Locked(_)));
    drop(held);

    let text = refusal(dir.path(), [1; 16]).1;
    assert!(text.contains("belongs to cluster c1c1"), "{text}");

    let file = dir.path().join("target.toml");
    let good = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, good.replace("format = 3", "format = 9\nnew = []")).unwrap();
    let text = refusal(dir.path(), CLUSTER).1;
    assert!(text.contains("format 9"), "{text}");
    for broken in ["", "format", "format = 3", &good.replace("id = \"", "id = \"x"), &good[..good.len() - 9]]
    {
        std::fs::write(&file, broken).unwrap();
        let text = refusal(dir.path(), CLUSTER).1;
        assert!(text.contains("bring it back from a copy"), "{text}");
    }
    std::fs::write(&file, &good).unwrap();
    let target = open(dir.path(), 1);
    put(target.objects(), name(1, 0), 0, &data(b"a")).unwrap();
    drop(target);
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(refusal(dir.path(), CLUSTER).0, TargetError::NoIdentity(_)));

    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("thesis.tex"), b"").unwrap();
    assert!(refusal(home.path(), CLUSTER).1.contains("thesis.tex"));

    let plain = home.path().join("thesis.tex");
    assert!(matches!(refusal(&plain, CLUSTER).0, TargetError::Io { .. }));
}

#[test]
fn a_creation_that_was_cut_short_is_taken_up_again() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("objects/00")).unwrap();
    std::fs::create_dir(dir.path().join("lost+found")).unwrap();
    std::fs::write(dir.path().join("lock"), b"").unwrap();
    std::fs::write(dir.path().join("target.toml.new"), b"form").unwrap();
    let target = open(dir.path(), 1);
    put(target.objects(), name(0xff, 0), 0, &data(b"a")).unwrap();
}

#[tokio::test]
async fn many_at_once_leave_every_object_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (target, _) = open_faulty(dir.path(), 4);
    let mut tasks = Vec::new();
    for inode in 0..32u64 {
        for part in 0..8u64 {
            let target = Arc::clone(&target);
            tasks.push(tokio::spawn(async move {
                let bytes = data(&[inode as u8; 1000]);
                target.run(move |o| put(o, name(inode, 0), part * 1000, &bytes)).await.unwrap();
                target.run(move |o| o.commit(at(name(inode, 0)))).await.unwrap();
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(target.objects().count(), 32);
    for inode in 0..32u64 {
        let read = target.objects().read(at(name(inode, 0)), 0, 100_000).unwrap();
        assert_eq!(read.data, vec![inode as u8; 8000]);
    }
}
