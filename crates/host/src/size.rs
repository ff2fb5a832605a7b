//! Sizes in text form: `65536`, `64KiB`, `1MiB`.

const UNITS: [(&str, u32); 5] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];

/// Parses a size; returns bytes.
///
/// # Errors
/// One line with the right form.
pub fn parse(text: &str) -> Result<u64, String> {
    let (digits, shift) = UNITS
        .iter()
        .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?.trim_end(), *shift)))
        .unwrap_or((text, 0));
    let number = digits.parse::<u64>().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()));
    let bytes = number.and_then(|n| n.checked_mul(1 << shift));
    bytes.ok_or_else(|| format!("{text:?} is not a size such as 65536, 64KiB, 1MiB or 2GiB"))
}

/// Size in text form: at most four digits and a unit.
#[must_use]
pub fn show(bytes: u64) -> String {
    let (unit, shift) = UNITS.into_iter().find(|(_, shift)| bytes >> shift > 0).unwrap_or(("B", 0));
    let tenths = (u128::from(bytes) * 10) >> shift;
    match tenths % 10 {
        tenth if tenth != 0 && tenths < 1000 => format!("{}.{tenth} {unit}", tenths / 10),
        _ => format!("{} {unit}", tenths / 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        let cases = [("0", 0), ("65536", 65_536), ("64KiB", 65_536), ("1 MiB", 1 << 20), ("2TiB", 2 << 40)];
        for (text, bytes) in cases {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "MiB", "1MB", "1M", "-1", "+1", "1.5GiB", "99999999999TiB", "0x10"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_shown() {
        let cases =
            [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 20, "1 MiB"), (150 << 30, "150 GiB")];
        for (bytes, text) in cases {
            assert_eq!(show(bytes), text);
        }
    }
}
