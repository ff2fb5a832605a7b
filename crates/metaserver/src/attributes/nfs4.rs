//! Conversion of an inode's attributes to NFSv4 (RFC 8881, section 5), and of attributes to set.

use namespace::{DataPlace, FileLayout, INLINE_BYTES_MAX, Inode, InodeId, Kind, SetAttributes, Time};
use store::View;
use wire::nfs4::fattr::{ChangeAttrType, OpenArguments, SetTime, ThresholdItem};
use wire::nfs4::{self, Bitmap, Fattr, FileHandle, FileType, FsId, LayoutType, SpecData, Status, attr};

use crate::attributes::Attributes;
use crate::attributes::idmap::Idmap;
use crate::compound::Context;
use crate::exports::admission::Via;
use crate::files::make::Asked;

/// Maximum length of a name.
pub(crate) const NAME_BYTES_MAX: u32 = 255;
/// Maximum of names of one inode.
pub(crate) const LINKS_MAX: u32 = 65_000;
/// Maximum payload of one READ or WRITE.
pub(crate) const IO_BYTES_MAX: u64 = 1 << 20;
/// FSCHARSET_CAP4_CONTAINS_NON_UTF8: names are bytes (RFC 8881, section 14.4).
const CONTAINS_NON_UTF8: u32 = 1;
/// Alignment of the offsets of a CLONE: the block size of every file system that supports reflinks.
pub(crate) const CLONE_BLOCK_BYTES: u32 = 4096;

/// Attributes of the room in a file system.
const OF_ROOM: Bitmap = Bitmap::of(&[
    attr::SPACE_AVAIL,
    attr::SPACE_FREE,
    attr::SPACE_TOTAL,
    attr::FILES_AVAIL,
    attr::FILES_FREE,
    attr::FILES_TOTAL,
]);
/// Attributes of limits.
const OF_QUOTA: Bitmap = Bitmap::of(&[attr::QUOTA_AVAIL_HARD, attr::QUOTA_AVAIL_SOFT, attr::QUOTA_USED]);

/// Attributes that GETATTR returns.
pub(crate) const SUPPORTED: Bitmap = Bitmap::of(&[
    attr::SUPPORTED_ATTRS,
    attr::TYPE,
    attr::FH_EXPIRE_TYPE,
    attr::CHANGE,
    attr::SIZE,
    attr::LINK_SUPPORT,
    attr::SYMLINK_SUPPORT,
    attr::NAMED_ATTR,
    attr::FSID,
    attr::UNIQUE_HANDLES,
    attr::LEASE_TIME,
    attr::RDATTR_ERROR,
    attr::ACLSUPPORT,
    attr::CANSETTIME,
    attr::CASE_INSENSITIVE,
    attr::CASE_PRESERVING,
    attr::CHOWN_RESTRICTED,
    attr::FILEHANDLE,
    attr::FILEID,
    attr::FILES_AVAIL,
    attr::FILES_FREE,
    attr::FILES_TOTAL,
    attr::FS_LOCATIONS,
    attr::HOMOGENEOUS,
    attr::MAXFILESIZE,
    attr::MAXLINK,
    attr::MAXNAME,
    attr::MAXREAD,
    attr::MAXWRITE,
    attr::MODE,
    attr::NO_TRUNC,
    attr::NUMLINKS,
    attr::OWNER,
    attr::OWNER_GROUP,
    attr::QUOTA_AVAIL_HARD,
    attr::QUOTA_AVAIL_SOFT,
    attr::QUOTA_USED,
    attr::RAWDEV,
    attr::SPACE_AVAIL,
    attr::SPACE_FREE,
    attr::SPACE_TOTAL,
    attr::SPACE_USED,
    attr::TIME_ACCESS,
    attr::TIME_ACCESS_SET,
    attr::TIME_CREATE,
    attr::TIME_DELTA,
    attr::TIME_METADATA,
    attr::TIME_MODIFY,
    attr::TIME_MODIFY_SET,
    attr::MOUNTED_ON_FILEID,
    attr::FS_LAYOUT_TYPES,
    attr::LAYOUT_TYPE,
    attr::LAYOUT_BLKSIZE,
    attr::FS_LOCATIONS_INFO,
    attr::MDSTHRESHOLD,
    attr::MODE_SET_MASKED,
    attr::SUPPATTR_EXCLCREAT,
    attr::FS_CHARSET_CAP,
    attr::CLONE_BLKSIZE,
    attr::CHANGE_ATTR_TYPE,
    attr::MODE_UMASK,
    attr::XATTR_SUPPORT,
    attr::OPEN_ARGUMENTS,
]);

