//! Server-side copy (RFC 7862, section 4), done by the data servers. This module plans the copy: pieces of
//! source columns and their places in target columns. Each data server copies its own bytes, and fetches the
//! rest from the others.
//!
//! ```text
//! source, unit 2      aa bb aa bb …        column a, column b
//! target, unit 3      ccc ddd ccc …        column c, column d
//! pieces              a→c 2, b→c 1, b→d 1, a→d 2, …     joined where both objects go on without a gap
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use namespace::{ChainId, FileLayout, Inode, TargetId};
use tokio::task::JoinSet;
use wire::data::{self, Piece, Procedure};
use wire::handle::ObjectHandle;

use crate::data::Data;
use crate::data::proxy::FileData;
use crate::errors::FileError;

/// Bytes planned and copied at a time: done within a data server's time to answer, also on slow disks.
const WINDOW_BYTES: u64 = 64 << 20;
/// Time limit of a COPY. After it, the client gets the number of bytes copied, and asks for the rest.
const COPY_TIME_MAX: Duration = Duration::from_secs(2);

/// Kind of copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// COPY: as far as it comes in [`COPY_TIME_MAX`]; durable after a COMMIT.
    Copy,
    /// CLONE: the whole range, by sharing the data, durably.
    Clone,
}

/// File and offset at which a range begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At<'a> {
    pub inode: &'a Inode,
    /// Offset of the range's first byte.
    pub offset: u64,
}

/// Pieces to copy, by source column and target column.
type Plan = BTreeMap<(u32, u32), Vec<Piece>>;

/// Plans the copy of `len` bytes from offset `from` of a file with layout `source`, to offset `to` of a file
/// with layout `target`.
fn plan((source, from): (&FileLayout, u64), (target, to): (&FileLayout, u64), len: u64) -> Plan {
    let mut plan = Plan::new();
    let mut reads = source.extents(from, len);
    let mut writes = target.extents(to, len);
    let (mut read, mut write) = (reads.next(), writes.next());
    while let (Some(r), Some(w)) = (&mut read, &mut write) {
        let len = r.len.min(w.len);
        let pieces = plan.entry((r.column, w.column)).or_default();
        match pieces.last_mut() {
            Some(p) if p.from + p.len == r.object_offset && p.to + p.len == w.object_offset => p.len += len,
            _ => pieces.push(Piece { from: r.object_offset, to: w.object_offset, len }),
        }
        for extent in [&mut *r, &mut *w] {
            extent.object_offset += len;
            extent.len -= len;
        }
        if r.len == 0 {
            read = reads.next();
        }
        if w.len == 0 {
            write = writes.next();
        }
    }
    plan
}

impl Data {
    /// Copies up to `len` bytes between two files, or between two ranges of one file that do not overlap.
    /// Returns the number of bytes copied, counted from the first without a gap.
    ///
    /// # Errors
    /// The error of the first window, or of any window of a [`How::Clone`]; some of the bytes may have been
    /// copied.
    pub(crate) async fn copy_data(
        &self,
        source: At<'_>,
        target: At<'_>,
        len: u64,
        how: How,
    ) -> Result<u64, FileError> {
        let (from, to) = (self.file_data(source.inode)?, self.own_data(target.inode)?);
        let window = |done| {
            let (from, to) = ((&from.layout, source.offset + done), (&to.layout, target.offset + done));
            plan(from, to, WINDOW_BYTES.min(len - done))
        };
        let (from_objects, to_objects) = (from.objects(), to.objects());
        if how == How::Clone {
            // Checked before the first byte is shared: a clone is all or nothing.
            for (a, b) in (0..len).step_by(WINDOW_BYTES as usize).flat_map(|done| window(done).into_keys()) {
                let [a, b] =
                    [&from_objects[a as usize], &to_objects[b as usize]].map(|object| ChainId(object.chain));
                if !self.can_share(a, b)? {
                    return Err(FileError::NotSupported);
                }
            }
        }
        let began = self.machine.clock.monotonic();
        let mut copied = 0;
        while copied < len {
            let outcome = self.carry_out_copy(window(copied), &from_objects, &to_objects, how).await;
            match (self.fence_unanswered(target.inode, outcome).await, how) {
                (Ok(()), _) => copied += WINDOW_BYTES.min(len - copied),
                (Err(status), How::Clone) => return Err(status),
                (Err(status), How::Copy) if copied == 0 => return Err(status),
                // The bytes copied so far count; the client gets the error when it asks for the rest.
                (Err(_), How::Copy) => break,
            }
            if how == How::Copy && self.machine.clock.monotonic().saturating_sub(began) > COPY_TIME_MAX {
                break;
            }
        }
        Ok(copied)
    }

