//! pjdfstest, an independent POSIX file system suite, inside a real Linux client.
//!
//! Every case passes, or is listed in `tests/pjdfstest.toml` with the reason why none can pass over NFS.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tests::{Client, Cluster, Lab, MOUNT_POINT};

const DATA_SERVERS: usize = 2;
const SUITE_WITHIN: Duration = Duration::from_secs(600);
/// Number of cases of version 0.2.2, on Linux. Fewer would mean that some were not run.
const CASES: usize = 398;

#[derive(Deserialize)]
struct Configuration {
    #[serde(default)]
    exception: Vec<Exception>,
}

/// Case that cannot pass.
#[derive(Deserialize)]
struct Exception {
    case: String,
    versions: Vec<String>,
    /// Result of the suite: `FAILED`, or `skipped` if it detects that it cannot run.
    says: String,
    reason: String,
}

#[test]
fn every_case_passes_or_is_listed_with_its_reason() {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, DATA_SERVERS);
    let client = lab.client("ash");
    let listed = read_configuration().exception;
    let mut wrong = Vec::new();
    for version in versions() {
        cluster.mount(&client, &version);
        let (results, text) = run(&client);
        client.run(&format!("umount {MOUNT_POINT}"));
        let before = wrong.len();
        let mut expected: BTreeMap<&str, &str> = listed
            .iter()
            .filter(|exception| exception.versions.contains(&version))
            .map(|exception| (exception.case.as_str(), exception.says.as_str()))
            .collect();
        for (case, said) in &results {
            let expected = expected.remove(case.as_str()).unwrap_or("ok");
            if said != expected {
                wrong.push(format!("{version}: {case}: {said}, expected: {expected}"));
            }
        }
        wrong.extend(
            expected.keys().map(|case| format!("{version}: {case} is listed, but there is no such case")),
        );
        if results.len() != CASES {
            wrong.push(format!("{version}: {} cases were run, not {CASES}", results.len()));
        }
        if wrong.len() > before {
            println!("{version}:\n{text}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_exception_has_a_reason() {
    for exception in read_configuration().exception {
        assert!(exception.reason.len() > 20, "{}", exception.case);
        assert!(
            ["FAILED", "skipped"].contains(&exception.says.as_str()),
            "{}: {}",
            exception.case,
            exception.says
        );
    }
}

/// Protocol versions; `HEOROT_VERSIONS=vers=4.1` sets others.
fn versions() -> Vec<String> {
    let versions = std::env::var("HEOROT_VERSIONS").unwrap_or_else(|_| "vers=4.2 vers=3".to_owned());
    versions.split_whitespace().map(str::to_owned).collect()
}

/// Result of each case, and the output of the suite.
fn run(client: &Client) -> (BTreeMap<String, String>, String) {
    // A second file system, for cases that must fail between two. The cases that mount read-only run once
    // more, alone, and that run counts: `posix_fallocate::affected_only_create_flags` leaves files open for
    // writes, and then no file system can be mounted read-only.
    let script = format!(
        "mkdir -p /tmp/second {MOUNT_POINT}/suite; chmod 755 {MOUNT_POINT}/suite
         mountpoint -q /tmp/second || mount -t tmpfs tmpfs /tmp/second
         for cases in '' erofs; do
             NO_COLOR=1 {} --configuration-file {} --path {MOUNT_POINT}/suite --secondary-fs /tmp/second $cases || true
         done
         rm -r {MOUNT_POINT}/suite",
        program().display(),
        configuration().display(),
    );
    let text = client.run_within(SUITE_WITHIN, &script);
    let mut results = BTreeMap::new();
    for line in text.lines().filter(|line| line.contains("::")) {
        let (case, said) = line.split_once(' ').unwrap_or((line, ""));
        let said = said.trim();
        if ["ok", "FAILED", "skipped"].contains(&said) {
            results.insert(case.to_owned(), said.to_owned());
        }
    }
    (results, text)
}

fn read_configuration() -> Configuration {
    let text = std::fs::read_to_string(configuration()).expect("read tests/pjdfstest.toml");
    toml::from_str(&text).expect("tests/pjdfstest.toml")
}

fn configuration() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("pjdfstest.toml")
}

fn program() -> PathBuf {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/bin/pjdfstest");
    assert!(program.exists(), "{} is missing: run `make setup`", program.display());
    program
}