/// Arguments of OPEN (RFC 9754, section 4.1). A client with a delegation opens the file by itself, also for the first time.
const OPEN_ARGUMENTS: OpenArguments = OpenArguments {
    share_access: Bitmap::of(&[1, 2, 3]),
    share_deny: Bitmap::of(&[0, 1, 2, 3]),
    // Any, none, cancel; a delegation in the place of an open.
    share_access_want: Bitmap::of(&[3, 4, 5, 21]),
    // By name and by handle, also under a delegation.
    open_claim: Bitmap::of(&[0, 2, 4, 5]),
    create_mode: Bitmap::of(&[0, 1, 2, 3]),
};

/// Attributes that SETATTR can set.
const SETTABLE: Bitmap = Bitmap::of(&[
    attr::SIZE,
    attr::MODE,
    attr::OWNER,
    attr::OWNER_GROUP,
    attr::TIME_ACCESS_SET,
    attr::TIME_MODIFY_SET,
    attr::MODE_SET_MASKED,
]);

/// Attributes of a new inode that can be set: not the owner, which is the caller, but a mode with the
/// caller's umask.
const SETTABLE_NEW: Bitmap = Bitmap::of(&[
    attr::SIZE,
    attr::MODE,
    attr::OWNER,
    attr::OWNER_GROUP,
    attr::TIME_ACCESS_SET,
    attr::TIME_MODIFY_SET,
    attr::MODE_UMASK,
]);

/// Attributes that can be set but not read (RFC 8881, section 5.5; RFC 8275, section 4).
const WRITE_ONLY: Bitmap =
    Bitmap::of(&[attr::TIME_ACCESS_SET, attr::TIME_MODIFY_SET, attr::MODE_SET_MASKED, attr::MODE_UMASK]);

/// Checks that the attributes can be read or compared.
///
/// # Errors
/// `Inval` if one of them can only be set.
pub(crate) fn check_readable(asked: &Bitmap) -> Result<(), Status> {
    if asked.intersection(&WRITE_ONLY).is_empty() { Ok(()) } else { Err(Status::Inval) }
}

/// Returns those of the given attributes that can be set.
pub(crate) fn settable_of(given: &Fattr) -> Bitmap {
    let both = given.mask().intersection(&SETTABLE_NEW);
    both.union(&given.mask().intersection(&SETTABLE))
}

/// Attributes that a client wants to set.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted {
    pub mode: Option<u32>,
    /// Value and mask of a partial mode change.
    mode_mask: Option<(u32, u32)>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub accessed: Option<Time>,
    pub modified: Option<Time>,
    accessed_now: bool,
    modified_now: bool,
}

impl Wanted {
    /// Reads the attributes of a SETATTR.
    pub(crate) fn for_set(given: &Fattr, idmap: &Idmap) -> Result<Self, Status> {
        Self::checked(given, &SETTABLE, idmap)
    }

    /// Reads the attributes of a CREATE or OPEN.
    pub(crate) fn for_new(given: &Fattr, idmap: &Idmap) -> Result<Self, Status> {
        Self::checked(given, &SETTABLE_NEW, idmap)
    }

    /// Attributes for a new inode.
    pub(crate) fn asked(&self) -> Asked {
        let Self { mode, uid, gid, accessed, modified, .. } = *self;
        Asked { mode, uid, gid, accessed, modified }
    }

    fn checked(given: &Fattr, settable: &Bitmap, idmap: &Idmap) -> Result<Self, Status> {
        if !given.unknown.is_empty() || !given.mask().difference(&SUPPORTED).is_empty() {
            return Err(Status::AttrNotSupp);
        }
        if !given.mask().difference(settable).is_empty() {
            return Err(Status::Inval);
        }
        let mut wanted = Self { size: given.size, ..Self::default() };
        if wanted.size.is_some_and(|size| size > i64::MAX as u64) {
            return Err(Status::FBig);
        }
        wanted.mode = match (given.mode, given.mode_umask) {
            (Some(mode), None) if mode <= 0o7777 => Some(mode),
            (None, Some(m)) if m.mode <= 0o7777 && m.umask <= 0o777 => Some(m.mode & !m.umask),
            (None, None) => None,
            _ => return Err(Status::Inval),
        };
        if let Some(masked) = given.mode_set_masked {
            if wanted.mode.is_some() || masked.mask > 0o7777 || masked.value & !masked.mask != 0 {
                return Err(Status::Inval);
            }
            wanted.mode_mask = Some((masked.value, masked.mask));
        }
        wanted.uid = given.owner.as_ref().map(|name| idmap.user(name)).transpose()?;
        wanted.gid = given.owner_group.as_ref().map(|name| idmap.group(name)).transpose()?;
        (wanted.accessed, wanted.accessed_now) = time(given.time_access_set)?;
        (wanted.modified, wanted.modified_now) = time(given.time_modify_set)?;
        Ok(wanted)
    }

