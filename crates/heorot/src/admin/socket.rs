//! Admin socket: a Unix socket in a server's directory, for root, the server's own user and the members of
//! one group. The kernel enforces this by the modes of the directory (0700, or 0710 with the group) and of
//! the socket (0600, or 0660 with the group).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use host::private;
use rustix::fs::{Mode, OFlags};

use command_line::Failure;

/// Name of the socket in a server's directory.
pub(crate) const NAME: &str = "admin.sock";
/// Default group, if the machine has it.
pub(crate) const GROUP_DEFAULT: &str = "heorot";
const GROUP_FILE: &str = "/etc/group";
/// Maximal length of a path in a socket's address (unix(7)).
const ADDRESS_BYTES_MAX: usize = 107;

/// Group that may use a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AdminGroup {
    pub id: u32,
    /// Whether an operator configured the group: then a failed chown is an error.
    configured: bool,
}

/// Finds the configured group, or the default group if the machine has it.
///
/// # Errors
/// When the machine does not have the configured group.
pub(crate) fn group(configured: Option<&str>) -> Result<Option<AdminGroup>, Failure> {
    let groups = std::fs::read_to_string(GROUP_FILE).unwrap_or_default();
    let id = group_id(&groups, configured.unwrap_or(GROUP_DEFAULT));
    match (id, configured) {
        (Some(id), _) => Ok(Some(AdminGroup { id, configured: configured.is_some() })),
        (None, None) => Ok(None),
        (None, Some(name)) => Err(Failure::new(format!(
            "`admin_group` {name:?}: there is no such group in {GROUP_FILE}; make it with groupadd --system {name}, or name \
             another one, or its number"
        ))),
    }
}

/// Number of a group, by its name or number in a file like /etc/group.
fn group_id(groups: &str, group: &str) -> Option<u32> {
    let line = |line: &str| {
        let mut fields = line.split(':');
        let (name, _, id) = (fields.next()?, fields.next()?, fields.next()?);
        if name == group { id.parse().ok() } else { None }
    };
    groups.lines().find_map(line).or_else(|| group.parse().ok())
}

/// Lets the group pass through a directory to the socket. If that fails, no other user passes; it is an error
/// if the group was configured.
pub(crate) fn let_pass(dir: &Path, group: Option<AdminGroup>) -> Result<(), Failure> {
    let done = private::let_group_pass(dir, group.map(|group| group.id));
    match done {
        Err(error) if group.is_none_or(|group| group.configured) => {
            Err(Failure::new(format!("{}: cannot be given to `admin_group`: {error}", dir.display())))
        }
        Err(error) => {
            tracing::debug!(dir = %dir.display(), %error, "the group {GROUP_DEFAULT} cannot use the admin socket");
            Ok(private::let_group_pass(dir, None)?)
        }
        Ok(()) => Ok(()),
    }
}

/// Listening socket; drop removes its name.
#[derive(Debug)]
pub(crate) struct AdminSocket {
    pub listener: tokio::net::UnixListener,
    path: PathBuf,
}

impl AdminSocket {
    /// Listens in `dir`, whose lock the process holds: an existing socket is stale.
    pub(crate) fn listen(dir: &Path, group: Option<AdminGroup>) -> Result<Self, Failure> {
        let path = dir.join(NAME);
        let failed =
            |error: io::Error| Failure::new(format!("{}: cannot be listened on: {error}", path.display()));
        let_pass(dir, group)?;
        match path.symlink_metadata() {
            Ok(left_over) if left_over.file_type().is_socket() => {
                std::fs::remove_file(&path).map_err(failed)?;
            }
            Ok(_) => return Err(failed(io::Error::other("something that is no socket is there"))),
            Err(_) => {}
        }
        let listener = short(&path, |path| std::os::unix::net::UnixListener::bind(path)).map_err(failed)?;
        let mode = match group {
            // As with the directory: a user that may not change the socket's group keeps its own group.
            Some(group) if std::os::unix::fs::chown(&path, None, Some(group.id)).is_ok() => 0o660,
            _ => private::FILE_MODE,
        };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let listener = tokio::net::UnixListener::from_std(listener).map_err(failed)?;
        Ok(Self { listener, path })
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        // The directory may be removed already.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Calls `act` with a path of the socket that fits into an address, however long `path` is.
pub(crate) fn short<T>(path: &Path, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    if path.as_os_str().len() <= ADDRESS_BYTES_MAX {
        return act(path);
    }
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = File::from(rustix::fs::open(dir, flags, Mode::empty())?);
    act(&Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_named_or_numbered() {
        let groups = "root:x:0:\nheorot:x:998:ann,bob\n1000:x:7:\nbroken\n";
        let cases = [("heorot", Some(998)), ("998", Some(998)), ("1000", Some(7)), ("ops", None), ("", None)];
        for (group, id) in cases {
            assert_eq!(group_id(groups, group), id, "{group}");
        }
        let missing = group(Some("no-such-group")).unwrap_err().to_string();
        assert!(missing.contains("groupadd --system no-such-group"), "{missing}");
    }

    #[tokio::test]
    async fn a_socket_is_listened_on_again_after_a_kill_and_at_the_end_of_a_long_path() {
        let lab = tempfile::tempdir().unwrap();
        let dir = lab.path().join("d".repeat(120));
        std::fs::create_dir(&dir).unwrap();
        let left_over = AdminSocket::listen(&dir, None).unwrap();
        let AdminSocket { path, .. } = &left_over;
        let path = path.clone();
        std::mem::forget(left_over);
        let socket = AdminSocket::listen(&dir, None).unwrap();
        let mode = path.symlink_metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        short(&path, |path| std::os::unix::net::UnixStream::connect(path)).unwrap();
        drop(socket);
        assert!(!path.exists());
        std::fs::write(&path, "a file").unwrap();
        let refused = AdminSocket::listen(&dir, None).unwrap_err().to_string();
        assert!(refused.contains("no socket"), "{refused}");
    }
}
