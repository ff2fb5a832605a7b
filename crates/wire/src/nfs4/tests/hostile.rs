//! Hostile bytes.

use proptest::prelude::*;

use super::*;
use crate::nfs4::callback::{CbCompound, CbReply};
use crate::xdr::Encode;

/// Checks that decoding ends in an error or a value, and that the encoded value decodes to itself. (Unknown
/// attributes are decoded but not encoded, so the first value may differ from the second.)
fn check<T: Encode + PartialEq + std::fmt::Debug>(
    bytes: &[u8],
    decode: impl Fn(&mut Decoder) -> Result<T, DecodeError>,
) {
    if let Ok(value) = decode(&mut Decoder::new(Bytes::copy_from_slice(bytes))) {
        let said = decode(&mut Decoder::new(bytes_of(&value))).unwrap();
        assert_eq!(decode(&mut Decoder::new(bytes_of(&said))), Ok(said));
    }
}

fn check_all(bytes: &[u8]) {
    check(bytes, arg_op);
    check(bytes, ResOp::decode);
    check(bytes, |d| CompoundCall::decode(d).map_err(|bad| bad.error));
    check(bytes, CompoundReply::decode);
    check(bytes, CbCompound::decode);
    check(bytes, CbReply::decode);
    check::<Box<Fattr>>(bytes, Decode::decode);
    check(bytes, layout_files::DsAddr::decode);
    check(bytes, layout_files::FileLayout::decode);
}

fn valid_messages() -> Vec<Bytes> {
    let args = samples::args();
    let results = samples::results();
    args.iter()
        .map(bytes_of)
        .chain(results.iter().map(bytes_of))
        .chain([
            bytes_of(&samples::fattr()),
            bytes_of(&samples::cb_compound()),
            bytes_of(&samples::cb_reply()),
        ])
        .chain([bytes_of(&samples::ds_addr()), bytes_of(&samples::file_layout())])
        .collect()
}

/// Random words typical of XDR: mostly small numbers, sometimes large ones.
fn hostile_words() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![4 => 0u32..8, 2 => 0u32..100, 1 => Just(u32::MAX), 1 => any::<u32>()];
    prop::collection::vec(word, 0..60)
        .prop_map(|words| words.iter().flat_map(|word| word.to_be_bytes()).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check_all(&bytes);
    }

    #[test]
    fn any_words_behind_any_operation(number in 3u32..76, words in hostile_words()) {
        check_all(&words);
        check_all(&[&number.to_be_bytes(), words.as_slice()].concat());
    }

    #[test]
    fn valid_messages_with_a_word_changed(pick in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(),
                                          word in prop_oneof![0u32..8, Just(u32::MAX), any::<u32>()]) {
        let messages = valid_messages();
        let mut bytes = messages[pick.index(messages.len())].to_vec();
        let at = at.index(bytes.len() / 4) * 4;
        bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
        check_all(&bytes);
    }

    #[test]
    fn valid_messages_cut_short_or_with_a_bit_flipped(pick in any::<prop::sample::Index>(),
                                                      at in any::<prop::sample::Index>(), bit in 0u32..8) {
        let messages = valid_messages();
        let mut bytes = messages[pick.index(messages.len())].to_vec();
        let at = at.index(bytes.len());
        check_all(&bytes[..at]);
        bytes[at] ^= 1u8 << bit;
        check_all(&bytes);
    }
}
