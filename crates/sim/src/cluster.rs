//! Simulated cluster, moved on by one millisecond at a time: it is set up, suffers faults, then recovers.
//!
//! ```text
//! for each millisecond:  faults ─▶ arrived calls ─▶ to their members ─▶ each member runs until it waits ─▶ clients
//! ```

use std::sync::Arc;
use std::time::Duration;

use replica::MemberRole;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::client::Client;
use crate::copies::PACE_MS;
use crate::data_server::{DATA_SERVERS, DataServer};
use crate::faults::Faults;
use crate::history::History;
use crate::member::{Member, replica_member};
use crate::membership::Changes;
use crate::mount::NfsClient;
use crate::net::{Arrival, CLIENTS, LinkConditions, Net};
use crate::object_disk::Condition;
use crate::operators::Draining;
use crate::oracles;
use crate::restore::OldMember;
use crate::rng::Rng;
use crate::scenario::Scenario;
use crate::shared::Shared;

/// Time without faults, in which clients get sessions and create a few files.
const QUIET_MS: u64 = 300;
/// Longest time in which a member answers with a backup.
const BACKUP_MS_MAX: u64 = 500;
/// Longest time of a join.
const JOIN_MS_MAX: u64 = 20_000;
/// Longest time of the recovery from all faults.
const RECOVERY_MS_MAX: u64 = 60_000;

/// Outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Hash of all events: the same for the same seed.
    pub trace: u64,
    /// Number of clients' operations.
    pub operations: usize,
    /// Number of commands in the log.
    pub commands: usize,
    /// Findings of the oracles, each with its oracle's name.
    pub findings: Vec<String>,
}

/// Runs a scenario.
#[must_use]
pub fn run(scenario: &Scenario) -> Outcome {
    let mut rng = Rng::new(scenario.seed);
    replica::seed_thread(rng.number());
    let mut cluster = Cluster::new(scenario, &mut rng);
    let mut findings = vec![];
    match cluster.come_to_be() {
        Err(why) => findings.push(format!("comes to be: {why}")),
        Ok(()) => {
            cluster.until(QUIET_MS, |_| false);
            match cluster.shared.serves {
                true => cluster.plague_services(scenario.faults_ms, &mut rng),
                false => cluster.plague(scenario.faults_ms, &mut rng),
            }
            if cluster.shared.restores {
                match cluster.restore(&mut rng) {
                    Ok(found) => findings.extend(found),
                    Err(why) => findings.push(format!("restored: {why}")),
                }
                cluster.plague(scenario.faults_ms, &mut rng);
            }
            findings.extend(cluster.recover().err().map(|why| format!("recovers: {why}")));
        }
    }
    if cluster.shared.serves && findings.is_empty() {
        findings.extend(cluster.come_to_rest().err().map(|why| format!("objects: {why}")));
        if cluster.shared.data.is_whole {
            findings.extend(cluster.copies_come_to_rest().err().map(|why| format!("copies: {why}")));
        }
    }
    findings.extend(oracles::judge(&cluster.shared, &cluster.members));
    let claims = cluster.shared.claims().all.len();
    let history = cluster.shared.history();
    Outcome {
        trace: history.trace(),
        operations: history.operations.len() + claims,
        commands: history.log.len(),
        findings,
    }
}

/// Cluster of members, clients, and the network between them.
pub struct Cluster {
    /// Machines; the member of the first one has id 1.
    pub members: Vec<Member>,
    /// Data servers, if members are metaservers.
    pub data_servers: Vec<DataServer>,
    /// NFS clients, if members are metaservers.
    pub nfs_clients: Vec<NfsClient>,
    /// State shared by all of them.
    pub shared: Arc<Shared>,
    pub(crate) clients: Runtime,
    working: Vec<JoinHandle<()>>,
    pub(crate) client_count: u64,
    /// Number of the data server that an operator drains.
    pub(crate) draining: Option<Draining>,
    /// Machine of the group before the restore.
    left_over: Option<OldMember>,
    pub(crate) rng: Rng,
}

impl Cluster {
    fn new(scenario: &Scenario, rng: &mut Rng) -> Self {
        let net = Net::new(rng.fork());
        let shared = Arc::new(Shared::new(net, History::new(scenario.prints), scenario));
        let count = *rng.of(&[1, 3, 3, 3, 3, 3, 5]).unwrap_or(&3);
        let count = count.max(shared.membership.members_min());
        let members = (1..=count).map(|at| Member::new(at, count, &shared, rng.fork())).collect();
        let clients = clients_runtime();
        let client_count = rng.within(2..=4);
        let mut rng = rng.fork();
        let (mut data_servers, mut nfs_clients) = (vec![], vec![]);
        if shared.serves {
            let data_server = |n| DataServer::new(DATA_SERVERS + n, count, &shared, rng.fork());
            data_servers.extend((0..shared.data.servers).map(data_server));
            let nfs_client = |n| NfsClient::new(CLIENTS + n, count, &shared, rng.fork());
            nfs_clients.extend((0..client_count).map(nfs_client));
        }
        Self {
            members,
            data_servers,
            nfs_clients,
            shared,
            clients,
            working: vec![],
            client_count,
            draining: None,
            left_over: None,
            rng,
        }
    }

