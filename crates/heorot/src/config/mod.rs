//! Configuration files: TOML, keys at the top and few sections. An error has the file, the line, the key and
//! a remedy. An unknown key is an error, since a misspelt `squash` must not open a server to the world.

pub(crate) mod admin;
pub(crate) mod begin;
pub(crate) mod ds;
pub(crate) mod mds;
pub(crate) mod target_list;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Error in a configuration file, with its remedy. One line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("{file}: cannot be read: {why}; check the path and its permissions", file = file.display())]
    Read { file: PathBuf, why: String },
    #[error("{file}:{line}: not TOML: {why}; write lines such as listen = \"10.0.0.1:2049\"", file = file.display())]
    Syntax { file: PathBuf, line: usize, why: String },
    #[error("{file}:{line}: there is no key `{key}`; {remedy}", file = file.display())]
    Unknown { file: PathBuf, line: usize, key: String, remedy: String },
    #[error(
        "{file}:{line}: `{key}` does not stand here: it holds for the whole cluster; take the line out, and use a command such \
         as {command}", file = file.display()
    )]
    Moved { file: PathBuf, line: usize, key: &'static str, command: &'static str },
    #[error("{file}:{line}: `{key}` is not right: {why}; it must be {remedy}", file = file.display())]
    Value { file: PathBuf, line: usize, key: &'static str, why: String, remedy: String },
    #[error("{file}: `{key}` is missing; it must be {remedy}", file = file.display())]
    Missing { file: PathBuf, key: &'static str, remedy: String },
}

/// Reads a file.
pub(crate) fn read(file: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(file).map_err(|e| ConfigError::Read { file: file.into(), why: e.to_string() })
}

/// Parsed file.
pub(crate) struct Document<'a> {
    file: &'a Path,
    text: &'a str,
    table: DeTable<'a>,
}

/// Reader of a file's settings, key by key.
pub(crate) struct Reader<'a> {
    file: &'a Path,
    text: &'a str,
    table: &'a DeTable<'a>,
}

/// Value of the file, or the reason why it is invalid.
pub(crate) type Parsed<T> = Result<T, String>;

impl<'a> Document<'a> {
    /// Parses `text`.
    pub(crate) fn parse(file: &'a Path, text: &'a str) -> Result<Self, ConfigError> {
        let table = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
            file: file.into(),
            line: line(text, error.span().map_or(0, |span| span.start)),
            why: error.message().replace('\n', ", "),
        })?;
        Ok(Self { file, text, table: table.into_inner() })
    }

    /// Refuses the first key that is a cluster setting now; `moved` has the command to use instead.
    pub(crate) fn refuse_moved(&self, moved: &[(&'static str, &'static str)]) -> Result<(), ConfigError> {
        let found = self.table.iter().find_map(|(name, value)| {
            let (key, command) = moved.iter().find(|(key, _)| name.get_ref() == key)?;
            // For sections, the header of the first one, which the parser does not report.
            let first = value
                .get_ref()
                .as_array()
                .and_then(|all| all.iter().next())
                .map_or(name.span(), |v| v.span());
            let line = line(self.text, name.span().start.min(first.start));
            Some(ConfigError::Moved { file: self.file.into(), line, key, command })
        });
        found.map_or(Ok(()), Err)
    }

    /// Reader of the file; all its keys must be among `keys`.
    pub(crate) fn top(&'a self, keys: &[&str]) -> Result<Reader<'a>, ConfigError> {
        let reader = Reader { file: self.file, text: self.text, table: &self.table };
        for (key, value) in self.table.iter() {
            let (name, value): (&str, _) = (key.get_ref(), value.get_ref());
            if keys.contains(&name) {
                continue;
            }
            let is_section = value.as_array().map_or(value.is_table(), |values| {
                values.iter().next().is_some_and(|value| value.get_ref().is_table())
            });
            let remedy =
                if is_section { "there are no [sections]".to_string() } else { suggestion(name, keys) };
            return Err(reader.unknown(key, remedy));
        }
        Ok(reader)
    }
}

impl<'a> Reader<'a> {
    fn unknown(&self, key: &Spanned<toml::de::DeString<'_>>, remedy: String) -> ConfigError {
        let line = line(self.text, key.span().start);
        let key: &str = key.get_ref();
        ConfigError::Unknown { file: self.file.into(), line, key: key.into(), remedy }
    }

