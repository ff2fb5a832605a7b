//! The private `data` program: metaservers read and write for clients without pNFS, and care for objects.

mod copies;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use host::Repeated;
use nfs::{Answer, Metrics, OperationLabels, PeerAuth, PrivateProgram, encoded};
use tokio::time::Instant;
use wire::data::{self, Call, Reply, Run, Status};
use wire::data::{allocate, chain, commit, list, make, punch, read, read_plus, remove, seek, status};
use wire::data::{stat, truncate, usage, write};
use wire::handle::Holder;
use wire::rpc::Rejection;

use crate::chain::{Caller, Chains};
use crate::checksums::BLOCK_BYTES;
use crate::disk::Place;
use crate::epoch::{Epoch, Mark, ObjectRef};
use crate::found::{BadHandle, Found};
use crate::object::{ObjectName, ObjectStat};
use crate::objects::{ObjectError, Objects};
use crate::ranges;
use crate::target::Target;
use crate::targets::Targets;

/// Upper limit of the bytes of one READ, so that it fits a record: see [`nfs::Limits`].
pub(crate) const READ_BYTES_MAX: u32 = 1 << 20;

/// Objects that are on one target.
type ObjectsOfTarget = (Arc<Target>, Vec<ObjectRef>);

/// The program.
pub(crate) struct DataProgram {
    targets: Arc<Targets>,
    peer_auth: PeerAuth,
    pub(crate) chains: Arc<Chains>,
    pub(crate) metrics: Arc<Metrics>,
    /// Requests for lost objects.
    lost_objects: Repeated,
}

impl PrivateProgram for DataProgram {
    fn number(&self) -> u32 {
        data::PROGRAM
    }

    fn version(&self) -> u32 {
        data::VERSION
    }

    fn peer_auth(&self) -> &PeerAuth {
        &self.peer_auth
    }

    fn call_of_peer(self: Arc<Self>, mut call: nfs::Call) -> Answer {
        Box::pin(async move {
            let arguments = Call::of_number(call.header.procedure, &mut call.arguments)?;
            let procedure = arguments.procedure();
            let start = Instant::now();
            let payload = payload_bytes(&arguments);
            // Members of chains forward changes in an order: nothing may wait before they have their places.
            if payload > 0 {
                call.room.take(payload).await.map_err(|_| Rejection::SystemError)?;
            }
            let reply = match self.of_chains(arguments, Caller::Server(call.connection.id())).await {
                Ok(reply) => reply.map_err(|_| Rejection::SystemError)?,
                Err(arguments) => self.answer(arguments).await,
            };
            let labels = OperationLabels { protocol: "data", operation: procedure.name() };
            self.metrics.operation(labels, start.elapsed(), failed(&reply));
            Ok(encoded(&reply))
        })
    }
}

impl DataProgram {
    pub(crate) fn new(targets: Arc<Targets>, peer_auth: PeerAuth, chains: Arc<Chains>) -> Self {
        Self { targets, peer_auth, chains, metrics: Arc::default(), lost_objects: Repeated::new() }
    }

    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    async fn answer(&self, call: Call) -> Reply {
        match call {
            Call::Read(args) => Reply::Read(self.read(args).await),
            Call::Write(args) => Reply::Write(self.write(args).await),
            Call::Commit(args) => Reply::Commit(self.commit(args).await),
            Call::Truncate(args) => Reply::Truncate(self.truncate(args).await),
            Call::Remove(args) => Reply::Remove(self.remove(args).await),
            Call::List(args) => Reply::List(self.list(args).await),
            Call::Usage(args) => Reply::Usage(self.usage(args).await),
            Call::Status(_) => Reply::Status(self.status().await),
            Call::Seek(args) => Reply::Seek(self.seek(args).await),
            Call::Allocate(args) => Reply::Allocate(self.allocate(args).await),
            Call::Punch(args) => Reply::Punch(self.punch(args).await),
            Call::Copy(args) => Reply::Copy(self.copy(args).await),
            Call::Attach(args) => Reply::Attach(self.attach(args).await),
            Call::ReadPlus(args) => Reply::ReadPlus(self.read_plus(args).await),
            Call::Make(args) => Reply::Make(self.make(args).await),
            Call::Stat(args) => Reply::Stat(self.stat(args).await),
            Call::ChainRecords(args) => Reply::ChainRecords(match self.targets.get(args.target) {
                Some(target) => target.chain_records().page(args.after),
                None => Err(Status::NotFound),
            }),
            Call::DirtyRegions(args) => Reply::DirtyRegions(match self.targets.get(args.target) {
                Some(target) => self.chains.dirty_regions(&target, &args).await,
                None => Err(Status::NotFound),
            }),
            Call::Chain(args) => {
                self.targets.note_chains(&args.chains, false);
                self.targets.note_losses(&self.chains.table.tell(&args.chains));
                let serves =
                    |stop: &&chain::Stop| !self.chains.table.stop(stop.chain, stop.version, stop.target);
                let still_serve = args.stop.iter().filter(serves).count();
                Reply::Chain(if still_serve == 0 { Ok(()) } else { Err(Status::ChainWaits) })
            }
            // Of a column without copies.
            Call::Member(_) => Reply::Member(Err(Status::Invalid)),
            Call::Mend(_) => Reply::Mend(Err(Status::Invalid)),
            Call::Block(_) => Reply::Block(Err(Status::Invalid)),
        }
    }

