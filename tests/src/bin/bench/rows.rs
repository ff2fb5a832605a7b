//! What is measured, in the order in which it is.

use bench::report::{Row, Sample, Unit};

pub const FILE_MIB: u64 = 1024;

/// One row.
pub struct Measure {
    pub name: &'static str,
    pub what: What,
    /// The row that makes what this one works on.
    prepared_by: Option<&'static str>,
}

/// How a row is measured.
pub enum What {
    /// `dd` of a new file.
    Write,
    /// `dd` of that file, on a client that has nothing of it.
    Read,
    /// `load OPERATION`.
    Load { operation: &'static str, processes: usize, count: usize, rounds: usize },
}

const fn load(
    name: &'static str,
    prepared_by: Option<&'static str>,
    operation: &'static str,
    (processes, count, rounds): (usize, usize, usize),
) -> Measure {
    Measure { name, what: What::Load { operation, processes, count, rounds }, prepared_by }
}

/// Counts are for about a second or more of each at the rates of a plain disk, and for many ticks of CPU time.
pub const PLAN: [Measure; 16] = [
    Measure { name: "write", what: What::Write, prepared_by: None },
    Measure { name: "read", what: What::Read, prepared_by: Some("write") },
    load("create", None, "create", (1, 1000, 1)),
    load("stat", Some("create"), "stat", (1, 1000, 5)),
    load("readdir", Some("create"), "readdir", (1, 1000, 100)),
    load("rename", Some("create"), "rename", (1, 1000, 1)),
    load("unlink", Some("create"), "unlink", (1, 1000, 1)),
    load("create-4", None, "create", (4, 500, 1)),
    load("stat-4", Some("create-4"), "stat", (4, 500, 4)),
    load("readdir-4", Some("create-4"), "readdir", (4, 500, 50)),
    load("rename-4", Some("create-4"), "rename", (4, 500, 1)),
    load("unlink-4", Some("create-4"), "unlink", (4, 500, 1)),
    load("mkdir", None, "mkdir", (1, 1000, 1)),
    load("rmdir", Some("mkdir"), "rmdir", (1, 1000, 1)),
    load("mkdir-4", None, "mkdir", (4, 500, 1)),
    load("rmdir-4", Some("mkdir-4"), "rmdir", (4, 500, 1)),
];

impl Measure {
    /// Also by the name without the number of processes.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.name.split('-').next() == Some(name)
    }

    /// Whether `other` makes what this row works on.
    pub fn needs(&self, other: &Measure) -> bool {
        self.prepared_by == Some(other.name)
    }

    pub fn row(&self) -> Row {
        let (name, unit) = match self.what {
            What::Write => ("write 1 GiB, dd bs=1M conv=fsync".to_owned(), Unit::Bytes),
            What::Read => ("read 1 GiB, cold client".to_owned(), Unit::Bytes),
            What::Load { operation, processes, .. } => {
                let described = match operation {
                    "create" => "create + write 4 KiB + close",
                    "stat" => "stat, cold",
                    "readdir" => "readdir, cold (entries)",
                    other => other,
                };
                let plural = if processes == 1 { "process" } else { "processes" };
                (format!("{described}, {processes} {plural}"), Unit::Operations)
            }
        };
        Row { name, unit, pairs: vec![] }
    }

    pub fn show(&self, (ours, other): (Sample, Sample)) -> String {
        let (rate, rate_unit, cpu, cpu_unit) = match self.what {
            What::Write | What::Read => (1e-6, "MB/s", f64::from(1 << 30), "s/GiB"),
            What::Load { .. } => (1.0, "/s", 1e6, "µs"),
        };
        format!(
            "{:.0} to {:.0} {rate_unit}, CPU {:.2} to {:.2} {cpu_unit}",
            ours.rate * rate,
            other.rate * rate,
            ours.cpu * cpu,
            other.cpu * cpu
        )
    }
}
