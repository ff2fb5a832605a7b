//! Lists of counts in text form: `1..21`, `1,2,4,8`, `1..4,8`.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// Maximal count, so that the threads fit the memory of a machine.
const COUNT_MAX: u64 = 100_000;

/// Counts of clients or processes, none of them 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts(pub Vec<u64>);

impl FromStr for Counts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a list of counts such as 4, 1..21 or 1,2,4,8");
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let number = digits.then(|| text.parse::<u64>().ok()).flatten();
            number.filter(|number| (1..=COUNT_MAX).contains(number)).ok_or_else(wrong)
        };
        let mut counts = Vec::new();
        for part in text.split(',') {
            match part.split_once("..") {
                Some((from, to)) => counts.extend(number(from)?..=number(to)?),
                None => counts.push(number(part)?),
            }
        }
        if counts.is_empty() { Err(wrong()) } else { Ok(Self(counts)) }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<String> = self.0.iter().map(u64::to_string).collect();
        f.write_str(&counts.join(","))
    }
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read() {
        let read = |text: &str| text.parse::<Counts>().map(|counts| counts.to_string());
        assert_eq!(read("4").as_deref(), Ok("4"));
        assert_eq!(read("1..4,8").as_deref(), Ok("1,2,3,4,8"));
        for text in ["", "0", "1,", "4..1", "1..", "-1", "+1", "a", "1..1000000000"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
