//! Byte-range locks between two clients. Only v4: neither Heorot nor nfs-rs has NLM.

use bytes::Bytes;
use nfs_rs::NfsError;

use crate::file::{OpenFile, put};
use crate::scene::{V4, Version, each, mount, refusal};

const READ: u32 = 1; // READ_LT
const WRITE: u32 = 2; // WRITE_LT
const TO_THE_END: u64 = u64::MAX;

/// nfs-rs decodes the owner and range of a conflicting lock in v4.0 only: a story finds the edges of a lock
/// by locks on the bytes beside them.
#[track_caller]
fn assert_denied<T: std::fmt::Debug>(result: nfs_rs::Result<T>) {
    assert_eq!(refusal(result), "DENIED");
}

/// All locks of one owner on one file have one stateid, and each change makes the earlier ones old; nfs-rs
/// keeps that of the LOCK. A sequence of 0 means the newest (RFC 8881, section 8.2.2).
fn newest(stateid: &[u8]) -> Bytes {
    let mut newest = stateid.to_vec();
    newest[..4].fill(0);
    newest.into()
}

/// ```text
/// ash lock write 100..200   -> ok
/// elm lock write 150..160   -> denied: write 100..200
/// elm lock write 200..300   -> ok
/// ash unlock 100..200       -> ok
/// elm lock write 150..160   -> ok
/// ash lock write 0..        -> denied
/// ```
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_keeps_the_other_out_until_it_is_given_up() {
    each(&V4, async |scene| {
        put(&scene.ash, "file", b"").await;
        let ash = OpenFile::open(&scene.ash, "file").await;
        let elm = OpenFile::open(&scene.elm, "file").await;
        let (a, e) = (ash.handle.clone(), elm.handle.clone());

        let first = scene.ash.lock_stateful(a.clone(), WRITE, 100, 100).await.expect("lock");
        assert_denied(scene.elm.lock_stateful(e.clone(), WRITE, 150, 10).await);
        assert_denied(scene.elm.lock_stateful(e.clone(), READ, 0, 101).await);
        assert_denied(scene.elm.lock_test(e.clone(), READ, 199, 1).await);
        scene.elm.lock_test(e.clone(), WRITE, 0, 100).await.expect("nobody has 0..100");
        let elms = scene.elm.lock(e.clone(), WRITE, 200, 100).await.expect("lock beside it");

        scene.ash.unlock_stateful(first).await.expect("unlock");
        scene.elm.lock(e.clone(), WRITE, 150, 10).await.expect("lock what is free now");
        assert_denied(scene.ash.lock_stateful(a.clone(), WRITE, 0, TO_THE_END).await);
        scene.elm.locku(e.clone(), newest(&elms), WRITE, 150, 10).await.expect("unlock");
        scene.elm.locku(e, newest(&elms), WRITE, 200, 100).await.expect("unlock");
        let all = scene.ash.lock_stateful(a, WRITE, 0, TO_THE_END).await.expect("lock all of it");
        scene.ash.unlock_stateful(all).await.expect("unlock");
        ash.close().await;
        elm.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_share_and_a_writer_waits_for_all_of_them() {
    each(&V4, async |scene| {
        put(&scene.ash, "file", b"").await;
        let ash = OpenFile::open(&scene.ash, "file").await;
        let elm = OpenFile::open(&scene.elm, "file").await;
        let (a, e) = (ash.handle.clone(), elm.handle.clone());
        let one = scene.ash.lock_stateful(a.clone(), READ, 0, 100).await.expect("lock to read");
        let other = scene.elm.lock_stateful(e.clone(), READ, 50, 100).await.expect("lock to read");
        // An owner changes its own lock to another kind, if no other lock conflicts.
        assert_denied(scene.ash.lock_stateful(a.clone(), WRITE, 0, 100).await);
        let upgraded =
            scene.ash.lock_stateful(a.clone(), WRITE, 0, 50).await.expect("upgrade what is its own");
        assert_denied(scene.elm.lock_test(e.clone(), READ, 49, 1).await);
        scene.elm.unlock_stateful(other).await.expect("unlock");
        let whole = scene.ash.lock_stateful(a.clone(), WRITE, 0, 100).await.expect("upgrade the rest");
        assert_denied(scene.elm.lock_test(e, READ, 99, 1).await);
        scene.ash.unlock_stateful(whole).await.expect("unlock");
        drop((one, upgraded)); // tokens of the same stateid, and of ranges that are free now
        ash.close().await;
        elm.close().await;
    })
    .await;
}

/// Unlocking the middle of a range leaves both its ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_a_lock_can_be_given_up() {
    each(&V4, async |scene| {
        put(&scene.ash, "file", b"").await;
        let ash = OpenFile::open(&scene.ash, "file").await;
        let elm = OpenFile::open(&scene.elm, "file").await;
        let (a, e) = (ash.handle.clone(), elm.handle.clone());
        let stateid = scene.ash.lock(a.clone(), WRITE, 0, 300).await.expect("lock");
        scene.ash.locku(a.clone(), stateid, WRITE, 100, 100).await.expect("unlock the middle");
        let middle = scene.elm.lock_stateful(e.clone(), WRITE, 100, 100).await.expect("lock the middle");
        assert_denied(scene.elm.lock_test(e.clone(), WRITE, 99, 1).await);
        assert_denied(scene.elm.lock_test(e.clone(), WRITE, 200, 1).await);
        scene.elm.unlock_stateful(middle).await.expect("unlock");
        elm.close().await;
        ash.close().await;
    })
    .await;
}

/// CLOSE releases the owner's locks (or fails with LOCKS_HELD, which Heorot does not do), and so does the end
/// of the client.
#[tokio::test(flavor = "multi_thread")]
async fn locks_end_with_the_open_and_with_the_client() {
    each(&V4, async |scene| {
        put(&scene.ash, "file", b"").await;
        let elm = OpenFile::open(&scene.elm, "file").await;
        let e = elm.handle.clone();
        let ash = OpenFile::open(&scene.ash, "file").await;
        scene.ash.lock_stateful(ash.handle.clone(), WRITE, 0, 10).await.expect("lock");
        assert_denied(scene.elm.lock_test(e.clone(), WRITE, 0, 1).await);
        ash.close().await;
        scene.elm.lock_test(e.clone(), WRITE, 0, 1).await.expect("free after CLOSE");

        let guest = mount(scene.server, scene.version, &scene.folder).await;
        let open = OpenFile::open(&guest, "file").await;
        guest.lock_stateful(open.handle.clone(), WRITE, 0, TO_THE_END).await.expect("lock");
        assert_denied(scene.elm.lock_test(e.clone(), WRITE, 5, 1).await);
        guest.umount().await.expect("unmount");
        scene.elm.lock_test(e, WRITE, 5, 1).await.expect("free after the client went");
        elm.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v3_has_no_locks() {
    each(&[Version::V3], async |scene| {
        put(&scene.ash, "file", b"").await;
        let file = scene.ash.lookup_path("file").await.expect("look up").fh;
        let refused = scene.ash.lock_stateful(file, WRITE, 0, 1).await;
        assert!(matches!(refused, Err(NfsError::Unsupported(_))), "{refused:?}");
    })
    .await;
}
