//! CREATE_SESSION (RFC 8881, section 18.36): creates a session, and confirms the client id.

use super::backchannel_ctl::CallbackSec;
use super::{ClientId, SessionId, Status};
use crate::xdr_struct;

/// The session survives a restart of the server.
pub const PERSIST: u32 = 1;
/// The connection is also the back channel.
pub const CONN_BACK_CHAN: u32 = 2;
/// The connection changes to RDMA mode.
pub const CONN_RDMA: u32 = 4;

xdr_struct! {
    /// channel_attrs4: bounds of one direction of a session.
    #[derive(Copy, Default)]
    pub struct ChannelAttrs {
        /// Bytes of padding before the payload of a WRITE.
        pub header_pad_size: u32,
        /// Bytes in a request, RPC header included.
        pub max_request_size: u32,
        /// Bytes in a reply, RPC header included.
        pub max_response_size: u32,
        /// Bytes in a reply that is kept for a retry.
        pub max_response_size_cached: u32,
        /// Operations in a compound.
        pub max_operations: u32,
        /// Slots.
        pub max_requests: u32,
        /// RDMA reads at a time.
        pub rdma_ird: Option<u32>,
    }

    /// The arguments.
    pub struct Args {
        /// The client.
        pub clientid: ClientId,
        /// Sequence id: from EXCHANGE_ID, then one more for each session.
        pub sequence: u32,
        /// [`PERSIST`], [`CONN_BACK_CHAN`], [`CONN_RDMA`].
        pub flags: u32,
        /// Limits of the fore channel.
        pub fore_chan_attrs: ChannelAttrs,
        /// Limits of the back channel.
        pub back_chan_attrs: ChannelAttrs,
        /// RPC program number of callbacks.
        pub cb_program: u32,
        /// Credentials that the client accepts in callbacks, the preferred one first.
        pub sec_parms: Vec<CallbackSec>,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// The session.
        pub sessionid: SessionId,
        /// Sequence id of the arguments.
        pub sequence: u32,
        /// Granted flags.
        pub flags: u32,
        /// Limits of the fore channel.
        pub fore_chan_attrs: ChannelAttrs,
        /// Limits of the back channel.
        pub back_chan_attrs: ChannelAttrs,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
