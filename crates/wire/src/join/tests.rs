//! Round trips of every procedure, hostile bytes, tokens, and seals.

use bytes::Bytes;
use proptest::prelude::*;

use super::{Call, Procedure, Refusal, Reply, Token, TokenError, Word, enter, hello, null, seal};
use crate::nfs3::testing::{bytes_of, hostile, mutated, round_trip, seeds};
use crate::xdr::{DecodeError, Decoder};

fn word(text: &'static str) -> Word {
    Word(text.into())
}

fn calls() -> Vec<Call> {
    vec![
        Call::Null(null::Args {}),
        Call::Hello(hello::Args {
            protocol: 1,
            version: word("0.1.0"),
            cluster: [1; 16],
            id: 7,
            expires: 2_000_000_000,
            clock_ms: 1_900_000_000_000,
            nonce: [2; 32],
        }),
        Call::Enter(enter::Args {
            proof: [3; 32],
            ticket: [6; 32],
            name: word("ash"),
            consensus: word("10.0.0.2:2052"),
            data: word(""),
        }),
    ]
}

fn replies() -> Vec<Reply> {
    let refusal = Refusal { line: Bytes::from_static(b"your clock is an hour behind") };
    vec![
        Reply::Null(null::Res {}),
        Reply::Hello(hello::Res::Welcome(hello::ResOk { nonce: [2; 32], proof: [3; 32] })),
        Reply::Hello(hello::Res::Refused(refusal.clone())),
        Reply::Enter(enter::Res::Entered(enter::ResOk {
            sealed: [4; 32],
            tag: [5; 32],
            metaservers: vec![Bytes::from_static(b"10.0.0.1:2049"); 2],
        })),
        Reply::Enter(enter::Res::Refused(refusal)),
    ]
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
        assert!(replies().iter().any(|r| r.procedure() == *procedure), "{}", procedure.name());
    }
}

#[test]
fn what_a_stranger_says_of_itself_is_short() {
    let said = |bytes: usize| Word(vec![b'x'; bytes].into());
    let hello = |version: Word| match &calls()[1] {
        Call::Hello(args) => Call::Hello(hello::Args { version, ..args.clone() }),
        _ => unreachable!(),
    };
    let enter = |name: Word, consensus: Word, data: Word| {
        Call::Enter(enter::Args { proof: [3; 32], ticket: [6; 32], name, consensus, data })
    };
    round_trip(&hello(said(255)), |d| Call::decode(Procedure::Hello, d));
    let nothing = Word::default;
    for call in [
        hello(said(256)),
        enter(said(256), nothing(), nothing()),
        enter(nothing(), said(256), nothing()),
        enter(nothing(), nothing(), said(1 << 20)),
    ] {
        let decoded = Call::decode(call.procedure(), &mut Decoder::new(bytes_of(&call)));
        assert!(matches!(decoded, Err(DecodeError::Length(_))), "{decoded:?}");
    }
}

#[test]
fn a_token_is_text_and_a_letter_that_is_wrong_is_found() {
    let token = Token::new([0xab; 16], &[7; 32], 9, 2_000_000_000);
    let text = token.to_string();
    assert_eq!((text.len(), text.parse()), (104, Ok(token.clone())));
    assert_eq!(format!(" {text}\n").parse(), Ok(token.clone()), "as it was copied");
    for (at, digit) in text.char_indices().skip(8) {
        let other = if digit == '0' { '1' } else { '0' };
        let wrong = format!("{}{other}{}", &text[..at], &text[at + 1..]);
        assert_eq!(wrong.parse::<Token>(), Err(TokenError::Mistyped), "{wrong}");
    }
    assert_eq!(text[..60].parse::<Token>(), Err(TokenError::Mistyped));
    assert_eq!("heorot2-é".parse::<Token>(), Err(TokenError::Mistyped));
    assert_eq!("".parse::<Token>(), Err(TokenError::NoToken));
    assert_eq!("10.0.0.1:2052".parse::<Token>(), Err(TokenError::NoToken));
    assert_eq!(format!("{token:?}"), "Token(0000000000000009 until 2000000000)", "its key is not for logs");
}

#[test]
fn a_token_s_key_is_bound_to_its_cluster_its_id_and_its_end() {
    let key = |tokens, id, expires| Token::new([1; 16], &[tokens; 32], id, expires).proof_key();
    assert_eq!(key(1, 9, 5), key(1, 9, 5));
    assert_ne!(key(1, 9, 5), key(1, 9, 6));
    assert_ne!(key(1, 9, 5), key(1, 8, 5));
    assert_ne!(key(1, 9, 5), key(2, 9, 5));
}

#[test]
fn a_secret_is_opened_by_who_holds_the_token_and_was_there() {
    let (key, client, server, secret) = ([1; 32], [2; 32], [3; 32], [4; 32]);
    let (sealed, tag) = seal::seal(&key, &client, &server, &secret);
    assert_ne!(sealed, secret);
    assert_eq!(seal::open(&key, &client, &server, &sealed, &tag), Some(secret));
    assert_eq!(seal::open(&[9; 32], &client, &server, &sealed, &tag), None);
    assert_eq!(seal::open(&key, &[9; 32], &server, &sealed, &tag), None);
    assert_eq!(seal::open(&key, &client, &server, &[9; 32], &tag), None);
}

proptest! {
    #[test]
    fn random_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        small in prop::collection::vec(0u32..6, 0..60),
        text in ".{0,100}",
    ) {
        let small: Vec<u8> = small.iter().flat_map(|w| w.to_be_bytes()).collect();
        for procedure in Procedure::ALL {
            for bytes in [&bytes, &small] {
                hostile(bytes, |d| Call::decode(*procedure, d));
                hostile(bytes, |d| Reply::decode(*procedure, d));
            }
        }
        let text = format!("heorot2-{text}");
        prop_assert!(text.parse::<Token>().is_err());
    }
}

#[test]
fn valid_messages_with_a_word_changed_never_panic() {
    for call in calls() {
        mutated(&bytes_of(&call), |d| Call::decode(call.procedure(), d));
    }
    for reply in replies() {
        mutated(&bytes_of(&reply), |d| Reply::decode(reply.procedure(), d));
    }
}

#[test]
#[ignore = "writes seeds for the fuzzer: make fuzz"]
fn seeds_for_the_fuzzer() {
    let calls = calls().into_iter().map(|c| (vec![super::PROGRAM, c.procedure() as u32, 0], bytes_of(&c)));
    let replies =
        replies().into_iter().map(|r| (vec![super::PROGRAM, r.procedure() as u32, 1], bytes_of(&r)));
    seeds("private", calls.chain(replies));
}
