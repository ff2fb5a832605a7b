//! The name space: one file for each operation, and shared parts for inodes and directory entries.

pub(crate) mod create;
pub(crate) mod entry;
pub(crate) mod epoch;
pub(crate) mod inline;
mod inode;
pub(crate) mod link;
pub(crate) mod relocate;
pub(crate) mod remove;
pub(crate) mod rename;
pub(crate) mod set_attributes;
pub(crate) mod size;
pub(crate) mod space_used;
pub(crate) mod unsettled;
pub(crate) mod xattr;
