//! A machine of a cluster as its operator has it: a host name, an address, and a root directory of its own,
//! so that command lines run on it as they stand in a document, with `/var/lib/heorot` and all other paths.
//!
//! ```text
//! FOLDER/          the root directory that commands on the machine see
//!   usr dev proc sys etc      this computer's own
//!   usr/local/bin             FOLDER/.programs: a program is installed, and replaced, on each machine
//!   root var tmp run data …   the machine's own; a test mounts disks there
//! ```
//!
//! Each command has a mount namespace of its own, which goes with it. A disk is mounted before the process
//! that is to use it is started.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::command::ip;
use crate::server::in_namespace;
use crate::{Error, Lab, Namespace, Ready, Result, Server};

/// Folders of this computer that a machine has, too.
const SHARED: [&str; 5] = ["usr", "dev", "proc", "sys", "etc"];
/// Its own. On Debian the first four are links into usr.
const LINKS: [&str; 4] = ["bin", "sbin", "lib", "lib64"];
const OWN: [&str; 8] = ["root", "tmp", "run", "mnt", "srv", "var/lib", "data", "backup"];
const PROGRAMS: &str = ".programs";

/// Arguments: the root directory, the host name, the command.
const ENTER: &str = r#"
set -e
root=$1; hostname "$2"; shift 2
mount --rbind "$root" "$root"
for folder in usr dev proc sys etc; do mount --rbind "/$folder" "$root/$folder"; done
mount --bind "$root/.programs" "$root/usr/local/bin"
exec chroot "$root" /bin/bash -c 'cd /root; exec "$@"' bash "$@"
"#;

/// A machine. Its processes are [`Server`]s, and commands that run to their end.
pub struct Machine {
    name: String,
    namespace: Namespace,
    root: PathBuf,
    log: PathBuf,
}

impl Machine {
    /// A machine called `name` on a link of its own.
    ///
    /// # Errors
    /// If this computer refuses.
    pub fn new(lab: &Lab, name: &str) -> Result<Machine> {
        let namespace = lab.namespace(None)?;
        // A machine finds its own address by its way to others.
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

    /// Its host name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its network.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Where `path` of the machine is on this computer.
    pub fn file(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Puts `program` into /usr/local/bin as heorot, in the place of one that may be running.
    ///
    /// # Errors
    /// If it cannot be copied.
    pub fn install(&self, program: &Path) -> Result<()> {
        let programs = self.root.join(PROGRAMS);
        let (to, new) = (programs.join("heorot"), programs.join(".new"));
        fs::copy(program, &new).map_err(Error::file("copy", program))?;
        fs::rename(&new, &to).map_err(Error::file("put in place", &to))
    }

    /// Runs a command line to its end, in bash and in /root, as root.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn run(&self, line: &str) -> Result<Output> {
        let mut command = self.enter();
        let output = command.args(["bash", "-c", line]).output();
        output.map_err(Error::io(format!("run {line} on {}", self.name)))
    }

    /// A process of the machine, not started yet, which says in a line that it is ready.
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
