//! Reads, writes, truncates and maps a file at random, by seed, and compares it with a copy in memory after
//! each step. An idea of Apple's `fsx`. Runs inside a client machine.
//!
//! ```text
//! fsx FILE SEED STEPS [direct] [allocate]            alone
//! fsx FILE SEED STEPS shared BASE BYTES [allocate]   with others, on other machines or this one
//! ```
//!
//! Shared: step `n` of a seed is the same for every process. The part of the file from BASE on (BYTES of it,
//! or 0: to the end) begins with the number of steps done. A process that gets the part's byte-range lock
//! reads this number, performs the steps of others on its copy, compares, performs some steps, and writes the
//! new number.

mod file;
mod step;

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::time::Duration;

use file::{Tested, same};
use step::{Rules, Step};
use tests::Dice;

const FILE_BYTES_MAX: u64 = 3 << 20;
const SHOWN_STEPS: usize = 15;
/// Length of the counter at the begin of a shared part: the number of steps done, as a u64.
const COUNTER_BYTES: u64 = 8;
/// Maximal number of steps under one lock.
const TURN_STEPS_MAX: u64 = 4;

/// Copy in memory, and its history.
struct Copy {
    seed: u64,
    rules: Rules,
    bytes: Vec<u8>,
    done: u64,
    last: VecDeque<(u64, Step, bool)>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |index: usize| arguments.get(index).and_then(|n| n.parse::<u64>().ok()).unwrap_or_else(|| usage());
    let Some(path) = arguments.first() else { usage() };
    let (seed, steps) = (number(1), number(2));
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let shared = has("shared");
    let (base, fixed) = if shared { (number(4), number(5)) } else { (0, 0) };
    let rules = Rules {
        bytes_max: FILE_BYTES_MAX,
        base: if shared { base + COUNTER_BYTES } else { 0 },
        fixed_bytes: (fixed > 0).then(|| fixed - COUNTER_BYTES),
        direct: has("direct"),
        allocate: has("allocate"),
    };
    // A part of fixed size begins with zeros.
    let bytes = vec![0; (rules.base + rules.fixed_bytes.unwrap_or(0)) as usize];
    let mut copy = Copy { seed, rules, bytes, done: 0, last: VecDeque::new() };
    let outcome = Tested::open(Path::new(path), has("direct")).and_then(|mut file| {
        if shared {
            take_turns(&mut file, &mut copy, base, fixed, steps)
        } else {
            alone(&mut file, &mut copy, steps)
        }
    });
    match outcome {
        Ok(done) => println!("{done} steps of {steps}: equal"),
        Err(e) => {
            println!("fsx {}: seed {seed}, step {} of {steps}: {e}", arguments.join(" "), copy.done);
            println!("the copy has {} bytes; the last steps (+ done here):", copy.bytes.len());
            for (number, step, here) in &copy.last {
                println!("{number:6} {} {step:?}", if *here { '+' } else { ' ' });
            }
            std::process::exit(1);
        }
    }
}

fn usage() -> ! {
    eprintln!("fsx FILE SEED STEPS [direct] [allocate] | fsx FILE SEED STEPS shared BASE BYTES [allocate]");
    std::process::exit(2)
}

fn alone(file: &mut Tested, copy: &mut Copy, steps: u64) -> io::Result<u64> {
    while copy.done < steps {
        copy.step(Some(file))?;
        copy.compare(file)?;
    }
    // Once more from the servers.
    for step in [Step::Forget, Step::Reopen] {
        file.perform(&step, &copy.bytes, 0, 0)?;
    }
    copy.compare(file)?;
    Ok(steps)
}

/// Performs `steps` steps in this process, in turns with others.
fn take_turns(file: &mut Tested, copy: &mut Copy, base: u64, length: u64, steps: u64) -> io::Result<u64> {
    let mut here = 0;
    let mut dice = Dice::new(u64::from(std::process::id()));
    loop {
        while !file.lock(base, length, true)? {
            std::thread::sleep(Duration::from_millis(1 + dice.below(5)));
        }
        if file.size()? < copy.rules.base {
            file.write_at(base, &0u64.to_le_bytes())?; // the first one here
        }
        let counter = file.read(base, COUNTER_BYTES)?;
        let done = counter.try_into().map_or(0, u64::from_le_bytes);
        while copy.done < done.min(steps) {
            copy.step(None)?;
        }
        let mut turn = 0;
        if done > 0 {
            copy.compare(file)?;
        }
        while copy.done < steps && turn < 1 + dice.below(TURN_STEPS_MAX) {
            copy.step(Some(file))?;
            copy.compare(file)?;
            turn += 1;
        }
        file.write_at(base, &copy.done.to_le_bytes())?;
        file.lock(base, length, false)?;
        here += turn;
        if copy.done >= steps {
            return Ok(here);
        }
        // Give other processes a turn.
        std::thread::sleep(Duration::from_millis(dice.below(6)));
    }
}

impl Copy {
    /// Performs the next step on the copy, and before on the file if given.
    fn step(&mut self, file: Option<&mut Tested>) -> io::Result<()> {
        let number = self.done + 1;
        let mut dice = Dice::new(self.seed.wrapping_mul(0xe703_7ed1_a0b4_28db) ^ number);
        let step = loop {
            let step = Step::choose(&mut dice, self.bytes.len() as u64, &self.rules);
            // Close of any descriptor of a file releases its locks.
            if self.rules.base == 0
                || !matches!(step, Step::Reopen | Step::OpenTruncate | Step::Append { .. })
            {
                break step;
            }
        };
        if self.last.len() == SHOWN_STEPS {
            self.last.pop_front();
        }
        self.last.push_back((number, step, file.is_some()));
        self.done = number;
        if let Some(file) = file {
            file.perform(&step, &self.bytes, self.seed, number)?;
        }
        step.apply(&mut self.bytes, self.seed, number);
        Ok(())
    }

    fn compare(&self, file: &Tested) -> io::Result<()> {
        let (start, end) = (self.rules.base, self.bytes.len() as u64);
        if self.rules.fixed_bytes.is_some() {
            return same(start, &file.read(start, end - start)?, &self.bytes[start as usize..], "the file:");
        }
        let size = file.size()?;
        if size != end {
            return Err(io::Error::other(format!("{size} bytes, expected {end}")));
        }
        // Read one byte more than expected: its absence is part of the comparison.
        same(start, &file.read(start, end + 1 - start)?, &self.bytes[start as usize..], "the file:")
    }
}
