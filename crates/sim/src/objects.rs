//! Objects of a simulated data server, in memory, behind the private data program. What was answered is kept
//! over a crash: disks of data servers have tests of their own.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use nfs::{Answer, Call, PeerAuth, PrivateProgram, Program, encoded};
use parking_lot::Mutex;
use wire::data::{self, ObjectEntry, ObjectName, ObjectStat, Reply, Status, TargetCondition};
use wire::data::{TargetSpace, commit, list, read, stat, status, write};
use wire::handle::{HandleKey, Holder, ObjectHandle};
use wire::rpc::{CallHeader, Rejection};
use wire::xdr::Decoder;

/// Program of [`ClientObjects`], in the range that sites define for themselves.
pub const CLIENT_PROGRAM: u32 = 0x2048_4553;
const TARGET_BYTES: u64 = 1 << 40;

/// One object.
#[derive(Debug, Clone, Default)]
struct Object {
    generation: u32,
    data: Vec<u8>,
    modified_ns: u64,
    /// Highest epoch of a call, and of a fence.
    epoch: u32,
    layout_epoch: u32,
    /// Epoch of the last truncation.
    truncated: u32,
}

/// Objects of the one target of a data server: its disk.
#[derive(Debug, Default)]
pub struct Objects {
    /// Id of the target.
    pub target: u64,
    /// Name space and incarnation that it obeys.
    pub obeys: (u64, u64),
    /// Seeded bug: what is removed stays.
    removes_nothing: bool,
    objects: BTreeMap<(u64, u32), Object>,
    writes: u64,
}

impl Objects {
    /// The empty target with this id.
    #[must_use]
    pub fn new(target: u64, removes_nothing: bool) -> Self {
        Self { target, removes_nothing, ..Self::default() }
    }

    /// The file (inode, generation) and column of each object.
    #[must_use]
    pub fn all(&self) -> Vec<(u64, u32, u32)> {
        let all = self.objects.iter();
        all.map(|((inode, column), object)| (*inode, object.generation, *column)).collect()
    }

    /// What it reports of its target.
    #[must_use]
    pub fn space(&self) -> TargetSpace {
        TargetSpace {
            file_system: self.target,
            target: self.target,
            path: Bytes::from_static(b"/target"),
            total: TARGET_BYTES,
            free: TARGET_BYTES / 2,
            objects: self.objects.len() as u64,
            condition: TargetCondition::Ok,
            reflinks: false,
            name_space: self.obeys.0,
            incarnation: self.obeys.1,
            trash: 0,
            reserve: 0,
        }
    }

    fn find(&self, handle: &[u8], key: &HandleKey) -> Result<(u64, u32, u32), Status> {
        let handle = ObjectHandle::open(handle, key).ok_or(Status::BadHandle)?;
        match handle.target == self.target {
            true => Ok((handle.file.inode, handle.column, handle.file.generation)),
            false => Err(Status::NotFound),
        }
    }

    fn object(&mut self, handle: &[u8], key: &HandleKey) -> Result<&mut Object, Status> {
        let (inode, column, generation) = self.find(handle, key)?;
        let (handle, holder) = ObjectHandle::open_with_holder(handle, key).ok_or(Status::BadHandle)?;
        let object = self.objects.get_mut(&(inode, column));
        let object = object.filter(|object| object.generation == generation).ok_or(Status::ObjectLost)?;
        let is_past = match holder {
            Holder::Server => handle.epoch < object.epoch,
            Holder::Reader | Holder::Writer => handle.layout_epoch < object.layout_epoch,
        };
        if is_past {
            return Err(Status::StaleEpoch);
        }
        object.layout_epoch = object.layout_epoch.max(handle.layout_epoch);
        object.epoch = object.epoch.max(handle.epoch);
        Ok(object)
    }

    fn touched(&mut self) -> u64 {
        self.writes += 1;
        1_700_000_000_000_000_000 + self.writes
    }

    fn make(&mut self, handle: &[u8], key: &HandleKey) -> Result<(), Status> {
        let (inode, column, generation) = self.find(handle, key)?;
        let known = self.objects.get(&(inode, column));
        if known.is_none_or(|object| object.generation != generation) {
            self.objects.insert((inode, column), Object { generation, ..Object::default() });
        }
        Ok(())
    }

    fn remove(&mut self, handle: &[u8], key: &HandleKey) -> Result<(), Status> {
        let (inode, column, generation) = self.find(handle, key)?;
        let known = self.objects.get(&(inode, column)).is_some_and(|object| object.generation == generation);
        if known && !self.removes_nothing {
            self.objects.remove(&(inode, column));
        }
        Ok(())
    }

    fn write(&mut self, args: &write::Args, key: &HandleKey) -> write::Res {
        let modified_ns = self.touched();
        let object = self.object(&args.handle, key)?;
        let data = args.data.clone().to_bytes();
        let (start, end) = (args.offset as usize, args.offset as usize + data.len());
        if object.data.len() < end {
            object.data.resize(end, 0);
        }
        object.data[start..end].copy_from_slice(&data);
        object.modified_ns = modified_ns;
        Ok(write::ResOk { count: data.len() as u32, verifier: [1; 8] })
    }

