//! The list `targets` in the text of a ds.toml, with one more directory. All other text stays as it is, comments
//! included, so the directory is put in by its place and the file is not written anew from its values.

use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::ConfigError;
use super::ds::DsConfig;

/// Key of the list.
const KEY: &str = "targets";
/// Indentation of a line where no other line of the list shows one.
const INDENT: &str = "    ";

/// The text of `file` with `dir` at the end of `targets`.
///
/// # Errors
/// [`ConfigError`]: the file is not right, before or after the change.
pub(crate) fn with_target(file: &Path, text: &str, dir: &Path) -> Result<String, ConfigError> {
    let before = DsConfig::parse(file, text)?;
    let refused = |why: &str| ConfigError::Value {
        file: file.into(),
        line: 1,
        key: KEY,
        why: why.into(),
        remedy: "a list that ends with \"]\"; add the directory with an editor".into(),
    };
    let dir_text = dir.to_str().ok_or_else(|| refused("the directory's name is not UTF-8"))?;
    let new = inserted(text, dir_text).ok_or_else(|| refused("the end of the list is not found"))?;
    let after = DsConfig::parse(file, &new)?;
    let targets: Vec<PathBuf> = before.targets.iter().cloned().chain([dir.to_owned()]).collect();
    if after != (DsConfig { targets, ..before }) {
        return Err(refused("one more directory would change other values"));
    }
    Ok(new)
}

fn inserted(text: &str, dir: &str) -> Option<String> {
    let table = DeTable::parse(text).ok()?.into_inner();
    let (_, list) = table.iter().find(|(key, _)| key.get_ref() == KEY)?;
    let list_span = list.span();
    let last = list.get_ref().as_array()?.iter().last()?.span();
    let value = toml::Value::from(dir).to_string();
    let comma = comma_after(text, last.end, list_span.end);
    let end = comma.map_or(last.end, |at| at + 1);
    let is_on_lines = text[list_span.clone()].contains('\n');
    // None: the list ends on the line of its last directory.
    let line_end = text[end..list_span.end].find('\n').map(|at| {
        let at = end + at;
        if text[..at].ends_with('\r') { at - 1 } else { at }
    });
    let mut new = text.to_owned();
    match (is_on_lines, line_end) {
        // A line of its own, after the comment of the last one.
        (true, Some(line_end)) => {
            let comma_of_new = if comma.is_some() { "," } else { "" };
            new.insert_str(
                line_end,
                &format!("\n{}{value}{comma_of_new}", indent(text, &list_span, last.start)),
            );
            if comma.is_none() {
                new.insert(last.end, ',');
            }
        }
        (true, None) if text[list_span.start..last.start].contains('\n') => {
            let indent = indent(text, &list_span, last.start);
            match comma {
                Some(_) => new.insert_str(end, &format!("\n{indent}{value},")),
                None => new.insert_str(end, &format!(",\n{indent}{value}")),
            }
        }
        _ if comma.is_some() => new.insert_str(end, &format!(" {value},")),
        _ => new.insert_str(end, &format!(", {value}")),
    }
    Some(new)
}

/// Place of the comma between `from` and `to`, which may stand behind comments.
fn comma_after(text: &str, from: usize, to: usize) -> Option<usize> {
    let mut is_comment = false;
    for (at, byte) in text.as_bytes().iter().enumerate().take(to).skip(from) {
        match byte {
            b'\n' => is_comment = false,
            _ if is_comment => {}
            b'#' => is_comment = true,
            b',' => return Some(at),
            byte if byte.is_ascii_whitespace() => {}
            _ => return None,
        }
    }
    None
}

