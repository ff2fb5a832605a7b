//! What every target asserts of a decoder: it does not panic, it allocates no more than the record allows,
//! and what it read can be said and read again.

use std::alloc::System;
use std::fmt::Debug;

use bytes::Bytes;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use wire::xdr::{Decode, DecodeError, Decoder, Encode, Encoder, Message};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes that a decoder may allocate, in all, for each byte of the record: four bytes of the wire can be an
/// operation without arguments, which is the largest of a union in memory, in a vector that doubles as it
/// grows.
const BYTES_FOR_EACH: usize = 256;
/// And for the smallest record: one boxed set of attributes, one vector of 64 elements.
const BYTES_ALWAYS: usize = 64 << 10;

/// Runs `decode` and asserts that all it allocated is within the bound for a record of `len` bytes.
pub fn bounded<T>(len: usize, decode: impl FnOnce() -> T) -> T {
    let region = Region::new(ALLOCATOR);
    let value = decode();
    let change = region.change();
    let allocated = change.bytes_allocated + usize::try_from(change.bytes_reallocated).unwrap_or(0);
    let bound = BYTES_ALWAYS + BYTES_FOR_EACH * len;
    assert!(allocated <= bound, "{allocated} bytes allocated for a record of {len}");
    value
}

/// The value in one piece.
pub fn bytes_of(value: &impl Encode) -> Bytes {
    let mut e = Encoder::new();
    value.encode(&mut e);
    let message: Message = e.finish();
    assert_eq!(message.len, message.segments.iter().map(Bytes::len).sum::<usize>());
    message.into_bytes()
}

/// `decode(encode(x)) == x` for every x that can be read from `bytes`.
pub fn there_and_back<T: Encode + PartialEq + Debug>(
    bytes: &Bytes,
    decode: impl Fn(&mut Decoder) -> Result<T, DecodeError>,
) {
    if let Ok(value) = bounded(bytes.len(), || decode(&mut Decoder::new(bytes.clone()))) {
        let said = bytes_of(&value);
        assert_eq!(decode(&mut Decoder::new(said)).as_ref(), Ok(&value));
    }
}

/// The same for values that note more than they say (attributes that we do not know): what we say is stable.
pub fn stable_once_said<T: Encode + PartialEq + Debug>(
    bytes: &Bytes,
    decode: impl Fn(&mut Decoder) -> Result<T, DecodeError>,
) {
    if let Ok(value) = bounded(bytes.len(), || decode(&mut Decoder::new(bytes.clone()))) {
        let said = decode(&mut Decoder::new(bytes_of(&value))).expect("what we say can be read");
        assert_eq!(decode(&mut Decoder::new(bytes_of(&said))).as_ref(), Ok(&said));
    }
}

/// The first word, and what follows it.
pub fn kind(data: &[u8]) -> Option<(u32, Bytes)> {
    let (kind, rest) = data.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*kind), Bytes::copy_from_slice(rest)))
}

/// A value by its own `Decode`.
pub fn plain<T: Decode>(d: &mut Decoder) -> Result<T, DecodeError> {
    T::decode(d)
}
