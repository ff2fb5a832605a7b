//! Processor of a client machine.
//!
//! User Mode Linux is one processor, but many processes that wait for one another at each system call: the kernel,
//! and a traced process for each of the machine's. Where the host runs them on different processors, each such wait
//! wakes a sleeping processor, which is dear on a virtual host: docs/lab.md has figures.

use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::thread::{CpuSet, sched_getaffinity};

use crate::{Error, Result};

/// Machines that this process has started.
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// Number of the processor for the next machine: each in turn, from one that differs between processes.
///
/// # Errors
/// When the system does not tell on which processors this process may run.
pub(crate) fn next() -> Result<usize> {
    let allowed = sched_getaffinity(None)
        .map_err(|error| Error::io("look for processors that a client machine may use")(error.into()))?;
    let started = STARTED.fetch_add(1, Ordering::Relaxed);
    Ok(nth(&allowed, process::id() as usize + started))
}

/// The `n`th of `allowed`, which are counted round and round; 0 if there are none.
fn nth(allowed: &CpuSet, n: usize) -> usize {
    let wanted = n % (allowed.count() as usize).max(1);
    (0..CpuSet::MAX_CPU).filter(|&number| allowed.is_set(number)).nth(wanted).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_take_the_allowed_processors_in_turn() {
        let mut allowed = CpuSet::new();
        for number in [1, 4, 6] {
            allowed.set(number);
        }
        assert_eq!((0..4).map(|n| nth(&allowed, n)).collect::<Vec<_>>(), [1, 4, 6, 1]);
        assert_eq!(nth(&CpuSet::new(), 3), 0);
    }

    #[test]
    fn a_machine_gets_a_processor_of_this_process() {
        assert!(sched_getaffinity(None).unwrap().is_set(next().unwrap()));
    }
}
