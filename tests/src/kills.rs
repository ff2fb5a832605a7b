//! Kills of servers under work of clients: how long each holds the clients up.

use std::time::Duration;

use crate::stalls::Stall;

const WORTH_TELLING: Duration = Duration::from_secs(2);
/// A stall that begins later after a kill has another cause.
const AFTER_A_KILL_SECONDS: f64 = 15.0;

/// The number in an environment variable, or the usual one.
///
/// # Panics
/// If the variable is no number.
pub fn number(variable: &str, usual: usize) -> usize {
    std::env::var(variable).map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}")))
}

/// Times of kills, by the clock of a client.
#[derive(Default)]
pub struct Kills(pub Vec<f64>);

impl Kills {
    /// Longest one of `stalls` for each kill: zero without a stall.
    fn longest(&self, stalls: &[Stall]) -> Vec<Duration> {
        let longest = |kill: &f64| {
            let held_up = stalls.iter().filter(|stall| {
                stall.began + stall.took.as_secs_f64() > *kill && stall.began < kill + AFTER_A_KILL_SECONDS
            });
            held_up.map(|stall| stall.took).max().unwrap_or_default()
        };
        self.0.iter().map(longest).collect()
    }

    /// Prints the median and the longest time that a client waited.
    ///
    /// # Panics
    /// If an operation took `limit` or longer.
    #[track_caller]
    pub fn tell(&self, what: &str, stalls: &[Stall], limit: Duration) {
        let mut each = self.longest(stalls);
        each.sort_unstable();
        let (median, longest) = (each[each.len() / 2], each[each.len() - 1]);
        println!(
            "{what}: {} kills; a client waited for {:.2} s (median), {:.2} s (longest)",
            each.len(),
            median.as_secs_f64(),
            longest.as_secs_f64()
        );
        for stall in stalls.iter().filter(|stall| stall.took > WORTH_TELLING) {
            let kill = self.0.iter().rev().find(|kill| **kill < stall.began + stall.took.as_secs_f64());
            println!("    {stall}, begun {:.2} s after a kill", stall.began - kill.unwrap_or(&0.0));
        }
        if let Some(stall) = stalls.iter().max_by_key(|stall| stall.took) {
            assert!(stall.took < limit, "{stall}");
        }
    }
}
