//! Network between clients and servers, and folder for all files of a lab.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;
use tempfile::TempDir;

use crate::boot::{Boot, Diskless};
use crate::command::{ip, require};
use crate::remains::{self, FOLDER_PREFIX, FOLDERS, bridge};
use crate::{Client, Error, Kernel, Link, Result};

const CLIENTS: std::ops::Range<u8> = 10..100;
const SERVERS: std::ops::Range<u8> = 100..250;

/// Bridge with an address range, and a folder. Several processes may each have one at the same time. Drop
/// removes both, and all links and namespaces; drop servers and clients before.
pub struct Lab {
    subnet: u8,
    next_client: AtomicU8,
    next_server: AtomicU8,
    /// Numbers of diskless machines, which keep their address when they boot again.
    diskless: Mutex<BTreeMap<String, u8>>,
    folder: TempDir,
}

/// Network namespace of a server: one interface, on one link to the bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// Name for `ip netns`.
    pub name: String,
    /// Address for clients.
    pub address: Ipv4Addr,
}

impl Lab {
    /// Makes a bridge on a free 10.77.x.0/24 and an empty folder. First removes labs of dead processes.
    ///
    /// # Errors
    /// When a program of `make setup` is missing on this machine.
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
        let lab = Lab { subnet, next_client, next_server, diskless: Mutex::default(), folder };
        ip(&format!("addr add {}/24 dev {}", lab.address(), bridge(subnet)))?;
        ip(&format!("link set {} up", bridge(subnet)))?;
        Ok(lab)
    }

    /// Address of this machine in the lab's network.
    pub fn address(&self) -> Ipv4Addr {
        self.host(1)
    }

    /// Address range of the lab's network.
    pub fn network(&self) -> String {
        format!("{}/24", self.host(0))
    }

    /// Folder for files on this machine: data directories, logs. Clients can read it, not write it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Boots a client machine: a Linux kernel with the host name `name`, an address of its own, and
    /// `memory_mib` of memory. Without `link` its link has no limit. [`Client::wait_booted`] waits for the
    /// boot.
    ///
    /// # Errors
    /// When the kernel is not installed, a command fails, or the addresses are used up.
    pub fn client(&self, kernel: Kernel, name: &str, memory_mib: u32, link: Option<Link>) -> Result<Client> {
        self.boot(kernel, name, memory_mib, link, None)
    }

    /// Like [`Lab::client`], for a machine whose root is not the host's. Its name may be that of one that was dropped: then
    /// it is the same machine, which boots again.
    ///
    /// # Errors
    /// As [`Lab::client`].
    pub fn diskless(
        &self,
        kernel: Kernel,
        name: &str,
        memory_mib: u32,
        diskless: &Diskless,
    ) -> Result<Client> {
        self.boot(kernel, name, memory_mib, None, Some(diskless))
    }

    fn boot(
        &self,
        kernel: Kernel,
        name: &str,
        memory_mib: u32,
        link: Option<Link>,
        diskless: Option<&Diskless>,
    ) -> Result<Client> {
        let known = self.diskless.lock().get(name).copied().filter(|_| diskless.is_some());
        let number = known.map_or_else(|| take_turn(&self.next_client, &CLIENTS, "clients"), Ok)?;
        let tap = format!("{}c{number}", bridge(self.subnet));
        if known.is_none() {
            self.make_tap(&tap)?;
        }
        if diskless.is_some() {
            self.diskless.lock().insert(name.to_owned(), number);
        }
        if let Some(link) = link {
            link.check()?;
            link.shape(None, &tap)?;
            link.shape_entering(&tap, &format!("{}i{number}", bridge(self.subnet)))?;
        }
        let (address, folder) = (self.host(number), &self.folder().join(name));
        Client::boot(&Boot { kernel, name, address, memory_mib, tap: &tap, folder, diskless })
    }

    /// Makes a network device (tap) on the bridge for a machine that the caller runs. Returns its name, and an address that
    /// no other machine has.
    ///
    /// # Errors
    /// When a command fails, or the addresses are used up.
    pub fn tap(&self) -> Result<(String, Ipv4Addr)> {
        let number = take_turn(&self.next_client, &CLIENTS, "clients")?;
        let tap = format!("{}c{number}", bridge(self.subnet));
        self.make_tap(&tap)?;
        Ok((tap, self.host(number)))
    }

    fn make_tap(&self, tap: &str) -> Result<()> {
        ip(&format!("tuntap add {tap} mode tap"))?;
        ip(&format!("link set {tap} master {} up", bridge(self.subnet)))
    }

    /// Makes a namespace for a server, on a link of its own.
    ///
    /// # Errors
    /// When a command fails, or the addresses are used up.
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
        // Linux's default congestion control: otherwise the namespace inherits this machine's.
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

/// Claims a subnet by its bridge: making a bridge fails if its name exists. Its alias has the process id of
/// its owner. Its hardware address is given: else it would be the lowest of its machines', change when another one boots, and
/// clients would send to the old one until they ask again, up to a minute later.
fn claim_subnet() -> Result<u8> {
    let mut refusal = None;
    for subnet in 0..=u8::MAX {
        let bridge = bridge(subnet);
        match ip(&format!("link add name {bridge} address 02:00:0a:4d:{subnet:02x}:01 type bridge")) {
            Ok(()) => {
                ip(&format!("link set {bridge} alias {}", std::process::id()))?;
                return Ok(subnet);
            }
            Err(e) => refusal = Some(e),
        }
    }
    Err(Error::NoSubnet(Box::new(refusal.expect("there are subnets to try"))))
}
