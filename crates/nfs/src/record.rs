//! Records off a stream (RFC 5531, section 11).
//!
//! Small records are cut from a read buffer: one system call brings many. A large record is read straight into a
//! pooled buffer of its own, where its payload stays until the file has it.

use std::future::Future;

use bytes::{Buf, Bytes, BytesMut};
use host::BufferPool;
use tokio::io::{AsyncRead, AsyncReadExt};
use wire::rpc::FragmentHeader;

use crate::Limits;
use crate::limits::{Admission, Gate, in_time};

/// How much is read ahead: small calls share a read, and at most this much of a payload is copied once more.
const READ_AHEAD_BYTES: usize = 16 * 1024;
/// Fragments of one record; real clients send one. Bounds the work of a record of empty fragments.
const FRAGMENTS_MAX: usize = 256;

/// Why no further record comes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordError {
    #[error("connection closed inside a record")]
    Torn,
    #[error("record of {0} bytes is over the limit")]
    TooLong(usize),
    #[error("record of more than {FRAGMENTS_MAX} fragments")]
    TooManyFragments,
    #[error("record did not end in time")]
    TimedOut,
    #[error("server is stopping")]
    Stopping,
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Reads records from one side of a connection.
pub(crate) struct RecordReader<R> {
    stream: R,
    ahead: BytesMut,
    pool: BufferPool,
    limits: Limits,
}

impl<R: AsyncRead + Unpin> RecordReader<R> {
    pub(crate) fn new(stream: R, pool: BufferPool, limits: Limits) -> Self {
        Self { stream, ahead: BytesMut::new(), pool, limits }
    }

    /// The next record, with its admission; none at a clean end.
    pub(crate) async fn next(&mut self, gate: &Gate) -> Result<Option<(Bytes, Admission)>, RecordError> {
        // Waiting for a record to begin may take for ever: an idle client is a good client.
        if self.ahead.is_empty() && self.fill().await? == 0 {
            return Ok(None);
        }
        self.record(gate).await.map(Some)
    }

    async fn record(&mut self, gate: &Gate) -> Result<(Bytes, Admission), RecordError> {
        let limits = self.limits.clone();
        let first = timed(&limits, gate, self.header()).await?;
        let len = self.checked(0, first)?;
        // How long the admission takes is our doing, not the client's: it has no limit.
        // A record in fragments is admitted as the longest there is, for its length is known only at its end.
        let admitted = if first.last { len } else { self.limits.record_bytes_max };
        let admission = gate.admit(admitted).await.ok_or(RecordError::Stopping)?;
        if first.last {
            return Ok((timed(&limits, gate, self.body(len)).await?, admission));
        }
        // Several fragments are joined: no real client sends them, so a copy here costs nobody.
        let joined = timed(&limits, gate, self.rest_of_record(len)).await?;
        Ok((joined, admission))
    }

    /// The first fragment's body of `len` bytes, and the fragments after it.
    async fn rest_of_record(&mut self, len: usize) -> Result<Bytes, RecordError> {
        let mut joined = BytesMut::from(&self.body(len).await?[..]);
        for _ in 1..FRAGMENTS_MAX {
            let fragment = self.header().await?;
            let len = self.checked(joined.len(), fragment)?;
            joined.extend_from_slice(&self.body(len).await?);
            if fragment.last {
                return Ok(joined.freeze());
            }
        }
        Err(RecordError::TooManyFragments)
    }

    fn checked(&self, so_far: usize, fragment: FragmentHeader) -> Result<usize, RecordError> {
        let total = so_far + fragment.len as usize;
        if total > self.limits.record_bytes_max {
            return Err(RecordError::TooLong(total));
        }
        Ok(fragment.len as usize)
    }

    async fn header(&mut self) -> Result<FragmentHeader, RecordError> {
        while self.ahead.len() < 4 {
            if self.fill().await? == 0 {
                return Err(RecordError::Torn);
            }
        }
        Ok(FragmentHeader::from_bytes(self.ahead.get_u32().to_be_bytes()))
    }

    async fn body(&mut self, len: usize) -> Result<Bytes, RecordError> {
        if len <= READ_AHEAD_BYTES {
            while self.ahead.len() < len {
                if self.fill().await? == 0 {
                    return Err(RecordError::Torn);
                }
            }
            return Ok(self.ahead.split_to(len).freeze());
        }
        let mut buffer = self.pool.take(len);
        let here = self.ahead.len().min(len);
        buffer[..here].copy_from_slice(&self.ahead.split_to(here));
        match self.stream.read_exact(&mut buffer[here..]).await {
            Ok(_) => Ok(buffer.freeze()),
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Err(RecordError::Torn),
            Err(e) => Err(e.into()),
        }
    }

    async fn fill(&mut self) -> Result<usize, RecordError> {
        self.ahead.reserve(READ_AHEAD_BYTES);
        Ok(self.stream.read_buf(&mut self.ahead).await?)
    }
}

/// A client that sends half a record holds what others wait for.
async fn timed<T>(
    limits: &Limits,
    gate: &Gate,
    read: impl Future<Output = Result<T, RecordError>>,
) -> Result<T, RecordError> {
    let read = in_time(limits.record_time_max, limits.pressed_time_max, &gate.server, read);
    read.await.unwrap_or(Err(RecordError::TimedOut))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::limits::Budgets;

    async fn read_all(input: &[u8]) -> (Vec<Bytes>, Result<(), RecordError>) {
        let limits = Limits { record_time_max: Duration::from_millis(50), ..Limits::default() };
        let gate = Gate::new(&limits, &Budgets::new(&limits));
        let mut reader = RecordReader::new(input, BufferPool::default(), limits);
        let mut out = Vec::new();
        loop {
            match reader.next(&gate).await {
                Ok(Some((record, _))) => out.push(record),
                Ok(None) => return (out, Ok(())),
                Err(e) => return (out, Err(e)),
            }
        }
    }

    fn fragment(last: bool, body: &[u8]) -> Vec<u8> {
        let header = FragmentHeader { last, len: body.len() as u32 };
        [&header.to_bytes()[..], body].concat()
    }

    #[tokio::test]
    async fn fragments_are_joined_and_records_kept_apart() {
        let large = vec![9; 300_000];
        let input =
            [fragment(false, b"ab"), fragment(true, b"cd"), fragment(true, &large), fragment(true, b"")];
        let (records, end) = read_all(&input.concat()).await;
        assert_eq!(records, [&b"abcd"[..], &large, b""]);
        assert!(end.is_ok());
    }

    #[tokio::test]
    async fn lengths_that_lie_end_the_connection_without_allocating() {
        let two_gib = FragmentHeader { last: true, len: 0x7fff_ffff }.to_bytes();
        assert!(matches!(read_all(&two_gib).await.1, Err(RecordError::TooLong(_))));
        let torn = &fragment(true, b"abcd")[..6];
        assert!(matches!(read_all(torn).await.1, Err(RecordError::Torn)));
        let empty = fragment(false, b"").repeat(1000);
        assert!(matches!(read_all(&empty).await.1, Err(RecordError::TooManyFragments)));
    }
}
