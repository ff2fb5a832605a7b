//! Times in text form: `90s`, `30m`, `24h`, `7d`.

use std::time::Duration;

const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3600), ('m', 60), ('s', 1)];

/// Parses a time.
///
/// # Errors
/// One line with the right form.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a time such as 90s, 30m, 24h or 7d");
    let (unit, seconds) = UNITS.into_iter().find(|(unit, _)| text.ends_with(*unit)).ok_or_else(wrong)?;
    let digits = text.strip_suffix(unit).unwrap_or_default();
    let number = digits.parse::<u32>().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()));
    number.map(|number| Duration::from_secs(u64::from(number) * seconds)).ok_or_else(wrong)
}

/// Time in text form, also for [`parse`]: whole seconds, in the largest unit that fits.
#[must_use]
pub fn show(time: Duration) -> String {
    let seconds = time.as_secs();
    let fits = |(_, unit): &(char, u64)| seconds > 0 && seconds.is_multiple_of(*unit);
    let (unit, in_unit) = UNITS.into_iter().find(fits).unwrap_or(('s', 1));
    format!("{}{unit}", seconds / in_unit)
}

/// Time in the two largest units, rounded down: `59 s`, `59 min`, `23 h 1 min`, `6 d 23 h`.
#[must_use]
pub fn show_rounded(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 86_400, seconds / 3600, seconds / 60) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {} min", minutes % 60),
        (days, hours, _) => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_shown() {
        let cases = [("0s", 0), ("30s", 30), ("90s", 90), ("2m", 120), ("24h", 86_400), ("7d", 604_800)];
        for (text, seconds) in cases {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
            assert_eq!(
                parse(&show(Duration::from_secs(seconds))),
                Ok(Duration::from_secs(seconds)),
                "{text}"
            );
        }
        assert_eq!(show(Duration::from_secs(86_400)), "1d");
        for text in ["", "s", "7", "h", "24x", "1µ", "-1s", "+1s", "1.5h", "1w", "99999999999d", "1 d"] {
            assert!(parse(text).is_err(), "{text}");
        }
        for (seconds, text) in [(59, "59 s"), (3599, "59 min"), (82_860, "23 h 1 min"), (604_799, "6 d 23 h")]
        {
            assert_eq!(show_rounded(Duration::from_secs(seconds)), text);
        }
    }
}
