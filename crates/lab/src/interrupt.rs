//! Ctrl-C and other termination signals: every wait then ends with an error, and the lab is removed as after
//! any other error.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::{Error, Result};

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Turns SIGINT, SIGTERM and SIGHUP into errors of all waits from now on.
///
/// # Errors
/// When the handlers cannot be installed.
pub fn watch() -> Result<()> {
    let asked = ASKED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register(signal, asked.clone()).map_err(Error::io("watch for signals"))?;
    }
    Ok(())
}

/// Checks for a signal.
///
/// # Errors
/// [`Error::Interrupted`] after a signal.
pub fn check() -> Result<()> {
    match ASKED.get() {
        Some(asked) if asked.load(Ordering::Relaxed) => Err(Error::Interrupted),
        _ => Ok(()),
    }
}
