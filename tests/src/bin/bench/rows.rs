//! Rows of the comparison, in their order.

use bench::report::{Row, Sample, Unit};

pub const FILE_MIB: u64 = 1024;

/// Row of the comparison.
pub struct Measure {
    pub name: &'static str,
    pub what: What,
    /// Rows that make the files of this one.
    prepared_by: &'static [&'static str],
}

/// Measurement of a row.
pub enum What {
    /// `heorot bench record-size --operations write`, to a new file.
    Write,
    /// `heorot bench record-size --operations read`, of that file, with empty client caches.
    Read,
    /// `heorot bench mdtest --operations OPERATION`.
    Names { operation: &'static str, processes: u64, count: u64, rounds: u64 },
}

const fn names(
    name: &'static str,
    prepared_by: &'static [&'static str],
    operation: &'static str,
    (processes, count, rounds): (u64, u64, u64),
) -> Measure {
    Measure { name, what: What::Names { operation, processes, count, rounds }, prepared_by }
}

/// Rows with counts for about a second or more each at the rates of a plain disk, and for many ticks of CPU
/// time.
pub const PLAN: [Measure; 18] = [
    Measure { name: "write", what: What::Write, prepared_by: &[] },
    Measure { name: "read", what: What::Read, prepared_by: &["write"] },
    names("create", &[], "create", (1, 1000, 1)),
    names("stat", &["create"], "stat", (1, 1000, 5)),
    names("readdir", &["create"], "list", (1, 1000, 100)),
    names("open", &["create"], "read", (1, 1000, 1)),
    names("rename", &["create"], "rename", (1, 1000, 1)),
    names("unlink", &["create", "rename"], "unlink", (1, 1000, 1)),
    names("create-4", &[], "create", (4, 500, 1)),
    names("stat-4", &["create-4"], "stat", (4, 500, 4)),
    names("readdir-4", &["create-4"], "list", (4, 500, 50)),
    names("open-4", &["create-4"], "read", (4, 500, 1)),
    names("rename-4", &["create-4"], "rename", (4, 500, 1)),
    names("unlink-4", &["create-4", "rename-4"], "unlink", (4, 500, 1)),
    names("mkdir", &[], "mkdir", (1, 1000, 1)),
    names("rmdir", &["mkdir"], "rmdir", (1, 1000, 1)),
    names("mkdir-4", &[], "mkdir", (4, 500, 1)),
    names("rmdir-4", &["mkdir-4"], "rmdir", (4, 500, 1)),
];

impl Measure {
    /// Whether `name` is the row's name, with or without the number of processes.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.name.split('-').next() == Some(name)
    }

    /// Whether `other` makes the files of this row.
    pub fn needs(&self, other: &Measure) -> bool {
        self.prepared_by.contains(&other.name)
    }

    pub fn row(&self) -> Row {
        let (name, unit) = match self.what {
            What::Write => ("write 1 GiB, records of 1 MiB, fsync at end".to_owned(), Unit::Bytes),
            What::Read => ("read 1 GiB, cold client".to_owned(), Unit::Bytes),
            What::Names { operation, processes, .. } => {
                let described = match operation {
                    "create" => "create + write 4 KiB + close",
                    "stat" => "stat, cold",
                    "list" => "readdir, cold (entries)",
                    "read" => "open + read 4 KiB + close, cold",
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
            What::Names { .. } => (1.0, "/s", 1e6, "µs"),
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
