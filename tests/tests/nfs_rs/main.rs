//! nfs-rs as a second, independent client: NFSv3, 4.1 and 4.2, with the pNFS files layout.
//!
//! ```text
//!   ash, elm           two mounts of nfs-rs in this process, each a client of its own to the server
//!     │ 127.0.0.1
//!   heorot up          a metaserver and four data servers, started and killed by each story
//! ```
//!
//! No kernel is between the test and the network: nothing is cached, retried or repaired, so each operation
//! is sent when the story calls it, and every byte is counted. A story runs once with each of its versions.
//!
//! Limits of nfs-rs 0.11, for which there is no story: exclusive and guarded creation; share denials; two
//! opens of one file in one client (it keeps one stateid, and leaves the other open); two lock-owners in one
//! client, waiting for a lock, or the owner of a conflicting lock; DATA_SYNC and FILE_SYNC writes; truncation
//! with an open stateid; a guarded SETATTR in v4; MKNOD; locks over v3.

mod attributes;
mod data;
mod exports;
mod file;
mod listing;
mod locks;
mod mounting;
mod names;
mod parallel;
mod ranges;
mod scene;
mod server;
