//! nfs-rs as a second, independent client: NFSv3, 4.1 and 4.2, with the pNFS files layout.
//!
//! ```text
//!   ash, elm           two mounts of nfs-rs in this process, each a client of its own to the server
//!     │ 127.0.0.1
//!   heorot up          a metaserver and four data servers, started and killed by each story
//! ```
//!
//! No kernel is between the test and the wire: nothing is cached, retried or mended on the way, so each
//! operation is asked for when the story says so, and every byte is counted. A story runs once with each
//! version that it names.
//!
//! What nfs-rs 0.11 cannot do, so that no story tells it: exclusive and guarded creation; share denials; two
//! opens of one file in one client (it remembers one stateid, and leaves the other open); two lock owners in
//! one client, waiting for a lock, or saying whose lock is in the way; DATA_SYNC and FILE_SYNC writes;
//! truncating under an open stateid; a guarded SETATTR in v4; MKNOD; locks over v3.

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
