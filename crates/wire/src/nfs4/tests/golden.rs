//! Hand-made bytes from RFC 5662, to find an error that encoder and decoder share.

use super::samples::{STATEID, name};
use super::*;
use crate::nfs4::layout_files::{FileLayout, UTIL_DENSE, to_body};
use crate::nfs4::open::*;

/// Big-endian words, and texts that are a multiple of four bytes.
fn words(parts: &[&[u32]]) -> Vec<u8> {
    parts.concat().iter().flat_map(|word| word.to_be_bytes()).collect()
}

const STATEID_WORDS: [u32; 4] = [3, 0x7477_656c, 0x7665_2062, 0x7974_6573]; // "twelve bytes"

#[test]
fn an_open_that_creates() {
    let attrs = Fattr { size: Some(0), mode: Some(0o644), ..Fattr::default() };
    let open = ArgOp::Open(open::Args {
        seqid: 0,
        share_access: SHARE_ACCESS_BOTH | WANT_NO_DELEG,
        share_deny: SHARE_DENY_NONE,
        owner: StateOwner { clientid: ClientId(0x0102_0304_0506_0708), owner: name("own").into() },
        openhow: OpenHow::Create(CreateHow::Exclusive41(ExclusiveAttrs {
            verifier: *b"verifier",
            attrs: Box::new(attrs),
        })),
        claim: Claim::Null(name("file.c")),
    });
    let expected = words(&[
        &[18, 0, 0x403, 0],                          // OPEN, seqid, access, deny
        &[0x0102_0304, 0x0506_0708, 3, 0x6f77_6e00], // clientid, "own"
        &[1, 3, 0x7665_7269, 0x6669_6572],           // OPEN4_CREATE, EXCLUSIVE4_1, "verifier"
        &[2, 1 << 4, 1 << 1, 12, 0, 0, 0o644],       // size, mode
        &[0, 6, 0x6669_6c65, 0x2e63_0000],           // CLAIM_NULL, "file.c"
    ]);
    assert_eq!(bytes_of(&open).as_ref(), expected);
    assert_eq!(arg_op(&mut Decoder::new(expected.into())), Ok(open));
}

#[test]
fn an_open_that_is_granted_without_a_delegation() {
    let res = ResOp::Open(Ok(open::ResOk {
        stateid: STATEID,
        cinfo: ChangeInfo { atomic: true, before: 1, after: 2 },
        rflags: RESULT_LOCKTYPE_POSIX,
        attrset: Bitmap::of(&[attr::MODE]),
        delegation: Delegation::NoneExt(WhyNone::Contention { will_push: false }),
    }));
    let expected = words(&[
        &[18, 0],
        &STATEID_WORDS,
        &[1, 0, 1, 0, 2], // cinfo
        &[4, 2, 0, 1 << 1],
        &[3, 1, 0], // OPEN_DELEGATE_NONE_EXT, WND4_CONTENTION, no push
    ]);
    assert_eq!(bytes_of(&res).as_ref(), expected);
}

#[test]
fn a_layoutget_and_its_layout() {
    let get = ArgOp::LayoutGet(layoutget::Args {
        signal_layout_avail: false,
        layout_type: LayoutType::FILES,
        iomode: LayoutIoMode::ReadWrite,
        offset: 0x1_0000_0000,
        length: u64::MAX,
        minlength: 4096,
        stateid: STATEID,
        maxcount: 4096,
    });
    let expected = words(&[&[50, 0, 1, 2, 1, 0, u32::MAX, u32::MAX, 0, 4096], &STATEID_WORDS, &[4096]]);
    assert_eq!(bytes_of(&get).as_ref(), expected);

    let body = to_body(&FileLayout {
        deviceid: DeviceId([6; 16]),
        util: (1 << 20) | UTIL_DENSE,
        first_stripe_index: 2,
        pattern_offset: 0,
        fh_list: vec![name("hand").into(), name("le").into()],
    });
    let layout = layoutget::Layout {
        offset: 0,
        length: u64::MAX,
        iomode: LayoutIoMode::ReadWrite,
        layout_type: LayoutType::FILES,
        body,
    };
    let res = ResOp::LayoutGet(Ok(layoutget::ResOk {
        return_on_close: true,
        stateid: STATEID,
        layouts: vec![layout],
    }));
    let expected = words(&[
        &[50, 0, 1],
        &STATEID_WORDS,
        &[1, 0, 0, u32::MAX, u32::MAX, 2, 1, 52], // one layout; LAYOUT4_NFSV4_1_FILES, 52 bytes
        &[0x0606_0606, 0x0606_0606, 0x0606_0606, 0x0606_0606], // deviceid
        &[0x0010_0001, 2, 0, 0],                  // util, first_stripe_index, pattern_offset
        &[2, 4, 0x6861_6e64, 2, 0x6c65_0000],     // handles
    ]);
    assert_eq!(bytes_of(&res).as_ref(), expected);
    assert_eq!(ResOp::decode(&mut Decoder::new(expected.into())), Ok(res));
}

