//! WRITE at a data server. The offset is in the file (sparse packing), and the bytes are in one stripe unit
//! of it.

use std::sync::Arc;

use wire::handle::{Holder, Place};
use wire::nfs4::{StableHow, Status, write};

use super::{NfsServer, State, refusal, refusal_of_chain};
use crate::chain::{Caller, Change};
use crate::found::Found;

impl NfsServer {
    pub(super) async fn write(&self, state: &State, args: write::Args) -> Result<write::ResOk, Status> {
        let found = state.current()?.clone();
        let handle = found.handle;
        if found.holder == Holder::Reader {
            return Err(Status::Access); // the handle of a layout to read
        }
        let write::Args { offset, stable, data, .. } = args;
        let Place { object_offset: offset, left } = handle.place(offset).ok_or(Status::PnfsIoHole)?;
        let count = data.len();
        if count as u64 > left {
            return Err(Status::PnfsIoHole); // goes on into another column
        }
        // Never FileSync, also when that was asked for: the file's size is a metaserver's, which learns it
        // from LAYOUTCOMMIT; and after FileSync, a client sends none (RFC 8881, section 12.5.4; Linux:
        // filelayout_set_layoutcommit). Linux takes DataSync from a data server as done, without COMMIT.
        if handle.has_copies() {
            let is_stable = stable != StableHow::Unstable;
            let committed = if is_stable { StableHow::DataSync } else { StableHow::Unstable };
            let change = Change::Write { offset, data, sums: Arc::default(), stable: is_stable };
            let done = self.chains.change(found, change, Caller::Client).await.map_err(refusal_of_chain)?;
            self.metrics.file_bytes_written.inc_by(count as u64);
            return Ok(write::ResOk { count: count as u32, committed, writeverf: done.verifier });
        }
        let Found { target, object, .. } = found;
        let written = target.run(move |o| match stable {
            StableHow::Unstable => Ok((StableHow::Unstable, o.write(object, offset, &data)?)),
            StableHow::DataSync | StableHow::FileSync => {
                Ok((StableHow::DataSync, o.write_through(object, offset, &data)?))
            }
        });
        let (committed, writeverf) = written.await.map_err(refusal)?;
        self.metrics.file_bytes_written.inc_by(count as u64);
        // The payload of one record is shorter than 4 GiB.
        Ok(write::ResOk { count: count as u32, committed, writeverf })
    }
}
