//! `load OPERATION DIR PROCESSES COUNT ROUNDS`: prints `operations=N seconds=S`.
//!
//! Each process works in a directory of its own, DIR/pK, on COUNT names. They get ready, wait for each other, and are
//! timed from the moment that all are told to go until the last is done; several rounds add up. Before a cold
//! operation the caches of this machine are dropped, so it needs root.
//!
//! ```text
//! parent             child K: load child OPERATION DIR/pK COUNT
//!        ◀─ "ready" ─┤  names prepared
//!   time ── "go"  ──▶│
//!        ◀─ "done N" ┤  once for each round; the end of its input ends it
//! ```

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use bench::operation::Operation;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["child", operation, dir, count] => child(operation, Path::new(dir), count),
        [operation, dir, processes, count, rounds] => {
            parent(operation, Path::new(dir), processes, count, rounds)
        }
        _ => Err(io::Error::other("usage: load OPERATION DIR PROCESSES COUNT ROUNDS")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("load: {e}");
            ExitCode::FAILURE
        }
    }
}

struct Worker {
    process: Child,
    tell: ChildStdin,
    told: BufReader<ChildStdout>,
}

impl Worker {
    fn start(operation: &str, dir: &Path, count: &str) -> io::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["child", operation])
            .arg(dir)
            .arg(count)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (tell, told) = (process.stdin.take(), process.stdout.take());
        let (Some(tell), Some(told)) = (tell, told) else { return Err(io::Error::other("no pipes")) };
        Ok(Self { process, tell, told: BufReader::new(told) })
    }

    /// The next line, and what follows `word` in it.
    fn hear(&mut self, word: &str) -> io::Result<String> {
        let mut line = String::new();
        self.told.read_line(&mut line)?;
        let rest = line.trim_end().strip_prefix(word);
        rest.map(|rest| rest.trim().to_owned()).ok_or_else(|| io::Error::other("a process failed"))
    }
}

fn parent(operation: &str, dir: &Path, processes: &str, count: &str, rounds: &str) -> io::Result<()> {
    let cold = operation.parse::<Operation>().map_err(io::Error::other)?.is_cold();
    let mut workers = (0..number(processes)?)
        .map(|k| Worker::start(operation, &dir.join(format!("p{k}")), count))
        .collect::<Result<Vec<_>, _>>()?;
    workers.iter_mut().try_for_each(|w| w.hear("ready").map(drop))?;
    let (mut operations, mut took) = (0, Duration::ZERO);
    for _ in 0..number(rounds)? {
        if cold {
            std::fs::write("/proc/sys/vm/drop_caches", "3")?;
        }
        let start = Instant::now();
        workers.iter_mut().try_for_each(|w| writeln!(w.tell, "go"))?;
        for worker in &mut workers {
            operations += number(&worker.hear("done")?)?;
        }
        took += start.elapsed();
    }
    for Worker { mut process, tell, .. } in workers {
        drop(tell);
        process.wait()?;
    }
    println!("operations={operations} seconds={:.6}", took.as_secs_f64());
    Ok(())
}

fn child(operation: &str, dir: &Path, count: &str) -> io::Result<()> {
    let operation: Operation = operation.parse().map_err(io::Error::other)?;
    let names = operation.prepare(dir, number(count)?)?;
    println!("ready");
    for line in io::stdin().lines() {
        line?;
        println!("done {}", operation.run(dir, &names)?);
    }
    Ok(())
}

fn number(text: &str) -> io::Result<usize> {
    text.parse().map_err(|_| io::Error::other(format!("{text}: not a number")))
}
