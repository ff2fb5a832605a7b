//! Simulated machines on one network, in memory. Lifetimes of addresses follow a test's clock, and the test
//! sees all machines at once, so that an oracle can find two holders of one address.
//!
//! The simulation is as late as Linux may be: an address stays [`EXPIRY_LATE_MAX`] longer than its lifetime.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::{EXPIRY_LATE_MAX, Error, Holding, Interfaces, Mac, Result, check_unicast, whole_seconds};
use crate::Clock;

/// Name of each machine's only interface.
const INTERFACE: &str = "eth0";

/// Network that contains all addresses.
pub struct FakeNetwork {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    machines: Vec<Machine>,
    /// Machine in the neighbours' caches, by address.
    cached: BTreeMap<IpAddr, usize>,
}

#[derive(Debug, Default)]
struct Machine {
    name: String,
    is_cut_off: bool,
    is_forbidden: bool,
    permanent: Vec<IpAddr>,
    /// End of each address's lifetime, by the clock.
    held: BTreeMap<IpAddr, Duration>,
    answers: BTreeMap<IpAddr, Mac>,
    /// Tickles sent: from, to.
    tickles: Vec<(SocketAddr, SocketAddr)>,
}

impl FakeNetwork {
    /// Network without machines.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { clock, state: Mutex::default() })
    }

    /// Adds a machine. If a server on it restarts, the addresses that it held are still there.
    #[must_use]
    pub fn join(self: &Arc<Self>, name: &str) -> FakeInterfaces {
        let mut state = self.state();
        state.machines.push(Machine { name: name.to_owned(), ..Machine::default() });
        FakeInterfaces { network: Arc::clone(self), machine: state.machines.len() - 1 }
    }

    /// Machines that have `address` now, cut off or not. More than one is a violation.
    #[must_use]
    pub fn holders(&self, address: IpAddr) -> Vec<String> {
        let state = self.state();
        state
            .machines
            .iter()
            .filter(|machine| machine.has(address))
            .map(|machine| machine.name.clone())
            .collect()
    }

    /// Machine that receives the frames of clients: it announced the address last, still has it, and is
    /// connected.
    #[must_use]
    pub fn reached(&self, address: IpAddr) -> Option<String> {
        let state = self.state();
        let machine = &state.machines[*state.cached.get(&address)?];
        (machine.has(address) && !machine.is_cut_off).then(|| machine.name.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        let now = self.clock.monotonic();
        for machine in &mut state.machines {
            machine.held.retain(|_, until| *until > now);
        }
        state
    }
}

impl Machine {
    fn has(&self, address: IpAddr) -> bool {
        self.permanent.contains(&address) || self.held.contains_key(&address)
    }
}

/// Interfaces of one machine of a [`FakeNetwork`].
pub struct FakeInterfaces {
    network: Arc<FakeNetwork>,
    machine: usize,
}

impl FakeInterfaces {
    /// Disconnects the machine from the network, or connects it.
    pub fn set_cut_off(&self, is_cut_off: bool) {
        self.network.state().machines[self.machine].is_cut_off = is_cut_off;
    }

    /// Removes the permission to change addresses, or restores it.
    pub fn set_forbidden(&self, is_forbidden: bool) {
        self.network.state().machines[self.machine].is_forbidden = is_forbidden;
    }

    /// Tickles that this machine sent: (from, to).
    #[must_use]
    pub fn tickles(&self) -> Vec<(SocketAddr, SocketAddr)> {
        self.network.state().machines[self.machine].tickles.clone()
    }

    /// Adds an address of the administrator.
    pub fn add_permanent(&self, address: IpAddr) {
        self.network.state().machines[self.machine].permanent.push(address);
    }

    fn mac(number: usize) -> Mac {
        let [.., a, b] = number.to_be_bytes();
        Mac([0x02, 0, 0, 0, a, b]) // locally administered
    }

    fn check(&self, address: IpAddr, interface: &str) -> Result<()> {
        check_unicast(address)?;
        if interface != INTERFACE {
            return Err(Error::NoInterface(interface.to_owned()));
        }
        let is_forbidden = self.network.state().machines[self.machine].is_forbidden;
        if is_forbidden { Err(Error::NotAllowed) } else { Ok(()) }
    }
}

impl Interfaces for FakeInterfaces {
    fn find(&self, address: IpAddr, named: Option<&str>) -> Result<String> {
        check_unicast(address)?;
        match named {
            Some(named) if named != INTERFACE => Err(Error::NoInterface(named.to_owned())),
            _ => Ok(INTERFACE.to_owned()),
        }
    }

    fn held(&self) -> Result<Vec<Holding>> {
        let now = self.network.clock.monotonic();
        let state = self.network.state();
        let held = state.machines[self.machine].held.iter().map(|(address, until)| {
            let left = until.saturating_sub(now).saturating_sub(EXPIRY_LATE_MAX);
            Holding {
                address: *address,
                interface: INTERFACE.to_owned(),
                left: Duration::from_secs(left.as_secs()),
            }
        });
        Ok(held.collect())
    }

    fn hold(&self, address: IpAddr, interface: &str, time: Duration) -> Result<()> {
        self.check(address, interface)?;
        let time = Duration::from_secs(whole_seconds(time).into());
        let until = self.network.clock.monotonic() + time + EXPIRY_LATE_MAX;
        let mut state = self.network.state();
        let machine = &mut state.machines[self.machine];
        if machine.permanent.contains(&address) {
            return Err(Error::Administrators { address, interface: interface.to_owned() });
        }
        machine.held.insert(address, until);
        Ok(())
    }

    fn release(&self, address: IpAddr) -> Result<()> {
        self.check(address, INTERFACE)?;
        self.network.state().machines[self.machine].held.remove(&address);
        Ok(())
    }

    fn announce(&self, address: IpAddr, interface: &str) -> Result<()> {
        self.check(address, interface)?;
        let mut state = self.network.state();
        if !state.machines[self.machine].is_cut_off {
            state.cached.insert(address, self.machine);
        }
        Ok(())
    }

    fn solicit(&self, address: IpAddr, interface: &str) -> Result<()> {
        self.check(address, interface)?;
        let mut state = self.network.state();
        let owner =
            state.machines.iter().enumerate().find(|(number, machine)| {
                *number != self.machine && !machine.is_cut_off && machine.has(address)
            });
        let mac = owner.map(|(number, _)| Self::mac(number));
        let machine = &mut state.machines[self.machine];
        machine.answers.remove(&address);
        if let (Some(mac), false) = (mac, machine.is_cut_off) {
            machine.answers.insert(address, mac);
        }
        Ok(())
    }

    fn answered(&self, address: IpAddr, interface: &str) -> Result<Option<Mac>> {
        self.check(address, interface)?;
        Ok(self.network.state().machines[self.machine].answers.get(&address).copied())
    }

    fn tickle(&self, from: SocketAddr, to: SocketAddr, _: u32) -> Result<()> {
        self.check(from.ip(), INTERFACE)?;
        self.network.state().machines[self.machine].tickles.push((from, to));
        Ok(())
    }
}
