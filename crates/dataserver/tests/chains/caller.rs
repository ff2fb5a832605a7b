//! A caller as a metaserver is: it sends a call to any member, and repeats it elsewhere until it is done.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use host::{Entropy, SeededEntropy};
use nfs::{CallFailure, Peer};
use parking_lot::Mutex;
use wire::data::{Procedure, Status};
use wire::handle::{FileHandle, ObjectHandle};
use wire::xdr::{Decode, Encode};

use crate::{CHAIN, INCARNATION, key, peer};

/// Addresses and targets of the members that can be called now.
pub type Members = Arc<Mutex<Vec<(SocketAddr, u64)>>>;

/// Time limit of one call, and of one that is repeated.
const CALL_TIME_MAX: Duration = Duration::from_secs(10);
const TIME_MAX: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(20);

/// Object handle with the epoch at this target.
pub fn handle(target: u64, inode: u64, epoch: u32) -> ObjectHandle {
    ObjectHandle {
        file: FileHandle { volume: 1, inode, generation: 1 },
        column: 0,
        target,
        unit: 64 << 10,
        columns: 1,
        incarnation: INCARNATION.id,
        epoch,
        layout_epoch: 0,
        chain: CHAIN,
        chain_version: 0,
    }
}

/// The member that is called.
pub struct Called {
    pub address: SocketAddr,
    target: u64,
}

impl Called {
    /// Its handle of an object with this epoch.
    pub fn handle(&self, (inode, epoch): (u64, u32)) -> Bytes {
        handle(self.target, inode, epoch).seal(&key())
    }
}

/// Result of a call that was repeated.
pub struct Done<T> {
    pub result: Result<T, Status>,
    /// Tries without an answer: they may be carried out later.
    pub unanswered: u32,
}

pub struct Caller {
    members: Members,
    entropy: SeededEntropy,
    peers: Vec<(SocketAddr, Arc<Peer>)>,
}

impl Caller {
    pub fn new(members: &Members, seed: u64) -> Self {
        Self { members: Arc::clone(members), entropy: SeededEntropy::new(seed), peers: Vec::new() }
    }

    /// Random number below `n`.
    pub fn below(&self, n: u64) -> u64 {
        self.entropy.u64() % n
    }

    fn some_member(&mut self) -> Option<(Arc<Peer>, Called)> {
        let members = self.members.lock().clone();
        let (address, target) = *members.get(self.below(members.len().max(1) as u64) as usize)?;
        if !self.peers.iter().any(|(known, _)| *known == address) {
            self.peers.push((address, peer(address)));
        }
        self.peers
            .iter()
            .find(|(known, _)| *known == address)
            .map(|(_, peer)| (Arc::clone(peer), Called { address, target }))
    }

    /// Calls any member with the arguments for its handle of the object, until one has done it.
    ///
    /// # Panics
    /// If none does.
    pub async fn call<T, A: Encode + Sync>(
        &mut self,
        object: (u64, u32),
        procedure: Procedure,
        args: impl Fn(Bytes) -> A,
    ) -> T
    where
        Result<T, Status>: Decode,
    {
        let done = self.repeat(object, procedure, |member| args(member.handle(object)), |_| false).await;
        done.result.expect("a refused call is repeated")
    }

    /// The same, with a refusal that is final: the object is gone, or has a later epoch.
    pub async fn try_call<T, A: Encode + Sync>(
        &mut self,
        object: (u64, u32),
        procedure: Procedure,
        args: impl Fn(Bytes) -> A,
    ) -> Done<T>
    where
        Result<T, Status>: Decode,
    {
        let is_final = |status| matches!(status, Status::Stale | Status::StaleEpoch);
        self.repeat(object, procedure, |member| args(member.handle(object)), is_final).await
    }

    /// Calls any member with the arguments for it, until one has done it or refuses it for good.
    ///
    /// # Panics
    /// If none does.
    pub async fn repeat<T, A: Encode + Sync>(
        &mut self,
        (inode, epoch): (u64, u32),
        procedure: Procedure,
        args: impl Fn(&Called) -> A,
        is_final: impl Fn(Status) -> bool,
    ) -> Done<T>
    where
        Result<T, Status>: Decode,
    {
        let (began, mut why, mut unanswered) = (Instant::now(), String::from("no member"), 0);
        while began.elapsed() < TIME_MAX {
            if let Some((peer, member)) = self.some_member() {
                match peer.call::<Result<T, Status>>(procedure as u32, &args(&member), CALL_TIME_MAX).await {
                    Ok(Err(status)) if !is_final(status) => why = format!("{status:?}"),
                    Ok(result) => return Done { result, unanswered },
                    Err(error) => {
                        unanswered += u32::from(!matches!(error, CallFailure::Connect(_)));
                        why = error.to_string();
                    }
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        panic!("{procedure:?} of object {inode}, epoch {epoch}: {why}");
    }
}
