//! Conversion of an inode's attributes to NFSv3 (RFC 1813, section 2.6), and back.

use namespace::{Inode, InodeId, Kind, SetAttributes, read};
use wire::nfs3::{Fattr, FileType, PostOpAttr, SetAttr, SetTime, SpecData, Time, WccAttr};

use crate::attributes::Attributes;
use crate::errors::FileError;
use crate::files::make::Asked;
use crate::state::write_delegations::is_written_elsewhere;
use crate::user::User;

/// Converts a time to version 3, whose range is 1970 to 2106.
pub(crate) fn time(time: namespace::Time) -> Time {
    let before_1970 = time.seconds < 0;
    let seconds = u32::try_from(time.seconds).unwrap_or(if before_1970 { 0 } else { u32::MAX });
    Time { seconds, nanoseconds: time.nanoseconds }
}

fn time_from(time: Time) -> Result<namespace::Time, FileError> {
    if time.nanoseconds >= 1_000_000_000 {
        return Err(FileError::Invalid);
    }
    Ok(namespace::Time { seconds: i64::from(time.seconds), nanoseconds: time.nanoseconds })
}

/// Attributes with which a client validates its cache.
pub(crate) fn wcc_attr(inode: &Inode) -> WccAttr {
    WccAttr { size: inode.size, mtime: time(inode.modified), ctime: time(inode.changed) }
}

impl Attributes {
    /// Returns the attributes of an inode.
    pub(crate) fn fattr3(&self, inode: &Inode) -> Fattr {
        let none = SpecData::default();
        let (kind, rdev) = match inode.kind {
            Kind::File(_) => (FileType::Regular, none),
            Kind::Directory(_) => (FileType::Directory, none),
            Kind::Symlink(_) => (FileType::SymLink, none),
            Kind::Fifo => (FileType::Fifo, none),
            Kind::Socket => (FileType::Socket, none),
            Kind::CharacterDevice(major, minor) => (FileType::Character, SpecData { major, minor }),
            Kind::BlockDevice(major, minor) => (FileType::Block, SpecData { major, minor }),
        };
        Fattr {
            kind,
            mode: inode.mode,
            nlink: inode.links,
            uid: inode.uid,
            gid: inode.gid,
            size: inode.size,
            used: inode.used_bytes(),
            rdev,
            fsid: self.machine.fsid(inode.id),
            fileid: inode.id.0,
            atime: time(inode.accessed),
            mtime: time(inode.modified),
            ctime: time(inode.changed),
        }
    }

    /// Attributes of an inode in the reply to another operation. None for a file whose data servers would
    /// have to be asked, or a client that writes it: the client can send GETATTR.
    pub(crate) fn told3(&self, inode: &Inode) -> PostOpAttr {
        let view = self.machine.view().ok()?;
        let is_newer = self.data.is_unsettled(&*view, inode).ok()?
            || is_written_elsewhere(&*view, inode.id, None).ok()?;
        (!is_newer).then(|| self.fattr3(inode))
    }

    /// Like [`Self::told3`], for the inode with this id, if it exists.
    pub(crate) fn post_op_attr(&self, inode: InodeId) -> PostOpAttr {
        let view = self.machine.view().ok()?;
        self.told3(&read::inode(&*view, inode).ok()??)
    }

    /// Attributes to set; the two flags are true for times set to the server's time.
    pub(crate) fn attributes_to_set(
        &self,
        set: &SetAttr,
    ) -> Result<(SetAttributes, (bool, bool)), FileError> {
        let ((accessed, accessed_now), (modified, modified_now)) =
            (self.time_to_set(set.atime)?, self.time_to_set(set.mtime)?);
        let SetAttr { mode, size, .. } = *set;
        // u32::MAX means "no change" in chown(2).
        let (uid, gid) = (set.uid.filter(|id| *id != u32::MAX), set.gid.filter(|id| *id != u32::MAX));
        let set = SetAttributes { mode, uid, gid, size, accessed, modified, layout_of: None, guard: None };
        Ok((set, (accessed_now, modified_now)))
    }

    /// Attributes for a new inode. Only root may choose its owner, as with Linux's server.
    pub(crate) fn asked3(&self, user: &User, set: &SetAttr) -> Result<Asked, FileError> {
        let ((accessed, _), (modified, _)) = (self.time_to_set(set.atime)?, self.time_to_set(set.mtime)?);
        let (uid, gid) = (set.uid.filter(|_| user.is_root()), set.gid.filter(|_| user.is_root()));
        Ok(Asked { mode: Some(set.mode.unwrap_or(0)), uid, gid, accessed, modified })
    }

    fn time_to_set(&self, set: SetTime) -> Result<(Option<namespace::Time>, bool), FileError> {
        Ok(match set {
            SetTime::DontChange => (None, false),
            SetTime::ServerTime => (Some(self.machine.now()), true),
            SetTime::ClientTime(time) => (Some(time_from(time)?), false),
        })
    }
}
