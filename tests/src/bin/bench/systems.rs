//! Both systems, mounted on one client.

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use bench::report::Sample;
use rustix::process::{Pid, Signal, kill_process};
use tests::{Client, Cluster, Ganesha, Lab, Load, cpu_seconds};

use crate::rows::{FILE_MIB, Measure, What};

const DATA_SERVERS: usize = 4;
pub const HEOROT_AT: &str = "/mnt/heorot";
pub const GANESHA_AT: &str = "/mnt/ganesha";
/// Time limit of a row, which takes seconds on a quiet machine.
const SLOW: Duration = Duration::from_secs(900);
const SETTLE_TIMEOUT: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    Heorot,
    Ganesha,
}

pub struct Systems<'a> {
    // Drop order: the client first, since it waits for servers that are gone.
    client: Client,
    heorot: Cluster,
    ganesha: Ganesha,
    load: Load,
    _lab: &'a Lab,
}

impl<'a> Systems<'a> {
    pub fn start(lab: &'a Lab) -> Self {
        let load = Load::new(lab);
        let (heorot, ganesha) = (Cluster::up(lab, DATA_SERVERS), Ganesha::start(lab));
        let client = lab.client("ash");
        heorot.mount_at(&client, "vers=4.2", HEOROT_AT);
        ganesha.mount_at(&client, GANESHA_AT);
        Self { client, heorot, ganesha, load, _lab: lab }
    }

    pub fn client_kernel(&self) -> &str {
        self.client.kernel()
    }

    /// Measures one row on one system.
    pub fn measure(&mut self, system: System, measure: &Measure) -> Sample {
        let (pid, at) = match system {
            System::Heorot => (self.heorot.mds().pid().expect("it runs"), HEOROT_AT),
            System::Ganesha => (self.ganesha.pid(), GANESHA_AT),
        };
        if matches!(measure.what, What::Read) {
            self.mount_again(system);
        }
        let profile = Profile::start(pid, &format!("{}.{system:?}", measure.name));
        let before = cpu_seconds(pid);
        let (count, seconds) = self.work(at, measure);
        let cpu = cpu_seconds(pid) - before;
        drop(profile);
        // Wait for deferred work, which must not load the other system's turn.
        self.settle();
        // A tick of CPU time is 10 ms: zero ticks are less than one, not nothing.
        Sample { rate: count / seconds, cpu: cpu.max(0.005) / count }
    }

    /// Executes a row: number of bytes or operations, and seconds.
    fn work(&self, at: &str, measure: &Measure) -> (f64, f64) {
        let transfer = |operation: &str| {
            let run = format!(
                "record-size {at} --folder large --keep --size {FILE_MIB}MiB --records 1MiB --operations {operation}"
            );
            let results = self.load.run(&self.client, SLOW, &run);
            let [one] = results.measurements.as_slice() else { panic!("one {operation}: {results:?}") };
            (one.bytes as f64, one.seconds)
        };
        match measure.what {
            What::Write => transfer("write"),
            What::Read => transfer("read"),
            What::Names { operation, processes, count, rounds } => {
                let run = format!(
                    "mdtest {at} --folder {processes} --keep --processes {processes} --files {count} --sizes 4KiB \
                     --trees private --operations {operation} --rounds {rounds}"
                );
                let results = self.load.run(&self.client, SLOW, &run);
                let operations: u64 = results.measurements.iter().map(|m| m.operations).sum();
                (operations as f64, results.measurements.iter().map(|m| m.seconds).sum())
            }
        }
    }

    /// Removes the files of one pair.
    pub fn clear(&mut self) {
        self.client.run_within(SLOW, &format!("rm -rf {HEOROT_AT}/* {GANESHA_AT}/*"));
        self.settle();
    }

    fn mount_again(&self, system: System) {
        match system {
            System::Heorot => {
                self.client.run(&format!("umount {HEOROT_AT}; echo 3 >/proc/sys/vm/drop_caches"));
                self.heorot.mount_at(&self.client, "vers=4.2", HEOROT_AT);
            }
            System::Ganesha => {
                self.client.run(&format!("umount {GANESHA_AT}; echo 3 >/proc/sys/vm/drop_caches"));
                self.ganesha.mount_at(&self.client, GANESHA_AT);
            }
        }
    }

    fn settle(&self) {
        let asked = Instant::now();
        while self.heorot.deferred_ops() > 0.0 {
            assert!(asked.elapsed() < SETTLE_TIMEOUT, "objects are not removed");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// `perf record` of a process, if requested, until drop.
struct Profile(Option<Child>);

impl Profile {
    fn start(pid: u32, name: &str) -> Profile {
        let Some(folder) = std::env::var_os("BENCH_PERF") else { return Profile(None) };
        let file = Path::new(&folder).join(format!("{name}.data"));
        let recorder = Command::new("perf")
            .args(["record", "-q", "-F", "997", "-g", "-p", &pid.to_string(), "-o"])
            .arg(file)
            .spawn();
        Profile(Some(recorder.unwrap_or_else(|e| panic!("start perf (package linux-perf): {e}"))))
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        if let Some(recorder) = &mut self.0 {
            let _ = kill_process(Pid::from_child(recorder), Signal::INT);
            let _ = recorder.wait();
        }
    }
}
