use super::*;
use crate::admin::status::ServiceAddress;

fn member(name: &str, role: &str) -> Metaserver {
    Metaserver {
        name: name.into(),
        role: role.into(),
        state: "serving".into(),
        liveness: Liveness::Alive,
        seen_ms: Some(10),
        lag: Some(0),
        version: "1".into(),
        ..Metaserver::default()
    }
}

fn data_server(name: &str) -> DataServer {
    let target = Target {
        path: "/data".into(),
        total_bytes: 1000,
        free_bytes: 500,
        objects: 7,
        state: "ok".into(),
        ..Target::default()
    };
    DataServer {
        name: name.into(),
        state: "serving".into(),
        liveness: Liveness::Alive,
        version: "1".into(),
        targets: vec![target],
        has_sole_copies: true,
        ..DataServer::default()
    }
}

fn cluster() -> Status {
    Status {
        version: "1".into(),
        asked: "oak".into(),
        leader: Some("oak".into()),
        metaservers: vec![member("oak", "leader"), member("elm", "voter"), member("fir", "voter")],
        service_addresses: Some(vec![ServiceAddress {
            address: "10.0.0.9".into(),
            holder: Some("elm".into()),
            is_of_data_servers: false,
        }]),
        data_servers: vec![data_server("ds0"), data_server("ds1")],
        ..Status::default()
    }
}

