//! File data in transit: a list of reference-counted pieces, never joined.

use bytes::Bytes;

use super::{Decode, DecodeError, Decoder, Encode, Encoder};

/// Data of a READ or WRITE. A decoded payload is one slice of its record; a READ that a metaserver gathers
/// from several data servers has one piece for each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Payload {
    segments: Vec<Bytes>,
    len: usize,
}

impl Payload {
    /// Number of bytes in all pieces.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if the payload is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The pieces, in order.
    #[must_use]
    pub fn segments(&self) -> &[Bytes] {
        &self.segments
    }

    /// Appends a piece by reference.
    pub fn push(&mut self, piece: Bytes) {
        self.len += piece.len();
        self.segments.push(piece);
    }

    /// Appends the pieces of `other` by reference.
    pub fn append(&mut self, other: Payload) {
        self.len += other.len;
        self.segments.extend(other.segments);
    }

    /// Appends `count` zero bytes by reference, in pieces of at most 64 KiB.
    pub fn push_zeros(&mut self, mut count: usize) {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        while count > 0 {
            let n = count.min(ZEROS.len());
            self.push(Bytes::from_static(&ZEROS[..n]));
            count -= n;
        }
    }

    /// Slice `start..end` of the data, by reference.
    ///
    /// # Panics
    /// When the range is not inside the data: a bug of the caller, not of the peer.
    #[must_use]
    pub fn slice(&self, start: usize, end: usize) -> Payload {
        assert!(start <= end && end <= self.len, "slice {start}..{end} of {} bytes", self.len);
        let mut out = Payload::default();
        let mut at = 0;
        for segment in &self.segments {
            let from = start.max(at);
            let to = end.min(at + segment.len());
            if from < to {
                out.push(segment.slice(from - at..to - at));
            }
            at += segment.len();
        }
        out
    }

    /// Data in one piece; copies when there are several.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        match self.segments.as_slice() {
            [one] => one.clone(),
            many => many.concat().into(),
        }
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        Self { len: bytes.len(), segments: vec![bytes] }
    }
}

impl Decode for Payload {
    fn decode(d: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(d.opaque(usize::MAX)?.into())
    }
}

impl Encode for Payload {
    fn encode(&self, e: &mut Encoder) {
        e.payload(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_pieces_of_one_block() {
        let mut payload = Payload::from(Bytes::from_static(b"ab"));
        payload.push_zeros(0);
        payload.push_zeros(200_000);
        assert_eq!((payload.len(), payload.segments().len()), (200_002, 5));
        let bytes = payload.to_bytes();
        assert!(bytes.starts_with(b"ab") && bytes[2..].iter().all(|&byte| byte == 0));
    }
}
