//! Sample values of every type.

use bytes::Bytes;

use crate::nfs4::backchannel_ctl::{AuthSysParms, CallbackSec, GssHandles};
use crate::nfs4::callback::*;
use crate::nfs4::create_session::ChannelAttrs;
use crate::nfs4::exchange_id::{
    ClientOwner, ServerOwner, SsvArgs, SsvInfo, StateProtectArgs, StateProtectOps, StateProtectRes,
};
use crate::nfs4::fattr::{ChangeAttrType, ModeMasked, ModeUmask, OpenArguments, SetTime, ThresholdItem};
use crate::nfs4::fs_locations::{FsLocation, FsLocations};
use crate::nfs4::fs_locations_info::{
    FsLocationsInfo, FsLocationsItem, FsLocationsServer, ServerInfo, general,
};
use crate::nfs4::layout_files::{DsAddr, FileLayout, UTIL_DENSE};
use crate::nfs4::open::*;
use crate::nfs4::secinfo::{GssInfo, GssService, SecInfo};
use crate::nfs4::*;

pub const TIME: Time = Time { seconds: -5, nanoseconds: 999_999_999 };
pub const STATEID: Stateid = Stateid { seqid: 3, other: *b"twelve bytes" };
const SESSION: SessionId = SessionId(*b"session of sixte");
const CINFO: ChangeInfo = ChangeInfo { atomic: true, before: 7, after: 8 };
const CHANNEL: ChannelAttrs = ChannelAttrs {
    header_pad_size: 0,
    max_request_size: 1 << 20,
    max_response_size: 1 << 20,
    max_response_size_cached: 4096,
    max_operations: 16,
    max_requests: 64,
    rdma_ird: Some(1),
};

