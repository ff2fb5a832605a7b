//! Worker of a mount that writes records to files of its own, through layouts and through metaservers, commits,
//! truncates, and reads them back.

use std::sync::Arc;

use bytes::Bytes;
use wire::nfs4::layout_files::{FileLayout, from_body};
use wire::nfs4::open::{self, Claim as OpenClaim, CreateHow, OpenHow};
use wire::nfs4::{ArgOp, Fattr, LayoutIoMode, LayoutType, ResOp, StableHow, Stateid, Status, Verifier};
use wire::nfs4::{close, commit, layoutcommit, layoutget, read, remove, setattr, write};

use super::calls::putfh;
use super::data_sessions::{Columns, NoAnswer};
use super::work::last_status;
use super::{Gone, Mount, Recallable, Session};
use crate::records::{RECORD_BYTES, RECORDS, Written, bytes, offset};

/// Requests to one file.
const REQUESTS_MAX: usize = 24;

/// Open file of the worker.
struct RecordFile {
    session: Session,
    slot: u32,
    /// Its number among the files of all workers.
    number: u64,
    name: String,
    handle: Bytes,
    stateid: Stateid,
    columns: Option<Columns>,
    /// Writes in memory of a data server: record, number, write verifier.
    uncommitted: Vec<(u64, u64, Verifier)>,
}

impl Mount {
    /// Works until the simulation ends.
    pub(super) async fn keep_records(self: Arc<Self>, slot: u32) {
        while !self.shared.is_ending() {
            let session = self.begin().await;
            let name = format!("records {}.{} {}", self.address, self.boot, self.shared.records().next());
            let _ = self.use_records(session, slot, name).await;
            self.pause(400).await;
        }
    }

    async fn use_records(self: &Arc<Self>, session: Session, slot: u32, name: String) -> Result<(), Gone> {
        let Some((handle, stateid)) = self.open_records(session, slot, &name, true).await? else {
            return Ok(());
        };
        let number = self.shared.records().begin(name.clone());
        let (columns, uncommitted) = (None, vec![]);
        let mut file = RecordFile { session, slot, number, name, handle, stateid, columns, uncommitted };
        for _ in 0..self.within(4..=REQUESTS_MAX as u64) {
            if self.shared.is_ending() {
                break;
            }
            match self.below(16) {
                0..7 => self.write_record(&mut file).await?,
                7 | 8 => self.commit_records(&mut file).await?,
                9..13 => self.read_record(&mut file).await?,
                13 => self.truncate_records(&mut file).await?,
                14 => self.give_back_layout(session, slot, &file.handle).await?,
                _ => self.pause(1000).await,
            }
            self.pause(100).await;
        }
        self.commit_records(&mut file).await?;
        self.give_back_layout(session, slot, &file.handle).await?;
        let close = ArgOp::Close(close::Args { seqid: 0, open_stateid: file.stateid });
        self.patiently(session, slot, vec![putfh(&file.handle), close]).await?;
        if self.below(3) == 0 {
            self.shared.records().removing(file.number);
            let remove = ArgOp::Remove(remove::Args { target: file.name.into() });
            self.patiently(session, slot, vec![ArgOp::PutRootFh, remove]).await?;
        }
        Ok(())
    }

    /// Opens the file to read and write; its handle and stateid.
    async fn open_records(
        self: &Arc<Self>,
        session: Session,
        slot: u32,
        name: &str,
        makes: bool,
    ) -> Result<Option<(Bytes, Stateid)>, Gone> {
        let openhow = match makes {
            true => OpenHow::Create(CreateHow::Unchecked(Box::default())),
            false => OpenHow::NoCreate,
        };
        let args = open::Args {
            seqid: 0,
            share_access: 3,
            share_deny: 0,
            owner: self.owner(session, slot),
            openhow,
            claim: OpenClaim::Null(Bytes::copy_from_slice(name.as_bytes())),
        };
        let ops = vec![ArgOp::PutRootFh, ArgOp::Open(args), ArgOp::GetFh];
        let results = self.patiently(session, slot, ops).await?;
        let [_, ResOp::Open(Ok(opened)), ResOp::GetFh(Ok(got))] = &results[..] else { return Ok(None) };
        self.takes_delegation(&got.object.0, &opened.delegation);
        Ok(Some((got.object.0.clone(), opened.stateid)))
    }

