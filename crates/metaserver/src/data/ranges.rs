//! Operations on ranges of a file at the data servers: finding data and holes, reserving space, punching
//! holes. Each column has one run of a range, so each data server gets one call.

use std::collections::BTreeMap;

use namespace::{ChainId, Inode};
use tokio::task::JoinSet;
use wire::data::seek::What;
use wire::data::{self, Procedure, Run};
use wire::xdr::Payload;

use crate::data::Data;
use crate::data::migration::{Small, seek_small};
use crate::errors::FileError;

/// Maximum of runs in one READ_PLUS: bounds the part of lengths and offsets in the reply.
pub(crate) const RUNS_MAX: usize = 128;

/// Space that an ALLOCATE needs on each file system below: targets on one file system share its free space.
#[derive(Default)]
struct Rooms(BTreeMap<u64, (u64, u64)>);

impl Rooms {
    fn add(&mut self, file_system: u64, needed: u64, free: u64) {
        let (sum, least) = self.0.entry(file_system).or_insert((0, u64::MAX));
        *sum = sum.saturating_add(needed);
        *least = free.min(*least);
    }

    fn suffice(&self) -> bool {
        self.0.values().all(|(needed, free)| needed <= free)
    }
}

/// SEEK result for an object without data.
fn in_nothing(what: What, offset: u64) -> Option<u64> {
    match what {
        What::Data => None,
        What::Hole => Some(offset),
        What::End => Some(0),
    }
}

impl Data {
    /// Offset of the next data or hole at or after `offset`, if any; a hole may be beyond the end of the
    /// file.
    pub(crate) async fn seek_data(
        &self,
        inode: &Inode,
        offset: u64,
        what: What,
    ) -> Result<Option<u64>, FileError> {
        if inode.columns().is_none() {
            return Ok(seek_small(inode, offset, what));
        }
        let layout = self.file_data(inode)?.layout;
        let found = self.seek_columns(inode, offset, what).await?;
        // Offsets of a column ascend with the file's offsets, so the minimum of the columns' results is the
        // result for the file.
        Ok(found.into_iter().filter_map(|(column, at)| Some(layout.file_offset(column, at?))).min())
    }

    /// SEEK results of each column at or after `offset` of the file, as offsets in its object.
    async fn seek_columns(
        &self,
        inode: &Inode,
        offset: u64,
        what: What,
    ) -> Result<Vec<(u32, Option<u64>)>, FileError> {
        let data = self.file_data(inode)?;
        let mut calls = JoinSet::new();
        let mut found = Vec::new();
        for object in data.objects() {
            let column = object.column;
            let offset = data.layout.object_len(column, offset);
            if self.is_lost_and_empty(inode, &data.layout, column, ChainId(object.chain)) {
                found.push((column, in_nothing(what, offset)));
                continue;
            }
            let args = move |handle| data::seek::Args { handle, offset, what };
            let call = self.call_object::<_, data::seek::ResOk>(object, Procedure::Seek, args);
            calls.spawn(async move { (column, call.await) });
        }
        while let Some(done) = calls.join_next().await {
            let (column, result) = done.map_err(|_| FileError::Fault)?;
            found.push((column, result?.found));
        }
        Ok(found)
    }

    /// Reserves space for a range on all data servers, durably.
    ///
    /// # Errors
    /// `NoSpace` if a data server has not enough: all are asked before any reserves. If other files take the
    /// space in between, a part of the range may be reserved all the same; a repeated ALLOCATE finds it
    /// reserved.
    pub(crate) async fn allocate_data(&self, inode: &Inode, offset: u64, len: u64) -> Result<(), FileError> {
        let mut rooms = Rooms::default();
        for (_, asked) in self.allocate_columns(inode, offset, len, true).await? {
            rooms.add(asked.file_system, asked.needed, asked.free);
        }
        if !rooms.suffice() {
            return Err(FileError::NoSpace);
        }
        let reserved = self.allocate_columns(inode, offset, len, false).await;
        for (chain, done) in self.fence_unanswered(inode, reserved).await? {
            self.write_verifier.saw(chain, done.verifier);
        }
        Ok(())
    }

    async fn allocate_columns(
        &self,
        inode: &Inode,
        offset: u64,
        len: u64,
        ask: bool,
    ) -> Result<Vec<(ChainId, data::allocate::ResOk)>, FileError> {
        let data = self.own_data(inode)?;
        let mut calls = JoinSet::new();
        for object in data.objects() {
            let (offset, len) = data.layout.object_range(object.column, offset, len);
            if len > 0 {
                let args = move |handle| data::allocate::Args { handle, offset, len, ask };
                let call = self.call_object::<_, data::allocate::ResOk>(object, Procedure::Allocate, args);
                calls.spawn(async move { (ChainId(object.chain), call.await) });
            }
        }
        let mut answers = Vec::with_capacity(calls.len());
        while let Some(done) = calls.join_next().await {
            let (chain, result) = done.map_err(|_| FileError::Fault)?;
            answers.push((chain, result?));
        }
        Ok(answers)
    }

