//! Coordinator: a team of agents.
//!
//! ```text
//! a thread for each connection ── Event ──▶ one loop, which owns the state ── frames ──▶ agents
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::agents::check;
use crate::agents::clocks::{Compared, Reading, Trips, nanoseconds};
use crate::agents::gather::{Event, Member};
use crate::agents::message::{FromAgent, ToAgent};
use crate::agents::round::{Next, Round};
use crate::phase::{AgentDone, Phase};
use crate::result::{Clock, Machine};
use crate::task::{Task, Walk};
use crate::team::{Team, WATCH_EACH, Watch};
use crate::trouble::Trouble;

/// Number of round trips of each clock comparison: together they are more precise than the fastest alone.
const ROUND_TRIPS: usize = 8;
/// Time limit of a clock comparison; an idle agent answers within milliseconds.
const CLOCK_TIME_MAX: Duration = Duration::from_secs(10);
/// Delay of the start after its message. An agent that gets the message late starts late, and its delay
/// counts.
const START_AFTER: Duration = Duration::from_millis(50);
/// Time limit for the last report after a stop: a worker first finishes its operation, which may be an fsync
/// of all its data.
const STOP_TIME_MAX: Duration = Duration::from_secs(60);
/// Cause sent to agents when a coordinator ends without [`Coordinator::ended_by`].
const GIVEN_UP: &str = "the coordinator gave up";

/// Team of agents.
pub struct Coordinator {
    members: Vec<Member>,
    events: mpsc::Receiver<Event>,
    /// Messages that arrived during a clock comparison.
    kept: VecDeque<Event>,
    /// Zero of this machine's monotonic clock.
    epoch: Instant,
    /// True if all agents were seen to use one file system.
    same: bool,
    why: Option<String>,
}

impl Team for Coordinator {
    fn agents(&self) -> usize {
        self.members.len()
    }

    fn machines(&self) -> Vec<Machine> {
        let machine = |member: &Member| Machine { clock: member.clock, ..member.hello.machine.clone() };
        self.members.iter().map(machine).collect()
    }

    fn free_bytes(&self) -> Option<u64> {
        self.members.iter().filter_map(|member| member.hello.free_bytes).min()
    }

    fn has_caches(&self) -> bool {
        self.members.iter().any(|member| member.hello.has_caches)
    }

    fn living(&self) -> usize {
        self.members.iter().position(|member| member.gone.is_none()).unwrap_or(0)
    }

    fn run(&mut self, phase: &Phase, watch: &mut Watch<'_>) -> Result<Vec<AgentDone>, Trouble> {
        let done = self.carry_out(phase, watch)?;
        let made = phase.tasks.iter().flatten().find_map(|task| match task {
            Task::Make(folder) => Some(folder),
            _ => None,
        });
        if let Some(folder) = made.filter(|_| !self.same) {
            self.all_see(folder, phase)?;
            self.same = true;
        }
        Ok(done)
    }
}

impl Coordinator {
    /// Coordinator of agents that have joined.
    pub(super) fn of(
        members: Vec<Member>,
        events: mpsc::Receiver<Event>,
        say: &mut dyn FnMut(&str),
    ) -> Result<Self, Trouble> {
        let (kept, why) = (VecDeque::new(), Some(GIVEN_UP.to_owned()));
        let mut team = Self { members, events, kept, epoch: Instant::now(), same: false, why };
        let all: Vec<usize> = (0..team.members.len()).collect();
        for (i, compared) in team.compare_clocks(&all) {
            let member = &mut team.members[i];
            let compared = compared.and_then(|Compared { monotonic, time_of_day }| {
                let times = time_of_day.ok_or("its time of day was set meanwhile")?;
                Ok(Clock { ahead_us: times.ahead_us(), error_us: monotonic.error_us() })
            });
            let clock = compared.map_err(|why: String| {
                Trouble(format!("compare clocks with {}: {why}: start it again", member.name()))
            })?;
            say(&format!(
                "clock of {}: {:+.3} ms, to within {:.3} ms",
                member.name(),
                clock.ahead_us / 1e3,
                clock.error_us / 1e3
            ));
            member.clock = Some(clock);
        }
        Ok(team)
    }

