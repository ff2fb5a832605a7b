//! Registration with a metaserver: the report of this server, and what the answer has it do.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use wire::cluster::register;

use crate::chain::RefillProgress;
use crate::server::{DataServer, Incarnation, Obeyed};

/// Addresses of a data server, and its zone.
#[derive(Debug, Clone)]
pub struct Reached {
    /// The machine's own, for servers, and for clients without a service address.
    pub advertise: SocketAddr,
    /// Service address for clients.
    pub service_address: Option<SocketAddr>,
    /// Its zone; empty: none.
    pub zone: Bytes,
}

/// A registration that is about to be sent.
#[derive(Debug, Clone)]
pub struct Registration {
    /// Arguments of REGISTER.
    pub args: register::Args,
    /// Time from which a lease in the answer counts: before the request is sent, as the leader counts it from the
    /// arrival.
    lease_begins: Duration,
}

/// What comes of an answer to a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registered {
    /// The metaserver has taken the registration in.
    Yes,
    /// The answer says what a registration must tell: the next one does, and is to be sent at once.
    Again,
    /// The targets obey another incarnation of the metaservers.
    OtherIncarnation,
    /// Another process of this data server has registered since this one.
    OtherProcess,
}

/// The process of this data server that the metaservers have. Each process takes the place of the one that it was told
/// of, and none registers again once another has taken its place.
#[derive(Default)]
pub(crate) struct KnownProcess(Mutex<Option<Known>>);

#[derive(Clone, Copy)]
struct Known {
    /// Incarnation of the metaservers.
    incarnation: u64,
    process: u64,
}

impl KnownProcess {
    /// The process that a registration is to take the place of; 0: none was told.
    fn get(&self) -> u64 {
        self.0.lock().map_or(0, |known| known.process)
    }

    /// Notes the answer of a metaserver to a registration that named a process as known. `own`: this process.
    fn note(&self, own: u64, named: u64, done: &register::ResOk) -> Registered {
        let (mut known, told) =
            (self.0.lock(), Known { incarnation: done.incarnation, process: done.process });
        let before = known.filter(|known| known.incarnation == told.incarnation);
        if told.process == own {
            *known = Some(told);
            return Registered::Yes;
        }
        let was_registered = before.is_some_and(|before| before.process == own);
        if !was_registered {
            *known = Some(told);
            return Registered::Again;
        }
        // An answer to a request from before this process registered elsewhere.
        if named != own { Registered::Again } else { Registered::OtherProcess }
    }
}

impl DataServer {
    /// The registration of this server. `map_version` gives the version of the cluster map that it knows of this
    /// incarnation. Waits for as long as statvfs does.
    ///
    /// # Errors
    /// A look at the targets that panicked.
    pub async fn registration(
        self: &Arc<Self>,
        reached: &Reached,
        map_version: impl FnOnce(u64) -> u64,
    ) -> Result<Registration, String> {
        let asked = Arc::clone(self);
        let targets = self.targets.blocking().run(move || asked.space()).await.map_err(|e| e.to_string())?;
        let obeyed = targets.first().map_or(0, |target| target.incarnation);
        let lease_begins = self.lease_begins();
        let wall = self.clock.wall();
        let clock_ms =
            u64::try_from(wall.seconds).unwrap_or(0) * 1000 + u64::from(wall.nanoseconds) / 1_000_000;
        let RefillProgress { members, bytes, left } = self.refill_progress();
        let args = register::Args {
            server: self.id(),
            name: Bytes::copy_from_slice(self.name().as_bytes()),
            addresses: vec![Bytes::from(reached.advertise.to_string())],
            service_address: reached
                .service_address
                .map_or_else(Bytes::new, |own| Bytes::from(own.to_string())),
            zone: reached.zone.clone(),
            targets,
            version: Bytes::from_static(env!("CARGO_PKG_VERSION").as_bytes()),
            map_version: map_version(obeyed),
            clock_ms,
            process: self.process(),
            known: self.known_process.get(),
            chains_of_map: self.chains_of_map(),
            refilled: self.refilled(),
            left: self.left_chains(),
            refill: register::Refill {
                members,
                bytes,
                left,
                compared: self.chain_metrics().refill_compared.get(),
            },
        };
        Ok(Registration { args, lease_begins })
    }

