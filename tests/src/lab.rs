//! Lab of one test: [`lab::Lab`] whose failures panic.

use std::net::Ipv4Addr;
use std::path::Path;

use lab::{Diskless, Kernel};

use crate::{Client, must};

/// Memory of a client: page cache for 256 MiB of test data, twice, and a compiler.
const CLIENT_MEMORY_MIB: u32 = 768;

/// Network and folder of one test. Other tests may have labs at the same time: they mostly wait.
pub struct Lab(lab::Lab);

impl Lab {
    /// Makes a bridge on a free 10.77.x.0/24 and an empty folder.
    ///
    /// # Panics
    /// If a program of `make setup` is missing on this machine.
    #[track_caller]
    pub fn open() -> Lab {
        Lab(must(lab::Lab::open()))
    }

    /// Address of this machine in the lab's network, where the servers listen.
    pub fn address(&self) -> Ipv4Addr {
        self.0.address()
    }

    /// Folder for the test's files on this machine: data directories, logs. Clients can read it, not write
    /// it.
    pub fn folder(&self) -> &Path {
        self.0.folder()
    }

    /// Boots a client machine: a Linux kernel with the host name `name` and an address of its own. The
    /// environment variable `HEOROT_KERNEL` selects the kernel, so that each story can run with each.
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

    /// Boots a machine whose root is not this one's.
    #[track_caller]
    pub fn diskless(&self, name: &str, diskless: &Diskless) -> Client {
        Client::booted(must(self.0.diskless(Kernel::Uml, name, CLIENT_MEMORY_MIB, diskless)))
    }

    #[track_caller]
    fn boot(&self, kernel: Kernel, name: &str, link: Option<lab::Link>) -> Client {
        Client::booted(must(self.0.client(kernel, name, CLIENT_MEMORY_MIB, link)))
    }

    /// Underlying lab.
    pub fn inner(&self) -> &lab::Lab {
        &self.0
    }
}
