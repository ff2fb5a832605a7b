//! Parts of an inode, and its changes.

use crate::{Change, DataPlace, Directory, File, FileLayout, Inode, Kind, Time};

impl Inode {
    /// The directory in it, if it is one.
    #[must_use]
    pub fn directory(&self) -> Option<&Directory> {
        match &self.kind {
            Kind::Directory(directory) => Some(directory),
            Kind::File(_)
            | Kind::Symlink(_)
            | Kind::Fifo
            | Kind::Socket
            | Kind::CharacterDevice(..)
            | Kind::BlockDevice(..) => None,
        }
    }

    /// The part that only a regular file has, if it is one.
    #[must_use]
    pub fn file(&self) -> Option<File> {
        match self.kind {
            Kind::File(file) => Some(file),
            Kind::Directory(_)
            | Kind::Symlink(_)
            | Kind::Fifo
            | Kind::Socket
            | Kind::CharacterDevice(..)
            | Kind::BlockDevice(..) => None,
        }
    }

    /// Where the objects of a regular file are, or will be.
    #[must_use]
    pub fn layout(&self) -> Option<FileLayout> {
        self.file().map(|file| file.layout)
    }

    /// Where its data are, if it is a regular file.
    #[must_use]
    pub fn data(&self) -> Option<DataPlace> {
        self.file().map(|file| file.data)
    }

    /// The layout of its objects, if it is a regular file whose data are in objects.
    #[must_use]
    pub fn columns(&self) -> Option<FileLayout> {
        self.file().filter(|file| file.data == DataPlace::Striped).map(|file| file.layout)
    }

    /// Its data are somewhere else now.
    pub(crate) fn move_data(&mut self, to: DataPlace) {
        if let Kind::File(file) = &mut self.kind {
            file.data = to;
        }
    }

    pub(crate) fn directory_mut(&mut self) -> Option<&mut Directory> {
        match &mut self.kind {
            Kind::Directory(directory) => Some(directory),
            Kind::File(_)
            | Kind::Symlink(_)
            | Kind::Fifo
            | Kind::Socket
            | Kind::CharacterDevice(..)
            | Kind::BlockDevice(..) => None,
        }
    }

    /// It was truncated, or made longer without data.
    pub(crate) fn resize(&mut self, size: u64) {
        self.size = size;
        self.truncations = self.truncations.wrapping_add(1);
        self.written = self.written.min(size);
    }

    /// Columns have other targets now: counts as a truncation for writes that are under way.
    pub(crate) fn moved(&mut self) {
        self.truncations = self.truncations.wrapping_add(1);
    }

    /// Data up to `end` are there. Returns whether it grew.
    pub(crate) fn wrote(&mut self, end: u64) -> bool {
        let grown = end > self.size;
        self.size = self.size.max(end);
        self.written = self.written.max(end);
        grown
    }

    /// Its data, or a directory's entries, changed.
    pub(crate) fn data_changed(&mut self, now: Time) -> Change {
        self.modified = now;
        self.attributes_changed(now)
    }

    /// Its attributes changed.
    pub(crate) fn attributes_changed(&mut self, now: Time) -> Change {
        let before = self.change;
        self.change += 1;
        self.changed = now;
        Change { before, after: self.change }
    }

    /// It was looked at and did not change.
    pub(crate) fn unchanged(&self) -> Change {
        Change { before: self.change, after: self.change }
    }
}
