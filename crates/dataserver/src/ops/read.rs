//! READ at a data server. The offset is in the file (sparse packing), and the bytes are in one stripe unit of
//! it.
//!
//! An object may be shorter than its column: after a write beyond the end, the columns between hold nothing.
//! So a read that the object does not satisfy asks a metaserver how long the column is, and fills the hole
//! with zeros. Reads that are satisfied, which are nearly all, cost no call.
//!
//! ```text
//! column at the metaserver  ├──────────────────────────┤ told
//! object                    ├──────────┤
//! read                            ├──────────────┤        data, then zeros: whole, not the end
//! read                                  ├──────────────────────┤   data, zeros, end
//! ```

use nfs::CompoundContext;
use wire::handle::Place;
use wire::nfs4::{Status, read};

use super::{NfsServer, State, refusal, refusal_of_chain};
use crate::objects::Objects;

/// Bytes of one READ at most, whatever the session allows.
const READ_BYTES_MAX: usize = 1 << 20;
/// Operation, status, eof, length and padding around the data.
const OVERHEAD_BYTES: usize = 20;

impl NfsServer {
    // The stateid is not looked at, here and in WRITE: the handle is a capability that only a metaserver can
    // mint, and a data server knows nothing of opens and locks (RFC 8881, section 13.9.1, leaves the check to
    // the control protocol).
    pub(super) async fn read(
        &self,
        context: &CompoundContext<State>,
        args: read::Args,
    ) -> Result<read::ResOk, Status> {
        let found = context.state.current()?.clone();
        let (object, handle) = (found.object, found.handle);
        let room = context.room_bytes.saturating_sub(OVERHEAD_BYTES);
        let Place { object_offset: offset, left } = handle.place(args.offset).ok_or(Status::PnfsIoHole)?;
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let count = (args.count as usize).min(READ_BYTES_MAX).min(room).min(left);
        let mut data = if handle.has_copies() {
            let read = self.chains.read_for_client(&found, offset, count).await;
            read.map_err(refusal_of_chain)?
        } else {
            let work = move |o: &Objects| o.read(object, offset, count);
            let cached = |o: &Objects| o.read_cached(object, offset, count);
            found.target.run_unless(cached, work).await.map_err(refusal)?.data.into()
        };
        let read = data.len();
        // A whole read says nothing of the end, even if it is there: to know, it would have to ask.
        let mut eof = false;
        if read < count {
            // No server can be asked: a new layout, or the read through a metaserver, is quicker than
            // NFS4ERR_DELAY.
            let told = self.lengths.length(handle).await.ok_or(Status::PnfsNoLayout)?;
            let hole = hole_bytes(told, offset, read, count);
            data.push_zeros(hole);
            eof = read + hole < count;
        }
        self.metrics.file_bytes_read.inc_by(data.len() as u64);
        Ok(read::ResOk { eof, data })
    }
}

/// Zeros between the `read` bytes that the object has and the end of the read or of the column.
fn hole_bytes(told: u64, offset: u64, read: usize, count: usize) -> usize {
    // An object that is longer than told was written and not yet reported (LAYOUTCOMMIT): it ends where it
    // ends.
    let column = told.saturating_sub(offset).min(count as u64) as usize;
    column.saturating_sub(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_ends_with_the_read_or_the_column() {
        // told, offset, read, count -> zeros
        let table = [
            ((100, 0, 10, 50), 40),
            ((100, 80, 10, 50), 10),
            ((100, 80, 0, 50), 20),
            ((100, 100, 0, 50), 0),
            ((100, 200, 0, 50), 0),
            ((85, 80, 10, 50), 0),
            ((0, 0, 0, 50), 0),
            ((u64::MAX, u64::MAX, 0, 50), 0),
            ((u64::MAX, u64::MAX - 10, 0, 50), 10),
        ];
        for ((told, offset, read, count), zeros) in table {
            assert_eq!(hole_bytes(told, offset, read, count), zeros, "{told} {offset} {read} {count}");
        }
    }
}
