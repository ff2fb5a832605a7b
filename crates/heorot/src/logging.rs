//! Structured logs on standard error. Standard output is for what a script may want: the mount command.

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::reload::{Error, Handle};

/// What is logged where nothing is said.
pub(crate) const DEFAULT: &str = "info";
/// The same before a configuration is read. `heorot bench` has none; it speaks NFS with nfs-rs, whose errors say it all.
const AT_START: &str = "info,nfs_rs=off";
/// Before what is said: of consensus, the steps of each vote and each heartbeat that did not arrive are for who asks for
/// them by name; what they come to is logged by the replica.
const BEFORE: &str = "openraft=error";
const VARIABLE: &str = "HEOROT_LOG";

type Change = Box<dyn Fn(EnvFilter) -> Result<(), Error> + Send + Sync>;

/// How what is logged is changed; nothing if `HEOROT_LOG` decides it.
static CHANGE: OnceLock<Change> = OnceLock::new();

/// Starts logging, as `HEOROT_LOG` says: `info` unless it says otherwise. `part`: what stands before each line.
pub(crate) fn start(json: bool, part: Option<&str>) {
    let (filter, bad) = match std::env::var(VARIABLE) {
        Ok(text) => filter(&text).map_or_else(|e| (EnvFilter::new(DEFAULT), Some(e)), |f| (f, None)),
        Err(_) => (EnvFilter::new(format!("{BEFORE},{AT_START}")), None),
    };
    let prefix = part.filter(|_| !json).map(|part| format!("{part} "));
    let writer = move || Lines { prefix: prefix.clone() };
    let format = tracing_subscriber::fmt().with_writer(writer).with_ansi(io::stderr().is_terminal());
    // The type of what filters names the format: the filter comes last.
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
        tracing::warn!(%error, "HEOROT_LOG is not understood; logging as HEOROT_LOG=info");
    }
}

/// Standard error. Each line comes in one piece.
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

/// Whether `text` says what is to be logged.
pub(crate) fn check(text: &str) -> Result<(), String> {
    filter(text).map(drop).map_err(|e| e.to_string())
}

/// Logs what `text` says from now on, as a configuration file has it. The environment, if it says anything, wins.
pub(crate) fn set(text: &str) {
    let Ok(filter) = filter(text) else { return };
    if let Some(Err(error)) = CHANGE.get().map(|change| change(filter)) {
        tracing::warn!(%error, "what is logged stays as it was");
    }
}
