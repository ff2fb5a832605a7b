//! Rates and costs in text form: `100Mbit/s`, `12.5MB/s`, `0.75s/GiB`. A value of these types is above zero
//! and finite, and so are all quotients and sums of the model.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// Bytes a second, from [`Rate::MIN`] to [`Rate::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Rate(f64);

/// CPU-seconds for each byte, from [`CpuCost::MIN`] to [`CpuCost::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct CpuCost(f64);

const RATE_UNITS: [(&str, f64); 14] = [
    ("kbit/s", 1e3 / 8.0),
    ("Mbit/s", 1e6 / 8.0),
    ("Gbit/s", 1e9 / 8.0),
    ("Tbit/s", 1e12 / 8.0),
    ("bit/s", 1.0 / 8.0),
    ("KiB/s", 1024.0),
    ("MiB/s", 1_048_576.0),
    ("GiB/s", 1_073_741_824.0),
    ("TiB/s", 1_099_511_627_776.0),
    ("kB/s", 1e3),
    ("MB/s", 1e6),
    ("GB/s", 1e9),
    ("TB/s", 1e12),
    ("B/s", 1.0),
];

const COST_UNITS: [(&str, f64); 6] = [
    ("s/MiB", 1.0 / 1_048_576.0),
    ("s/GiB", 1.0 / 1_073_741_824.0),
    ("s/MB", 1e-6),
    ("s/GB", 1e-9),
    ("ns/B", 1e-9),
    ("s/B", 1.0),
];

impl Rate {
    /// Minimal rate: a lower one is a typing error.
    pub const MIN: f64 = 1.0;
    /// Maximal rate: more than all disks ever made; sums and products stay far within a double.
    pub const MAX: f64 = 1e18;

    /// Checked rate.
    ///
    /// # Errors
    /// One line with the right form.
    pub fn new(bytes_per_second: f64) -> Result<Self, String> {
        if (Self::MIN..=Self::MAX).contains(&bytes_per_second) {
            return Ok(Self(bytes_per_second));
        }
        Err(format!("{bytes_per_second} bytes/s is not a rate between 1 B/s and {:e} B/s", Self::MAX))
    }

    /// Bytes a second.
    #[must_use]
    pub fn bytes_per_second(self) -> f64 {
        self.0
    }

    /// A rate computed from checked rates; it may be beyond [`Rate::MAX`].
    pub(super) fn derived(bytes_per_second: f64) -> Self {
        Self(bytes_per_second)
    }

    /// Rate in bits, as for links: `100 Mbit/s`.
    #[must_use]
    pub fn in_bits(self) -> String {
        scaled(self.0 * 8.0, "bit/s")
    }
}

impl CpuCost {
    /// Minimal cost: a thousandth of a copy in memory.
    pub const MIN: f64 = 1e-15;
    /// Maximal cost: a byte a second.
    pub const MAX: f64 = 1.0;

    /// Checked cost.
    ///
    /// # Errors
    /// One line with the right form.
    pub fn new(seconds_per_byte: f64) -> Result<Self, String> {
        if (Self::MIN..=Self::MAX).contains(&seconds_per_byte) {
            return Ok(Self(seconds_per_byte));
        }
        Err(format!("{seconds_per_byte} CPU-seconds a byte is not a cost between {:e} and 1 s/B", Self::MIN))
    }

    pub(super) fn derived(seconds_per_byte: f64) -> Self {
        Self(seconds_per_byte)
    }

    /// CPU-seconds for each byte.
    #[must_use]
    pub fn seconds_per_byte(self) -> f64 {
        self.0
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes_per_second = parse(text, &RATE_UNITS).ok_or_else(|| {
            format!("{text:?} is not a rate such as 100Mbit/s, 10Gbit/s, 12.5MB/s or 1.2GiB/s")
        })?;
        Self::new(bytes_per_second)
            .map_err(|_| format!("{text:?} is not a rate between 1B/s and 1000000TB/s"))
    }
}

impl FromStr for CpuCost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let seconds_per_byte = parse(text, &COST_UNITS)
            .ok_or_else(|| format!("{text:?} is not a cost in CPU-seconds such as 0.75s/GiB or 0.7ns/B"))?;
        Self::new(seconds_per_byte)
            .map_err(|_| format!("{text:?} is not a cost between 0.000001ns/B and 1s/B"))
    }
}