    /// Does what the answer to this registration says: obeys an incarnation, follows the clients' networks, and, once
    /// it obeyed before, takes over its chains, their lease, and settings.
    ///
    /// # Errors
    /// A target's identity that cannot be written.
    pub async fn registered(
        self: &Arc<Self>,
        sent: &Registration,
        done: &register::ResOk,
    ) -> Result<Registered, String> {
        let (told, name_space) = (Arc::clone(self), done.name_space);
        let incarnation = Incarnation { id: done.incarnation, epoch: done.epoch };
        let noted = self.targets.blocking().run(move || told.belong_to(name_space, incarnation)).await;
        let obeyed = noted.map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
        // Before the registration is complete: clients may connect from then on.
        if obeyed != Obeyed::Not && done.map_version != sent.args.map_version {
            let text = |network: &Bytes| String::from_utf8_lossy(network).parse().ok();
            let networks = done.networks.iter().filter_map(text).collect();
            self.client_networks().tell(done.incarnation, done.map_version, networks);
        }
        match obeyed {
            Obeyed::Not => return Ok(Registered::OtherIncarnation),
            // To report the incarnation.
            Obeyed::FromNowOn => return Ok(Registered::Again),
            Obeyed::AsBefore => {}
        }
        let registered = self.known_process.note(self.process(), sent.args.known, done);
        if registered == Registered::Yes {
            self.targets.follow_answer(&sent.args.targets, || self.follow(sent, done));
        }
        Ok(registered)
    }

    /// Takes over chains, their lease, and settings from the answer to a registration of all targets.
    fn follow(&self, sent: &Registration, done: &register::ResOk) {
        // The chains first: a lease without them would serve by an earlier version.
        if done.map_version != sent.args.chains_of_map {
            self.tell_all_chains(done.map_version, &done.chains);
        }
        self.set_verified_at_scrub(&done.verify_at_scrub);
        if done.chain_lease_ms > 0 {
            let time = Duration::from_millis(u64::from(done.chain_lease_ms));
            self.extend_lease(sent.lease_begins, time);
        }
        self.set_trash_time(Duration::from_secs(done.trash_seconds));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u64 = 3;

    fn told(incarnation: u64, process: u64) -> register::ResOk {
        register::ResOk {
            heartbeat_ms: 1000,
            map_version: 1,
            metaservers: vec![],
            name_space: 1,
            incarnation,
            epoch: 1,
            process,
            networks: vec![],
            trash_seconds: 0,
            chain_lease_ms: 0,
            verify_at_scrub: vec![],
            chains: vec![],
        }
    }

    #[test]
    fn a_process_takes_the_place_of_the_one_it_was_told_of_and_not_of_one_that_came_after_it() {
        let known = KnownProcess::default();
        assert_eq!(known.get(), 0);
        assert_eq!(known.note(OWN, 0, &told(1, 2)), Registered::Again);
        assert_eq!(known.get(), 2);
        assert_eq!(known.note(OWN, 2, &told(1, OWN)), Registered::Yes);
        assert_eq!(known.get(), OWN);
        assert_eq!(known.note(OWN, 0, &told(1, 2)), Registered::Again, "a metaserver that was asked before");
        assert_eq!(known.get(), OWN);
        assert_eq!(known.note(OWN, OWN, &told(1, 4)), Registered::OtherProcess);
        assert_eq!(known.note(OWN, OWN, &told(1, 4)), Registered::OtherProcess);
        assert_eq!(known.get(), OWN);
    }

    #[test]
    fn a_group_that_was_restored_knows_a_process_of_long_ago() {
        let known = KnownProcess::default();
        assert_eq!(known.note(OWN, 0, &told(1, OWN)), Registered::Yes);
        assert_eq!(known.note(OWN, OWN, &told(2, 1)), Registered::Again);
        assert_eq!(known.note(OWN, 1, &told(2, OWN)), Registered::Yes);
    }
}