    /// Returns the times to set to "now" (access, modification): for these, write permission is enough.
    pub(crate) fn to_now(self) -> (bool, bool) {
        (self.accessed_now, self.modified_now)
    }

    /// Converts to the form of the state machine; `now` replaces the server's time.
    pub(crate) fn set(&self, now: Time) -> SetAttributes {
        SetAttributes {
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            size: self.size,
            accessed: if self.accessed_now { Some(now) } else { self.accessed },
            modified: if self.modified_now { Some(now) } else { self.modified },
            layout_of: None,
            guard: None,
        }
    }

    /// Computes the mode from the mode of `inode`, for a partial mode change.
    pub(crate) fn with_mode_of(mut self, inode: &Inode) -> Self {
        if let Some((value, mask)) = self.mode_mask {
            self.mode = Some(inode.mode & !mask | value);
        }
        self
    }
}

fn time(set: Option<SetTime>) -> Result<(Option<Time>, bool), Status> {
    Ok(match set {
        None => (None, false),
        Some(SetTime::Server) => (None, true),
        Some(SetTime::Client(time)) => (Some(time_from(time)?), false),
    })
}

/// Converts a client's time.
///
/// # Errors
/// `Inval` if the nanoseconds make a second or more (RFC 8881, section 3.3.1).
pub(crate) fn time_from(time: nfs4::Time) -> Result<Time, Status> {
    let nfs4::Time { seconds, nanoseconds } = time;
    if nanoseconds < nfs4::Time::NANOSECONDS { Ok(Time { seconds, nanoseconds }) } else { Err(Status::Inval) }
}

fn wire_time(t: Time) -> nfs4::Time {
    nfs4::Time { seconds: t.seconds, nanoseconds: t.nanoseconds }
}

fn file_type(kind: &Kind) -> FileType {
    match kind {
        Kind::File(_) => FileType::Regular,
        Kind::Directory(_) => FileType::Directory,
        Kind::Symlink(_) => FileType::Symlink,
        Kind::Fifo => FileType::Fifo,
        Kind::Socket => FileType::Socket,
        Kind::CharacterDevice(..) => FileType::Char,
        Kind::BlockDevice(..) => FileType::Block,
    }
}

impl Attributes {
    /// Returns the attributes of `inode`. Expensive attributes are included only if they are among `wanted`.
    pub(crate) fn attributes(
        &self,
        context: &Context,
        view: &dyn View,
        inode: &Inode,
        via: Via,
        wanted: &Bitmap,
    ) -> Result<Fattr, Status> {
        let mut attrs = of_inode(inode);
        if wanted.contains(attr::OWNER) || wanted.contains(attr::OWNER_GROUP) {
            let idmap = self.idmap();
            attrs.owner = Some(idmap.user_name(inode.uid));
            attrs.owner_group = Some(idmap.group_name(inode.gid));
        }
        attrs.fsid = Some(self.fsid(inode.id, via));
        attrs.xattr_support = Some(via != Via::Pseudo);
        attrs.lease_time = Some(self.cluster.lease().as_secs() as u32);
        if wanted.contains(attr::FILEHANDLE) {
            attrs.filehandle = Some(FileHandle::from(self.machine.handle(via, inode.id, inode.generation)));
        }
        if !wanted.intersection(&OF_ROOM).is_empty() {
            let room = self.room(view, inode)?;
            (attrs.space_total, attrs.space_free) = (Some(room.bytes_total), Some(room.bytes_free));
            (attrs.files_total, attrs.files_free) = (Some(room.inodes_total), Some(room.inodes_free));
            (attrs.space_avail, attrs.files_avail) = (attrs.space_free, attrs.files_free);
        }
        if !wanted.intersection(&OF_QUOTA).is_empty() {
            let quota = self.quota(view, inode)?;
            attrs.quota_avail_hard = Some(quota.available_hard);
            attrs.quota_avail_soft = Some(quota.available_soft);
            attrs.quota_used = Some(quota.used);
        }
        let local = context.connection.local();
        if wanted.contains(attr::FS_LOCATIONS) {
            attrs.fs_locations = Some(self.fs_locations(local));
        }
        if wanted.contains(attr::FS_LOCATIONS_INFO) {
            attrs.fs_locations_info = Some(self.fs_locations_info(local));
        }
        if wanted.contains(attr::MDSTHRESHOLD) {
            attrs.mdsthreshold = Some(threshold(inode));
        }
        if wanted.contains(attr::LAYOUT_BLKSIZE)
            && let Some(FileLayout { unit, .. }) = inode.layout()
        {
            attrs.layout_blksize = Some(unit.bytes());
        }
        Ok(attrs)
    }