pub fn name(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

pub fn handle() -> FileHandle {
    Bytes::from_static(&[0xab; 33]).into()
}

pub fn owner() -> StateOwner {
    StateOwner { clientid: ClientId(9), owner: name("owner").into() }
}

pub fn fattr() -> Box<Fattr> {
    Box::new(Fattr {
        supported_attrs: Some(Fattr::KNOWN),
        file_type: Some(FileType::Directory),
        fh_expire_type: Some(0),
        change: Some(5),
        size: Some(1 << 40),
        link_support: Some(true),
        symlink_support: Some(true),
        named_attr: Some(false),
        fsid: Some(FsId { major: 1, minor: 2 }),
        unique_handles: Some(true),
        lease_time: Some(90),
        rdattr_error: Some(Status::Stale),
        aclsupport: Some(0),
        cansettime: Some(true),
        case_insensitive: Some(false),
        case_preserving: Some(true),
        chown_restricted: Some(true),
        filehandle: Some(handle()),
        fileid: Some(u64::MAX),
        files_avail: Some(1),
        files_free: Some(2),
        files_total: Some(3),
        fs_locations: Some(fs_locations()),
        homogeneous: Some(true),
        maxfilesize: Some(i64::MAX as u64),
        maxlink: Some(65_000),
        maxname: Some(255),
        maxread: Some(1 << 20),
        maxwrite: Some(1 << 20),
        mode: Some(0o644),
        no_trunc: Some(true),
        numlinks: Some(2),
        owner: Some(name("1000")),
        owner_group: Some(name("users@example.org")),
        quota_avail_hard: Some(38),
        quota_avail_soft: Some(39),
        quota_used: Some(40),
        rawdev: Some(SpecData { major: 8, minor: 1 }),
        space_avail: Some(4),
        space_free: Some(5),
        space_total: Some(6),
        space_used: Some(7),
        time_access: Some(TIME),
        time_access_set: Some(SetTime::Server),
        time_create: Some(TIME),
        time_delta: Some(Time { seconds: 0, nanoseconds: 1 }),
        time_metadata: Some(TIME),
        time_modify: Some(TIME),
        time_modify_set: Some(SetTime::Client(TIME)),
        mounted_on_fileid: Some(2),
        fs_layout_types: Some(vec![LayoutType::FILES]),
        layout_type: Some(vec![LayoutType::FILES, LayoutType::FLEX_FILES]),
        layout_blksize: Some(1 << 20),
        layout_alignment: Some(4096),
        fs_locations_info: Some(fs_locations_info()),
        mdsthreshold: Some(vec![ThresholdItem::sizes(LayoutType::FILES, 65_537, 65_537)]),
        mode_set_masked: Some(ModeMasked { value: 1, mask: 7 }),
        suppattr_exclcreat: Some(Bitmap::of(&[attr::SIZE, attr::MODE])),
        fs_charset_cap: Some(1),
        clone_blksize: Some(4096),
        change_attr_type: Some(ChangeAttrType::MonotonicIncr),
        mode_umask: Some(ModeUmask { mode: 0o666, umask: 0o22 }),
        xattr_support: Some(true),
        open_arguments: Some(OpenArguments {
            share_access: Bitmap::of(&[1, 2, 3]),
            share_deny: Bitmap::of(&[0]),
            share_access_want: Bitmap::of(&[3, 21]),
            open_claim: Bitmap::of(&[0, 5]),
            create_mode: Bitmap::EMPTY,
        }),
        unknown: Bitmap::EMPTY,
    })
}

fn fs_locations() -> FsLocations {
    let at = |servers: &[&'static str], path: &[&'static str]| FsLocation {
        servers: servers.iter().map(|server| name(server)).collect(),
        rootpath: path.iter().map(|component| name(component)).collect(),
    };
    FsLocations {
        fs_root: vec![name("export"), name("home")],
        locations: vec![at(&["10.0.0.1", "10.0.0.2.8.1", "elm"], &[]), at(&[], &["home"])],
    }
}

fn fs_locations_info() -> FsLocationsInfo {
    let info = ServerInfo { flags: general::WRITABLE, handle: 1, ..ServerInfo::default() };
    let server = |info| FsLocationsServer { currency_s: -1, info, server: name("fd00::1") };
    let item = FsLocationsItem {
        entries: vec![server(info.to_bytes()), server(Bytes::new())],
        rootpath: vec![name("home")],
    };
    FsLocationsInfo { flags: 1, valid_for_s: 30, fs_root: vec![], items: vec![item] }
}

/// Entry `i` has cookie `i + 3` and a name of `i + 1` bytes.
pub fn add_dir_entry(page: &mut readdir::Page, i: u64) -> bool {
    let attrs = Fattr { fileid: Some(i), owner: Some(name("somebody")), ..Fattr::default() };
    page.push(i + 3, &vec![b'x'; i as usize + 1], &attrs.mask(), &attrs)
}

fn dir_entries() -> readdir::Entries {
    let mut page = readdir::Page::new(usize::MAX);
    (0..3).for_each(|i| assert!(add_dir_entry(&mut page, i)));
    page.finish()
}

pub fn ds_addr() -> DsAddr {
    let addr = |uaddr| NetAddr { netid: name("tcp"), uaddr: name(uaddr) };
    DsAddr {
        stripe_indices: vec![0, 1, 0],
        multipath_ds_list: vec![vec![addr("10.0.0.1.8.1"), addr("10.1.0.1.8.1")], vec![addr("10.0.0.2.8.1")]],
    }
}

pub fn file_layout() -> FileLayout {
    FileLayout {
        deviceid: DeviceId([6; 16]),
        util: (1 << 20) | UTIL_DENSE,
        first_stripe_index: 2,
        pattern_offset: 0,
        fh_list: vec![handle(), FileHandle::default()],
    }
}

fn ssv_ops() -> StateProtectOps {
    StateProtectOps { must_enforce: Bitmap::of(&[42, 43]), must_allow: Bitmap::of(&[4]) }
}

fn callback_sec() -> Vec<CallbackSec> {
    let sys = AuthSysParms { stamp: 1, machine: name("host").into(), uid: 0, gid: 0, gids: vec![0, 10] };
    let gss = GssHandles {
        service: GssService::Integrity,
        handle_from_server: name("a"),
        handle_from_client: name("bc"),
    };
    vec![CallbackSec::None, CallbackSec::Sys(sys), CallbackSec::Gss(gss)]
}

fn secinfo() -> Vec<SecInfo> {
    let gss = GssInfo { oid: name("oid"), qop: 0, service: GssService::Privacy };
    vec![SecInfo::Flavor(secinfo::AUTH_SYS), SecInfo::Gss(gss)]
}

fn opens() -> Vec<ArgOp> {
    let hows = [
        OpenHow::NoCreate,
        OpenHow::Create(CreateHow::Unchecked(fattr())),
        OpenHow::Create(CreateHow::Guarded(fattr())),
        OpenHow::Create(CreateHow::Exclusive([1; 8])),
        OpenHow::Create(CreateHow::Exclusive41(ExclusiveAttrs { verifier: [2; 8], attrs: fattr() })),
    ];
    let claims = [
        Claim::Null(name("file")),
        Claim::Previous(DelegationType::Read),
        Claim::DelegateCur(DelegateCur { delegate_stateid: STATEID, file: name("f") }),
        Claim::DelegatePrev(name("f")),
        Claim::Fh,
        Claim::DelegCurFh(STATEID),
        Claim::DelegPrevFh,
    ];
    let open = |(openhow, claim)| {
        ArgOp::Open(open::Args {
            seqid: 0,
            share_access: SHARE_ACCESS_BOTH | WANT_NO_DELEG,
            share_deny: SHARE_DENY_NONE,
            owner: owner(),
            openhow,
            claim,
        })
    };
    let more = std::iter::repeat(OpenHow::NoCreate);
    hows.into_iter().chain(more).zip(claims).map(open).collect()
}

fn opened() -> Vec<ResOp> {
    let permissions = || Ace { kind: 0, flag: 0, access_mask: 1, who: name("EVERYONE@") };
    let write = |space_limit| {
        Delegation::Write(WriteDelegation {
            stateid: STATEID,
            recall: true,
            space_limit,
            permissions: permissions(),
        })
    };
    let delegations = [
        Delegation::None,
        Delegation::Read(ReadDelegation { stateid: STATEID, recall: false, permissions: permissions() }),
        write(SpaceLimit::Size(1 << 30)),
        write(SpaceLimit::Blocks(ModifiedLimit { num_blocks: 3, bytes_per_block: 512 })),
        Delegation::NoneExt(WhyNone::Contention { will_push: true }),
        Delegation::NoneExt(WhyNone::Resource { will_signal: false }),
        Delegation::NoneExt(WhyNone::Other(WhyOther::NotWanted)),
    ];
    let open = |delegation| {
        ResOp::Open(Ok(open::ResOk {
            stateid: STATEID,
            cinfo: CINFO,
            rflags: RESULT_LOCKTYPE_POSIX,
            attrset: Bitmap::of(&[attr::MODE]),
            delegation,
        }))
    };
    delegations.into_iter().map(open).collect()
}

pub fn args() -> Vec<ArgOp> {
    let create =
        |objtype| ArgOp::Create(create::Args { objtype, objname: name("new"), createattrs: fattr() });
    let lock = |locker| {
        let (offset, length) = (5, lock::LENGTH_TO_EOF);
        ArgOp::Lock(lock::Args { locktype: LockType::WriteWait, reclaim: false, offset, length, locker })
    };
    let exchange_id = |state_protect| {
        ArgOp::ExchangeId(exchange_id::Args {
            clientowner: ClientOwner { verifier: [4; 8], ownerid: name("Linux NFSv4.2 host").into() },
            flags: exchange_id::SUPP_MOVED_REFER,
            state_protect,
            client_impl_id: Some(ImplId { domain: name("kernel.org"), name: name("Linux"), date: TIME }),
        })
    };
    let ssv = SsvArgs {
        ops: ssv_ops(),
        hash_algs: vec![name("h")],
        encr_algs: vec![name("e"), name("f")],
        window: 1,
        num_gss_handles: 2,
    };
    let layoutreturn = |what| {
        ArgOp::LayoutReturn(layoutreturn::Args {
            reclaim: false,
            layout_type: LayoutType::FILES,
            iomode: LayoutIoMode::Any,
            what,
        })
    };
    let of_file =
        layoutreturn::ReturnFile { offset: 0, length: u64::MAX, stateid: STATEID, body: Bytes::new() };
    let (opener, existing) = (
        lock::OpenToLockOwner { open_seqid: 0, open_stateid: STATEID, lock_seqid: 0, lock_owner: owner() },
        lock::ExistLockOwner { lock_stateid: STATEID, lock_seqid: 0 },
    );
    let device = SpecData { major: 1, minor: 3 };
    let mut all = vec![
        ArgOp::Access(access::Args { access: access::READ | access::LOOKUP }),
        ArgOp::Close(close::Args { seqid: 0, open_stateid: STATEID }),
        ArgOp::Commit(commit::Args { offset: 1, count: 2 }),
        create(create::CreateType::Directory),
        create(create::CreateType::Block(device)),
        create(create::CreateType::Char(device)),
        create(create::CreateType::Symlink(name("target"))),
        create(create::CreateType::Socket),
        create(create::CreateType::Fifo),
        create(create::CreateType::Other(1)),
        ArgOp::GetAttr(getattr::Args { attr_request: Fattr::KNOWN }),
        ArgOp::GetFh,
        ArgOp::Link(link::Args { newname: name("hard") }),
        lock(lock::Locker::New(opener)),
        lock(lock::Locker::Existing(existing)),
        ArgOp::LockT(lockt::Args { locktype: LockType::Read, offset: 1, length: 2, owner: owner() }),
        ArgOp::LockU(locku::Args {
            locktype: LockType::Write,
            seqid: 0,
            lock_stateid: STATEID,
            offset: 1,
            length: 2,
        }),
        ArgOp::Lookup(lookup::Args { objname: name("a") }),
        ArgOp::LookupP,
        ArgOp::NVerify(nverify::Args { obj_attributes: fattr() }),
        ArgOp::OpenDowngrade(open_downgrade::Args {
            open_stateid: STATEID,
            seqid: 0,
            share_access: SHARE_ACCESS_READ,
            share_deny: 0,
        }),
        ArgOp::PutFh(putfh::Args { object: handle() }),
        ArgOp::PutPubFh,
        ArgOp::PutRootFh,
        ArgOp::Read(read::Args { stateid: Stateid::BYPASS, offset: 4096, count: 1 << 20 }),
        ArgOp::ReadDir(readdir::Args {
            cookie: 3,
            cookieverf: [0; 8],
            dircount: 512,
            maxcount: 4096,
            attr_request: Bitmap::of(&[attr::TYPE, attr::RDATTR_ERROR]),
        }),
        ArgOp::ReadLink,
        ArgOp::Remove(remove::Args { target: name("gone") }),
        ArgOp::Rename(rename::Args { oldname: name("old"), newname: name("newer") }),
        ArgOp::RestoreFh,
        ArgOp::SaveFh,
        ArgOp::SecInfo(secinfo::Args { name: name("x") }),
        ArgOp::SetAttr(setattr::Args { stateid: Stateid::ANONYMOUS, obj_attributes: fattr() }),
        ArgOp::Verify(verify::Args { obj_attributes: Box::default() }),
        ArgOp::Write(write::Args {
            stateid: STATEID,
            offset: 9,
            stable: StableHow::Unstable,
            data: name("12345").into(),
        }),
        ArgOp::BackchannelCtl(backchannel_ctl::Args { cb_program: 0x4000_0000, sec_parms: callback_sec() }),
        ArgOp::BindConnToSession(bind_conn_to_session::Args {
            sessid: SESSION,
            dir: bind_conn_to_session::DirFromClient::ForeOrBoth,
            use_conn_in_rdma_mode: false,
        }),
        exchange_id(StateProtectArgs::None),
        exchange_id(StateProtectArgs::MachCred(ssv_ops())),
        exchange_id(StateProtectArgs::Ssv(ssv)),
        ArgOp::CreateSession(create_session::Args {
            clientid: ClientId(9),
            sequence: 1,
            flags: create_session::CONN_BACK_CHAN,
            fore_chan_attrs: CHANNEL,
            back_chan_attrs: ChannelAttrs { rdma_ird: None, ..CHANNEL },
            cb_program: 0x4000_0000,
            sec_parms: callback_sec(),
        }),
        ArgOp::DestroySession(destroy_session::Args { sessionid: SESSION }),
        ArgOp::FreeStateid(free_stateid::Args { stateid: STATEID }),
        ArgOp::GetDeviceInfo(getdeviceinfo::Args {
            device_id: DeviceId([6; 16]),
            layout_type: LayoutType::FILES,
            maxcount: 4096,
            notify_types: Bitmap::of(&[1, 2]),
        }),
        ArgOp::LayoutCommit(layoutcommit::Args {
            offset: 0,
            length: 4096,
            reclaim: false,
            stateid: STATEID,
            last_write_offset: Some(4095),
            time_modify: Some(TIME),
            layout_type: LayoutType::FILES,
            body: Bytes::new(),
        }),
        ArgOp::LayoutGet(layoutget::Args {
            signal_layout_avail: false,
            layout_type: LayoutType(99),
            iomode: LayoutIoMode::ReadWrite,
            offset: 0,
            length: u64::MAX,
            minlength: 4096,
            stateid: STATEID,
            maxcount: 4096,
        }),
        layoutreturn(layoutreturn::Return::File(of_file)),
        layoutreturn(layoutreturn::Return::FsId),
        layoutreturn(layoutreturn::Return::All),
        ArgOp::SecInfoNoName(secinfo_no_name::Args { style: secinfo_no_name::Style::Parent }),
        ArgOp::Sequence(sequence::Args {
            sessionid: SESSION,
            sequenceid: 1,
            slotid: 2,
            highest_slotid: 3,
            cachethis: true,
        }),
        ArgOp::TestStateid(test_stateid::Args { stateids: vec![STATEID, Stateid::INVALID] }),
        ArgOp::DestroyClientid(destroy_clientid::Args { clientid: ClientId(9) }),
        ArgOp::ReclaimComplete(reclaim_complete::Args { one_fs: false }),
    ];
    all.extend(opens());
    all.extend(rare_args());
    all
}

/// Arguments of DELEGRETURN and of minor version 2.
fn rare_args() -> Vec<ArgOp> {
    let (stateid, offset, length) = (STATEID, 4096, 8192);
    let at = NetAddr { netid: name("tcp"), uaddr: name("10.0.0.1.8.1") };
    vec![
        ArgOp::DelegReturn(delegreturn::Args { stateid }),
        ArgOp::Allocate(allocate::Args { stateid, offset, length }),
        ArgOp::Copy(copy::Args {
            src_stateid: stateid,
            dst_stateid: stateid,
            src_offset: 1,
            dst_offset: 2,
            count: 0,
            consecutive: true,
            synchronous: false,
            source_server: vec![
                NetLoc::Name(name("host")),
                NetLoc::Url(name("nfs://host/")),
                NetLoc::Addr(at),
            ],
        }),
        ArgOp::Deallocate(deallocate::Args { stateid, offset, length }),
        ArgOp::IoAdvise(io_advise::Args {
            stateid,
            offset,
            count: length,
            hints: Bitmap::of(&[io_advise::RANDOM]),
        }),
        ArgOp::LayoutError(layouterror::Args {
            offset,
            length,
            stateid,
            errors: vec![layouterror::DeviceError {
                deviceid: DeviceId([6; 16]),
                status: Status::NxIo,
                opnum: OpNum::Write as u32,
            }],
        }),
        ArgOp::LayoutStats(layoutstats::Args {
            offset,
            length,
            stateid,
            read: IoInfo { count: 1, bytes: 2 },
            write: IoInfo { count: 3, bytes: 4 },
            deviceid: DeviceId([6; 16]),
            layout_type: LayoutType::FILES,
            body: Bytes::new(),
        }),
        ArgOp::ReadPlus(read_plus::Args { stateid, offset, count: 9 }),
        ArgOp::Seek(seek::Args { stateid, offset, what: seek::HOLE }),
        ArgOp::Clone(clone::Args {
            src_stateid: stateid,
            dst_stateid: stateid,
            src_offset: 1,
            dst_offset: 2,
            count: 3,
        }),
        ArgOp::GetXattr(getxattr::Args { name: name("colour") }),
        ArgOp::SetXattr(setxattr::Args {
            option: setxattr::SetOption::Replace,
            name: name("colour"),
            value: name("red"),
        }),
        ArgOp::ListXattrs(listxattrs::Args { cookie: 0, maxcount: 4096 }),
        ArgOp::RemoveXattr(removexattr::Args { name: name("colour") }),
    ]
}

fn rare_results() -> Vec<ResOp> {
    let requirements = copy::Requirements { consecutive: true, synchronous: true };
    let written = |callback_id| WriteResponse {
        callback_id,
        count: 5,
        committed: StableHow::Unstable,
        writeverf: [3; 8],
    };
    let pieces = vec![
        read_plus::Content::Hole(read_plus::Hole { offset: 0, length: 4096 }),
        read_plus::Content::Data(read_plus::Data { offset: 4096, data: name("hello").into() }),
    ];
    vec![
        ResOp::DelegReturn(Ok(())),
        ResOp::Allocate(Ok(())),
        ResOp::Copy(Ok(copy::ResOk { response: written(Some(STATEID)), requirements })),
        ResOp::Copy(Ok(copy::ResOk { response: written(None), requirements })),
        ResOp::Copy(Err(copy::CopyError::NoReqs(requirements))),
        ResOp::Deallocate(Ok(())),
        ResOp::IoAdvise(Ok(io_advise::ResOk { hints: Bitmap::EMPTY })),
        ResOp::LayoutError(Ok(())),
        ResOp::LayoutStats(Ok(())),
        ResOp::ReadPlus(Ok(read_plus::ResOk { eof: true, contents: pieces })),
        ResOp::Seek(Ok(seek::ResOk { eof: false, offset: 4096 })),
        ResOp::Clone(Ok(())),
        ResOp::GetXattr(Ok(getxattr::ResOk { value: name("red") })),
        ResOp::SetXattr(Ok(setxattr::ResOk { cinfo: CINFO })),
        ResOp::ListXattrs(Ok(listxattrs::ResOk { cookie: 1, names: vec![name("a"), name("b")], eof: true })),
        ResOp::RemoveXattr(Err(Status::NoXattr)),
    ]
}

pub fn results() -> Vec<ResOp> {
    let exchange_id = |state_protect| {
        ResOp::ExchangeId(Ok(exchange_id::ResOk {
            clientid: ClientId(9),
            sequenceid: 1,
            flags: exchange_id::USE_PNFS_MDS | exchange_id::CONFIRMED_R,
            state_protect,
            server_owner: ServerOwner { minor_id: 0, major_id: name("heorot").into() },
            server_scope: name("scope").into(),
            server_impl_id: None,
        }))
    };
    let ssv = SsvInfo {
        ops: ssv_ops(),
        hash_alg: 0,
        encr_alg: 1,
        ssv_len: 32,
        window: 4,
        handles: vec![name("h")],
    };
    let denied = lock::Denied { offset: 0, length: 5, locktype: LockType::Read, owner: owner() };
    let layout = layoutget::Layout {
        offset: 0,
        length: u64::MAX,
        iomode: LayoutIoMode::ReadWrite,
        layout_type: LayoutType::FILES,
        body: layout_files::to_body(&file_layout()),
    };
    let device_addr =
        getdeviceinfo::DeviceAddr { layout_type: LayoutType::FILES, body: layout_files::to_body(&ds_addr()) };
    let mut all = vec![
        ResOp::Access(Ok(access::ResOk { supported: 0x3f, access: 1 })),
        ResOp::Access(Err(Status::Stale)),
        ResOp::Close(Ok(close::ResOk { open_stateid: Stateid::INVALID })),
        ResOp::Commit(Ok(commit::ResOk { writeverf: [3; 8] })),
        ResOp::Create(Ok(create::ResOk { cinfo: CINFO, attrset: Bitmap::of(&[attr::MODE]) })),
        ResOp::GetAttr(Ok(AttrReply { requested: Fattr::KNOWN, attrs: fattr() })),
        ResOp::GetFh(Ok(getfh::ResOk { object: handle() })),
        ResOp::Link(Ok(link::ResOk { cinfo: CINFO })),
        ResOp::Lock(Ok(lock::ResOk { lock_stateid: STATEID })),
        ResOp::Lock(Err(lock::Error::Denied(denied.clone()))),
        ResOp::Lock(Err(lock::Error::Status(Status::Grace))),
        ResOp::LockT(Ok(())),
        ResOp::LockT(Err(lock::Error::Denied(denied))),
        ResOp::LockU(Ok(locku::ResOk { lock_stateid: STATEID })),
        ResOp::Lookup(Ok(())),
        ResOp::LookupP(Err(Status::NoEnt)),
        ResOp::NVerify(Err(Status::Same)),
        ResOp::OpenDowngrade(Ok(open_downgrade::ResOk { open_stateid: STATEID })),
        ResOp::PutFh(Ok(())),
        ResOp::PutPubFh(Ok(())),
        ResOp::PutRootFh(Ok(())),
        ResOp::Read(Ok(read::ResOk { eof: false, data: name("hello").into() })),
        ResOp::ReadDir(Ok(readdir::ResOk { cookieverf: [1; 8], entries: dir_entries(), eof: true })),
        ResOp::ReadLink(Ok(readlink::ResOk { link: name("../there") })),
        ResOp::Remove(Ok(remove::ResOk { cinfo: CINFO })),
        ResOp::Rename(Ok(rename::ResOk { source_cinfo: CINFO, target_cinfo: CINFO })),
        ResOp::RestoreFh(Ok(())),
        ResOp::SaveFh(Ok(())),
        ResOp::SecInfo(Ok(secinfo())),
        ResOp::SetAttr(setattr::Res { status: Status::Ok, attrsset: Bitmap::of(&[attr::SIZE]) }),
        ResOp::SetAttr(setattr::Res { status: Status::NoSpc, attrsset: Bitmap::EMPTY }),
        ResOp::Verify(Ok(())),
        ResOp::Write(Ok(write::ResOk { count: 5, committed: StableHow::FileSync, writeverf: [3; 8] })),
        ResOp::BackchannelCtl(Ok(())),
        ResOp::BindConnToSession(Ok(bind_conn_to_session::ResOk {
            sessid: SESSION,
            dir: bind_conn_to_session::DirFromServer::Both,
            use_conn_in_rdma_mode: false,
        })),
        exchange_id(StateProtectRes::None),
        exchange_id(StateProtectRes::MachCred(ssv_ops())),
        exchange_id(StateProtectRes::Ssv(ssv)),
        ResOp::CreateSession(Ok(create_session::ResOk {
            sessionid: SESSION,
            sequence: 1,
            flags: create_session::PERSIST,
            fore_chan_attrs: CHANNEL,
            back_chan_attrs: CHANNEL,
        })),
        ResOp::DestroySession(Ok(())),
        ResOp::FreeStateid(Ok(())),
        ResOp::GetDeviceInfo(Ok(getdeviceinfo::ResOk { device_addr, notification: Bitmap::EMPTY })),
        ResOp::GetDeviceInfo(Err(getdeviceinfo::Error::TooSmall { mincount: 300 })),
        ResOp::LayoutCommit(Ok(layoutcommit::ResOk { newsize: Some(4096) })),
        ResOp::LayoutGet(Ok(layoutget::ResOk {
            return_on_close: true,
            stateid: STATEID,
            layouts: vec![layout],
        })),
        ResOp::LayoutGet(Err(layoutget::Error::TryLater { will_signal: true })),
        ResOp::LayoutGet(Err(layoutget::Error::Status(Status::LayoutUnavailable))),
        ResOp::LayoutReturn(Ok(layoutreturn::ResOk { stateid: Some(STATEID) })),
        ResOp::LayoutReturn(Ok(layoutreturn::ResOk { stateid: None })),
        ResOp::SecInfoNoName(Ok(secinfo())),
        ResOp::Sequence(Ok(sequence::ResOk {
            sessionid: SESSION,
            sequenceid: 1,
            slotid: 2,
            highest_slotid: 63,
            target_highest_slotid: 63,
            status_flags: sequence::CB_PATH_DOWN,
        })),
        ResOp::TestStateid(Ok(test_stateid::ResOk { status_codes: vec![Status::Ok, Status::BadStateid] })),
        ResOp::DestroyClientid(Err(Status::ClientidBusy)),
        ResOp::ReclaimComplete(Err(Status::CompleteAlready)),
    ];
    all.extend(opened());
    all.extend(rare_results());
    all
}

pub fn cb_compound() -> CbCompound {
    let recall = |recall| {
        CbArgOp::LayoutRecall(LayoutRecallArgs {
            layout_type: LayoutType::FILES,
            iomode: LayoutIoMode::Any,
            changed: true,
            recall,
        })
    };
    let calls = vec![ReferringCall { sequenceid: 4, slotid: 5 }];
    CbCompound {
        tag: name("cb").into(),
        minor_version: 1,
        callback_ident: 0,
        ops: vec![
            CbArgOp::Sequence(SequenceArgs {
                sessionid: SESSION,
                sequenceid: 1,
                slotid: 0,
                highest_slotid: 0,
                cachethis: false,
                referring_call_lists: vec![ReferringCalls { sessionid: SESSION, calls }],
            }),
            recall(LayoutRecall::File(RecallFile {
                fh: handle(),
                offset: 0,
                length: u64::MAX,
                stateid: STATEID,
            })),
            recall(LayoutRecall::FsId(FsId { major: 1, minor: 2 })),
            recall(LayoutRecall::All),
            CbArgOp::Recall(RecallArgs { stateid: STATEID, truncate: true, fh: handle() }),
            CbArgOp::RecallAny(RecallAnyArgs {
                objects_to_keep: 3,
                type_mask: RecallAnyArgs::WRITE_DELEGATIONS,
            }),
            CbArgOp::NotifyLock(NotifyLockArgs { fh: handle(), lock_owner: owner() }),
            CbArgOp::Unsupported(12),
        ],
    }
}

pub fn cb_reply() -> CbReply {
    CbReply {
        status: Status::OpIllegal,
        tag: name("cb").into(),
        ops: vec![
            CbResOp::Sequence(Ok(SequenceOk {
                sessionid: SESSION,
                sequenceid: 1,
                slotid: 0,
                highest_slotid: 0,
                target_highest_slotid: 0,
            })),
            CbResOp::LayoutRecall(Err(Status::NoMatchingLayout)),
            CbResOp::Recall(Ok(())),
            CbResOp::NotifyLock(Ok(())),
            CbResOp::Unsupported(12, Status::NotSupp),
            CbResOp::Illegal,
        ],
    }
}
