//! The network between clients and servers, and the folder for everything that is written on the machine.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};

use tempfile::TempDir;

use crate::boot::Boot;
use crate::command::{ip, require};
use crate::remains::{self, FOLDER_PREFIX, FOLDERS, bridge};
use crate::{Client, Error, Kernel, Link, Result};

const CLIENTS: std::ops::Range<u8> = 10..100;
const SERVERS: std::ops::Range<u8> = 100..250;

/// A bridge with an address range, and a folder. Several processes may each have one at the same time.
/// Dropping it removes both, and all links and namespaces; servers and clients are dropped before.
pub struct Lab {
    subnet: u8,
    next_client: AtomicU8,
    next_server: AtomicU8,
    folder: TempDir,
}

/// A server's own network: one interface, on one link to the bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// As `ip netns` knows it.
    pub name: String,
    /// Its address, as clients see it.
    pub address: Ipv4Addr,
}

impl Lab {
    /// A bridge on a free 10.77.x.0/24 and an empty folder. Removes what labs of dead processes left.
    ///
    /// # Errors
    /// If this machine lacks something: `make setup` provides it.
    pub fn open() -> Result<Lab> {
        for program in ["ip", "tc", "mount.nfs", "setpriv", "nsenter"] {
            require(program)?;
        }
        remains::remove_those_of_the_dead();
        let folder = tempfile::Builder::new()
            .prefix(&format!("{FOLDER_PREFIX}{}.", std::process::id()))
            .tempdir_in(FOLDERS)
            .map_err(Error::io(format!("make a folder in {FOLDERS}")))?;
        let subnet = claim_subnet()?;
        let (next_client, next_server) = (CLIENTS.start.into(), SERVERS.start.into());
        let lab = Lab { subnet, next_client, next_server, folder };
        ip(&format!("addr add {}/24 dev {}", lab.address(), bridge(subnet)))?;
        ip(&format!("link set {} up", bridge(subnet)))?;
        Ok(lab)
    }

    /// The address of this machine in the lab's network.
    pub fn address(&self) -> Ipv4Addr {
        self.host(1)
    }

    /// The address range of the lab's network.
    pub fn network(&self) -> String {
        format!("{}/24", self.host(0))
    }

    /// A place for files on this machine: data directories, logs. Clients can read it, not write it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts a client machine: a Linux kernel with the host name `name`, an address of its own, and so much
    /// memory. Its link is as fast as the machine can, or as it is told to be. [`Client::wait_booted`] waits
    /// for it.
    ///
    /// # Errors
    /// If the kernel is not installed, if the machine refuses, or if there are too many.
    pub fn client(&self, kernel: Kernel, name: &str, memory_mib: u32, link: Option<Link>) -> Result<Client> {
        let number = take_turn(&self.next_client, &CLIENTS, "clients")?;
        let tap = format!("{}c{number}", bridge(self.subnet));
        ip(&format!("tuntap add {tap} mode tap"))?;
        ip(&format!("link set {tap} master {} up", bridge(self.subnet)))?;
        if let Some(link) = link {
            link.check()?;
            link.shape(None, &tap)?;
            link.shape_entering(&tap, &format!("{}i{number}", bridge(self.subnet)))?;
        }
        let (address, folder) = (self.host(number), &self.folder().join(name));
        Client::boot(&Boot { kernel, name, address, memory_mib, tap: &tap, folder })
    }

    /// Makes a namespace for a server, on a link of its own.
    ///
    /// # Errors
    /// If the machine refuses, or if there are too many.
    pub fn namespace(&self, link: Option<Link>) -> Result<Namespace> {
        let number = take_turn(&self.next_server, &SERVERS, "servers")?;
        let bridge = bridge(self.subnet);
        let (name, near) = (format!("{bridge}-{number}"), format!("{bridge}s{number}"));
        let address = self.host(number);
        ip(&format!("netns add {name}"))?;
        ip(&format!("link add {near} type veth peer name eth0 netns {name}"))?;
        ip(&format!("-n {name} addr add {address}/24 dev eth0"))?;
        ip(&format!("-n {name} link set lo up"))?;
        if let Some(link) = link {
            link.check()?;
            Link::limit_groups(Some(&name), "eth0")?;
            link.shape(Some(&name), "eth0")?;
            link.shape(None, &near)?;
        }
        ip(&format!("-n {name} link set eth0 up"))?;
        // Linux's own congestion control, whatever this machine's: a namespace would inherit it.
        let net = self.host(0);
        ip(&format!(
            "-n {name} route replace {net}/24 dev eth0 proto kernel scope link src {address} congctl cubic"
        ))?;
        ip(&format!("link set {near} master {bridge} up"))?;
        Ok(Namespace { name, address })
    }

    fn host(&self, number: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.subnet, number)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        remains::kill_clients_in(self.folder.path());
        remains::remove_network(self.subnet);
    }
}

fn take_turn(next: &AtomicU8, among: &std::ops::Range<u8>, what: &'static str) -> Result<u8> {
    let number = next.fetch_add(1, Ordering::Relaxed);
    let max = among.end - among.start;
    if among.contains(&number) { Ok(number) } else { Err(Error::Full { max, what }) }
}

/// The bridge is the claim: making one fails if its name is taken. Its alias says which process owns it.
fn claim_subnet() -> Result<u8> {
    let mut refusal = None;
    for subnet in 0..=u8::MAX {
        let bridge = bridge(subnet);
        match ip(&format!("link add name {bridge} type bridge")) {
            Ok(()) => {
                ip(&format!("link set {bridge} alias {}", std::process::id()))?;
                return Ok(subnet);
            }
            Err(e) => refusal = Some(e),
        }
    }
    Err(Error::NoSubnet(Box::new(refusal.expect("there are subnets to try"))))
}
