//! Clients that write through layouts which they lost: the data server refuses them.

use std::time::{Duration, Instant};

use bytes::Bytes;
use wire::nfs4::layout_files::{FileLayout, from_body};
use wire::nfs4::{
    ArgOp, ClientId, Fattr, LayoutIoMode, LayoutType, LockType, ResOp, StableHow, StateOwner, Stateid, Status,
};
use wire::nfs4::{layoutget, lock, putfh, read, setattr, write};

use crate::Scene;
use crate::client::Client;
use crate::names::{handle, opened};

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn put(handle: &Bytes) -> ArgOp {
    ArgOp::PutFh(putfh::Args { object: handle.clone().into() })
}

/// The handle of the file's object, in a new layout.
async fn laid_out(client: &mut Client, file: &Bytes, open: Stateid, iomode: LayoutIoMode) -> Bytes {
    let get = ArgOp::LayoutGet(layoutget::Args {
        signal_layout_avail: false,
        layout_type: LayoutType::FILES,
        iomode,
        offset: 0,
        length: u64::MAX,
        minlength: 0,
        stateid: open,
        maxcount: 4096,
    });
    let ResOp::LayoutGet(Ok(got)) = client.last(vec![put(file), get]).await else { panic!("no layout") };
    let layout: FileLayout = from_body(got.layouts[0].body.clone()).unwrap();
    layout.fh_list[0].0.clone()
}

/// WRITE of these bytes to the beginning of an object, at its data server.
async fn written(data: &mut Client, object: &Bytes, bytes: &'static [u8]) -> Status {
    let (stateid, stable) = (Stateid::ANONYMOUS, StableHow::DataSync);
    let args = write::Args { stateid, offset: 0, stable, data: Bytes::from_static(bytes).into() };
    data.status(vec![put(object), ArgOp::Write(args)]).await
}

async fn content(data: &mut Client, object: &Bytes) -> Result<Bytes, Status> {
    let args = read::Args { stateid: Stateid::ANONYMOUS, offset: 0, count: 100 };
    match data.last(vec![put(object), ArgOp::Read(args)]).await {
        ResOp::Read(Ok(read)) => Ok(read.data.to_bytes()),
        other => Err(other.status()),
    }
}

async fn locked(client: &mut Client, file: &Bytes, open: Stateid) -> Status {
    let lock_owner = StateOwner { clientid: ClientId(0), owner: Bytes::from_static(b"l").into() };
    let new = lock::OpenToLockOwner { open_seqid: 0, open_stateid: open, lock_seqid: 0, lock_owner };
    let (locktype, locker) = (LockType::Write, lock::Locker::New(new));
    let args = lock::Args { locktype, reclaim: false, offset: 0, length: 100, locker };
    client.status(vec![put(file), ArgOp::Lock(args)]).await
}

/// ```text
/// ash    OPEN, LAYOUTGET, WRITE              WRITE, of a process that its machine's restart did not reach
/// ash'                           its machine starts again: ash has ended
/// birch                          LOCK, alone from here on
/// ```
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_has_ended_writes_nothing_once_another_has_the_lock() {
    let scene = Scene::start().await;
    let (mut ash, mut birch) = (Client::mount(&scene, "ash").await, Client::mount(&scene, "birch").await);
    let open = opened(&mut ash, "f").await;
    let file = handle(&mut ash, "f").await;
    let object = laid_out(&mut ash, &file, open, LayoutIoMode::ReadWrite).await;
    let mut late = Client::mount_at(scene.data.address(), "ash").await;
    assert_eq!(written(&mut late, &object, b"before").await, Status::Ok);
    let of_birch = opened(&mut birch, "f").await;

    Client::mount_again(&scene, "ash").await;
    let began = Instant::now();
    loop {
        match locked(&mut birch, &file, of_birch).await {
            Status::Ok => break,
            status => assert!(status == Status::Delay && began.elapsed() < PATIENCE, "{status:?}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(written(&mut late, &object, b"late").await, Status::PnfsNoLayout);
    let own = laid_out(&mut birch, &file, of_birch, LayoutIoMode::ReadWrite).await;
    let mut data = Client::mount_at(scene.data.address(), "birch").await;
    assert_eq!(content(&mut data, &own).await, Ok(Bytes::from_static(b"before")));
    assert_eq!(written(&mut data, &own, b"mine").await, Status::Ok);
    assert_eq!(written(&mut late, &object, b"late").await, Status::PnfsNoLayout);
    assert_eq!(content(&mut data, &own).await, Ok(Bytes::from_static(b"minere")));
    scene.stop();
}

/// A truncation takes no layout away from its own client: the handles stay good.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_keeps_its_layout_over_its_own_truncation() {
    let scene = Scene::start().await;
    let mut ash = Client::mount(&scene, "ash").await;
    let open = opened(&mut ash, "f").await;
    let file = handle(&mut ash, "f").await;
    let object = laid_out(&mut ash, &file, open, LayoutIoMode::ReadWrite).await;
    let mut data = Client::mount_at(scene.data.address(), "ash").await;
    assert_eq!(written(&mut data, &object, b"before").await, Status::Ok);
    let attributes = Fattr { size: Some(2), ..Fattr::default() };
    let set = ArgOp::SetAttr(setattr::Args { stateid: open, obj_attributes: Box::new(attributes) });
    assert_eq!(ash.status(vec![put(&file), set]).await, Status::Ok);
    assert_eq!(content(&mut data, &object).await, Ok(Bytes::from_static(b"be")));
    assert_eq!(written(&mut data, &object, b"after").await, Status::Ok);
    assert_eq!(content(&mut data, &object).await, Ok(Bytes::from_static(b"after")));
    scene.stop();
}
