//! The calls of the `data` program for columns with copies.

use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinSet;
use wire::data::{Call, Reply, Run, Status};
use wire::data::{allocate, block, commit, copy, make, read, read_plus, remove, seek, stat, write};
use wire::handle::{Holder, ObjectHandle};

use super::{Caller, Chains, Change, Done, Source, Trouble};
use crate::data_program::{DataProgram, READ_BYTES_MAX};
use crate::disk::Place;
use crate::found::Found;
use crate::list::name;
use crate::object::ObjectStat;
use crate::objects::Objects;
use crate::ranges;

/// Objects of one call that are worked on at the same time: the columns of a file.
const OBJECTS_AT_A_TIME: usize = 16;

/// Reply to a call; an error if the call may still be carried out.
type Answered = Result<Reply, MayBeDone>;

/// It is unknown whether a call was or will be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MayBeDone;

impl DataProgram {
    /// Answers a call for columns with copies; returns any other call. A change takes its place in the queue
    /// of its lock at the first poll.
    pub(crate) async fn of_chains(&self, call: Call, caller: Caller) -> Result<Answered, Call> {
        match &call {
            Call::Make(make::Args { handles })
            | Call::Remove(remove::Args { handles, .. })
            | Call::Stat(stat::Args { handles, .. }) => {
                let found: Vec<_> = handles.iter().map(|handle| self.of_chain(handle)).collect();
                match found.iter().any(Option::is_some) {
                    true => Ok(Box::pin(self.of_several(call, found, caller)).await),
                    false => Err(call),
                }
            }
            _ => match handle_of(&call).and_then(|handle| self.of_chain(handle)) {
                // In a box: the calls for other columns need not have room for it.
                Some(found) => Ok(Box::pin(self.of_one(call, found, caller)).await),
                None => Err(call),
            },
        }
    }

    /// The object of a handle, if it has copies.
    fn of_chain(&self, handle: &Bytes) -> Option<Found> {
        // Looks before it opens the handle: the calls for other columns, which are many, open theirs once.
        if !ObjectHandle::seems_to_have_copies(handle) {
            return None;
        }
        self.find_of_any(handle).ok().filter(|found| found.handle.has_copies())
    }

