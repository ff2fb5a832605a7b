//! Reply cache for protocols without sessions (duplicate request cache: RFC 1813, section 4.5): a client that
//! lost its connection retries the call over a new one, and a REMOVE that is executed twice answers NOENT the
//! second time.
//!
//! The key of a call ([`CallId`]) is the client's address and port, xid, procedure, and a checksum of
//! credential and arguments. Clients that retry (Linux does) connect from the same port again, also to
//! another server that took over the address. A call from another port is of another mount, user or machine
//! behind the same address, which has its own xids and must not get this client's replies. The cache is in
//! memory only: it serves a retry during the first call, and keeps replies the same to the byte. The
//! replicated cache, which survives the server, belongs to the program and uses the same [`CallId`].

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use host::watch;
use parking_lot::Mutex;
use tokio::time::Instant;
use wire::xdr::{Encode, Encoder, Message};

use crate::Call;

/// Maximal number of replies, of about 200 bytes with a buffer of 512 under each: ten megabytes. This is one
/// second of changes on a busy server, longer than a reconnect takes on a network that works.
const REPLIES_MAX: usize = 16_384;
/// Maximal age of a reply: twice Linux's `timeo` of 60 s; no client retries later.
const AGE_MAX: Duration = Duration::from_secs(120);

/// Key of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallId {
    /// Address and port of the client.
    pub client: SocketAddr,
    /// Transaction id (xid) of the call.
    pub xid: u32,
    /// Procedure of the call.
    pub procedure: u32,
    /// Checksum of credential and arguments. Two calls of one client with the same checksum by accident would
    /// also need the same xid, within two minutes.
    pub checksum: u64,
}

impl CallId {
    /// Key of a call whose arguments have not been decoded yet.
    #[must_use]
    pub fn of(call: &Call) -> Self {
        // BLAKE3: the same checksum in every server and version.
        let mut sum = blake3::Hasher::new();
        let mut credential = Encoder::new();
        call.header.credential.encode(&mut credential);
        sum.update(&credential.finish().into_bytes());
        sum.update(&call.arguments.rest());
        let sum = sum.finalize();
        let checksum = sum.as_bytes().first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
        let client = call.connection.peer();
        Self { client, xid: call.header.xid, procedure: call.header.procedure, checksum }
    }
}

/// Policy for keeping the reply for retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Keep the reply.
    Reply,
    /// Keep nothing: the call was not executed; a retry may be.
    Nothing,
}

type Kept = Option<Message>;

#[derive(Default)]
struct Known {
    replies: HashMap<CallId, watch::Receiver<Kept>>,
    /// Calls, oldest first. A call that was given up stays here without a reply.
    order: VecDeque<(Instant, CallId)>,
}

/// Reply cache of one server.
#[derive(Default)]
pub struct ReplyCache {
    known: Mutex<Known>,
}

impl ReplyCache {
    /// Executes `work` once for this call. A retry gets the same reply, and waits for it while the first is
    /// in flight.
    pub async fn once(&self, call: CallId, work: impl Future<Output = (Message, Keep)>) -> Message {
        loop {
            let (first, mut reply) = self.enter(call, Instant::now());
            let Some(first) = first else {
                let known = reply.wait_for(Option::is_some).await.ok().and_then(|known| known.clone());
                match known {
                    Some(reply) => return reply,
                    // The first call was given up, or its reply was not kept.
                    None => continue,
                }
            };
            let entry = Entry { cache: self, call, kept: false };
            let (reply, keep) = work.await;
            if keep == Keep::Reply {
                first.set(Some(reply.clone()));
                entry.keep();
            }
            return reply;
        }
    }

    /// Sender for the first call, none for a retry; and the receiver of the reply.
    fn enter(&self, call: CallId, now: Instant) -> (Option<watch::Sender<Kept>>, watch::Receiver<Kept>) {
        let (sender, receiver) = watch::channel(None);
        let mut known = self.known.lock();
        let old = |at: &Instant| now.saturating_duration_since(*at) > AGE_MAX;
        while known.order.front().is_some_and(|(at, _)| old(at)) || known.order.len() >= REPLIES_MAX {
            if let Some((_, gone)) = known.order.pop_front() {
                known.replies.remove(&gone);
            }
        }
        if let Some(reply) = known.replies.get(&call) {
            return (None, reply.clone());
        }
        known.replies.insert(call, receiver.clone());
        known.order.push_back((now, call));
        (Some(sender), receiver)
    }

