//! Structured logs on standard error. Standard output is for what a script may want: the mount command.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts logging, as `HEOROT_LOG` says: `info` unless it says otherwise.
pub(crate) fn start(json: bool) {
    let (filter, bad) = match std::env::var("HEOROT_LOG") {
        Ok(text) => {
            EnvFilter::try_new(&text).map_or_else(|e| (EnvFilter::new("info"), Some(e)), |f| (f, None))
        }
        Err(_) => (EnvFilter::new("info"), None),
    };
    let format = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    if json {
        format.json().flatten_event(true).init();
    } else {
        format.init();
    }
    if let Some(error) = bad {
        tracing::warn!(%error, "HEOROT_LOG is not understood; logging as HEOROT_LOG=info");
    }
}