    fn read(&mut self, args: &read::Args, key: &HandleKey) -> read::Res {
        let object = self.object(&args.handle, key)?;
        let start = (args.offset as usize).min(object.data.len());
        let end = (start + args.count as usize).min(object.data.len());
        let payload = Bytes::copy_from_slice(&object.data[start..end]).into();
        Ok(read::ResOk { payload, eof: end == object.data.len() })
    }

    fn truncate(&mut self, handle: &[u8], len: u64, key: &HandleKey) -> Result<(), Status> {
        if len == 0 {
            self.make(handle, key)?;
        }
        let modified_ns = self.touched();
        let epoch = ObjectHandle::open(handle, key).ok_or(Status::BadHandle)?.epoch;
        let object = self.object(handle, key)?;
        if object.truncated == epoch {
            return Ok(()); // done before
        }
        object.data.truncate(len as usize);
        object.modified_ns = modified_ns;
        object.truncated = epoch;
        Ok(())
    }

    fn stat(&mut self, args: &stat::Args, key: &HandleKey) -> stat::Res {
        let mut objects = vec![];
        for handle in &args.handles {
            let found = match self.object(handle, key) {
                Ok(object) => {
                    let len = object.data.len() as u64;
                    Some(ObjectStat { len, modified_ns: object.modified_ns, space_used: len })
                }
                Err(Status::ObjectLost) => None,
                Err(status) => return Err(status),
            };
            objects.push(found);
        }
        Ok(stat::ResOk { objects })
    }

    fn list(&self, args: list::Args) -> list::Res {
        let after = args.after.map(|ObjectName { inode, column }| (inode, column));
        let rest = self.objects.iter().filter(|(name, _)| after.is_none_or(|after| **name > after));
        let entry = |((inode, column), object): (&(u64, u32), &Object)| ObjectEntry {
            volume: 1,
            inode: *inode,
            generation: object.generation,
            column: *column,
        };
        let objects: Vec<ObjectEntry> = rest.map(entry).collect();
        Ok(list::ResOk { objects, done: true })
    }

    fn answer(&mut self, call: data::Call, key: &HandleKey) -> Result<Reply, Rejection> {
        Ok(match call {
            data::Call::Read(args) => Reply::Read(self.read(&args, key)),
            data::Call::Write(args) => Reply::Write(self.write(&args, key)),
            data::Call::Commit(args) => {
                Reply::Commit(self.object(&args.handle, key).map(|_| commit::ResOk { verifier: [1; 8] }))
            }
            data::Call::Truncate(args) => Reply::Truncate(self.truncate(&args.handle, args.len, key)),
            data::Call::Remove(args) => {
                Reply::Remove(args.handles.iter().try_for_each(|handle| self.remove(handle, key)))
            }
            data::Call::Make(args) => {
                Reply::Make(args.handles.iter().try_for_each(|handle| self.make(handle, key)))
            }
            data::Call::List(args) => Reply::List(self.list(args)),
            data::Call::Status(_) => Reply::Status(Ok(status::ResOk { targets: vec![self.space()] })),
            data::Call::Stat(args) => Reply::Stat(self.stat(&args, key)),
            _ => return Err(Rejection::ProcedureUnavailable),
        })
    }
}

fn answered(objects: &Mutex<Objects>, key: &HandleKey, mut call: Call) -> Answer {
    let answer = data::Call::of_number(call.header.procedure, &mut call.arguments)
        .and_then(|call| objects.lock().answer(call, key));
    Box::pin(std::future::ready(answer.map(|reply| encoded(&reply))))
}

/// The data program, for metaservers.
pub struct DataObjects {
    /// The objects.
    pub objects: Arc<Mutex<Objects>>,
    /// What knows the metaservers.
    pub peer_auth: PeerAuth,
    /// Key of the handles.
    pub key: HandleKey,
}

impl PrivateProgram for DataObjects {
    fn number(&self) -> u32 {
        data::PROGRAM
    }

    fn version(&self) -> u32 {
        data::VERSION
    }

    fn peer_auth(&self) -> &PeerAuth {
        &self.peer_auth
    }

    fn call_of_peer(self: Arc<Self>, call: Call) -> Answer {
        answered(&self.objects, &self.key, call)
    }
}

/// The same procedures for clients that hold a layout: in place of NFSv4.1 at a data server.
pub struct ClientObjects {
    /// The objects.
    pub objects: Arc<Mutex<Objects>>,
    /// Key of the handles.
    pub key: HandleKey,
}

impl Program for ClientObjects {
    fn number(&self) -> u32 {
        CLIENT_PROGRAM
    }

    fn versions(&self) -> std::ops::RangeInclusive<u32> {
        data::VERSION..=data::VERSION
    }

    fn trusts(&self, _: &CallHeader, _: Decoder, _: &nfs::Connection) -> bool {
        true
    }

    fn call(self: Arc<Self>, call: Call) -> Answer {
        answered(&self.objects, &self.key, call)
    }
}
