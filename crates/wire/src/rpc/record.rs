//! Record marking (RFC 5531, section 11): messages over a byte stream.
//!
//! ```text
//! ┌─1 bit─┬──31 bits──┬── length bytes ──┐
//! │ last  │  length   │ fragment         │  … until a fragment that is the last
//! └───────┴───────────┴──────────────────┘
//! ```

use bytes::Bytes;

use crate::xdr::Message;

/// The second word of a call.
pub const MESSAGE_CALL: u32 = 0;
/// The second word of a reply.
pub const MESSAGE_REPLY: u32 = 1;
/// The largest length a fragment header can hold.
pub const FRAGMENT_BYTES_MAX: u32 = 0x7fff_ffff;

/// Header of a fragment: four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FragmentHeader {
    /// True if this fragment is the last of its record.
    pub last: bool,
    /// Length of the fragment in bytes.
    pub len: u32,
}

impl FragmentHeader {
    /// From the wire.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 4]) -> Self {
        let word = u32::from_be_bytes(bytes);
        Self { last: word & !FRAGMENT_BYTES_MAX != 0, len: word & FRAGMENT_BYTES_MAX }
    }

    /// To the wire.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 4] {
        let last = if self.last { !FRAGMENT_BYTES_MAX } else { 0 };
        (last | self.len).to_be_bytes()
    }
}

/// Frames a message as one record of one fragment: header, then the message's own segments.
///
/// # Panics
/// When the message is longer than a fragment can be; messages of this crate are far shorter.
#[must_use]
pub fn frame(message: Message) -> Vec<Bytes> {
    let len = u32::try_from(message.len).expect("a message is bounded far below 2^31 bytes");
    assert!(len <= FRAGMENT_BYTES_MAX, "message of {len} bytes");
    let mut out = Vec::with_capacity(message.segments.len() + 1);
    out.push(Bytes::copy_from_slice(&FragmentHeader { last: true, len }.to_bytes()));
    out.extend(message.segments);
    out
}
