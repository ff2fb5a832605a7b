//! CREATE_SESSION (RFC 8881, section 18.36): makes a session, and confirms the client id.

use super::backchannel_ctl::CallbackSec;
use super::{ClientId, SessionId, Status};
use crate::xdr_struct;

/// The session survives a restart of the server.
pub const PERSIST: u32 = 1;
/// The connection also carries call-backs.
pub const CONN_BACK_CHAN: u32 = 2;
/// The connection goes over to RDMA.
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
        /// From EXCHANGE_ID, then one more for each session.
        pub sequence: u32,
        /// [`PERSIST`], [`CONN_BACK_CHAN`], [`CONN_RDMA`].
        pub flags: u32,
        /// Bounds of calls.
        pub fore_chan_attrs: ChannelAttrs,
        /// Bounds of call-backs.
        pub back_chan_attrs: ChannelAttrs,
        /// The RPC program number of call-backs.
        pub cb_program: u32,
        /// Credentials that the client accepts in call-backs, its favourite first.
        pub sec_parms: Vec<CallbackSec>,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// The session.
        pub sessionid: SessionId,
        /// As in the arguments.
        pub sequence: u32,
        /// Which of the flags are granted.
        pub flags: u32,
        /// Bounds of calls.
        pub fore_chan_attrs: ChannelAttrs,
        /// Bounds of call-backs.
        pub back_chan_attrs: ChannelAttrs,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
