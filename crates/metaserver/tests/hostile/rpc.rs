//! What RFC 5531 and the compound's own header say against calls that cannot be meant.

use bytes::Bytes;
use wire::nfs4::compound::{CompoundCall, CompoundReply};
use wire::nfs4::{ArgOp, Status, lookup};
use wire::rpc::{AuthStat, CallHeader, Credential, FragmentHeader, Rejection, ReplyHeader, frame};
use wire::xdr::Encoder;

use crate::Scene;
use crate::client::{Client, MOUNT, NFS3, NFS4, Raw, encoded};

#[tokio::test(flavor = "multi_thread")]
async fn programs_versions_and_procedures_that_are_not_there() {
    let scene = Scene::start().await;
    let mut raw = Raw::connect(&scene).await;
    let none = Bytes::new;
    let mismatch = |low, high| Err(Rejection::ProgramMismatch { low, high });
    let table = [
        ((100_004, 1), 0, Err(Rejection::ProgramUnavailable)), // NIS
        ((100_021, 4), 0, Err(Rejection::ProgramUnavailable)), // NLM: v3 mounts say nolock
        ((100_003, 2), 0, mismatch(3, 4)),
        ((100_003, 5), 0, mismatch(3, 4)),
        ((100_005, 1), 0, mismatch(3, 3)),
        (NFS4, 2, Err(Rejection::ProcedureUnavailable)),
        (NFS3, 22, Err(Rejection::ProcedureUnavailable)),
        (MOUNT, 6, Err(Rejection::ProcedureUnavailable)),
        (NFS4, 1, Err(Rejection::GarbageArguments)),
        (NFS3, 1, Err(Rejection::GarbageArguments)),
        (MOUNT, 1, Err(Rejection::GarbageArguments)),
        (NFS4, 0, Ok(())),
        (NFS3, 0, Ok(())),
        (MOUNT, 0, Ok(())),
    ];
    for (program, procedure, expected) in table {
        let outcome = raw.call_bytes(program, procedure, none()).await.map(|_| ());
        assert_eq!(outcome, expected, "{program:?} {procedure}");
    }
    scene.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_of_rpc_that_is_not_2_is_answered_with_the_versions_there_are() {
    let scene = Scene::start().await;
    let mut raw = Raw::connect(&scene).await;
    for version in [0, 1, 3, u32::MAX] {
        let mut e = Encoder::new();
        [7, 0, version, 100_003, 4, 0, 0, 0, 0, 0].iter().for_each(|word| e.u32(*word));
        raw.send(&frame(e.finish()).concat()).await;
        let reply = raw.record().await.unwrap().rest();
        let words = [7, 1, 1, 0, 2, 2u32].map(u32::to_be_bytes).concat(); // RPC_MISMATCH, 2 to 2
        assert_eq!(reply, words, "version {version}");
    }
    scene.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_cannot_be_read_or_are_not_spoken_are_refused() {
    let scene = Scene::start().await;
    let mut raw = Raw::connect(&scene).await;
    let sys = |body: &[u32]| [&[1, body.len() as u32 * 4], body].concat();
    let gids = [vec![0, 0, 0, 0, 17], vec![5; 17]].concat();
    let table = [
        ("401 bytes", [vec![1, 401], vec![0; 101]].concat(), AuthStat::BadCred),
        ("length beyond the record", vec![1, 400], AuthStat::BadCred),
        ("AUTH_SYS with 17 groups", sys(&gids), AuthStat::BadCred),
        ("AUTH_SYS cut short", sys(&[0, 0]), AuthStat::BadCred),
        ("a machine name of 256 bytes", sys(&[vec![0, 256], vec![0; 67]].concat()), AuthStat::BadCred),
        ("RPCSEC_GSS", vec![6, 0, 0, 0], AuthStat::RejectedCred),
    ];
    for (what, credential, expected) in table {
        let mut e = Encoder::new();
        [9, 0, 2, 100_003, 4, 1].iter().chain(&credential).for_each(|word| e.u32(*word));
        raw.send(&frame(e.finish()).concat()).await;
        let mut reply = raw.record().await.unwrap();
        let outcome = ReplyHeader::decode(&mut reply).unwrap().outcome;
        assert_eq!(outcome, Err(Rejection::Auth(expected)), "{what}");
    }
    scene.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn records_that_lie_end_their_connection_and_no_other() {
    let scene = Scene::start().await;
    let mut good = Client::mount(&scene, "good").await;
    let header = |last, len| FragmentHeader { last, len }.to_bytes().to_vec();
    let table = [
        ("2 GiB", header(true, 0x7fff_ffff)),
        ("2 GiB, more to come", header(false, 0x7fff_ffff)),
        ("just over the limit", header(true, (1 << 20) + (64 << 10) + 1)),
        ("empty fragments for ever", header(false, 0).repeat(100_000)),
        ("too short to be answered", [header(true, 3), vec![0; 3]].concat()),
        ("neither call nor reply", [header(true, 8), vec![0, 0, 0, 1, 0, 0, 0, 2]].concat()),
    ];
    for (what, bytes) in table {
        let mut bad = Raw::connect(&scene).await;
        // It may be cut while it still sends.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut bad.stream, &bytes).await;
        assert!(bad.record().await.is_none(), "{what}: no answer, the connection ends");
        assert_eq!(good.status(vec![ArgOp::PutRootFh]).await, Status::Ok, "{what}");
    }
    scene.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn fragments_of_one_byte_are_a_record_while_they_are_few() {
    let scene = Scene::start().await;
    let mut raw = Raw::connect(&scene).await;
    let mut e = Encoder::new();
    wire::xdr::Encode::encode(
        &CallHeader { xid: 3, program: NFS4.0, version: NFS4.1, procedure: 0, credential: Credential::None },
        &mut e,
    );
    let call = e.finish().into_bytes();
    let last = call.len() - 1;
    let fragments: Vec<u8> = call
        .iter()
        .enumerate()
        .flat_map(|(at, byte)| {
            [&FragmentHeader { last: at == last, len: 1 }.to_bytes()[..], &[*byte]].concat()
        })
        .collect();
    raw.send(&fragments).await;
    let mut reply = raw.record().await.unwrap();
    assert_eq!(ReplyHeader::decode(&mut reply).unwrap().outcome, Ok(()));
    scene.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_operations_are_too_many() {
    let scene = Scene::start().await;
    let mut client = Client::mount(&scene, "c").await;
    let reply = client.run(vec![ArgOp::PutRootFh; 10_000]).await;
    assert_eq!((reply.status, reply.ops.len()), (Status::TooManyOps, 1));
    client.not_taken();
    assert_eq!(client.status(vec![ArgOp::PutRootFh]).await, Status::Ok, "the slot was not used");

    // Without a session nothing but the first operation is looked at.
    let mut raw = Raw::connect(&scene).await;
    let reply = raw.compound(vec![ArgOp::PutRootFh; 10_000]).await;
    assert_eq!((reply.status, reply.ops.len()), (Status::OpNotInSession, 1));
    scene.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_beyond_the_session_s_size_is_too_big() {
    let scene = Scene::start().await;
    let mut client = Client::mount(&scene, "c").await;
    let long = ArgOp::Lookup(lookup::Args { objname: vec![b'a'; (1 << 20) + (40 << 10)].into() });
    assert!(client.fore.max_request_size < (1 << 20) + (40 << 10));
    let reply = client.run(vec![ArgOp::PutRootFh, long]).await;
    assert_eq!((reply.status, reply.ops.len()), (Status::ReqTooBig, 1));
    client.not_taken();
    assert_eq!(client.status(vec![ArgOp::PutRootFh]).await, Status::Ok);
    scene.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_of_operations_that_lies_is_answered_where_the_bytes_end() {
    let scene = Scene::start().await;
    let mut client = Client::mount(&scene, "c").await;
    let mut bytes = client.compound_bytes(Bytes::new(), 2, vec![ArgOp::PutRootFh]).to_vec();
    bytes[8..12].copy_from_slice(&10u32.to_be_bytes()); // behind an empty tag and the minor version
    let reply = client.raw.call_bytes(NFS4, 1, bytes.into()).await.unwrap();
    let reply = CompoundReply::decode_all(reply).unwrap();
    assert_eq!((reply.status, reply.ops.len()), (Status::OpIllegal, 3));
    assert_eq!(client.status(vec![ArgOp::PutRootFh]).await, Status::Ok);
    scene.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_is_bounded_and_utf_8() {
    let scene = Scene::start().await;
    let mut client = Client::mount(&scene, "c").await;
    // Ten megabytes are no record; what fits a record is no tag.
    let huge = client.compound_bytes(vec![b't'; 1025].into(), 2, vec![]);
    assert_eq!(client.raw.call_bytes(NFS4, 1, huge).await.err(), Some(Rejection::GarbageArguments));
    client.not_taken();
    let bad = client.compound_bytes(Bytes::from_static(b"\xff\xfe"), 2, vec![]);
    let reply = client.raw.call_bytes(NFS4, 1, bad).await.unwrap();
    assert_eq!(CompoundReply::decode_all(reply).unwrap().status, Status::Inval);
    client.not_taken();
    let longest = client.compound_bytes(vec![b't'; 1024].into(), 2, vec![]);
    let reply = client.raw.call_bytes(NFS4, 1, longest).await.unwrap();
    let reply = CompoundReply::decode_all(reply).unwrap();
    assert_eq!((reply.status, reply.tag.len()), (Status::Ok, 1024));

    let mut raw = Raw::connect(&scene).await;
    let ten_megabytes = FragmentHeader { last: true, len: 10 << 20 }.to_bytes();
    raw.send(&ten_megabytes).await;
    assert!(raw.record().await.is_none());
    scene.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_minor_version_that_is_not_spoken() {
    let scene = Scene::start().await;
    let mut raw = Raw::connect(&scene).await;
    for minor in [0, 3, u32::MAX] {
        let call = CompoundCall::new(minor, vec![ArgOp::PutRootFh]);
        let reply: CompoundReply = raw.call(NFS4, 1, &call).await;
        assert_eq!((reply.status, reply.ops.len()), (Status::MinorVersMismatch, 0), "{minor}");
    }
    let numbers = encoded(&CompoundCall::new(2, vec![ArgOp::Illegal(9999)]));
    let reply = raw.call_bytes(NFS4, 1, numbers).await.unwrap();
    assert_eq!(CompoundReply::decode_all(reply).unwrap().status, Status::OpIllegal);
    scene.stop();
}
