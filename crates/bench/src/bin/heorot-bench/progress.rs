//! Progress of a run on standard error: a bar on a terminal, otherwise a line every few seconds, or nothing.
//! Results go to standard output, a line for each measurement.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use bench::phase::Phase;
use bench::result::Measurement;
use bench::session::Watcher;
use bench::table;
use bench::work::Progress;
use host::size;
use indicatif::{ProgressBar, ProgressStyle};

use crate::interrupt::Interrupt;

/// Interval of progress lines without a terminal.
const LINE_EACH: Duration = Duration::from_secs(5);

/// Watcher of a run for a user: progress on the terminal, and Ctrl-C.
pub(super) struct Shown {
    as_what: As,
    interrupt: Interrupt,
}

enum As {
    Bars(Option<Bar>),
    Lines(Option<Line>),
    Nothing,
}

/// Progress bar of one phase.
struct Bar {
    bar: ProgressBar,
    in_bytes: bool,
}

/// Progress lines of one phase.
struct Line {
    what: String,
    all: Progress,
    began: Instant,
    said: Instant,
}

impl Shown {
    pub(super) fn new(quiet: bool, interrupt: &Interrupt) -> Self {
        let as_what = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => As::Nothing,
            (false, true) => As::Bars(None),
            (false, false) => As::Lines(None),
        };
        Self { as_what, interrupt: interrupt.clone() }
    }
}

impl Watcher for Shown {
    fn begins(&mut self, phase: &Phase) {
        let all = phase.planned();
        match &mut self.as_what {
            As::Bars(bar) => *bar = Some(Bar::new(phase, all)),
            As::Lines(line) => {
                let now = Instant::now();
                *line = Some(Line { what: what(phase), all, began: now, said: now });
            }
            As::Nothing => {}
        }
    }

    fn goes_on(&mut self, progress: Progress) -> ControlFlow<()> {
        match &mut self.as_what {
            As::Bars(Some(bar)) => bar.show(progress),
            As::Lines(Some(line)) => line.show(progress),
            As::Bars(None) | As::Lines(None) | As::Nothing => {}
        }
        if self.interrupt.is_set() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn ended(&mut self, measurement: Option<&Measurement>) {
        if let As::Bars(bar) = &mut self.as_what {
            // Remove the bar before a line is printed in its place.
            drop(bar.take());
        }
        if let Some(measurement) = measurement {
            println!("{}", table::line(measurement));
        }
    }
}

impl Bar {
    fn new(phase: &Phase, all: Progress) -> Self {
        let in_bytes = all.bytes > 0;
        // With a time limit the total is unknown.
        let template = match (phase.limit, in_bytes) {
            (None, true) => "{msg} {wide_bar} {bytes}/{total_bytes}, {decimal_bytes_per_sec}, {eta} left",
            (None, false) => "{msg} {wide_bar} {human_pos}/{human_len}, {per_sec}, {eta} left",
            (Some(_), true) => "{msg} {spinner} {elapsed}, {bytes}, {decimal_bytes_per_sec}",
            (Some(_), false) => "{msg} {spinner} {elapsed}, {human_pos}, {per_sec}",
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(if in_bytes { all.bytes } else { all.operations }).with_style(style);
        Self { bar: bar.with_message(what(phase)), in_bytes }
    }

    fn show(&self, progress: Progress) {
        self.bar.set_position(if self.in_bytes { progress.bytes } else { progress.operations });
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Line {
    fn show(&mut self, progress: Progress) {
        if self.said.elapsed() < LINE_EACH {
            return;
        }
        self.said = Instant::now();
        eprintln!("{}", self.text(progress, self.began.elapsed()));
    }

    /// Text of the progress; the rate is the average since the phase began.
    fn text(&self, progress: Progress, took: Duration) -> String {
        let seconds = took.as_secs_f64();
        let Self { what, all, .. } = self;
        if all.bytes > 0 {
            let rate = progress.bytes as f64 / 1e6 / seconds;
            let (done, all) = (size::show(progress.bytes), size::show(all.bytes));
            format!("{what}: {done} of {all} in {seconds:.0} s, {rate:.1} MB/s")
        } else {
            let rate = progress.operations as f64 / seconds;
            format!("{what}: {} of {} in {seconds:.0} s, {rate:.0} /s", progress.operations, all.operations)
        }
    }
}

/// Name of a phase with its parameters: `write, record_bytes 65536`.
fn what(phase: &Phase) -> String {
    let at: String = phase.at.iter().map(|(name, value)| format!(", {name} {value}")).collect();
    format!("{}{at}", phase.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_much_of_how_much_and_how_fast() {
        let now = Instant::now();
        let line = |all| Line { what: "write, processes 2".into(), all, began: now, said: now };
        let progress = Progress { bytes: 50 << 20, operations: 800 };
        let text =
            line(Progress { bytes: 100 << 20, operations: 1600 }).text(progress, Duration::from_secs(5));
        assert_eq!(text, "write, processes 2: 50 MiB of 100 MiB in 5 s, 10.5 MB/s");
        let text = line(Progress { bytes: 0, operations: 1600 }).text(progress, Duration::from_secs(5));
        assert_eq!(text, "write, processes 2: 800 of 1600 in 5 s, 160 /s");
    }
}
