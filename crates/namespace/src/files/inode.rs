//! Parts of an inode, and its changes.

use crate::{Change, DataPlace, Directory, File, FileLayout, Inode, Kind, Placed, Time};

impl Inode {
    /// Directory part of the inode, if it is a directory.
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

    /// File part of the inode, if it is a regular file.
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

    /// Layout of the objects of a regular file, even before they are made.
    #[must_use]
    pub fn layout(&self) -> Option<FileLayout> {
        self.file().map(|file| file.layout)
    }

    /// The placement of a file's columns.
    #[must_use]
    pub fn placed(&self) -> Option<Placed> {
        self.layout().map(|layout| Placed { layout, epoch: self.epoch })
    }

    /// Location of the data, if it is a regular file.
    #[must_use]
    pub fn data(&self) -> Option<DataPlace> {
        self.file().map(|file| file.data)
    }

    /// Layout of its objects, if it is a regular file whose data are in objects.
    #[must_use]
    pub fn columns(&self) -> Option<FileLayout> {
        self.file().filter(|file| file.data == DataPlace::Striped).map(|file| file.layout)
    }

    /// Changes the location of the data.
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

    /// Changes the size: a truncation, or an extension without data.
    pub(crate) fn resize(&mut self, size: u64) {
        self.size = size;
        self.written = self.written.min(size);
        self.space_used = self.space_used.min(size);
    }

    /// Raises the object epoch of calls.
    pub(crate) fn raise_epoch(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// Raises the object epoch of calls and layouts.
    pub(crate) fn fence(&mut self) {
        self.raise_epoch();
        self.layout_epoch = self.epoch;
    }

    /// Space that a write of `bytes` up to `end` takes, as far as the inode tells: what has holes is filled.
    #[must_use]
    pub fn space_of_write(&self, end: u64, bytes: u64) -> u64 {
        self.written.max(end).saturating_sub(self.space_used).min(bytes)
    }

    /// Notes that `bytes` of data were written, up to `end`.
    pub(crate) fn wrote_bytes(&mut self, end: u64, bytes: u64) {
        let space_used = self.space_used.saturating_add(self.space_of_write(end, bytes));
        self.wrote(end);
        self.space_used = space_used;
    }

    /// Notes that there are data up to `end`. Returns true if the file grew.
    pub(crate) fn wrote(&mut self, end: u64) -> bool {
        let grown = end > self.size;
        self.space_used = self.space_used.saturating_add(end.saturating_sub(self.written));
        self.size = self.size.max(end);
        self.written = self.written.max(end);
        grown
    }

    /// Notes a change of its data, or of a directory's entries.
    pub(crate) fn data_changed(&mut self, now: Time) -> Change {
        self.modified = now;
        self.attributes_changed(now)
    }

    /// Notes a change of its attributes.
    pub(crate) fn attributes_changed(&mut self, now: Time) -> Change {
        let before = self.change;
        self.change += 1;
        self.changed = now;
        Change { before, after: self.change }
    }

    /// Change info of an inode that did not change.
    pub(crate) fn unchanged(&self) -> Change {
        Change { before: self.change, after: self.change }
    }
}
