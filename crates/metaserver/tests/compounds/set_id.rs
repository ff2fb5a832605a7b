//! Set-id bits go before the first byte of a write that takes them away, and a layout that is refused was not
//! granted.

use std::time::Duration;

use bytes::Bytes;
use namespace::{InodeId, read};
use wire::handle::{FileHandle as Handle, HandleKey};
use wire::nfs4::{ArgOp, Fattr, FileHandle, LayoutIoMode, StableHow, Stateid, Status};
use wire::nfs4::{layoutget, setattr, write};

use crate::ranges::grow;
use crate::raw::{Client, layoutget_op, putfh};
use crate::sessions::says;
use crate::world::{PATIENCE, World};

const BOTH: u32 = 3;

async fn set_mode(client: &mut Client, file: &FileHandle, mode: u32) {
    let obj_attributes = Box::new(Fattr { mode: Some(mode), ..Fattr::default() });
    let set = ArgOp::SetAttr(setattr::Args { stateid: Stateid::ANONYMOUS, obj_attributes });
    client.ok(vec![putfh(file), set]).await;
}

fn inode(world: &World, file: &FileHandle) -> namespace::Inode {
    let id = InodeId(Handle::open(&file.0, &HandleKey::new([9; 32])).expect("ours").inode);
    read::inode(&*world.replica.view().expect("a view"), id).expect("reads").expect("is there")
}

/// The write itself fails, as when the metaserver dies in the middle of it: its data server does not answer.
#[tokio::test]
async fn a_write_that_is_cut_short_has_taken_the_set_id_bits_already() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let (file, open) = ash.open("program", BOTH, 0).await.expect("opens");
    grow(&mut ash, &file, open, 1 << 20).await;
    set_mode(&mut ash, &file, 0o6777).await;
    ash.raw.uid = 7;
    let (file, stateid) = ash.open("program", BOTH, 0).await.expect("opens");
    let (offset, stable, data) = (0, StableHow::FileSync, Bytes::from_static(b"foreign").into());
    let write = ArgOp::Write(write::Args { stateid, offset, stable, data });
    assert_eq!(ash.status(vec![putfh(&file), write]).await, Status::Delay);
    assert_eq!(inode(&world, &file).mode, 0o777);
}

#[tokio::test]
async fn a_set_id_file_has_no_layout_to_write() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let (file, open) = ash.open("program", BOTH, 0).await.expect("opens");
    grow(&mut ash, &file, open, 1 << 20).await;
    set_mode(&mut ash, &file, 0o4755).await;
    let get = layoutget_op(open);
    assert_eq!(ash.status(vec![putfh(&file), get.clone()]).await, Status::LayoutUnavailable);
    set_mode(&mut ash, &file, 0o755).await;
    ash.ok(vec![putfh(&file), get]).await;
}

/// Birch may write through its layout at any moment, and tells nobody: the owner's `chmod u+s` waits for it.
#[tokio::test]
async fn set_id_bits_come_after_the_layouts_of_others_were_returned() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let mut birch = Client::mount(&world, "birch").await;
    let (file, open) = birch.open("program", BOTH, 0).await.expect("opens");
    birch.ok(vec![putfh(&file), layoutget_op(open)]).await;
    // Later, its answer that it has no such layout is believed.
    world.clock.advance(Duration::from_secs(3));
    let obj_attributes = Box::new(Fattr { mode: Some(0o4755), ..Fattr::default() });
    let set = ArgOp::SetAttr(setattr::Args { stateid: Stateid::ANONYMOUS, obj_attributes });
    let called = birch.raw.called_back(|call| says(call, Status::NoMatchingLayout));
    let (status, _) =
        tokio::time::timeout(PATIENCE, async { tokio::join!(ash.status(vec![putfh(&file), set]), called) })
            .await
            .expect("the layout is recalled");
    assert_eq!(status, Status::Ok);
    assert_eq!(inode(&world, &file).mode, 0o4755);
    let layouts = read::layouts(&*world.replica.view().expect("a view"), inode(&world, &file).id);
    assert_eq!(layouts.expect("reads").len(), 0);
}

#[tokio::test]
async fn a_layout_that_is_too_long_for_the_reply_is_not_granted() {
    let world = World::start().await;
    let mut ash = Client::mount(&world, "ash").await;
    let (file, stateid) = ash.open("f", BOTH, 0).await.expect("opens");
    let get = |maxcount| {
        let (offset, length, minlength) = (0, u64::MAX, 0);
        let layout_type = wire::nfs4::LayoutType::FILES;
        let (iomode, signal_layout_avail) = (LayoutIoMode::ReadWrite, false);
        ArgOp::LayoutGet(layoutget::Args {
            signal_layout_avail,
            layout_type,
            iomode,
            offset,
            length,
            minlength,
            stateid,
            maxcount,
        })
    };
    assert_eq!(ash.status(vec![putfh(&file), get(100)]).await, Status::TooSmall);
    let layouts = |world: &World| {
        let id = inode(world, &file).id;
        read::layouts(&*world.replica.view().expect("a view"), id).expect("reads").len()
    };
    assert_eq!(layouts(&world), 0);
    ash.ok(vec![putfh(&file), get(4096)]).await;
    assert_eq!(layouts(&world), 1);
}
