//! Round trips of every operation, bytes from the RFC for a few, and hostile bytes.

mod golden;
mod hostile;
mod samples;

use bytes::Bytes;

use super::compound::{CompoundCall, CompoundReply, encode_op, reply};
use super::*;
use crate::nfs3::testing::{bytes_of, round_trip, seeds};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder, Payload};

fn arg_op(d: &mut Decoder) -> Result<ArgOp, DecodeError> {
    ArgOp::decode(d, 2).map_err(|bad| bad.error)
}

#[test]
fn every_call_and_reply_survives_a_round_trip() {
    samples::args().iter().for_each(|op| round_trip(op, arg_op));
    samples::results().iter().for_each(|op| round_trip(op, ResOp::decode));
}

#[test]
fn the_samples_leave_no_operation_out() {
    let calls: Bitmap = samples::args().iter().map(ArgOp::number).collect();
    let replies: Bitmap = samples::results().iter().map(ResOp::number).collect();
    for number in 0..80 {
        let mut e = Encoder::new();
        e.u32(number);
        let op = ArgOp::decode(&mut Decoder::new(e.finish().into_bytes()), 2);
        let served = !matches!(op, Ok(ArgOp::Unsupported(_) | ArgOp::Illegal(_)));
        assert_eq!((calls.contains(number), replies.contains(number)), (served, served), "{number}");
    }
}

#[test]
fn every_operation_can_be_refused_with_every_kind_of_status() {
    for number in 3..=75 {
        for status in [
            Status::Delay,
            Status::BadXdr,
            Status::Denied,
            Status::TooSmall,
            Status::LayoutTryLater,
            Status::Ok,
        ] {
            let op = ResOp::refused(number, status);
            assert_eq!(op.number(), number);
            assert_ne!(op.status(), Status::Ok);
            round_trip(&op, ResOp::decode);
        }
    }
    assert_eq!(ResOp::refused(2, Status::BadXdr), ResOp::Illegal);
    assert_eq!(ResOp::refused(OP_ILLEGAL, Status::BadXdr), ResOp::Illegal);
    round_trip(&ResOp::Illegal, ResOp::decode);
}

#[test]
fn the_minor_version_decides_what_is_an_operation() {
    let decode = |number: u32, minor| ArgOp::decode(&mut Decoder::new(bytes_of(&number)), minor);
    assert_eq!(decode(2, 1), Ok(ArgOp::Illegal(2)));
    assert_eq!(decode(20, 1), Ok(ArgOp::Unsupported(20)));
    assert_eq!(decode(59, 1), Ok(ArgOp::Illegal(59)));
    assert_eq!(decode(61, 1), Ok(ArgOp::Illegal(61)));
    assert_eq!(decode(61, 2), Ok(ArgOp::Unsupported(61)));
    assert_eq!(decode(70, 2), Ok(ArgOp::Unsupported(70)));
    assert_eq!(decode(72, 1), Ok(ArgOp::Illegal(72)));
    assert_eq!(decode(76, 2), Ok(ArgOp::Illegal(76)));
    assert_eq!(decode(22, 1), Err(BadOp { number: 22, error: DecodeError::Short }));
    let empty = ArgOp::decode(&mut Decoder::new(Bytes::new()), 1);
    assert_eq!(empty, Err(BadOp { number: OP_ILLEGAL, error: DecodeError::Short }));
}

#[test]
fn nothing_after_an_operation_that_is_not_served_is_decoded() {
    let mut e = Encoder::new();
    OwnerName::default().encode(&mut e);
    let words = [1, 4, OpNum::PutRootFh as u32, OpNum::WantDelegation as u32, u32::MAX, 7, 7];
    words.iter().for_each(|word| e.u32(*word));
    let call = CompoundCall::decode(&mut Decoder::new(e.finish().into_bytes())).unwrap();
    assert_eq!(call.ops, [ArgOp::PutRootFh, ArgOp::Unsupported(OpNum::WantDelegation as u32)]);
}

