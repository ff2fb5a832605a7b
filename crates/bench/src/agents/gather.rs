//! Agents come: each says its version and hello, and is then one of the team.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use crate::agents::check;
use crate::agents::coordinator::Coordinator;
use crate::agents::message::{FromAgent, Hello, ToAgent};
use crate::agents::wire::{self, FRAME_BYTES_MAX, HELLO_BYTES_MAX, Receiver, Sender};
use crate::result::{Clock, Machine};
use crate::team::WATCH_EACH;
use crate::trouble::Trouble;

/// A stranger says hello within this time, or is sent away.
const HELLO_TIME_MAX: Duration = Duration::from_secs(10);
/// Connections at once that have not said hello: an agent's takes a round trip or two.
const STRANGERS_MAX: usize = 64;
/// Of what connections said, so much waits for the loop; then they wait.
const EVENTS_MAX: usize = 1024;

/// An agent that is one of the team.
pub(super) struct Member {
    pub(super) connection: u64,
    address: SocketAddr,
    pub(super) hello: Hello,
    pub(super) to: Sender,
    /// Nothing until it is compared.
    pub(super) clock: Option<Clock>,
    /// Why it is not there any more.
    pub(super) gone: Option<String>,
}

/// Events of connections, each from a thread of its own, for the one loop that owns the state.
pub(super) enum Event {
    Joined(Box<Member>),
    Refused { connection: u64, line: String },
    Said { connection: u64, at: Instant, what: FromAgent },
    Gone { connection: u64, why: String },
}

/// Connections that have not sent hello yet.
struct Stranger {
    connection: u64,
    since: Instant,
    stream: TcpStream,
}

/// Listens until so many agents have come. `say` gets a line for each that comes, leaves, or is sent away.
///
/// # Errors
/// `interrupted` says so, or connections cannot be taken.
pub fn gather(
    listener: TcpListener,
    wanted: usize,
    version: &str,
    say: &mut dyn FnMut(&str),
    interrupted: &dyn Fn() -> bool,
) -> Result<Coordinator, Trouble> {
    let failed = |e: io::Error| Trouble::io("wait for agents", &e);
    listener.set_nonblocking(true).map_err(failed)?;
    let (send, events) = mpsc::sync_channel(EVENTS_MAX);
    let mut members: Vec<Member> = Vec::with_capacity(wanted);
    let (mut connections, mut strangers) = (0, Vec::<Stranger>::new());
    while members.len() < wanted {
        if interrupted() {
            let line = format!("ended when {} of {wanted} agents had come", members.len());
            members.iter_mut().for_each(|member| member.dismiss(Some(&line)));
            return Err(Trouble(line));
        }
        match listener.accept() {
            Ok((stream, address)) if strangers.len() < STRANGERS_MAX => {
                connections += 1;
                let ours = stream.try_clone().map_err(failed)?;
                strangers.push(Stranger { connection: connections, since: Instant::now(), stream: ours });
                listen_to(connections, stream, address, version.to_owned(), send.clone()).map_err(failed)?;
                continue;
            }
            Ok(_too_many) => {}
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted) => {}
            Err(e) => return Err(failed(e)),
        }
        // However slowly one speaks: its thread then hears the end.
        for late in strangers.iter().filter(|stranger| stranger.since.elapsed() > HELLO_TIME_MAX) {
            let _ = late.stream.shutdown(Shutdown::Both);
        }
        match events.recv_timeout(WATCH_EACH) {
            Ok(Event::Joined(member)) => {
                strangers.retain(|stranger| stranger.connection != member.connection);
                members.push(*member);
                if let Some(member) = members.last() {
                    say(&format!("agent {} of {wanted}: {}", members.len(), member.describe()));
                }
            }
            Ok(Event::Refused { connection, line }) => {
                strangers.retain(|stranger| stranger.connection != connection);
                say(&line);
            }
            // Before anything was asked, an agent has nothing to say.
            Ok(Event::Said { connection, .. }) => leave(&mut members, connection, "it spoke unasked", say),
            Ok(Event::Gone { connection, why }) => leave(&mut members, connection, &why, say),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }
    // The same machine has the same place in each run.
    members.sort_by_cached_key(|member| (by_number(&member.hello.machine.host), member.address));
    Coordinator::of(members, events, say)
}