    async fn of_one(&self, call: Call, found: Found, caller: Caller) -> Answered {
        // A call that a client or metaserver made, and not one that comes from another member.
        let is_first = found.handle.chain_version == 0 && found.holder == Holder::Server;
        match call {
            Call::Read(args) => {
                let count = args.count.min(READ_BYTES_MAX) as usize;
                let work = move |o: &Objects, object| o.read(object, args.offset, count);
                let cached = |o: &Objects, object| o.read_cached(object, args.offset, count);
                let read = self.read_of_chain(&found, args.offset, count as u64, caller, cached, work).await;
                // Those that another member relays are counted there.
                if let (Ok(read), Holder::Server) = (&read, found.holder) {
                    self.metrics.file_bytes_read.inc_by(read.data.len() as u64);
                }
                let result =
                    |read: crate::ReadOutcome| read::ResOk { payload: read.data.into(), eof: read.at_end };
                answer(read.map(result), Reply::Read)
            }
            Call::ReadPlus(args) => {
                let count = args.count.min(READ_BYTES_MAX) as usize;
                let work = move |o: &Objects, object| o.read_runs(object, args.offset, count);
                let runs =
                    self.read_of_chain(&found, args.offset, count as u64, caller, |_, _| None, work).await;
                let run = |run| match run {
                    ranges::Run::Data(data) => Run::Data(data.into()),
                    ranges::Run::Hole(len) => Run::Hole(len),
                };
                let result = |runs: Vec<_>| read_plus::ResOk { runs: runs.into_iter().map(run).collect() };
                answer(runs.map(result), Reply::ReadPlus)
            }
            Call::Seek(args) => {
                let work = move |o: &Objects, object| match args.what {
                    seek::What::Data => o.seek(object, Place::Data, args.offset),
                    seek::What::Hole => o.seek(object, Place::Hole, args.offset),
                    seek::What::End => o.length(object).map(Some),
                };
                let sought = self.read_of_chain(&found, 0, u64::MAX, caller, |_, _| None, work).await;
                answer(sought.map(|found| seek::ResOk { found }), Reply::Seek)
            }
            Call::Allocate(allocate::Args { offset, len, ask: true, .. }) => {
                let file_system = found.target.file_system();
                let work = move |o: &Objects, object| o.reserve(object, offset, len);
                let reserve = self.read_of_chain(&found, 0, 0, caller, |_, _| None, work).await;
                let result = |ranges::Reserve { needed, free }| allocate::ResOk {
                    needed,
                    free,
                    file_system,
                    verifier: [0; 8],
                };
                answer(reserve.map(result), Reply::Allocate)
            }
            Call::Copy(args) => {
                let done = match self.find_of_any(&args.source) {
                    Ok(source) => self.chains.copy(found, Source::Here(source), args, caller).await,
                    Err(Status::NotFound) => self.chains.copy(found, Source::There, args, caller).await,
                    Err(status) => Err(status.into()),
                };
                answer(done.map(|done| copy::ResOk { verifier: done.verifier }), Reply::Copy)
            }
            Call::Member(args) => {
                let Caller::Server(connection) = caller else { return Err(MayBeDone) };
                answer(self.chains.change_member(found, args.change, connection).await, Reply::Member)
            }
            Call::Mend(args) => answer(self.chains.mend_for_member(found, args).await, Reply::Mend),
            Call::Block(args) => {
                let block = self.chains.block_for_head(&found, args.block).await;
                let sealed =
                    |bytes: Bytes| block::ResOk { sum: crc32c::crc32c(&bytes), payload: bytes.into() };
                answer(block.map(sealed), Reply::Block)
            }
            Call::Write(write::Args { offset, stable, sums, data, .. }) => {
                let count = data.len() as u32;
                let change = Change::Write { offset, data, sums: sums.into(), stable };
                let done = self.change(found, change, caller).await;
                if done.is_ok() && is_first {
                    self.metrics.file_bytes_written.inc_by(u64::from(count));
                }
                let result = |done: Done| write::ResOk { count, verifier: done.verifier };
                answer(done.map(result), Reply::Write)
            }
            Call::Commit(_) => {
                let result = |done: Done| commit::ResOk { verifier: done.verifier };
                answer(self.change(found, Change::Commit, caller).await.map(result), Reply::Commit)
            }
            Call::Truncate(args) => {
                let change = Change::Truncate { len: args.len };
                answer(self.change(found, change, caller).await.map(drop), Reply::Truncate)
            }
            Call::Attach(args) => {
                let change = Change::Attach { base: name(&args.base) };
                answer(self.change(found, change, caller).await.map(drop), Reply::Attach)
            }
            Call::Punch(args) => {
                let change = Change::Punch { offset: args.offset, len: args.len };
                answer(self.change(found, change, caller).await.map(drop), Reply::Punch)
            }
            Call::Allocate(args) => {
                let file_system = found.target.file_system();
                let change = Change::Allocate { offset: args.offset, len: args.len };
                let result = |done: Done| {
                    let none = (ranges::Reserve { needed: 0, free: 0 }, file_system);
                    let (reserve, file_system) = done.reserve.unwrap_or(none);
                    let ranges::Reserve { needed, free } = reserve;
                    allocate::ResOk { needed, free, file_system, verifier: done.verifier }
                };
                answer(self.change(found, change, caller).await.map(result), Reply::Allocate)
            }
            // None of these names one object.
            Call::List(_) => Ok(Reply::List(Err(Status::Invalid))),
            Call::Usage(_) => Ok(Reply::Usage(Err(Status::Invalid))),
            Call::ChainRecords(_) => Ok(Reply::ChainRecords(Err(Status::Invalid))),
            Call::DirtyRegions(_) => Ok(Reply::DirtyRegions(Err(Status::Invalid))),
            Call::Status(_) => Ok(Reply::Status(Err(Status::Invalid))),
            Call::Chain(_) => Ok(Reply::Chain(Err(Status::Invalid))),
            Call::Make(_) => Ok(Reply::Make(Err(Status::Invalid))),
            Call::Remove(_) => Ok(Reply::Remove(Err(Status::Invalid))),
            Call::Stat(_) => Ok(Reply::Stat(Err(Status::Invalid))),
        }
    }

    async fn change(&self, found: Found, change: Change, caller: Caller) -> Result<Done, Trouble> {
        match found.holder {
            Holder::Reader => Err(Status::BadHandle.into()),
            Holder::Writer | Holder::Server => self.chains.change(found, change, caller).await,
        }
    }

