//! Simulated byte streams in place of TCP: what servers and NFS clients speak over. Pieces arrive in the
//! order in which they were written, each with the network's delay, and wait while a link of the network is
//! broken.
//!
//! ```text
//! write ─▶ in flight, due after a delay ─▶ arrived ─▶ read         a pipe; a stream has one for each direction
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::task::Waker;

use bytes::Bytes;

use crate::net::{Address, Net};
use crate::rng::Rng;

/// Longest time for which an end that has connected waits for a silent other end: `nfs` asks its kernel for
/// the same.
const SILENCE_MS_MAX: u64 = 6_000;
/// Bytes of a pipe that were written and not read yet; more are not taken.
const PIPE_BYTES_MAX: usize = 256 << 10;

/// Piece of a pipe.
enum Piece {
    Data(Bytes),
    /// The orderly end.
    End,
    /// The other end is gone.
    Reset,
}

/// One direction of a stream.
#[derive(Default)]
struct Pipe {
    in_flight: VecDeque<(u64, Piece)>,
    arrived: VecDeque<Bytes>,
    bytes: usize,
    has_ended: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// State of one end.
#[derive(Default)]
struct End {
    /// Set when the end can neither read nor write any more.
    is_broken: bool,
    /// Halves that were dropped.
    dropped: u8,
    /// Set when it sent its orderly end.
    has_ended: bool,
    /// True after its machine lost power: the peers get no notice.
    is_dark: bool,
}

/// Stream between two addresses: end 0 has connected, end 1 was connected to.
struct Link {
    addresses: [Address; 2],
    /// Pipe `n` leads away from end `n`.
    pipes: [Pipe; 2],
    ends: [End; 2],
    blocked_since_ms: Option<u64>,
}

/// Connection that is being made.
struct Dial {
    from: Address,
    to: Address,
    due_ms: u64,
    outcome: Option<io::Result<u64>>,
    waker: Option<Waker>,
}

/// Streams not yet accepted at an address that listens.
#[derive(Default)]
struct Accepting {
    number: u64,
    streams: VecDeque<(u64, Address)>,
    waker: Option<Waker>,
}

/// All streams of the network.
pub struct Streams {
    now_ms: u64,
    next: u64,
    rng: Rng,
    links: BTreeMap<u64, Link>,
    dials: BTreeMap<u64, Dial>,
    listeners: BTreeMap<Address, Accepting>,
}

fn gone() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

impl Streams {
    /// No streams.
    #[must_use]
    pub fn new(rng: Rng) -> Self {
        let (links, dials, listeners) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { now_ms: 0, next: 0, rng, links, dials, listeners }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Begins to connect; returns the number of the attempt.
    pub fn dial(&mut self, from: Address, to: Address, delay_ms: (u64, u64)) -> u64 {
        let due_ms = self.now_ms + 2 * self.rng.within(delay_ms.0..=delay_ms.1);
        let number = self.number();
        self.dials.insert(number, Dial { from, to, due_ms, outcome: None, waker: None });
        number
    }

    /// Outcome of an attempt: the number of the stream.
    pub fn dialled(&mut self, attempt: u64, waker: &Waker) -> Option<io::Result<u64>> {
        let dial = self.dials.get_mut(&attempt)?;
        dial.waker = Some(waker.clone());
        dial.outcome.take()
    }

    /// Forgets an attempt.
    pub fn forget_dial(&mut self, attempt: u64) {
        self.dials.remove(&attempt);
    }

    /// Listens at an address, instead of who listened there before; returns the listener's number.
    pub fn listen(&mut self, at: Address) -> u64 {
        let number = self.number();
        self.listeners.insert(at, Accepting { number, ..Accepting::default() });
        number
    }

    /// Next stream for a listener, with the address that it comes from.
    pub fn accepted(&mut self, at: Address, listener: u64, waker: &Waker) -> Option<(u64, Address)> {
        let accepting = self.listeners.get_mut(&at).filter(|accepting| accepting.number == listener)?;
        accepting.waker = Some(waker.clone());
        accepting.streams.pop_front()
    }

    /// Ends a listener.
    pub fn forget_listener(&mut self, at: Address, listener: u64) {
        if self.listeners.get(&at).is_none_or(|accepting| accepting.number != listener) {
            return;
        }
        let never_accepted = self.listeners.remove(&at).map(|accepting| accepting.streams);
        for (stream, _) in never_accepted.into_iter().flatten() {
            self.drop_half(stream, 1);
            self.drop_half(stream, 1);
        }
    }

    /// Writes to a stream from its end `end`; returns the number of bytes taken, or none while it is full.
    pub fn write(
        &mut self,
        stream: u64,
        end: usize,
        data: &[u8],
        (delay_ms, lost): ((u64, u64), u64),
        waker: &Waker,
    ) -> Option<io::Result<usize>> {
        let (lost, delay_ms) = (self.rng.per_mille(lost), self.rng.within(delay_ms.0..=delay_ms.1));
        let due_ms = self.now_ms + delay_ms;
        let Some(link) = self.links.get_mut(&stream) else { return Some(Err(gone())) };
        if link.ends[end].is_broken || link.ends[end].has_ended {
            return Some(Err(gone()));
        }
        if lost {
            link.tear(due_ms);
        }
        let pipe = &mut link.pipes[end];
        let room = PIPE_BYTES_MAX.saturating_sub(pipe.bytes).min(data.len());
        if room == 0 {
            pipe.writer = Some(waker.clone());
            return None;
        }
        pipe.bytes += room;
        pipe.send(due_ms, Piece::Data(Bytes::copy_from_slice(&data[..room])));
        Some(Ok(room))
    }

    /// Reads at most `max` bytes at end `end`; none while nothing has arrived, no bytes at the end.
    pub fn read(&mut self, stream: u64, end: usize, max: usize, waker: &Waker) -> Option<io::Result<Bytes>> {
        let Some(link) = self.links.get_mut(&stream) else { return Some(Err(gone())) };
        let pipe = &mut link.pipes[1 - end];
        if let Some(first) = pipe.arrived.front_mut() {
            let piece = first.split_to(first.len().min(max));
            if first.is_empty() {
                pipe.arrived.pop_front();
            }
            pipe.bytes -= piece.len();
            if let Some(writer) = pipe.writer.take() {
                writer.wake();
            }
            return Some(Ok(piece));
        }
        if link.ends[end].is_broken {
            return Some(Err(gone()));
        }
        if pipe.has_ended {
            return Some(Ok(Bytes::new()));
        }
        pipe.reader = Some(waker.clone());
        None
    }

    /// Ends one direction in order.
    pub fn end(&mut self, stream: u64, end: usize) {
        let due_ms = self.now_ms;
        if let Some(link) = self.links.get_mut(&stream)
            && !link.ends[end].has_ended
        {
            link.ends[end].has_ended = true;
            link.pipes[end].send(due_ms, Piece::End);
        }
    }

    /// A half of an end was dropped. When both are, the other end is told, unless the power is gone.
    pub fn drop_half(&mut self, stream: u64, end: usize) {
        let due_ms = self.now_ms;
        let Some(link) = self.links.get_mut(&stream) else { return };
        link.ends[end].dropped += 1;
        if link.ends[end].dropped < 2 {
            return;
        }
        let told = link.ends[end].has_ended || link.ends[end].is_dark;
        link.ends[end].is_broken = true;
        if !told {
            link.pipes[end].send(due_ms, Piece::Reset);
        }
        if link.ends[1 - end].dropped >= 2 {
            self.links.remove(&stream);
        }
    }

    /// The power of a machine is gone: its streams end without a word.
    pub fn go_dark(&mut self, address: Address) {
        for link in self.links.values_mut() {
            for end in 0..2 {
                if link.addresses[end] == address {
                    link.ends[end].is_dark = true;
                }
            }
        }
    }

    /// Lets time pass: makes connections and delivers what is due. Returns whom to wake.
    pub fn deliver(&mut self, now_ms: u64, net: &Net) -> Vec<Waker> {
        self.now_ms = now_ms;
        let mut wakers = vec![];
        self.connect_due(net, &mut wakers);
        let is_whole = net.is_whole();
        for link in self.links.values_mut() {
            let [one, other] = link.addresses;
            let blocked = match is_whole {
                true => [false, false],
                false => [net.is_blocked(one, other), net.is_blocked(other, one)],
            };
            if !blocked.contains(&true) {
                link.blocked_since_ms = None;
            } else if now_ms - *link.blocked_since_ms.get_or_insert(now_ms) >= SILENCE_MS_MAX {
                link.break_end(0, &mut wakers);
            }
            for (end, is_blocked) in blocked.into_iter().enumerate() {
                if !is_blocked && link.is_due(end, now_ms) {
                    let is_up = self.listeners.contains_key(&link.addresses[1 - end]);
                    link.deliver(end, now_ms, is_up, &mut wakers);
                }
            }
        }
        wakers
    }

    fn connect_due(&mut self, net: &Net, wakers: &mut Vec<Waker>) {
        let Self { links, dials, listeners, next, now_ms, .. } = self;
        for dial in dials.values_mut().filter(|dial| dial.outcome.is_none() && dial.due_ms <= *now_ms) {
            let (from, to) = (dial.from, dial.to);
            if net.is_blocked(from, to) || net.is_blocked(to, from) {
                continue; // who dials has a limit
            }
            // It goes on waiting; its attempt has been taken.
            dial.due_ms = u64::MAX;
            dial.outcome = Some(match listeners.get_mut(&to) {
                None => Err(io::ErrorKind::ConnectionRefused.into()),
                Some(accepting) => {
                    *next += 1;
                    links.insert(*next, Link::new([from, to]));
                    accepting.streams.push_back((*next, from));
                    wakers.extend(accepting.waker.take());
                    Ok(*next)
                }
            });
            wakers.extend(dial.waker.take());
        }
    }
}

impl Pipe {
    /// Pieces keep their order.
    fn send(&mut self, due_ms: u64, piece: Piece) {
        let last = self.in_flight.back().map_or(0, |(due_ms, _)| *due_ms);
        self.in_flight.push_back((due_ms.max(last), piece));
    }
}

impl Link {
    fn new(addresses: [Address; 2]) -> Self {
        Self { addresses, pipes: Default::default(), ends: Default::default(), blocked_since_ms: None }
    }

