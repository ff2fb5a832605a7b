//! Conformance of stores: each test runs on every engine.

use std::ops::ControlFlow;

use store::{Durability, Edit, MemoryStore, RedbStore, Store, StoreError, View};

/// Runs each test on an empty store of each engine.
macro_rules! on_every_engine {
    ($($story:ident),* $(,)?) => {
        mod memory {
            $(#[test]
            fn $story() {
                super::$story(&super::MemoryStore::new());
            })*
        }
        mod redb {
            $(#[test]
            fn $story() {
                let dir = tempfile::tempdir().expect("a directory");
                super::$story(&super::open(dir.path()));
            })*
        }
    };
}

on_every_engine![
    what_is_put_is_got_until_it_is_deleted,
    a_scan_is_in_key_order_and_within_its_bounds,
    a_scan_ends_where_the_visitor_breaks,
    a_scan_that_is_upside_down_or_empty_visits_nothing,
    a_batch_reads_its_own_writes,
    a_batch_that_fails_leaves_nothing,
    a_snapshot_does_not_see_later_batches,
    a_snapshot_can_be_taken_during_a_batch,
    empty_keys_and_values_are_keys_and_values,
    a_deferred_commit_is_visible_at_once,
    a_read_finds_the_newest_of_what_is_on_disk_and_what_is_not,
    a_commit_loses_nothing_of_the_batches_beside_it,
];

fn what_is_put_is_got_until_it_is_deleted(store: &dyn Store) {
    put(store, &[("a", "1"), ("b", "2")]);
    put(store, &[("a", "3")]);
    assert_eq!(all(store), pairs(&[("a", "3"), ("b", "2")]));
    store.batch(Durability::Deferred, &mut |edit| edit.delete(b"a")).expect("commits");
    store.batch(Durability::Deferred, &mut |edit| edit.delete(b"never there")).expect("commits");
    assert_eq!(all(store), pairs(&[("b", "2")]));
    assert_eq!(store.snapshot().expect("a snapshot").get(b"a").expect("reads"), None);
}

fn a_scan_is_in_key_order_and_within_its_bounds(store: &dyn Store) {
    put(store, &[("b", "2"), ("ab", "1"), ("c", "3"), ("a", "0"), ("b\0", "2.5")]);
    let view = store.snapshot().expect("a snapshot");
    assert_eq!(
        scan(&*view, b"a", b"c"),
        pairs(&[("a", "0"), ("ab", "1"), ("b", "2"), ("b\0", "2.5")]),
        "from is within, to is not"
    );
    assert_eq!(scan(&*view, b"aa", b"b"), pairs(&[("ab", "1")]));
    assert_eq!(scan(&*view, b"c", b"\xff"), pairs(&[("c", "3")]));
}

