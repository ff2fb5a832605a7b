//! Encoder of values to a list of segments.

use bytes::{BufMut, Bytes, BytesMut};

use super::Payload;

/// Threshold in bytes for payloads: smaller ones are copied, since a segment of their own costs more.
const SEGMENT_BYTES_MIN: usize = 2048;

/// Type that can be encoded as XDR.
pub trait Encode {
    /// Appends the value.
    fn encode(&self, e: &mut Encoder);
}

/// Encoder of one message: short values in a buffer of its own, large payloads by reference.
#[derive(Debug, Default)]
pub struct Encoder {
    done: Vec<Bytes>,
    done_bytes: usize,
    tail: BytesMut,
}

/// Encoded message: segments in order, for a vectored write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// Segments of the message, in order.
    pub segments: Vec<Bytes>,
    /// The sum of the segments' lengths.
    pub len: usize,
}

impl Message {
    /// Joins the segments; without a copy when there is only one.
    #[must_use]
    pub fn into_bytes(mut self) -> Bytes {
        if self.segments.len() == 1 {
            return self.segments.remove(0);
        }
        let mut all = BytesMut::with_capacity(self.len);
        for segment in self.segments {
            all.extend_from_slice(&segment);
        }
        all.freeze()
    }
}

impl Encoder {
    /// An empty message.
    #[must_use]
    pub fn new() -> Self {
        Self { done: Vec::new(), done_bytes: 0, tail: BytesMut::with_capacity(512) }
    }

    /// Bytes written so far.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.done_bytes + self.tail.len()
    }

    /// Appends an unsigned 32-bit integer.
    pub fn u32(&mut self, value: u32) {
        self.tail.put_u32(value);
    }

    /// Appends fixed-length opaque data, padded to four bytes.
    pub fn fixed(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        self.pad(bytes.len());
    }

    /// Appends variable-length opaque data or a string, copied.
    pub fn opaque(&mut self, bytes: &[u8]) {
        self.u32(length(bytes.len()));
        self.fixed(bytes);
    }

    /// Appends variable-length opaque data whose length is known only after `write`.
    pub fn counted(&mut self, write: impl FnOnce(&mut Self)) {
        let (before, segments, at) = (self.len(), self.done.len(), self.tail.len());
        self.u32(0);
        write(self);
        let written = self.len() - before - 4;
        let count = length(written).to_be_bytes();
        match self.done.get_mut(segments) {
            None => self.tail[at..at + 4].copy_from_slice(&count),
            // A large payload by reference has moved the length into a finished segment.
            Some(head) => {
                let mut bytes = BytesMut::from(std::mem::take(head));
                bytes[at..at + 4].copy_from_slice(&count);
                *head = bytes.freeze();
            }
        }
        self.pad(written);
    }

    /// Truncates the message to `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        while self.done_bytes > len
            && let Some(mut last) = self.done.pop()
        {
            self.tail.clear();
            self.done_bytes -= last.len();
            if self.done_bytes < len {
                last.truncate(len - self.done_bytes);
                self.done_bytes = len;
                self.done.push(last);
            }
        }
        self.tail.truncate(len - self.done_bytes);
    }

    /// Appends variable-length opaque data by reference: large segments are not copied.
    pub fn payload(&mut self, payload: &Payload) {
        self.u32(length(payload.len()));
        for segment in payload.segments() {
            self.segment(segment);
        }
        self.pad(payload.len());
    }

    /// Appends an encoded message by reference.
    pub fn message(&mut self, message: &Message) {
        for segment in &message.segments {
            self.segment(segment);
        }
    }

    fn segment(&mut self, segment: &Bytes) {
        if segment.len() < SEGMENT_BYTES_MIN {
            self.tail.extend_from_slice(segment);
            return;
        }
        if !self.tail.is_empty() {
            let head = self.tail.split().freeze();
            self.done_bytes += head.len();
            self.done.push(head);
        }
        self.done_bytes += segment.len();
        self.done.push(segment.clone());
    }

    /// Appends a variable-length array.
    pub fn array<T: Encode>(&mut self, items: &[T]) {
        self.u32(length(items.len()));
        for item in items {
            item.encode(self);
        }
    }

    fn pad(&mut self, len: usize) {
        const ZERO: [u8; 3] = [0; 3];
        self.tail.extend_from_slice(&ZERO[..len.next_multiple_of(4) - len]);
    }

    /// Finishes the message.
    #[must_use]
    pub fn finish(mut self) -> Message {
        let len = self.len();
        if !self.tail.is_empty() || self.done.is_empty() {
            self.done.push(self.tail.freeze());
        }
        Message { segments: self.done, len }
    }
}

