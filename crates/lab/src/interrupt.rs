//! Ctrl-C, and the other polite signals: every wait then ends with an error, and all that was built goes the
//! way in which it goes after any other error.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::{Error, Result};

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on SIGINT, SIGTERM and SIGHUP are errors of whatever is waited for.
///
/// # Errors
/// If the kernel does not let us.
pub fn watch() -> Result<()> {
    let asked = ASKED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register(signal, asked.clone()).map_err(Error::io("watch for signals"))?;
    }
    Ok(())
}

/// Whether to go on.
///
/// # Errors
/// If not.
pub fn check() -> Result<()> {
    match ASKED.get() {
        Some(asked) if asked.load(Ordering::Relaxed) => Err(Error::Interrupted),
        _ => Ok(()),
    }
}