    /// Sets the cause of an early end, which drop sends to the agents.
    pub fn ended_by(&mut self, why: Option<String>) {
        self.why = why;
    }

    fn carry_out(&mut self, phase: &Phase, watch: &mut Watch<'_>) -> Result<Vec<AgentDone>, Trouble> {
        let mut round = Round::new(self.members.iter().map(Member::name));
        self.prepare(phase, &mut round);
        let mut watched = Instant::now();
        let mut give_up = None;
        loop {
            match round.next() {
                Next::End => return round.end(),
                Next::Start => self.start(&mut round),
                Next::GoOn(count) => {
                    self.tell_all(&ToAgent::Highest { count }, &mut round);
                    round.gone_on();
                }
                Next::Stop => {
                    self.tell_all(&ToAgent::Stop, &mut round);
                    round.told_to_stop();
                    give_up = Some(Instant::now() + STOP_TIME_MAX);
                }
                Next::Wait => {
                    if let Some(event) = self.event(WATCH_EACH) {
                        self.heard(event, phase, &mut round);
                    }
                    if watched.elapsed() >= WATCH_EACH {
                        watched = Instant::now();
                        if watch(round.progress()).is_break() {
                            round.stop();
                        }
                    }
                    if give_up.is_some_and(|at| Instant::now() >= at) {
                        let why = format!("it did not stop within {} s", STOP_TIME_MAX.as_secs());
                        at_work(&round).into_iter().for_each(|i| self.lose(i, &why, &mut round));
                    }
                }
            }
        }
    }

    /// Checks that all agents see a folder that one of them made: otherwise each would measure another file
    /// system.
    fn all_see(&mut self, folder: &str, like: &Phase) -> Result<(), Trouble> {
        let look = Walk { dirs: vec![folder.to_owned()], name_has: String::new(), found: None };
        let tasks = vec![vec![Task::Walk(look)]; self.members.len()];
        let seen = self.carry_out(&Phase { tasks, ..like.clone() }, &mut |_| ControlFlow::Continue(()));
        seen.map(drop).map_err(|trouble| {
            let what = "agents must measure the same file system: look at what each was given";
            Trouble(format!("not every agent sees what one of them made: {trouble}: {what}"))
        })
    }

    /// Sends each agent its tasks. An agent that is gone matters only if it has tasks.
    fn prepare(&mut self, phase: &Phase, round: &mut Round) {
        let mut part = phase.clone();
        part.tasks.clear();
        for i in 0..self.members.len() {
            let tasks = phase.tasks.get(i).cloned().unwrap_or_default();
            match &self.members[i].gone {
                Some(_) if tasks.iter().all(|task| *task == Task::Rest) => {
                    round.said(i, FromAgent::Done(Ok(AgentDone::default())));
                }
                Some(why) => round.gone(i, why),
                None => self.tell(i, &ToAgent::Prepare(Phase { tasks: vec![tasks], ..part.clone() }), round),
            }
        }
    }

    /// Starts all agents at the same time, converted to the clock of each.
    fn start(&mut self, round: &mut Round) {
        let mut offsets = Vec::new();
        for (i, compared) in self.compare_clocks(&at_work(round)) {
            match compared {
                Ok(Compared { monotonic, .. }) => {
                    if let Some(clock) = &mut self.members[i].clock {
                        clock.error_us = clock.error_us.max(monotonic.error_us());
                    }
                    offsets.push((i, monotonic));
                }
                Err(why) => self.lose(i, &why, round),
            }
        }
        let at = nanoseconds(self.epoch.elapsed() + START_AFTER);
        for (i, offset) in offsets {
            self.tell(i, &ToAgent::Start { at: offset.theirs(at) }, round);
        }
        round.started();
    }

