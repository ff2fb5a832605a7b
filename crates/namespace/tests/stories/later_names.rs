//! What a directory, or a volume, got after a snapshot lengthens neither its listings nor the commands of its clones.

use std::cell::Cell;
use std::ops::ControlFlow;

use namespace::*;
use store::{StoreError, View, Visitor};

use crate::world::*;

const NAME: &str = "base";
/// Made after the snapshot.
const LATER: u64 = 30_000;
/// Made before.
const FILES: usize = 40;

/// View that counts the records that it shows.
struct Counted<'a>(&'a dyn View, &'a Cell<usize>);

impl View for Counted<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.1.update(|reads| reads + 1);
        self.0.get(key)
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut Visitor<'_>) -> Result<(), StoreError> {
        self.0.scan(from, to, &mut |key, value| {
            self.1.update(|reads| reads + 1);
            visit(key, value)
        })
    }
}

impl World {
    fn make_many(&mut self, dir: InodeId) {
        self.many(LATER, |n| {
            let name = format!("later-{n}");
            (None, Command::Create(create(dir, name.as_bytes(), NewNode::File(LAYOUT), Exists::Refuse)))
        });
    }

    /// Names of a directory, and the records that the listing reads.
    fn listed(&self, dir: InodeId) -> (Vec<String>, usize) {
        let (store, reads) = (self.store.snapshot().expect("a snapshot"), Cell::new(0));
        let mut names = Vec::new();
        read::list(&Snapshots(Counted(&*store, &reads)), dir, 0, |entry| {
            names.push(String::from_utf8(entry.name).expect("text"));
            ControlFlow::Continue(())
        })
        .expect("lists");
        (names, reads.get())
    }
}

#[test]
fn names_that_a_directory_got_after_a_snapshot_are_looked_at_by_no_listing_of_it_and_no_promotion() {
    // The end of the keys of a directory whose number ends in ones is shorter than others.
    for last_byte in [0x42, 0xff] {
        later_names_of_a_directory(last_byte);
    }
}

fn later_names_of_a_directory(last_byte: u64) {
    let mut w = World::new();
    let v = w.volume("/v").expect("makes");
    w.is_large = true;
    let dir = (0..256)
        .map(|_| {
            let _ = w.remove("/v/d");
            w.dir("/v/d")
        })
        .find(|dir| dir.0 & 0xff == last_byte)
        .expect("numbers follow each other");
    let names: Vec<String> = (0..FILES).map(|n| format!("f{n}")).collect();
    for name in &names {
        w.small_file(&format!("/v/d/{name}"));
    }
    let snapshot = w.snapshot(v, NAME);
    w.make_many(dir);
    // Of what was there one is gone, one has another name, and one is replaced.
    w.remove("/v/d/f0").expect("removes");
    w.rename("/v/d/f1", "/v/d/other").expect("renames");
    w.rename("/v/d/later-0", "/v/d/f2").expect("renames");
    let in_snapshot = |w: &World| w.listed(dir.in_volume(snapshot.id));
    let (mut shown, reads) = in_snapshot(&w);
    shown.sort();
    let mut expected = names.clone();
    expected.sort();
    assert_eq!(shown, expected);
    assert!(reads < 20 * FILES, "{reads} records");

    let c = w.clone_of(&snapshot, "/c").expect("makes");
    w.remove_leftovers();
    w.small_file("/c/d/own");
    w.remove("/c/d/f3").expect("removes");
    expected.retain(|name| name != "f3");
    expected.push("own".into());
    expected.sort();
    let in_clone = |w: &World| {
        let (mut shown, reads) = w.listed(dir.in_volume(c));
        shown.sort();
        (shown, reads)
    };
    let (shown, reads) = in_clone(&w);
    assert_eq!(shown, expected);
    assert!(reads < 30 * FILES, "{reads} records");
    w.bounded(Command::Promote { volume: c });
    w.remove_leftovers();
    assert!(read::origin(&*w.view(), c).expect("reads").is_none());
    assert_eq!(in_clone(&w).0, expected);
    w.is_large = false;
    for name in &expected {
        w.remove(&format!("/c/d/{name}")).expect("its name is its own");
    }
    assert!(w.findings().is_empty());
}

#[test]
fn what_was_made_after_a_snapshot_does_not_lengthen_the_commands_of_its_clones() {
    let mut w = World::new();
    let v = w.volume("/v").expect("makes");
    w.is_large = true;
    for n in 0..FILES {
        w.small_file(&format!("/v/f{n}"));
    }
    let snapshot = w.snapshot(v, NAME);
    let dir = w.dir("/v/later");
    w.make_many(dir);
    let (root, name) = w.split("/c");
    let Reply::Created { inode, .. } =
        w.bounded(Command::MakeClone { snapshot: snapshot.id, dir: root, name })
    else {
        panic!("not made")
    };
    let c = inode.id.volume();
    w.small_file("/c/own");
    w.remove_leftovers();
    assert_eq!(w.usage(c, Subject::Volume).1, 42);
    assert!(w.findings().is_empty());
    w.bounded(Command::Promote { volume: c });
    w.remove_leftovers();
    assert!(read::origin(&*w.view(), c).expect("reads").is_none());
    assert!(w.findings().is_empty());
}
