//! `heorot bench`: measures a file system.

use std::net::TcpListener;
use std::time::Duration;

use bench::agents::{self, Coordinator};
use bench::common::Common;
use bench::output::Output;
use bench::run::Run;
use bench::team::{Local, Team};
use bench::{session, table, target};
use command_line::Failure;

use crate::cli::{BenchCommand, JoinArgs};
use crate::interrupt::Interrupt;
use crate::progress::Shown;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// `heorot bench`.
pub(super) fn bench(command: &BenchCommand) -> Result<(), Failure> {
    match command {
        BenchCommand::Run(one) => run(one),
        BenchCommand::Report(args) => bench::page::report(args).map_err(Failure::new),
        BenchCommand::Join(args) => join(args),
    }
}

fn run(run: &Run) -> Result<(), Failure> {
    let (name, target, common, plan) = run.parts();
    let mut output = Output::open(common.output.as_deref())?;
    let interrupt = Interrupt::catch()?;
    let mut crowd = match (target, common.agents, &common.listen) {
        (_, Some(agents), Some(listen)) => Crowd::Many(gather(agents, listen, common, &interrupt)?),
        (Some(target), ..) => Crowd::Here(Local::new(target::open(target, common.not_a_mount)?)),
        _ => return Err(Failure::new("nothing to measure: give a directory, or --agents and --listen")),
    };
    let mut shown = Shown::new(common.quiet, &interrupt);
    let conducted = session::conduct(name, plan, common, crowd.team(), &mut shown);
    let ended_by = match &conducted {
        Ok((results, _)) => results.ended_by.clone(),
        Err(trouble) => Some(trouble.to_string()),
    };
    crowd.ended_by(ended_by);
    let (results, trouble) = conducted?;
    print!("{}", table::scores(&results.scores));
    output.write(&results)?;
    match trouble {
        Some(trouble) => Err(trouble.into()),
        None if results.partial => {
            Err(Failure::interrupted("ended by Ctrl-C: the results are marked partial"))
        }
        None => Ok(()),
    }
}

fn join(args: &JoinArgs) -> Result<(), Failure> {
    let JoinArgs { address, target, not_a_mount, wait, quiet } = args;
    let patience = Duration::from_secs(*wait);
    let target = target::open(target, *not_a_mount)?;
    Ok(agents::join(&agents::with_port(address), VERSION, target, patience, &mut say(*quiet))?)
}

/// Team that executes a run.
enum Crowd {
    Here(Local),
    Many(Coordinator),
}

impl Crowd {
    fn team(&mut self) -> &mut dyn Team {
        match self {
            Self::Here(local) => local,
            Self::Many(coordinator) => coordinator,
        }
    }

    fn ended_by(&mut self, why: Option<String>) {
        if let Self::Many(coordinator) = self {
            coordinator.ended_by(why);
        }
    }
}

fn gather(wanted: u16, listen: &str, common: &Common, interrupt: &Interrupt) -> Result<Coordinator, Failure> {
    let address = agents::with_port(listen);
    let listener = TcpListener::bind(&address);
    let listener = listener.map_err(|e| {
        Failure::new(format!("listen on {address}: {e}: name a free port of this machine with --listen"))
    })?;
    let mut say = say(common.quiet);
    say(&format!("waiting for {wanted} agents: on each machine, run heorot bench join {address} DIR"));
    let gathered = agents::gather(listener, wanted.into(), VERSION, &mut say, &|| interrupt.is_set());
    gathered.map_err(|trouble| match interrupt.is_set() {
        true => Failure::interrupted(trouble.to_string()),
        false => trouble.into(),
    })
}

/// Prints a line to standard error: standard output is for results.
fn say(quiet: bool) -> impl FnMut(&str) {
    move |line| {
        if !quiet {
            eprintln!("{line}");
        }
    }
}