    /// The columns of a layout that is held, perhaps of a new one; to be called with `layouting` held.
    async fn lay_out_records(
        self: &Arc<Self>,
        file: &mut RecordFile,
    ) -> Result<Option<(Stateid, Columns)>, Gone> {
        let held = self.known().layouts.get(&file.handle).map(|held| held.stateid);
        if let (Some(held), Some(columns)) = (held, &file.columns) {
            return Ok(Some((held, columns.clone())));
        }
        file.columns = None;
        let get = ArgOp::LayoutGet(layoutget::Args {
            signal_layout_avail: false,
            layout_type: LayoutType::FILES,
            iomode: LayoutIoMode::ReadWrite,
            offset: 0,
            length: u64::MAX,
            minlength: 4096,
            stateid: held.unwrap_or(file.stateid),
            maxcount: 4096,
        });
        self.known().asking.insert(file.handle.clone());
        let results = self.compound(file.session, file.slot, vec![putfh(&file.handle), get]).await;
        self.known().asking.remove(&file.handle);
        let results = results?;
        let Some(ResOp::LayoutGet(Ok(got))) = results.last() else { return Ok(None) };
        let held = Recallable { stateid: got.stateid, is_recalled: false, is_kept: false };
        self.known().layouts.insert(file.handle.clone(), held);
        let layout = got.layouts.first().and_then(|layout| from_body::<FileLayout>(layout.body.clone()).ok());
        let Some(layout) = layout else { return Ok(None) };
        file.columns = self.columns(file.session, file.slot, &layout).await?;
        Ok(file.columns.clone().map(|columns| (got.stateid, columns)))
    }

    async fn write_record(self: &Arc<Self>, file: &mut RecordFile) -> Result<(), Gone> {
        let (record, number) = (self.below(RECORDS as usize) as u64, self.shared.records().next());
        if self.below(4) > 0 && self.write_to_column(file, record, number).await? {
            return Ok(());
        }
        // Perhaps after a write to the data server that got no answer, and may be carried out late.
        let number = self.shared.records().next();
        let op = ArgOp::Write(write::Args {
            stateid: file.stateid,
            offset: offset(record),
            stable: StableHow::FileSync,
            data: Bytes::from(bytes(number)).into(),
        });
        self.note_record(file, "writes through a metaserver", record, number);
        self.shared.records().written(file.number, record, number, Written::Perhaps);
        let results = self.patiently(file.session, file.slot, vec![putfh(&file.handle), op]).await;
        let done =
            matches!(results.as_ref().ok().and_then(|results| results.last()), Some(ResOp::Write(Ok(_))));
        let how = if done { Written::Durably } else { Written::Perhaps };
        self.shared.records().written(file.number, record, number, how);
        results.map(drop)
    }

    fn note_record(&self, file: &RecordFile, what: &str, record: u64, number: u64) {
        let address = self.address;
        self.shared.note(|| format!("client {address} {what}: record {record} of {}, {number}", file.name));
    }

