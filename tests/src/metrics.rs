//! Metrics of the servers, from their Prometheus endpoints. The client's own counters would mislead: a client
//! that cannot reach a data server silently uses the metaserver, with correct data.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::{Add, Sub};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(10);

/// One reading of one or more endpoints.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    samples: Vec<Sample>,
}

#[derive(Debug, Clone)]
struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

/// File bytes that clients read from and wrote to one server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileBytes {
    /// Bytes sent to clients.
    pub read: u64,
    /// Bytes received from clients.
    pub written: u64,
}

/// Path of file data: through a metaserver, or directly to the data servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes through the metaserver.
    pub metaserver: FileBytes,
    /// Bytes of each data server directly, in the order of their numbers.
    pub data_servers: Vec<FileBytes>,
}

impl Metrics {
    /// Reads `http://ADDRESS/metrics`.
    #[track_caller]
    pub fn read(endpoint: SocketAddr) -> Metrics {
        Metrics::try_read(endpoint).unwrap_or_else(|e| panic!("read http://{endpoint}/metrics: {e}"))
    }

    /// [`read`](Metrics::read) of a server that may not exist.
    ///
    /// # Errors
    /// If it does not.
    pub fn try_read(endpoint: SocketAddr) -> std::io::Result<Metrics> {
        let page = get(endpoint, "/metrics")?;
        Ok(Metrics { samples: page.lines().filter_map(Sample::parse).collect() })
    }

    /// Samples with this name that are not 0, as text.
    pub fn show(&self, name: &str) -> String {
        let samples = self.samples.iter().filter(|sample| sample.name == name && sample.value != 0.0);
        samples.map(|sample| format!("{:?} {}\n", sample.labels, sample.value)).collect()
    }

    /// Sum of all samples with this name and at least these labels; 0 without any.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let has = |sample: &Sample, (key, value): &(&str, &str)| {
            sample.labels.iter().any(|(k, v)| k == key && v == value)
        };
        self.samples
            .iter()
            .filter(|sample| sample.name == name && labels.iter().all(|label| has(sample, label)))
            .map(|sample| sample.value)
            .sum()
    }

    /// Samples with this label.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Metrics {
        self.samples.retain(|sample| sample.labels.iter().any(|(k, v)| k == key && v == value));
        self
    }

    /// Whether there is no sample, not even 0: a misspelt label, or no such server.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// # Panics
    /// If this server has no counter of file bytes: a renamed counter must not count as "no bytes".
    #[track_caller]
    pub fn file_bytes(&self) -> FileBytes {
        FileBytes {
            read: self.must_have("heorot_file_read_bytes_total"),
            written: self.must_have("heorot_file_written_bytes_total"),
        }
    }

    #[track_caller]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a counter of bytes")]
    fn must_have(&self, name: &str) -> u64 {
        assert!(self.samples.iter().any(|sample| sample.name == name), "no {name} among {:?}", self.names());
        self.sum(name, &[]) as u64
    }

    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.samples.iter().map(|sample| sample.name.as_str()).collect();
        names.dedup();
        names
    }
}

impl Sample {
    /// Parses `name{key="value",...} 12.5`; labels have no quotes, commas or braces.
    fn parse(line: &str) -> Option<Sample> {
        if line.starts_with('#') {
            return None;
        }
        let (key, value) = line.trim().rsplit_once(' ')?;
        let (name, labels) = key.split_once('{').unwrap_or((key, ""));
        let labels = labels
            .trim_end_matches('}')
            .split(',')
            .filter_map(|label| label.split_once('='))
            .map(|(k, v)| (k.to_owned(), v.trim_matches('"').to_owned()))
            .collect();
        Some(Sample { name: name.to_owned(), labels, value: value.parse().ok()? })
    }
}

impl Traffic {
    /// Bytes of all data servers together.
    pub fn straight(&self) -> FileBytes {
        self.data_servers.iter().fold(FileBytes::default(), |sum, one| sum + *one)
    }

    /// Difference to `before`, for servers without a restart in between.
    #[must_use]
    pub fn since(&self, before: &Traffic) -> Traffic {
        Traffic {
            metaserver: self.metaserver - before.metaserver,
            data_servers: self.data_servers.iter().zip(&before.data_servers).map(|(a, b)| *a - *b).collect(),
        }
    }
}

impl Add for FileBytes {
    type Output = FileBytes;
    fn add(self, other: FileBytes) -> FileBytes {
        FileBytes { read: self.read + other.read, written: self.written + other.written }
    }
}

impl Sub for FileBytes {
    type Output = FileBytes;
    fn sub(self, other: FileBytes) -> FileBytes {
        FileBytes {
            read: self.read.saturating_sub(other.read),
            written: self.written.saturating_sub(other.written),
        }
    }
}

fn get(endpoint: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut connection = TcpStream::connect_timeout(&endpoint, TIMEOUT)?;
    connection.set_read_timeout(Some(TIMEOUT))?;
    // HTTP/1.0: the answer is not chunked and ends with the connection.
    write!(connection, "GET {path} HTTP/1.0\r\nHost: {endpoint}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    match head.split(' ').nth(1) {
        Some("200") => Ok(body.to_owned()),
        _ => Err(std::io::Error::other(head.lines().next().unwrap_or("no answer").to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_over_the_samples_with_all_the_labels() {
        let page = "# HELP heorot_x X\n\
            heorot_x_total{role=\"metaserver\",operation=\"READ\"} 3\n\
            heorot_x_total{role=\"metaserver\",operation=\"WRITE\"} 4\n\
            heorot_x_total{role=\"data-server\",operation=\"READ\"} 5.5\n\
            heorot_y 7\n# EOF\n";
        let metrics = Metrics { samples: page.lines().filter_map(Sample::parse).collect() };
        assert_eq!(metrics.sum("heorot_x_total", &[]), 12.5);
        assert_eq!(metrics.sum("heorot_x_total", &[("operation", "READ")]), 8.5);
        assert_eq!(metrics.sum("heorot_x_total", &[("operation", "READ"), ("role", "metaserver")]), 3.0);
        assert_eq!(metrics.sum("heorot_y", &[]), 7.0);
        assert!(metrics.clone().with("role", "none").is_empty());
        assert_eq!(metrics.with("role", "metaserver").sum("heorot_x_total", &[]), 7.0);
    }
}
