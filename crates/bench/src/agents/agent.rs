//! Agent: executes its tasks of each phase for the coordinator.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::agents::check;
use crate::agents::clocks::nanoseconds;
use crate::agents::message::{FromAgent, Hello, ToAgent};
use crate::agents::wire::{self, FRAME_BYTES_MAX, Sender};
use crate::crew::Crew;
use crate::machine;
use crate::phase::{AgentDone, Phase, Then};
use crate::target::Target;
use crate::team::WATCH_EACH;
use crate::trouble::Trouble;
use crate::work::Stage;

/// Time limit of a connect to the coordinator.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
/// Retry interval of the connect, while the coordinator does not listen yet.
const TRY_EACH: Duration = Duration::from_millis(100);
/// Maximal distance of a start from now; a later start is an error.
const START_AFTER_MAX: Duration = Duration::from_secs(60);
const UNHEARD: &str = "nobody listens to it any more";
/// Queue length of messages from the coordinator.
const MESSAGES_MAX: usize = 16;

/// Joins the coordinator at `address`, and executes its phases until the end of the run. Retries the connect
/// for `patience`. `say` gets one line for the user at each event.
///
/// # Errors
/// The coordinator cannot be reached, has another version, is gone, or ended the run early.
pub fn join(
    address: &str,
    version: &str,
    target: Arc<dyn Target>,
    patience: Duration,
    say: &mut dyn FnMut(&str),
) -> Result<(), Trouble> {
    let failed = |e: io::Error| Trouble(format!("join {address}: {e}"));
    let give_up = Instant::now() + patience;
    let stream = loop {
        match connect(address) {
            Err(_) if Instant::now() < give_up => thread::sleep(TRY_EACH),
            outcome => break outcome?,
        }
    };
    let (mut to, mut from) = wire::split(stream).map_err(failed)?;
    from.patience(Some(CONNECT_TIME_MAX)).map_err(failed)?;
    to.greet(version).map_err(failed)?;
    let theirs = from.greeting().map_err(failed)?;
    if theirs != version {
        return Err(Trouble(format!(
            "join {address}: it has heorot {theirs}, this is {version}: install the same version on both"
        )));
    }
    from.patience(None).map_err(failed)?;
    let (free_bytes, has_caches) = (target.free_bytes(), target.has_caches());
    let hello = Hello { machine: machine::this(&*target), free_bytes, has_caches };
    to.send(&FromAgent::Hello(Box::new(hello))).map_err(failed)?;
    say(&format!("joined {address}; waiting for the others"));

    let (send, messages) = mpsc::sync_channel(MESSAGES_MAX);
    let hears = move || while send.send(from.receive(FRAME_BYTES_MAX)).is_ok() {};
    thread::Builder::new().name("coordinator".into()).spawn(hears).map_err(failed)?;
    Agent { address: address.to_owned(), to, messages, epoch: Instant::now(), target }.work(say)
}

/// Connects to the first address that answers.
fn connect(address: &str) -> Result<TcpStream, Trouble> {
    let failed = |e: &dyn std::fmt::Display| {
        let what = "is the coordinator (heorot bench RUN … --agents N --listen ADDR) waiting there?";
        Trouble(format!("join {address}: {e}: {what}"))
    };
    let mut last = None;
    for address in address.to_socket_addrs().map_err(|e| failed(&e))? {
        match TcpStream::connect_timeout(&address, CONNECT_TIME_MAX) {
            Ok(stream) => return Ok(stream),
            Err(e) => last = Some(e),
        }
    }
    Err(last.map_or_else(|| failed(&"no such host"), |e| failed(&e)))
}

/// Order of the coordinator to workers that are ready.
enum Go {
    Start,
    Home,
}

struct Agent {
    address: String,
    to: Sender,
    messages: Receiver<io::Result<ToAgent>>,
    /// Zero of this machine's monotonic clock.
    epoch: Instant,
    target: Arc<dyn Target>,
}

impl Agent {
    fn work(&mut self, say: &mut dyn FnMut(&str)) -> Result<(), Trouble> {
        loop {
            match self.hear()? {
                ToAgent::Clock => self.clock()?,
                ToAgent::Prepare(phase) => {
                    say(&format!(
                        "{}: {} workers",
                        check::plain(&phase.name),
                        phase.tasks.first().map_or(0, Vec::len)
                    ));
                    let done = check::phase(&phase).map(|()| self.carry_out(&phase));
                    let done = match done {
                        Ok(outcome) => outcome?,
                        Err(refused) => Err(refused),
                    };
                    self.tell(&FromAgent::Done(done))?;
                }
                // The message was sent before the phase ended.
                ToAgent::Stop | ToAgent::Highest { .. } => {}
                ToAgent::Start { .. } => return Err(self.failed("it starts what it did not prepare")),
                ToAgent::Home { why: None } => return Ok(()),
                ToAgent::Home { why: Some(why) } => {
                    return Err(Trouble(format!(
                        "the coordinator at {} ended the run: {}",
                        self.address,
                        check::plain(&why)
                    )));
                }
            }
        }
    }

