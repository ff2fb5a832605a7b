//! RFC 7862's operations on ranges: what they refuse before a data server is asked.

use bytes::Bytes;
use wire::nfs4::copy::Requirements;
use wire::nfs4::layouterror::DeviceError;
use wire::nfs4::{
    ArgOp, Bitmap, DeviceId, FileHandle, IoInfo, LayoutType, NetLoc, OpNum, ResOp, Stateid, Status,
};
use wire::nfs4::{allocate, clone, copy, deallocate, io_advise, layout_files, layoutcommit};
use wire::nfs4::{layouterror, layoutreturn, layoutstats, read_plus, seek};

use crate::raw::{Client, layoutget_op, putfh};
use crate::world::{World, register_at};

const READ: u32 = 1;
const BOTH: u32 = 3;
const NXIO: Status = Status::NxIo;

async fn mount(world: &World) -> Client {
    let mut client = Client::mount(world, "ash").await;
    client.raw.minor_version = 2;
    client
}

/// Has the file a size without any data: what a client says in LAYOUTCOMMIT is believed. Returns its device.
pub async fn grow(client: &mut Client, file: &FileHandle, open: Stateid, bytes: u64) -> DeviceId {
    let results = client.ok(vec![putfh(file), layoutget_op(open)]).await;
    let ResOp::LayoutGet(Ok(got)) = &results[1] else { panic!("{results:?}") };
    let layout =
        layout_files::from_body::<layout_files::FileLayout>(got.layouts[0].body.clone()).expect("a layout");
    let commit = ArgOp::LayoutCommit(layoutcommit::Args {
        offset: 0,
        length: u64::MAX,
        reclaim: false,
        stateid: got.stateid,
        last_write_offset: Some(bytes - 1),
        time_modify: None,
        layout_type: LayoutType::FILES,
        body: Bytes::new(),
    });
    let what = layoutreturn::Return::File(layoutreturn::ReturnFile {
        offset: 0,
        length: u64::MAX,
        stateid: got.stateid,
        body: Bytes::new(),
    });
    let give_back = ArgOp::LayoutReturn(layoutreturn::Args {
        reclaim: false,
        layout_type: LayoutType::FILES,
        iomode: wire::nfs4::LayoutIoMode::Any,
        what,
    });
    client.ok(vec![putfh(file), commit, give_back]).await;
    layout.deviceid
}

fn copy_op(src: Stateid, dst: Stateid, src_offset: u64, dst_offset: u64, count: u64) -> ArgOp {
    ArgOp::Copy(copy_args(src, dst, src_offset, dst_offset, count))
}

fn copy_args(
    src_stateid: Stateid,
    dst_stateid: Stateid,
    src_offset: u64,
    dst_offset: u64,
    count: u64,
) -> copy::Args {
    let (consecutive, synchronous, source_server) = (false, false, vec![]);
    copy::Args {
        src_stateid,
        dst_stateid,
        src_offset,
        dst_offset,
        count,
        consecutive,
        synchronous,
        source_server,
    }
}

/// RFC 7862, section 15.2.3.
#[tokio::test]
async fn copy_refuses_what_it_cannot_do() {
    let world = World::start().await;
    let mut ash = mount(&world).await;
    let (source, from) = ash.open("source", BOTH, 0).await.expect("opens");
    let (target, to) = ash.open("target", BOTH, 0).await.expect("opens");
    grow(&mut ash, &source, from, 10_000).await;
    let between = |a: &FileHandle, b: &FileHandle, op| vec![putfh(a), ArgOp::SaveFh, putfh(b), op];
    for (src_offset, dst_offset, count, expected) in [
        (10_001, 0, 0, Status::Inval),
        (0, 0, 10_001, Status::Inval),
        (u64::MAX, 0, 2, Status::Inval),
        (1, 0, u64::MAX, Status::Inval),
        (0, i64::MAX as u64, 1, Status::FBig),
        (0, u64::MAX, 1, Status::FBig),
    ] {
        let op = copy_op(from, to, src_offset, dst_offset, count);
        let status = ash.status(between(&source, &target, op)).await;
        assert_eq!(status, expected, "{count} from {src_offset} to {dst_offset}");
    }
    let op = || copy_op(from, to, 0, 0, 1);
    assert_eq!(ash.status(vec![putfh(&target), op()]).await, Status::NoFileHandle, "nothing saved");
    let same = copy_op(from, from, 0, 20_000, 10);
    assert_eq!(ash.status(between(&source, &source, same)).await, Status::Inval, "one file");
    let root = vec![putfh(&source), ArgOp::SaveFh, ArgOp::PutRootFh, op()];
    assert_eq!(ash.status(root).await, Status::WrongType);
    let root = vec![ArgOp::PutRootFh, ArgOp::SaveFh, putfh(&target), op()];
    assert_eq!(ash.status(root).await, Status::WrongType);
    let crossed = copy_op(to, from, 0, 0, 1);
    assert_eq!(ash.status(between(&source, &target, crossed)).await, Status::BadStateid);
    // From another server: not here, and a client may still copy within this one.
    let source_server = vec![NetLoc::Name(Bytes::from_static(b"elsewhere"))];
    let far = ArgOp::Copy(copy::Args { source_server, ..copy_args(from, to, 0, 0, 1) });
    assert_eq!(ash.status(between(&source, &target, far)).await, Status::OffloadDenied);
    // Nothing to copy needs no data server; and how it is done is said.
    let results = ash.ok(between(&source, &target, copy_op(from, to, 10_000, 0, 0))).await;
    let ResOp::Copy(Ok(done)) = &results[3] else { panic!("{results:?}") };
    assert_eq!((done.response.count, done.response.callback_id), (0, None));
    assert_eq!(done.requirements, Requirements { consecutive: true, synchronous: true });
    // A file that is opened to read is no target.
    let mut elm = Client::mount(&world, "elm").await;
    elm.raw.minor_version = 2;
    let (target, read_only) = elm.open("target", READ, 0).await.expect("opens");
    let op = copy_op(Stateid::ANONYMOUS, read_only, 0, 0, 1);
    assert_eq!(elm.status(between(&source, &target, op)).await, Status::OpenMode);
}