/// Indentation of the line with the last directory.
fn indent<'a>(text: &'a str, list: &std::ops::Range<usize>, last: usize) -> &'a str {
    let line = text[..last].rfind('\n').map_or(0, |at| at + 1);
    if line <= list.start {
        return INDENT;
    }
    let rest = text[line..].trim_start_matches([' ', '\t']);
    &text[line..text.len() - rest.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: &str = "# A data server.\nlisten = '10.0.0.5:2049'\nmetaserver = 'mds:2049'\nsecret_file = '/s'\ndata_dir = '/d'\n";

    fn added(list: &str) -> String {
        let text = format!("{REST}{list}\n# The end, with targets = [] in it.\nname = 'elm'\n");
        let new = with_target(Path::new("ds.toml"), &text, Path::new("/new")).unwrap();
        let new = new.strip_prefix(REST).expect("the rest before it").to_owned();
        new.strip_suffix("\n# The end, with targets = [] in it.\nname = 'elm'\n")
            .expect("and after")
            .to_owned()
    }

    #[test]
    fn a_directory_is_put_at_the_end_of_the_list_and_all_comments_stay() {
        let cases = [
            ("targets = ['/a']", "targets = ['/a', \"/new\"]"),
            ("targets=[ \"/a\",'/b' ] # two disks", "targets=[ \"/a\",'/b', \"/new\" ] # two disks"),
            ("targets = ['/a', ]", "targets = ['/a', \"/new\", ]"),
            ("targets = [\n  '/a',\n  '/b'\n]", "targets = [\n  '/a',\n  '/b',\n  \"/new\"\n]"),
            ("targets = [\n\t'/a', # slow\n]", "targets = [\n\t'/a', # slow\n\t\"/new\",\n]"),
            (
                "targets = [ # all\n    '/a', # a, b\n    '/b' # ], and '/c'\n    # '/old',\n]",
                "targets = [ # all\n    '/a', # a, b\n    '/b', # ], and '/c'\n    \"/new\"\n    # '/old',\n]",
            ),
            ("targets = ['/a', # first\n]", "targets = ['/a', # first\n    \"/new\",\n]"),
            ("targets = [\n  '/a',\n  '/b']", "targets = [\n  '/a',\n  '/b',\n  \"/new\"]"),
            ("targets = [\n  '/a',\n  '/b',]", "targets = [\n  '/a',\n  '/b',\n  \"/new\",]"),
            ("targets = [\n  '/a'\n  # why\n  ,\n]", "targets = [\n  '/a'\n  # why\n  ,\n  \"/new\",\n]"),
            ("targets = [\r\n  '/a',\r\n]\r", "targets = [\r\n  '/a',\n  \"/new\",\r\n]\r"),
        ];
        for (before, after) in cases {
            assert_eq!(added(before), after);
        }
    }

    #[test]
    fn the_example_gets_one_more_line_of_text_only() {
        let text = include_str!("../../../../docs/examples/ds.toml");
        let new = with_target(Path::new("f"), text, Path::new("/data/it's \"new\"")).unwrap();
        let changed: Vec<_> = text.lines().zip(new.lines()).filter(|(old, new)| old != new).collect();
        assert_eq!((changed.len(), text.lines().count()), (1, new.lines().count()), "{changed:?}");
        let config = DsConfig::parse(Path::new("f"), &new).unwrap();
        assert_eq!(config.targets.last().unwrap(), Path::new("/data/it's \"new\""));
    }

    #[test]
    fn a_file_that_is_not_right_is_refused() {
        let refused = |list: &str| {
            let text = format!("{REST}{list}\n");
            with_target(Path::new("ds.toml"), &text, Path::new("/new")).unwrap_err().to_string()
        };
        assert!(refused("").starts_with("ds.toml: `targets` is missing; it must be directories"));
        assert!(refused("targets = []").contains("`targets` is not right: it is empty"));
        assert!(refused("targets = ['/a'").contains("ds.toml:6: not TOML"), "{}", refused("targets = ['/a'"));
        assert!(refused("targets = ['/a']\ntarget = 1").contains("there is no key `target`"));
        assert!(refused("targets = ['/new']").contains("/new and /new are the same directory"));
    }
}