    /// Makes a range a hole on all data servers, durably.
    pub(crate) async fn punch_data(&self, inode: &Inode, offset: u64, len: u64) -> Result<(), FileError> {
        let data = self.own_data(inode)?;
        let mut calls = JoinSet::new();
        for object in data.objects() {
            let (offset, len) = data.layout.object_range(object.column, offset, len);
            if len > 0 {
                let args = move |handle| data::punch::Args { handle, offset, len };
                calls.spawn(self.call_object::<_, ()>(object, Procedure::Punch, args));
            }
        }
        let mut punched = Ok(());
        while let Some(done) = calls.join_next().await
            && punched.is_ok()
        {
            punched = done.map_err(|_| FileError::Fault)?;
        }
        self.fence_unanswered(inode, punched).await
    }

    /// Like [`Data::read_data`], with holes reported apart: contiguous runs, at most [`RUNS_MAX`], which may
    /// have fewer bytes than wanted. The last value is true if the runs reach the end of the file.
    pub(crate) async fn read_runs(
        &self,
        inode: &Inode,
        offset: u64,
        count: u32,
    ) -> Result<(Vec<Run>, bool), FileError> {
        if inode.columns().is_none()
            && let Small::Data { data, hole, eof } = self.read_small(inode, offset, count)?
        {
            let runs = [Run::Data(data.into()), Run::Hole(hole)];
            return Ok((runs.into_iter().filter(|run| length(run) > 0).collect(), eof));
        }
        let len = inode.size.saturating_sub(offset).min(u64::from(count));
        let data = self.file_data(inode)?;
        let objects = data.objects();
        let mut calls = JoinSet::new();
        let mut pieces = Vec::new();
        for extent in data.layout.extents(offset, len) {
            let (offset, count) = (extent.object_offset, extent.len as u32);
            let args = move |handle| data::read::Args { handle, offset, count };
            let object = objects[extent.column as usize];
            let call = self.call_object::<_, data::read_plus::ResOk>(object, Procedure::ReadPlus, args);
            let index = pieces.len();
            pieces.push((extent.len, Vec::new()));
            calls.spawn(async move { (index, call.await) });
        }
        while let Some(done) = calls.join_next().await {
            let (index, result) = done.map_err(|_| FileError::Fault)?;
            pieces[index].1 = result?.runs;
        }
        let (runs, bytes) = join(pieces)?;
        let sent = |run: &Run| if let Run::Data(data) = run { data.len() as u64 } else { 0 };
        self.metrics.file_bytes_read.inc_by(runs.iter().map(sent).sum());
        Ok((runs, offset.saturating_add(bytes) >= inode.size))
    }
}

/// Joins the runs of the pieces to one list; each piece comes with its length. Neighbours of the same kind
/// become one run. After the end of an object, a hole fills the rest of the piece. Also returns the number of
/// bytes.
fn join(pieces: Vec<(u64, Vec<Run>)>) -> Result<(Vec<Run>, u64), FileError> {
    let mut runs: Vec<Run> = Vec::new();
    let mut bytes = 0;
    for (len, piece) in pieces {
        let known: u64 = piece.iter().map(length).fold(0, u64::saturating_add);
        let rest = len.checked_sub(known).ok_or(FileError::Fault)?;
        for run in piece.into_iter().chain([Run::Hole(rest)]) {
            let (len, full) = (length(&run), runs.len() == RUNS_MAX);
            match (runs.last_mut(), run) {
                _ if len == 0 => continue,
                (Some(Run::Hole(before)), Run::Hole(more)) => *before += more,
                (Some(Run::Data(before)), Run::Data(more)) => before.append(more),
                _ if full => return Ok((runs, bytes)),
                (_, run) => runs.push(run),
            }
            bytes += len;
        }
    }
    Ok((runs, bytes))
}

fn length(run: &Run) -> u64 {
    match run {
        Run::Data(data) => Payload::len(data) as u64,
        Run::Hole(len) => *len,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn data(text: &'static str) -> Run {
        Run::Data(Bytes::from_static(text.as_bytes()).into())
    }

    #[test]
    fn room_is_counted_once_for_each_file_system() {
        let mut rooms = Rooms::default();
        rooms.add(1, 60, 100);
        rooms.add(2, 100, 100);
        assert!(rooms.suffice());
        rooms.add(1, 41, 100);
        assert!(!rooms.suffice(), "both have room, but it is the same");
    }

    #[test]
    fn neighbouring_runs_are_one_and_a_short_object_ends_in_a_hole() {
        let pieces = vec![
            (10, vec![data("abcd"), Run::Hole(2)]),
            (4, vec![]),
            (3, vec![data("xyz")]),
            (3, vec![data("12"), Run::Hole(0)]),
        ];
        let expected = vec![data("abcd"), Run::Hole(10), data("xyz12"), Run::Hole(1)];
        let (runs, bytes) = join(pieces).unwrap();
        assert_eq!(bytes, 20);
        assert_eq!(runs.len(), expected.len());
        for (run, expected) in runs.iter().zip(&expected) {
            match (run, expected) {
                (Run::Data(a), Run::Data(b)) => assert_eq!(a.to_bytes(), b.to_bytes()),
                _ => assert_eq!(run, expected),
            }
        }
        assert_eq!(join(vec![(1, vec![Run::Hole(2)])]), Err(FileError::Fault), "longer than asked for");
    }

    #[test]
    fn crumbs_make_a_short_answer() {
        let crumbs = vec![(2, vec![data("a"), Run::Hole(1)]); RUNS_MAX];
        let (runs, bytes) = join(crumbs).unwrap();
        assert_eq!((runs.len(), bytes), (RUNS_MAX, RUNS_MAX as u64));
    }
}