fn leave(members: &mut Vec<Member>, connection: u64, why: &str, say: &mut dyn FnMut(&str)) {
    if let Some(i) = members.iter().position(|member| member.connection == connection) {
        let member = members.remove(i);
        say(&format!("agent {} has left again: {why}", member.name()));
    }
}

/// A host's name without the number at its end, and that: `client2` before `client10`.
fn by_number(host: &str) -> (String, u64) {
    let name = host.trim_end_matches(|c: char| c.is_ascii_digit());
    (name.to_owned(), host[name.len()..].parse().unwrap_or(0))
}

/// A connection's thread: hello, and then whatever it says, until it is gone.
fn listen_to(
    connection: u64,
    stream: TcpStream,
    address: SocketAddr,
    version: String,
    events: SyncSender<Event>,
) -> io::Result<()> {
    let hears = move || {
        let (member, receiver) = match welcome(connection, stream, address, &version) {
            Ok(welcomed) => welcomed,
            Err(line) => return drop(events.send(Event::Refused { connection, line })),
        };
        let mut sent = events.send(Event::Joined(Box::new(member)));
        let mut receiver = receiver;
        while sent.is_ok() {
            sent = match receiver.receive(FRAME_BYTES_MAX) {
                Ok(what) => events.send(Event::Said { connection, at: Instant::now(), what }),
                Err(e) => {
                    let why = match e.kind() {
                        io::ErrorKind::UnexpectedEof => "the connection was closed".to_owned(),
                        _ => e.to_string(),
                    };
                    return drop(events.send(Event::Gone { connection, why }));
                }
            };
        }
    };
    thread::Builder::new().name(format!("agent {connection}")).spawn(hears).map(drop)
}

/// Versions, and hello; else a line that says why not.
fn welcome(
    connection: u64,
    stream: TcpStream,
    address: SocketAddr,
    version: &str,
) -> Result<(Member, Receiver), String> {
    let refused = |e: io::Error| format!("{address} was sent away: {e}");
    let (mut to, mut from) =
        stream.set_nonblocking(false).and_then(|()| wire::split(stream)).map_err(refused)?;
    from.patience(Some(HELLO_TIME_MAX)).map_err(refused)?;
    let theirs = from.greeting().map_err(refused)?;
    // Also to one of another version: it says on its side what is to be done.
    to.greet(version).map_err(refused)?;
    if theirs != version {
        return Err(format!(
            "{address} was sent away: it has heorot {theirs}, this is {version}: install the same version on both"
        ));
    }
    let hello = match from.receive(HELLO_BYTES_MAX).map_err(refused)? {
        FromAgent::Hello(hello) => *hello,
        _ => return Err(format!("{address} was sent away: it did not say hello")),
    };
    check::hello(&hello).map_err(|trouble| format!("{address} was sent away: {trouble}"))?;
    from.patience(None).map_err(refused)?;
    Ok((Member { connection, address, hello, to, clock: None, gone: None }, from))
}

/// Its thread has the connection, too, and waits for it to end.
impl Drop for Member {
    fn drop(&mut self) {
        self.to.hang_up();
    }
}

impl Member {
    /// It is over. One that does not hear it any more ends by itself.
    pub(super) fn dismiss(&mut self, why: Option<&str>) {
        let _ = self.to.send(&ToAgent::Home { why: why.map(str::to_owned) });
    }

    pub(super) fn name(&self) -> String {
        format!("{} ({})", self.hello.machine.host, self.address)
    }

    fn describe(&self) -> String {
        let Machine { kernel, cpus, memory_bytes, target, .. } = &self.hello.machine;
        format!("{}: {kernel}, {cpus} CPUs, {}, {target}", self.name(), host::size::show(*memory_bytes))
    }
}