#[test]
fn attributes_survive_a_round_trip_and_only_what_was_asked_for_is_sent() {
    let all = samples::fattr();
    assert_eq!(all.mask(), Fattr::KNOWN);
    round_trip(&all, Decode::decode);
    let wanted = Bitmap::of(&[attr::SIZE, attr::MODE, attr::TIME_DELTA, 200]);
    let sent = bytes_of(&AttrReply { requested: wanted, attrs: all });
    let got = AttrReply::decode(&mut Decoder::new(sent)).unwrap();
    assert_eq!(got.requested, Bitmap::of(&[attr::SIZE, attr::MODE, attr::TIME_DELTA]));
    assert_eq!(got.attrs.mask(), got.requested);
    assert_eq!((got.attrs.size, got.attrs.mode), (Some(1 << 40), Some(0o644)));
}

#[test]
fn an_unknown_attribute_is_noted_and_ends_the_values() {
    // size 4, acl 12, mode 33
    let mut e = Encoder::new();
    e.array(&[1u32 << 4 | 1 << 12, 1 << 1]);
    e.opaque(&[0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 1, 0xa4]);
    e.u32(77);
    let mut d = Decoder::new(e.finish().into_bytes());
    let got: Box<Fattr> = Decode::decode(&mut d).unwrap();
    assert_eq!((got.size, got.mode), (Some(9), None));
    assert_eq!(got.unknown, Bitmap::of(&[12]));
    assert_eq!(d.u32(), Ok(77), "what follows the attributes is not lost");
}

#[test]
fn attribute_values_that_go_on_after_the_last_are_refused() {
    let mut e = Encoder::new();
    e.array(&[1u32 << 4]);
    e.opaque(&[0; 12]);
    let got: Result<Box<Fattr>, _> = Decode::decode(&mut Decoder::new(e.finish().into_bytes()));
    assert_eq!(got, Err(DecodeError::Range));
}

#[test]
fn verify_compares_only_what_was_named() {
    let one = Fattr { size: Some(1), change: Some(7), ..Fattr::default() };
    let other = Fattr { size: Some(2), change: Some(7), ..Fattr::default() };
    assert!(one.same(&other, &Bitmap::of(&[attr::CHANGE, attr::MODE])));
    assert!(!one.same(&other, &Bitmap::of(&[attr::CHANGE, attr::SIZE])));
    assert!(!one.same(&Fattr::default(), &Bitmap::of(&[attr::CHANGE])));
}

#[test]
fn what_has_a_bound_is_refused_beyond_it() {
    let long = FileHandle::from(Bytes::from(vec![7; HANDLE_BYTES_MAX + 1]));
    assert_eq!(FileHandle::decode(&mut Decoder::new(bytes_of(&long))), Err(DecodeError::Length(129)));
    let words = vec![0u32; 9];
    assert_eq!(Bitmap::decode(&mut Decoder::new(bytes_of(&words))), Err(DecodeError::Length(9)));
}

#[test]
fn bitmaps_are_sets() {
    let some = Bitmap::of(&[0, 33, 255, 256]);
    assert_eq!(some.iter().collect::<Vec<_>>(), [0, 33, 255]);
    assert_eq!(some.intersection(&Bitmap::of(&[33, 34])), Bitmap::of(&[33]));
    assert_eq!(some.difference(&Bitmap::of(&[33])).union(&Bitmap::of(&[1])), Bitmap::of(&[0, 1, 255]));
    assert!(!some.contains(256) && Bitmap::EMPTY.is_empty());
    assert_eq!(bytes_of(&Bitmap::EMPTY).as_ref(), [0; 4]);
    assert_eq!(bytes_of(&Bitmap::of(&[32])).as_ref(), [0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1]);
}

#[test]
fn a_page_takes_entries_while_they_fit_and_is_as_long_as_it_said() {
    // Each: 4 mark, 8 cookie, 4 + 4 name, 12 bitmap, 4 + 20 attributes.
    let room = 3 * 56;
    let mut page = readdir::Page::new(room);
    let taken: Vec<bool> = (0..5).map(|i| samples::add_dir_entry(&mut page, i)).collect();
    assert_eq!(taken, [true, true, true, false, false]);
    let res = readdir::ResOk { cookieverf: [1; 8], entries: page.finish(), eof: false };
    let bytes = bytes_of(&res);
    assert_eq!(bytes.len(), readdir::OVERHEAD_BYTES + room);
    let entries = readdir::ResOk::decode(&mut Decoder::new(bytes)).unwrap().entries.decode().unwrap();
    let seen: Vec<(u64, usize)> = entries.iter().map(|entry| (entry.cookie, entry.name.len())).collect();
    assert_eq!(seen, [(3, 1), (4, 2), (5, 3)]);
    assert_eq!(entries[2].attrs.attrs.fileid, Some(2));
}

