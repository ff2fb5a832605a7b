//! Round trips of every procedure, bytes from the RFC for a few, and hostile bytes.

use bytes::Bytes;
use proptest::prelude::*;

use super::testing::{bytes_of, hostile, mutated, round_trip, seeds};
use super::{
    Call, DirOpArgs, Failure, Fattr, FileHandle, FileType, List, Procedure, Reply, SetAttr, SetTime,
    SpecData, StableHow, Status, Time, WccAttr, WccData,
};
use super::{
    access, commit, create, fsinfo, fsstat, getattr, link, lookup, mkdir, mknod, null, pathconf, read,
    readdir, readdirplus, readlink, remove, rename, rmdir, setattr, symlink, write,
};
use crate::rpc::{AuthStat, AuthSys, CallHeader, Credential, Rejection, frame};
use crate::xdr::{DecodeError, Decoder, Message, Payload};

const TIME: Time = Time { seconds: 1_700_000_000, nanoseconds: 999_999_999 };

fn handle() -> FileHandle {
    FileHandle(Bytes::from_static(&[0xab; 33]))
}

fn at(name: &'static str) -> DirOpArgs {
    DirOpArgs { dir: handle(), name: Bytes::from_static(name.as_bytes()) }
}

fn fattr() -> Fattr {
    Fattr {
        kind: FileType::Regular,
        mode: 0o644,
        nlink: 1,
        uid: 1000,
        gid: 100,
        size: 1 << 40,
        used: 4096,
        rdev: SpecData { major: 8, minor: 1 },
        fsid: 7,
        fileid: u64::MAX,
        atime: TIME,
        mtime: TIME,
        ctime: TIME,
    }
}

fn wcc() -> WccData {
    WccData { before: Some(WccAttr { size: 1, mtime: TIME, ctime: TIME }), after: Some(fattr()) }
}

fn set_attr() -> SetAttr {
    SetAttr {
        mode: Some(0o755),
        uid: None,
        gid: Some(5),
        size: Some(0),
        atime: SetTime::ServerTime,
        mtime: SetTime::ClientTime(TIME),
    }
}

fn payload(len: usize) -> Payload {
    Payload::from(Bytes::from(vec![0x5a; len]))
}

fn entry(name: &'static str) -> readdir::Entry {
    readdir::Entry { fileid: 2, name: Bytes::from_static(name.as_bytes()), cookie: 3 }
}

fn entry_plus(name: &'static str, all: bool) -> readdirplus::Entry {
    readdirplus::Entry {
        fileid: 2,
        name: Bytes::from_static(name.as_bytes()),
        cookie: 3,
        name_attributes: all.then(fattr),
        name_handle: all.then(handle),
    }
}

fn calls() -> Vec<Call> {
    let device = mknod::DeviceData { attributes: set_attr(), spec: SpecData { major: 1, minor: 3 } };
    let mut calls = vec![
        Call::Null(null::Args {}),
        Call::GetAttr(getattr::Args { object: handle() }),
        Call::SetAttr(setattr::Args { object: handle(), new_attributes: set_attr(), guard: Some(TIME) }),
        Call::SetAttr(setattr::Args { object: handle(), new_attributes: SetAttr::default(), guard: None }),
        Call::Lookup(lookup::Args { what: at("name") }),
        Call::Access(access::Args { object: handle(), access: access::READ | access::EXECUTE }),
        Call::ReadLink(readlink::Args { symlink: handle() }),
        Call::Read(read::Args { file: handle(), offset: 1 << 33, count: 1 << 20 }),
        Call::MkDir(mkdir::Args { at: at("d"), attributes: set_attr() }),
        Call::SymLink(symlink::Args {
            at: at("s"),
            attributes: set_attr(),
            data: Bytes::from_static(b"../to"),
        }),
        Call::Remove(remove::Args { object: at("gone") }),
        Call::RmDir(rmdir::Args { object: at("") }),
        Call::Rename(rename::Args { from: at("a"), to: at("b") }),
        Call::Link(link::Args { file: handle(), link: at("more") }),
        Call::ReadDir(readdir::Args { dir: handle(), cookie: 9, cookieverf: [1; 8], count: 4096 }),
        Call::ReadDirPlus(readdirplus::Args {
            dir: handle(),
            cookie: 0,
            cookieverf: [0; 8],
            dircount: 512,
            maxcount: 4096,
        }),
        Call::FsStat(fsstat::Args { fsroot: handle() }),
        Call::FsInfo(fsinfo::Args { fsroot: handle() }),
        Call::PathConf(pathconf::Args { object: handle() }),
        Call::Commit(commit::Args { file: handle(), offset: 0, count: 0 }),
    ];
    calls.extend([0, 1, 2, 3, 4, 3000].map(|len: u16| {
        let (count, data) = (u32::from(len), payload(usize::from(len)));
        Call::Write(write::Args { file: handle(), offset: 4096, count, stable: StableHow::Unstable, data })
    }));
    let hows = [
        create::CreateHow::Unchecked(set_attr()),
        create::CreateHow::Guarded(SetAttr::default()),
        create::CreateHow::Exclusive([8; 8]),
    ];
    calls.extend(hows.map(|how| Call::Create(create::Args { at: at("new"), how })));
    let whats = [
        mknod::MkNodData::Regular,
        mknod::MkNodData::Directory,
        mknod::MkNodData::Block(device.clone()),
        mknod::MkNodData::Character(device),
        mknod::MkNodData::SymLink,
        mknod::MkNodData::Socket(set_attr()),
        mknod::MkNodData::Fifo(SetAttr::default()),
    ];
    calls.extend(whats.map(|what| Call::MkNod(mknod::Args { at: at("dev"), what })));
    calls
}

