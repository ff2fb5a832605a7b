//! Session: one run from beginning to end. It makes the folder, executes the phases with a team, collects the
//! results, and removes the folder.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::common::Common;
use crate::model;
use crate::phase::{AgentDone, Phase};
use crate::result::{Measurement, Results, SCHEMA};
use crate::run::{Place, Plan, Settings};
use crate::space;
use crate::team::{Team, Watch};
use crate::trouble::Trouble;
use crate::work::Progress;
use crate::{measured, task::Task};

/// Observer of a run, which may end it.
pub trait Watcher {
    /// Reports the begin of a phase.
    fn begins(&mut self, phase: &Phase);
    /// Reports progress, a few times a second; `Break` ends the run with the partial result.
    fn goes_on(&mut self, progress: Progress) -> ControlFlow<()>;
    /// Reports the end of a phase; without a measurement for a preparation.
    fn ended(&mut self, measurement: Option<&Measurement>);
}

/// Cause of an early end.
const INTERRUPTED: &str = "Ctrl-C";

/// Executes a run. Returns the results also after an early end, marked as partial, with the error if there
/// was one.
///
/// # Errors
/// Error before the run begins.
pub fn conduct(
    name: &str,
    plan: &dyn Plan,
    common: &Common,
    team: &mut dyn Team,
    watcher: &mut dyn Watcher,
) -> Result<(Results, Option<Trouble>), Trouble> {
    let now = SystemTime::now();
    let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = common.seed.unwrap_or(since_1970.as_secs());
    let own = || format!("heorot-bench-{:x}", since_1970.as_micros());
    let folder = common.folder.clone().unwrap_or_else(own);
    common.hardware()?; // before anything is made
    let place = Place::new(common, team, folder.clone(), seed);
    let phases = plan.phases(&place)?;
    space::check(&phases, team.free_bytes())?;

    let machines = team.machines();
    let system = machines.first().map_or_else(String::new, |machine| machine.target.clone());
    let mut settings = plan.settings();
    settings.extend(common.settings());
    settings.extend(common.hardware.settings());
    settings.insert("seed".into(), seed.to_string());
    let mut results = Results {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        system: common.name.clone().unwrap_or(system),
        started: humantime::format_rfc3339_seconds(now).to_string(),
        run: name.to_owned(),
        settings,
        machines,
        partial: false,
        ended_by: None,
        measurements: vec![],
        scores: BTreeMap::new(),
    };

    let mut quiet = |_| ControlFlow::Continue(());
    team.run(&place.aside(Task::Make(folder.clone())), &mut quiet)?;
    let trouble = all(plan, phases, &place, common, team, watcher, &mut results).err();
    let clear = place.aside_by(team.living(), Task::Clear(folder));
    let cleared = if common.keep { Ok(vec![]) } else { team.run(&clear, &mut quiet) };
    results.machines = team.machines();
    if let Some(trouble) = &trouble {
        results.ended_by = Some(trouble.to_string());
    }
    results.partial = results.ended_by.is_some();
    results.scores = if results.partial { BTreeMap::new() } else { plan.scores(&results.measurements) };
    Ok((results, trouble.or(cleared.err())))
}

/// Executes all phases, and those that follow from their results.
fn all(
    plan: &dyn Plan,
    mut phases: Vec<Phase>,
    place: &Place,
    common: &Common,
    team: &mut dyn Team,
    watcher: &mut dyn Watcher,
    results: &mut Results,
) -> Result<(), Trouble> {
    let hardware = common.hardware()?;
    let mut done = Vec::new();
    while !phases.is_empty() {
        for phase in phases {
            if let (true, Some(command)) = (phase.counts, &common.before) {
                before(command, &phase.name)?;
            }
            let (agents, interrupted) = one(&phase, team, watcher)?;
            if phase.counts {
                let mut measurement = measured::measurement(&phase, &agents, interrupted);
                measurement.at.extend(common.at.iter().cloned());
                measurement.bound = hardware.and_then(|hardware| model::bound(&hardware, &phase));
                measured::refuse_cached(&phase, &agents)?;
                watcher.ended(Some(&measurement));
                results.measurements.push(measurement);
            } else {
                watcher.ended(None);
            }
            if interrupted {
                results.ended_by = Some(INTERRUPTED.to_owned());
                return Ok(());
            }
            done.push((phase, agents));
        }
        phases = plan.more(place, &done)?;
    }
    Ok(())
}

/// Runs the user's command of `--before`.
fn before(command: &str, phase: &str) -> Result<(), Trouble> {
    let mut shell = Command::new("sh");
    let status = shell.args(["-c", command]).env("HEOROT_BENCH_PHASE", phase).status();
    match status.map_err(|e| Trouble::io(&format!("run {command:?} before {phase}"), &e))? {
        status if status.success() => Ok(()),
        status => Err(Trouble(format!(
            "{command:?}, run before {phase}, ended with {status}: mend what --before says"
        ))),
    }
}

fn one(
    phase: &Phase,
    team: &mut dyn Team,
    watcher: &mut dyn Watcher,
) -> Result<(Vec<AgentDone>, bool), Trouble> {
    watcher.begins(phase);
    let mut interrupted = false;
    let watch: &mut Watch<'_> = &mut |progress| {
        let answer = watcher.goes_on(progress);
        interrupted |= answer.is_break();
        answer
    };
    let agents = team.run(phase, watch)?;
    Ok((agents, interrupted))
}
