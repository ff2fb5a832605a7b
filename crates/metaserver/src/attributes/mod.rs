//! Attributes of files: from an inode to NFSv4's and NFSv3's words and back, and the rules by which they
//! change.

pub(crate) mod idmap;
pub(crate) mod locations;
pub(crate) mod nfs3;
pub(crate) mod nfs4;
pub(crate) mod setattr;
pub(crate) mod xattrs;
