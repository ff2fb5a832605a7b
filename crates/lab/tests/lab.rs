//! Labs with real clients and real servers: links keep their speed limit, and nothing remains after the
//! removal.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lab::Lab;
use lab::config::{Config, Run};
use lab::experiment::Experiment;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};

/// One lab at a time: two would share the CPUs.
static ONE_LAB_AT_A_TIME: Mutex<()> = Mutex::new(());

const END_TIMEOUT: Duration = Duration::from_secs(60);

/// Share of a stream in 100 Mbit/s: a full frame of 1538 bytes on the wire has 1448 bytes of TCP payload.
const STREAM_MAX: f64 = 1448.0 / 1538.0;
/// Tolerance for the bursts of token buckets and for the last read of the clock.
const SLACK: f64 = 1.005;
/// Lower bound, which only shows that this link was measured: other load on this machine slows the stream.
const STREAM_MIN: f64 = 0.3;

#[test]
fn nothing_is_quicker_than_its_link_and_nothing_is_left_of_a_lab() {
    let _turn = ONE_LAB_AT_A_TIME.lock();
    let config = configuration("dd if=/dev/zero of={dir}/f bs=1M count=16 conv=fsync 2>&1");
    let experiment = Experiment::build(&config, &config.clusters[0]).unwrap_or_else(|e| panic!("{e}"));
    let folder = experiment.lab().folder().to_owned();
    let bridge = bridge_of(std::process::id()).expect("a bridge with our name on it");
    assert!(
        !links_of(&bridge).is_empty() && !namespaces_of(&bridge).is_empty(),
        "they are found while there"
    );

    let speed = experiment.speed().unwrap_or_else(|e| panic!("{e}"));
    let link = experiment.link().bytes_per_second();
    for (way, rate) in [("up", speed.up), ("down", speed.down)] {
        let share = rate / link;
        assert!((STREAM_MIN..STREAM_MAX * SLACK).contains(&share), "{way}: {share:.4} of the link");
    }
    let said = experiment.run(&config.runs[0]).unwrap_or_else(|e| panic!("{e}")).text;
    let seconds: f64 = said
        .split("copied, ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .and_then(|word| word.parse().ok())
        .unwrap_or_else(|| panic!("dd said: {said}"));
    let share = f64::from(16 << 20) / seconds / link;
    assert!(share < STREAM_MAX * SLACK, "16 MiB at {share:.4} of the link: {said}");

    drop(experiment);
    nothing_is_left(&bridge, &folder);
}

#[test]
fn a_lab_that_was_interrupted_takes_itself_down_and_a_killed_one_is_taken_down_by_the_next() {
    let _turn = ONE_LAB_AT_A_TIME.lock();
    let file = tempfile::NamedTempFile::new().expect("a file");
    for signal in [Signal::INT, Signal::KILL] {
        fs::write(file.path(), text("echo in {dir}; sleep 1000")).expect("write the configuration");
        let mut driver = Driver::start(file.path());
        driver.wait_until_it_says("Links of 100 Mbit/s");
        let bridge = bridge_of(driver.0.id()).expect("a bridge with the driver's name on it");
        let folder = folder_of(driver.0.id());
        assert!(!processes_of(&folder).is_empty(), "processes are found while they are there");
        kill_process(Pid::from_child(&driver.0), signal).expect("it runs");
        let status = driver.0.wait().expect("its status");
        assert!(!status.success(), "{status}");
        if signal == Signal::KILL {
            assert!(!links_of(&bridge).is_empty(), "who was killed has not taken anything down");
            drop(lab::Lab::open().unwrap_or_else(|e| panic!("{e}")));
        }
        nothing_is_left(&bridge, &folder);
    }
}

#[test]
fn the_servers_hardware_address_stays_when_machines_come() {
    let _turn = ONE_LAB_AT_A_TIME.lock();
    let lab = Lab::open().unwrap_or_else(|e| panic!("{e}"));
    let bridge = bridge_of(std::process::id()).expect("a bridge with our name on it");
    let address =
        || fs::read_to_string(format!("/sys/class/net/{bridge}/address")).expect("a bridge has one");
    let before = address();
    for _ in 0..8 {
        lab.tap().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(address(), before);
    }
}

fn configuration(command: &str) -> Config {
    let config: Config = toml::from_str(&text(command)).expect("a good configuration");
    assert!(matches!(config.runs.as_slice(), [Run { first: Some(_), .. }]));
    config
}

fn text(command: &str) -> String {
    format!(
        "title = 'a test'\nmbit = 100\n[[cluster]]\nsystem = 'heorot'\nclients = 1\ndata_servers = 2\n\
         [[run]]\nname = 'test'\nfirst = '{command}'\n"
    )
}

/// `lab run`, killed on drop.
struct Driver(Child);

impl Driver {
    fn start(configuration: &Path) -> Driver {
        let child = Command::new(env!("CARGO_BIN_EXE_lab"))
            .arg("run")
            .arg(configuration)
            .stdout(Stdio::piped())
            .spawn()
            .expect("start lab");
        Driver(child)
    }

    fn wait_until_it_says(&mut self, words: &str) {
        let mut lines = BufReader::new(self.0.stdout.take().expect("piped")).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains(words)), "lab run ended without {words:?}");
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Checks links, namespaces, queues, mounts, processes and files. The kernel may need a moment to remove an
/// object after its last use.
#[track_caller]
fn nothing_is_left(bridge: &str, folder: &Path) {
    let asked = Instant::now();
    loop {
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        let ours = [format!("/{bridge}-"), folder.display().to_string()];
        let mut left: Vec<String> = [links_of(bridge), namespaces_of(bridge), processes_of(folder)].concat();
        left.extend(mounts.lines().filter(|l| ours.iter().any(|ours| l.contains(ours))).map(String::from));
        left.extend(folder.exists().then(|| folder.display().to_string()));
        if left.is_empty() {
            return;
        }
        assert!(asked.elapsed() < END_TIMEOUT, "left: {left:#?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn names(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn bridge_of(process: u32) -> Option<String> {
    let alias =
        |link: &String| fs::read_to_string(format!("/sys/class/net/{link}/ifalias")).unwrap_or_default();
    names("/sys/class/net").into_iter().find(|link| alias(link).trim() == process.to_string())
}

/// Links of the bridge; a queue exists as long as its link.
fn links_of(bridge: &str) -> Vec<String> {
    let mut links = names("/sys/class/net");
    links.retain(|link| {
        link.strip_prefix(bridge).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    });
    links
}

fn namespaces_of(bridge: &str) -> Vec<String> {
    let mut namespaces = names("/run/netns");
    namespaces.retain(|name| name.starts_with(&format!("{bridge}-")));
    namespaces
}

fn folder_of(process: u32) -> std::path::PathBuf {
    let prefix = format!("heorot-lab.{process}.");
    let name = names("/var/tmp").into_iter().find(|name| name.starts_with(&prefix));
    Path::new("/var/tmp").join(name.expect("the driver's folder"))
}

/// Processes with the folder in their command lines, which those of clients and servers have.
fn processes_of(folder: &Path) -> Vec<String> {
    let line = |pid: &String| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let folder = folder.display().to_string();
    let mut pids = names("/proc");
    pids.retain(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()) && line(pid).contains(&folder));
    pids
}
