//! SIGHUP: a server reads its configuration file again and continues to serve.
//!
//! Keys that can change at run time apply at once; the log names the others, which apply at the next start. Of
//! `targets` more directories apply at once, and fewer at the next start.
//! An invalid file changes nothing.

use std::path::Path;
use std::sync::Arc;

use metaserver::Metaserver;

use crate::config::ds::DsConfig;
use crate::config::mds::MdsConfig;
use crate::config::{self, ConfigError};
use crate::servers::ds::RunningDs;
use crate::servers::idmap::{IdmapFiles, LOOK_EVERY};
use command_line::logging;
use command_line::signals::Hangups;

/// Reloads a metaserver's file at SIGHUP, and the id mapping when its files or settings change.
pub(crate) async fn metaserver(
    mut hangups: Hangups,
    file: &Path,
    started: &MdsConfig,
    server: &Arc<Metaserver>,
) {
    let mut owner_files = IdmapFiles::default();
    loop {
        if let Some(names) = owner_files.changed(&server.cluster().settings()) {
            server.set_idmap(names);
        }
        let looked = tokio::time::timeout(LOOK_EVERY, hangups.next()).await;
        if looked.is_ok()
            && let Some(new) = read_again(file, MdsConfig::parse)
        {
            differing(&[
                ("listen", new.listen != started.listen),
                ("data_dir", new.data_dir != started.data_dir),
                ("admin, admin_group or admin_token_file", new.admin != started.admin),
                ("secret_file", new.secret_file != started.secret_file),
                ("reserve", new.reserve_bytes != started.reserve_bytes),
                ("name, consensus, join or learner", new.group != started.group),
                ("metadata_memory", new.metadata_memory_bytes != started.metadata_memory_bytes),
            ]);
            logging::set(&new.log);
            tracing::info!(file = %file.display(), "configuration read again");
        }
    }
}

/// Reloads a data server's file at SIGHUP: its rates, and the targets that it names and that are new.
pub(crate) async fn data_server(mut hangups: Hangups, file: &Path, started: &DsConfig, running: &RunningDs) {
    loop {
        hangups.next().await;
        if let Some(new) = read_again(file, DsConfig::parse) {
            differing(&[
                ("listen", new.listen != started.listen),
                ("advertise", new.advertise != started.advertise),
                ("service_address", new.service_address != started.service_address),
                ("zone", new.zone != started.zone),
                ("metaserver", new.metaservers != started.metaservers),
                ("secret_file", new.secret_file != started.secret_file),
                ("data_dir", new.data_dir != started.data_dir),
                ("admin, admin_group or admin_token_file", new.admin != started.admin),
                ("name", new.name != started.name),
            ]);
            logging::set(&new.log);
            running.set_rates(new.checks, new.refill_rate);
            if let Some(more_targets) = &running.more_targets {
                more_targets.follow().await;
            }
            tracing::info!(file = %file.display(), "configuration read again");
        }
    }
}

/// The file; none, with a line in the log, if it cannot be read.
pub(crate) fn read_again<C>(file: &Path, parse: impl Fn(&Path, &str) -> Result<C, ConfigError>) -> Option<C> {
    match config::read(file).and_then(|text| parse(file, &text)) {
        Ok(new) => Some(new),
        Err(error) => {
            tracing::error!(%error, "cannot read the configuration again, keeping the previous one");
            None
        }
    }
}

fn differing(keys: &[(&str, bool)]) {
    for (key, _) in keys.iter().filter(|(_, differs)| *differs) {
        tracing::warn!(key, "key changed in the file, with effect from the next start");
    }
}
