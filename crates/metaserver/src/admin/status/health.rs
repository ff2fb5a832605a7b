//! The verdict on a cluster: healthy, degraded or failed, with a finding for each reason.
//!
//! A finding is *failed* if clients wait or get errors because of it now, or if the state of the group is
//! unknown. It is *degraded* if everything works, but with too little redundancy, space or certainty.

use std::collections::BTreeSet;

use cluster::{Liveness, clocks::differs};
use serde::{Deserialize, Serialize};

use super::{Chains, DataServer, Metaserver, Status, Target};

/// Missing log entries above which a member is behind: at the rate of a busy cluster, some seconds.
const LAG_MAX: u64 = 20_000;
/// Percentage of free space below which a target will soon be full.
const FREE_PERCENT_MIN: u64 = 5;
/// Number of deferred object operations above which objects are removed more slowly than files.
const DEFERRED_MAX: u64 = 5_000;

/// The cluster's condition, from good to bad.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing to do.
    #[default]
    Healthy,
    /// Everything works; something needs an operator.
    Degraded,
    /// Something that clients need does not work.
    Failed,
}

impl Verdict {
    /// Word for the verdict.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Healthy => "healthy",
            Verdict::Degraded => "degraded",
            Verdict::Failed => "failed",
        }
    }

    /// 0, 1 or 2: the exit status of `heorot status`, and the value of the metric `heorot_health`.
    #[must_use]
    pub fn level(self) -> u8 {
        self as u8
    }
}

/// Finding: one reason of a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Severity; never healthy.
    pub verdict: Verdict,
    /// The fault, with the name of the server or target.
    pub problem: String,
    /// Remedy.
    pub action: String,
}

/// Verdict and its reasons, the worst first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Worst verdict of the findings.
    pub verdict: Verdict,
    /// Reasons.
    pub findings: Vec<Finding>,
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, verdict: Verdict, problem: String, action: impl Into<String>) {
        self.0.push(Finding { verdict, problem, action: action.into() });
    }
}

/// Computes the verdict from `status`.
pub(super) fn assess(status: &Status) -> Health {
    let mut findings = Findings::default();
    consensus(status, &mut findings);
    members(status, &mut findings);
    service_addresses(status, &mut findings);
    data_servers(status, &mut findings);
    chains(status, &mut findings);
    zones(status, &mut findings);
    for (pool, why) in &status.pools_without_place {
        findings.add(
            Verdict::Failed,
            format!("the pool {pool} {why}"),
            format!("start its data servers, or put targets into it: heorot pool add {pool} TARGET"),
        );
    }
    for (target, why) in &status.drains_without_place {
        findings.add(
            Verdict::Degraded,
            format!("target {target} drains, and cannot be emptied: {why}"),
            "or have it serve again: heorot target undrain, heorot node undrain",
        );
    }
    versions(status, &mut findings);
    clocks(status, &mut findings);
    if status.commands_given_up > 0 {
        findings.add(
            Verdict::Degraded,
            format!(
                "{} commands broke an invariant of the metadata, and were dropped",
                status.commands_given_up
            ),
            "report the ERROR lines of the metaservers' logs; clients got an error for these commands",
        );
    }
    if status.deferred_ops > DEFERRED_MAX {
        findings.add(
            Verdict::Degraded,
            format!("{} files wait for their objects to be truncated or removed", status.deferred_ops),
            "start the data servers that are silent; the log of the leader names the targets",
        );
    }
    let mut findings = findings.0;
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.verdict));
    let verdict = findings.first().map_or(Verdict::Healthy, |finding| finding.verdict);
    Health { verdict, findings }
}

fn consensus(status: &Status, findings: &mut Findings) {
    if status.leader.is_none() {
        let voters = status.metaservers.iter().filter(|m| is_voter(m) && m.name != status.asked);
        let others: Vec<&str> = voters.map(|m| m.name.as_str()).collect();
        findings.add(
            Verdict::Failed,
            format!(
                "{} cannot reach enough metaservers with a vote, so it knows of no leader and serves no client",
                status.asked
            ),
            format!(
                "start those that are down ({}); if they are well, look at the network of {}",
                others.join(", "),
                status.asked
            ),
        );
    } else if status.service_addresses.is_none() {
        findings.add(
            Verdict::Degraded,
            format!("{} cannot ask the leader how the others are", status.asked),
            "ask again; if it stays so, look at the network between the two on their consensus ports",
        );
    }
}

fn is_voter(member: &Metaserver) -> bool {
    member.role != "learner"
}

