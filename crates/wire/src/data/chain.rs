//! CHAIN: tells a data server the state of chains that its targets are or were members of. The leader sends
//! it after each change; the answers to the registrations of a data server have all its chains
//! ([`register::ResOk::chains`](crate::cluster::register::ResOk::chains)).

use bytes::Bytes;

use super::Status;
use crate::{xdr_enum, xdr_struct};

xdr_enum! {
    /// State of a member of a chain.
    pub enum MemberState {
        /// It has all data, and serves reads and writes.
        In = 0,
        /// It gets all writes, and the head copies to it what it lacks. It serves no reads.
        Refilling = 1,
        /// It is not called, and obeys no call.
        Away = 2,
    }
}

xdr_struct! {
    /// Member of a chain.
    pub struct Member {
        /// Its target.
        pub target: u64,
        /// Address of its data server, as text such as `10.0.0.5:2050`.
        pub address: Bytes,
        /// Its state.
        pub state: MemberState,
    }

    /// A chain of targets that keep the same columns.
    pub struct Chain {
        /// Its id.
        pub id: u64,
        /// Version, increased by one with each change of its members. Later versions replace earlier ones.
        pub version: u32,
        /// Write verifier of all members. It changes when unstable writes may be lost.
        pub verifier: u64,
        /// Members in order: the first that is in is the head.
        pub members: Vec<Member>,
    }

    /// A member that another one has taken the place of.
    #[derive(Copy, Hash)]
    pub struct Stop {
        /// The chain.
        pub chain: u64,
        /// Its version.
        pub version: u32,
        /// Target of the member.
        pub target: u64,
    }

    /// The arguments.
    pub struct Args {
        /// The chains.
        pub chains: Vec<Chain>,
        /// Members of the receiver that serve these versions no more once the call is answered: they are dropped next.
        pub stop: Vec<Stop>,
    }
}

/// No results, or the error status.
pub type Res = Result<(), Status>;
