//! Another user of a server's machine can read no file and use no admin socket.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::process::{ADMIN_PORT, PORT, Server, http, own_ip};
use bytes::Bytes;
use rustix::process::Signal;

/// Id of a user who may log in.
const STRANGER: &str = "1000";
/// Id of a group without members.
const GROUP: &str = "4242";
const SECRET_NAME: &str = "plan-of-grendel";

/// Directory that all users may enter, with the program in it.
struct Lab {
    dir: tempfile::TempDir,
}

/// What was found, or nothing if a server that runs has removed it.
fn present<T>(found: std::io::Result<T>) -> Option<T> {
    match found {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        found => Some(found.unwrap()),
    }
}

impl Lab {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let (from, to) = (env!("CARGO_BIN_EXE_heorot"), dir.path().join("heorot"));
        if std::fs::hard_link(from, &to).is_err() {
            std::fs::copy(from, &to).unwrap();
        }
        Self { dir }
    }

    /// Starts `heorot ARGS` with a umask that hides nothing.
    fn start(&self, args: &str) -> Server {
        self.start_with(args, &[])
    }

    fn start_with(&self, args: &str, variables: &[(&str, &Path)]) -> Server {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("umask 0; exec {} {args}", self.program())]);
        command.env("HEOROT_LOG", "off").stdout(Stdio::piped()).stderr(Stdio::piped());
        command.envs(variables.iter().copied());
        Server::of(command)
    }

    fn program(&self) -> String {
        self.dir.path().join("heorot").display().to_string()
    }

    /// Runs a command as an unprivileged user, with these groups.
    fn as_stranger(&self, groups: &[&str], words: &[&str]) -> Output {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", STRANGER, "--regid", STRANGER]);
        match groups {
            [] => command.arg("--clear-groups"),
            groups => command.args(["--groups", &groups.join(",")]),
        };
        command.args(words).current_dir("/").output().unwrap()
    }

    /// All files and directories of a server. The server may run: what it removes meanwhile is left out.
    fn all(dir: &Path) -> Vec<PathBuf> {
        let Some(entries) = present(std::fs::read_dir(dir)) else { return Vec::new() };
        let mut all = vec![dir.to_owned()];
        for entry in entries {
            let entry = entry.unwrap();
            match present(entry.file_type()).map(|kind| kind.is_dir()) {
                Some(true) => all.extend(Self::all(&entry.path())),
                Some(false) => all.push(entry.path()),
                None => {}
            }
        }
        all
    }

    /// Checks modes: directories 0700, files 0600; the group may pass those on the way to a socket.
    fn check_modes(dir: &Path, passage: &[&Path]) {
        for path in Self::all(dir) {
            let Some(metadata) = present(path.symlink_metadata()) else { continue };
            let kind = metadata.file_type();
            let expected = match passage.iter().any(|passage| *passage == path) {
                true => 0o710,
                false if kind.is_socket() && !passage.is_empty() => 0o660,
                false if kind.is_dir() => 0o700,
                false => 0o600,
            };
            let mode = metadata.permissions().mode() & 0o7777;
            assert_eq!(mode, expected, "{} has {mode:o}, not {expected:o}", path.display());
        }
    }

    /// Sets the modes of an earlier version with a common umask.
    fn open_all(dir: &Path) {
        for path in Self::all(dir) {
            let mode = if path.is_dir() { 0o755 } else { 0o644 };
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        }
    }

    fn check_stranger(&self, dir: &Path) {
        let shown = dir.display().to_string();
        for path in Self::all(dir).iter().filter(|path| path.is_file()) {
            let read = self.as_stranger(&[], &["cat", path.to_str().unwrap()]);
            assert!(!read.status.success() && read.stdout.is_empty(), "{} is read", path.display());
        }
        let stolen = self.dir.path().join("stolen").display().to_string();
        for command in [
            "status",
            "node list",
            "node drain ds0",
            "node remove ds0 --force",
            "leader",
            "stripe get /",
            "stripe set / --columns 1",
            "clean",
            &format!("backup {stolen}"),
        ] {
            let program = self.program();
            let words: Vec<&str> =
                [program.as_str()].into_iter().chain(command.split(' ')).chain(["--admin", &shown]).collect();
            let asked = self.as_stranger(&[], &words);
            let said = String::from_utf8_lossy(&asked.stderr);
            assert!(!asked.status.success() && asked.stdout.is_empty(), "{command}: {asked:?}");
            assert!(said.contains("admin.sock: not permitted: root and the members of"), "{command}: {said}");
        }
        let member = self.as_stranger(&[GROUP], &[&self.program(), "status", "--admin", &shown]);
        // The exit status is the verdict of the cluster.
        assert!(!member.stdout.is_empty(), "{}", String::from_utf8_lossy(&member.stderr));
        let read = self.as_stranger(&[GROUP], &["cat", dir.join("secret").to_str().unwrap()]);
        assert!(!read.status.success(), "the group reads no files");
    }
}