/// XDR length of own data, which is bounded far below 2^32.
fn length(n: usize) -> u32 {
    u32::try_from(n).unwrap_or_else(|_| unreachable!("encoded value of {n} bytes"))
}

impl Encode for u32 {
    fn encode(&self, e: &mut Encoder) {
        e.u32(*self);
    }
}

impl Encode for i32 {
    fn encode(&self, e: &mut Encoder) {
        e.tail.put_i32(*self);
    }
}

impl Encode for u64 {
    fn encode(&self, e: &mut Encoder) {
        e.tail.put_u64(*self);
    }
}

impl Encode for i64 {
    fn encode(&self, e: &mut Encoder) {
        e.tail.put_i64(*self);
    }
}

impl Encode for bool {
    fn encode(&self, e: &mut Encoder) {
        e.u32(u32::from(*self));
    }
}

impl<const N: usize> Encode for [u8; N] {
    fn encode(&self, e: &mut Encoder) {
        e.fixed(self);
    }
}

impl Encode for Bytes {
    fn encode(&self, e: &mut Encoder) {
        e.opaque(self);
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, e: &mut Encoder) {
        e.array(self);
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, e: &mut Encoder) {
        self.is_some().encode(e);
        if let Some(value) = self {
            value.encode(e);
        }
    }
}

impl Encode for () {
    fn encode(&self, _: &mut Encoder) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: usize = SEGMENT_BYTES_MIN + 1;

    fn large() -> Payload {
        Payload::from(Bytes::from(vec![7; LARGE]))
    }

    /// Copied and referenced values encode to the same bytes.
    #[test]
    fn what_is_counted_has_its_length_before_it_however_large() {
        for len in [0, 1, 4, LARGE] {
            let payload = Payload::from(Bytes::from(vec![7; len]));
            let mut counted = Encoder::new();
            9u32.encode(&mut counted);
            counted.counted(|e| {
                1u32.encode(e);
                e.payload(&payload);
                2u32.encode(e);
            });
            3u32.encode(&mut counted);

            let mut inner = Encoder::new();
            1u32.encode(&mut inner);
            inner.payload(&payload);
            2u32.encode(&mut inner);
            let mut copied = Encoder::new();
            9u32.encode(&mut copied);
            copied.opaque(&inner.finish().into_bytes());
            3u32.encode(&mut copied);
            assert_eq!(counted.finish().into_bytes(), copied.finish().into_bytes(), "{len} bytes");
        }
    }

    #[test]
    fn what_is_taken_back_leaves_what_was_before_it() {
        let write = |e: &mut Encoder| {
            1u32.encode(e);
            e.payload(&large());
            2u32.encode(e);
            e.payload(&large());
            3u32.encode(e);
        };
        let mut whole = Encoder::new();
        write(&mut whole);
        let whole = whole.finish().into_bytes();
        for len in [0, 3, 4, 8, 100, 8 + LARGE, 12 + LARGE, 12 + LARGE + 100, whole.len() - 4, whole.len()] {
            let mut e = Encoder::new();
            write(&mut e);
            e.truncate(len);
            assert_eq!(e.len(), len);
            4u32.encode(&mut e);
            assert_eq!(e.finish().into_bytes(), [&whole[..len], &[0, 0, 0, 4]].concat(), "cut to {len}");
        }
    }
}
