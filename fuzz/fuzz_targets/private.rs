//! Our own programs and file handles. The first word says what follows: 0, a handle; 1, the handshake; a
//! program's number; then a procedure's number, then 0 for arguments or 1 for results.

#![no_main]

use bytes::Bytes;
use fuzz::{kind, there_and_back};
use libfuzzer_sys::fuzz_target;
use wire::handle::{ClientHandle, FileHandle, HandleKey, Holder, ObjectHandle, Via};
use wire::{cluster, consensus, data, handshake, join, peer};

fuzz_target!(|data: &[u8]| {
    let Some((what, bytes)) = kind(data) else { return };
    if what == 0 {
        return handle(&bytes);
    }
    let Some((procedure, bytes)) = kind(&bytes) else { return };
    let Some((way, bytes)) = kind(&bytes) else { return };
    match what {
        1 => {
            let Some(procedure) = handshake::Procedure::from_u32(procedure) else { return };
            match way {
                0 => there_and_back(&bytes, |d| handshake::Call::decode(procedure, d)),
                _ => there_and_back(&bytes, |d| handshake::Reply::decode(procedure, d)),
            }
        }
        data::PROGRAM => {
            let Some(procedure) = data::Procedure::from_u32(procedure) else { return };
            match way {
                0 => there_and_back(&bytes, |d| data::Call::decode(procedure, d)),
                _ => there_and_back(&bytes, |d| data::Reply::decode(procedure, d)),
            }
        }
        cluster::PROGRAM => {
            let Some(procedure) = cluster::Procedure::from_u32(procedure) else { return };
            match way {
                0 => there_and_back(&bytes, |d| cluster::Call::decode(procedure, d)),
                _ => there_and_back(&bytes, |d| cluster::Reply::decode(procedure, d)),
            }
        }
        consensus::PROGRAM => {
            let Some(procedure) = consensus::Procedure::from_u32(procedure) else { return };
            match way {
                0 => there_and_back(&bytes, |d| consensus::Call::decode(procedure, d)),
                _ => there_and_back(&bytes, |d| consensus::Reply::decode(procedure, d)),
            }
        }
        peer::PROGRAM => {
            let Some(procedure) = peer::Procedure::from_u32(procedure) else { return };
            match way {
                0 => there_and_back(&bytes, |d| peer::Call::decode(procedure, d)),
                _ => there_and_back(&bytes, |d| peer::Reply::decode(procedure, d)),
            }
        }
        join::PROGRAM => {
            let Some(procedure) = join::Procedure::from_u32(procedure) else { return };
            match way {
                0 => there_and_back(&bytes, |d| join::Call::decode(procedure, d)),
                _ => there_and_back(&bytes, |d| join::Reply::decode(procedure, d)),
            }
        }
        _ => {}
    }
});

/// What opens is what was sealed, bit for bit; with another key nothing opens.
fn handle(bytes: &Bytes) {
    let (key, other) = (HandleKey::new([7; 32]), HandleKey::new([8; 32]));
    if let Some(file) = ClientHandle::open(bytes, &key) {
        assert_eq!(file.seal(&key), *bytes);
        assert_eq!(ClientHandle::open(bytes, &other), None);
        assert_eq!(ObjectHandle::open(bytes, &key), None);
    }
    if let Some((object, holder)) = ObjectHandle::open_with_holder(bytes, &key) {
        assert_eq!(object.seal_for(holder, &key), *bytes);
        assert_eq!(ObjectHandle::open(bytes, &other), None);
        assert_eq!(FileHandle::open(bytes, &key), None);
    }
    // The fuzzer cannot forge a tag: seal what the bytes would name, and change one bit of it.
    let Some((volume, rest)) = kind(bytes) else { return };
    let Some((column, rest)) = kind(&rest) else { return };
    let number = |at: usize| rest.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_be_bytes);
    let (Some(inode), Some(target)) = (number(0), number(8)) else { return };
    let file = FileHandle { volume, inode, generation: column ^ volume };
    let (unit, incarnation) = (column ^ volume, target ^ inode);
    let (epoch, layout_epoch) = (unit ^ 1, unit);
    let object =
        ObjectHandle {
            file,
            column,
            target,
            unit,
            columns: volume,
            incarnation,
            epoch,
            layout_epoch,
            chain: inode,
            chain_version: column,
        };
    let holder = [Holder::Reader, Holder::Writer, Holder::Server][(target % 3) as usize];
    let sealed = object.seal_for(holder, &key);
    assert_eq!(ObjectHandle::open_with_holder(&sealed, &key), Some((object, holder)));
    for via in [Via::Volume, Via::Directory(target), Via::Pseudo] {
        let client = ClientHandle { file, via };
        assert_eq!(ClientHandle::open(&client.seal(&key), &key), Some(client));
    }
    let mut altered = sealed.to_vec();
    let bit = (target % (altered.len() as u64 * 8)) as usize;
    altered[bit / 8] ^= 1 << (bit % 8);
    assert_eq!(ObjectHandle::open(&altered, &key), None);
}
