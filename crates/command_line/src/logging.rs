//! Structured logs on standard error. Standard output is for scripts: the mount command.

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::reload::{Error, Handle};

/// Default log filter of servers.
pub const DEFAULT: &str = "info";
/// Log filter of openraft, before any other filter: its steps of each vote and each lost heartbeat are logged
/// only when a filter names openraft; the replica logs the results.
const BEFORE: &str = "openraft=error";
const VARIABLE: &str = "HEOROT_LOG";

type Change = Box<dyn Fn(EnvFilter) -> Result<(), Error> + Send + Sync>;

/// Function that changes the filter; empty if `HEOROT_LOG` sets it.
static CHANGE: OnceLock<Change> = OnceLock::new();

/// Starts logging with the filter in `HEOROT_LOG`, or else `default`. `part`: prefix of each line.
pub fn start(json: bool, part: Option<&str>, default: &str) {
    let (filter, bad) = match std::env::var(VARIABLE) {
        Ok(text) => filter(&text).map_or_else(|e| (EnvFilter::new(DEFAULT), Some(e)), |f| (f, None)),
        Err(_) => (EnvFilter::new(format!("{BEFORE},{default}")), None),
    };
    let prefix = part.filter(|_| !json).map(|part| format!("{part} "));
    let writer = move || Lines { prefix: prefix.clone() };
    let format = tracing_subscriber::fmt().with_writer(writer).with_ansi(io::stderr().is_terminal());
    // The filter's type contains the format's type: the filter comes last.
    if json {
        let format = format.json().flatten_event(true).with_env_filter(filter).with_filter_reloading();
        changed_by(format.reload_handle());
        format.init();
    } else {
        let format = format.with_env_filter(filter).with_filter_reloading();
        changed_by(format.reload_handle());
        format.init();
    }
    if let Some(error) = bad {
        tracing::warn!(%error, "invalid HEOROT_LOG, using HEOROT_LOG=info");
    }
}

/// Writer to standard error, one line in each write.
struct Lines {
    prefix: Option<String>,
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut stderr = io::stderr().lock();
        if let Some(prefix) = &self.prefix {
            stderr.write_all(&[prefix.as_bytes(), line].concat())?;
        } else {
            stderr.write_all(line)?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

fn changed_by<S: Send + Sync + 'static>(handle: Handle<EnvFilter, S>) {
    if std::env::var_os(VARIABLE).is_none() {
        let _ = CHANGE.set(Box::new(move |filter| handle.reload(filter)));
    }
}

fn filter(text: &str) -> Result<EnvFilter, tracing_subscriber::filter::ParseError> {
    EnvFilter::try_new(format!("{BEFORE},{text}"))
}

/// Checks that `text` is a log filter.
///
/// # Errors
/// Fault of `text`.
pub fn check(text: &str) -> Result<(), String> {
    filter(text).map(drop).map_err(|e| e.to_string())
}

/// Changes the filter to `text`, from a configuration file. `HEOROT_LOG` has precedence.
pub fn set(text: &str) {
    let Ok(filter) = filter(text) else { return };
    if let Some(Err(error)) = CHANGE.get().map(|change| change(filter)) {
        tracing::warn!(%error, "invalid log filter, keeping the previous one");
    }
}
