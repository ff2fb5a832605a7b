//! Metrics page: the metrics of every server in this process, and the metaserver's view of the cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster::Liveness;
use dataserver::{DataServer, TargetChecks};
use metaserver::status::Status;
use nfs::{Metrics, exposition};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

/// Content type of the page, as `prometheus-client` writes it.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PREFIX: &str = "heorot";
const END: &str = "# EOF\n";

/// Registry of one server's metrics. Each line of the page has the labels.
pub(crate) fn registry(metrics: &Arc<Metrics>, labels: &[(&'static str, &str)]) -> Registry {
    let labels = labels.iter().map(|(key, value)| ((*key).into(), value.to_string().into()));
    let mut registry = Registry::with_prefix_and_labels(PREFIX, labels);
    metrics.register(&mut registry);
    registry
}

/// Renders one page of all registries. The servers of a process have the same metrics with different labels,
/// and a page may describe a metric only once.
pub(crate) fn page<'a>(registries: impl Iterator<Item = &'a Registry>) -> String {
    let mut metrics: BTreeMap<String, (String, String)> = BTreeMap::new();
    for registry in registries {
        let mut name = String::new();
        // Skip the headers of a metric that the page has already.
        let mut known = false;
        let mut in_headers = false;
        for line in exposition(registry).lines() {
            if let Some(header) = line.strip_prefix("# ") {
                let Some(described) = header.split(' ').nth(1) else { continue };
                if !in_headers || described != name {
                    name = described.into();
                    known = metrics.contains_key(&name);
                }
                in_headers = true;
                let (headers, _) = metrics.entry(name.clone()).or_default();
                if !known {
                    headers.push_str(line);
                    headers.push('\n');
                }
            } else {
                in_headers = false;
                let (_, samples) = metrics.entry(name.clone()).or_default();
                samples.push_str(line);
                samples.push('\n');
            }
        }
    }
    let with_samples = metrics.into_values().filter(|(_, samples)| !samples.is_empty());
    with_samples.map(|(headers, samples)| headers + &samples).collect::<String>() + END
}

/// Metric with the program's version as a label; its value is always 1.
pub(crate) fn build_info(version: &str) -> Registry {
    let mut registry = Registry::with_prefix(PREFIX);
    let build = Info::new(vec![("version", version.to_owned())]);
    registry.register("build", "The program", build);
    registry
}

type Gauges = Family<Vec<(&'static str, String)>, Gauge>;

fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Metrics of the cluster, from the metaserver's present status.
pub(crate) fn cluster(status: &Status) -> Registry {
    let mut registry = Registry::with_prefix(PREFIX);
    let leads = status.leader.as_ref() == Some(&status.asked);
    for (name, help, value) in [
        (
            "health",
            "0: healthy; 1: degraded; 2: failed, as heorot status says it",
            status.health.verdict.level().into(),
        ),
        ("leader", "1: this metaserver leads", leads.into()),
        ("leader_known", "1: this metaserver knows a leader, and serves", status.leader.is_some().into()),
        ("term", "The term of consensus", status.term),
        ("clients", "NFSv4 clients", status.clients),
        ("sessions", "Sessions of NFSv4 clients", status.sessions),
        ("inodes", "Files, directories and all else in the volume", status.inodes),
        ("deferred_ops", "Truncations and removals that have not reached every object", status.deferred_ops),
        ("chains", "Chains of targets that keep copies of the same data", status.chains.count),
        ("chains_refilling", "Chains whose members lack data, and get it", status.chains.refilling),
        ("chains_refill_left_bytes", "Bytes that members of chains lack", status.chains.refill.left_bytes),
        ("chains_in_one_zone", "Chains with copies that share a zone", status.chains.in_one_zone),
        (
            "chains_in_other_pools",
            "Chains with members that have gone to other pools",
            status.chains.in_other_pools,
        ),
        ("chains_moving", "Chains with all copies that move to another target", status.chains.moving),
        ("chains_incomplete", "Chains with a member that is away", status.chains.incomplete),
        ("chains_in_doubt", "Chains that wait since a restore from a backup", status.chains.in_doubt),
        ("chains_waiting", "Chains without a member that has all data", status.chains.waiting),
        ("uptime_seconds", "Since the process started", status.uptime_seconds),
        ("commands_given_up", "Commands that broke an invariant of the state machine", replica::faults()),
    ] {
        let gauge: Gauge = Gauge::default();
        gauge.set(number(value));
        registry.register(name, help, gauge);
    }
    let states = Gauges::default();
    let counts = status.states;
    for (kind, count) in [
        ("open", counts.opens),
        ("lock", counts.locks),
        ("layout", counts.layouts),
        ("delegation", counts.delegations),
    ] {
        states.get_or_create(&vec![("kind", kind.into())]).set(number(count));
    }
    registry.register("states", "States of NFSv4 clients, by kind", states);
    members(status, &mut registry);
    targets(status, &mut registry);
    registry
}

fn members(status: &Status, registry: &mut Registry) {
    let [up, voter, lag, held, server_up, odd] = [(); 6].map(|()| Gauges::default());
    for member in &status.metaservers {
        let labels = vec![("member", member.name.clone())];
        // No line for a member whose liveness is unknown.
        if member.liveness != Liveness::Unknown {
            up.get_or_create(&labels).set((member.liveness == Liveness::Alive).into());
        }
        odd.get_or_create(&labels).set(member.out_of_service.into());
        voter.get_or_create(&labels).set((member.role != "learner").into());
        if let Some(entries) = member.lag {
            lag.get_or_create(&labels).set(number(entries));
        }
    }
    for address in status.service_addresses.iter().flatten() {
        let holder = address.holder.clone().unwrap_or_default();
        let labels = vec![("address", address.address.clone()), ("holder", holder)];
        held.get_or_create(&labels).set(address.holder.is_some().into());
    }
    for server in status.data_servers.iter().filter(|server| server.liveness != Liveness::Unknown) {
        let is_up = server.liveness == Liveness::Alive;
        server_up.get_or_create(&vec![("server", server.name.clone())]).set(is_up.into());
    }
    let servers = status.data_servers.iter().map(|server| (&server.name, server.clock_ahead_ms));
    let clocks = Gauges::default();
    for (name, ahead_ms) in status.metaservers.iter().map(|m| (&m.name, m.clock_ahead_ms)).chain(servers) {
        if let Some(ahead_ms) = ahead_ms {
            clocks.get_or_create(&vec![("server", name.clone())]).set(ahead_ms);
        }
    }
    registry.register(
        "clock_ahead_milliseconds",
        "Time that a server's clock is ahead of most others'",
        clocks,
    );
    registry.register("member_up", "1: the metaserver is heard of", up);
    registry.register("member_out_of_service", "1: the metaserver serves no client: its log says why", odd);
    registry.register("member_voter", "1: the metaserver has a vote", voter);
    registry.register("member_lag_entries", "Entries of the log that the metaserver lacks", lag);
    registry.register("service_address_held", "1: a server holds the service address", held);
    registry.register("data_server_up", "1: the data server is heard of", server_up);
}

fn targets(status: &Status, registry: &mut Registry) {
    let [total, free, trash, reserve, objects, up] = [(); 6].map(|()| Gauges::default());
    for server in &status.data_servers {
        for target in &server.targets {
            let labels = vec![("server", server.name.clone()), ("target", target.id.clone())];
            total.get_or_create(&labels).set(number(target.total_bytes));
            free.get_or_create(&labels).set(number(target.free_bytes));
            trash.get_or_create(&labels).set(number(target.trash_bytes));
            reserve.get_or_create(&labels).set(number(target.reserve_bytes));
            objects.get_or_create(&labels).set(number(target.objects));
            up.get_or_create(&labels).set(target.takes_files().into());
        }
    }
    registry.register("target_total_bytes", "Size of a target's file system", total);
    registry.register("target_free_bytes", "Free on a target's file system", free);
    registry.register("target_trash_bytes", "Removed objects that are still kept on a target", trash);
    registry.register("target_reserve_bytes", "Left alone on a target's file system", reserve);
    registry.register("target_objects", "Objects on a target", objects);
    registry.register("target_up", "1: the target takes new files", up);
}

/// What the checks of the targets of a process have found.
pub(crate) fn checksums<'a>(servers: impl Iterator<Item = &'a DataServer>) -> Registry {
    checks_of(servers.map(|server| (server.name().to_owned(), server.checks_of_targets())))
}

fn checks_of(servers: impl Iterator<Item = (String, Vec<TargetChecks>)>) -> Registry {
    let mut registry = Registry::with_prefix(PREFIX);
    let [damaged, found, sums, anew, unsummed, rewritten, mended, bytes, begun, ended, last, lost] =
        [(); 12].map(|()| Gauges::default());
    for (server, targets) in servers {
        for target in targets {
            let labels = vec![("server", server.clone()), ("target", format!("{:016x}", target.id))];
            let set = |gauges: &Gauges, value| {
                gauges.get_or_create(&labels).set(number(value));
            };
            set(&damaged, target.counts.damaged_now);
            set(&found, target.counts.damaged);
            set(&sums, target.counts.sums_damaged);
            set(&anew, target.counts.summed_anew);
            set(&unsummed, target.counts.unsummed);
            set(&rewritten, target.counts.rewritten);
            set(&mended, target.counts.mended);
            set(&lost, target.lost_object_calls);
            set(&bytes, target.scrub.bytes);
            set(&begun, target.scrub.begun.unwrap_or(0));
            if let Some(run) = target.scrub.last {
                set(&ended, run.ended);
                set(&last, run.found);
            }
        }
    }
    let mut register = |name, help, gauges| registry.register(name, help, gauges);
    register("target_damaged_blocks", "Blocks of a target that are known to be damaged", damaged);
    register("target_damaged_blocks_found", "Blocks that were found damaged since the start", found);
    register("target_damaged_sums_found", "Checksums that were found damaged since the start", sums);
    register("target_summed_anew_blocks", "Blocks that did not fit their checksum after a crash", anew);
    register("target_unsummed_objects", "Objects that were found without checksums", unsummed);
    register("target_rewritten_blocks", "Damaged blocks that were written again from the cache", rewritten);
    register("target_mended_blocks", "Damaged blocks that were mended from other members", mended);
    register("target_scrub_bytes", "Bytes that the scrub under way has read", bytes);
    register("target_scrub_begun_seconds", "Begin of the scrub under way, since 1970; 0: none", begun);
    register("target_scrub_ended_seconds", "End of the last scrub, since 1970", ended);
    register("target_scrub_found", "Damaged blocks and checksums that the last scrub found", last);
    register("target_lost_object_calls", "Calls since the start that needed a missing object", lost);
    registry
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use metaserver::status::{DataServer, Metaserver, ServiceAddress, States, Target};

    #[test]
    fn two_servers_share_the_description_of_a_metric() {
        let (a, b) = (Arc::<Metrics>::default(), Arc::<Metrics>::default());
        a.file_bytes_written.inc_by(5);
        b.file_bytes_written.inc_by(7);
        let a = registry(&a, &[("role", "dataserver"), ("server", "ds0")]);
        let b = registry(&b, &[("role", "dataserver"), ("server", "ds1")]);
        let page = page([&a, &b].into_iter());
        assert!(
            page.contains("heorot_file_written_bytes_total{role=\"dataserver\",server=\"ds0\"} 5\n"),
            "{page}"
        );
        assert!(
            page.contains("heorot_file_written_bytes_total{role=\"dataserver\",server=\"ds1\"} 7\n"),
            "{page}"
        );
        assert_eq!(page.matches("# TYPE heorot_file_written_bytes counter\n").count(), 1, "{page}");
        assert_eq!(page.matches("# EOF\n").count(), 1);
        assert!(page.ends_with("# EOF\n"));
        assert!(!page.contains("operation_errors"), "described, but there are none: {page}");
    }

    #[test]
    fn the_cluster_is_shown_with_its_servers_targets_and_states() {
        let target = Target {
            id: "01".into(),
            path: "/data".into(),
            total_bytes: 100,
            free_bytes: 60,
            objects: 3,
            trash_bytes: 5,
            reserve_bytes: 7,
            state: "ok".into(),
        };
        let server = DataServer {
            name: "ds0".into(),
            liveness: Liveness::Silent,
            targets: vec![target],
            ..DataServer::default()
        };
        let member = |name: &str, liveness| Metaserver {
            name: name.into(),
            role: "voter".into(),
            liveness,
            ..Metaserver::default()
        };
        let status = Status {
            asked: "oak".into(),
            leader: Some("oak".into()),
            clients: 2,
            states: States { layouts: 4, ..States::default() },
            metaservers: vec![member("oak", Liveness::Alive), member("elm", Liveness::Unknown)],
            service_addresses: Some(vec![ServiceAddress {
                address: "10.0.0.9".into(),
                ..ServiceAddress::default()
            }]),
            data_servers: vec![server],
            ..Status::default()
        };
        let page = page([&cluster(&status), &build_info("1.2")].into_iter());
        for line in [
            "heorot_target_free_bytes{server=\"ds0\",target=\"01\"} 60",
            "heorot_target_trash_bytes{server=\"ds0\",target=\"01\"} 5",
            "heorot_target_reserve_bytes{server=\"ds0\",target=\"01\"} 7",
            "heorot_clients 2",
            "heorot_leader 1",
            "heorot_states{kind=\"layout\"} 4",
            "heorot_member_up{member=\"oak\"} 1",
            "heorot_data_server_up{server=\"ds0\"} 0",
            "heorot_service_address_held{address=\"10.0.0.9\",holder=\"\"} 0",
            "heorot_build_info{version=\"1.2\"} 1",
        ] {
            assert!(page.contains(&format!("{line}\n")), "{line}: {page}");
        }
        assert!(!page.contains("member_up{member=\"elm\"}"), "nothing is known of it: {page}");
    }

    /// Metrics in the expressions of `rules`, without the suffixes of histograms and counters.
    fn metrics_of(rules: &str) -> BTreeSet<&str> {
        let expressions = rules.lines().filter_map(|line| line.trim().strip_prefix("expr:"));
        let words = expressions.flat_map(|expr| expr.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
        words
            .filter(|word| word.starts_with("heorot_"))
            .map(|word| word.trim_end_matches("_bucket").trim_end_matches("_total"))
            .collect()
    }

    #[test]
    fn alert_rules_name_metrics_that_there_are() {
        let named = metrics_of(include_str!("../../../../docs/monitoring/heorot.rules.yml"));
        assert!(named.len() > 10, "{named:?}");
        let server = DataServer {
            targets: vec![Target::default()],
            liveness: Liveness::Alive,
            ..DataServer::default()
        };
        let (liveness, clock_ahead_ms) = (Liveness::Alive, Some(0));
        let member = Metaserver { liveness, lag: Some(0), clock_ahead_ms, ..Metaserver::default() };
        let status = Status {
            metaservers: vec![member],
            service_addresses: Some(vec![ServiceAddress::default()]),
            data_servers: vec![server],
            ..Status::default()
        };
        let mut of_replica = Registry::with_prefix(PREFIX);
        replica::ReplicaMetrics::default().register(&mut of_replica);
        metaserver::Refusals::default().register(&mut of_replica);
        let (counts, scrub) = Default::default();
        let checks = TargetChecks { id: 1, counts, scrub, lost_object_calls: 0 };
        let of_checks = checks_of([("ds1".to_owned(), vec![checks])].into_iter());
        let page = page([&cluster(&status), &of_replica, &of_checks].into_iter());
        for metric in named {
            assert!(page.contains(&format!("# TYPE {metric} ")), "{metric} is not on the page: {page}");
        }
    }
}
