//! File handles that are unknown, stale, altered, cut short or another cluster's: at the metaserver in both
//! versions, and at a data server.

use bytes::Bytes;
use wire::handle::{FileHandle, HandleKey, Holder};
use wire::nfs3::{self, Call};
use wire::nfs4::{ArgOp, Stateid, Status, getattr, putfh, read, remove};

use crate::client::{Client, Raw};
use crate::names::{handle, opened, status3};
use crate::{Scene, key, object};

fn put(handle: &Bytes) -> ArgOp {
    ArgOp::PutFh(putfh::Args { object: handle.clone().into() })
}

/// Handles of which none can be opened.
fn forged(good: &Bytes) -> Vec<Bytes> {
    let mut all: Vec<Bytes> = (0..good.len() * 8)
        .map(|bit| {
            let mut altered = good.to_vec();
            altered[bit / 8] ^= 1 << (bit % 8);
            altered.into()
        })
        .collect();
    all.extend((0..good.len()).map(|len| good.slice(..len)));
    all.push([good, &[0][..]].concat().into());
    all.push(vec![0; 64].into());
    let foreign = HandleKey::new([8; 32]);
    all.push(FileHandle { volume: 1, inode: 2, generation: 1 }.seal(&foreign));
    all
}

/// Handles that we sealed, of what is not there.
fn stale(good: &Bytes) -> Vec<Bytes> {
    let file = FileHandle::open(good, &key()).unwrap();
    vec![
        FileHandle { inode: 1 << 40, ..file }.seal(&key()),
        FileHandle { generation: file.generation ^ 1, ..file }.seal(&key()),
        FileHandle { volume: 7, ..file }.seal(&key()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn at_a_metaserver() {
    let scene = Scene::start().await;
    let mut client = Client::mount(&scene, "c").await;
    opened(&mut client, "f").await;
    let good = handle(&mut client, "f").await;
    let attributes = ArgOp::GetAttr(getattr::Args { attr_request: Default::default() });
    assert_eq!(client.status(vec![put(&good), attributes.clone()]).await, Status::Ok);
    let mut raw = Raw::connect(&scene).await;
    let getattr3 =
        |handle: &Bytes| Call::GetAttr(nfs3::getattr::Args { object: nfs3::FileHandle(handle.clone()) });
    for handle in forged(&good) {
        assert_eq!(client.status(vec![put(&handle)]).await, Status::BadHandle, "{handle:?}");
        assert_eq!(status3(&mut raw, getattr3(&handle)).await, Err(nfs3::Status::BadHandle), "{handle:?}");
    }
    for handle in stale(&good) {
        let outcome = client.status(vec![put(&handle), attributes.clone()]).await;
        assert_eq!(outcome, Status::Stale, "{handle:?}");
        assert_eq!(status3(&mut raw, getattr3(&handle)).await, Err(nfs3::Status::Stale), "{handle:?}");
    }
    // An object's handle is a data server's; here it names nothing.
    let file = FileHandle::open(&good, &key()).unwrap();
    let incarnation = scene.incarnation();
    let object = object(file, 1, incarnation).seal(&key());
    assert_eq!(client.status(vec![put(&object)]).await, Status::BadHandle);

    // Removed and closed: the handle was good once.
    let mut other = Client::mount(&scene, "other").await;
    let mkdir = wire::nfs4::create::Args {
        objtype: wire::nfs4::create::CreateType::Directory,
        objname: "d".into(),
        createattrs: Box::default(),
    };
    assert_eq!(other.status(vec![ArgOp::PutRootFh, ArgOp::Create(mkdir)]).await, Status::Ok);
    let gone = handle(&mut other, "d").await;
    let remove = ArgOp::Remove(remove::Args { target: "d".into() });
    assert_eq!(other.status(vec![ArgOp::PutRootFh, remove]).await, Status::Ok);
    assert_eq!(other.status(vec![put(&gone)]).await, Status::Stale);
    assert_eq!(status3(&mut raw, getattr3(&gone)).await, Err(nfs3::Status::Stale));
    scene.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn handles_longer_than_the_protocol_has_are_garbage() {
    let scene = Scene::start().await;
    let mut client = Client::mount(&scene, "c").await;
    assert_eq!(client.status(vec![put(&vec![1; 128].into())]).await, Status::BadHandle);
    assert_eq!(client.status(vec![put(&vec![1; 129].into())]).await, Status::BadXdr);
    let mut raw = Raw::connect(&scene).await;
    let args = nfs3::getattr::Args { object: nfs3::FileHandle(vec![1; 65].into()) };
    let outcome = raw.call_bytes(crate::client::NFS3, 1, crate::client::encoded(&args)).await;
    assert_eq!(outcome.err(), Some(wire::rpc::Rejection::GarbageArguments));
    scene.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn at_a_data_server() {
    let scene = Scene::start().await;
    let mut client = Client::mount_at(scene.data.address(), "c").await;
    let file = FileHandle { volume: 1, inode: 5, generation: 1 };
    let target = scene.target();
    let incarnation = scene.incarnation();
    let good = object(file, target, incarnation).seal_for(Holder::Writer, &key());
    let read = ArgOp::Read(read::Args { stateid: Stateid::ANONYMOUS, offset: 0, count: 10 });
    let outcome = client.last(vec![put(&good), read.clone()]).await;
    assert_eq!(outcome.status(), Status::PnfsNoLayout, "an object that was not made: {outcome:?}");
    for handle in forged(&good) {
        assert_eq!(client.status(vec![put(&handle), read.clone()]).await, Status::BadHandle, "{handle:?}");
    }
    // A metaserver's handle is one of ours, but of no object here.
    assert_eq!(client.status(vec![put(&file.seal(&key())), read.clone()]).await, Status::Stale);
    let elsewhere = object(file, target ^ 1, incarnation).seal_for(Holder::Writer, &key());
    assert_eq!(client.status(vec![put(&elsewhere), read.clone()]).await, Status::Stale);
    let incarnation = incarnation ^ 1;
    let restored = object(file, target, incarnation).seal_for(Holder::Writer, &key());
    assert_eq!(
        client.status(vec![put(&restored), read]).await,
        Status::Stale,
        "minted by another incarnation"
    );
    scene.stop();
}
