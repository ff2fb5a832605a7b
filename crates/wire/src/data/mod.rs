//! Private program from metaservers to data servers: file data for clients without pNFS, and maintenance of
//! objects.
//!
//! A connection begins with the [`crate::handshake`]; before its end every procedure except NULL returns
//! [`Status::NotProven`]. Handles are sealed [`crate::handle::ObjectHandle`]s, as clients have them.

pub mod allocate;
pub mod attach;
pub mod block;
pub mod chain;
pub mod chain_records;
pub mod commit;
pub mod copy;
pub mod dirty_regions;
pub mod list;
pub mod make;
pub mod member;
pub mod mend;
pub mod punch;
pub mod read;
pub mod read_plus;
pub mod remove;
pub mod seek;
pub mod stat;
pub mod status;
#[cfg(test)]
mod tests;
pub mod truncate;
pub mod usage;
pub mod write;

pub use chain::{Chain, Member, MemberState};
pub use copy::Piece;
pub use list::{ObjectEntry, ObjectName};
pub use read_plus::Run;
pub use stat::ObjectStat;
pub use status::{TargetCondition, TargetSpace};

pub use crate::handshake::Status;

/// RPC program number: "HEA" in ASCII, in the user-defined range (RFC 5531, section 8.4.2).
pub const PROGRAM: u32 = 0x2048_4541;
/// Version of the program.
pub const VERSION: u32 = 18;

crate::rpc::program! {
    /// Reads from an object.
    3 Read read "READ";
    /// Writes to an object.
    4 Write write "WRITE";
    /// Makes unstable writes to an object durable.
    5 Commit commit "COMMIT";
    /// Sets the length of an object.
    6 Truncate truncate "TRUNCATE";
    /// Removes objects.
    7 Remove remove "REMOVE";
    /// Lists the objects of a target.
    8 List list "LIST";
    /// Space and condition of the targets.
    9 Status status "STATUS";
    /// Finds data or holes of an object.
    10 Seek seek "SEEK";
    /// Reserves space for a range of an object.
    11 Allocate allocate "ALLOCATE";
    /// Makes a hole in an object.
    12 Punch punch "PUNCH";
    /// Copies ranges from object to object.
    13 Copy copy "COPY";
    /// Reads data and holes of an object.
    14 ReadPlus read_plus "READ_PLUS";
    /// Creates objects, empty and durable.
    15 Make make "MAKE";
    /// Lengths and modification times of objects.
    16 Stat stat "STAT";
    /// Tells the state of chains.
    17 Chain chain "CHAIN";
    /// Changes an object at one member of a chain only.
    18 Member member "MEMBER";
    /// Has a damaged block of a member of a chain mended by the head.
    19 Mend mend "MEND";
    /// Reads a block of a member of a chain, for the mending of another member.
    20 Block block "BLOCK";
    /// Counts the bytes of each chain on a target.
    21 Usage usage "USAGE";
    /// Tells what a target knows of chains.
    22 ChainRecords chain_records "CHAIN_RECORDS";
    /// Tells what a member of a chain may have otherwise than the others.
    23 DirtyRegions dirty_regions "DIRTY_REGIONS";
    /// Makes an empty object begin as another one.
    24 Attach attach "ATTACH";
}

/// Write verifier: changes when a data server may have lost unstable writes.
pub type WriteVerifier = [u8; 8];
