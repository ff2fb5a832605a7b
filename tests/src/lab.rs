//! The lab of one test: [`lab::Lab`], where what fails panics, one at a time.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Client, must};

/// Page cache for 256 MiB of test data, twice, and a compiler.
const CLIENT_MEMORY_MIB: u32 = 768;

/// Kernels and servers of two tests at once would fight for two cores and run into each other's time-outs.
static ONE_LAB_AT_A_TIME: Mutex<()> = Mutex::new(());

/// One test's network and folder. Other processes may have labs at the same time.
pub struct Lab {
    lab: lab::Lab,
    _turn: MutexGuard<'static, ()>,
}

impl Lab {
    /// A bridge on a free 10.77.x.0/24 and an empty folder. Waits for the lab of another test in this process.
    ///
    /// # Panics
    /// If this machine lacks something: `make setup` provides it.
    #[track_caller]
    pub fn open() -> Lab {
        let turn = ONE_LAB_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        Lab { lab: must(lab::Lab::open()), _turn: turn }
    }

    /// The address of this machine, where the servers listen, as clients see it.
    pub fn address(&self) -> Ipv4Addr {
        self.lab.address()
    }

    /// A place for the test's own files on this machine: data directories, logs. Clients can read it, not write it.
    pub fn folder(&self) -> &Path {
        self.lab.folder()
    }

    /// Boots a client machine: a Linux kernel with the host name `name` and an address of its own.
    #[track_caller]
    pub fn client(&self, name: &str) -> Client {
        self.client_on(name, None)
    }

    /// [`client`](Lab::client) on a link of a given speed.
    #[track_caller]
    pub fn client_on(&self, name: &str, link: Option<lab::Link>) -> Client {
        Client::booted(must(self.lab.client(name, CLIENT_MEMORY_MIB, link)))
    }

    /// The lab itself, for what is not a matter of tests.
    pub fn inner(&self) -> &lab::Lab {
        &self.lab
    }
}