#[test]
fn a_threshold_below_which_io_goes_through_the_metaserver() {
    let item = fattr::ThresholdItem::sizes(LayoutType::FILES, 0x1_0000, 0x2_0000_0000);
    let attrs = Box::new(Fattr { mdsthreshold: Some(vec![item]), ..Fattr::default() });
    let expected = words(&[
        &[3, 0, 0, 1 << 4, 36], // bit 68
        &[1, 1, 1, 0b11, 16],   // one item: files layouts, read and write size
        &[0, 0x1_0000, 2, 0],
    ]);
    assert_eq!(bytes_of(&attrs).as_ref(), expected);
}

#[test]
fn where_else_a_file_system_is() {
    use crate::nfs4::fs_locations::{FsLocation, FsLocations};
    let servers = vec![name("10.77.0.1"), name("elm!")];
    let locations = vec![FsLocation { servers, rootpath: vec![name("home")] }];
    let fs_locations = Some(FsLocations { fs_root: vec![], locations });
    let attrs = Box::new(Fattr { fs_locations, ..Fattr::default() });
    let expected = words(&[
        &[1, 1 << 24, 48],
        &[0, 1, 2, 9, 0x3130_2e37, 0x372e_302e, 0x3100_0000], // no path here; one location, two servers: 10.77.0.1
        &[4, 0x656c_6d21, 1, 4, 0x686f_6d65],                 // and elm!, below /home
    ]);
    assert_eq!(bytes_of(&attrs).as_ref(), expected);
    assert_eq!(Decode::decode(&mut Decoder::new(expected.into())), Ok(attrs));
}

#[test]
fn what_goes_with_a_client_to_another_server() {
    use crate::nfs4::fs_locations_info::{
        FsLocationsInfo, FsLocationsItem, FsLocationsServer, ServerInfo, general,
    };
    let info = ServerInfo {
        flags: general::WRITABLE | general::CUR_REQ,
        transport_flags: 0,
        simultaneous_use: 1,
        handle: 2,
        fileid: 3,
        write_verifier: 4,
        change: 5,
        readdir: 6,
        read_rank: 7,
        write_rank: 8,
        read_order: 9,
        write_order: 10,
    };
    let server = FsLocationsServer { currency_s: -1, info: info.to_bytes(), server: name("elm!") };
    let items = vec![FsLocationsItem { entries: vec![server], rootpath: vec![] }];
    let info = FsLocationsInfo { flags: 0, valid_for_s: 30, fs_root: vec![], items };
    let attrs = Box::new(Fattr { fs_locations_info: Some(info), ..Fattr::default() });
    let expected = words(&[
        &[3, 0, 0, 1 << 3, 52], // bit 67
        &[0, 30, 0, 1, 1],      // flags, valid for, root; one item with one entry
        &[u32::MAX, 12, 0x0300_0102, 0x0304_0506, 0x0708_090a],
        &[4, 0x656c_6d21, 0],
    ]);
    assert_eq!(bytes_of(&attrs).as_ref(), expected);
    assert_eq!(Decode::decode(&mut Decoder::new(expected.into())), Ok(attrs));
}

#[test]
fn failures_that_carry_data() {
    let denied = lock::Denied {
        offset: 1,
        length: 2,
        locktype: LockType::Write,
        owner: StateOwner { clientid: ClientId(7), owner: name("o").into() },
    };
    let lock = ResOp::Lock(Err(lock::Error::Denied(denied)));
    assert_eq!(bytes_of(&lock), words(&[&[12, 10_010, 0, 1, 0, 2, 2, 0, 7, 1, 0x6f00_0000]]));
    let small = ResOp::GetDeviceInfo(Err(getdeviceinfo::Error::TooSmall { mincount: 300 }));
    assert_eq!(bytes_of(&small), words(&[&[47, 10_005, 300]]));
    let later = ResOp::LayoutGet(Err(layoutget::Error::TryLater { will_signal: true }));
    assert_eq!(bytes_of(&later), words(&[&[50, 10_058, 1]]));
    assert_eq!(bytes_of(&ResOp::refused(34, Status::BadXdr)), words(&[&[34, 10_036, 0]]));
    assert_eq!(bytes_of(&ResOp::refused(8, Status::NotSupp)), words(&[&[8, 10_004]]));
    assert_eq!(bytes_of(&ResOp::Illegal), words(&[&[10_044, 10_044]]));
}
