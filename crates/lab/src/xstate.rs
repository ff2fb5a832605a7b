//! Preloaded library for User Mode Linux up to 6.12 on processors with AMX, where it cannot start a process
//! otherwise: `xstate.c` has the reason. Each lab that needs the library compiles it from the source in this
//! program.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Error, Result};

const SOURCE: &str = include_str!("xstate.c");

/// Library in `folder`, made if necessary; `None` on a machine without AMX.
pub(crate) fn library(folder: &Path) -> Result<Option<PathBuf>> {
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if !processor.split_whitespace().any(|flag| flag == "amx_tile") {
        return Ok(None);
    }
    let library = folder.join("xstate.so");
    if !library.exists() {
        compile(folder, &library)?;
    }
    Ok(Some(library))
}

/// Compiles the library and renames it into place, since several clients may start at once.
fn compile(folder: &Path, library: &Path) -> Result<()> {
    let new = tempfile::NamedTempFile::new_in(folder).map_err(Error::file("make a file in", folder))?;
    let mut cc = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-x", "c", "-o"])
        .args([new.path(), Path::new("-")])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|_| Error::Missing("cc"))?;
    let written = cc.stdin.take().expect("piped").write_all(SOURCE.as_bytes());
    let output = cc.wait_with_output().map_err(Error::io("wait for cc"))?;
    if !output.status.success() || written.is_err() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Error::Refused { command: "cc xstate.c".into(), said });
    }
    new.persist(library).map_err(|e| Error::file("rename to", library)(e.error))?;
    Ok(())
}