    async fn read_of_chain<T: Send + 'static>(
        &self,
        found: &Found,
        offset: u64,
        len: u64,
        caller: Caller,
        at_once: impl Fn(&Objects, crate::ObjectRef) -> Option<T>,
        work: impl Fn(&Objects, crate::ObjectRef) -> Result<T, crate::ObjectError> + Clone + Send + 'static,
    ) -> Result<T, Trouble> {
        let object = found.object;
        let range = offset..offset.saturating_add(len);
        let at_once = |o: &Objects| at_once(o, object);
        let read = self.chains.read(found, range, caller, at_once, move |o| work(o, object)).await;
        // A member that is refilled may lack it rightly: the head asks.
        let is_lost = read.as_ref().is_err_and(|trouble| *trouble == Trouble::Refused(Status::ObjectLost));
        if is_lost && found.handle.chain_version == 0 {
            self.note_lost(&found.target, &object.name);
        }
        read
    }

    /// Answers a call for several objects, of which `found` has those with copies.
    async fn of_several(&self, call: Call, found: Vec<Option<Found>>, caller: Caller) -> Answered {
        match call {
            Call::Make(make::Args { handles }) => {
                if let Err(status) = self.make(make::Args { handles: alone(handles, &found) }).await {
                    return Ok(Reply::Make(Err(status)));
                }
                let work = move |found, chains: Arc<Chains>| async move {
                    chains.change(found, Change::Make, caller).await.map(drop)
                };
                answer(each(&self.chains, found, work).await.map(drop), Reply::Make)
            }
            Call::Remove(remove::Args { handles, .. }) => {
                if let Err(status) = self
                    .remove(remove::Args { handles: alone(handles, &found), only: remove::Only::All })
                    .await
                {
                    return Ok(Reply::Remove(Err(status)));
                }
                let work = move |found, chains: Arc<Chains>| async move {
                    chains.change(found, Change::Remove, caller).await.map(drop)
                };
                answer(each(&self.chains, found, work).await.map(drop), Reply::Remove)
            }
            Call::Stat(stat::Args { handles, sync }) => {
                let count = handles.len();
                let have_copies: Vec<bool> = found.iter().map(Option::is_some).collect();
                let mut of_one_target =
                    match self.stat(stat::Args { handles: alone(handles, &found), sync }).await {
                        Ok(found) => found.objects.into_iter(),
                        Err(status) => return Ok(Reply::Stat(Err(status))),
                    };
                let work = move |found: Found, chains: Arc<Chains>| async move {
                    chains.stat(&found, sync, caller).await
                };
                let mut of_chains = match each(&self.chains, found, work).await {
                    Ok(found) => found.into_iter(),
                    Err(trouble) => return answer(Err(trouble), Reply::Stat),
                };
                let mut objects = Vec::with_capacity(count);
                for has_copies in have_copies {
                    objects.push(match has_copies {
                        true => of_chains.next().flatten().map(|found: ObjectStat| found.into()),
                        false => of_one_target.next().flatten(),
                    });
                }
                Ok(Reply::Stat(Ok(stat::ResOk { objects })))
            }
            other => {
                tracing::error!(
                    procedure = other.procedure().name(),
                    "a call for several objects is not known"
                );
                Err(MayBeDone)
            }
        }
    }
}

/// Does `work` for each of the objects with copies, some at a time. Returns the results in their order. One
/// object is begun at once, in the order of the connection's calls; several never come from another member.
async fn each<T, F>(
    chains: &Arc<Chains>,
    found: Vec<Option<Found>>,
    work: impl Fn(Found, Arc<Chains>) -> F,
) -> Result<Vec<T>, Trouble>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Trouble>> + Send + 'static,
{
    let mut found: Vec<Found> = found.into_iter().flatten().collect();
    if found.len() == 1
        && let Some(one) = found.pop()
    {
        return Ok(vec![work(one, Arc::clone(chains)).await?]);
    }
    let count = found.len();
    let (mut all, mut done) = (JoinSet::new(), Vec::with_capacity(count));
    for (at, one) in found.into_iter().enumerate() {
        if all.len() >= OBJECTS_AT_A_TIME {
            done.extend(all.join_next().await);
        }
        let work = work(one, Arc::clone(chains));
        all.spawn(async move { (at, work.await) });
    }
    while let Some(one) = all.join_next().await {
        done.push(one);
    }
    let mut results = Vec::with_capacity(count);
    for one in done {
        let (at, result) = one.map_err(|_| Trouble::Unknown)?;
        results.push((at, result?));
    }
    results.sort_by_key(|(at, _)| *at);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

/// The handles of objects without copies.
fn alone(handles: Vec<Bytes>, found: &[Option<Found>]) -> Vec<Bytes> {
    let of_one_target = handles.into_iter().zip(found).filter(|(_, found)| found.is_none());
    of_one_target.map(|(handle, _)| handle).collect()
}

fn answer<T>(result: Result<T, Trouble>, reply: impl FnOnce(Result<T, Status>) -> Reply) -> Answered {
    match result {
        Ok(done) => Ok(reply(Ok(done))),
        Err(Trouble::Refused(status)) => Ok(reply(Err(status))),
        Err(Trouble::Unknown) => Err(MayBeDone),
    }
}

/// The handle of the object that a call changes or reads; none: the call names several, or none.
fn handle_of(call: &Call) -> Option<&Bytes> {
    match call {
        Call::Read(args) | Call::ReadPlus(args) => Some(&args.handle),
        Call::Write(args) => Some(&args.handle),
        Call::Commit(args) => Some(&args.handle),
        Call::Truncate(args) => Some(&args.handle),
        Call::Seek(args) => Some(&args.handle),
        Call::Allocate(args) => Some(&args.handle),
        Call::Punch(args) => Some(&args.handle),
        Call::Copy(args) => Some(&args.handle),
        Call::Attach(args) => Some(&args.handle),
        Call::Member(args) => Some(&args.handle),
        Call::Mend(args) => Some(&args.handle),
        Call::Block(args) => Some(&args.handle),
        Call::Make(_) | Call::Remove(_) | Call::Stat(_) => None,
        Call::List(_) | Call::Usage(_) | Call::Status(_) | Call::Chain(_) => None,
        Call::ChainRecords(_) | Call::DirtyRegions(_) => None,
    }
}