fn a_scan_ends_where_the_visitor_breaks(store: &dyn Store) {
    put(store, &[("a", "0"), ("b", "1"), ("c", "2")]);
    let mut seen = 0;
    let view = store.snapshot().expect("a snapshot");
    view.scan(b"a", b"z", &mut |_, _| {
        seen += 1;
        if seen == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .expect("scans");
    assert_eq!(seen, 2);
}

fn a_scan_that_is_upside_down_or_empty_visits_nothing(store: &dyn Store) {
    put(store, &[("a", "0"), ("b", "1")]);
    let view = store.snapshot().expect("a snapshot");
    assert_eq!(scan(&*view, b"b", b"a"), []);
    assert_eq!(scan(&*view, b"a", b"a"), []);
    store
        .batch(Durability::Deferred, &mut |edit| {
            assert_eq!(scan(edit, b"b", b"a"), []);
            assert_eq!(scan(edit, b"a", b"a"), []);
            Ok(())
        })
        .expect("commits");
}

fn a_batch_reads_its_own_writes(store: &dyn Store) {
    put(store, &[("a", "0"), ("c", "2"), ("d", "3"), ("f", "5")]);
    store
        .batch(Durability::Deferred, &mut |edit| {
            edit.put(b"b", b"new")?;
            edit.put(b"c", b"changed")?;
            edit.delete(b"d")?;
            edit.put(b"e", b"passing")?;
            edit.delete(b"e")?;
            edit.put(b"g", b"last")?;
            assert_eq!(edit.get(b"b")?.as_deref(), Some(&b"new"[..]));
            assert_eq!(edit.get(b"d")?, None);
            assert_eq!(
                scan(edit, b"a", b"z"),
                pairs(&[("a", "0"), ("b", "new"), ("c", "changed"), ("f", "5"), ("g", "last")])
            );
            assert_eq!(scan(edit, b"b", b"d"), pairs(&[("b", "new"), ("c", "changed")]));
            Ok(())
        })
        .expect("commits");
    assert_eq!(all(store), pairs(&[("a", "0"), ("b", "new"), ("c", "changed"), ("f", "5"), ("g", "last")]));
}

fn a_batch_that_fails_leaves_nothing(store: &dyn Store) {
    put(store, &[("a", "0"), ("b", "1")]);
    let outcome = store.batch(Durability::Immediate, &mut |edit| {
        edit.put(b"a", b"lost")?;
        edit.delete(b"b")?;
        edit.put(b"c", b"lost")?;
        Err(StoreError::failed("test", "on purpose"))
    });
    assert_eq!(outcome.expect_err("it failed").doing, "test");
    assert_eq!(all(store), pairs(&[("a", "0"), ("b", "1")]));
    put(store, &[("c", "2")]);
    assert_eq!(all(store), pairs(&[("a", "0"), ("b", "1"), ("c", "2")]), "and the store goes on");
}

fn a_snapshot_does_not_see_later_batches(store: &dyn Store) {
    put(store, &[("a", "0"), ("b", "1")]);
    let before = store.snapshot().expect("a snapshot");
    store
        .batch(Durability::Immediate, &mut |edit| {
            edit.put(b"a", b"later")?;
            edit.delete(b"b")?;
            edit.put(b"c", b"later")
        })
        .expect("commits");
    assert_eq!(scan(&*before, b"a", b"z"), pairs(&[("a", "0"), ("b", "1")]));
    assert_eq!(before.get(b"c").expect("reads"), None);
    assert_eq!(all(store), pairs(&[("a", "later"), ("c", "later")]));
}

fn a_snapshot_can_be_taken_during_a_batch(store: &dyn Store) {
    put(store, &[("a", "0")]);
    store
        .batch(Durability::Deferred, &mut |edit| {
            edit.put(b"a", b"1")?;
            assert_eq!(all(store), pairs(&[("a", "0")]), "and sees nothing of it");
            Ok(())
        })
        .expect("commits");
    assert_eq!(all(store), pairs(&[("a", "1")]));
}

fn empty_keys_and_values_are_keys_and_values(store: &dyn Store) {
    put(store, &[("", "nothing"), ("k", "")]);
    let view = store.snapshot().expect("a snapshot");
    assert_eq!(view.get(b"").expect("reads").as_deref(), Some(&b"nothing"[..]));
    assert_eq!(view.get(b"k").expect("reads").as_deref(), Some(&b""[..]));
    assert_eq!(scan(&*view, b"", b"z"), pairs(&[("", "nothing"), ("k", "")]));
}

fn a_deferred_commit_is_visible_at_once(store: &dyn Store) {
    store.batch(Durability::Deferred, &mut |edit| edit.put(b"a", b"0")).expect("commits");
    assert_eq!(all(store), pairs(&[("a", "0")]));
}

fn a_read_finds_the_newest_of_what_is_on_disk_and_what_is_not(store: &dyn Store) {
    put(store, &[("a", "0"), ("b", "1"), ("d", "2"), ("e", "3")]);
    let before = store.snapshot().expect("a snapshot");
    let later = |edit: &mut dyn Edit| {
        edit.delete(b"a")?;
        edit.put(b"c", b"new")?;
        edit.put(b"d", b"again")?;
        edit.delete(b"e")
    };
    store.batch(Durability::Deferred, &mut |edit| later(edit)).expect("commits");
    let expected = pairs(&[("b", "1"), ("c", "new"), ("d", "again")]);
    assert_eq!(all(store), expected);
    let view = store.snapshot().expect("a snapshot");
    assert_eq!(view.get(b"e").expect("reads"), None);
    assert_eq!(scan(&*view, b"b\0", b"d"), pairs(&[("c", "new")]));
    put(store, &[]);
    assert_eq!(all(store), expected, "and the same from the disk");
    store.batch(Durability::Deferred, &mut |edit| edit.put(b"e", b"back")).expect("commits");
    assert_eq!(
        scan(&*store.snapshot().expect("a snapshot"), b"d", b"f"),
        pairs(&[("d", "again"), ("e", "back")])
    );
    assert_eq!(scan(&*before, b"a", b"z"), pairs(&[("a", "0"), ("b", "1"), ("d", "2"), ("e", "3")]));
}

fn a_commit_loses_nothing_of_the_batches_beside_it(store: &dyn Store) {
    std::thread::scope(|threads| {
        let commits = threads.spawn(|| (0..20).for_each(|_| put(store, &[])));
        for n in 0..2000u32 {
            let key = n.to_be_bytes();
            store.batch(Durability::Deferred, &mut |edit| edit.put(&key, b"there")).expect("commits");
            assert!(store.snapshot().expect("a snapshot").get(&key).expect("reads").is_some(), "{n}");
        }
        commits.join().expect("no panic");
    });
    assert_eq!(all(store).len(), 2000);
}

#[test]
fn a_store_that_was_closed_is_as_it_was_when_opened_again() {
    let dir = tempfile::tempdir().expect("a directory");
    for round in 0..3 {
        let store = open(dir.path());
        let names = ["0", "1", "2"];
        let before: Vec<_> = names[..round].iter().map(|name| (*name, "kept")).collect();
        assert_eq!(all(&store), pairs(&before));
        put(&store, &[(names[round], "kept")]);
    }
}

#[test]
fn a_file_that_is_not_a_store_is_refused_by_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("letter.txt");
    std::fs::write(&path, "Dear Hrothgar, ".repeat(1000)).expect("writes");
    let error = RedbStore::open(&path, CACHE_BYTES).expect_err("not a store");
    assert!(error.to_string().contains("letter.txt"), "{error}");
}

#[test]
fn a_store_in_use_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let _open = open(dir.path());
    RedbStore::open(dir.path().join("store"), CACHE_BYTES).expect_err("in use");
}

const CACHE_BYTES: usize = 1024 * 1024;

fn open(dir: &std::path::Path) -> RedbStore {
    RedbStore::open(dir.join("store"), CACHE_BYTES).expect("opens")
}

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn pairs(pairs: &[(&str, &str)]) -> Pairs {
    pairs.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

fn put(store: &dyn Store, pairs: &[(&str, &str)]) {
    store
        .batch(Durability::Immediate, &mut |edit: &mut dyn Edit| {
            pairs.iter().try_for_each(|(key, value)| edit.put(key.as_bytes(), value.as_bytes()))
        })
        .expect("commits");
}

fn all(store: &dyn Store) -> Pairs {
    scan(&*store.snapshot().expect("a snapshot"), b"", b"\xff\xff")
}

fn scan<V: View + ?Sized>(view: &V, from: &[u8], to: &[u8]) -> Pairs {
    let mut pairs = Vec::new();
    view.scan(from, to, &mut |key, value| {
        pairs.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    })
    .expect("scans");
    pairs
}