    /// Runs one millisecond.
    pub(crate) fn step(&mut self) {
        let now_ms = self.shared.advance(1);
        self.step_services(now_ms);
        let arrived = self.shared.net().arrived(now_ms);
        for arrival in arrived {
            let Arrival::Call { number, to, call } = arrival else { continue };
            if let Some(member) = self.members.iter_mut().find(|member| member.address == to) {
                member.handle_call(number, call);
            }
        }
        for member in &mut self.members {
            if now_ms >= member.stalled_until_ms {
                member.catch_up();
                member.advance(1);
            } else {
                member.missed_ms += 1;
            }
            if member.runs() && member.disk.is_dead() {
                self.shared.note(|| format!("member {}: the power goes", member.id));
                member.kill(true);
                member.starts_at_ms = now_ms + self.rng.within(50..=2000);
                self.shared.net().reset(member.address);
            }
            if member.was_removed() {
                // Mostly its disk is emptied, as its log demands; otherwise it starts, and finds out again.
                match self.rng.below(4) {
                    0 => member.kill(false),
                    _ => member.replace_disk(false),
                }
                member.starts_at_ms = now_ms + self.rng.within(50..=1000);
                self.shared.net().reset(member.address);
            }
            if !member.runs() && now_ms >= member.starts_at_ms && member.starts_at_ms > 0 {
                self.shared.note(|| format!("member {} starts", member.id));
                member.start();
            }
        }
        if let Some(left_over) = &mut self.left_over {
            left_over.step(now_ms);
        }
        self.clients.block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
    }

    pub(crate) fn until(&mut self, limit_ms: u64, done: impl Fn(&Self) -> bool) -> bool {
        let end_ms = self.shared.now_ms() + limit_ms;
        while !done(self) {
            if self.shared.now_ms() >= end_ms {
                return false;
            }
            self.step();
        }
        true
    }

    /// Starts all members, which join one after the other; then the clients.
    fn come_to_be(&mut self) -> Result<(), String> {
        for at in 0..self.members.len() {
            let (id, address) = (self.members[at].id, self.members[at].address);
            self.members[at].start();
            if !self.until(JOIN_MS_MAX, |cluster| cluster.members[at].replica().is_some()) {
                return Err(format!("member {id} does not begin"));
            }
            if id > 1 {
                self.members[at].spawn(move |replica| async move {
                    let limit = Duration::from_millis(JOIN_MS_MAX);
                    let _ = replica
                        .join(&replica_member(1).address, replica_member(address), MemberRole::Voter, limit)
                        .await;
                });
            }
            let is_voter = |cluster: &Self| {
                let status = cluster.members[at].status();
                status.is_some_and(|s| s.members.iter().any(|(member, _, voter)| *member == id && *voter))
            };
            if !self.until(JOIN_MS_MAX, is_voter) {
                return Err(format!("member {id} is not taken in"));
            }
        }
        if self.shared.serves {
            return self.begin_services();
        }
        self.begin_clients();
        Ok(())
    }

    fn begin_clients(&mut self) {
        let members = self.members.len() as u64;
        for number in 0..self.client_count {
            let client = Client::new(CLIENTS + number, members, &self.shared);
            self.working.push(self.clients.spawn(client.run(self.rng.fork())));
        }
    }

