//! Command line: the commands of `heorot` that this program executes.

use bench::model::ModelArgs;
use clap::{Args, Parser, Subcommand};

/// Measures file systems and computes bounds of hardware: heorot bench and heorot model
#[derive(Debug, Parser)]
#[command(name = "heorot-bench", bin_name = "heorot", version, about)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// Log as JSON, one object a line
    #[arg(long, global = true)]
    pub log_json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Measure a file system: this one or any other that is mounted
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Say what hardware allows: how fast N clients can read or write, what binds, and what would double it
    Model(ModelArgs),
    /// Print this command line as JSON: heorot makes manual pages and completions of it
    #[command(hide = true)]
    Describe,
}

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one of it in a process")]
pub(super) enum BenchCommand {
    #[command(flatten)]
    Run(bench::run::Run),
    /// Make one page of files of results: tables, plots, each figure beside its bound, systems side by side
    Report(bench::page::ReportArgs),
    /// Work for a run on another machine, which was started there with --agents and --listen
    Join(JoinArgs),
}

#[derive(Debug, Args)]
pub(super) struct JoinArgs {
    /// Where the run waits for agents: what it was given as --listen
    #[arg(value_name = "ADDR[:PORT]")]
    pub address: String,
    /// What is measured, as this machine sees it: a directory on a mount, or
    /// nfs://host[:port]/path?version=4.2
    #[arg(value_name = "DIR|URL")]
    pub target: String,
    /// Measure it although nothing is mounted there
    #[arg(long)]
    pub not_a_mount: bool,
    /// Keep looking for the run for so long, if it does not wait there yet
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=86_400))]
    pub wait: u64,
    /// Say nothing but what went wrong
    #[arg(long, short)]
    pub quiet: bool,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::CommandFactory;
    use clap_complete::Shell;
    use command_line::description::Description;
    use command_line::documented::{Shown, commands, fault};
    use command_line::usage;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_in_the_documents_is_one_that_this_program_has() {
        let is_ours = |shown: &Shown| {
            ["heorot bench ", "heorot model "].iter().any(|ours| shown.line.starts_with(ours))
        };
        let ours: Vec<_> = commands("heorot").into_iter().filter(|(_, shown)| is_ours(shown)).collect();
        let faults = ours.iter().filter_map(|(file, shown)| {
            fault::<Cli>(shown).map(|why| format!("{}: `{}`: {why}", file.display(), shown.line))
        });
        let faults: Vec<_> = faults.collect();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
        assert!(ours.len() > 25, "{} commands: they are looked for in the wrong place", ours.len());
    }

    #[test]
    fn a_command_that_is_one_letter_off_is_found() {
        for line in [
            "heorot bench record-sizes /mnt",
            "heorot model --client 1",
            "heorot bench report A.json -p r.html",
        ] {
            let shown = Shown { section: String::new(), line: line.into(), is_block: true };
            assert!(fault::<Cli>(&shown).is_some(), "{line}");
        }
    }

    #[test]
    fn an_error_of_the_command_line_is_one_line() {
        let cases = [
            ("heorot model --link 5", "\"5\" is not a rate such as 100Mbit/s"),
            ("heorot model --clients -1", "invalid value '-1' for '--clients <N>'"),
            ("heorot model --client 1", "similar argument exists: '--clients'"),
            ("heorot model --disks 1 --disks-per-server 1", "cannot be used with"),
            ("heorot model --csv x", "--sweep <OPTION=RANGE>"),
        ];
        for (command, part) in cases {
            let text = usage::line(&Cli::try_parse_from(command.split(' ')).unwrap_err().to_string());
            assert!(
                text.contains(part) && !text.contains('\n') && !text.contains("Usage"),
                "{command}: {text}"
            );
            assert!(text.ends_with("; --help says more"), "{command}: {text}");
        }
    }

    /// Manual pages and completions, by page name or shell.
    fn packaged(command: clap::Command) -> BTreeMap<String, String> {
        let dir = tempfile::tempdir().unwrap();
        clap_mangen::generate_to(command.clone(), dir.path()).unwrap();
        let pages = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
        let pages = pages.map(|page| (page.display().to_string(), std::fs::read_to_string(&page).unwrap()));
        let pages = pages.map(|(name, text)| (name.rsplit('/').next().unwrap().to_owned(), text));
        let scripts = [Shell::Bash, Shell::Zsh, Shell::Fish].map(|shell| {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command.clone(), "heorot", &mut script);
            (shell.to_string(), String::from_utf8(script).unwrap())
        });
        pages.chain(scripts).collect()
    }

    #[test]
    fn a_described_command_line_has_the_same_manual_pages_and_completions() {
        let json = serde_json::to_string(&Description::of(&Cli::command())).unwrap();
        let described: BTreeMap<_, _> = serde_json::from_str::<Description>(&json).unwrap().into_commands();
        let mut heorot = clap::Command::new("heorot");
        let mut again = heorot.clone();
        for (name, description) in described.into_iter().filter(|(name, _)| name != "describe") {
            heorot = heorot.subcommand(Cli::command().find_subcommand(&name).unwrap().clone());
            again = again.subcommand(description.into_command());
        }
        let (native, described) = (packaged(heorot), packaged(again));
        assert_eq!(native.keys().collect::<Vec<_>>(), described.keys().collect::<Vec<_>>());
        assert!(native.contains_key("heorot-bench-record-size.1"), "{:?}", native.keys());
        for (name, text) in native {
            assert_eq!(described[&name], text, "{name}");
        }
    }
}
