//! `lab run CONFIG.toml`: builds a cluster with links of a given speed on this machine, runs the commands of
//! the file, prints results next to those of a plain TCP stream, and removes the cluster.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use lab::config::{Cluster, Config, System};
use lab::experiment::{Experiment, Speed};
use lab::{Error, Link, Result, interrupt, table};

/// A cluster on one machine, with links as fast as you say
#[derive(Debug, Parser)]
#[command(name = "lab")]
struct Arguments {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Build the clusters of a configuration, one after the other, and run its benchmarks on each
    Run {
        /// Such as lab/one-client.toml
        #[arg(required = true)]
        configs: Vec<PathBuf>,
        /// Keep the results there, a JSON file for each run of each cluster
        #[arg(long, value_name = "FOLDER")]
        out: Option<PathBuf>,
    },
    /// Remove what labs left whose driver was killed; the next run does it, too
    Clean,
}

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    let done = interrupt::watch().and_then(|()| match command {
        Verb::Run { configs, out } => configs.iter().try_for_each(|config| run(config, out.as_deref())),
        Verb::Clean => {
            lab::remove_those_of_the_dead();
            Ok(())
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("lab: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run(file: &Path, out: Option<&Path>) -> Result<()> {
    let config = Config::read(file)?;
    println!("# {}\n", config.title);
    for (number, cluster) in config.clusters.iter().enumerate() {
        let name = format!("{}-{number}", file.file_stem().unwrap_or_default().to_string_lossy());
        one(&config, cluster, &name, out)?;
    }
    Ok(())
}

fn one(config: &Config, cluster: &Cluster, name: &str, out: Option<&Path>) -> Result<()> {
    let version = match cluster.system {
        System::Heorot => &config.mount,
        System::Ganesha => "vers=4.2",
    };
    println!("## {}, {version}\n", cluster.title());
    let experiment = Experiment::build(config, cluster)?;
    let mut speed = experiment.speed()?;
    say_speed(experiment.link(), speed);
    for run in &config.runs {
        let report = experiment.run(run)?;
        let Some(mut results) = report.results else {
            println!("{}:\n\n```\n{}```\n", run.name, report.text);
            continue;
        };
        // Measure again: the machine may have had other load the first time.
        speed = speed.or_quicker(experiment.speed()?);
        // A name without the lab's addresses, so that a report shows several clusters of one system as one
        // curve.
        results.system = format!("{}, {version}", cluster.system.name());
        table::set_bounds(&mut results, cluster, config.mount != "vers=3", speed);
        println!("{}:\n\n{}{}", run.name, table::HEADING, table::rows(&results));
        println!("{}\n", table::cpu(&results, report.cpu_seconds));
        say_speed(experiment.link(), speed);
        if let Some(folder) = out {
            let file = folder.join(format!("{name}-{}.json", run.name));
            let text =
                serde_json::to_string_pretty(&results).map_err(|e| Error::Impossible(e.to_string()))?;
            std::fs::create_dir_all(folder)
                .and_then(|()| std::fs::write(&file, text))
                .map_err(|why| Error::Io { doing: format!("write {}", file.display()), why })?;
        }
    }
    Ok(())
}

fn say_speed(link: Link, speed: Speed) {
    println!(
        "Links of {} Mbit/s; I, a plain TCP stream: {:.2} Mbit/s to the server, {:.2} Mbit/s from it. R, the disk, with \
         records of 1 MiB one after the other: {:.0} MB/s.\n",
        link.mbit,
        speed.up * 8.0 / 1e6,
        speed.down * 8.0 / 1e6,
        speed.disk / 1e6
    );
}