fn ok_replies() -> Vec<Reply> {
    let (attributes, wcc, obj) = (Some(fattr()), wcc(), Some(handle()));
    let text = Bytes::from_static(b"target");
    vec![
        Reply::Null(null::Res {}),
        Reply::GetAttr(Ok(getattr::ResOk { obj_attributes: fattr() })),
        Reply::SetAttr(Ok(setattr::ResOk { obj_wcc: wcc })),
        Reply::Lookup(Ok(lookup::ResOk {
            object: handle(),
            obj_attributes: attributes,
            dir_attributes: None,
        })),
        Reply::Access(Ok(access::ResOk { obj_attributes: attributes, access: access::LOOKUP })),
        Reply::ReadLink(Ok(readlink::ResOk { symlink_attributes: attributes, data: text })),
        Reply::Read(Ok(read::ResOk { file_attributes: None, count: 5, eof: true, data: payload(5) })),
        Reply::Read(Ok(read::ResOk { file_attributes: None, count: 3001, eof: true, data: payload(3001) })),
        Reply::Write(Ok(write::ResOk {
            file_wcc: wcc,
            count: 3,
            committed: StableHow::FileSync,
            verf: [4; 8],
        })),
        Reply::Create(Ok(create::ResOk { obj: obj.clone(), obj_attributes: attributes, dir_wcc: wcc })),
        Reply::MkDir(Ok(mkdir::ResOk { obj: obj.clone(), obj_attributes: attributes, dir_wcc: wcc })),
        Reply::SymLink(Ok(symlink::ResOk { obj: None, obj_attributes: None, dir_wcc: wcc })),
        Reply::MkNod(Ok(mknod::ResOk { obj, obj_attributes: None, dir_wcc: WccData::default() })),
        Reply::Remove(Ok(remove::ResOk { dir_wcc: wcc })),
        Reply::RmDir(Ok(rmdir::ResOk { dir_wcc: wcc })),
        Reply::Rename(Ok(rename::ResOk { fromdir_wcc: wcc, todir_wcc: WccData::default() })),
        Reply::Link(Ok(link::ResOk { file_attributes: attributes, linkdir_wcc: wcc })),
        Reply::ReadDir(Ok(readdir::ResOk {
            dir_attributes: attributes,
            cookieverf: [2; 8],
            entries: vec![entry("."), entry(".."), entry("file")].into(),
            eof: true,
        })),
        Reply::ReadDirPlus(Ok(readdirplus::ResOk {
            dir_attributes: None,
            cookieverf: [2; 8],
            entries: vec![entry_plus("a", true), entry_plus("bc", false)].into(),
            eof: false,
        })),
        Reply::FsStat(Ok(fsstat::ResOk {
            obj_attributes: attributes,
            tbytes: 1,
            fbytes: 2,
            abytes: 3,
            tfiles: 4,
            ffiles: 5,
            afiles: 6,
            invarsec: 7,
        })),
        Reply::FsInfo(Ok(fsinfo::ResOk {
            obj_attributes: attributes,
            rtmax: 1,
            rtpref: 2,
            rtmult: 3,
            wtmax: 4,
            wtpref: 5,
            wtmult: 6,
            dtpref: 7,
            maxfilesize: u64::MAX,
            time_delta: Time { seconds: 0, nanoseconds: 1 },
            properties: fsinfo::LINK | fsinfo::SYMLINK | fsinfo::HOMOGENEOUS | fsinfo::CAN_SET_TIME,
        })),
        Reply::PathConf(Ok(pathconf::ResOk {
            obj_attributes: attributes,
            linkmax: 32000,
            name_max: 255,
            no_trunc: true,
            chown_restricted: true,
            case_insensitive: false,
            case_preserving: true,
        })),
        Reply::Commit(Ok(commit::ResOk { file_wcc: wcc, verf: [6; 8] })),
    ]
}

