//! The time that the largest of the bounded commands take, on a store on disk:
//! `cargo test --release -p namespace --test stories -- --ignored --nocapture measured`.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // a test may have files, and a clock

use std::time::{Duration, Instant};

use namespace::*;
use store::RedbStore;

use crate::world::*;

const MEMORY_BYTES: usize = 256 << 20;

/// The longest and the mean time of `RemoveLeftovers`, until there are none.
fn remove_leftovers(w: &mut World) -> String {
    let (mut times, mut changes_max) = (Vec::new(), 0);
    while read::has_leftovers(&*w.view()).unwrap() {
        let (reply, counts) = w.counted(Command::RemoveLeftovers);
        times.push(counts.time);
        changes_max = changes_max.max(counts.changes);
        assert_eq!(reply, Reply::Done);
    }
    let mean = times.iter().sum::<Duration>() / times.len().max(1) as u32;
    times.sort_unstable();
    let most = times[times.len() * 99 / 100];
    format!("{} commands, {changes_max} changes at most, mean {mean:?}, 99 % in {most:?}", times.len())
}

fn timed(w: &mut World, what: &str, command: Command) -> Reply {
    let (reply, counts) = w.counted(command);
    println!("{what}: {:?}, {} reads, {} changes", counts.time, counts.reads.get(), counts.changes);
    reply
}

#[test]
#[ignore = "it measures"]
fn the_largest_commands() {
    let path = std::env::temp_dir().join(format!("heorot-measured-{}", std::process::id()));
    let mut w = World::over(Box::new(RedbStore::open(&path, MEMORY_BYTES).expect("a store")));
    w.is_large = true;
    let (a, b) = (w.client("a"), w.client("b"));
    let (many, locked) = (w.file("/many"), w.file("/f"));
    let (by_a, by_b) = (w.open(a, "/f", BOTH).unwrap(), w.open(b, "/f", BOTH).unwrap());
    let open = |client, owner: Vec<u8>, inode, deny| {
        let (target, export) = (OpenTarget::Inode(inode), InodeId::ROOT);
        Command::Open(Open { client, owner, target, access: READ, deny, delegate: false, export })
    };
    w.many(200_000, |n| (None, open(a, n.to_be_bytes().to_vec(), many, NONE)));
    w.many(200_000, |n| {
        let owner = LockOwner::New { open: by_a, owner: (n % 100).to_be_bytes().to_vec() };
        let range = ByteRange { start: n * 10, end: n * 10 + 5 };
        (None, Command::Lock { client: a, inode: locked, owner, kind: LockKind::Read, range })
    });
    let lock = |start: u64, len| {
        let owner = LockOwner::New { open: by_b, owner: start.to_be_bytes().to_vec() };
        let range = ByteRange { start, end: start + len };
        Command::Lock { client: b, inode: locked, owner, kind: LockKind::Write, range }
    };
    timed(&mut w, "LOCK between 200,000 ranges", lock(1_500_005, 5));
    timed(&mut w, "LOCK among 200,000 ranges, denied", lock(500_000, 1_000_000));
    w.lapse(a).unwrap();
    timed(&mut w, "ExpireClient of 400,000 states and ranges", Command::ExpireClient { client: a });
    timed(&mut w, "OPEN among leftovers, delayed", open(b, b"x".to_vec(), many, READ));
    timed(&mut w, "LOCK among leftovers, delayed", lock(1_200_000, 1_000_000));
    println!("RemoveLeftovers: {}", remove_leftovers(&mut w));
    std::fs::remove_file(&path).expect("removes the store");
}

/// Files of each row.
const FILES: u64 = 20_000;

/// Time of some changes of many small files, and of look-ups of them, in a volume with or without a snapshot.
fn rows(has_snapshot: bool) -> Vec<(&'static str, Duration)> {
    let path = std::env::temp_dir().join(format!("heorot-measured-rows-{}", std::process::id()));
    let mut w = World::over(Box::new(RedbStore::open(&path, MEMORY_BYTES).expect("a store")));
    w.is_large = true;
    let name = |kind: &str, n: u64| format!("{kind}{n:08}").into_bytes();
    let file = |name: Vec<u8>| create(InodeId::ROOT, &name, NewNode::File(LAYOUT), Exists::Refuse);
    let first = InodeId::ROOT.0 + 1;
    let write = |n: u64| {
        let (inode, data) = (InodeId(first + n), vec![n as u8; 4096].into());
        Command::WriteInline { inode, offset: 0, data }
    };
    w.many(FILES, |n| (None, Command::Create(file(name("a", n)))));
    w.many(FILES, |n| (None, write(n)));
    if has_snapshot {
        let made = w.apply(Command::MakeSnapshot { volume: VolumeId::FIRST, name: b"one".to_vec() });
        assert!(matches!(made, Ok(Reply::Snapshot { made: Some(_) })));
    }
    let mut rows = Vec::new();
    let mut timed = |what, work: &mut dyn FnMut()| {
        let began = Instant::now();
        work();
        rows.push((what, began.elapsed()));
    };
    timed("creates", &mut || w.many(FILES, |n| (None, Command::Create(file(name("b", n))))));
    timed("first overwrites of 4 KiB", &mut || w.many(FILES, |n| (None, write(n))));
    timed("overwrites of 4 KiB", &mut || w.many(FILES, |n| (None, write(n))));
    let rename = |from: &'static str, to: &'static str| {
        move |n| {
            let (from, to) = (name(from, n), name(to, n));
            (None, Command::Rename { from_dir: InodeId::ROOT, from, to_dir: InodeId::ROOT, to })
        }
    };
    timed("first renames", &mut || w.many(FILES, rename("a", "c")));
    timed("renames", &mut || w.many(FILES, rename("c", "d")));
    let view = w.view();
    timed("look-ups", &mut || {
        for n in 0..FILES {
            let found = read::lookup(&*view, InodeId::ROOT, &name("d", n)).expect("reads").expect("is there");
            read::inode(&*view, found).expect("reads").expect("is there");
        }
    });
    drop(view);
    std::fs::remove_file(&path).expect("removes the store");
    rows
}

#[test]
#[ignore = "it measures"]
fn what_a_snapshot_costs() {
    let mut ratios: Vec<(&str, Vec<f64>)> = Vec::new();
    for _ in 0..5 {
        let (without, with) = (rows(false), rows(true));
        for (at, ((what, before), (_, after))) in without.into_iter().zip(with).enumerate() {
            if ratios.len() <= at {
                ratios.push((what, vec![]));
            }
            ratios[at].1.push(after.as_secs_f64() / before.as_secs_f64());
            println!("{what}: {:?} without, {:?} with one", before / FILES as u32, after / FILES as u32);
        }
    }
    for (what, mut all) in ratios {
        all.sort_by(f64::total_cmp);
        println!("{what}: {:.2} of what it is without (median of {})", all[all.len() / 2], all.len());
    }
}