fn members(status: &Status, findings: &mut Findings) {
    let voters = status.metaservers.iter().filter(|member| is_voter(member)).count();
    let silent = |member: &&Metaserver| is_voter(member) && member.liveness == Liveness::Silent;
    let silent_voters = status.metaservers.iter().filter(silent).count();
    // Number of further voters that may fail.
    let spare = (voters.saturating_sub(1) / 2).saturating_sub(silent_voters);
    for member in &status.metaservers {
        let name = &member.name;
        if member.liveness == Liveness::Silent {
            let rest = match (is_voter(member), spare) {
                (true, 0) => "; if one more with a vote dies, clients wait",
                _ => "",
            };
            findings.add(
                Verdict::Degraded,
                format!("metaserver {name} is silent{}{rest}", since(member.seen_ms)),
                format!("start it; if it is gone for good: heorot node remove {name} --role mds --force"),
            );
        } else if member.out_of_service {
            findings.add(
                Verdict::Degraded,
                format!("metaserver {name} serves no client: its metadata differ from the others', or cannot be read"),
                format!(
                    "its log says why. Check its disk; then heorot node remove {name} --role mds, and have it join again with \
                     an empty directory"
                ),
            );
        } else if member.state == "joining" {
            let action = "wait until it has everything; its log says how far it is";
            findings.add(Verdict::Degraded, format!("metaserver {name} is joining"), action);
        } else if member.lag.is_some_and(|lag| lag > LAG_MAX) {
            findings.add(
                Verdict::Degraded,
                format!("metaserver {name} lacks {} entries of the log", member.lag.unwrap_or_default()),
                "look at its disk, its processors and its network",
            );
        }
    }
}

fn service_addresses(status: &Status, findings: &mut Findings) {
    for address in status.service_addresses.iter().flatten().filter(|address| address.holder.is_none()) {
        let (verdict, servers, advice) = match address.is_of_data_servers {
            false => (
                Verdict::Failed,
                "metaserver",
                "if it stays so: the metaservers' logs say why none can take it",
            ),
            true => (
                Verdict::Degraded,
                "data server",
                "if it stays so: the data servers' logs say why none can take it",
            ),
        };
        findings.add(verdict, format!("no {servers} holds the service address {}", address.address), advice);
    }
}

fn data_servers(status: &Status, findings: &mut Findings) {
    if status.data_servers.is_empty() {
        let problem = "there is no data server: files of more than 64 KiB cannot be written".into();
        findings.add(Verdict::Degraded, problem, "add one: heorot join --role ds, or heorot ds");
        return;
    }
    for server in &status.data_servers {
        match server.liveness {
            Liveness::Silent => silent_data_server(server, findings),
            Liveness::Alive | Liveness::Unknown => {
                server.targets.iter().for_each(|target| one_target(&server.name, target, findings));
            }
        }
    }
    let is_usable = |server: &DataServer| {
        let ok = server.targets.iter().any(Target::takes_files);
        server.state != "draining" && server.liveness != Liveness::Silent && ok
    };
    if !status.data_servers.iter().any(is_usable) {
        findings.add(
            Verdict::Failed,
            "no target takes new files".into(),
            "mend what stands here besides, or add a data server or a target",
        );
    }
}

fn chains(status: &Status, findings: &mut Findings) {
    let Chains { count, refilling, incomplete, waiting, in_doubt, .. } = status.chains;
    if in_doubt > 0 {
        findings.add(
            Verdict::Failed,
            format!(
                "{in_doubt} of {count} chains of targets wait since the restore, until the data servers that had their data last tell \
                 so"
            ),
            "start all data servers, also those that were added after the backup, and run heorot ds adopt on each; the log \
             names the targets",
        );
    }
    if waiting > in_doubt {
        findings.add(
            Verdict::Failed,
            format!(
                "{} of {count} chains of targets have no member with all data: their files wait",
                waiting - in_doubt
            ),
            "start the data servers that are silent; the last one that was in a chain has its data",
        );
    }
    if incomplete > waiting {
        findings.add(
            Verdict::Degraded,
            format!("{incomplete} of {count} chains of targets lack a member: their data have fewer copies"),
            "wait, if more copies were asked for just now; else start the data servers that are silent, or mend their disks: the \
             copies come back by themselves",
        );
    }
    if refilling > 0 {
        findings.add(
            Verdict::Degraded,
            format!("{refilling} of {count} chains of targets are refilled"),
            "wait; heorot status shows how far it is, and `refill_rate` in ds.toml is the limit of each data server",
        );
    }
}

