//! Limits of the process: its open files, and the permissions of the files that it makes.

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};

/// Raises the soft limit of open files to the hard limit: each connection and each open object is a file, and
/// the usual soft limit of 1024 exists for programs that call `select`.
pub fn raise_open_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!(%error, "cannot raise the limit of open files, keeping it");
    }
}

/// Sets the umask: files that this process makes from now on are for its user alone.
pub fn make_private() {
    umask(Mode::RWXG | Mode::RWXO);
}
