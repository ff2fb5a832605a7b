//! Procedures of the program, besides those of the handshake.

use super::{allocate, commit, copy, list, make, punch, read, read_plus, remove};
use super::{seek, stat, status, truncate, write};

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
}
