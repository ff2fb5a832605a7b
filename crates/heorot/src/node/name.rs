//! Names of machines, in commands, tables and labels of metrics.

/// Maximal length in bytes, for tables.
const BYTES_MAX: usize = 64;

/// Parses a name from a command line or a file.
///
/// # Errors
/// One line with the cause.
pub(crate) fn parse(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > BYTES_MAX {
        return Err(format!("a name has from 1 to {BYTES_MAX} bytes, and this has {}", text.len()));
    }
    let fits = |c: char| c.is_alphanumeric() || ['-', '_', '.'].contains(&c);
    match text.chars().find(|c| !fits(*c)) {
        Some(c) => {
            Err(format!("{text:?} has {c:?} in it, and a name has letters, digits, '-', '_' and '.' only"))
        }
        None if text.starts_with(['-', '.']) => {
            Err(format!("{text:?} begins with a sign: begin it with a letter or digit"))
        }
        None => Ok(text.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word() {
        for name in ["ash", "ds-7.rack_2", "Höhle", "10.0.0.1"] {
            assert_eq!(parse(name), Ok(name.into()));
        }
        for name in ["", "my rack", "a/b", "a\nb", "-ash", "..", "ash:1", &"x".repeat(65)] {
            assert!(parse(name).is_err(), "{name:?}");
        }
    }
}
