//! Registration with a metaserver: the report of this server, and what the answer has it do.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
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
    ) -> Result<Obeyed, String> {
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
        if obeyed == Obeyed::AsBefore {
            self.targets.follow_answer(&sent.args.targets, || self.follow(sent, done));
        }
        Ok(obeyed)
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
