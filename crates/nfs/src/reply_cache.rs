//! Replies to calls that may come again, for protocols without sessions (RFC 1813, section 4.6): a client
//! that lost its connection sends its call again over a new one, and a REMOVE that is carried out twice says
//! NOENT the second time.
//!
//! A call is told by its client's address and port, xid, procedure, credential and arguments. Clients that
//! send a call again (Linux, as its servers have always asked of it) connect from the same port again, also
//! to another server that has taken over the address. A call from another port is another's: of another
//! mount, user or machine behind the same address, which counts its calls by itself, and must not be told
//! what was done for somebody else. In memory only: for a call that comes while its first is worked on, and
//! so that a reply is the same to the byte. What outlives the server is its program's to know, by the same
//! [`CallId`].

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

use host::Locked;
use tokio::sync::watch;
use tokio::time::Instant;
use wire::xdr::{Encode, Encoder, Message};

use crate::Call;

/// Replies at one time, of some 200 bytes with a buffer of 512 under each: ten megabytes. What one busy
/// server changes in a second, which is longer than a connection takes to come back on a network that works.
const REPLIES_MAX: usize = 16_384;
/// Nobody sends a call again after so long: Linux's `timeo` of 60 s, twice.
const AGE_MAX: Duration = Duration::from_secs(120);

/// Which call it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallId {
    /// Where it comes from.
    pub client: SocketAddr,
    /// Its number.
    pub xid: u32,
    /// What is called.
    pub procedure: u32,
    /// Of the credential and the arguments. Two calls of one client that share it by accident share the xid,
    /// too, within two minutes.
    pub checksum: u64,
}

impl CallId {
    /// Of a call whose arguments have not been read yet.
    #[must_use]
    pub fn of(call: &Call) -> Self {
        // The same in every server, of whatever version.
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

/// Whether a reply answers the call when it comes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// It does.
    Reply,
    /// The call was not carried out; the next time it may be.
    Nothing,
}

type Kept = Option<Message>;

#[derive(Default)]
struct Known {
    replies: HashMap<CallId, watch::Receiver<Kept>>,
    /// The oldest first. One that was given up meanwhile stands here without a reply.
    order: VecDeque<(Instant, CallId)>,
}

/// The replies that one server remembers.
#[derive(Default)]
pub struct ReplyCache {
    known: Mutex<Known>,
}

impl ReplyCache {
    /// Carries out `work` once for this call: when the call comes again it gets the same reply, after waiting
    /// for it if the first is still at it.
    pub async fn once(&self, call: CallId, work: impl Future<Output = (Message, Keep)>) -> Message {
        loop {
            let (first, mut reply) = self.enter(call, Instant::now());
            let Some(first) = first else {
                let known = reply.wait_for(Option::is_some).await.ok().and_then(|known| known.clone());
                match known {
                    Some(reply) => return reply,
                    // The first came to no end, or to nothing worth keeping.
                    None => continue,
                }
            };
            let entry = Entry { cache: self, call, kept: false };
            let (reply, keep) = work.await;
            if keep == Keep::Reply {
                first.send_replace(Some(reply.clone()));
                entry.keep();
            }
            return reply;
        }
    }

    /// The sender for who comes first, and where the reply will be.
    fn enter(&self, call: CallId, now: Instant) -> (Option<watch::Sender<Kept>>, watch::Receiver<Kept>) {
        let (sender, receiver) = watch::channel(None);
        let mut known = self.known.locked();
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
        self.known.locked().replies.remove(&call);
    }
}

/// Takes the place of the call back if its work comes to no end.
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

    /// Does `number` and counts.
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
        while cache.known.lock().unwrap().replies.is_empty() {
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
        while cache.known.lock().unwrap().replies.is_empty() {
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
        let known = |cache: &ReplyCache| cache.known.lock().unwrap().replies.len();
        assert_eq!(known(&cache), REPLIES_MAX);
        drop(cache.enter(call(0), Instant::now() + AGE_MAX * 2));
        assert_eq!(known(&cache), 1);
    }
}