async fn write(url: &str) {
    let client = nfs_rs::parse_url_and_mount(url).await.unwrap();
    for (name, bytes) in [(SECRET_NAME, 1000), ("large", 300 << 10)] {
        let file = client.create_path(name, Some(0o600)).await.unwrap();
        nfs_rs::write_all(&*client, file.fh.clone(), 0, Bytes::from(vec![7; bytes])).await.unwrap();
        client.close(file.fh).await.unwrap();
    }
    client.umount().await.unwrap();
}

#[test]
fn another_user_of_the_machine_reads_nothing_and_commands_nothing() {
    let (lab, ip) = (Lab::new(), own_ip());
    let dir = lab.dir.path().join("data");
    let args = format!(
        "up --data {} --data-servers 2 --listen {ip}:{PORT} --admin {ip}:{ADMIN_PORT} --admin-group {GROUP}",
        dir.display()
    );
    let mut server = lab.start(&args);
    server.ready();
    let url = format!("nfs://{ip}:{PORT}/?version=4.2&noresvport=true");
    tokio::runtime::Runtime::new().unwrap().block_on(write(&url));
    let mds = dir.join("mds");
    Lab::check_modes(&dir, &[&dir, &mds]);
    assert!(Lab::all(&dir).iter().any(|path| path.parent().unwrap().parent().unwrap().ends_with("objects")));
    lab.check_stranger(&dir);
    assert_eq!(server.signal(Signal::TERM), Some(0));

    Lab::open_all(&dir);
    let mut server = lab.start(&args);
    server.ready();
    Lab::check_modes(&dir, &[&dir, &mds]);
    lab.check_stranger(&dir);

    // The address gives metrics, without names of files, and nothing else.
    let get = |path: &str| {
        http((ip, ADMIN_PORT).into(), &format!("GET {path} HTTP/1.1\r\nHost: {ip}:{ADMIN_PORT}\r\n\r\n"))
    };
    let page = get("/metrics");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("heorot_inodes 3"), "{page}");
    for secret in [SECRET_NAME, dir.to_str().unwrap()] {
        assert!(!page.contains(secret), "{secret}");
    }
    for path in ["/status", "/nodes", "/backup", "/stripe?path=/", "/metrics/../status"] {
        let answer = get(path);
        assert!(
            answer.starts_with("HTTP/1.1 403") && answer.contains("serves metrics only"),
            "{path}: {answer}"
        );
    }
    assert_eq!(server.signal(Signal::TERM), Some(0));
}

#[test]
fn a_node_s_directory_is_its_own() {
    let (lab, ip) = (Lab::new(), own_ip());
    let dir = lab.dir.path().join("node");
    let init = format!(
        "umask 0; {} init --dir {} --address {ip} --name ash --admin {ip}:{ADMIN_PORT}",
        lab.program(),
        dir.display()
    );
    let init = Command::new("sh").args(["-c", &init]).output().unwrap();
    assert!(init.status.success(), "{}", String::from_utf8_lossy(&init.stderr));
    Lab::check_modes(&dir, &[]);
    for file in ["mds.toml", "ds.toml"] {
        let file = dir.join(file);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("admin_group = \"{GROUP}\"\n{text}")).unwrap();
    }
    Lab::open_all(&dir);
    let notify = lab.dir.path().join("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&notify).unwrap();
    let mut server = lab.start_with(&format!("run {}", dir.display()), &[("NOTIFY_SOCKET", &notify)]);
    server.ready();
    let mut told = [0; 64];
    while !told.starts_with(b"READY=1\n") {
        manager.recv(&mut told).unwrap(); // first what is to be kept
    }
    let [mds, ds] = ["mds", "ds"].map(|name| dir.join(name));
    Lab::check_modes(&dir, &[&dir, &mds, &ds]);
    lab.check_stranger(&dir);
    assert_eq!(server.signal(Signal::TERM), Some(0));
}