    async fn read(&self, args: read::Args) -> read::Res {
        let Found { target, object, .. } = self.find(&args.handle)?;
        let count = args.count.min(READ_BYTES_MAX) as usize;
        let found = target
            .run_unless(
                |o| o.read_cached(object, args.offset, count),
                move |o| o.read(object, args.offset, count),
            )
            .await
            .map_err(|e| self.refusal(&target, &object.name, e))?;
        self.metrics.file_bytes_read.inc_by(found.data.len() as u64);
        Ok(read::ResOk { payload: found.data.into(), eof: found.at_end })
    }

    async fn write(&self, args: write::Args) -> write::Res {
        let Found { target, object, .. } = self.find(&args.handle)?;
        let write::Args { offset, stable, data, .. } = args;
        let count = data.len();
        let written = target.run(move |o| match stable {
            true => o.write_through(object, offset, &data),
            false => o.write(object, offset, &data),
        });
        let verifier = written.await.map_err(|e| self.refusal(&target, &object.name, e))?;
        self.metrics.file_bytes_written.inc_by(count as u64);
        // The payload of one record is shorter than 4 GiB.
        Ok(write::ResOk { count: count as u32, verifier })
    }

    async fn commit(&self, args: commit::Args) -> commit::Res {
        let Found { target, object, .. } = self.find(&args.handle)?;
        target.run(move |o| o.commit(object)).await.map_err(|e| self.refusal(&target, &object.name, e))?;
        Ok(commit::ResOk { verifier: target.objects().verifier() })
    }

    async fn truncate(&self, args: truncate::Args) -> truncate::Res {
        let Found { target, object, .. } = self.find(&args.handle)?;
        target
            .run(move |o| o.truncate(object, args.len))
            .await
            .map_err(|e| self.refusal(&target, &object.name, e))
    }

    pub(crate) async fn remove(&self, args: remove::Args) -> remove::Res {
        for (target, objects) in self.by_target(&args.handles)? {
            let (chains, only, of) = (Arc::clone(&self.chains), args.only, Arc::clone(&target));
            let removed = target.run(move |o| {
                let mut is_waiting = false;
                match only {
                    remove::Only::All => o.remove(&objects.iter().map(|o| o.name).collect::<Vec<_>>()),
                    _ => o.remove_meant(&objects, |mark, epoch| {
                        let meant = meant(&chains, &of, mark, epoch, only);
                        is_waiting |= meant == Meant::NotYet;
                        meant == Meant::Yes
                    }),
                }
                .map(|()| is_waiting)
            });
            if removed.await.map_err(refusal)? && only == remove::Only::LeftChain {
                return Err(Status::ChainWaits);
            }
        }
        Ok(())
    }

    pub(crate) async fn make(&self, args: make::Args) -> make::Res {
        for (target, objects) in self.by_target(&args.handles)? {
            target.run(move |o| o.make_of_calls(&objects)).await.map_err(refusal)?;
        }
        Ok(())
    }

    /// The objects of each target. All handles are looked at before anything is done.
    fn by_target(&self, handles: &[Bytes]) -> Result<Vec<ObjectsOfTarget>, Status> {
        let mut by_target = BTreeMap::new();
        for handle in handles {
            let Found { target, object, .. } = self.find(handle)?;
            by_target.entry(target.id()).or_insert_with(|| (target, Vec::new())).1.push(object);
        }
        Ok(by_target.into_values().collect())
    }

