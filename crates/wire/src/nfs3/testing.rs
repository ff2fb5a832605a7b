//! Checks that the tests of all programs share.

use std::fmt::Debug;

use bytes::Bytes;

use crate::xdr::{DecodeError, Decoder, Encode, Encoder};

/// Encodes a value to one buffer.
pub(crate) fn bytes_of(value: &impl Encode) -> Bytes {
    let mut e = Encoder::new();
    value.encode(&mut e);
    let len = e.len();
    let bytes = e.finish().into_bytes();
    assert_eq!(bytes.len(), len);
    bytes
}

/// Checks that a value survives encode and decode, and that every strict prefix is refused.
pub(crate) fn round_trip<T: Encode + PartialEq + Debug>(
    value: &T,
    decode: impl Fn(&mut Decoder) -> Result<T, DecodeError>,
) {
    let bytes = bytes_of(value);
    assert_eq!(bytes.len() % 4, 0, "{value:?}");
    let mut d = Decoder::new(bytes.clone());
    assert_eq!(decode(&mut d).as_ref(), Ok(value));
    assert_eq!(d.remaining(), 0, "{value:?}");
    for len in 0..bytes.len() {
        assert!(decode(&mut Decoder::new(bytes.slice(..len))).is_err(), "{len} bytes of {value:?}");
    }
}

/// Checks that decoding `bytes` ends in an error or in a value that survives a round trip.
pub(crate) fn hostile<T: Encode + PartialEq + Debug>(
    bytes: &[u8],
    decode: impl Fn(&mut Decoder) -> Result<T, DecodeError>,
) {
    if let Ok(value) = decode(&mut Decoder::new(Bytes::copy_from_slice(bytes))) {
        assert_eq!(decode(&mut Decoder::new(bytes_of(&value))), Ok(value));
    }
}

/// Checks each prefix of a valid message, and each change of one word, as [`hostile`] does.
pub(crate) fn mutated<T: Encode + PartialEq + Debug>(
    message: &[u8],
    decode: impl Fn(&mut Decoder) -> Result<T, DecodeError>,
) {
    for at in (0..message.len()).step_by(4) {
        hostile(&message[..at], &decode);
        let old = u32::from_be_bytes(message[at..at + 4].try_into().unwrap());
        for word in [0, 1, 2, 7, old ^ 1, old.wrapping_add(1), old << 8, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
            let mut changed = message.to_vec();
            changed[at..at + 4].copy_from_slice(&word.to_be_bytes());
            hostile(&changed, &decode);
        }
    }
}

/// Writes `messages` as seeds of the fuzzer: one file each, after the words that select the type for the
/// target. `HEOROT_FUZZ_SEEDS` names the folder of the target; see fuzz/README.md.
pub(crate) fn seeds(target: &str, messages: impl IntoIterator<Item = (Vec<u32>, Bytes)>) {
    let dir = std::env::var("HEOROT_FUZZ_SEEDS").expect("HEOROT_FUZZ_SEEDS names a folder");
    let dir = std::path::Path::new(&dir).join(target);
    std::fs::create_dir_all(&dir).unwrap();
    for (words, message) in messages {
        let words: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        let seed = [&words, &message[..]].concat();
        std::fs::write(dir.join(blake3::hash(&seed).to_hex().as_str()), seed).unwrap();
    }
}
