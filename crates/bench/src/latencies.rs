//! Latency histogram, which machines send to each other and merge.
//!
//! Thirty-two buckets for each power of two of nanoseconds: the error is at most 3 % for any value. Not
//! hdrhistogram: its buckets differ, so results would differ from those of earlier builds, and here the check
//! of a received histogram is short ([`Latencies::are_sound`]).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

const FRACTION_BITS: u32 = 5;

/// Latency histogram.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Count of each bucket.
    counts: BTreeMap<u16, u64>,
}

impl Latencies {
    /// Adds one operation.
    pub fn add(&mut self, took: Duration) {
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        *self.counts.entry(bucket(nanoseconds)).or_default() += 1;
    }

    /// Merges the histogram of another worker.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.counts {
            *self.counts.entry(*bucket).or_default() += count;
        }
    }

    /// True if a received histogram is valid.
    #[must_use]
    pub fn are_sound(&self) -> bool {
        const COUNT_MAX: u64 = 1 << 48;
        let last = bucket(u64::MAX);
        self.counts.iter().all(|(bucket, count)| *bucket <= last && *count <= COUNT_MAX)
    }

    /// Minimum, median, 99th percentile and maximum, in microseconds; zeros for no operations.
    #[must_use]
    pub fn summary_us(&self) -> [f64; 4] {
        let count: u64 = self.counts.values().sum();
        let rank = |rank: u64| {
            let mut seen = 0;
            let found = self.counts.iter().find(|(_, count)| {
                seen += **count;
                seen > rank
            });
            found.map_or(0.0, |(bucket, _)| middle(*bucket) / 1000.0)
        };
        let last = count.saturating_sub(1);
        [rank(0), rank(last / 2), rank(last - last / 100), rank(last)]
    }
}

/// Bucket of a value: each value below 2^5 has its own; above, the five bits after the first one select it.
fn bucket(value: u64) -> u16 {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(FRACTION_BITS + 1);
    // At most 58 << 5 | 63.
    u16::try_from((u64::from(shift) << FRACTION_BITS) + (value >> shift)).unwrap_or(u16::MAX)
}

fn middle(bucket: u16) -> f64 {
    let shift = (u32::from(bucket) >> FRACTION_BITS).saturating_sub(1);
    let low = (u64::from(bucket) - (u64::from(shift) << FRACTION_BITS)) << shift;
    low as f64 + ((1_u64 << shift) - 1) as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_time_is_known_within_three_percent() {
        for value in
            (0..64).flat_map(|bit| [1_u64 << bit, (1_u64 << bit) | (1_u64 << bit) >> 1, u64::MAX >> bit])
        {
            let known = middle(bucket(value));
            assert!((known - value as f64).abs() <= value as f64 * 0.03, "{value}: {known}");
        }
    }

    #[test]
    fn workers_add_up() {
        let mut all = Latencies::default();
        assert_eq!(all.summary_us(), [0.0; 4]);
        let mut other = Latencies::default();
        (1..=50).for_each(|us| all.add(Duration::from_micros(us)));
        (51..=100).for_each(|us| other.add(Duration::from_micros(us)));
        all.merge(&other);
        for (known, exact) in all.summary_us().into_iter().zip([1.0, 50.0, 99.0, 100.0]) {
            assert!((known - exact).abs() <= exact * 0.03, "{known} {exact}");
        }
    }
}
