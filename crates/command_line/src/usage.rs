//! Errors of a command line, each in one line like every other failure.

use clap::error::ErrorKind;

/// Prints the parser's answer, and ends the process: help and version unchanged, errors as one line.
pub fn exit(error: &clap::Error) -> ! {
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

/// One line with the error, a suggested spelling, and a reference to the help; without the synopsis.
#[must_use]
pub fn line(text: &str) -> String {
    let paragraphs =
        text.split("\n\n").map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    let kept = paragraphs.filter(|paragraph| !paragraph.starts_with("Usage:") && !paragraph.is_empty());
    let parts: Vec<String> = kept.map(|paragraph| paragraph.trim_end_matches('.').to_string()).collect();
    let line = parts.join("; ").replace("For more information, try '--help'", "--help says more");
    line.strip_prefix("error: ").unwrap_or(&line).to_string()
}
