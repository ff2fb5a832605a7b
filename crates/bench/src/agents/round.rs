//! State machine of one phase at the coordinator: messages of agents in, next actions out. It has no clock
//! and no connections.
//!
//! ```text
//! Preparing ─ Ready ─▶ Ready ──(all)──▶ Working ─ Reached ─▶ AtWall ──(all)──▶ Working ─ Done ─▶ Ended
//!     └────────────── Done, or the connection is gone: from any state ───────────────────────────────┘
//! ```

use crate::agents::message::FromAgent;
use crate::phase::AgentDone;
use crate::trouble::Trouble;
use crate::work::Progress;

/// State of one phase.
#[derive(Debug)]
pub struct Round {
    agents: Vec<Agent>,
    stop: Stop,
    trouble: Option<Trouble>,
}

#[derive(Debug)]
struct Agent {
    name: String,
    state: State,
    progress: Progress,
}

#[derive(Debug, PartialEq)]
enum State {
    Preparing,
    Ready,
    Working,
    AtWall(u64),
    /// Ended; none after an error, or if the agent is gone.
    Ended(Option<AgentDone>),
}

#[derive(Debug, PartialEq)]
enum Stop {
    No,
    Wanted,
    Told,
}

/// Next action. It stays the next until the caller reports it done: [`Round::started`] and so on.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Wait for messages.
    Wait,
    /// All agents are ready: compare clocks, and start them.
    Start,
    /// All agents are at the stonewall: send them the highest count.
    GoOn(u64),
    /// Stop the agents that still work.
    Stop,
    /// All agents have ended.
    End,
}

impl Round {
    /// State in which all agents prepare; `names` are for messages.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let agent = |name| Agent { name, state: State::Preparing, progress: Progress::default() };
        let agents = names.into_iter().map(agent).collect();
        Self { agents, stop: Stop::No, trouble: None }
    }

    /// Handles a message of an agent.
    pub fn said(&mut self, agent: usize, what: FromAgent) {
        let Agent { name, state, progress } = &mut self.agents[agent];
        match (&state, what) {
            (State::Preparing, FromAgent::Ready) => *state = State::Ready,
            (State::Working | State::AtWall(_), FromAgent::Progress(now)) => *progress = now,
            (State::Working, FromAgent::Reached { count }) => *state = State::AtWall(count),
            (State::Ended(_), _) => {}
            (_, FromAgent::Done(Ok(done))) => *state = State::Ended(Some(done)),
            (_, FromAgent::Done(Err(trouble))) => {
                let line = format!("{name}: {trouble}");
                self.failed(agent, line);
            }
            (state, what) => {
                let line =
                    format!("{name} said {what:?} when it was {state:?}: it is no agent of this version");
                self.failed(agent, line);
            }
        }
    }

    /// Handles the loss of an agent.
    pub fn gone(&mut self, agent: usize, why: &str) {
        let line = format!("agent {} is gone: {why}", self.agents[agent].name);
        self.failed(agent, line);
    }

    /// Requests a stop, for the user.
    pub fn stop(&mut self) {
        if self.stop == Stop::No {
            self.stop = Stop::Wanted;
        }
    }

    /// Returns the next action.
    pub fn next(&self) -> Next {
        let mut at_work = self.at_work().map(|i| &self.agents[i].state);
        let Some(first) = at_work.clone().next() else { return Next::End };
        match (&self.stop, first) {
            (Stop::Wanted, _) => Next::Stop,
            (Stop::Told, _) => Next::Wait,
            (Stop::No, State::Ready) if at_work.all(|state| *state == State::Ready) => Next::Start,
            (Stop::No, State::AtWall(_)) => {
                let counts: Option<Vec<u64>> = at_work.map(State::count).collect();
                counts.and_then(|counts| counts.into_iter().max()).map_or(Next::Wait, Next::GoOn)
            }
            _ => Next::Wait,
        }
    }

    /// Records that all agents got the start.
    pub fn started(&mut self) {
        self.change(|state| matches!(state, State::Ready), || State::Working);
    }

    /// Records that all agents got the highest count.
    pub fn gone_on(&mut self) {
        self.change(|state| matches!(state, State::AtWall(_)), || State::Working);
    }

    /// Records that all agents got the stop.
    pub fn told_to_stop(&mut self) {
        self.stop = Stop::Told;
    }

    /// Progress of all agents.
    pub fn progress(&self) -> Progress {
        self.agents.iter().fold(Progress::default(), |sum, agent| Progress {
            bytes: sum.bytes.saturating_add(agent.progress.bytes),
            operations: sum.operations.saturating_add(agent.progress.operations),
        })
    }

    /// Indices of agents that have not ended.
    pub fn at_work(&self) -> impl Iterator<Item = usize> + Clone {
        let at_work = self.agents.iter().enumerate().filter(|(_, a)| !matches!(a.state, State::Ended(_)));
        at_work.map(|(i, _)| i)
    }

    /// Results of all agents, or the first error.
    pub fn end(self) -> Result<Vec<AgentDone>, Trouble> {
        if let Some(trouble) = self.trouble {
            return Err(trouble);
        }
        let done = |agent: Agent| match agent.state {
            State::Ended(Some(done)) => Ok(done),
            _ => Err(Trouble(format!("{} has not ended", agent.name))),
        };
        self.agents.into_iter().map(done).collect()
    }

    fn failed(&mut self, agent: usize, line: String) {
        self.agents[agent].state = State::Ended(None);
        self.trouble.get_or_insert(Trouble(line));
        self.stop();
    }

    fn change(&mut self, from: impl Fn(&State) -> bool, to: impl Fn() -> State) {
        for agent in self.agents.iter_mut().filter(|agent| from(&agent.state)) {
            agent.state = to();
        }
    }
}

