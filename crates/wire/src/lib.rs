//! Bytes to messages and back, for every program that Heorot speaks.
//!
//! In: one RPC record as [`bytes::Bytes`]. Out: typed calls, replies and operations, whose payloads still
//! point into that record. And the reverse: typed values in, a list of segments out, payloads not copied.
//!
//! This crate holds no state and never does I/O: no sockets, no clock, no files. Everything it decodes is
//! hostile: each length is checked against what the record really holds before anything is allocated.

pub mod cluster;
pub mod consensus;
pub mod data;
pub mod handle;
pub mod handshake;
pub mod join;
pub mod mount3;
pub mod nfs3;
pub mod nfs4;
pub mod rpc;
pub mod xdr;
