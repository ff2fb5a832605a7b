//! Object epochs: what a client that lost its layout, or a call without an answer, may do no more.

use namespace::*;

use crate::world::*;

fn revoke(w: &mut World, client: ClientId, layout: Stateid) {
    w.apply(Command::LayoutReturn { client, scope: ReturnScope::Revoke { layout: layout.id } }).unwrap();
}

/// All that is pending was done.
fn do_deferred(w: &mut World) {
    let ids = w.deferred_ops().iter().map(|deferred| deferred.id).collect();
    w.apply(Command::DeferredDone { ids }).unwrap();
}

fn truncate(w: &mut World, path: &str) {
    w.set(path, SetAttributes { size: Some(7), ..SetAttributes::default() }).unwrap();
}

#[test]
fn a_revoked_layout_to_write_is_fenced_before_anybody_is_alone() {
    let mut w = World::new();
    let (a, b, c) = (w.client("a"), w.client("b"), w.client("c"));
    let f = w.file("/f");
    let (of_a, of_b) = (w.open(a, "/f", BOTH).unwrap(), w.open(b, "/f", BOTH).unwrap());
    let layout = w.layout(a, "/f", of_a, IoMode::ReadWrite).unwrap();
    let before = w.stat("/f").epoch;
    revoke(&mut w, a, layout);
    assert_eq!((w.stat("/f").epoch, w.deferred()), (before + 1, vec![(f, DeferredKind::Fence)]));
    assert!(read::pending_fence(&*w.view(), f).unwrap());
    let lock = |w: &mut World| w.lock_new(b, of_b, "l", LockKind::Write, 0..9);
    assert_eq!(lock(&mut w), Err(Error::Delay));
    assert_eq!(w.open_as(c, "o", "/f", READ, WRITE), Err(Error::ShareDenied), "a and b write");
    w.layout(b, "/f", of_b, IoMode::ReadWrite).expect("what it writes has the new epoch");
    w.close(a, of_a).unwrap();
    w.close(b, of_b).unwrap();
    assert_eq!(w.open_as(c, "o", "/f", READ, WRITE), Err(Error::Delay));
    let delegated = |w: &mut World| w.open_delegated(c, "/f").unwrap().1.is_some();
    assert!(!delegated(&mut w), "a may still write");
    do_deferred(&mut w);
    assert!(!read::pending_fence(&*w.view(), f).unwrap());
    w.open_as(c, "o", "/f", READ, WRITE).expect("it is fenced");
    let of_b = w.open(b, "/f", READ).unwrap();
    w.lock_new(b, of_b, "l", LockKind::Read, 0..9).unwrap();
}

#[test]
fn layouts_that_were_returned_or_only_read_need_no_fence() {
    let mut w = World::new();
    let a = w.client("a");
    w.file("/f");
    let open = w.open(a, "/f", BOTH).unwrap();
    let epoch = w.stat("/f").epoch;
    let returned = |scope| Command::LayoutReturn { client: a, scope };
    let layout = w.layout(a, "/f", open, IoMode::ReadWrite).unwrap();
    w.apply(returned(ReturnScope::Unknown { layout: layout.id })).unwrap();
    assert!(read::layouts(&*w.view(), w.id("/f")).unwrap().is_empty());
    w.layout(a, "/f", open, IoMode::ReadWrite).unwrap();
    w.apply(returned(ReturnScope::All)).unwrap();
    let layout = w.layout(a, "/f", open, IoMode::Read).unwrap();
    revoke(&mut w, a, layout);
    w.layout(a, "/f", open, IoMode::ReadWrite).unwrap();
    w.close(a, open).unwrap();
    assert_eq!((w.stat("/f").epoch, w.deferred()), (epoch, vec![]));
}

#[test]
fn a_lapsed_client_in_the_way_of_a_lock_ends_and_is_fenced_before_the_lock_is_granted() {
    let mut w = World::new();
    let (a, b) = (w.client("a"), w.client("b"));
    let f = w.file("/f");
    let (of_a, of_b) = (w.open(a, "/f", BOTH).unwrap(), w.open(b, "/f", BOTH).unwrap());
    w.lock_new(a, of_a, "l", LockKind::Write, 0..9).unwrap();
    w.layout(a, "/f", of_a, IoMode::ReadWrite).unwrap();
    w.lapse(a).unwrap();
    w.is_large = true; // this refusal changes the store
    let lock = |w: &mut World| w.lock_new(b, of_b, "l", LockKind::Write, 0..9);
    assert_eq!(lock(&mut w), Err(Error::Delay));
    assert_eq!((read::client(&*w.view(), a).unwrap(), w.deferred()), (None, vec![(f, DeferredKind::Fence)]));
    assert_eq!(lock(&mut w), Err(Error::Delay));
    do_deferred(&mut w);
    lock(&mut w).unwrap();
}