/// A change of a healthy cluster; the verdict; the beginning of the first finding.
type Case = (fn(&mut Status), Verdict, &'static str);

#[test]
fn each_fault_has_a_verdict_and_a_finding_that_names_the_server() {
    let cases: &[Case] = &[
        (|_| {}, Verdict::Healthy, ""),
        (|s| s.metaservers[1].out_of_service = true, Verdict::Degraded, "metaserver elm serves no client"),
        (|s| s.commands_given_up = 1, Verdict::Degraded, "1 commands broke an invariant"),
        (|s| s.leader = None, Verdict::Failed, "oak cannot reach enough metaservers with a vote"),
        (|s| s.service_addresses = None, Verdict::Degraded, "oak cannot ask the leader"),
        (
            |s| s.metaservers[1].liveness = Liveness::Silent,
            Verdict::Degraded,
            "metaserver elm is silent for 0 s; if one more with a vote dies, clients wait",
        ),
        (
            |s| {
                s.metaservers[1].liveness = Liveness::Silent;
                s.metaservers.extend([member("ash", "voter"), member("yew", "voter")]);
                s.metaservers[1].seen_ms = Some(71_000);
            },
            Verdict::Degraded,
            "metaserver elm is silent for 71 s",
        ),
        (|s| s.metaservers[2].state = "joining".into(), Verdict::Degraded, "metaserver fir is joining"),
        (|s| s.metaservers[2].lag = Some(1 << 20), Verdict::Degraded, "metaserver fir lacks 1048576"),
        (
            |s| s.service_addresses = Some(vec![ServiceAddress::default()]),
            Verdict::Failed,
            "no metaserver holds the service address",
        ),
        (
            |s| {
                let unheld = ServiceAddress { is_of_data_servers: true, ..ServiceAddress::default() };
                s.service_addresses = Some(vec![unheld]);
            },
            Verdict::Degraded,
            "no data server holds the service address",
        ),
        (
            |s| {
                s.data_servers[1].liveness = Liveness::Silent;
                s.data_servers[1].has_sole_copies = false;
            },
            Verdict::Degraded,
            "data server ds1 is silent; others have copies",
        ),
        (
            |s| s.chains = Chains { count: 9, incomplete: 3, waiting: 2, ..Chains::default() },
            Verdict::Failed,
            "2 of 9 chains of targets have no member with all data",
        ),
        (
            |s| s.chains = Chains { count: 9, incomplete: 3, ..Chains::default() },
            Verdict::Degraded,
            "3 of 9 chains of targets lack a member",
        ),
        (
            |s| s.chains = Chains { count: 9, refilling: 1, ..Chains::default() },
            Verdict::Degraded,
            "1 of 9 chains of targets are refilled",
        ),
        (
            |s| s.data_servers[1].zone = "a".into(),
            Verdict::Degraded,
            "data server ds0 has no zone, and others have one",
        ),
        (
            |s| {
                s.data_servers.iter_mut().for_each(|server| server.zone = "a".into());
                s.chains = Chains { count: 9, in_one_zone: 3, ..Chains::default() };
            },
            Verdict::Degraded,
            "3 of 9 chains of targets have copies that share a zone",
        ),
        (|s| s.chains.in_one_zone = 0, Verdict::Healthy, ""),
        (
            |s| s.pools_without_place = vec![("flash".into(), "has no target that takes new files".into())],
            Verdict::Failed,
            "the pool flash has no target that takes new files",
        ),
        (
            |s| {
                s.drains_without_place =
                    vec![("07 of ds1".into(), "no other target can take its data".into())]
            },
            Verdict::Degraded,
            "target 07 of ds1 drains, and cannot be emptied: no other target can take its data",
        ),
        (|s| s.data_servers.clear(), Verdict::Degraded, "there is no data server"),
        (
            |s| s.data_servers[1].liveness = Liveness::Silent,
            Verdict::Failed,
            "data server ds1 is silent: files with data there",
        ),
        (
            |s| {
                s.data_servers[1].liveness = Liveness::Silent;
                s.data_servers[1].targets[0].objects = 0;
            },
            Verdict::Degraded,
            "data server ds1 is silent",
        ),
        (
            |s| s.data_servers.iter_mut().for_each(|server| server.state = "draining".into()),
            Verdict::Failed,
            "no target takes new files",
        ),
        (
            |s| s.data_servers[0].targets[0].state = "read-only".into(),
            Verdict::Failed,
            "target /data of ds0 is read-only",
        ),
        (
            |s| s.data_servers[0].targets[0].state = "failed".into(),
            Verdict::Failed,
            "target /data of ds0 is failed",
        ),
        (
            |s| s.data_servers[0].targets[0].state = "damaged".into(),
            Verdict::Failed,
            "target /data of ds0 has damaged blocks",
        ),
        (
            |s| s.data_servers[0].targets[0].state = "missing".into(),
            Verdict::Failed,
            "target /data of ds0 is not there",
        ),
        (
            |s| s.data_servers[0].targets[0].free_bytes = 49,
            Verdict::Degraded,
            "target /data of ds0 is almost full",
        ),
        (|s| s.data_servers[0].version = "2".into(), Verdict::Degraded, "versions differ: oak 1, ds0 2"),
        (
            |s| s.metaservers[1].clock_ahead_ms = Some(-3_700_000),
            Verdict::Degraded,
            "the clock of elm is 1 h 1 min behind the cluster's",
        ),
        (|s| s.data_servers[0].clock_ahead_ms = Some(4000), Verdict::Healthy, ""),
        (|s| s.deferred_ops = 1 << 20, Verdict::Degraded, "1048576 files wait"),
    ];
    for (change, verdict, begins) in cases {
        let mut status = cluster();
        change(&mut status);
        let health = assess(&status);
        assert_eq!(health.verdict, *verdict, "{begins}: {health:?}");
        let first = health.findings.first().map_or("", |finding| finding.problem.as_str());
        assert!(first.starts_with(begins), "{first:?} does not begin with {begins:?}");
        assert_eq!(health.findings.is_empty(), *verdict == Verdict::Healthy);
        assert!(health.findings.iter().all(|finding| !finding.action.is_empty()));
    }
}

#[test]
fn the_worst_finding_comes_first() {
    let mut status = cluster();
    status.metaservers[1].liveness = Liveness::Silent;
    status.data_servers[0].liveness = Liveness::Silent;
    let verdicts: Vec<_> = assess(&status).findings.iter().map(|finding| finding.verdict).collect();
    assert_eq!(verdicts, [Verdict::Failed, Verdict::Degraded]);
}