    /// Both ends find the stream broken.
    fn tear(&mut self, due_ms: u64) {
        self.pipes.iter_mut().for_each(|pipe| pipe.send(due_ms, Piece::Reset));
    }

    fn break_end(&mut self, end: usize, wakers: &mut Vec<Waker>) {
        self.ends[end].is_broken = true;
        self.pipes[end].in_flight.clear();
        wakers.extend(self.pipes[end].writer.take());
        wakers.extend(self.pipes[1 - end].reader.take());
    }

    /// True if something from end `end` is to be delivered.
    fn is_due(&self, end: usize, now_ms: u64) -> bool {
        self.pipes[end].in_flight.front().is_some_and(|(due_ms, _)| *due_ms <= now_ms)
    }

    /// Delivers what is due from end `end` to the other. `is_up`: the machine there is.
    fn deliver(&mut self, end: usize, now_ms: u64, is_up: bool, wakers: &mut Vec<Waker>) {
        while self.is_due(end, now_ms) {
            if self.ends[1 - end].dropped >= 2 {
                // Nobody has this stream: the machine says so, once it is up.
                if is_up || !self.ends[1 - end].is_dark {
                    self.break_end(end, wakers);
                }
                return;
            }
            let Some((_, piece)) = self.pipes[end].in_flight.pop_front() else { return };
            match piece {
                Piece::Data(data) if !self.ends[1 - end].is_broken => {
                    self.pipes[end].arrived.push_back(data);
                }
                Piece::Data(_) => {}
                Piece::End => self.pipes[end].has_ended = true,
                Piece::Reset => return self.break_end(1 - end, wakers),
            }
            wakers.extend(self.pipes[end].reader.take());
        }
    }
}
