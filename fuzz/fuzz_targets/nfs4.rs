//! NFSv4: a COMPOUND as the server reads it, its reply as a client reads it, call-backs both ways, and the
//! bodies of layouts and devices. The first word says which.

#![no_main]

use bytes::Bytes;
use fuzz::{bounded, bytes_of, kind, plain, stable_once_said, there_and_back};
use libfuzzer_sys::fuzz_target;
use wire::nfs4::callback::{CbCompound, CbReply};
use wire::nfs4::compound::{CompoundCall, CompoundReply, encode_op};
use wire::nfs4::layout_files::{DsAddr, FileLayout};
use wire::nfs4::{ArgOp, CompoundHeader, Fattr, ResOp, Status};
use wire::xdr::{Decode, Decoder};

fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = kind(data) else { return };
    match kind {
        0 => compound(&bytes),
        1 => stable_once_said::<CompoundReply>(&bytes, plain),
        2 => stable_once_said::<CbCompound>(&bytes, plain),
        3 => stable_once_said::<CbReply>(&bytes, plain),
        4 => stable_once_said::<Box<Fattr>>(&bytes, plain),
        5 => there_and_back::<DsAddr>(&bytes, plain),
        6 => there_and_back::<FileLayout>(&bytes, plain),
        _ => {}
    }
});

/// As the server does: the header, then one operation after the other; each could be refused, and the refusal
/// read.
fn compound(bytes: &Bytes) {
    stable_once_said(bytes, |d| CompoundCall::decode(d).map_err(|bad| bad.error));
    bounded(bytes.len(), || {
        let mut d = Decoder::new(bytes.clone());
        let Ok(header) = CompoundHeader::decode(&mut d) else { return };
        for _ in 0..header.op_count {
            match ArgOp::decode(&mut d, header.minor_version) {
                Ok(op) if matches!(op, ArgOp::Unsupported(_) | ArgOp::Illegal(_)) => break,
                Ok(op) => drop(op),
                Err(_) => break,
            }
        }
    });
    let mut d = Decoder::new(bytes.clone());
    let Ok(header) = CompoundHeader::decode(&mut d) else { return };
    let number = match ArgOp::decode(&mut d, header.minor_version) {
        Ok(op) => op.number(),
        Err(bad) => bad.number,
    };
    for status in [Status::Ok, Status::BadXdr, Status::NotSupp] {
        let refused = ResOp::refused(number, status);
        let said = encode_op(&refused).into_bytes();
        let read = ResOp::decode(&mut Decoder::new(said.clone())).expect("a refusal can be read");
        assert_eq!(bytes_of(&read), said);
        assert_ne!(read.status(), Status::Ok);
    }
}
