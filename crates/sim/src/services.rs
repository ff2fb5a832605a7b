//! Cluster of metaservers, data servers and NFS clients: its beginning, its faults, and its rest.
//!
//! Storms, in which all kinds of faults meet, take turns with calms, which are longer than a lease and a
//! half: what takes a client lease has its time then, and is judged by the clock.

use namespace::{InodeId, read};

use crate::claims::Calm;
use crate::cluster::Cluster;
use crate::data_server::DataServer;
use crate::faults::Faults;
use crate::mount::NfsClient;
use crate::net::Address;
use crate::object_disk::ObjectDisk;
use crate::rng::Rng;
use crate::service::LEASE;

/// Longest time in which all metaservers begin to serve.
const SERVE_MS_MAX: u64 = 20_000;
/// Duration of a storm.
const STORM_MS: u64 = 5_000;
/// Factor for the pauses between faults of a storm.
const TIME_FACTOR: u64 = 3;
/// Time after a storm in which leaders are elected, processes start and connections are made again.
const SETTLE_MS: u64 = 3_000;
/// Duration of a calm after that: two leases.
const CALM_MS: u64 = 2 * LEASE.as_millis() as u64;
/// Longest time in which objects without a file are removed.
const REST_MS_MAX: u64 = 40_000;
/// Time of one look for objects without a file.
const CLEAN_MS: u64 = 500;
/// Orphan scans after each fault, where there are many.
const SCANS: usize = 10;
/// Pause between faults of clients and data servers.
const BETWEEN_MS_MAX: u64 = 2_000;

impl Cluster {
    /// Lets data servers and NFS clients run.
    pub(crate) fn step_services(&mut self, now_ms: u64) {
        if !self.shared.serves {
            return;
        }
        let wakers = {
            let net = self.shared.net();
            self.shared.streams().deliver(now_ms, &net)
        };
        wakers.into_iter().for_each(std::task::Waker::wake);
        for server in &mut self.data_servers {
            if !server.runs() && now_ms >= server.starts_at_ms && server.starts_at_ms > 0 {
                self.shared.note(|| format!("data server {} starts", server.address));
                server.start();
            }
            if now_ms >= server.stalled_until_ms {
                server.advance(1);
            }
            if server.has_ended() {
                self.shared.note(|| format!("data server {} has ended", server.address));
                server.kill();
                server.starts_at_ms = now_ms + self.rng.within(200..=1000);
            }
            if server.disk().is_some_and(ObjectDisk::is_dead) {
                self.shared.note(|| format!("data server {}: the power goes", server.address));
                server.lose_power();
                server.starts_at_ms = now_ms + self.rng.within(50..=2000);
            }
        }
        let _runtime = self.clients.enter();
        for client in &mut self.nfs_clients {
            if !client.runs() && now_ms >= client.starts_at_ms && client.starts_at_ms > 0 {
                client.start();
            }
        }
    }

    /// Starts data servers and NFS clients, once all metaservers serve.
    pub(crate) fn begin_services(&mut self) -> Result<(), String> {
        self.data_servers.iter_mut().for_each(DataServer::start);
        let serve = |cluster: &Self| cluster.members.iter().all(|member| member.metaserver().is_some());
        if !self.until(SERVE_MS_MAX, serve) {
            return Err("not all metaservers serve".into());
        }
        let _runtime = self.clients.enter();
        self.nfs_clients.iter_mut().for_each(NfsClient::start);
        Ok(())
    }

    /// Storms and calms, for this time or a little longer.
    pub(crate) fn plague_services(&mut self, faults_ms: u64, rng: &mut Rng) {
        let end_ms = self.shared.now_ms() + faults_ms;
        while self.shared.now_ms() < end_ms {
            let storm_ends_ms = self.shared.now_ms() + STORM_MS;
            let mut faults = Faults::new(rng.fork(), self.client_count, TIME_FACTOR);
            let mut next_ms = 0;
            while self.shared.now_ms() < storm_ends_ms {
                faults.apply_due(&mut self.members, &self.shared);
                if self.shared.now_ms() >= next_ms {
                    next_ms = self.shared.now_ms() + rng.within(100..=BETWEEN_MS_MAX);
                    self.trouble_services(rng);
                    let data = self.shared.data;
                    if data.is_whole {
                        self.trouble_disks(rng);
                    }
                    if data.is_operated {
                        self.operate(rng);
                    }
                    if data.has_snapshots {
                        self.take_snapshots(rng);
                    }
                    if data.places_anew {
                        self.look_for_orphans(SCANS);
                    }
                }
                self.step();
            }
            self.mend();
            self.members.iter().for_each(|member| member.disk.cut_power_after(u64::MAX));
            let settled_ms = self.shared.now_ms() + SETTLE_MS;
            // Now and then one client is away for longer than its lease while all others go on.
            let away = (rng.below(2) == 0).then(|| self.cut_off_client(rng));
            let up = self.nfs_clients.iter().filter(|client| client.runs()).map(|client| client.address);
            let clients = up.filter(|address| Some(*address) != away).collect();
            if self.shared.data.is_operated {
                self.operate(rng);
            }
            self.until(SETTLE_MS, |_| false);
            let flips = if self.shared.data.flips_bits { self.flip_bits(rng) } else { vec![] };
            self.until(CALM_MS, |_| false);
            let mended = self.flips_are_mended(flips);
            self.shared.note_calm(Calm { from_ms: settled_ms, until_ms: self.shared.now_ms(), clients });
            self.shared.net().unblock_all();
            if let Err(why) = mended {
                self.shared.report_failure(self.shared.incarnation(), why);
            }
        }
    }

