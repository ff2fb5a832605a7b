//! `ip` and `tc` of this machine.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::{Error, Result};

/// Runs `ip ARGUMENTS`; it must succeed.
pub(crate) fn ip(arguments: &str) -> Result<()> {
    run("ip", arguments)
}

/// Runs `tc ARGUMENTS`; it must succeed.
pub(crate) fn tc(arguments: &str) -> Result<()> {
    run("tc", arguments)
}

/// State and counters of a link, as text for a report; empty if there is none.
pub(crate) fn show_link(link: &str) -> String {
    let output = Command::new("ip").args(["-s", "link", "show", link]).process_group(0).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

fn run(program: &'static str, arguments: &str) -> Result<()> {
    // A process group of its own: Ctrl-C must not kill the commands that remove a lab.
    let output = Command::new(program)
        .args(arguments.split_whitespace())
        .process_group(0)
        .output()
        .map_err(|_| Error::Missing(program))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Refused { command: format!("{program} {arguments}"), said })
}

/// Checks that a program is on PATH.
pub(crate) fn require(program: &'static str) -> Result<()> {
    let found = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path)
            .chain(["/usr/sbin".into(), "/sbin".into()])
            .any(|dir| dir.join(program).exists())
    });
    if found { Ok(()) } else { Err(Error::Missing(program)) }
}
