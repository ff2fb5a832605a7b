//! Codec of every protocol that Heorot speaks: messages from bytes, and bytes from messages.
//!
//! In: one RPC record as [`bytes::Bytes`]. Out: typed calls, replies and operations, whose payloads are
//! slices of that record. In the other direction: typed values in, a list of segments out, payloads not
//! copied.
//!
//! This crate holds no state and never does I/O: no sockets, no clock, no files. All decoded input is
//! hostile: the decoder checks each length against the length of the record before it allocates.

pub mod cluster;
pub mod consensus;
pub mod data;
pub mod handle;
pub mod handshake;
pub mod join;
pub mod mount3;
pub mod nfs3;
pub mod nfs4;
pub mod peer;
pub mod rpc;
pub mod xdr;
