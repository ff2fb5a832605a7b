//! Rebuild of one metaserver of three with a damaged log or store; each is a process.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use store::{Durability, RedbStore, Store};

const PATIENCE: Duration = Duration::from_secs(60);

/// Lock of the addresses, which both tests use.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

struct Mds {
    dir: PathBuf,
    child: Option<Child>,
}

impl Mds {
    /// Metaserver `n` of a group in `dir`, on its own loopback address.
    fn configured(dir: &Path, n: u32) -> Self {
        let [.., high, low] = std::process::id().to_be_bytes();
        let ip = |n: u32| format!("127.{}.{low}.{}", high | 1, 200 + n);
        let join = if n == 0 { String::new() } else { format!("join = \"{}:2052\"\n", ip(0)) };
        let own = dir.join(format!("mds{n}"));
        let text = format!(
            "listen = \"{0}:2049\"\nadmin = \"{0}:20490\"\ndata_dir = {own:?}\nsecret_file = {1:?}\nname = \"mds{n}\"\n\
             consensus = \"{0}:2052\"\n{join}",
            ip(n),
            dir.join("secret"),
        );
        std::fs::write(dir.join(format!("mds{n}.toml")), text).unwrap();
        Self { dir: own, child: None }
    }

    /// Starts the metaserver; returns its output until it is ready.
    fn start(&mut self) -> String {
        self.try_to_start().unwrap_or_else(|said| panic!("it ended: {said}"))
    }