    fn give_up(&self, call: CallId) {
        self.known.lock().replies.remove(&call);
    }
}

/// Guard of an entry: removes the entry if its work does not finish.
struct Entry<'a> {
    cache: &'a ReplyCache,
    call: CallId,
    kept: bool,
}

impl Entry<'_> {
    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.cache.give_up(self.call);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn call(xid: u32) -> CallId {
        CallId { client: ([10, 0, 0, 1], 700).into(), xid, procedure: 12, checksum: 5 }
    }

    fn message(number: u32) -> Message {
        let mut e = Encoder::new();
        e.u32(number);
        e.finish()
    }

    /// Executes once: returns `number` and counts.
    async fn count(done: &AtomicU32, keep: Keep) -> (Message, Keep) {
        (message(done.fetch_add(1, Ordering::Relaxed)), keep)
    }

    fn bytes(message: Message) -> Vec<u8> {
        message.into_bytes().to_vec()
    }

    #[tokio::test]
    async fn a_call_that_comes_again_is_answered_and_not_done() {
        let (cache, done) = (ReplyCache::default(), AtomicU32::new(0));
        for _ in 0..3 {
            assert_eq!(bytes(cache.once(call(1), count(&done, Keep::Reply)).await), [0, 0, 0, 0]);
        }
        assert_eq!(bytes(cache.once(call(2), count(&done, Keep::Reply)).await), [0, 0, 0, 1]);
        let elsewhere = CallId { client: ([10, 0, 0, 2], 700).into(), ..call(1) };
        assert_eq!(bytes(cache.once(elsewhere, count(&done, Keep::Reply)).await), [0, 0, 0, 2]);
        let beside = CallId { client: ([10, 0, 0, 1], 701).into(), ..call(1) };
        assert_eq!(bytes(cache.once(beside, count(&done, Keep::Reply)).await), [0, 0, 0, 3]);
    }

    #[tokio::test]
    async fn what_was_not_carried_out_is_tried_again() {
        let (cache, done) = (ReplyCache::default(), AtomicU32::new(0));
        cache.once(call(1), count(&done, Keep::Nothing)).await;
        assert_eq!(bytes(cache.once(call(1), count(&done, Keep::Reply)).await), [0, 0, 0, 1]);
        assert_eq!(bytes(cache.once(call(1), count(&done, Keep::Reply)).await), [0, 0, 0, 1]);
    }

    #[tokio::test]
    async fn who_comes_while_the_first_is_at_it_waits_for_its_reply() {
        let cache = Arc::new(ReplyCache::default());
        let (gate, opened) = tokio::sync::oneshot::channel::<()>();
        let first = tokio::spawn({
            let cache = Arc::clone(&cache);
            async move {
                let work = async {
                    opened.await.expect("it is opened");
                    (message(7), Keep::Reply)
                };
                cache.once(call(1), work).await
            }
        });
        while cache.known.lock().replies.is_empty() {
            tokio::task::yield_now().await;
        }
        let second = tokio::spawn({
            let cache = Arc::clone(&cache);
            async move { cache.once(call(1), async { panic!("not again") }).await }
        });
        tokio::task::yield_now().await;
        gate.send(()).unwrap();
        assert_eq!(bytes(first.await.unwrap()), bytes(second.await.unwrap()));
    }

    #[tokio::test]
    async fn a_first_that_comes_to_no_end_leaves_its_place() {
        let cache = Arc::new(ReplyCache::default());
        let first = tokio::spawn({
            let cache = Arc::clone(&cache);
            async move { cache.once(call(1), std::future::pending()).await }
        });
        while cache.known.lock().replies.is_empty() {
            tokio::task::yield_now().await;
        }
        first.abort();
        let done = AtomicU32::new(4);
        assert_eq!(bytes(cache.once(call(1), count(&done, Keep::Reply)).await), [0, 0, 0, 4]);
    }

    #[tokio::test]
    async fn the_oldest_go_by_number_and_by_age() {
        let (cache, done) = (ReplyCache::default(), AtomicU32::new(0));
        for xid in 0..2 * REPLIES_MAX as u32 {
            cache.once(call(xid), count(&done, Keep::Reply)).await;
        }
        let known = |cache: &ReplyCache| cache.known.lock().replies.len();
        assert_eq!(known(&cache), REPLIES_MAX);
        drop(cache.enter(call(0), Instant::now() + AGE_MAX * 2));
        assert_eq!(known(&cache), 1);
    }
}
