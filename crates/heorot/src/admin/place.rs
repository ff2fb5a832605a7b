//! Location of the admin interface for a command: the socket of a server on this machine, or an address.
//!
//! ```text
//! --admin, or HEOROT_ADMIN        DIR              --admin-token-file, or HEOROT_ADMIN_TOKEN_FILE
//!   ADDR:PORT ─▶ that address      admin.sock        of a server's own directory
//!   a socket  ─▶ that socket       mds/admin.sock    of heorot run or heorot up: a metaserver's first
//!   DIR       ─▶ sockets below     mds1/ … mds6/     of heorot up --metaservers
//!   nothing   ─▶ /var/lib/heorot   ds/admin.sock     a node that is a data server only
//!                ./heorot-data
//! ```
//!
//! Sockets without a listener are skipped.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::admin::socket::{self, GROUP_DEFAULT};
use crate::cli::{NODE_DIR, UP_DIR};
use command_line::Failure;

/// Directories of servers below that of a node or of `heorot up`, in the order of preference.
const BELOW: [&str; 9] = ["", "mds", "mds1", "mds2", "mds3", "mds4", "mds5", "mds6", "ds"];
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);

/// Options of each command that asks a server.
#[derive(Debug, Args)]
pub(crate) struct AdminArgs {
    /// The server: the directory of heorot run or heorot up, an admin socket, or ADDR:PORT with a token
    /// [default: /var/lib/heorot, then heorot-data]
    #[arg(long, visible_alias = "socket", value_name = "DIR|SOCKET|ADDR:PORT", env = "HEOROT_ADMIN")]
    pub admin: Option<PathBuf>,
    /// The file with the admin token, for ADDR:PORT: a copy of the server's admin_token_file
    #[arg(long, value_name = "FILE", env = "HEOROT_ADMIN_TOKEN_FILE")]
    pub admin_token_file: Option<PathBuf>,
}

/// Location of an admin interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Socket(PathBuf),
    Tcp(SocketAddr),
}

/// Connection to an admin interface.
pub(crate) enum Stream {
    Socket(UnixStream),
    Tcp(TcpStream),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "{}", path.display()),
            Self::Tcp(address) => write!(f, "{address}"),
        }
    }
}

impl Place {
    /// Finds the named admin interface, or else that of this machine.
    pub(crate) fn find(named: Option<&PathBuf>) -> Result<Self, Failure> {
        match named {
            Some(named) => Self::named(named),
            None => Self::among(&[Path::new(NODE_DIR), Path::new(UP_DIR)]).map_err(|why| {
                why.unwrap_or_else(|| {
                    Failure::new(format!(
                        "heorot does not run on this machine: there is no admin socket in {NODE_DIR} or ./{UP_DIR}; start it, \
                         or name the directory that it was started with: --admin DIR"
                    ))
                })
            }),
        }
    }

    fn named(named: &Path) -> Result<Self, Failure> {
        if let Some(address) = named.to_str().and_then(|text| text.parse().ok()) {
            return Ok(Self::Tcp(address));
        }
        let shown = named.display();
        let found = match named.metadata() {
            Ok(metadata) if metadata.file_type().is_socket() => return Ok(Self::Socket(named.into())),
            Ok(metadata) if metadata.is_dir() => Self::among(&[named]),
            Ok(_) => return Err(Failure::new(format!("{shown}: is no directory, and no socket"))),
            Err(error) => return Err(unusable(named, &error)),
        };
        found.map_err(|why| {
            why.unwrap_or_else(|| {
                Failure::new(format!(
                    "{shown}: there is no admin socket here or in mds or ds below; does heorot run with this directory?"
                ))
            })
        })
    }

    /// Finds the first socket below these directories that has a listener. None: no socket exists.
    fn among(dirs: &[&Path]) -> Result<Self, Option<Failure>> {
        let mut why = None;
        for dir in dirs {
            for below in BELOW {
                let path = dir.join(below).join(socket::NAME);
                match socket::short(&path, |path| std::os::unix::net::UnixStream::connect(path)) {
                    Ok(_) => return Ok(Self::Socket(path)),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => {
                        why.get_or_insert_with(|| unusable(&path, &error));
                    }
                }
            }
        }
        Err(why)
    }

    /// Value of the Host header.
    pub(crate) fn host(&self) -> String {
        match self {
            Self::Socket(_) => "localhost".into(),
            Self::Tcp(address) => address.to_string(),
        }
    }

    /// Connects to the admin interface.
    pub(crate) async fn connect(&self) -> Result<Stream, Failure> {
        match self {
            Self::Socket(path) => {
                let stream = socket::short(path, |path| std::os::unix::net::UnixStream::connect(path));
                let stream = stream.map_err(|error| unusable(path, &error))?;
                stream.set_nonblocking(true)?;
                Ok(Stream::Socket(UnixStream::from_std(stream)?))
            }
            Self::Tcp(address) => {
                let failed = |why: &dyn fmt::Display| {
                    Failure::new(format!(
                        "no answer from {address}: {why}; is heorot running there, and is that its `admin` address?"
                    ))
                };
                let stream = timeout(CONNECT_TIME_MAX, TcpStream::connect(address)).await;
                Ok(Stream::Tcp(stream.map_err(|e| failed(&e))?.map_err(|e| failed(&e))?))
            }
        }
    }
}

fn unusable(path: &Path, error: &io::Error) -> Failure {
    let shown = path.display();
    Failure::new(match error.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "{shown}: not permitted: root and the members of the server's `admin_group` ({GROUP_DEFAULT} by default) may \
             administer it; try it with sudo"
        ),
        io::ErrorKind::NotFound => {
            format!("{shown}: is not there; name the directory that heorot was started with: --admin DIR")
        }
        io::ErrorKind::ConnectionRefused => {
            format!("{shown}: no answer: heorot was stopped or killed; start it")
        }
        _ => format!("{shown}: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_directory_s_socket_is_found_and_what_is_missing_is_said() {
        let lab = tempfile::tempdir().unwrap();
        let at = |name: &str| lab.path().join(name);
        let said = |path: &Path| Place::find(Some(&path.to_owned())).unwrap_err().to_string();
        assert!(said(&at("no")).contains("is not there"), "{}", said(&at("no")));
        assert!(said(lab.path()).contains("there is no admin socket here"), "{}", said(lab.path()));
        for name in ["mds", "mds1", "ds"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        let place = |name: &str| Place::Socket(at(name));
        let find = || Place::find(Some(&lab.path().to_owned()));
        let _ds = UnixListener::bind(at("ds/admin.sock")).unwrap();
        assert_eq!(find(), Ok(place("ds/admin.sock")));
        let _second = UnixListener::bind(at("mds1/admin.sock")).unwrap();
        let first = UnixListener::bind(at("mds/admin.sock")).unwrap();
        assert_eq!(find(), Ok(place("mds/admin.sock")));
        drop(first);
        assert_eq!(find(), Ok(place("mds1/admin.sock")), "the first was killed");
        assert!(said(&at("mds")).contains("mds/admin.sock: no answer"), "{}", said(&at("mds")));
        assert_eq!(Place::find(Some(&at("mds/admin.sock"))), Ok(place("mds/admin.sock")));
        let address: PathBuf = "10.0.0.1:20490".into();
        assert_eq!(Place::find(Some(&address)), Ok(Place::Tcp("10.0.0.1:20490".parse().unwrap())));
    }
}