fn zones(status: &Status, findings: &mut Findings) {
    let zones: BTreeSet<&str> = status.data_servers.iter().map(|server| server.zone.as_str()).collect();
    if zones.iter().all(|zone| zone.is_empty()) {
        return;
    }
    for server in status.data_servers.iter().filter(|server| server.zone.is_empty()) {
        findings.add(
            Verdict::Degraded,
            format!(
                "data server {} has no zone, and others have one: copies may share its zone",
                server.name
            ),
            "set `zone` in its ds.toml, and restart it",
        );
    }
    let Chains { count, in_one_zone, .. } = status.chains;
    if in_one_zone > 0 {
        findings.add(
            Verdict::Degraded,
            format!("{in_one_zone} of {count} chains of targets have copies that share a zone"),
            "wait, they move apart where there is room (heorot get rebalance must say true); else add data servers in other zones",
        );
    }
}

fn silent_data_server(server: &DataServer, findings: &mut Findings) {
    let name = &server.name;
    let objects: u64 = server.targets.iter().map(|target| target.objects).sum();
    let is_unknown = server.targets.iter().any(|target| target.path.is_empty());
    let (verdict, consequence) = match objects {
        0 if !is_unknown => (Verdict::Degraded, ""),
        _ if !server.has_sole_copies => (Verdict::Degraded, "; others have copies of its data"),
        _ => (Verdict::Failed, ": files with data there cannot be read or written"),
    };
    findings.add(
        verdict,
        format!("data server {name} is silent{}{consequence}", since(server.seen_ms)),
        format!("start it; if its data are gone for good: heorot node remove {name} --role ds --force"),
    );
}

fn one_target(server: &str, target: &Target, findings: &mut Findings) {
    let place = if target.path.is_empty() { &target.id } else { &target.path };
    let named = format!("target {place} of {server}");
    let add = |findings: &mut Findings, verdict, problem: &str, action: &str| {
        findings.add(verdict, format!("{named} {problem}"), action);
    };
    let percent = (u128::from(target.free_bytes) * 100).checked_div(target.total_bytes.into());
    match target.state.as_str() {
        "ok" if percent.is_some_and(|percent| percent < FREE_PERCENT_MIN.into()) => {
            add(findings, Verdict::Degraded, "is almost full", "add targets or data servers, or remove files")
        }
        "ok" | "silent" => {}
        "damaged" => add(
            findings,
            Verdict::Failed,
            "has damaged blocks: reads of them fail",
            "look at its disk; the log of its data server names the objects. Restore their files from a backup",
        ),
        "full" => add(
            findings,
            Verdict::Degraded,
            "is full: files that have data there cannot grow",
            "add targets or data servers, or remove files",
        ),
        "read-only" => add(
            findings,
            Verdict::Failed,
            "is read-only: files that have data there cannot be written",
            "look at its disk and the kernel's log, mend it and mount it writable",
        ),
        "missing" => add(
            findings,
            Verdict::Failed,
            "is not there: files that have data there cannot be read or written",
            &format!(
                "mount its disk again, and restart its data server; if its data are gone for good: heorot target lost {}",
                target.id
            ),
        ),
        state => add(
            findings,
            Verdict::Failed,
            &format!("is {state}: files that have data there cannot be read or written"),
            "look at its disk and the data server's log, mend it, and start the data server again",
        ),
    }
}

fn clocks(status: &Status, findings: &mut Findings) {
    let members = status.metaservers.iter().map(|member| (&member.name, member.clock_ahead_ms));
    let servers = status.data_servers.iter().map(|server| (&server.name, server.clock_ahead_ms));
    for (name, ahead_ms) in members.chain(servers) {
        if let Some(ahead_ms) = ahead_ms.filter(|ahead| differs(*ahead)) {
            let which = if ahead_ms > 0 { "ahead of" } else { "behind" };
            let time = host::time::show_rounded(std::time::Duration::from_millis(ahead_ms.unsigned_abs()));
            findings.add(
                Verdict::Degraded,
                format!("the clock of {name} is {time} {which} the cluster's: times of files may be wrong"),
                format!("set the clock of {name}; chronyd or systemd-timesyncd keep it right"),
            );
        }
    }
}

fn versions(status: &Status, findings: &mut Findings) {
    let members = status.metaservers.iter().map(|member| (&member.name, &member.version));
    let servers = status.data_servers.iter().map(|server| (&server.name, &server.version));
    let others: Vec<String> = members
        .chain(servers)
        .filter(|(_, version)| !version.is_empty() && **version != status.version)
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    if !others.is_empty() {
        findings.add(
            Verdict::Degraded,
            format!("versions differ: {} {}, {}", status.asked, status.version, others.join(", ")),
            "finish the upgrade: install the newer one and restart them one by one",
        );
    }
}

fn since(seen_ms: Option<u64>) -> String {
    seen_ms.map_or_else(String::new, |ms| format!(" for {} s", ms / 1000))
}

#[cfg(test)]
#[path = "health/tests.rs"]
mod tests;
