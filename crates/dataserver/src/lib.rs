//! A data server: keeps columns of files, as objects, on its storage targets.
//!
//! In: READ, WRITE and COMMIT of clients with a layout (NFSv4.1 and 4.2), and the private `data` program of
//! our metaservers and of the other members of a chain. Out: bytes, and a promise about which of them are on
//! the disk. It never learns a path, nor the name of a file, nor its readers: the handle that a client shows
//! was minted by a metaserver, and is the permission.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod absent_target;
mod addition;
mod attached;
mod capacity;
mod caretaker;
mod chain;
mod checksums;
mod client_networks;
mod clients;
mod copy;
mod data_program;
mod disk;
mod environment;
mod epoch;
mod found;
mod held_dir;
mod identity;
mod known_targets;
mod list;
mod make;
mod object;
mod objects;
mod open_files;
mod ops;
mod peers;
mod pull;
mod ranges;
mod registration;
mod removed;
mod server;
mod shared_trash;
mod suspect_targets;
mod target;
mod targets;
mod trash;
mod usage;

pub use addition::{AdditionError, Additions, check_addition, is_same_directory, plain_path};
pub use attached::{FillStep, shown_bytes};
pub use caretaker::{Checks, TargetChecks};
pub use chain::{ChainMetrics, REFILL_RATE, RefillProgress};
pub use checksums::{
    BLOCK_BYTES, BlockState, ChecksumCounts, Scrub, ScrubRecord, ScrubRun, ScrubStep, Settling, Verify,
};
pub use client_networks::ClientNetworks;
pub use disk::{Disk, Place, SystemDisk};
pub use environment::{Blocking, DiskTime, Environment};
pub use epoch::{CallEpoch, Epoch, ObjectRef};
pub use identity::IdentityError;
pub use object::{ObjectName, ObjectStat};
pub use objects::{ObjectError, Objects, ReadOutcome, Space};
pub use ranges::{Reserve, Run};
pub use registration::{Reached, Registered, Registration};
pub use server::{DataServer, DataServerConfig, Incarnation, Obeyed, ObjectLengths};
pub use shared_trash::SharedTrash;
pub use target::{OPEN_FILES_MAX, Target, TargetError, TargetOptions};
