//! Mount of a directory, and the counter of reads from below its page cache.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::trouble::Trouble;

/// Line of `/proc/self/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    pub point: PathBuf,
    /// Type: `nfs4`, `ext4`, ...
    pub kind: String,
    pub source: String,
    pub options: String,
}

impl Mount {
    /// Mount of `path`, which must be absolute and without links.
    pub fn of(path: &Path) -> Result<Self, Trouble> {
        let file = "/proc/self/mountinfo";
        let text = fs::read_to_string(file).map_err(|e| Trouble::io(&format!("read {file}"), &e))?;
        Self::find(&text, path)
            .ok_or_else(|| Trouble(format!("{file} does not say what {} is on", path.display())))
    }

    /// Finds the last matching mount: a mount hides earlier ones at the same place, or below it.
    fn find(mountinfo: &str, path: &Path) -> Option<Self> {
        let mounts = mountinfo.lines().filter_map(Self::parse);
        mounts
            .filter(|mount| path.starts_with(&mount.point))
            .max_by_key(|mount| mount.point.components().count())
    }

    /// Parses `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`: see proc(5).
    fn parse(line: &str) -> Option<Self> {
        let (left, right) = line.split_once(" - ")?;
        let mut right = right.split(' ');
        Some(Self {
            point: PathBuf::from(unescaped(left.split(' ').nth(4)?)),
            kind: right.next()?.to_owned(),
            source: unescaped(right.next()?).to_string_lossy().into_owned(),
            options: right.next()?.to_owned(),
        })
    }

    /// Bytes read from below the page cache. NFS counts the servers' bytes for each mount. File systems on a
    /// block device are accounted to the process, including readahead. FUSE and others have no counter.
    pub fn fetched_bytes(&self) -> Option<u64> {
        if self.kind.starts_with("nfs") {
            return nfs_server_bytes(&fs::read_to_string("/proc/self/mountstats").ok()?, &self.point);
        }
        let counted = self.source.starts_with("/dev/") || matches!(&*self.kind, "overlay" | "tmpfs" | "zfs");
        let text = counted.then(|| fs::read_to_string("/proc/self/io").ok()).flatten()?;
        text.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.trim().parse().ok())
    }
}

/// Parses `device SOURCE mounted on POINT with fstype nfs4 statvers=1.1`, and below it `bytes: read write
/// direct-read direct-write server-read server-write read-pages write-pages`.
fn nfs_server_bytes(mountstats: &str, point: &Path) -> Option<u64> {
    let is_ours = |line: &str| {
        let rest = line.strip_prefix("device ")?;
        let (place, _) = rest.split_once(" mounted on ")?.1.split_once(" with fstype nfs")?;
        (Path::new(&unescaped(place)) == point).then_some(())
    };
    // The last mount at this place is the visible one.
    let at = mountstats.lines().enumerate().filter(|(_, line)| is_ours(line).is_some()).last()?.0;
    let block = mountstats.lines().skip(at + 1).take_while(|line| !line.starts_with("device "));
    let mut lines = block.filter_map(|line| line.trim_start().strip_prefix("bytes:"));
    lines.next()?.split_whitespace().nth(4)?.parse().ok()
}

/// Replaces escapes such as `\040`.
fn unescaped(text: &str) -> OsString {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let octal = (*first == b'\\')
            .then(|| after.get(..3))
            .flatten()
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(octal.unwrap_or(*first));
        rest = if octal.is_some() { &after[3..] } else { after };
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_on_the_deepest_mount_above_it() {
        let text = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
23 22 0:21 / /mnt rw - tmpfs none rw
40 23 0:33 / /mnt/my\\040data rw,relatime - nfs4 10.77.0.1:/ rw,vers=4.2,hard
41 23 0:34 / /mnt/my\\040data rw,relatime - nfs4 10.77.0.2:/ rw,vers=4.2,hard
";
        let found = |path: &str| Mount::find(text, Path::new(path)).unwrap();
        assert_eq!(found("/home/x").source, "/dev/vda");
        assert_eq!(found("/mnt/my").kind, "tmpfs");
        let mount = found("/mnt/my data/sub");
        assert_eq!(
            (&*mount.kind, &*mount.source),
            ("nfs4", "10.77.0.2:/"),
            "the later one hides the earlier"
        );
        assert_eq!(mount.options, "rw,vers=4.2,hard");
    }

    #[test]
    fn nfs_tells_what_its_servers_sent() {
        let text = "\
device /dev/root mounted on / with fstype ext4
device 10.77.0.1:/ mounted on /mnt/h with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2
\tbytes:\t11 12 13 14 15 16 17 18
device 10.77.0.1:/ mounted on /mnt/h/sub with fstype nfs4 statvers=1.1
\tbytes:\t21 22 23 24 25 26 27 28
";
        assert_eq!(nfs_server_bytes(text, Path::new("/mnt/h")), Some(15));
        assert_eq!(nfs_server_bytes(text, Path::new("/mnt/h/sub")), Some(25));
        assert_eq!(nfs_server_bytes(text, Path::new("/mnt/other")), None);
    }
}
