//! Data servers without data, which answer as a story wants; one that says how long its objects are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use host::{SeededEntropy, watch};
use nfs::{Answer, Authenticated, Call, Limits, PeerAuth, PrivateProgram, Programs, Server, encoded};
use parking_lot::Mutex;
use wire::data::{self, ObjectStat, Reply, stat};
use wire::handle::{HandleKey, ObjectHandle};
use wire::rpc::Rejection;

use crate::world::peer_key;

/// Answers of a fake data server.
pub trait Answers: Send + Sync + 'static {
    /// The answer to a call other than MAKE; none: there is no such procedure.
    fn answer(&self, call: data::Call) -> impl Future<Output = Option<Reply>> + Send;
}

struct Program<A> {
    peer_auth: PeerAuth,
    answers: Arc<A>,
}

impl<A: Answers> PrivateProgram for Program<A> {
    fn number(&self) -> u32 {
        data::PROGRAM
    }

    fn version(&self) -> u32 {
        data::VERSION
    }

    fn peer_auth(&self) -> &PeerAuth {
        &self.peer_auth
    }

    fn call_of_peer(self: Arc<Self>, mut call: Call) -> Answer {
        Box::pin(async move {
            let reply = match data::Call::of_number(call.header.procedure, &mut call.arguments)? {
                data::Call::Make(_) => Some(Reply::Make(Ok(()))),
                call => self.answers.answer(call).await,
            };
            reply.map(|reply| encoded(&reply)).ok_or(Rejection::ProcedureUnavailable)
        })
    }
}

/// Serves a fake data server at an address of its own.
pub async fn serve<A: Answers>(answers: &Arc<A>) -> Server {
    let peer_auth = PeerAuth::new(peer_key(), Arc::new(SeededEntropy::new(5)));
    let program = Arc::new(Program { peer_auth, answers: Arc::clone(answers) });
    let programs = Programs::new(vec![Arc::new(Authenticated(program)) as Arc<dyn nfs::Program>]);
    let server = Server::start(([127, 0, 0, 1], 0).into(), programs, Limits::default(), Arc::default()).await;
    server.expect("it listens")
}

/// The data server, for as long as a story keeps it.
pub struct FakeData {
    objects: Arc<Objects>,
    server: Server,
}

struct Objects {
    /// By inode; all files have one column. None: the object is lost.
    stats: Mutex<BTreeMap<u64, Option<ObjectStat>>>,
    asked: AtomicUsize,
    synced: AtomicUsize,
    writes: AtomicUsize,
    answers: watch::Sender<bool>,
    /// Whether its disk has failed.
    failed: AtomicBool,
}

impl FakeData {
    pub async fn start() -> Self {
        let objects = Arc::new(Objects {
            stats: Mutex::default(),
            asked: 0.into(),
            synced: 0.into(),
            writes: 0.into(),
            answers: watch::Sender::new(true),
            failed: false.into(),
        });
        let server = serve(&objects).await;
        Self { objects, server }
    }

    pub fn address(&self) -> String {
        self.server.address().to_string()
    }

    /// A client has written through a layout: the object is so long, and was written at that time.
    pub fn wrote(&self, inode: u64, len: u64, modified_ns: u64) {
        self.objects.stats.lock().insert(inode, Some(ObjectStat { len, modified_ns, space_used: len }));
    }

    /// The object is gone.
    pub fn lose(&self, inode: u64) {
        self.objects.stats.lock().insert(inode, None);
    }

    /// Whether it answers; else whoever asks waits.
    pub fn answer(&self, answers: bool) {
        self.objects.answers.set(answers);
    }

    /// Whether the target's disk has failed.
    pub fn fail(&self, failed: bool) {
        self.objects.failed.store(failed, Ordering::Relaxed);
    }

    /// Calls of STAT without and with sync.
    pub fn asked(&self) -> (usize, usize) {
        (self.objects.asked.load(Ordering::Relaxed), self.objects.synced.load(Ordering::Relaxed))
    }
}

impl FakeData {
    /// Calls of WRITE, which fail.
    pub fn writes(&self) -> usize {
        self.objects.writes.load(Ordering::Relaxed)
    }
}

impl Objects {
    async fn stat(&self, args: stat::Args) -> stat::Res {
        let counter = if args.sync { &self.synced } else { &self.asked };
        counter.fetch_add(1, Ordering::Relaxed);
        let _ = self.answers.subscribe().wait_for(|answers| *answers).await;
        if self.failed.load(Ordering::Relaxed) {
            return Err(data::Status::Io);
        }
        let stats = self.stats.lock();
        let of = |handle: &Bytes| {
            let object = ObjectHandle::open(handle, &HandleKey::new([9; 32])).expect("a metaserver's");
            match stats.get(&object.file.inode) {
                Some(found) => *found,
                None => Some(ObjectStat::default()),
            }
        };
        Ok(stat::ResOk { objects: args.handles.iter().map(of).collect() })
    }
}

impl Answers for Objects {
    async fn answer(&self, call: data::Call) -> Option<Reply> {
        match call {
            data::Call::Stat(args) => Some(Reply::Stat(self.stat(args).await)),
            data::Call::Write(_) => {
                self.writes.fetch_add(1, Ordering::Relaxed);
                None
            }
            _ => None,
        }
    }
}