impl State {
    fn count(&self) -> Option<u64> {
        match self {
            Self::AtWall(count) => Some(*count),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round() -> Round {
        Round::new(["ash".to_owned(), "elm".to_owned()])
    }

    fn said(round: &mut Round, agent: usize, what: FromAgent) -> Next {
        round.said(agent, what);
        round.next()
    }

    fn working() -> Round {
        let mut round = round();
        assert_eq!(said(&mut round, 0, FromAgent::Ready), Next::Wait);
        assert_eq!(said(&mut round, 1, FromAgent::Ready), Next::Start);
        round.started();
        assert_eq!(round.next(), Next::Wait);
        round
    }

    fn done() -> FromAgent {
        FromAgent::Done(Ok(AgentDone::default()))
    }

    fn trouble(line: &str) -> FromAgent {
        FromAgent::Done(Err(Trouble(line.to_owned())))
    }

    #[test]
    fn all_get_ready_start_and_end() {
        let mut round = working();
        let progress = |bytes| FromAgent::Progress(Progress { bytes, operations: 1 });
        round.said(0, progress(5));
        round.said(1, progress(7));
        round.said(1, progress(8));
        assert_eq!(round.progress(), Progress { bytes: 13, operations: 2 });
        assert_eq!(said(&mut round, 1, done()), Next::Wait);
        assert_eq!(round.at_work().collect::<Vec<_>>(), [0]);
        assert_eq!(said(&mut round, 0, done()), Next::End);
        assert_eq!(round.end().unwrap().len(), 2);
    }

    #[test]
    fn at_the_stonewall_all_go_on_to_the_highest_count() {
        let mut round = working();
        assert_eq!(said(&mut round, 1, FromAgent::Reached { count: 90 }), Next::Wait);
        assert_eq!(said(&mut round, 0, FromAgent::Reached { count: 70 }), Next::GoOn(90));
        round.gone_on();
        assert_eq!(said(&mut round, 0, done()), Next::Wait);
        assert_eq!(said(&mut round, 1, done()), Next::End);
    }

    #[test]
    fn who_has_ended_is_not_waited_for_at_the_stonewall() {
        let mut round = working();
        round.said(0, done());
        assert_eq!(said(&mut round, 1, FromAgent::Reached { count: 90 }), Next::GoOn(90));
        let mut round = working();
        round.said(1, FromAgent::Reached { count: 90 });
        assert_eq!(said(&mut round, 0, done()), Next::GoOn(90));
    }

    #[test]
    fn one_that_dies_ends_the_phase_and_is_named() {
        for mut round in [round(), working()] {
            round.gone(1, "connection reset");
            assert_eq!(round.next(), Next::Stop);
            round.told_to_stop();
            assert_eq!(round.next(), Next::Wait);
            assert_eq!(said(&mut round, 0, done()), Next::End);
            assert_eq!(round.end().unwrap_err().to_string(), "agent elm is gone: connection reset");
        }
    }

    #[test]
    fn the_first_trouble_is_what_is_told_and_nobody_starts_after_it() {
        let mut round = round();
        assert_eq!(said(&mut round, 0, trouble("no room")), Next::Stop);
        round.told_to_stop();
        assert_eq!(said(&mut round, 1, FromAgent::Ready), Next::Wait);
        assert_eq!(said(&mut round, 1, trouble("no room here either")), Next::End);
        assert_eq!(round.end().unwrap_err().to_string(), "ash: no room");
    }

    #[test]
    fn what_was_done_until_somebody_stopped_it_is_the_result() {
        for mut round in [round(), working()] {
            round.stop();
            assert_eq!(round.next(), Next::Stop);
            round.told_to_stop();
            round.stop();
            assert_eq!(said(&mut round, 0, done()), Next::Wait, "they are told once");
            assert_eq!(said(&mut round, 1, done()), Next::End);
            assert_eq!(round.end().unwrap().len(), 2);
        }
    }

    #[test]
    fn nonsense_is_trouble() {
        let mut round = round();
        assert_eq!(said(&mut round, 1, FromAgent::Reached { count: 1 }), Next::Stop);
        round.gone(0, "it left");
        assert_eq!(round.next(), Next::End);
        let line = round.end().unwrap_err().to_string();
        assert!(line.starts_with("elm said Reached { count: 1 } when it was Preparing"), "{line}");
    }
}