#[test]
fn a_lapsed_client_in_the_way_of_a_share_ends_and_is_fenced_before_the_open() {
    let mut w = World::new();
    let (a, b) = (w.client("a"), w.client("b"));
    w.file("/f");
    let of_a = w.open(a, "/f", BOTH).unwrap();
    w.layout(a, "/f", of_a, IoMode::ReadWrite).unwrap();
    w.lapse(a).unwrap();
    w.is_large = true;
    assert_eq!(w.open_as(b, "o", "/f", READ, WRITE), Err(Error::Delay));
    assert_eq!(read::client(&*w.view(), a).unwrap(), None);
    assert_eq!(read::opens(&*w.view(), w.id("/f")).unwrap(), [], "b has it not open");
    do_deferred(&mut w);
    w.open_as(b, "o", "/f", READ, WRITE).unwrap();
}

#[test]
fn an_open_that_ends_a_lapsed_writer_tells_of_the_fence() {
    let mut w = World::new();
    let (a, b) = (w.client("a"), w.client("b"));
    let f = w.file("/f");
    let of_a = w.open_as(a, "o", "/f", BOTH, READ).unwrap();
    w.layout(a, "/f", of_a, IoMode::ReadWrite).unwrap();
    w.lapse(a).unwrap();
    let before = w.stat("/f");
    let truncated = w.open_create(b, "/f", Exists::Take, true);
    assert_eq!(truncated, Err(Error::Delay), "a has a layout");
    let reply = w.open_create(b, "/f", Exists::Take, false).unwrap();
    let Reply::Opened { inode, .. } = reply else { panic!("{reply:?}") };
    assert_eq!((&inode, read::client(&*w.view(), a).unwrap()), (&w.stat("/f"), None));
    assert!(inode.layout_epoch > before.layout_epoch, "the handles of a are void");
    assert_eq!(w.deferred(), [(f, DeferredKind::Fence)]);
}

#[test]
fn a_truncation_is_a_fence_and_is_done_with_the_last_epoch() {
    let mut w = World::new();
    let a = w.client("a");
    let f = w.file("/f");
    let open = w.open(a, "/f", BOTH).unwrap();
    let layout = w.layout(a, "/f", open, IoMode::ReadWrite).unwrap();
    revoke(&mut w, a, layout);
    truncate(&mut w, "/f");
    assert_eq!(w.deferred(), [(f, DeferredKind::Truncate(7))]);
    let first = w.deferred_ops()[0].id;
    let epoch = w.stat("/f").epoch;
    w.apply(Command::RaiseEpoch { inode: f, epoch }).unwrap();
    assert_eq!(w.deferred(), [(f, DeferredKind::Truncate(7))]);
    assert_eq!(w.stat("/f").epoch, epoch + 1);
    assert_ne!(w.deferred_ops()[0].id, first, "an outcome of the earlier epoch does not count");
    w.apply(Command::RaiseEpoch { inode: f, epoch }).unwrap();
    assert_eq!(w.stat("/f").epoch, epoch + 1, "raised meanwhile");
    w.remove("/f").unwrap();
    w.close(a, open).unwrap();
    assert_eq!(w.deferred(), [(f, DeferredKind::Remove)]);
}

