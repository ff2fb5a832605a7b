//! The binary `heorot`: runs a metaserver, a data server, or a whole cluster on one machine; and their
//! commands.
//!
//! In: a command line and configuration files. Out: the servers of the other crates, started with the real
//! clock, disks and sockets, and stopped in order. It has no file system logic.

mod admin;
mod boot;
mod cli;
mod commands;
mod config;
mod node;
mod process;
mod servers;

use std::process::ExitCode;

use clap::Parser;
use command_line::{Failure, limits, logging, signals, usage};

use crate::cli::{Cli, Command, DsCommand, bench_program, manual};
use crate::commands::{
    adopt, backup, boot as boot_command, check_config, clean, client, export, pool, quota, rebalance,
    restore, settings, snapshot, status, stripe, target, token, volume,
};
use crate::node::{init, run, up};
use crate::process::panics;
use crate::servers::{ds, mds};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(_) if bench_program::is_asked_for_help() => return ended(None, &bench_program::become_it()),
        Err(error) => usage::exit(&error),
    };
    // heorot-bench has its own logs, and makes files that other users may read.
    if !matches!(cli.command, Command::Bench(_) | Command::Model(_)) {
        logging::start(cli.log_json, cli.command.part(), logging::DEFAULT);
        limits::raise_open_files();
        limits::make_private();
    }
    let part = cli.command.part().map(str::to_owned);
    if cli.command.serves() {
        panics::end_the_process();
    }
    let outcome = match cli.command {
        Command::Up(args) => signals::run(up::up(args)),
        Command::Init(args) => init::init(&args),
        Command::Join(args) => signals::run(init::join(&args)),
        Command::Token(args) => token::token(&args),
        Command::Man(args) => manual::man(&args),
        Command::Completions(args) => manual::completions(&args),
        Command::Run(args) => signals::run(run::run(args)),
        Command::Mds(args) => signals::run(mds::mds(args)),
        Command::Ds(args) => match (args.command, args.run) {
            (Some(DsCommand::Adopt { admin }), _) => adopt::adopt(&admin),
            (None, Some(run)) => signals::run(ds::ds(run)),
            (None, None) => Err(Failure::new("name a configuration file: --config FILE".to_owned())),
        },
        Command::Status(args) => match status::status(&args) {
            Ok(verdict) => return verdict,
            Err(failure) => Err(failure),
        },
        Command::Backup(args) => backup::backup(&args),
        Command::Restore(args) => restore::restore(&args),
        Command::Node(command) => commands::node::node(&command),
        Command::Leader(args) => commands::node::leader(&args),
        Command::Target(command) => target::target(&command),
        Command::Pool(command) => pool::pool(&command),
        Command::Rebalance(args) => rebalance::rebalance(&args),
        Command::Files(args) => target::files(&args),
        Command::Stripe(command) => stripe::stripe(&command),
        Command::Volume(command) => volume::volume(&command),
        Command::Client(command) => client::client(&command),
        Command::Quota(command) => quota::quota(&command),
        Command::Snapshot(command) => snapshot::snapshot(&command),
        Command::Boot(command) => boot_command::boot(&command),
        Command::Export(command) => export::export(&command),
        Command::ServiceAddress(command) => settings::service_address(&command),
        Command::Set(args) => settings::set(&args),
        Command::Get(args) => settings::get(&args),
        Command::Clean(args) => clean::clean(&args),
        Command::CheckConfig(args) => check_config::check_config(&args),
        Command::Bench(_) | Command::Model(_) => Err(bench_program::become_it()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => ended(part.as_deref(), &failure),
    }
}

/// Prints the failure of a command; returns its exit status.
fn ended(part: Option<&str>, failure: &Failure) -> ExitCode {
    match part {
        Some(part) => eprintln!("heorot: {part}: {failure}"),
        None => eprintln!("heorot: {failure}"),
    }
    failure.code().into()
}