fn failed_replies() -> Vec<Reply> {
    let (attributes, wcc) = (Some(fattr()), wcc());
    vec![
        Reply::GetAttr(Err(Status::BadHandle.into())),
        Reply::SetAttr(Err(Failure::new(Status::NotSync, setattr::ResFail { obj_wcc: wcc }))),
        Reply::Lookup(Err(Failure::new(Status::NoEnt, lookup::ResFail { dir_attributes: attributes }))),
        Reply::Access(Err(Failure::new(Status::Stale, access::ResFail { obj_attributes: attributes }))),
        Reply::ReadLink(Err(Failure::new(
            Status::Inval,
            readlink::ResFail { symlink_attributes: attributes },
        ))),
        Reply::Read(Err(Failure::new(Status::IsDir, read::ResFail { file_attributes: attributes }))),
        Reply::Write(Err(Failure::new(Status::DQuot, write::ResFail { file_wcc: wcc }))),
        Reply::Create(Err(Failure::new(Status::Exist, create::ResFail { dir_wcc: wcc }))),
        Reply::MkDir(Err(Failure::new(Status::NoSpc, mkdir::ResFail { dir_wcc: wcc }))),
        Reply::SymLink(Err(Failure::new(Status::NameTooLong, symlink::ResFail { dir_wcc: wcc }))),
        Reply::MkNod(Err(Failure::new(Status::BadType, mknod::ResFail { dir_wcc: wcc }))),
        Reply::Remove(Err(Failure::new(Status::Acces, remove::ResFail { dir_wcc: wcc }))),
        Reply::RmDir(Err(Failure::new(Status::NotEmpty, rmdir::ResFail { dir_wcc: wcc }))),
        Reply::Rename(Err(Failure::new(
            Status::Xdev,
            rename::ResFail { fromdir_wcc: wcc, todir_wcc: WccData::default() },
        ))),
        Reply::Link(Err(Failure::new(
            Status::MLink,
            link::ResFail { file_attributes: attributes, linkdir_wcc: wcc },
        ))),
        Reply::ReadDir(Err(Failure::new(Status::BadCookie, readdir::ResFail { dir_attributes: attributes }))),
        Reply::ReadDirPlus(Err(Failure::new(
            Status::TooSmall,
            readdirplus::ResFail { dir_attributes: attributes },
        ))),
        Reply::FsStat(Err(Failure::new(Status::ServerFault, fsstat::ResFail { obj_attributes: attributes }))),
        Reply::FsInfo(Err(Failure::new(Status::Jukebox, fsinfo::ResFail { obj_attributes: attributes }))),
        Reply::PathConf(Err(Failure::new(Status::NotSupp, pathconf::ResFail { obj_attributes: attributes }))),
        Reply::Commit(Err(Failure::new(Status::Io, commit::ResFail { file_wcc: wcc }))),
    ]
}

fn replies() -> Vec<Reply> {
    [ok_replies(), failed_replies()].concat()
}

#[test]
fn every_procedure_goes_there_and_back() {
    for call in calls() {
        round_trip(&call, |d| Call::decode(call.procedure(), d));
    }
    for reply in replies() {
        round_trip(&reply, |d| Reply::decode(reply.procedure(), d));
    }
    for (number, procedure) in (0..).zip(Procedure::ALL) {
        assert_eq!(Procedure::from_u32(number), Some(*procedure));
        assert!(calls().iter().any(|c| c.procedure() == *procedure), "{}", procedure.name());
        assert!(ok_replies().iter().any(|r| r.procedure() == *procedure), "{}", procedure.name());
        let fails = failed_replies().iter().any(|r| r.procedure() == *procedure);
        assert!(fails || *procedure == Procedure::Null, "{}", procedure.name());
    }
    assert_eq!(Procedure::ALL.len(), 22);
    assert_eq!(Procedure::from_u32(22), None);
    assert_eq!(Procedure::ReadDirPlus.name(), "READDIRPLUS");
}

