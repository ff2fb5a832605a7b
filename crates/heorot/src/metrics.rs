//! The metrics page: the counters of every server in this process, and what the metaserver knows of the cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use nfs::{Metrics, exposition};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::api::Status;

/// How the page is labelled: what `prometheus-client` writes.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PREFIX: &str = "heorot";
const END: &str = "# EOF\n";

/// A registry of one server's counters. Each line of the page carries the labels.
pub(crate) fn registry(metrics: &Arc<Metrics>, labels: &[(&'static str, &str)]) -> Registry {
    let labels = labels.iter().map(|(key, value)| ((*key).into(), value.to_string().into()));
    let mut registry = Registry::with_prefix_and_labels(PREFIX, labels);
    metrics.register(&mut registry);
    registry
}

/// One page of all registries. The servers of a process have the same metrics under different labels, and a page may
/// describe a metric only once.
pub(crate) fn page<'a>(registries: impl Iterator<Item = &'a Registry>) -> String {
    let mut metrics: BTreeMap<String, (String, String)> = BTreeMap::new();
    for registry in registries {
        let mut name = String::new();
        // The headers of a metric that this page has already are not repeated.
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

type TargetGauge = Family<Vec<(&'static str, String)>, Gauge>;

/// What the metaserver knows, as it is now.
pub(crate) fn cluster(status: &Status) -> Registry {
    let mut registry = Registry::with_prefix(PREFIX);
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    for (name, help, value) in [
        ("clients", "NFSv4 clients", status.clients),
        ("sessions", "Sessions of NFSv4 clients", status.sessions),
        ("inodes", "Files, directories and all else in the volume", status.inodes),
        ("work_queue", "Truncations and removals that have not reached every object", status.work),
        ("uptime_seconds", "Since the process started", status.uptime_seconds),
    ] {
        let gauge: Gauge = Gauge::default();
        gauge.set(number(value));
        registry.register(name, help, gauge);
    }
    let [total, free, objects, up] = [(); 4].map(|()| TargetGauge::default());
    for server in &status.data_servers {
        for target in &server.targets {
            let labels = vec![("server", server.name.clone()), ("target", target.id.clone())];
            total.get_or_create(&labels).set(number(target.total_bytes));
            free.get_or_create(&labels).set(number(target.free_bytes));
            objects.get_or_create(&labels).set(number(target.objects));
            up.get_or_create(&labels).set(i64::from(target.state == "ok"));
        }
    }
    registry.register("target_total_bytes", "Size of a target's file system", total);
    registry.register("target_free_bytes", "Free on a target's file system", free);
    registry.register("target_objects", "Objects on a target", objects);
    registry.register("target_up", "1: the target takes new files", up);
    registry
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn targets_are_shown_with_their_server() {
        let target = crate::api::Target {
            id: "01".into(),
            path: "/data".into(),
            total_bytes: 100,
            free_bytes: 60,
            objects: 3,
            state: "ok".into(),
        };
        let server = crate::api::DataServer {
            id: "02".into(),
            name: "ds0".into(),
            addresses: vec![],
            targets: vec![target],
        };
        let status = Status {
            role: "metaserver".into(),
            version: String::new(),
            cluster: String::new(),
            uptime_seconds: 1,
            clients: 2,
            sessions: 2,
            inodes: 9,
            work: 0,
            proxied_read_bytes: 0,
            proxied_written_bytes: 0,
            metaservers: vec![],
            service_addresses: vec![],
            data_servers: vec![server],
        };
        let page = page(std::iter::once(&cluster(&status)));
        assert!(page.contains("heorot_target_free_bytes{server=\"ds0\",target=\"01\"} 60\n"), "{page}");
        assert!(page.contains("heorot_clients 2\n"), "{page}");
    }
}