    /// Returns whether the data server has done it.
    async fn write_to_column(
        self: &Arc<Self>,
        file: &mut RecordFile,
        record: u64,
        number: u64,
    ) -> Result<bool, Gone> {
        let _not_given_back_meanwhile = self.layouting.lock().await;
        let Some((layout, columns)) = self.lay_out_records(file).await? else { return Ok(false) };
        let Some((at, handle)) = columns.at(offset(record)) else { return Ok(false) };
        let stable = [StableHow::Unstable, StableHow::Unstable, StableHow::FileSync][self.below(3)];
        let op = ArgOp::Write(write::Args {
            stateid: layout,
            offset: offset(record),
            stable,
            data: Bytes::from(bytes(number)).into(),
        });
        self.note_record(file, &format!("writes {stable:?} to {at}"), record, number);
        self.shared.records().written(file.number, record, number, Written::Perhaps);
        let results = self.at_data_server(at, vec![putfh(&handle), op]).await;
        self.shared.note(|| format!("client {}: {number}: {results:?}", self.address));
        let outcome = match results.as_ref().map(|results| results.last()) {
            Ok(Some(ResOp::Write(Ok(done)))) if done.committed == StableHow::Unstable => {
                file.uncommitted.push((record, number, done.writeverf));
                Written::InMemory
            }
            Ok(Some(ResOp::Write(Ok(_)))) => Written::Durably,
            Ok(_) | Err(NoAnswer) => Written::Perhaps,
        };
        self.shared.records().written(file.number, record, number, outcome);
        if outcome == Written::Perhaps {
            self.gives_up_layout(file).await?;
            return Ok(false);
        }
        if self.below(3) > 0 {
            let end = offset(record) + RECORD_BYTES;
            let commit = ArgOp::LayoutCommit(layoutcommit::Args {
                offset: 0,
                length: end,
                reclaim: false,
                stateid: layout,
                last_write_offset: Some(end - 1),
                time_modify: None,
                layout_type: LayoutType::FILES,
                body: Bytes::new(),
            });
            self.compound(file.session, file.slot, vec![putfh(&file.handle), commit]).await?;
        }
        Ok(true)
    }

    /// Returns a layout that a data server does not obey, as Linux does; `layouting` is held.
    async fn gives_up_layout(self: &Arc<Self>, file: &mut RecordFile) -> Result<(), Gone> {
        file.columns = None;
        let held = self.known().layouts.remove(&file.handle);
        let Some(held) = held.filter(|held| !held.is_kept) else { return Ok(()) };
        let op = super::recallable::return_layout(held.stateid);
        self.compound(file.session, file.slot, vec![putfh(&file.handle), op]).await.map(drop)
    }

    async fn commit_records(self: &Arc<Self>, file: &mut RecordFile) -> Result<(), Gone> {
        let _not_given_back_meanwhile = self.layouting.lock().await;
        if file.uncommitted.is_empty() {
            return Ok(());
        }
        // Without its layout the client would write them again; here they stay what may have been lost.
        let uncommitted = std::mem::take(&mut file.uncommitted);
        let held = self.known().layouts.contains_key(&file.handle);
        let Some(columns) = file.columns.clone().filter(|_| held) else { return Ok(()) };
        let mut at_columns: Vec<_> =
            uncommitted.iter().filter_map(|(at, ..)| columns.at(offset(*at))).collect();
        at_columns.sort();
        at_columns.dedup();
        for (at, handle) in at_columns {
            let op = ArgOp::Commit(commit::Args { offset: 0, count: 0 });
            let results = self.at_data_server(at, vec![putfh(&handle), op]).await;
            self.shared
                .note(|| format!("client {} commits {} at {at}: {results:?}", self.address, file.name));
            let Ok(Some(ResOp::Commit(Ok(done)))) = results.as_ref().map(|results| results.last()) else {
                continue;
            };
            let of_column = |(record, ..): &&(u64, u64, Verifier)| {
                columns.at(offset(*record)).is_some_and(|(_, other)| other == handle)
            };
            let kept =
                uncommitted.iter().filter(of_column).filter(|(.., verifier)| *verifier == done.writeverf);
            let kept: Vec<_> = kept.map(|(record, number, _)| (*record, *number)).collect();
            self.shared.records().committed(file.number, &kept);
        }
        Ok(())
    }

