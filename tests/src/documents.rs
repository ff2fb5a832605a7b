//! Commands in a document: in code blocks, and as code in its text.

use std::path::{Path, PathBuf};

/// Command line, without prompt, comment and the text after `;`, `&&` or `|`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shown {
    /// Heading of its section.
    pub section: String,
    /// Text as typed, with single blanks: `heorot files --on elm > lost-files`.
    pub line: String,
    /// Whether it is in a code block, so complete. In the text it may be a mention: `heorot stripe set`.
    pub is_block: bool,
}

/// README.md, and all documents below docs/ of this repository.
///
/// # Panics
/// If they cannot be read.
#[must_use]
pub fn all(root: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (vec![root.join("README.md")], vec![root.join("docs")]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.unwrap_or_else(|e| panic!("{}: {e}", folder.display())).path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Command lines in the Markdown `text` that begin with `program`.
#[must_use]
pub fn commands(text: &str, program: &str) -> Vec<Shown> {
    let (mut found, mut section, mut is_block) = (Vec::new(), String::new(), false);
    let (mut prose, mut block) = (String::new(), String::new());
    for line in text.lines().chain(["# "]) {
        let is_fence = line.trim_start().starts_with("```");
        if is_fence || (!is_block && line.starts_with('#')) {
            let whole = lines_of(&block).into_iter().map(|line| (line, true));
            let named = spans_of(&prose).into_iter().map(|line| (line, false));
            for (line, is_block) in whole.chain(named).filter(|(line, _)| is_of(line, program)) {
                found.push(Shown { section: section.clone(), line, is_block });
            }
            prose.clear();
            block.clear();
        }
        match (is_fence, is_block) {
            (true, _) => is_block = !is_block,
            (false, true) => block.extend([line, "\n"]),
            (false, false) if line.starts_with('#') => section = line.trim_matches(['#', ' ']).to_owned(),
            (false, false) => prose.extend([line, " "]),
        }
    }
    found
}

fn is_of(line: &str, program: &str) -> bool {
    line.strip_prefix(program).is_some_and(|rest| rest.starts_with(' '))
}

/// Command lines of a code block, with prompts, comments and continued lines as in shells.
fn lines_of(block: &str) -> Vec<String> {
    let joined = block.replace("\\\n", " ");
    let lines = joined.lines().map(|line| {
        let line = line.trim();
        let line = line
            .split_once("# ")
            .filter(|(host, _)| host.chars().all(char::is_alphanumeric))
            .map_or(line, |(host, rest)| if host.is_empty() { "" } else { rest });
        line.strip_prefix("$ ").unwrap_or(line)
    });
    lines.flat_map(|line| commands_of(line.split(" #").next().unwrap_or_default())).collect()
}

/// Code in running text.
fn spans_of(prose: &str) -> Vec<String> {
    prose.split('`').skip(1).step_by(2).flat_map(|span| commands_of(&span.replace("\\|", "|"))).collect()
}

/// Commands of one line. `a|b` without blanks is a choice of words and not a pipe.
fn commands_of(line: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    for word in line.split_whitespace() {
        let (word, ends) = match word {
            "|" | "&&" | "||" => ("", true),
            _ => word.strip_suffix(';').map_or((word, false), |word| (word, true)),
        };
        let last = all.len() - 1;
        if !word.is_empty() {
            let blank = if all[last].is_empty() { "" } else { " " };
            all[last].extend([blank, word]);
        }
        if ends {
            all.push(String::new());
        }
    }
    all.retain(|command| !command.is_empty());
    for command in &mut all {
        if let Some(rest) = command.strip_prefix("target/release/") {
            *command = rest.to_owned();
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_in_blocks_and_in_the_text() {
        let text = "# One\nSay `heorot\nstatus` or `heorot node list\\|drain`; not `heorots x`.\n\n```\n$ heorot run  DIR   # runs\n\
                    elm# heorot token --out a; heorot token > b\n# heorot not\ntarget/release/heorot up\nheorot model \\\n  --write\n\
                    echo x | heorot join 10.0.0.1\n```\n## Two\n`heorot clean`\n";
        let found: Vec<_> = commands(text, "heorot")
            .into_iter()
            .map(|c| format!("{} {} {}", c.section, if c.is_block { "!" } else { "?" }, c.line))
            .collect();
        assert_eq!(
            found,
            [
                "One ? heorot status",
                "One ? heorot node list|drain",
                "One ! heorot run DIR",
                "One ! heorot token --out a",
                "One ! heorot token > b",
                "One ! heorot up",
                "One ! heorot model --write",
                "One ! heorot join 10.0.0.1",
                "Two ? heorot clean"
            ]
        );
    }
}
