//! Records from a stream: record marking (RFC 5531, section 11).
//!
//! Small records are split from a read buffer: one system call reads many. A large record is read directly
//! into a pooled buffer of its own, where its payload stays until it is written to the file. Of a caller that
//! is not trusted, only the beginning of a large record is kept. See `limits`.

use std::future::Future;

use bytes::{Buf, Bytes, BytesMut};
use host::BufferPool;
use tokio::io::{AsyncRead, AsyncReadExt};
use wire::rpc::FragmentHeader;

use crate::Limits;
use crate::limits::{Admission, Gate, Length, SMALL_BYTES, in_time};

/// Size of the read-ahead: small calls share a read, and at most this much of a payload is copied once more.
const READ_AHEAD_BYTES: usize = SMALL_BYTES;
/// Fragments of one record; real clients send one. Bounds the work for a record of empty fragments.
const FRAGMENTS_MAX: usize = 256;

/// Reason why the stream of records ended.
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

/// Record and the room that it holds.
#[derive(Debug)]
pub(crate) struct Record {
    /// Whole record; if it is `cut`, its first [`SMALL_BYTES`].
    pub bytes: Bytes,
    /// True if the rest was dropped, because the caller is not trusted with a long record.
    pub cut: bool,
    pub admission: Admission,
}

/// Reads records from one side of a connection.
pub(crate) struct RecordReader<R> {
    stream: R,
    ahead: BytesMut,
    pool: BufferPool,
    limits: Limits,
    /// Read state of the current record.
    now: Fragments,
}

/// Read state of a record.
#[derive(Debug, Default)]
struct Fragments {
    /// Bytes left in the current fragment.
    left: usize,
    /// Bytes of all fragments that have begun.
    total: usize,
    /// Number of fragments that have begun.
    count: usize,
    /// True if the current fragment is the last.
    last: bool,
}

impl<R: AsyncRead + Unpin> RecordReader<R> {
    pub(crate) fn new(stream: R, pool: BufferPool, limits: Limits) -> Self {
        Self { stream, ahead: BytesMut::new(), pool, limits, now: Fragments::default() }
    }

    /// Reads the next record; none at a clean end. `trusts` decides about a record of more than
    /// [`SMALL_BYTES`], from its beginning.
    pub(crate) async fn next(
        &mut self,
        gate: &Gate,
        trusts: impl Fn(&Bytes) -> bool,
    ) -> Result<Option<Record>, RecordError> {
        // No time limit between records: an idle client is legitimate.
        if self.ahead.is_empty() && self.fill().await? == 0 {
            return Ok(None);
        }
        self.record(gate, trusts).await.map(Some)
    }

    async fn record(&mut self, gate: &Gate, trusts: impl Fn(&Bytes) -> bool) -> Result<Record, RecordError> {
        self.now = Fragments::default();
        let limits = self.limits.clone();
        let beginning = timed(&limits, gate, self.beginning()).await?;
        // No time limit on admission: the delay is the server's, not the client's.
        let admit = async |length| gate.admit(length).await.ok_or(RecordError::Stopping);
        if self.is_at_end() {
            let admission = admit(Length::Small(beginning.len())).await?;
            return Ok(Record { bytes: beginning, cut: false, admission });
        }
        if !trusts(&beginning) {
            timed(&limits, gate, self.drop_rest()).await?;
            let admission = admit(Length::Small(beginning.len())).await?;
            return Ok(Record { bytes: beginning, cut: true, admission });
        }
        // A record in fragments is admitted with the maximal length, since its length is known only at its
        // end.
        let is_whole = self.now.last && self.now.count == 1;
        let len = if is_whole { self.now.total } else { limits.record_bytes_max };
        let admission = admit(Length::Large(len)).await?;
        let bytes = match is_whole {
            true => timed(&limits, gate, self.rest(beginning)).await?,
            false => timed(&limits, gate, self.joined(beginning)).await?,
        };
        Ok(Record { bytes, cut: false, admission })
    }

    fn is_at_end(&self) -> bool {
        self.now.left == 0 && self.now.last
    }

    /// Reads the first bytes of a record: all of it, or [`SMALL_BYTES`].
    async fn beginning(&mut self) -> Result<Bytes, RecordError> {
        self.fragment().await?;
        let len = self.now.left.min(SMALL_BYTES);
        while self.ahead.len() < len {
            self.fill_more().await?;
        }
        let first = self.ahead.split_to(len).freeze();
        self.now.left -= len;
        if self.is_at_end() || len == SMALL_BYTES {
            return Ok(first); // nearly always
        }
        // Joins several fragments with a copy; no real client sends them.
        let mut joined = BytesMut::from(&first[..]);
        while joined.len() < SMALL_BYTES
            && let Some(piece) = self.piece(SMALL_BYTES - joined.len()).await?
        {
            joined.extend_from_slice(&piece);
        }
        Ok(joined.freeze())
    }

