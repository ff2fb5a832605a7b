//! Between metaservers of one group, beside consensus: calls about clients, files, service addresses, clocks.
//!
//! A call travels as a message of consensus ([`crate::consensus::call`]), whose connection is proven: the
//! procedure's number, then its arguments. The answer is the procedure's results alone.

pub mod addresses;
pub mod balance;
pub mod clients;
pub mod files;
pub mod group;
#[cfg(test)]
mod tests;

use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

use addresses::{addresses_free, grant, release};
use clients::{call_back, connected, connected_to, heard, write_opens};
use files::{migrate, spaces, truncate};
use group::{clock, report};

/// "HEP" in ASCII: which decoder the fuzzer means. No RPC header names it.
pub const PROGRAM: u32 = 0x2048_4550;

crate::rpc::program! {
    /// Clients heard of since the last report. For the leader, which judges client leases.
    0 Heard heard "HEARD";
    /// An operation for a client's back channel.
    1 CallBack call_back "CALL_BACK";
    /// The service addresses that the caller may hold. For the leader.
    2 Grant grant "GRANT";
    /// The caller holds no service addresses from now on. For the leader.
    3 Release release "RELEASE";
    /// Service addresses are free: the metaserver with the fewest may have them.
    4 AddressesFree addresses_free "ADDRESSES_FREE";
    /// The clients that are connected to the service addresses of the caller.
    5 Connected connected "CONNECTED";
    /// The clients that were connected to a service address.
    6 ConnectedTo connected_to "CONNECTED_TO";
    /// Migration of a file's inline data. For the leader.
    7 Migrate migrate "MIGRATE";
    /// The truncation of a deferred operation. For the leader.
    8 Truncate truncate "TRUNCATE";
    /// The free space of targets that live.
    9 Spaces spaces "SPACES";
    /// The leader's report of the group.
    10 Report report "REPORT";
    /// The time of day.
    11 Clock clock "CLOCK";
    /// The balance of the targets of each pool. For the leader.
    12 Balance balance "BALANCE";
    /// Opens that a client uses, and that the leader may have in its memory. For the leader.
    13 WriteOpens write_opens "WRITE_OPENS";
}

impl Call {
    /// The procedure's number and the arguments, as they are sent.
    #[must_use]
    pub fn message(&self) -> Vec<u8> {
        let mut encoder = Encoder::default();
        (self.procedure() as u32).encode(&mut encoder);
        self.encode(&mut encoder);
        encoder.finish().segments.concat()
    }

    /// Reads what [`Call::message`] wrote.
    ///
    /// # Errors
    /// [`DecodeError`] for an unknown procedure, malformed arguments, or bytes behind them.
    pub fn of_message(message: bytes::Bytes) -> Result<Self, DecodeError> {
        let mut decoder = Decoder::new(message);
        let call = Self::decode(Procedure::decode(&mut decoder)?, &mut decoder)?;
        if decoder.remaining() > 0 { Err(DecodeError::Range) } else { Ok(call) }
    }
}

impl Reply {
    /// The results, as they are sent.
    #[must_use]
    pub fn message(&self) -> Vec<u8> {
        let mut encoder = Encoder::default();
        self.encode(&mut encoder);
        encoder.finish().segments.concat()
    }
}
