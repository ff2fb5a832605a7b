//! Accepts agents: each sends its version and Hello, and joins the team.

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

/// Time limit of Hello, after which the connection is closed.
const HELLO_TIME_MAX: Duration = Duration::from_secs(10);
/// Maximal number of connections without a Hello; an agent's needs a round trip or two.
const STRANGERS_MAX: usize = 64;
/// Queue length of messages from connections; at the limit connections wait.
const EVENTS_MAX: usize = 1024;

/// Agent of the team.
pub(super) struct Member {
    pub(super) connection: u64,
    address: SocketAddr,
    pub(super) hello: Hello,
    pub(super) to: Sender,
    /// Clock comparison; none before the first.
    pub(super) clock: Option<Clock>,
    /// Reason why the agent is gone.
    pub(super) gone: Option<String>,
}

/// Event of a connection, from its thread to the loop that owns the state.
pub(super) enum Event {
    Joined(Box<Member>),
    Refused { connection: u64, line: String },
    Said { connection: u64, at: Instant, what: FromAgent },
    Gone { connection: u64, why: String },
}

/// Connection without a Hello yet.
struct Stranger {
    connection: u64,
    since: Instant,
    stream: TcpStream,
}

/// Listens until `wanted` agents have joined. `say` gets a line for each agent that joins, leaves, or is
/// refused.
///
/// # Errors
/// When `interrupted`, or when accepting connections fails.
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
        // Close slow connections, too: their threads then end.
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
            // An agent must not send anything before a request.
            Ok(Event::Said { connection, .. }) => leave(&mut members, connection, "it spoke unasked", say),
            Ok(Event::Gone { connection, why }) => leave(&mut members, connection, &why, say),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }
    // Sort by host name, so that a machine has the same index in each run.
    members.sort_by_cached_key(|member| (by_number(&member.hello.machine.host), member.address));
    Coordinator::of(members, events, say)
}

fn leave(members: &mut Vec<Member>, connection: u64, why: &str, say: &mut dyn FnMut(&str)) {
    if let Some(i) = members.iter().position(|member| member.connection == connection) {
        let member = members.remove(i);
        say(&format!("agent {} has left again: {why}", member.name()));
    }
}

/// Sort key of a host name: the name and the number at its end, `client2` before `client10`.
fn by_number(host: &str) -> (String, u64) {
    let name = host.trim_end_matches(|c: char| c.is_ascii_digit());
    (name.to_owned(), host[name.len()..].parse().unwrap_or(0))
}

/// Thread of a connection: reads Hello and then all messages until the connection ends.
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

/// Exchanges versions and Hello; otherwise a line with the reason.
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
    // Send the version even if theirs differs: the agent then reports the remedy.
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

/// The connection's thread also has the stream, and waits for its end.
impl Drop for Member {
    fn drop(&mut self) {
        self.to.hang_up();
    }
}

impl Member {
    /// Ends the run at an agent. An agent that does not get this message ends by itself.
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
