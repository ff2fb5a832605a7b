//! Machine of a cluster for an operator's commands: a host name, an address, and a root directory of its own,
//! so that command lines of a document work unchanged, with `/var/lib/heorot` and all other paths.
//!
//! ```text
//! FOLDER/          root directory of commands on the machine
//!   usr dev proc sys etc      those of this computer
//!   usr/local/bin             FOLDER/.programs: the installed program of this machine
//!   root var tmp run data …   those of the machine; a test mounts disks there
//! ```
//!
//! Each command has a mount namespace of its own, which ends with it. Mount a disk before the start of a
//! process that uses it.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::command::ip;
use crate::server::in_namespace;
use crate::{Error, Lab, Namespace, Ready, Result, Server};

/// Folders of this computer on every machine.
const SHARED: [&str; 5] = ["usr", "dev", "proc", "sys", "etc"];
/// Folders of a machine. On Debian the first four are links into usr.
const LINKS: [&str; 4] = ["bin", "sbin", "lib", "lib64"];
const OWN: [&str; 8] = ["root", "tmp", "run", "mnt", "srv", "var/lib", "data", "backup"];
const PROGRAMS: &str = ".programs";

/// Script that enters a machine. Arguments: root directory, host name, command.
const ENTER: &str = r#"
set -e
root=$1; hostname "$2"; shift 2
mount --rbind "$root" "$root"
for folder in usr dev proc sys etc; do mount --rbind "/$folder" "$root/$folder"; done
mount --bind "$root/.programs" "$root/usr/local/bin"
exec chroot "$root" /bin/bash -c 'cd /root; exec "$@"' bash "$@"
"#;

/// Machine with [`Server`]s and commands.
pub struct Machine {
    name: String,
    namespace: Namespace,
    root: PathBuf,
    log: PathBuf,
}

impl Machine {
    /// Makes a machine `name` on a link of its own.
    ///
    /// # Errors
    /// When a command or a file operation fails.
    pub fn new(lab: &Lab, name: &str) -> Result<Machine> {
        let namespace = lab.namespace(None)?;
        // Default route: a machine finds its own address by its route to others.
        ip(&format!("-n {} route add default via {}", namespace.name, lab.address()))?;
        let root = lab.folder().join("machines").join(name);
        for folder in SHARED.iter().chain(&OWN).chain(&[PROGRAMS]) {
            let folder = root.join(folder);
            fs::create_dir_all(&folder).map_err(Error::file("make", &folder))?;
        }
        for link in LINKS {
            if let Ok(to) = fs::read_link(Path::new("/").join(link)) {
                symlink(to, root.join(link)).map_err(Error::file("make", &root.join(link)))?;
            }
        }
        let log = lab.folder().join(format!("{name}.log"));
        Ok(Machine { name: name.to_owned(), namespace, root, log })
    }

    /// Host name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Network namespace.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Path on this computer of the machine's `path`.
    pub fn file(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Installs `program` as /usr/local/bin/heorot, also while the old one runs.
    ///
    /// # Errors
    /// When the program cannot be copied.
    pub fn install(&self, program: &Path) -> Result<()> {
        let programs = self.root.join(PROGRAMS);
        let (to, new) = (programs.join("heorot"), programs.join(".new"));
        fs::copy(program, &new).map_err(Error::file("copy", program))?;
        fs::rename(&new, &to).map_err(Error::file("put in place", &to))
    }

    /// Runs a command line to its end, in bash and in /root, as root.
    ///
    /// # Errors
    /// When bash cannot be started.
    pub fn run(&self, line: &str) -> Result<Output> {
        let mut command = self.enter();
        let output = command.args(["bash", "-c", line]).output();
        output.map_err(Error::io(format!("run {line} on {}", self.name)))
    }

    /// Process on the machine, not started yet; it prints the line `ready` when it serves.
    pub fn server(&self, words: &[&str], ready: &'static str) -> Server {
        let command = self.entering().into_iter().chain(words.iter().map(Into::into)).collect();
        Server::new(&self.name, command, Some(&self.namespace), Ready::SaysLine(ready), self.log.clone())
    }

    fn enter(&self) -> Command {
        let mut command = in_namespace(Some(&self.namespace.name));
        command.args(self.entering());
        command
    }

    fn entering(&self) -> Vec<OsString> {
        let words = ["unshare", "--mount", "--uts", "--propagation", "private", "bash", "-c", ENTER, "bash"];
        let root = [self.root.clone().into_os_string(), self.name.clone().into()];
        words.into_iter().map(Into::into).chain(root).collect()
    }
}