    fn trouble_services(&mut self, rng: &mut Rng) {
        let now_ms = self.shared.now_ms();
        let server = rng.below(self.data_servers.len());
        let client = rng.below(self.nfs_clients.len());
        match rng.below(6) {
            0 => {
                self.shared.note(|| format!("data server {server} is killed"));
                self.data_servers[server].kill();
                self.data_servers[server].starts_at_ms = now_ms + rng.within(1..=2000);
            }
            1 => {
                let ms = rng.within(50..=4000);
                self.shared.note(|| format!("data server {server} is silent for {ms} ms"));
                self.data_servers[server].stalled_until_ms = now_ms + ms;
            }
            2 => {
                self.shared.note(|| format!("client {client} dies"));
                self.nfs_clients[client].kill();
                self.nfs_clients[client].starts_at_ms = now_ms + rng.within(1..=12_000);
            }
            3 => drop(self.cut_off_client(rng)),
            _ => {}
        }
    }

    /// Cuts one client off from everything, until all links are repaired. Returns its address.
    fn cut_off_client(&mut self, rng: &mut Rng) -> Address {
        let client = self.nfs_clients[rng.below(self.nfs_clients.len())].address;
        self.shared.note(|| format!("client {client} is cut off"));
        let others = self.members.iter().map(|member| member.address);
        let others: Vec<u64> = others.chain(self.data_servers.iter().map(|server| server.address)).collect();
        let mut net = self.shared.net();
        for other in others {
            net.block_link(client, other);
            net.block_link(other, client);
        }
        client
    }

    /// Waits until there is no deferred work on objects. Then objects without a file are looked for, as each
    /// day, and must be gone.
    pub(crate) fn come_to_rest(&mut self) -> Result<(), String> {
        let none = |what: Result<Option<String>, String>| what.is_ok_and(|what| what.is_none());
        if !self.until(REST_MS_MAX, |cluster| none(cluster.deferred())) {
            return Err(self.deferred()?.unwrap_or_default());
        }
        let end_ms = self.shared.now_ms() + REST_MS_MAX;
        while let Some(orphan) = self.orphan()? {
            if self.shared.now_ms() > end_ms {
                return Err(orphan);
            }
            self.look_for_orphans(1);
            self.until(CLEAN_MS, |_| false);
        }
        Ok(())
    }

    /// Begins orphan scans at the leader, one after the other.
    fn look_for_orphans(&self, count: usize) {
        for member in &self.members {
            if let (Some(metaserver), Some(true)) =
                (member.metaserver(), member.replica().map(|replica| replica.leads()))
            {
                member.spawn(move |_| async move {
                    for _ in 0..count {
                        metaserver.data().clean().await;
                    }
                });
            }
        }
    }

    /// Deferred operations that are left, by the first member's store.
    fn deferred(&self) -> Result<Option<String>, String> {
        let store = self.members[0].store.now();
        let deferred = read::deferred_ops(&store, 10).map_err(|e| e.to_string())?;
        Ok((!deferred.is_empty()).then(|| format!("deferred operations are left: {deferred:?}")))
    }

    /// An object without a file, by the first member's store.
    fn orphan(&self) -> Result<Option<String>, String> {
        let store = self.members[0].store.now();
        for server in &self.data_servers {
            for (inode, generation, column) in server.objects() {
                let file = read::generation(&store, InodeId(inode)).map_err(|e| e.to_string())?;
                let owner = read::owner(&store, InodeId(inode)).map_err(|e| e.to_string())?;
                if file != Some(generation) && owner.is_none_or(|owner| owner.generation != generation) {
                    return Ok(Some(format!(
                        "data server {} has column {column} of {inode}, generation {generation}, which is no file",
                        server.address
                    )));
                }
            }
        }
        Ok(None)
    }
}