    /// Compares the clocks of some agents, in parallel, with several round trips. Keeps other messages for
    /// later.
    fn compare_clocks(&mut self, who: &[usize]) -> Vec<(usize, Result<Compared, String>)> {
        let mut trips: Vec<Result<Trips, String>> = who.iter().map(|_| Ok(Trips::default())).collect();
        let give_up = Instant::now() + CLOCK_TIME_MAX;
        for _ in 0..ROUND_TRIPS {
            let mut asked = BTreeMap::new();
            for (&i, trips) in who.iter().zip(&mut trips).filter(|(_, trips)| trips.is_ok()) {
                let sent = self.now();
                match self.members[i].to.send(&ToAgent::Clock) {
                    Ok(()) => drop(asked.insert(self.members[i].connection, (sent, trips))),
                    Err(e) => *trips = Err(e.to_string()),
                }
            }
            while !asked.is_empty() {
                let left = give_up.saturating_duration_since(Instant::now());
                match self.events.recv_timeout(left) {
                    Ok(Event::Said { connection, at, what: FromAgent::Clock { monotonic, time_of_day } }) => {
                        let Some((sent, Ok(trips))) = asked.remove(&connection) else { continue };
                        let received = self.at(at);
                        trips.add(sent, Reading { monotonic, time_of_day }, received);
                    }
                    Ok(event) => {
                        if let Event::Gone { connection, why } = &event
                            && let Some((_, trips)) = asked.remove(connection)
                        {
                            *trips = Err(why.clone());
                        }
                        self.kept.push_back(event);
                    }
                    Err(_) => {
                        let why = format!(
                            "its clock was asked, and no answer came for {} s",
                            CLOCK_TIME_MAX.as_secs()
                        );
                        std::mem::take(&mut asked)
                            .into_values()
                            .for_each(|(_, trips)| *trips = Err(why.clone()));
                    }
                }
            }
        }
        who.iter()
            .copied()
            .zip(trips.into_iter().map(|trips| trips.and_then(|trips| trips.compare())))
            .collect()
    }

    fn event(&mut self, wait: Duration) -> Option<Event> {
        self.kept.pop_front().or_else(|| self.events.recv_timeout(wait).ok())
    }

    fn heard(&mut self, event: Event, phase: &Phase, round: &mut Round) {
        let (Event::Said { connection, .. } | Event::Gone { connection, .. }) = &event else { return };
        let found = self.members.iter().position(|member| member.connection == *connection);
        let Some(i) = found.filter(|i| self.members[*i].gone.is_none()) else { return };
        match event {
            Event::Said { what: FromAgent::Done(Ok(done)), .. } => {
                let workers = phase.tasks.get(i).map_or(0, Vec::len);
                let checked = check::done(&done, workers);
                round.said(i, FromAgent::Done(checked.map(|()| done)));
            }
            Event::Said { what: FromAgent::Done(Err(Trouble(line))), .. } => {
                round.said(i, FromAgent::Done(Err(Trouble(check::plain(&line)))));
            }
            Event::Said { what, .. } => round.said(i, what),
            Event::Gone { why, .. } => self.lose(i, &why, round),
            Event::Joined(_) | Event::Refused { .. } => {}
        }
    }

    fn tell_all(&mut self, message: &ToAgent, round: &mut Round) {
        at_work(round).into_iter().for_each(|i| self.tell(i, message, round));
    }

    fn tell(&mut self, i: usize, message: &ToAgent, round: &mut Round) {
        if let Err(e) = self.members[i].to.send(message) {
            self.lose(i, &e.to_string(), round);
        }
    }

    fn lose(&mut self, i: usize, why: &str, round: &mut Round) {
        self.members[i].to.hang_up();
        self.members[i].gone = Some(why.to_owned());
        round.gone(i, why);
    }

    /// Present reading of the own clocks.
    fn now(&self) -> Reading {
        self.at(Instant::now())
    }

    fn at(&self, at: Instant) -> Reading {
        let time_of_day = nanoseconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        let since = nanoseconds(at.elapsed());
        Reading { monotonic: nanoseconds(at - self.epoch), time_of_day: time_of_day - since }
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        for member in self.members.iter_mut().filter(|member| member.gone.is_none()) {
            member.dismiss(self.why.as_deref());
        }
    }
}

fn at_work(round: &Round) -> Vec<usize> {
    round.at_work().collect()
}
