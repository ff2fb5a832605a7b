//! The lab of one test: [`lab::Lab`], where what fails panics.

use std::net::Ipv4Addr;
use std::path::Path;

use lab::Kernel;

use crate::{Client, must};

/// Page cache for 256 MiB of test data, twice, and a compiler.
const CLIENT_MEMORY_MIB: u32 = 768;

/// One test's network and folder. Other tests may have labs at the same time: mostly they wait for a clock.
pub struct Lab(lab::Lab);

impl Lab {
    /// A bridge on a free 10.77.x.0/24 and an empty folder.
    ///
    /// # Panics
    /// If this machine lacks something: `make setup` provides it.
    #[track_caller]
    pub fn open() -> Lab {
        Lab(must(lab::Lab::open()))
    }

    /// The address of this machine, where the servers listen, as clients see it.
    pub fn address(&self) -> Ipv4Addr {
        self.0.address()
    }

    /// A place for the test's own files on this machine: data directories, logs. Clients can read it, not
    /// write it.
    pub fn folder(&self) -> &Path {
        self.0.folder()
    }

    /// Boots a client machine: a Linux kernel with the host name `name` and an address of its own. The
    /// environment variable `HEOROT_KERNEL` chooses the kernel, so that each story can run with each.
    #[track_caller]
    pub fn client(&self, name: &str) -> Client {
        self.client_on(name, None)
    }

    /// [`client`](Lab::client) on a link of a given speed.
    #[track_caller]
    pub fn client_on(&self, name: &str, link: Option<lab::Link>) -> Client {
        self.boot(must(Kernel::chosen()), name, link)
    }

    /// [`client`](Lab::client) with a given kernel, which must be installed.
    #[track_caller]
    pub fn client_with(&self, kernel: Kernel, name: &str) -> Client {
        self.boot(kernel, name, None)
    }

    #[track_caller]
    fn boot(&self, kernel: Kernel, name: &str, link: Option<lab::Link>) -> Client {
        Client::booted(must(self.0.client(kernel, name, CLIENT_MEMORY_MIB, link)))
    }

    /// The lab itself, for what is not a matter of tests.
    pub fn inner(&self) -> &lab::Lab {
        &self.0
    }
}
