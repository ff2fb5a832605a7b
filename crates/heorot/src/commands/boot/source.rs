//! A directory as a tar: what is in its file system, with links between its files, and without sockets.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use tar::{Builder, EntryType, Header};

/// Writes the tar of a directory. What is mounted in it is an empty directory in the tar: /proc of a chroot, for example.
pub(super) fn tar_of(folder: &Path, out: impl Write) -> io::Result<()> {
    let mut source =
        Source { tar: Builder::new(out), folder, device: folder.metadata()?.dev(), names: HashMap::new() };
    source.tar.follow_symlinks(false);
    source.tar.append_dir(".", folder)?;
    source.directory(Path::new(""))?;
    source.tar.finish()
}

struct Source<'a, W: Write> {
    tar: Builder<W>,
    folder: &'a Path,
    device: u64,
    /// First name of each file that has several.
    names: HashMap<u64, PathBuf>,
}

impl<W: Write> Source<'_, W> {
    fn directory(&mut self, path: &Path) -> io::Result<()> {
        let named = |path: &Path, error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        };
        let entries = fs::read_dir(self.folder.join(path)).map_err(|error| named(path, error))?;
        let mut names = entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<OsString>>>()?;
        names.sort();
        for name in names {
            let path = path.join(name);
            self.entry(&path).map_err(|error| named(&path, error))?;
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path) -> io::Result<()> {
        let place = self.folder.join(path);
        let metadata = place.symlink_metadata()?;
        let kind = metadata.file_type();
        if kind.is_dir() {
            self.tar.append_dir(path, &place)?;
            return if metadata.dev() == self.device { self.directory(path) } else { Ok(()) };
        }
        if kind.is_socket() {
            return Ok(()); // no file: the end of a program that runs
        }
        if metadata.nlink() > 1 && metadata.dev() == self.device {
            if let Some(first) = self.names.get(&metadata.ino()) {
                return append_link(&mut self.tar, &metadata, path, first);
            }
            self.names.insert(metadata.ino(), path.to_owned());
        }
        if kind.is_file() {
            // The header of a tar has seconds; a file that changed twice in one is not the same.
            let exact = format!("{}.{:09}", metadata.mtime(), metadata.mtime_nsec());
            if metadata.mtime() >= 0 && metadata.mtime_nsec() > 0 {
                self.tar.append_pax_extensions([("mtime", exact.as_bytes())])?;
            }
            return self.tar.append_file(path, &mut File::open(&place)?);
        }
        self.tar.append_path_with_name(&place, path)
    }
}

fn append_link<W: Write>(
    tar: &mut Builder<W>,
    metadata: &Metadata,
    path: &Path,
    first: &Path,
) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_metadata(metadata);
    header.set_entry_type(EntryType::Link);
    header.set_size(0);
    tar.append_link(&mut header, path, first)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn links_are_links_and_sockets_are_left_out() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir(at("b")).unwrap();
        fs::write(at("a"), "data").unwrap();
        fs::hard_link(at("a"), at("b/again")).unwrap();
        symlink("nowhere", at("link")).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        let mut out = Vec::new();
        tar_of(place.path(), &mut out).unwrap();
        let mut archive = tar::Archive::new(&out[..]);
        let entries = archive.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            let target = entry.link_name().unwrap().map(|target| target.display().to_string());
            (entry.path().unwrap().display().to_string(), entry.header().entry_type(), target)
        });
        let of = |path: &str, kind, target: Option<&str>| (path.to_owned(), kind, target.map(str::to_owned));
        assert_eq!(
            entries.collect::<Vec<_>>(),
            [
                of(".", EntryType::Directory, None),
                of("a", EntryType::Regular, None),
                of("b", EntryType::Directory, None),
                of("b/again", EntryType::Link, Some("a")),
                of("link", EntryType::Symlink, Some("nowhere")),
            ]
        );
    }
}