/// RFC 7862, section 15.13.3.
#[tokio::test]
async fn clone_refuses_odd_offsets_and_ranges_that_overlap() {
    let world = World::start().await;
    let mut ash = mount(&world).await;
    let (file, open) = ash.open("file", BOTH, 0).await.expect("opens");
    grow(&mut ash, &file, open, 100_000).await;
    for (src_offset, dst_offset, count) in [
        (1, 1 << 20, 4096),
        (0, (1 << 20) + 512, 4096),
        (0, 1 << 20, 4095),
        (0, 4096, 8192),
        (8192, 4096, 8192),
        (0, 0, 0),
        (0, 1 << 20, 100_001),
    ] {
        let op =
            ArgOp::Clone(clone::Args { src_stateid: open, dst_stateid: open, src_offset, dst_offset, count });
        let status = ash.status(vec![putfh(&file), ArgOp::SaveFh, op]).await;
        assert_eq!(status, Status::Inval, "{count} from {src_offset} to {dst_offset}");
    }
}

#[tokio::test]
async fn ranges_that_cannot_be_are_refused() {
    let world = World::start().await;
    let mut ash = mount(&world).await;
    let (file, stateid) = ash.open("file", BOTH, 0).await.expect("opens");
    for (offset, length, expected) in [
        (0, 0, Status::Inval),
        (u64::MAX, 1, Status::FBig),
        (1, u64::MAX, Status::FBig),
        (i64::MAX as u64, 1, Status::FBig),
    ] {
        let allocate = ArgOp::Allocate(allocate::Args { stateid, offset, length });
        assert_eq!(ash.status(vec![putfh(&file), allocate.clone()]).await, expected, "{length} at {offset}");
        assert_eq!(ash.status(vec![ArgOp::PutRootFh, allocate]).await, Status::IsDir);
        let deallocate = ArgOp::Deallocate(deallocate::Args { stateid, offset, length });
        assert_eq!(ash.status(vec![putfh(&file), deallocate]).await, expected, "{length} at {offset}");
    }
    for (what, offset, expected) in [
        (seek::DATA, 0, NXIO),
        (seek::HOLE, 0, NXIO),
        (seek::DATA, u64::MAX, NXIO),
        (2, 0, Status::UnionNotSupp),
        (u32::MAX, 0, Status::UnionNotSupp),
    ] {
        let seek = ArgOp::Seek(seek::Args { stateid, offset, what });
        assert_eq!(ash.status(vec![putfh(&file), seek]).await, expected, "{what} from {offset}");
    }
    let read = |offset, count| ArgOp::ReadPlus(read_plus::Args { stateid, offset, count });
    for (offset, count) in [(0, 0), (0, u32::MAX), (u64::MAX, u32::MAX)] {
        let results = ash.ok(vec![putfh(&file), read(offset, count)]).await;
        let ResOp::ReadPlus(Ok(nothing)) = &results[1] else { panic!("{results:?}") };
        assert!(nothing.eof && nothing.contents.is_empty());
    }
    // An open to read does not allow a change, nor does a stateid of nobody.
    let mut elm = Client::mount(&world, "elm").await;
    elm.raw.minor_version = 2;
    let (file, stateid) = elm.open("file", READ, 0).await.expect("opens");
    let change = ArgOp::Allocate(allocate::Args { stateid, offset: 0, length: 1 });
    assert_eq!(elm.status(vec![putfh(&file), change]).await, Status::OpenMode);
    let stateid = Stateid { other: [7; 12], seqid: 0 };
    let change = ArgOp::Deallocate(deallocate::Args { stateid, offset: 0, length: 1 });
    assert_eq!(elm.status(vec![putfh(&file), change]).await, Status::BadStateid);
}