/// Parses a decimal number with one of `units`, longer names first, to base units.
fn parse(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (digits, factor) =
        units.iter().find_map(|(unit, f)| Some((text.strip_suffix(unit)?.trim_end(), f)))?;
    // Rust's parser of numbers also accepts "nan", "inf" and "1e9".
    let plain = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number = digits.parse::<f64>().ok().filter(|_| plain)?;
    Some(number * factor)
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&scaled(self.0, "B/s"))
    }
}

impl fmt::Display for CpuCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s/GiB", significant(self.0 * 1_073_741_824.0))
    }
}

/// Number with a decimal prefix: 12500000 and `B/s` give `12.5 MB/s`.
#[must_use]
pub fn scaled(value: f64, unit: &str) -> String {
    const PREFIXES: [(f64, &str); 7] =
        [(1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];
    // A number that rounds up to the next prefix gets it: 999.96 kB/s is 1 MB/s.
    let (factor, prefix) = PREFIXES.into_iter().find(|(f, _)| value >= f * 0.99995).unwrap_or((1.0, ""));
    format!("{} {prefix}{unit}", significant(value / factor))
}

/// Number with at most four digits, without zeros at the end; whole numbers have no point.
#[must_use]
pub fn significant(value: f64) -> String {
    if !value.is_finite() {
        return value.to_string();
    }
    let before_point = if value.abs() < 1.0 { 1 } else { value.abs().log10() as usize + 1 };
    let mut text = format!("{value:.*}", 4_usize.saturating_sub(before_point));
    if value != 0.0 && text.bytes().all(|b| matches!(b, b'0' | b'.' | b'-')) {
        text = format!("{value:.1e}");
    } else if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_in_bits_and_bytes_decimal_and_binary() {
        let cases = [
            ("100Mbit/s", 12.5e6),
            ("94.11 Mbit/s", 11_763_750.0),
            ("10Gbit/s", 1.25e9),
            ("12.5MB/s", 12.5e6),
            ("1GiB/s", 1_073_741_824.0),
            ("8bit/s", 1.0),
            ("2TB/s", 2e12),
        ];
        for (text, bytes_per_second) in cases {
            assert_eq!(text.parse(), Ok(Rate(bytes_per_second)), "{text}");
        }
    }

    #[test]
    fn what_is_no_rate_is_refused_with_what_is_accepted() {
        let refused = [
            "",
            "MB/s",
            "100",
            "100Mbit",
            "100 Mbps",
            "100mbit/s",
            "12,5MB/s",
            "1.2.3MB/s",
            "-1MB/s",
            "+1MB/s",
            "NaNMB/s",
            "infMB/s",
            "1e9B/s",
            "0Mbit/s",
            "0.1B/s",
            "99999999999TB/s",
            ".MB/s",
        ];
        for text in refused {
            let error = text.parse::<Rate>().unwrap_err();
            assert!(error.contains("is not a rate") && !error.contains('\n'), "{text}: {error}");
        }
        assert!(
            Rate::new(f64::NAN).is_err() && Rate::new(f64::INFINITY).is_err() && Rate::new(-1.0).is_err()
        );
        assert!("100".parse::<Rate>().unwrap_err().contains("100Mbit/s"));
    }

    #[test]
    fn costs_are_read_for_each_byte() {
        assert_eq!("2ns/B".parse(), Ok(CpuCost(2e-9)));
        assert_eq!("1s/GB".parse(), Ok(CpuCost(1e-9)));
        assert_eq!("1s/GiB".parse(), Ok(CpuCost(1.0 / 1_073_741_824.0)));
        for text in ["0s/GiB", "1", "1s", "NaNs/GiB", "-1ns/B", "2s/B", "1s/KB"] {
            assert!(text.parse::<CpuCost>().unwrap_err().contains("is not a cost"), "{text}");
        }
        assert!(CpuCost::new(f64::NAN).is_err());
    }

    #[test]
    fn rates_are_shown_with_four_digits_at_most() {
        let cases = [
            (12.5e6, "12.5 MB/s"),
            (150e6, "150 MB/s"),
            (11_763_750.0, "11.76 MB/s"),
            (1.0, "1 B/s"),
            (999_960.0, "1 MB/s"),
            (1_234_000.0, "1.234 MB/s"),
            (1e18, "1 EB/s"),
        ];
        for (bytes_per_second, text) in cases {
            assert_eq!(Rate(bytes_per_second).to_string(), text);
        }
        assert_eq!(Rate(12.5e6).in_bits(), "100 Mbit/s");
        assert_eq!(significant(0.0), "0");
        assert_eq!(significant(0.75), "0.75");
        assert_eq!(significant(0.000_004), "4.0e-6");
        assert_eq!(significant(12345.6), "12346");
    }
}
