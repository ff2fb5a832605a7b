//! Sizes that only the data servers know.

use namespace::*;

use crate::world::*;

/// A file with one layout to write out.
struct Written {
    w: World,
    client: ClientId,
    file: InodeId,
    open: Stateid,
    layout: Stateid,
}

fn written() -> Written {
    let mut w = World::new();
    let client = w.client("a");
    let file = w.file("/f");
    let open = w.open(client, "/f", BOTH).unwrap();
    let layout = w.layout(client, "/f", open, IoMode::ReadWrite).unwrap();
    Written { w, client, file, open, layout }
}

impl Written {
    fn mark(&self) -> Option<Unsettled> {
        read::unsettled(&*self.w.view(), self.file).unwrap()
    }

    fn to_settle(&self) -> Vec<InodeId> {
        read::to_settle(&*self.w.view(), InodeId(0), 10).unwrap()
    }

    /// What the data servers know now: data up to `end`, in their `version`.
    fn seen(&self, end: u64, version: u64) -> Observation {
        let (inode, epoch) = (self.file, self.w.inode(self.file).map_or(0, |inode| inode.epoch));
        let grant = self.mark().map_or(0, |mark| mark.grant);
        Observation { inode, grant, epoch, end, modified: at(1), version, durable: false, space_used: None }
    }

    fn observe(&mut self, seen: Observation) {
        assert_eq!(self.w.apply(Command::Observe { files: vec![seen] }), Ok(Reply::Done));
    }

    fn size_and_change(&self) -> (u64, u64) {
        let file = self.w.stat("/f");
        (file.size, file.change)
    }
}

#[test]
fn what_the_data_servers_know_counts_once() {
    let mut t = written();
    let (size, change) = t.size_and_change();
    assert_eq!(size, 0);
    let seen = t.seen(300, 7);
    t.observe(seen);
    assert_eq!(t.size_and_change(), (300, change + 1));
    t.observe(seen);
    assert_eq!(t.size_and_change(), (300, change + 1), "no news");
    // Overwritten: as long, and another file all the same.
    t.observe(Observation { version: 8, ..seen });
    assert_eq!(t.size_and_change(), (300, change + 2));
    // A shorter one is older: sizes do not go back.
    t.observe(Observation { version: 6, end: 100, ..seen });
    assert_eq!(t.size_and_change().0, 300);
}

/// Whose data they are, nobody knows.
#[test]
fn data_that_nobody_reported_take_the_set_id_bits_away() {
    let mut t = written();
    let set = SetAttributes { mode: Some(0o6755), layout_of: Some(t.client), ..SetAttributes::default() };
    let first = t.seen(300, 7);
    t.observe(first);
    t.w.set("/f", set).unwrap();
    t.observe(first);
    assert_eq!(t.w.stat("/f").mode, 0o6755, "no news");
    t.observe(Observation { version: 8, ..first });
    assert_eq!(t.w.stat("/f").mode, 0o755);
}

#[test]
fn the_modification_time_neither_goes_back_nor_into_the_future() {
    let mut t = written();
    let now = t.w.stat("/f").modified;
    let seen = t.seen(1, 7);
    t.observe(Observation { modified: Time { seconds: -5, nanoseconds: 0 }, ..seen });
    assert_eq!(t.w.stat("/f").modified, now);
    t.observe(Observation { modified: at(1 << 40), version: 8, ..seen });
    assert_eq!(t.w.stat("/f").modified, at(t.w.seconds));
}

#[test]
fn an_observation_from_before_a_truncation_is_left_out() {
    let mut t = written();
    let seen = t.seen(300, 7);
    let truncation = SetAttributes { size: Some(10), layout_of: Some(t.client), ..SetAttributes::default() };
    t.w.set("/f", truncation).unwrap();
    t.observe(seen);
    assert_eq!(t.size_and_change().0, 10);
}

#[test]
fn a_layout_commit_takes_what_was_seen_with_it() {
    let mut t = written();
    let (_, change) = t.size_and_change();
    let commit = Command::LayoutCommit {
        client: t.client,
        inode: t.file,
        stateid: t.layout,
        last_write: Some(9),
        modified: None,
        observed: Some(t.seen(300, 7)),
    };
    assert_eq!(t.w.apply(commit), Ok(Reply::Committed { size: Some(300) }));
    assert_eq!(t.size_and_change(), (300, change + 1));
    let seen = t.seen(300, 7);
    t.observe(seen);
    assert_eq!(t.size_and_change(), (300, change + 1), "no news");
}

/// Every way in which a layout ends leaves the file to be settled.
#[test]
fn a_file_is_to_be_settled_when_its_last_layout_to_write_went() {
    let ends: [fn(&Written) -> Command; 4] = [
        |t| Command::LayoutReturn {
            client: t.client,
            scope: ReturnScope::File { inode: t.file, stateid: t.layout },
        },
        |t| Command::LayoutReturn { client: t.client, scope: ReturnScope::Revoke { layout: t.layout.id } },
        |t| Command::Close { client: t.client, stateid: t.open },
        |t| Command::ExpireClient { client: t.client },
    ];
    for end in ends {
        let mut t = written();
        assert_eq!(t.to_settle(), []);
        t.w.apply(Command::LapseLease { client: t.client, sequence: None }).unwrap();
        let end = end(&t);
        t.w.apply(end).unwrap();
        assert_eq!(t.to_settle(), [t.file]);
        let seen = t.seen(300, 7);
        t.observe(seen);
        assert_eq!(
            (t.size_and_change().0, t.to_settle().len()),
            (300, 1),
            "a data server may still lose that"
        );
        t.observe(Observation { durable: true, ..seen });
        assert_eq!((t.size_and_change().0, t.mark(), t.to_settle()), (300, None, vec![]));
    }
}

#[test]
fn what_was_seen_before_a_layout_was_granted_again_does_not_settle() {
    let mut t = written();
    let end = Command::LayoutReturn { client: t.client, scope: ReturnScope::All };
    t.w.apply(end.clone()).unwrap();
    let before = Observation { durable: true, ..t.seen(300, 7) };
    t.w.layout(t.client, "/f", t.open, IoMode::ReadWrite).unwrap();
    t.observe(before);
    assert!(t.mark().is_some(), "one can write");
    t.w.apply(end).unwrap();
    t.observe(before);
    assert_eq!(t.to_settle(), [t.file], "one could have written");
    let after = Observation { durable: true, ..t.seen(400, 8) };
    t.observe(after);
    assert_eq!((t.size_and_change().0, t.mark()), (400, None));
}

#[test]
fn a_file_that_is_gone_is_not_settled() {
    let mut t = written();
    t.w.remove("/f").unwrap();
    t.w.apply(Command::Close { client: t.client, stateid: t.open }).unwrap();
    assert_eq!((t.mark(), t.to_settle()), (None, vec![]));
}

#[test]
fn a_layout_to_read_settles_nothing_and_leaves_nothing_to_settle() {
    let mut w = World::new();
    let a = w.client("a");
    let f = w.file("/f");
    let open = w.open(a, "/f", READ).unwrap();
    w.layout(a, "/f", open, IoMode::Read).unwrap();
    w.close(a, open).unwrap();
    assert_eq!(read::unsettled(&*w.view(), f).unwrap(), None);
}
