//! `make size`: the metadata of millions of files, through log, state machine and store of a metaserver.
//!
//! `size FILES DIRECTORIES LIMIT_MIB FOLDER`; LIMIT_MIB 0: no limit of memory.
//!
//! ```text
//! fill   a process creates directories and files, continues, and is killed (SIGKILL)
//! read   another process opens its directory, and measures that, look-ups, listings, removals, and a snapshot
//! ```
//!
//! With a limit both run in a memory cgroup of that size, page cache included, and the store uses a quarter
//! of it, as `heorot` chooses by itself on a machine of that size.

mod fill;
mod held;
mod machine;
mod read;
mod snapshot;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use held::Held;
use machine::Plan;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Memory that a metaserver uses on a large machine, at least.
const STORE_BYTES_UNLIMITED: usize = 1 << 30;
/// Time until the first process is killed: long enough for several flushes of the store.
const KILL_AFTER: Duration = Duration::from_millis(2500);

fn main() -> ExitCode {
    // `cargo bench` adds flags of its own.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["fill", plan @ ..] => Plan::parse(plan).and_then(|plan| fill::fill(&plan)),
        ["read", plan @ ..] => Plan::parse(plan).and_then(|plan| read::read(&plan)),
        [files, directories, limit, folder] => run(files, directories, limit, Path::new(folder)),
        _ => Err("usage: size FILES DIRECTORIES LIMIT_MIB FOLDER".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("size: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run(files: &str, directories: &str, limit: &str, folder: &Path) -> Result<(), Failure> {
    let limit_bytes = limit.parse::<u64>()? << 20;
    let store_bytes = if limit_bytes == 0 { STORE_BYTES_UNLIMITED } else { limit_bytes as usize / 4 };
    std::fs::create_dir_all(folder)?;
    let folder = tempfile::Builder::new().prefix("heorot-size.").tempdir_in(folder)?;
    let plan = Plan {
        files: files.parse()?,
        directories: directories.parse()?,
        store_bytes,
        folder: folder.path().to_owned(),
    };
    let held = if limit_bytes > 0 { Some(Held::new(limit_bytes)?) } else { None };
    let memory = held.as_ref().map_or("no limit of memory".to_owned(), |_| format!("held to {limit} MiB"));
    println!(
        "{} files in {} directories, {memory}, of which the store may use {} MiB\n",
        plan.files,
        plan.directories,
        store_bytes >> 20
    );
    println!("| what | figure |\n| --- | --- |");

    let (mut filler, mut lines) = start("fill", &plan, held.as_ref())?;
    show_until(&mut lines, "filled")?;
    std::thread::sleep(KILL_AFTER);
    filler.kill()?;
    filler.wait()?;

    let asked = Instant::now();
    let (mut reader, mut lines) = start("read", &plan, held.as_ref())?;
    show_until(&mut lines, "done")?;
    if !reader.wait()?.success() {
        return Err("the reading process failed".into());
    }
    eprintln!("read for {:.0?}", asked.elapsed());
    if let Some(held) = &held {
        println!("| times that the limit was met and memory taken back | {} |", held.limit_met());
    }
    Ok(())
}

/// A process of this program, which waits until it is in its cgroup.
fn start(role: &str, plan: &Plan, held: Option<&Held>) -> Result<(Child, BufReader<ChildStdout>), Failure> {
    let mut process = Command::new(std::env::current_exe()?)
        .arg(role)
        .args(plan.words())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(held) = held {
        held.take_in(process.id())?;
    }
    process.stdin.take().ok_or("no pipe")?.write_all(b"go\n")?;
    let lines = BufReader::new(process.stdout.take().ok_or("no pipe")?);
    Ok((process, lines))
}

/// Prints the output of the process, up to the line `last`.
fn show_until(lines: &mut BufReader<ChildStdout>, last: &str) -> Result<(), Failure> {
    let mut line = String::new();
    loop {
        line.clear();
        if lines.read_line(&mut line)? == 0 {
            return Err("a process ended early".into());
        }
        if line.trim() == last {
            return Ok(());
        }
        print!("{line}");
    }
}