    /// Optional value of `key`. `remedy`: the right form, with an example.
    pub(crate) fn optional<T>(
        &self,
        key: &'static str,
        remedy: &str,
        parse: impl FnOnce(&DeValue<'_>) -> Parsed<T>,
    ) -> Result<Option<T>, ConfigError> {
        let Some((_, value)) = self.table.iter().find(|(k, _)| k.get_ref() == key) else {
            return Ok(None);
        };
        parse(value.get_ref()).map(Some).map_err(|why| self.wrong(key, why, remedy))
    }

    /// Error for a value of `key` that parses but is invalid.
    pub(crate) fn wrong(&self, key: &'static str, why: String, remedy: &str) -> ConfigError {
        let value = self.table.iter().find(|(k, _)| k.get_ref() == key);
        let line = value.map_or(1, |(_, value)| line(self.text, value.span().start));
        ConfigError::Value { file: self.file.into(), line, key, why, remedy: remedy.into() }
    }

    /// Required value of `key`.
    pub(crate) fn required<T>(
        &self,
        key: &'static str,
        remedy: &str,
        parse: impl FnOnce(&DeValue<'_>) -> Parsed<T>,
    ) -> Result<T, ConfigError> {
        let (file, remedy_said) = (self.file.into(), remedy.into());
        self.optional(key, remedy, parse)?.ok_or(ConfigError::Missing { file, key, remedy: remedy_said })
    }
}

fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|b| *b == b'\n').count() + 1
}

fn suggestion(name: &str, keys: &[&str]) -> String {
    let close = keys.iter().map(|key| (strsim::levenshtein(name, key), *key)).min();
    match close {
        Some((distance, key)) if distance <= 1 + key.len() / 4 => format!("did you mean `{key}`?"),
        _ => format!("there are {}", keys.join(", ")),
    }
}

/// Number of the file's keys among `keys`; it tells the kind of server.
pub(crate) fn matching_keys(text: &str, keys: &[&str]) -> usize {
    let table = DeTable::parse(text).map(Spanned::into_inner).unwrap_or_default();
    table.keys().filter(|key| keys.contains(&key.get_ref().as_ref())).count()
}

pub(crate) fn string(value: &DeValue<'_>) -> Parsed<String> {
    match value.as_str() {
        Some("") => Err("it is empty".into()),
        Some(text) => Ok(text.into()),
        None => Err(format!("it is of type {}", value.type_str())),
    }
}

pub(crate) fn path(value: &DeValue<'_>) -> Parsed<PathBuf> {
    string(value).map(PathBuf::from)
}

pub(crate) fn address(value: &DeValue<'_>) -> Parsed<SocketAddr> {
    let text = string(value)?;
    let address: SocketAddr = text.parse().map_err(|_| format!("{text:?} is no address with a port"))?;
    if address.port() == 0 { Err("its port is 0".into()) } else { Ok(address) }
}

pub(crate) fn boolean(value: &DeValue<'_>) -> Parsed<bool> {
    value.as_bool().ok_or_else(|| format!("it is of type {}", value.type_str()))
}

/// Remedy for an invalid `log`.
pub(crate) const LOG: &str =
    "a level such as \"info\" or \"debug\", or levels of parts such as \"info,nfs=trace\"";

/// Parses a log filter.
pub(crate) fn log(value: &DeValue<'_>) -> Parsed<String> {
    let text = string(value)?;
    command_line::logging::check(&text).map(|()| text)
}

pub(crate) fn size(value: &DeValue<'_>) -> Parsed<u64> {
    match value.as_integer() {
        Some(_) => integer(value, 0, i64::MAX as u64),
        None => host::size::parse(&string(value)?),
    }
}

pub(crate) fn integer(value: &DeValue<'_>, min: u64, max: u64) -> Parsed<u64> {
    let integer = value.as_integer().ok_or_else(|| format!("it is of type {}", value.type_str()))?;
    let digits = integer.as_str().replace('_', "");
    let number = i128::from_str_radix(&digits, integer.radix()).map_err(|e| e.to_string())?;
    match u64::try_from(number) {
        Ok(number) if number >= min && number <= max => Ok(number),
        _ => Err(format!("{number} is not from {min} to {max}")),
    }
}

/// Parses an admin address; none: "off".
pub(crate) fn admin(value: &DeValue<'_>) -> Parsed<Option<SocketAddr>> {
    if value.as_str() == Some("off") { Ok(None) } else { address(value).map(Some) }
}

pub(crate) fn paths(value: &DeValue<'_>) -> Parsed<Vec<PathBuf>> {
    let array = value.as_array().ok_or_else(|| format!("it is of type {}", value.type_str()))?;
    let paths = array.iter().map(|v| path(v.get_ref())).collect::<Result<Vec<_>, _>>()?;
    if paths.is_empty() {
        return Err("it is empty".into());
    }
    // Compare real paths, not texts: a link or a `..` may name the same directory, and one target would be
    // served twice.
    let real = |path: &PathBuf| std::fs::canonicalize(path).unwrap_or_else(|_| path.components().collect());
    for (index, path) in paths.iter().enumerate() {
        if let Some(same) = paths[..index].iter().find(|other| real(other) == real(path)) {
            return Err(format!("{} and {} are the same directory", same.display(), path.display()));
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_one_letter_off_is_suggested() {
        let keys = ["listen", "data_dir", "squash"];
        assert_eq!(suggestion("sqash", &keys), "did you mean `squash`?");
        assert_eq!(suggestion("data-dir", &keys), "did you mean `data_dir`?");
        assert_eq!(suggestion("colour", &keys), "there are listen, data_dir, squash");
    }
}
