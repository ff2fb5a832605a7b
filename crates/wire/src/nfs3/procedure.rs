//! The 22 procedures (RFC 1813, section 3.3).

use super::{
    FileHandle, access, commit, create, fsinfo, fsstat, getattr, link, lookup, mkdir, mknod, null, pathconf,
    read, readdir, readdirplus, readlink, remove, rename, rmdir, setattr, symlink, write,
};

crate::rpc::program! {
    /// Does nothing: a ping.
    0 Null null "NULL";
    /// Attributes of an object.
    1 GetAttr getattr "GETATTR";
    /// Changes attributes of an object.
    2 SetAttr setattr "SETATTR";
    /// Finds a name in a directory.
    3 Lookup lookup "LOOKUP";
    /// Checks which kinds of access the caller has.
    4 Access access "ACCESS";
    /// The text of a symbolic link.
    5 ReadLink readlink "READLINK";
    /// Reads from a file.
    6 Read read "READ";
    /// Writes to a file.
    7 Write write "WRITE";
    /// Creates a regular file.
    8 Create create "CREATE";
    /// Creates a directory.
    9 MkDir mkdir "MKDIR";
    /// Creates a symbolic link.
    10 SymLink symlink "SYMLINK";
    /// Creates a device, socket or pipe.
    11 MkNod mknod "MKNOD";
    /// Removes a name that is not a directory.
    12 Remove remove "REMOVE";
    /// Removes an empty directory.
    13 RmDir rmdir "RMDIR";
    /// Renames an object.
    14 Rename rename "RENAME";
    /// Creates a hard link to a file.
    15 Link link "LINK";
    /// Lists a directory.
    16 ReadDir readdir "READDIR";
    /// Lists a directory, with attributes and handles.
    17 ReadDirPlus readdirplus "READDIRPLUS";
    /// Space and files, used and free.
    18 FsStat fsstat "FSSTAT";
    /// Capabilities and preferred sizes of the server.
    19 FsInfo fsinfo "FSINFO";
    /// POSIX pathconf values.
    20 PathConf pathconf "PATHCONF";
    /// Makes unstable writes durable.
    21 Commit commit "COMMIT";
}

impl Call {
    /// Handle of the call's object, the first one if there are two.
    #[must_use]
    pub fn object(&self) -> Option<&FileHandle> {
        Some(match self {
            Self::Null(_) => return None,
            Self::GetAttr(args) => &args.object,
            Self::SetAttr(args) => &args.object,
            Self::Lookup(args) => &args.what.dir,
            Self::Access(args) => &args.object,
            Self::ReadLink(args) => &args.symlink,
            Self::Read(args) => &args.file,
            Self::Write(args) => &args.file,
            Self::Create(args) => &args.at.dir,
            Self::MkDir(args) => &args.at.dir,
            Self::SymLink(args) => &args.at.dir,
            Self::MkNod(args) => &args.at.dir,
            Self::Remove(args) => &args.object.dir,
            Self::RmDir(args) => &args.object.dir,
            Self::Rename(args) => &args.from.dir,
            Self::Link(args) => &args.file,
            Self::ReadDir(args) => &args.dir,
            Self::ReadDirPlus(args) => &args.dir,
            Self::FsStat(args) => &args.fsroot,
            Self::FsInfo(args) => &args.fsroot,
            Self::PathConf(args) => &args.object,
            Self::Commit(args) => &args.file,
        })
    }
}