#[tokio::test]
async fn advice_is_taken_and_none_of_it_promised() {
    let world = World::start().await;
    let mut ash = mount(&world).await;
    let (file, stateid) = ash.open("file", BOTH, 0).await.expect("opens");
    let hints = Bitmap::of(&[io_advise::SEQUENTIAL, io_advise::WILLNEED, 99]);
    let advise = |offset, count| ArgOp::IoAdvise(io_advise::Args { stateid, offset, count, hints });
    let results = ash.ok(vec![putfh(&file), advise(0, 0)]).await;
    let ResOp::IoAdvise(Ok(taken)) = &results[1] else { panic!("{results:?}") };
    assert_eq!(taken.hints, Bitmap::EMPTY);
    assert_eq!(ash.status(vec![putfh(&file), advise(u64::MAX, 1)]).await, Status::Inval);
    assert_eq!(ash.status(vec![ArgOp::PutRootFh, advise(0, 0)]).await, Status::IsDir);
}

/// Every copy is synchronous: there is never one to ask for, to stop, or to announce. In 4.1 there is no such
/// operation.
#[tokio::test]
async fn what_goes_with_copies_that_we_do_not_make_is_not_supported() {
    let world = World::start().await;
    let mut ash = mount(&world).await;
    let (file, _) = ash.open("file", BOTH, 0).await.expect("opens");
    let not_served = [OpNum::CopyNotify, OpNum::OffloadStatus, OpNum::OffloadCancel, OpNum::WriteSame];
    for op in not_served.map(|number| ArgOp::Unsupported(number as u32)) {
        let name = op.name();
        ash.raw.minor_version = 2;
        assert_eq!(ash.status(vec![putfh(&file), op.clone()]).await, Status::NotSupp, "{name}");
        ash.raw.minor_version = 1;
        assert_eq!(ash.status(vec![putfh(&file), op]).await, Status::OpIllegal, "{name}");
    }
}

#[tokio::test]
async fn a_report_of_a_failed_data_server_makes_the_metaserver_look_and_place_nothing_there() {
    let world = World::start().await;
    let mut ash = mount(&world).await;
    let (file, open) = ash.open("file", BOTH, 0).await.expect("opens");
    let device = grow(&mut ash, &file, open, 10).await;
    // Nobody listens there.
    register_at(&world.server, "127.0.0.1:1").await;
    let results = ash.ok(vec![putfh(&file), layoutget_op(open)]).await;
    let ResOp::LayoutGet(Ok(got)) = &results[1] else { panic!("{results:?}") };
    let stateid = got.stateid;

    let io = IoInfo { count: 3, bytes: 3000 };
    let stats = |stateid, deviceid, layout_type| {
        let (offset, length, body) = (0, u64::MAX, Bytes::new());
        let (read, write) = (io, io);
        ArgOp::LayoutStats(layoutstats::Args {
            offset,
            length,
            stateid,
            read,
            write,
            deviceid,
            layout_type,
            body,
        })
    };
    for (op, expected) in [
        (stats(stateid, device, LayoutType::FILES), Status::Ok),
        (stats(stateid, device, LayoutType::FLEX_FILES), Status::UnknownLayoutType),
        (stats(stateid, DeviceId([9; 16]), LayoutType::FILES), Status::Inval),
        (stats(open, device, LayoutType::FILES), Status::BadStateid),
    ] {
        assert_eq!(ash.status(vec![putfh(&file), op.clone()]).await, expected, "{op:?}");
    }

    let error = |stateid, deviceid| {
        let errors = vec![DeviceError { deviceid, status: NXIO, opnum: 38 }];
        ArgOp::LayoutError(layouterror::Args { offset: 0, length: u64::MAX, stateid, errors })
    };
    assert_eq!(ash.status(vec![putfh(&file), error(open, device)]).await, Status::BadStateid);
    assert_eq!(ash.status(vec![putfh(&file), error(stateid, DeviceId([9; 16]))]).await, Status::Inval);
    ash.open("before", BOTH, 0).await.expect("there is a place for new files");
    assert_eq!(ash.status(vec![putfh(&file), error(stateid, device)]).await, Status::Ok);
    // Nobody listens at that data server: found out, it gets no new file.
    let mut tries = 0;
    while ash.open("after", BOTH, 0).await != Err(Status::Delay) {
        tries += 1;
        assert!(tries < 1000, "still a place for new files");
        let remove = ArgOp::Remove(wire::nfs4::remove::Args { target: Bytes::from_static(b"after") });
        ash.run(vec![ArgOp::PutRootFh, remove]).await.expect("a compound");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