    /// File system of an inode for a client: each volume is one, and so is each export, since exports have different rules
    /// and handles. All pseudo directories are in one.
    fn fsid(&self, inode: InodeId, via: Via) -> FsId {
        let minor = match via {
            Via::Export(InodeId::ROOT) => 0,
            Via::Export(export) => export.0,
            Via::Pseudo => return FsId { major: self.machine.fsid(InodeId::ROOT), minor: u64::MAX },
        };
        FsId { major: self.machine.fsid(inode), minor }
    }
}

/// Size below which a client should read and write through the metaserver (mdsthreshold; RFC 8881, section
/// 5.12.4). Only for files with inline data.
fn threshold(inode: &Inode) -> Vec<ThresholdItem> {
    match inode.data() {
        Some(DataPlace::Inline) => {
            let below = INLINE_BYTES_MAX + 1;
            vec![ThresholdItem::sizes(LayoutType::FILES, below, below)]
        }
        Some(DataPlace::Migrating | DataPlace::Striped) | None => vec![],
    }
}

/// Attributes that depend on the inode alone, and constant attributes.
fn of_inode(inode: &Inode) -> Fattr {
    let (major, minor) = match inode.kind {
        Kind::CharacterDevice(major, minor) | Kind::BlockDevice(major, minor) => (major, minor),
        _ => (0, 0),
    };
    Fattr {
        supported_attrs: Some(SUPPORTED),
        file_type: Some(file_type(&inode.kind)),
        fh_expire_type: Some(0),
        change: Some(inode.change),
        size: Some(inode.size),
        link_support: Some(true),
        symlink_support: Some(true),
        named_attr: Some(false),
        unique_handles: Some(true),
        rdattr_error: Some(Status::Ok),
        aclsupport: Some(0),
        cansettime: Some(true),
        case_insensitive: Some(false),
        case_preserving: Some(true),
        chown_restricted: Some(true),
        fileid: Some(inode.id.0),
        homogeneous: Some(true),
        maxfilesize: Some(i64::MAX as u64),
        maxlink: Some(LINKS_MAX),
        maxname: Some(NAME_BYTES_MAX),
        maxread: Some(IO_BYTES_MAX),
        maxwrite: Some(IO_BYTES_MAX),
        mode: Some(inode.mode),
        no_trunc: Some(true),
        numlinks: Some(inode.links),
        rawdev: Some(SpecData { major, minor }),
        space_used: Some(inode.used_bytes()),
        time_access: Some(wire_time(inode.accessed)),
        time_create: Some(wire_time(inode.created)),
        time_delta: Some(nfs4::Time { seconds: 0, nanoseconds: 1 }),
        time_metadata: Some(wire_time(inode.changed)),
        time_modify: Some(wire_time(inode.modified)),
        mounted_on_fileid: Some(inode.id.0),
        fs_layout_types: Some(vec![LayoutType::FILES]),
        layout_type: Some(vec![LayoutType::FILES]),
        fs_charset_cap: Some(CONTAINS_NON_UTF8),
        suppattr_exclcreat: Some(SETTABLE_NEW),
        clone_blksize: Some(CLONE_BLOCK_BYTES),
        change_attr_type: Some(ChangeAttrType::MonotonicIncr),
        open_arguments: Some(OPEN_ARGUMENTS),
        ..Fattr::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8881, section 5.5; attributes are 12 acl, 25 hidden, 50 time_create, 58 dacl, 59 sacl, 80
    /// sec_label.
    #[test]
    fn what_is_not_supported_is_told_from_what_cannot_be_set() {
        let idmap = Idmap::default();
        let set = |given: &Fattr| Wanted::for_set(given, &idmap).err();
        let new = |given: &Fattr| Wanted::for_new(given, &idmap).err();
        for number in [12, 25, 58, 59, 80] {
            // An unsupported attribute beside a supported one: none is set.
            let given = Fattr { unknown: Bitmap::of(&[number]), mode: Some(0o644), ..Fattr::default() };
            assert_eq!(set(&given), Some(Status::AttrNotSupp), "{number}");
            assert_eq!(new(&given), Some(Status::AttrNotSupp), "{number}");
        }
        let created = Fattr { time_create: Some(nfs4::Time::default()), ..Fattr::default() };
        assert_eq!((set(&created), new(&created)), (Some(Status::Inval), Some(Status::Inval)));
        let nothing = Fattr::default();
        assert_eq!((set(&nothing), new(&nothing)), (None, None));
    }

    #[test]
    fn what_can_only_be_set_cannot_be_asked_for() {
        let at = |wanted: &[u32]| check_readable(&Bitmap::of(wanted));
        assert_eq!(at(&[attr::SPACE_USED, attr::MODE]), Ok(()));
        assert_eq!(at(&[attr::MODE, attr::MODE_UMASK]), Err(Status::Inval));
    }
}