    /// Copies those columns of a file that are `meant`, up to `size`, between files with equal layouts, durably.
    ///
    /// # Errors
    /// Those of the data servers.
    pub(super) async fn copy_columns(
        &self,
        from: &FileData,
        to: &FileData,
        size: u64,
        is_meant: impl Fn(u32) -> bool,
    ) -> Result<(), FileError> {
        let (from_objects, to_objects) = (from.objects(), to.objects());
        let mut done = 0;
        while done < size {
            let len = WINDOW_BYTES.min(size - done);
            let mut window = plan((&from.layout, done), (&to.layout, done), len);
            window.retain(|(_, column), _| is_meant(*column));
            self.carry_out_copy(window, &from_objects, &to_objects, How::Copy).await?;
            done += len;
        }
        self.commit_columns(to, |object| is_meant(object.column)).await
    }

    async fn carry_out_copy(
        &self,
        plan: Plan,
        from: &[ObjectHandle],
        to: &[ObjectHandle],
        how: How,
    ) -> Result<(), FileError> {
        let mut calls = JoinSet::new();
        for ((a, b), pieces) in plan {
            let (source, object) = (from[a as usize], to[b as usize]);
            let chain = ChainId(object.chain);
            let from_target = self.cluster.head_of(ChainId(source.chain));
            let address = self.address(from_target)?;
            let source = ObjectHandle { target: from_target.0, ..source }.seal(&self.machine.key);
            let args = move |handle| data::copy::Args {
                source: source.clone(),
                address: address.clone(),
                handle,
                pieces: pieces.clone(),
                stable: how == How::Clone,
            };
            let call = self.call_object::<_, data::copy::ResOk>(object, Procedure::Copy, args);
            let source_lost = self.cluster.data_servers.until_lost(from_target);
            calls.spawn(async move {
                let result = tokio::select! {
                    biased;
                    result = call => result,
                    () = source_lost => Err(FileError::Io),
                };
                (chain, result)
            });
        }
        while let Some(done) = calls.join_next().await {
            let (chain, result) = done.map_err(|_| FileError::Fault)?;
            self.write_verifier.saw(chain, result?.verifier);
        }
        Ok(())
    }

    /// True if an object of one chain can share its data with an object of the other. With copies it never does: the
    /// members' disks would have to agree.
    fn can_share(&self, one: ChainId, other: ChainId) -> Result<bool, FileError> {
        let chains = self.cluster.chains();
        if chains.contains_key(&one) || chains.contains_key(&other) {
            return Ok(false);
        }
        let [one, other] = [one, other].map(|chain| self.cluster.head_of(chain));
        self.cluster.data_servers.share(one, other).ok_or(FileError::Delay)
    }

    fn address(&self, target: TargetId) -> Result<Bytes, FileError> {
        let reach = self.cluster.data_servers.reach(target)?;
        Ok(Bytes::from(reach.peer.address().to_string()))
    }
}

#[cfg(test)]
mod tests {
    use namespace::{DeviceId, StripeUnit};

    use super::*;

    const U: u64 = StripeUnit::STEP_BYTES as u64;

    fn layout(units: u32, columns: u32) -> FileLayout {
        let unit = StripeUnit::new(units * StripeUnit::STEP_BYTES).unwrap();
        FileLayout { device: DeviceId(1), first: 0, unit, columns }
    }

    /// Carries out a plan on files in memory, and compares the bytes.
    fn check(source: FileLayout, from: u64, target: FileLayout, to: u64, len: u64) -> usize {
        // Source file offset of each byte of the target, in steps of units at the borders.
        let mut seen = 0;
        let mut pieces = 0;
        for ((a, b), moves) in plan((&source, from), (&target, to), len) {
            pieces += moves.len();
            for Piece { from: r, to: w, len } in moves {
                seen += len;
                let mut at = 0;
                while at < len {
                    let (x, y) = (source.file_offset(a, r + at), target.file_offset(b, w + at));
                    assert_eq!(x - from, y - to, "{source:?} {from} to {target:?} {to}");
                    at += (U - (r + at) % U).min(U - (w + at) % U);
                }
            }
        }
        assert_eq!(seen, len, "each byte goes once");
        pieces
    }

    #[test]
    fn files_of_one_shape_need_one_piece_for_each_column() {
        assert_eq!(check(layout(1, 4), 0, layout(1, 4), 0, 40 * U), 4);
        assert_eq!(check(layout(1, 4), 5, layout(1, 4), 8 * U + 5, 40 * U + 7), 4);
        assert_eq!(check(layout(16, 1), 0, layout(1, 1), 0, 40 * U), 1);
        assert_eq!(check(layout(1, 4), 0, layout(1, 4), 0, 0), 0);
    }

    #[test]
    fn units_and_columns_may_differ_and_offsets_be_odd() {
        for (source, target) in [
            (layout(1, 4), layout(2, 4)),
            (layout(3, 2), layout(1, 5)),
            (layout(1, 1), layout(1, 4)),
            (layout(4, 4), layout(1, 1)),
        ] {
            for (from, to, len) in [(0, 0, 30 * U), (7, 0, 9 * U), (U - 1, 3 * U + 1, 11 * U + 5), (1, 2, 3)]
            {
                check(source, from, target, to, len);
            }
        }
    }
}