#[test]
fn a_compound_goes_to_the_server_and_back() {
    let call = CompoundCall {
        tag: Bytes::from_static(b"tag").into(),
        minor_version: 2,
        ops: samples::args().into_iter().chain([ArgOp::Unsupported(70)]).collect(),
    };
    let bytes = bytes_of(&call);
    let mut d = Decoder::new(bytes.clone());
    let header = CompoundHeader::decode(&mut d).unwrap();
    assert_eq!((header.minor_version, header.op_count as usize), (2, call.ops.len()));
    assert_eq!(ArgOp::decode(&mut d, 2).as_ref(), Ok(&call.ops[0]));
    assert_eq!(CompoundCall::decode(&mut Decoder::new(bytes)), Ok(call));

    let results = samples::results();
    let ops: Vec<_> = results.iter().map(encode_op).collect();
    let message = reply(Status::Delay, &header.tag, &ops);
    let got = CompoundReply::decode_all(Decoder::new(message.into_bytes())).unwrap();
    assert_eq!(got, CompoundReply { status: Status::Delay, tag: header.tag, ops: results });
    round_trip(&got, CompoundReply::decode);
}

#[test]
fn data_are_not_copied_in_either_direction() {
    let data = Bytes::from(vec![5; 8192]);
    let at = data.as_ptr();
    let read = encode_op(&ResOp::Read(Ok(read::ResOk { eof: true, data: data.into() })));
    let message = reply(Status::Ok, &OwnerName::default(), &[read]);
    assert!(message.segments.iter().any(|segment| segment.as_ptr() == at));

    let record = message.into_bytes();
    let got = CompoundReply::decode_all(Decoder::new(record.clone())).unwrap();
    let [ResOp::Read(Ok(read))] = got.ops.as_slice() else { panic!("{got:?}") };
    assert!(record.as_ptr_range().contains(&read.data.segments()[0].as_ptr()));
    assert_eq!(read.data, Payload::from(Bytes::from(vec![5; 8192])));
}

#[test]
fn layout_bodies_survive_a_round_trip() {
    let addr = samples::ds_addr();
    let layout = samples::file_layout();
    assert_eq!((layout.stripe_unit_bytes(), layout.is_dense()), (1 << 20, true));
    assert_eq!(layout_files::from_body(layout_files::to_body(&addr)), Ok(addr));
    assert_eq!(layout_files::from_body(layout_files::to_body(&layout)), Ok(layout.clone()));
    let longer = [&layout_files::to_body(&layout)[..], &[0; 4]].concat().into();
    assert_eq!(layout_files::from_body::<layout_files::FileLayout>(longer), Err(DecodeError::Range));
}

#[test]
fn call_backs_survive_a_round_trip() {
    round_trip(&samples::cb_compound(), callback::CbCompound::decode);
    round_trip(&samples::cb_reply(), callback::CbReply::decode);
}

#[test]
#[ignore = "writes seeds for the fuzzer: make fuzz"]
fn seeds_for_the_fuzzer() {
    let calls = samples::args().into_iter().map(|op| bytes_of(&CompoundCall::new(2, vec![op])));
    let reply_of = |op: ResOp| reply(op.status(), &OwnerName::default(), &[encode_op(&op)]).into_bytes();
    let replies = samples::results().into_iter().map(reply_of);
    let all = calls.map(|call| (vec![0], call)).chain(replies.map(|reply| (vec![1], reply))).chain([
        (vec![2], bytes_of(&samples::cb_compound())),
        (vec![3], bytes_of(&samples::cb_reply())),
        (vec![4], bytes_of(&samples::fattr())),
        (vec![5], bytes_of(&samples::ds_addr())),
        (vec![6], bytes_of(&samples::file_layout())),
    ]);
    seeds("nfs4", all);
}