#[test]
fn a_claim_makes_void_what_another_metaserver_writes_for_the_same_request() {
    let mut w = World::new();
    let a = w.client("a");
    let f = w.file("/f");
    let session = read::sessions(&*w.view(), a).unwrap()[0];
    let of = |sequence, index| CompoundRequest { session, slot: 0, sequence, index };
    let claim = |w: &mut World, id| {
        let command = Command::ClaimWrite { inode: f, id, of: of(5, 32) };
        w.apply_from(Some(RequestId::Compound(of(5, 35))), command)
    };
    let holder = |w: &World, sequence| claimant(&*w.view(), &of(sequence, 35)).unwrap();
    let epoch = w.stat("/f").epoch;
    assert_eq!(holder(&w, 5), Claimant::Unclaimed);
    assert_eq!(claim(&mut w, 7), Ok(Reply::Claimed { id: 7 }));
    assert_eq!((holder(&w, 5), w.stat("/f").epoch), (Claimant::Attempt(7), epoch + 1));
    // Each claim has an epoch of its own, also after another change of the request.
    w.apply_from(Some(RequestId::Compound(of(5, 33))), Command::RaiseEpoch { inode: f, epoch }).unwrap();
    assert_eq!(claim(&mut w, 8), Ok(Reply::Claimed { id: 8 }));
    assert_eq!((holder(&w, 5), w.stat("/f").epoch), (Claimant::Attempt(8), epoch + 2));
    let wrote = |epoch| Command::Wrote { inode: f, end: 9, bytes: 1 << 40, epoch };
    let end = Some(RequestId::Compound(of(5, 32)));
    assert!(matches!(w.apply_from(end, wrote(epoch + 2)), Ok(Reply::Attributes { .. })));
    // The client has its answer, and may have written other data.
    assert_eq!(claim(&mut w, 9), Err(Error::Misordered));
    assert_eq!(w.stat("/f").epoch, epoch + 2);
    // Also for an attempt that has made no claim.
    assert_eq!((holder(&w, 4), holder(&w, 5)), (Claimant::Past, Claimant::Past));
    assert_eq!(holder(&w, 6), Claimant::Unclaimed);
    w.apply(Command::DestroySession { session }).unwrap();
    assert_eq!(holder(&w, 6), Claimant::Past);
}

#[test]
fn each_further_try_of_a_migration_has_an_epoch_of_its_own() {
    let mut w = World::new();
    let inode = w.small_file("/f");
    w.write_small("/f", 0, "data").unwrap();
    let migrate = Command::Migrate { inode, made: None };
    w.apply(migrate.clone()).unwrap();
    let (epoch, layout) = (w.stat("/f").epoch, w.stat("/f").layout().unwrap());
    w.apply(migrate.clone()).unwrap();
    assert_eq!(w.stat("/f").epoch, epoch + 1);
    let late = Command::Migrated { inode, layout, epoch };
    assert_eq!(w.apply(late), Err(Error::Delay), "the second try writes now");
    w.apply(Command::Migrated { inode, layout, epoch: epoch + 1 }).unwrap();
    w.apply(migrate).unwrap();
    assert_eq!(w.stat("/f").epoch, epoch + 1, "it is done");
}

/// A metaserver looks whether a column is empty, a client of another one writes to it, and returns its layout
/// before the command comes.
#[test]
fn a_column_that_was_written_after_it_was_looked_at_is_not_moved() {
    let mut w = World::new();
    let a = w.client("a");
    let inode = w.file("/f");
    let from = w.stat("/f").columns().unwrap();
    let to = FileLayout { device: DeviceId(from.device.0 + 1), ..from };
    let open = w.open(a, "/f", BOTH).unwrap();
    let checked = w.version("/f");
    w.layout(a, "/f", open, IoMode::ReadWrite).unwrap();
    w.close(a, open).unwrap();
    assert_eq!(w.apply(Command::Relocate { inode, from, to, checked }), Err(Error::Delay));
    let checked = w.version("/f");
    w.wrote("/f", 5).unwrap();
    assert_eq!(w.apply(Command::Relocate { inode, from, to, checked }), Err(Error::Delay));
    let checked = w.version("/f");
    w.apply(Command::Relocate { inode, from, to, checked }).unwrap();
    assert_eq!(w.stat("/f").epoch, checked.epoch + 1);
}

/// The layouts of a client that has ended are leftovers, and not fenced yet.
#[test]
fn a_leftover_layout_keeps_others_from_locks_until_it_is_fenced() {
    let mut w = World::new();
    let (a, b) = (w.client("a"), w.client("b"));
    w.is_large = true;
    let paths: Vec<String> = (0..RECORDS_OF_COMMAND_MAX).map(|n| format!("/f{n}")).collect();
    for path in &paths {
        w.file(path);
        let open = w.open(a, path, BOTH).unwrap();
        w.layout(a, path, open, IoMode::ReadWrite).unwrap();
    }
    let last = paths.last().unwrap();
    let of_b = w.open(b, last, BOTH).unwrap();
    w.expire(a).unwrap();
    assert_eq!(read::layouts(&*w.view(), w.id(last)).unwrap(), [], "it conflicts with nothing");
    assert!(!read::pending_fence(&*w.view(), w.id(last)).unwrap());
    let lock = |w: &mut World| w.lock_new(b, of_b, "l", LockKind::Write, 0..9);
    assert_eq!(lock(&mut w), Err(Error::Delay));
    w.remove_leftovers();
    assert_eq!(lock(&mut w), Err(Error::Delay));
    assert_eq!(w.deferred().len(), paths.len());
    do_deferred(&mut w);
    lock(&mut w).unwrap();
}
