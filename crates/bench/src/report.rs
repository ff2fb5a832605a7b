//! Comparison of two systems, measured in turns: for each row the spread of both and of their ratio, as a
//! Markdown table.

use std::fmt::Write;

pub use crate::result::Unit;

/// Measurement of one row on one system.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Operations or bytes a second of wall-clock time.
    pub rate: f64,
    /// Seconds of the servers' user and system time for one operation, or for one byte.
    pub cpu: f64,
}

/// All samples of one row. Both samples of a pair were measured directly one after the other.
#[derive(Debug, Clone)]
pub struct Row {
    /// Name.
    pub name: String,
    /// Unit of the rate.
    pub unit: Unit,
    /// Samples of Heorot and of the other system.
    pub pairs: Vec<(Sample, Sample)>,
}

/// Minimum, median and maximum of some values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Minimum.
    pub min: f64,
    /// Median; of an even number of values the mean of the two in the middle.
    pub median: f64,
    /// Maximum.
    pub max: f64,
}

impl Spread {
    /// Spread of `values`; zeros without values.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (Some(min), Some(max)) = (values.first().copied(), values.last().copied()) else {
            return Self { min: 0.0, median: 0.0, max: 0.0 };
        };
        let half = values.len() / 2;
        let median =
            if values.len() % 2 == 1 { values[half] } else { (values[half - 1] + values[half]) / 2.0 };
        Self { min, median, max }
    }

    /// Text with `digits` after the point, and at least one below 10.
    fn show(&self, digits: usize) -> String {
        let Self { min, median, max } = self;
        let digits = if *median < 10.0 { digits.max(1) } else { digits };
        format!("{median:.digits$} ({min:.digits$}..{max:.digits$})")
    }
}

/// Markdown table: CPU is in microseconds for an operation and in seconds for a GiB; the median of each, and
/// in brackets minimum and maximum. Ratios are Heorot to the other system, pair by pair: a rate's should be
/// above 1, CPU's below.
#[must_use]
pub fn table(ours: &str, other: &str, rows: &[Row]) -> String {
    let mut out = format!(
        "| row | {ours} | {other} | rate ratio | CPU, {ours} | CPU, {other} | CPU ratio |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n"
    );
    for Row { name, unit, pairs } in rows {
        let (rate_unit, rate_scale, cpu_unit, cpu_scale, cpu_digits) = match unit {
            Unit::Operations => ("/s", 1.0, "µs", 1e6, 0),
            Unit::Bytes => (" MB/s", 1e-6, "s/GiB", f64::from(1 << 30), 2),
        };
        let spread = |value: &dyn Fn(&(Sample, Sample)) -> f64| Spread::of(pairs.iter().map(value));
        let rates = [spread(&|p| p.0.rate * rate_scale), spread(&|p| p.1.rate * rate_scale)];
        let cpus = [spread(&|p| p.0.cpu * cpu_scale), spread(&|p| p.1.cpu * cpu_scale)];
        let _ = writeln!(
            out,
            "| {name} | {}{rate_unit} | {}{rate_unit} | **{}** | {} {cpu_unit} | {} {cpu_unit} | **{}** |",
            rates[0].show(0),
            rates[1].show(0),
            spread(&|p| p.0.rate / p.1.rate).show(2),
            cpus[0].show(cpu_digits),
            cpus[1].show(cpu_digits),
            spread(&|p| p.0.cpu / p.1.cpu).show(2),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_shows_the_middle_and_the_spread_of_each_side_and_of_their_ratio() {
        let sample = |rate, cpu| Sample { rate, cpu };
        let row = Row {
            name: "mkdir".into(),
            unit: Unit::Operations,
            pairs: vec![
                (sample(300.0, 2e-4), sample(200.0, 1e-4)),
                (sample(100.0, 1e-4), sample(200.0, 1e-4)),
                (sample(200.0, 3e-4), sample(100.0, 1e-4)),
            ],
        };
        let text = table("A", "B", &[row]);
        let expected = "| mkdir | 200 (100..300)/s | 200 (100..200)/s | **1.50 (0.50..2.00)** | \
                        200 (100..300) µs | 100 (100..100) µs | **2.00 (1.00..3.00)** |";
        assert_eq!(text.lines().nth(2), Some(expected));
        assert_eq!(Spread::of([4.0, 1.0, 3.0, 2.0]).median, 2.5);
    }
}
