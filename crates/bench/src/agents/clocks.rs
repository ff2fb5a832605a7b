//! Comparison of two clocks over a network.
//!
//! ```text
//! ours      sent ──────────────────── received
//!                ╲                  ╱
//! theirs          ╲───── theirs ───╱
//! ```
//!
//! Their reading was made between the two own readings, whatever the delays of request and answer were. So
//! theirs - ours is at least `theirs - received` and at most `theirs - sent`. Each round trip gives such
//! bounds; all of them together are narrower than those of the fastest alone.

use std::time::Duration;

/// Round trip to another clock; both clocks in nanoseconds since an arbitrary start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// Own time of the request.
    pub sent: u64,
    /// Reading of the other clock.
    pub theirs: u64,
    /// Own time of the answer.
    pub received: u64,
}

/// Offset: their clock minus the own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offset {
    nanos: i128,
    error_nanos: u64,
}

impl Offset {
    /// Middle of the range that all round trips allow; none if they contradict each other, because one of the
    /// clocks was set meanwhile, or if there are none.
    #[must_use]
    pub fn of(round_trips: &[RoundTrip]) -> Option<Self> {
        let least =
            round_trips.iter().map(|trip| i128::from(trip.theirs) - i128::from(trip.received)).max()?;
        let most = round_trips.iter().map(|trip| i128::from(trip.theirs) - i128::from(trip.sent)).min()?;
        // Round up, so that it stays a bound.
        let error_nanos = u64::try_from(most - least).ok()?.div_ceil(2);
        Some(Self { nanos: least.midpoint(most), error_nanos })
    }

    /// Reading of their clock at the own time `ours`.
    #[must_use]
    pub fn theirs(&self, ours: u64) -> u64 {
        u64::try_from(i128::from(ours) + self.nanos).unwrap_or(0)
    }

    /// Lead of their clock in microseconds; negative: it is behind.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    pub fn ahead_us(&self) -> f64 {
        self.nanos as f64 / 1e3
    }

    /// Maximal error of the offset, in microseconds.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    pub fn error_us(&self) -> f64 {
        self.error_nanos as f64 / 1e3
    }
}

/// Readings of one machine's clocks at one time, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// Monotonic clock, since an arbitrary start.
    pub monotonic: u64,
    /// Wall clock, since 1970; it may be set.
    pub time_of_day: u64,
}

/// Round trips to one machine.
#[derive(Debug, Default)]
pub struct Trips {
    monotonic: Vec<RoundTrip>,
    time_of_day: Vec<RoundTrip>,
}

/// Result of the comparison of both clocks.
#[derive(Debug)]
pub struct Compared {
    /// Offset for the conversion of starts.
    pub monotonic: Offset,
    /// Offset for comparing logs; none if one of the clocks was set meanwhile.
    pub time_of_day: Option<Offset>,
}

impl Trips {
    /// Adds a round trip.
    pub fn add(&mut self, sent: Reading, theirs: Reading, received: Reading) {
        let trip = |of: fn(&Reading) -> u64| RoundTrip {
            sent: of(&sent),
            theirs: of(&theirs),
            received: of(&received),
        };
        self.monotonic.push(trip(|reading| reading.monotonic));
        self.time_of_day.push(trip(|reading| reading.time_of_day));
    }

    /// Compares the clocks by all round trips.
    ///
    /// # Errors
    /// When a monotonic clock does not run evenly.
    pub fn compare(&self) -> Result<Compared, String> {
        let monotonic = Offset::of(&self.monotonic).ok_or("its clock does not go evenly")?;
        Ok(Compared { monotonic, time_of_day: Offset::of(&self.time_of_day) })
    }
}

/// Nanoseconds of a duration; 64 bits hold more than five centuries.
#[must_use]
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Round trip to a clock that is `ahead`, with the given delays of request and answer.
    fn trip(ahead: i64, sent: u64, there: u64, back: u64) -> RoundTrip {
        let theirs = (sent + there).checked_add_signed(ahead).unwrap();
        RoundTrip { sent, theirs, received: sent + there + back }
    }

    #[test]
    fn ways_of_equal_length_give_the_offset_itself() {
        for ahead in [0, 7_000, -7_000, 5_000_000_000] {
            let offset = Offset::of(&[trip(ahead, 10_000_000, 300, 300)]).unwrap();
            assert_eq!((offset.nanos, offset.error_nanos), (i128::from(ahead), 300));
            assert_eq!(offset.theirs(10_000_000), 10_000_000_u64.checked_add_signed(ahead).unwrap());
        }
    }

    #[test]
    fn the_truth_is_within_the_error_however_lopsided_the_ways_are() {
        let ahead = -123_456;
        for trips in [
            vec![trip(ahead, 1_000_000, 1, 50_000)],
            vec![trip(ahead, 1_000_000, 9_000, 100), trip(ahead, 2_000_000, 100, 8_000)],
            vec![trip(ahead, 1_000_000, 0, 0), trip(ahead, 2_000_000, 77_777, 3)],
        ] {
            let offset = Offset::of(&trips).unwrap();
            let off_by = (offset.nanos - i128::from(ahead)).unsigned_abs();
            assert!(off_by <= u128::from(offset.error_nanos), "{trips:?}: {offset:?}");
        }
    }

    #[test]
    fn two_lopsided_ways_together_say_more_than_the_quicker_alone() {
        let trips = [trip(0, 1_000_000, 9_000, 100), trip(0, 2_000_000, 100, 8_000)];
        assert_eq!(Offset::of(&trips).unwrap().error_nanos, 100);
        assert_eq!(Offset::of(&trips[1..]).unwrap().error_nanos, 4050);
    }

    #[test]
    fn a_clock_that_was_set_in_between_has_no_offset() {
        assert_eq!(Offset::of(&[trip(0, 1_000, 10, 10), trip(5_000, 2_000, 10, 10)]), None);
        assert_eq!(Offset::of(&[]), None);
    }
}
