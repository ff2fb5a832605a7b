//! Id mapping: names of users and groups, from this machine's /etc/passwd and /etc/group, read again after
//! each change.
//!
//! Reads the files and not the system's NSS, which needs C: a site with a directory service writes its users
//! with `getent passwd` to files of this form.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use cluster::Settings;
use metaserver::Idmap;

/// Poll interval of the files.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);

const PASSWD: &str = "/etc/passwd";
const GROUP: &str = "/etc/group";
/// Maximal length of a file: about 500,000 lines, whose names are kept in memory.
const FILE_BYTES_MAX: u64 = 32 << 20;

/// Modification times and lengths of the files, to detect changes.
type Stamps = [Option<(SystemTime, u64)>; 2];

/// Files as last read.
#[derive(Default)]
pub(crate) struct IdmapFiles {
    read: Option<(String, bool, Stamps)>,
}

impl IdmapFiles {
    /// New id mapping, if files or settings have changed since the last call.
    pub(crate) fn changed(&mut self, settings: &Settings) -> Option<Idmap> {
        let (domain, give_names) = (&settings.owner_domain, settings.owner_names);
        let now = (domain.clone(), give_names, [PASSWD, GROUP].map(|file| stamp(Path::new(file))));
        if self.read.as_ref() == Some(&now) {
            return None;
        }
        self.read = Some(now);
        if domain.is_empty() {
            return Some(Idmap::default());
        }
        Some(Idmap::new(domain, give_names, &text(PASSWD), &text(GROUP)))
    }
}

fn stamp(file: &Path) -> Option<(SystemTime, u64)> {
    let metadata = fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// Reads a file. One that cannot be used counts as empty, with a line in the log.
fn text(file: &str) -> String {
    let text = match fs::metadata(file) {
        Ok(metadata) if metadata.len() > FILE_BYTES_MAX => {
            Err(format!("it has more than {FILE_BYTES_MAX} bytes"))
        }
        Ok(_) => fs::read(file).map_err(|e| e.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match text {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(why) => {
            tracing::warn!(file, why, "cannot read names of owners");
            String::new()
        }
    }
}
