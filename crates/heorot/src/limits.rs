//! What the kernel allows this process, and what this process allows others.

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};

/// Raises the number of open files to what may be had without asking: connections and open objects need many, and the
/// usual limit of 1024 is there for programs that call `select`.
pub(crate) fn raise_open_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

/// What this process makes from now on is for its user alone, whatever it was started with.
pub(crate) fn make_private() {
    umask(Mode::RWXG | Mode::RWXO);
}