    /// Starts the metaserver; returns its output until it is ready, or until it exits.
    fn try_to_start(&mut self) -> Result<String, String> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_heorot"))
            .args(["mds", "--config"])
            .arg(self.dir.with_extension("toml"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        self.child = Some(child);
        while !said.lines().last().is_some_and(|line| line.contains("ready")) {
            let before = said.len();
            log.read_line(&mut said).unwrap();
            if said.len() == before {
                return Err(said);
            }
        }
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Ok(said)
    }

    /// Starts the metaserver, which must refuse; returns its last line and its exit status.
    fn refuses_to_start(&mut self) -> (String, Option<i32>) {
        let said = match self.try_to_start() {
            Err(said) => said,
            Ok(said) => panic!("it starts: {said}"),
        };
        let status = self.child.take().unwrap().wait().unwrap();
        (said.lines().last().unwrap_or_default().to_owned(), status.code())
    }

    fn stop(&mut self) {
        let mut child = self.child.take().unwrap();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        child.wait().unwrap();
    }

    fn status(&self) -> Value {
        let output = Command::new(env!("CARGO_BIN_EXE_heorot"))
            .args(["status", "--json", "--admin"])
            .arg(&self.dir)
            .output();
        serde_json::from_slice(&output.unwrap().stdout).unwrap_or_default()
    }

    /// Ids and names of the voters in this metaserver's status.
    fn voters(&self) -> Vec<(String, String)> {
        let status = self.status();
        let all = status["metaservers"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let voters = all.iter().filter(|one| one["role"] != "learner");
        let mut voters: Vec<_> = voters.map(|one| (text(&one["name"]), text(&one["id"]))).collect();
        voters.sort();
        voters
    }
}

impl Drop for Mds {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Flips bits of a record in the middle of the log.
fn damage(dir: &Path) {
    let segment = dir.join("log/00000000000000000000.log");
    let file = std::fs::OpenOptions::new().read(true).write(true).open(segment).unwrap();
    let at = 64 + 48; // the first record's payload
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0xff], at).unwrap();
}

/// Flips a bit of a record of the store: the head of the cluster map (docs/disk-format.md).
fn damage_store(dir: &Path) {
    const MAP_HEAD: &[u8] = &[0x44];
    let store = RedbStore::open(dir.join("namespace.redb"), 16 << 20).unwrap();
    let mut value = store.snapshot().unwrap().get(MAP_HEAD).unwrap().unwrap();
    *value.last_mut().unwrap() ^= 1;
    store.batch(Durability::Immediate, &mut |edit| edit.put(MAP_HEAD, &value)).unwrap();
}

/// Waits until a member has stored this number of voters, shortly after its vote.
fn wait_until_noted(mds: &Mds, voters: usize) {
    let asked = Instant::now();
    let noted = || std::fs::read_to_string(mds.dir.join("members")).unwrap_or_default();
    while noted().matches(":2052 ").count() != voters {
        assert!(asked.elapsed() < PATIENCE, "{}", noted());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until member `n` is one of three voters again, in its own status and in that of member `by`, and has
/// stored that.
fn wait_for_three(group: &[Mds], n: usize, by: usize) -> Vec<(String, String)> {
    let asked = Instant::now();
    loop {
        let voters = group[by].voters();
        if voters.len() == 3 && group[n].voters() == voters {
            wait_until_noted(&group[n], 3);
            return voters;
        }
        assert!(asked.elapsed() < PATIENCE, "{:?}", group[by].status());
    }
}

/// Starts a group of three metaservers.
fn start_three(dir: &Path) -> Vec<Mds> {
    let mut group: Vec<Mds> = (0..3).map(|n| Mds::configured(dir, n)).collect();
    for mds in &mut group {
        mds.start();
    }
    group
}

#[test]
fn a_metaserver_whose_store_file_cannot_be_opened_or_is_gone_has_everything_again() {
    let _alone = ONE_AT_A_TIME.lock();
    let dir = tempfile::tempdir().unwrap();
    let mut group = start_three(dir.path());
    let before = wait_for_three(&group, 2, 0);
    let store = |mds: &Mds| mds.dir.join("namespace.redb");
    let file = |path: &Path| std::fs::OpenOptions::new().write(true).open(path).unwrap();

    // Damage the header: redb refuses the file.
    group[2].stop();
    file(&store(&group[2])).write_all_at(&[0; 512], 0).unwrap();
    let said = group[2].start();
    assert!(said.contains("namespace.redb") && said.contains("log or store is damaged"), "{said}");
    let after = wait_for_three(&group, 2, 1);
    assert_eq!(after[..2], before[..2]);
    assert_ne!(after[2], before[2], "under another id");

    // Remove or empty the store: the log still has all entries, which are applied again.
    for empties in [false, true] {
        group[1].stop();
        match empties {
            true => file(&store(&group[1])).set_len(0).unwrap(),
            false => std::fs::remove_file(store(&group[1])).unwrap(),
        }
        let said = group[1].start();
        assert!(!said.contains("damaged"), "{said}");
        assert_eq!(wait_for_three(&group, 1, 0), after, "the same member");
    }

    // Remove the store and the log's segments.
    group[1].stop();
    std::fs::remove_file(store(&group[1])).unwrap();
    for entry in std::fs::read_dir(group[1].dir.join("log")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "log") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let said = group[1].start();
    assert!(
        said.contains("log and store are empty")
            && said.contains("rebuilding this metaserver from the others"),
        "{said}"
    );
    let again = wait_for_three(&group, 1, 0);
    assert_eq!((&again[0], &again[2]), (&after[0], &after[2]));
    assert_ne!(again[1], after[1], "under another id");

    // A member without its stored vote must not vote again, either.
    group[0].stop();
    std::fs::remove_file(group[0].dir.join("log/vote")).unwrap();
    let said = group[0].start();
    assert!(
        said.contains("the vote is gone") && said.contains("rebuilding this metaserver from the others"),
        "{said}"
    );
    let last = wait_for_three(&group, 0, 1);
    assert_eq!(last[1..], again[1..]);
    assert_ne!(last[0], again[0], "under another id");
}

/// Line about a damage, and the function that makes the damage.
type Damage = (&'static str, fn(&Path));

const DAMAGES: [Damage; 4] = [
    ("record 0 is damaged", damage),
    ("the vote is gone", |dir| std::fs::remove_file(dir.join("log/vote")).unwrap()),
    ("the file is damaged", |dir| {
        let file = std::fs::OpenOptions::new().write(true).open(dir.join("namespace.redb")).unwrap();
        file.write_all_at(&[0; 512], 0).unwrap();
    }),
    ("the metadata are gone: log and store are empty", |dir| {
        std::fs::remove_file(dir.join("namespace.redb")).unwrap();
        std::fs::remove_file(dir.join("log/00000000000000000000.log")).unwrap();
    }),
];

/// Copies a directory tree, without sockets.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let at = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &at),
            false if path.is_file() => drop(std::fs::copy(&path, &at).unwrap()),
            false => {} // a socket
        }
    }
}

/// Applies each damage to a copy of `mds`: it stops with one line that has the remedy, and changes nothing.
fn says_what_helps(mds: &mut Mds, of_two: bool) {
    let sound = mds.dir.with_extension("sound");
    copy(&mds.dir, &sound);
    for (what, damage) in DAMAGES {
        damage(&mds.dir.clone());
        let (said, status) = mds.refuses_to_start();
        assert_eq!(status, Some(1), "{what}: {said}");
        assert!(said.contains(what) && said.contains("heorot restore"), "{what}: {said}");
        assert_eq!(said.contains("cannot go on without it"), of_two, "{what}: {said}");
        let names = std::fs::read_dir(&mds.dir).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(!names.into_iter().any(|name| name.to_string_lossy().starts_with("damaged.")), "{what}");
        std::fs::remove_dir_all(&mds.dir).unwrap();
        copy(&sound, &mds.dir);
    }
}

#[test]
fn a_metaserver_alone_or_of_two_that_is_damaged_stops_and_says_what_helps() {
    let _alone = ONE_AT_A_TIME.lock();
    let dir = tempfile::tempdir().unwrap();
    let mut one = Mds::configured(dir.path(), 0);
    one.start();
    one.stop();
    says_what_helps(&mut one, false);
    one.start();

    let mut other = Mds::configured(dir.path(), 1);
    other.start();
    wait_until_noted(&other, 2);
    other.stop();
    says_what_helps(&mut other, true);
    // Restored to the sound copy, it is one of the two again.
    other.start();
    let asked = Instant::now();
    while other.voters().len() != 2 || one.voters() != other.voters() {
        assert!(asked.elapsed() < PATIENCE, "{:?}", one.status());
    }
}

#[test]
fn a_metaserver_with_a_damaged_store_stops_when_it_reads_that_and_fills_itself_from_the_others() {
    let _alone = ONE_AT_A_TIME.lock();
    let dir = tempfile::tempdir().unwrap();
    let mut group = start_three(dir.path());
    let before = group[0].voters();
    group[2].stop();
    damage_store(&group[2].dir.clone());
    let said = group[2].try_to_start().unwrap_err();
    assert!(
        said.contains("the disk is damaged") && said.contains("rebuilds them when it is started"),
        "{said}"
    );
    let said = group[2].start();
    assert!(said.contains("log or store is damaged"), "{said}");
    let asked = Instant::now();
    while group[1].voters().len() != 3 || group[2].voters() != group[1].voters() {
        assert!(asked.elapsed() < PATIENCE, "{:?}", group[1].status());
    }
    let after = group[1].voters();
    assert_eq!(after[..2], before[..2]);
    assert_ne!(after[2], before[2], "under another id");
}

/// The header is sound, so redb opens the file, and meets what makes no sense afterwards.
#[test]
fn a_metaserver_with_damaged_pages_in_its_store_fills_itself_from_the_others() {
    let _alone = ONE_AT_A_TIME.lock();
    let dir = tempfile::tempdir().unwrap();
    let mut group = start_three(dir.path());
    let before = group[0].voters();
    wait_until_noted(&group[2], 3);
    group[2].stop();
    damage_pages(&group[2].dir.join("namespace.redb"));
    let said = group[2].start();
    assert!(said.contains("a page makes no sense"), "{said}");
    assert!(said.contains("rebuilding this metaserver from the others"), "{said}");
    let asked = Instant::now();
    while group[1].voters().len() != 3 || group[2].voters() != group[1].voters() {
        assert!(asked.elapsed() < PATIENCE, "{:?}", group[1].status());
    }
    let after = group[1].voters();
    assert_eq!(after[..2], before[..2]);
    assert_ne!(after[2], before[2], "under another id");
}

/// Overwrites all pages but the first one, which has the header.
fn damage_pages(store: &Path) {
    const PAGE_BYTES: u64 = 4096;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(store).unwrap();
    for at in (PAGE_BYTES..file.metadata().unwrap().len()).step_by(PAGE_BYTES as usize) {
        let mut page = [0; PAGE_BYTES as usize];
        file.read_exact_at(&mut page, at).unwrap();
        if page.iter().any(|byte| *byte != 0) {
            file.write_all_at(&[0xff; PAGE_BYTES as usize], at).unwrap();
        }
    }
}

#[test]
fn a_metaserver_with_a_damaged_log_fills_itself_from_the_others_as_a_new_member() {
    let _alone = ONE_AT_A_TIME.lock();
    let dir = tempfile::tempdir().unwrap();
    let mut group = start_three(dir.path());
    let before = group[0].voters();
    assert_eq!(before.len(), 3, "{before:?}");

    // The founder, whose configuration has no `join`.
    group[0].stop();
    damage(&group[0].dir.clone());
    let said = group[0].start();
    assert!(said.contains("record 0 is damaged"), "{said}");
    let asked = Instant::now();
    while group[1].voters().len() != 3 || group[0].voters() != group[1].voters() {
        assert!(asked.elapsed() < PATIENCE, "{:?}", group[1].status());
    }
    let after = group[1].voters();
    let names: Vec<_> = after.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["mds0", "mds1", "mds2"]);
    assert_ne!(after[0], before[0], "under another id: it does not vote for what it may have lost");
    assert_eq!(after[1..], before[1..]);
    let kept = |end: &str| {
        let names = std::fs::read_dir(&group[0].dir).unwrap().map(|e| e.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().ends_with(end)).count()
    };
    assert_eq!(kept(".replaced"), 1, "what was damaged is there to be looked at");

    // It has a vote: the group continues without another member. And it restarts normally.
    group[0].stop();
    group[0].start();
    group[1].stop();
    let asked = Instant::now();
    while group[0].status()["metaservers"]
        .as_array()
        .is_none_or(|all| !all.iter().any(|m| m["role"] == "leader"))
    {
        assert!(asked.elapsed() < PATIENCE, "{:?}", group[0].status());
    }
}