    /// Reads the rest of a record of one fragment, after its beginning.
    async fn rest(&mut self, beginning: Bytes) -> Result<Bytes, RecordError> {
        let mut buffer = self.pool.take(beginning.len() + self.now.left);
        buffer[..beginning.len()].copy_from_slice(&beginning);
        let here = self.ahead.len().min(self.now.left);
        let filled = beginning.len() + here;
        buffer[beginning.len()..filled].copy_from_slice(&self.ahead.split_to(here));
        drop(beginning);
        self.now.left = 0;
        match self.stream.read_exact(&mut buffer[filled..]).await {
            Ok(_) => Ok(buffer.freeze()),
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Err(RecordError::Torn),
            Err(e) => Err(e.into()),
        }
    }

    /// Reads the rest of a record of several fragments, after its beginning.
    async fn joined(&mut self, beginning: Bytes) -> Result<Bytes, RecordError> {
        let mut joined = BytesMut::from(&beginning[..]);
        while let Some(piece) = self.piece(READ_AHEAD_BYTES).await? {
            joined.extend_from_slice(&piece);
        }
        Ok(joined.freeze())
    }

    async fn drop_rest(&mut self) -> Result<(), RecordError> {
        while self.piece(READ_AHEAD_BYTES).await?.is_some() {}
        Ok(())
    }

    /// Reads the next bytes of the record, at most `bytes_max`; none at its end.
    async fn piece(&mut self, bytes_max: usize) -> Result<Option<Bytes>, RecordError> {
        while self.now.left == 0 {
            if self.now.last {
                return Ok(None);
            }
            self.fragment().await?;
        }
        if self.ahead.is_empty() {
            self.fill_more().await?;
        }
        let len = self.ahead.len().min(self.now.left).min(bytes_max);
        self.now.left -= len;
        Ok(Some(self.ahead.split_to(len).freeze()))
    }

    /// Reads the header of the next fragment.
    async fn fragment(&mut self) -> Result<(), RecordError> {
        if self.now.count == FRAGMENTS_MAX {
            return Err(RecordError::TooManyFragments);
        }
        while self.ahead.len() < 4 {
            self.fill_more().await?;
        }
        let FragmentHeader { last, len } = FragmentHeader::from_bytes(self.ahead.get_u32().to_be_bytes());
        let total = self.now.total + len as usize;
        if total > self.limits.record_bytes_max {
            return Err(RecordError::TooLong(total));
        }
        self.now = Fragments { left: len as usize, total, count: self.now.count + 1, last };
        Ok(())
    }

    /// Reads more bytes inside a record, where the end of the stream is an error.
    async fn fill_more(&mut self) -> Result<(), RecordError> {
        if self.fill().await? == 0 { Err(RecordError::Torn) } else { Ok(()) }
    }

    async fn fill(&mut self) -> Result<usize, RecordError> {
        self.ahead.reserve(READ_AHEAD_BYTES);
        Ok(self.stream.read_buf(&mut self.ahead).await?)
    }
}

/// Time limit of a read inside a record: half a record may hold a budget that others wait for.
async fn timed<T>(
    limits: &Limits,
    gate: &Gate,
    read: impl Future<Output = Result<T, RecordError>>,
) -> Result<T, RecordError> {
    let read = in_time(limits.record_time_max, limits.pressed_time_max, || gate.is_pressed(), read);
    read.await.unwrap_or(Err(RecordError::TimedOut))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::limits::{Budgets, Standing};

    async fn read_all(input: &[u8]) -> (Vec<Bytes>, Result<(), RecordError>) {
        read_trusting(input, |_| true).await
    }

    async fn read_trusting(
        input: &[u8],
        trusts: impl Fn(&Bytes) -> bool,
    ) -> (Vec<Bytes>, Result<(), RecordError>) {
        let limits = Limits { record_time_max: Duration::from_millis(50), ..Limits::default() };
        let address = std::net::Ipv4Addr::LOCALHOST.into();
        let gate = Gate::new(&limits, &Budgets::new(&limits), address, Standing::default());
        let mut reader = RecordReader::new(input, BufferPool::default(), limits);
        let mut out = Vec::new();
        loop {
            match reader.next(&gate, &trusts).await {
                Ok(Some(record)) => {
                    assert_eq!(record.cut, record.bytes.len() == SMALL_BYTES);
                    out.push(record.bytes);
                }
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
    async fn of_a_caller_that_is_not_trusted_a_long_record_is_cut_and_the_next_one_is_whole() {
        let (large, half) = (vec![9; 300_000], vec![8; SMALL_BYTES / 2]);
        let input = [
            fragment(true, b"ab"),
            fragment(true, &large),
            fragment(true, b"cd"),
            fragment(false, &half),
            fragment(false, &half),
            fragment(false, &large),
            fragment(true, b"ef"),
            fragment(true, b"gh"),
        ];
        let (records, end) = read_trusting(&input.concat(), |beginning| beginning[0] == 7).await;
        assert!(end.is_ok(), "{end:?}");
        let cut = |byte| vec![byte; SMALL_BYTES];
        assert_eq!(records, [&b"ab"[..], &cut(9), b"cd", &cut(8), b"gh"]);
        let (records, _) = read_trusting(&input.concat(), |beginning| beginning[0] == 8).await;
        assert_eq!(records[3].len(), SMALL_BYTES + large.len() + 2, "of trusted ones fragments are joined");
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