    async fn list(&self, args: list::Args) -> list::Res {
        let target = self.targets.get(args.target).ok_or(Status::NotFound)?;
        let page = match args.chain {
            0 => target.run(move |o| o.list(args.after, args.max)).await,
            _ => self.chains.list_of_chain(&target, args).await,
        };
        page.map_err(refusal)
    }

    async fn usage(&self, args: usage::Args) -> usage::Res {
        let target = self.targets.get(args.target).ok_or(Status::NotFound)?;
        target.run(move |o| o.usage(args.after)).await.map_err(refusal)
    }

    async fn status(&self) -> status::Res {
        let targets = Arc::clone(&self.targets);
        let chains = Arc::clone(&self.chains);
        let look = move || {
            let space = targets.space();
            chains.leave_by_condition(&targets, &space);
            space
        };
        let space = self.targets.blocking().run(look).await.map_err(|_| Status::Io)?;
        Ok(status::ResOk { targets: space })
    }

    async fn seek(&self, args: seek::Args) -> seek::Res {
        let Found { target, object, .. } = self.find(&args.handle)?;
        let found = target.run(move |o| match args.what {
            seek::What::Data => o.seek(object, Place::Data, args.offset),
            seek::What::Hole => o.seek(object, Place::Hole, args.offset),
            seek::What::End => o.length(object).map(Some),
        });
        Ok(seek::ResOk { found: found.await.map_err(|e| self.refusal(&target, &object.name, e))? })
    }

    async fn allocate(&self, args: allocate::Args) -> allocate::Res {
        let Found { target, object, .. } = self.find(&args.handle)?;
        let allocate::Args { offset, len, ask, .. } = args;
        let work = target
            .run(move |o| if ask { o.reserve(object, offset, len) } else { o.allocate(object, offset, len) });
        let ranges::Reserve { needed, free } =
            work.await.map_err(|e| self.refusal(&target, &object.name, e))?;
        let verifier = target.objects().verifier();
        Ok(allocate::ResOk { needed, free, file_system: target.file_system(), verifier })
    }

    async fn punch(&self, args: punch::Args) -> punch::Res {
        let Found { target, object, .. } = self.find(&args.handle)?;
        target
            .run(move |o| o.punch(object, args.offset, args.len))
            .await
            .map_err(|e| self.refusal(&target, &object.name, e))
    }

    async fn read_plus(&self, args: read::Args) -> read_plus::Res {
        let Found { target, object, .. } = self.find(&args.handle)?;
        let count = args.count.min(READ_BYTES_MAX) as usize;
        let runs = target
            .run(move |o| o.read_runs(object, args.offset, count))
            .await
            .map_err(|e| self.refusal(&target, &object.name, e))?;
        let run = |run| match run {
            ranges::Run::Data(data) => {
                self.metrics.file_bytes_read.inc_by(data.len() as u64);
                Run::Data(data.into())
            }
            ranges::Run::Hole(len) => Run::Hole(len),
        };
        Ok(read_plus::ResOk { runs: runs.into_iter().map(run).collect() })
    }

    pub(crate) async fn stat(&self, args: stat::Args) -> stat::Res {
        let mut objects = vec![None; args.handles.len()];
        let mut by_target = BTreeMap::new();
        for (at, handle) in args.handles.iter().enumerate() {
            let Found { target, object, .. } = self.find(handle)?;
            let (_, wanted) = by_target.entry(target.id()).or_insert_with(|| (target, Vec::new()));
            wanted.push((at, object));
        }
        for (target, wanted) in by_target.into_values() {
            let look = move |o: &Objects| {
                let one = |(at, object): (usize, ObjectRef)| match o.stat(object, args.sync) {
                    // The other objects are told: the metaserver decides what their file is then.
                    Err(why @ (ObjectError::Lost | ObjectError::Stale)) => Ok((at, object, Err(why))),
                    found => Ok((at, object, Ok(found?))),
                };
                wanted.into_iter().map(one).collect()
            };
            let found: Vec<(usize, ObjectRef, Result<ObjectStat, ObjectError>)> =
                target.run(look).await.map_err(refusal)?;
            for (at, object, found) in found {
                match found {
                    Ok(found) => objects[at] = Some(found.into()),
                    Err(why) => {
                        self.refusal(&target, &object.name, why); // logged
                    }
                }
            }
        }
        Ok(stat::ResOk { objects })
    }