    /// Takes a backup, loses all machines, and restores the group from the backup. Returns the oracles'
    /// findings about the old group.
    fn restore(&mut self, rng: &mut Rng) -> Result<Vec<String>, String> {
        let asked_ms = self.shared.now_ms();
        let has_backup = |cluster: &Self| cluster.shared.backup().is_some();
        while !has_backup(self) {
            if self.shared.now_ms() > asked_ms + RECOVERY_MS_MAX {
                return Err("there is no backup".into());
            }
            let at = rng.below(self.members.len());
            self.members[at].back_up();
            if !self.until(BACKUP_MS_MAX, has_backup) {
                // No backup without a majority.
                self.shared.net().unblock_all();
            }
        }
        // More operations follow, which will be lost.
        self.until(rng.within(0..=1000), |_| false);
        // With all their requests in flight.
        self.working.clear();
        self.clients = clients_runtime();
        self.shared.net().forget_clients();
        let Some(backup) = self.shared.backup().take() else { return Err("there is no backup".into()) };
        // A joining member may have an empty store.
        let mut findings = oracles::judge(&self.shared, &[]);
        findings.extend(oracles::judge_backup(&self.shared.history(), &backup));
        self.shared.note(|| format!("all disks are lost; a backup has what is below {}", backup.applied));
        let expected = self.shared.history().sums.get(&backup.applied).map(|(_, sum)| *sum);
        self.shared.begin_incarnation();
        self.shared.history().restart_from(backup.applied);
        let (one, old) = (rng.below(self.members.len()), rng.below(self.members.len()));
        self.left_over = Some(OldMember::new(&mut self.members[old], &self.shared, rng.fork()));
        let now_ms = self.shared.now_ms();
        for (at, member) in self.members.iter_mut().enumerate() {
            member.replace_disk(false);
            member.stalled_until_ms = 0;
            member.starts_at_ms = now_ms + rng.within(1..=1500);
            self.shared.net().reset(member.address);
            if at == one {
                member.restore(&backup, expected)?;
                member.starts_at_ms = now_ms + 1;
            }
        }
        self.begin_clients();
        Ok(findings)
    }

    fn plague(&mut self, faults_ms: u64, rng: &mut Rng) {
        let time_factor = self.shared.membership.time_factor();
        let mut faults = Faults::new(rng.fork(), self.client_count, time_factor);
        let mut changes = Changes::new(rng.fork());
        let end_ms = self.shared.now_ms() + faults_ms * time_factor;
        while self.shared.now_ms() < end_ms {
            faults.apply_due(&mut self.members, &self.shared);
            changes.apply_due(&mut self.members, &self.shared);
            self.step();
        }
    }

    /// Ends all faults; clients finish their requests, and all members reach one index.
    fn recover(&mut self) -> Result<(), String> {
        self.mend();
        self.shared.begin_ending();
        let finished = |cluster: &Self| {
            cluster.working.iter().all(JoinHandle::is_finished)
                && cluster.nfs_clients.iter().all(NfsClient::has_finished)
        };
        if !self.until(RECOVERY_MS_MAX, finished) {
            self.note_statuses();
            return Err("clients still wait for an answer".into());
        }
        let level = |cluster: &Self| {
            if !cluster.members.iter().all(|member| cluster.is_settled(member)) {
                return false;
            }
            let applied = cluster.applied();
            let last = cluster.shared.history().log.last_key_value().map_or(0, |(index, _)| index + 1);
            applied.iter().all(|at| at.is_some_and(|at| at >= last && Some(at) == applied[0]))
        };
        if self.until(RECOVERY_MS_MAX, level) {
            return Ok(());
        }
        self.note_statuses();
        Err(format!(
            "members do not become equal, or do not settle who they are: they have applied {:?}",
            self.applied()
        ))
    }

    /// Ends all faults.
    pub(crate) fn mend(&mut self) {
        self.shared.note(|| "all is mended".into());
        {
            let mut net = self.shared.net();
            net.unblock_all();
            net.conditions = LinkConditions::FAIR;
        }
        for member in &mut self.members {
            member.stalled_until_ms = 0;
            *member.pace.lock() = (50, 500);
            member.starts_at_ms = 1;
        }
        for server in &mut self.data_servers {
            (server.stalled_until_ms, server.starts_at_ms) = (0, 1);
            if let Some(disk) = server.disk() {
                disk.set_condition(Condition::Works);
                disk.set_pace(PACE_MS);
                disk.cut_power_after(u64::MAX);
            }
            if std::mem::take(&mut server.must_restart) {
                server.kill();
            }
        }
        self.nfs_clients.iter_mut().for_each(|client| client.starts_at_ms = 1);
    }

    /// True if a member knows of no unfinished membership change, of no stopped member, and of a leader that
    /// is a voter.
    fn is_settled(&self, member: &Member) -> bool {
        let Some(status) = member.status() else { return false };
        let is_there = |id: &u64| self.members.iter().any(|other| other.id == *id);
        let voters = |id: &u64| status.members.iter().any(|(other, _, votes)| other == id && *votes);
        !status.changing
            && status.members.iter().all(|(id, ..)| is_there(id))
            && status.leader.as_ref().is_some_and(voters)
    }

    fn note_statuses(&self) {
        for member in &self.members {
            let status = member.status();
            self.shared.note(|| format!("member {} stays as it is: {status:?}", member.id));
        }
    }

    /// Index after the last command that each member has applied; None: it does not run.
    fn applied(&self) -> Vec<Option<u64>> {
        self.members.iter().map(|m| m.status().map(|status| status.applied)).collect()
    }
}

fn clients_runtime() -> Runtime {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without threads and sockets")
}