    /// Executes a phase. The outer error is of the connection to the coordinator.
    fn carry_out(&mut self, phase: &Phase) -> Result<Result<AgentDone, Trouble>, Trouble> {
        let crew = match Crew::prepare(phase, 0, &self.target) {
            Ok(crew) => crew,
            Err(trouble) => return Ok(Err(trouble)),
        };
        let outcome = self.tell(&FromAgent::Ready).and_then(|()| self.lead(&crew, phase));
        match outcome {
            Ok(Go::Start) => Ok(crew.end()),
            Ok(Go::Home) => {
                crew.dismiss();
                Ok(Ok(AgentDone::default()))
            }
            Err(trouble) => {
                crew.stop();
                crew.dismiss();
                Err(trouble)
            }
        }
    }

    /// Controls the workers from ready to their end.
    fn lead(&mut self, crew: &Crew, phase: &Phase) -> Result<Go, Trouble> {
        loop {
            match self.hear()? {
                ToAgent::Clock => self.clock()?,
                ToAgent::Start { at } => break crew.start(self.moment(at)?),
                ToAgent::Stop => return Ok(Go::Home),
                other => return Err(self.failed(&format!("it said {other:?} before the start"))),
            }
        }
        // Ask how far other agents have come only if the phase has a stonewall, and until a stop.
        let mut asks = phase.limit.is_some_and(|limit| limit.then == Then::WearOut);
        loop {
            match crew.wait(WATCH_EACH) {
                Stage::Ended => return Ok(Go::Start),
                Stage::AtTheWall(furthest) if !asks => crew.go_on_to(furthest),
                Stage::AtTheWall(furthest) => {
                    self.tell(&FromAgent::Reached { count: furthest })?;
                    match self.hear()? {
                        ToAgent::Highest { count } => crew.go_on_to(count),
                        ToAgent::Stop => {
                            asks = false;
                            crew.stop();
                        }
                        other => return Err(self.failed(&format!("it said {other:?} at the stonewall"))),
                    }
                }
                Stage::Working => {
                    self.tell(&FromAgent::Progress(crew.progress()))?;
                    match self.messages.try_recv() {
                        Ok(Ok(ToAgent::Stop)) => {
                            asks = false;
                            crew.stop();
                        }
                        Ok(Ok(other)) => {
                            return Err(self.failed(&format!("it said {other:?} during a phase")));
                        }
                        Ok(Err(e)) => return Err(self.gone(&e)),
                        Err(TryRecvError::Empty) => {}
                        Err(TryRecvError::Disconnected) => return Err(self.failed(UNHEARD)),
                    }
                }
            }
        }
    }

    /// Converts a time of this machine's clock, which must be near now.
    fn moment(&self, at: u64) -> Result<Instant, Trouble> {
        let (at, now) = (Duration::from_nanos(at), self.epoch.elapsed());
        if at.abs_diff(now) > START_AFTER_MAX {
            return Err(self.failed(&format!("it starts at {at:?}, and it is {now:?}")));
        }
        Ok(self.epoch + at)
    }

    fn clock(&mut self) -> Result<(), Trouble> {
        let monotonic = nanoseconds(self.epoch.elapsed());
        let time_of_day = nanoseconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        self.tell(&FromAgent::Clock { monotonic, time_of_day })
    }

    fn hear(&self) -> Result<ToAgent, Trouble> {
        match self.messages.recv() {
            Ok(message) => message.map_err(|e| self.gone(&e)),
            Err(_) => Err(self.failed(UNHEARD)),
        }
    }

    fn tell(&mut self, message: &FromAgent) -> Result<(), Trouble> {
        self.to.send(message).map_err(|e| self.gone(&e))
    }

    fn gone(&self, error: &io::Error) -> Trouble {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => self.failed("it closed the connection"),
            _ => self.failed(&error.to_string()),
        }
    }

    fn failed(&self, why: &str) -> Trouble {
        Trouble(format!("the coordinator at {} is gone: {why}: look at what it said there", self.address))
    }
}