    /// The answer to an error. A lost object is logged here, where a metaserver asks for it: its file exists.
    /// (A client may come with the handle of a file that was removed long ago.)
    fn refusal(&self, target: &Target, name: &ObjectName, error: ObjectError) -> Status {
        if error == ObjectError::Lost {
            self.note_lost(target, name);
        }
        refusal(error)
    }

    /// Logs a lost object: the first, and each time that their number has doubled.
    pub(crate) fn note_lost(&self, target: &Target, name: &ObjectName) {
        target.objects().lost_object_calls.fetch_add(1, Ordering::Relaxed);
        if let Some(count) = self.lost_objects.count() {
            tracing::error!(
                target = %target.path().display(), object = %name, count,
                "an object is missing from the storage target: reads and writes of its file fail. Was something removed \
                     below this directory? Bring it back from a copy, or restore the file from a backup"
            );
        }
    }

    fn find(&self, handle: &Bytes) -> Result<Found, Status> {
        let found = self.find_of_any(handle)?;
        if found.holder == Holder::Server { Ok(found) } else { Err(Status::BadHandle) }
    }

    /// The object of a handle of any holder: members of a chain send the handles of clients.
    pub(crate) fn find_of_any(&self, handle: &Bytes) -> Result<Found, Status> {
        self.targets.find(handle).map_err(|e| match e {
            BadHandle::Forged => Status::BadHandle,
            BadHandle::Elsewhere => Status::NotFound,
            BadHandle::OtherIncarnation => Status::OtherIncarnation,
            // The target may come back: its files wait, as when the whole data server is away.
            BadHandle::Absent => Status::Delay,
        })
    }
}

/// Upper limit of the reply's payload.
fn payload_bytes(call: &Call) -> usize {
    let asked = match call {
        Call::Read(args) => args.count,
        Call::ReadPlus(args) => args.count,
        Call::Block(_) => BLOCK_BYTES as u32,
        _ => 0,
    };
    asked.min(READ_BYTES_MAX) as usize
}

pub(crate) fn refusal(error: ObjectError) -> Status {
    match error {
        ObjectError::NoSpace => Status::NoSpace,
        ObjectError::Io => Status::Io,
        ObjectError::Stale => Status::Stale,
        ObjectError::StaleEpoch => Status::StaleEpoch,
        ObjectError::Lost => Status::ObjectLost,
        ObjectError::Damaged => Status::Damaged,
        ObjectError::TargetLost => Status::TargetLost,
        ObjectError::TooLarge => Status::Invalid,
        ObjectError::ReadOnly => Status::ReadOnly,
        ObjectError::Busy => Status::Delay,
        ObjectError::NotSupported => Status::NotSupported,
    }
}

/// Whether an object is meant by a removal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meant {
    Yes,
    No,
    /// The target is a member of its chain, or was not told yet that it is none.
    NotYet,
}

/// Whether a removal of `only` what a target has left behind means an object with this mark; the call has this epoch.
fn meant(chains: &Chains, target: &Target, mark: Mark, epoch: Epoch, only: remove::Only) -> Meant {
    let has_left =
        |chain| chains.table.is_no_member(chain, target.id()) && target.chain_records().says_loss(chain);
    match mark.chain {
        0 if only == remove::Only::LeftBehind && mark.is_before(epoch) => Meant::Yes,
        0 => Meant::No,
        chain if has_left(chain) => Meant::Yes,
        _ => Meant::NotYet,
    }
}

fn failed(reply: &Reply) -> bool {
    match reply {
        Reply::Read(res) => res.is_err(),
        Reply::Write(res) => res.is_err(),
        Reply::Commit(res) => res.is_err(),
        Reply::Truncate(res) => res.is_err(),
        Reply::Remove(res) => res.is_err(),
        Reply::List(res) => res.is_err(),
        Reply::Status(res) => res.is_err(),
        Reply::Seek(res) => res.is_err(),
        Reply::Allocate(res) => res.is_err(),
        Reply::Punch(res) => res.is_err(),
        Reply::Copy(res) => res.is_err(),
        Reply::Attach(res) => res.is_err(),
        Reply::ReadPlus(res) => res.is_err(),
        Reply::Make(res) => res.is_err(),
        Reply::Stat(res) => res.is_err(),
        Reply::Chain(res) => res.is_err(),
        Reply::Member(res) => res.is_err(),
        Reply::Mend(res) => res.is_err(),
        Reply::Block(res) => res.is_err(),
        Reply::Usage(res) => res.is_err(),
        Reply::ChainRecords(res) => res.is_err(),
        Reply::DirtyRegions(res) => res.is_err(),
    }
}
