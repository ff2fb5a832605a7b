//! What is wrong with a command line, in one line like every other failure.

use clap::error::ErrorKind;

/// Prints what the parser says, and ends the process: help and version as they are, errors as one line.
pub(crate) fn exit(error: &clap::Error) -> ! {
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => error.exit(),
        _ => {
            eprintln!("heorot: {}", line(&error.to_string()));
            std::process::exit(2) // as clap and most programs do
        }
    }
}

/// What is wrong, what was probably meant, and where to read more; without the synopsis.
fn line(text: &str) -> String {
    let paragraphs =
        text.split("\n\n").map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    let kept = paragraphs.filter(|paragraph| !paragraph.starts_with("Usage:") && !paragraph.is_empty());
    let parts: Vec<String> = kept.map(|paragraph| paragraph.trim_end_matches('.').to_string()).collect();
    let line = parts.join("; ").replace("For more information, try '--help'", "--help says more");
    line.strip_prefix("error: ").unwrap_or(&line).to_string()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn whatever_is_wrong_is_said_in_one_line() {
        let cases = [
            ("heorot model --link 5", "\"5\" is not a rate such as 100Mbit/s"),
            ("heorot model --clients -1", "invalid value '-1' for '--clients <N>'"),
            ("heorot model --client 1", "similar argument exists: '--clients'"),
            ("heorot model --disks 1 --disks-per-server 1", "cannot be used with"),
            ("heorot model --csv x", "--sweep <OPTION=RANGE>"),
            ("heorot benhc", "similar subcommand exists: 'bench'"),
        ];
        for (command, part) in cases {
            let text = line(&Cli::try_parse_from(command.split(' ')).unwrap_err().to_string());
            assert!(
                text.contains(part) && !text.contains('\n') && !text.contains("Usage"),
                "{command}: {text}"
            );
            assert!(text.ends_with("; --help says more"), "{command}: {text}");
        }
    }
}