#[test]
fn the_data_of_a_write_and_a_read_are_not_copied() {
    let args = write::Args {
        file: handle(),
        offset: 0,
        count: 1 << 20,
        stable: StableHow::FileSync,
        data: payload(1 << 20),
    };
    let sent = {
        let mut e = crate::xdr::Encoder::new();
        crate::xdr::Encode::encode(&args, &mut e);
        e.finish()
    };
    assert!(sent.segments.iter().any(|s| s.as_ptr() == args.data.segments()[0].as_ptr()));
    let record = sent.into_bytes();
    let call = Call::decode(Procedure::Write, &mut Decoder::new(record.clone()));
    let Ok(Call::Write(got)) = call else { panic!("{call:?}") };
    assert_eq!(got.data.segments()[0].as_ptr(), record[record.len() - (1 << 20)..].as_ptr());
}

/// Bytes of words, as in the RFC's XDR.
fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_be_bytes()).collect()
}

#[test]
fn the_bytes_are_those_of_the_rfc() {
    let fh = FileHandle(Bytes::from_static(&[0, 0, 0, 7, 9]));
    let set = setattr::Args { object: fh.clone(), new_attributes: set_attr(), guard: Some(TIME) };
    let time = [TIME.seconds, TIME.nanoseconds];
    let expected = words(&[
        5,
        7,
        0x0900_0000, // handle
        1,
        0o755,
        0,
        1,
        5,
        1,
        0,
        0, // mode, uid, gid, size
        1,
        2,
        time[0],
        time[1], // atime: server's, mtime: client's
        1,
        time[0],
        time[1], // guard
    ]);
    assert_eq!(bytes_of(&set), expected);

    let what = DirOpArgs { dir: fh.clone(), name: Bytes::from_static(b"abcde") };
    let how = create::CreateHow::Exclusive([1, 2, 3, 4, 5, 6, 7, 8]);
    let expected = words(&[5, 7, 0x0900_0000, 5, 0x6162_6364, 0x6500_0000, 2, 0x0102_0304, 0x0506_0708]);
    assert_eq!(bytes_of(&create::Args { at: what, how }), expected);

    let noent: lookup::Res = Err(Status::NoEnt.into());
    assert_eq!(bytes_of(&noent), words(&[2, 0]));
    let badhandle: getattr::Res = Err(Status::BadHandle.into());
    assert_eq!(bytes_of(&badhandle), words(&[10001]));

    let fattr_words = [1, 0o644, 1, 1000, 100, 256, 0, 0, 4096, 8, 1, 0, 7, !0, !0];
    let times = [time[0], time[1], time[0], time[1], time[0], time[1]];
    let ok: getattr::Res = Ok(getattr::ResOk { obj_attributes: fattr() });
    assert_eq!(bytes_of(&ok), words(&[&[0], &fattr_words[..], &times[..]].concat()));

    let list: readdir::Res = Ok(readdir::ResOk {
        dir_attributes: None,
        cookieverf: [0, 0, 0, 1, 0, 0, 0, 2],
        entries: vec![entry("a"), entry("bcdef")].into(),
        eof: true,
    });
    let expected = words(&[
        0,
        0,
        1,
        2, // status, no attributes, verifier
        1,
        0,
        2,
        1,
        0x6100_0000,
        0,
        3, // entry: fileid, name, cookie
        1,
        0,
        2,
        5,
        0x6263_6465,
        0x6600_0000,
        0,
        3, //
        0,
        1, // end of list, eof
    ]);
    assert_eq!(bytes_of(&list), expected);
}

#[test]
fn an_entry_tells_its_size() {
    let plain = |entries: Vec<readdir::Entry>| {
        let dir_attributes = Some(fattr());
        bytes_of(&readdir::ResOk { dir_attributes, cookieverf: [0; 8], entries: entries.into(), eof: true })
            .len()
    };
    assert_eq!(plain(vec![]), readdir::RES_OK_BYTES_EMPTY);
    let plus = |entries: Vec<readdirplus::Entry>| {
        let dir_attributes = Some(fattr());
        let entries = List(entries);
        bytes_of(&readdirplus::ResOk { dir_attributes, cookieverf: [0; 8], entries, eof: true }).len()
    };
    assert_eq!(plus(vec![]), readdirplus::RES_OK_BYTES_EMPTY);
    for name in ["", "a", "ab", "abc", "abcd", "abcde"] {
        let one = entry(name);
        assert_eq!(plain(vec![one.clone()]), readdir::RES_OK_BYTES_EMPTY + one.encoded_bytes());
        let bare = entry_plus(name, false);
        let full = entry_plus(name, true);
        // dircount bounds the plain entry without the word before it.
        assert_eq!(full.dir_bytes(), one.encoded_bytes() - 4);
        let sum = bare.encoded_bytes() + full.encoded_bytes();
        assert_eq!(plus(vec![bare, full]), readdirplus::RES_OK_BYTES_EMPTY + sum);
    }
}

