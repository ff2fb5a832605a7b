//! ONC RPC, NFSv3 and MOUNT. The first word says what follows: 0, a stream of record fragments with a call in
//! them; 1, a reply's header; a program's number, then a procedure's, then 0 for arguments or 1 for results.

#![no_main]

use bytes::{Bytes, BytesMut};
use fuzz::{bounded, bytes_of, kind, there_and_back};
use libfuzzer_sys::fuzz_target;
use wire::rpc::{CallHeader, FragmentHeader, ReplyHeader, frame, reply};
use wire::xdr::{Decoder, Message};
use wire::{mount3, nfs3};

/// No record of a server is longer.
const RECORD_BYTES_MAX: usize = 1 << 20;

fuzz_target!(|data: &[u8]| {
    let Some((what, bytes)) = kind(data) else { return };
    match what {
        0 => records(&bytes),
        1 => reply_header(&bytes),
        nfs3::PROGRAM | mount3::PROGRAM => {
            let Some((procedure, bytes)) = kind(&bytes) else { return };
            let Some((way, bytes)) = kind(&bytes) else { return };
            procedure_of(what, procedure, way, &bytes);
        }
        _ => {}
    }
});

fn procedure_of(program: u32, procedure: u32, way: u32, bytes: &Bytes) {
    if program == nfs3::PROGRAM {
        let Some(procedure) = nfs3::Procedure::from_u32(procedure) else { return };
        match way {
            0 => there_and_back(bytes, |d| nfs3::Call::decode(procedure, d)),
            _ => there_and_back(bytes, |d| nfs3::Reply::decode(procedure, d)),
        }
    } else {
        let Some(procedure) = mount3::Procedure::from_u32(procedure) else { return };
        match way {
            0 => there_and_back(bytes, |d| mount3::Call::decode(procedure, d)),
            _ => there_and_back(bytes, |d| mount3::Reply::decode(procedure, d)),
        }
    }
}

/// Fragments joined as a server joins them; each record is a call, or not.
fn records(bytes: &Bytes) {
    let (mut at, mut joined) = (0, BytesMut::new());
    while let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
        let fragment = FragmentHeader::from_bytes(*word);
        assert_eq!(fragment.to_bytes(), *word);
        let end = at + 4 + fragment.len as usize;
        let Some(body) = bytes.get(at + 4..end) else { return };
        if joined.len() + body.len() > RECORD_BYTES_MAX {
            return;
        }
        joined.extend_from_slice(body);
        at = end;
        if fragment.last {
            call(joined.split().freeze());
        }
    }
}

fn call(record: Bytes) {
    let mut d = Decoder::new(record.clone());
    let Ok(header) = bounded(record.len(), || CallHeader::decode(&mut d)) else { return };
    // The stamp of a credential and the body of an unknown one are not kept: what we say has none.
    let said = bytes_of(&header);
    assert_eq!(CallHeader::decode(&mut Decoder::new(said)).as_ref(), Ok(&header));
    procedure_of(header.program, header.procedure, 0, &d.rest());
    let framed = frame(Message { segments: vec![d.rest()], len: d.remaining() });
    assert_eq!(framed.iter().map(Bytes::len).sum::<usize>(), d.remaining() + 4);
}

fn reply_header(bytes: &Bytes) {
    let mut d = Decoder::new(bytes.clone());
    let Ok(header) = bounded(bytes.len(), || ReplyHeader::decode(&mut d)) else { return };
    let results = Message { segments: vec![d.rest()], len: d.remaining() };
    let said = reply(header.xid, header.outcome.as_ref().map(|()| &results).map_err(|r| *r)).into_bytes();
    assert_eq!(ReplyHeader::decode(&mut Decoder::new(said)), Ok(header));
}
