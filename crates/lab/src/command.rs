//! `ip` and `tc`, as this machine has them.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::{Error, Result};

/// `ip ARGUMENTS`, which must succeed.
pub(crate) fn ip(arguments: &str) -> Result<()> {
    run("ip", arguments)
}

/// `tc ARGUMENTS`, which must succeed.
pub(crate) fn tc(arguments: &str) -> Result<()> {
    run("tc", arguments)
}

fn run(program: &'static str, arguments: &str) -> Result<()> {
    // A process group of its own: Ctrl-C must not end what takes a lab down.
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

/// Refuses to go on without a program.
pub(crate) fn require(program: &'static str) -> Result<()> {
    let found = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path)
            .chain(["/usr/sbin".into(), "/sbin".into()])
            .any(|dir| dir.join(program).exists())
    });
    if found { Ok(()) } else { Err(Error::Missing(program)) }
}