#[test]
fn what_the_protocol_does_not_define_is_refused() {
    let refused = |procedure, bytes: Vec<u8>| Call::decode(procedure, &mut Decoder::new(bytes.into())).err();
    let long_handle = [words(&[65]), vec![0; 68]].concat();
    assert_eq!(refused(Procedure::GetAttr, long_handle), Some(DecodeError::Length(65)));
    assert_eq!(refused(Procedure::GetAttr, words(&[u32::MAX])), Some(DecodeError::Length(u32::MAX)));
    assert_eq!(refused(Procedure::Lookup, words(&[0, u32::MAX])), Some(DecodeError::Short));
    assert_eq!(refused(Procedure::Write, words(&[0, 0, 0, 4, 3, 0])), Some(DecodeError::Enum(3)));
    assert_eq!(refused(Procedure::Create, words(&[0, 0, 3])), Some(DecodeError::Enum(3)));
    assert_eq!(refused(Procedure::MkNod, words(&[0, 0, 8])), Some(DecodeError::Enum(8)));
    assert_eq!(refused(Procedure::SetAttr, words(&[0, 2])), Some(DecodeError::Bool(2)));
    let reply = Reply::decode(Procedure::GetAttr, &mut Decoder::new(words(&[4]).into()));
    assert_eq!(reply, Err(DecodeError::Enum(4)));
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for procedure in Procedure::ALL {
            hostile(&bytes, |d| Call::decode(*procedure, d));
            hostile(&bytes, |d| Reply::decode(*procedure, d));
        }
    }

    // Lengths, booleans and discriminants are small words: the decoder gets further with them.
    #[test]
    fn random_small_words_never_panic(small in prop::collection::vec(0u32..6, 0..100)) {
        for procedure in Procedure::ALL {
            hostile(&words(&small), |d| Call::decode(*procedure, d));
            hostile(&words(&small), |d| Reply::decode(*procedure, d));
        }
    }

    #[test]
    fn an_altered_message_never_panics(
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        to in any::<u8>(),
    ) {
        let (calls, replies) = (calls(), replies());
        let call = which.get(&calls);
        let reply = which.get(&replies);
        let mut altered = [bytes_of(call).to_vec(), vec![0; 4]].concat();
        *at.get_mut(&mut altered) = to;
        hostile(&altered, |d| Call::decode(call.procedure(), d));
        let mut altered = [bytes_of(reply).to_vec(), vec![0; 4]].concat();
        *at.get_mut(&mut altered) = to;
        hostile(&altered, |d| Reply::decode(reply.procedure(), d));
    }
}

#[test]
fn valid_messages_with_a_word_changed_never_panic() {
    for call in calls() {
        mutated(&bytes_of(&call), |d| Call::decode(call.procedure(), d));
    }
    for reply in ok_replies() {
        mutated(&bytes_of(&reply), |d| Reply::decode(reply.procedure(), d));
    }
}

#[test]
#[ignore = "writes seeds for the fuzzer: make fuzz"]
fn seeds_for_the_fuzzer() {
    let all = calls();
    let calls = all.iter().map(|c| (vec![super::PROGRAM, c.procedure() as u32, 0], bytes_of(c)));
    let replies =
        ok_replies().into_iter().map(|r| (vec![super::PROGRAM, r.procedure() as u32, 1], bytes_of(&r)));
    seeds("nfs3", calls.chain(replies));
    let credential = Credential::Sys(AuthSys { gids: vec![4, 5], ..AuthSys::default() });
    let header = |procedure| CallHeader {
        xid: 1,
        program: super::PROGRAM,
        version: 3,
        procedure,
        credential: credential.clone(),
    };
    let record = |call: &Call| {
        let body = [bytes_of(&header(call.procedure() as u32)), bytes_of(call)].concat();
        frame(Message { len: body.len(), segments: vec![body.into()] }).concat().into()
    };
    seeds("nfs3", all.iter().map(|call| (vec![0], record(call))));
    let outcomes = [
        Ok(&Message::default()),
        Err(Rejection::ProgramMismatch { low: 3, high: 4 }),
        Err(Rejection::GarbageArguments),
        Err(Rejection::RpcMismatch),
        Err(Rejection::Auth(AuthStat::TooWeak)),
    ];
    seeds("nfs3", outcomes.map(|outcome| (vec![1], crate::rpc::reply(9, outcome).into_bytes())));
}