    async fn read_record(self: &Arc<Self>, file: &mut RecordFile) -> Result<(), Gone> {
        let record = self.below(RECORDS as usize) as u64;
        let args = |stateid| read::Args { stateid, offset: offset(record), count: RECORD_BYTES as u32 };
        let from_column = self.below(2) == 0;
        let (result, by) = if from_column {
            let _not_given_back_meanwhile = self.layouting.lock().await;
            let Some((layout, columns)) = self.lay_out_records(file).await? else { return Ok(()) };
            let Some((at, handle)) = columns.at(offset(record)) else { return Ok(()) };
            let results = self.at_data_server(at, vec![putfh(&handle), ArgOp::Read(args(layout))]).await;
            let result = results.ok().and_then(|mut results| results.pop());
            if !matches!(result, Some(ResOp::Read(Ok(_)))) {
                self.gives_up_layout(file).await?;
            }
            (result, format!("read at {at}"))
        } else {
            let ops = vec![putfh(&file.handle), ArgOp::Read(args(file.stateid))];
            let mut results = self.patiently(file.session, file.slot, ops).await?;
            (results.pop(), "read through a metaserver".into())
        };
        if let Some(ResOp::Read(Ok(done))) = result {
            let data = done.data.to_bytes();
            let (now_ms, address) = (self.shared.now_ms(), self.address);
            let by = format!("client {address} at {now_ms} ms, {by}");
            self.shared.note(|| format!("{by}: record {record} of {}", file.name));
            self.shared.records().read(file.number, record, &data, &by);
        }
        Ok(())
    }

    async fn truncate_records(self: &Arc<Self>, file: &mut RecordFile) -> Result<(), Gone> {
        let from = self.below(RECORDS as usize) as u64;
        let attributes = Fattr { size: Some(offset(from)), ..Fattr::default() };
        let args = setattr::Args { stateid: file.stateid, obj_attributes: Box::new(attributes) };
        self.note_record(file, "truncates", from, 0);
        let ops = vec![putfh(&file.handle), ArgOp::SetAttr(args)];
        // A request that is given up may be done.
        self.shared.records().truncated(file.number, from, false);
        let results = self.patiently(file.session, file.slot, ops).await?;
        let done = last_status(&results) == Status::Ok;
        if done {
            self.shared.records().truncated(file.number, from, true);
            file.uncommitted.retain(|(record, ..)| *record < from);
        }
        Ok(())
    }

    /// Reads all records that are there, through metaservers: when all is mended.
    pub(super) async fn audit(self: Arc<Self>, slot: u32) {
        let all = self.shared.records().there();
        for (number, name) in all {
            while self.audit_file(slot, number, &name).await.is_err() {}
        }
    }

    async fn audit_file(self: &Arc<Self>, slot: u32, number: u64, name: &str) -> Result<(), Gone> {
        let session = self.begin().await;
        let Some((handle, stateid)) = self.open_records(session, slot, name, false).await? else {
            self.shared.records().wrong.push(format!("{name} is not there"));
            return Ok(());
        };
        for record in 0..RECORDS {
            let args = read::Args { stateid, offset: offset(record), count: RECORD_BYTES as u32 };
            let results = self.patiently(session, slot, vec![putfh(&handle), ArgOp::Read(args)]).await?;
            match results.into_iter().last() {
                Some(ResOp::Read(Ok(done))) => {
                    let data = done.data.to_bytes();
                    self.shared.records().read(number, record, &data, "at the end");
                }
                other => {
                    let status = other.map(|other| other.status());
                    self.shared
                        .records()
                        .wrong
                        .push(format!("at the end: record {record} of {name}: {status:?}"));
                }
            }
        }
        let close = ArgOp::Close(close::Args { seqid: 0, open_stateid: stateid });
        self.patiently(session, slot, vec![putfh(&handle), close]).await.map(drop)
    }
}
