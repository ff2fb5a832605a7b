//! Founding marker: the cluster's id in `<secret_file>.founded`, written when a name space begins with that
//! secret.
//!
//! A metaserver with an empty directory and no group to join begins a name space. If it had one, and only its
//! disk is not mounted, that would be a second name space of the same cluster, at the same address, with the
//! id of a voter.

use std::path::{Path, PathBuf};

use host::SystemFiles;

use crate::node::data_dir::DataDir;
use crate::node::secret::Secret;
use command_line::Failure;

/// Refuses the start of a metaserver whose empty `dir` would begin a second name space. `joins`: it joins a
/// group.
pub(crate) fn check(secret_file: &Path, secret: &Secret, dir: &DataDir, joins: bool) -> Result<(), Failure> {
    let note = path(secret_file);
    let had_one =
        || std::fs::read_to_string(&note).is_ok_and(|text| text.trim() == hex::encode(secret.cluster()));
    if joins || dir.member().is_some() || !had_one() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{}: empty, and a metaserver of this machine had a name space of this cluster: is its disk not mounted? Bring it back, \
         name another metaserver as `join` to have all from there, or restore a backup. To begin with nothing, remove {}",
        dir.path().display(),
        note.display()
    )))
}

/// Writes the marker, durably.
pub(crate) fn note(secret_file: &Path, secret: &Secret) {
    let path = path(secret_file);
    let text = hex::encode(secret.cluster());
    if std::fs::read_to_string(&path).is_ok_and(|there| there.trim() == text) {
        return;
    }
    if let Err(error) = host::replace(&SystemFiles, &path, format!("{text}\n").as_bytes()) {
        let path = path.display();
        tracing::warn!(%path, %error, "cannot write the founding marker: the loss of the data directory would not be noticed");
    }
}

fn path(secret_file: &Path) -> PathBuf {
    let mut name = secret_file.as_os_str().to_owned();
    name.push(".founded");
    name.into()
}
