//! CREATE_SESSION (RFC 8881, section 18.36).

use namespace::{Channel, Channels, ClientId, Command, Reply};
use wire::nfs4::create_session::{Args, CONN_BACK_CHAN, CONN_RDMA, ChannelAttrs, PERSIST, ResOk};
use wire::nfs4::{SessionId, Status};

use super::backchannel_ctl::callback;
use super::exchange_id::principal;
use crate::Metaserver;
use crate::compound::Context;

/// Maximum size of a request or reply: a megabyte of payload, and headers.
const MESSAGE_BYTES_MAX: u32 = (1 << 20) + (32 << 10);
/// Minimum size of a message: SEQUENCE and a small operation with its file handle.
const MESSAGE_BYTES_MIN: u32 = 256;
/// Minimum size of a callback: CB_SEQUENCE and CB_LAYOUTRECALL with the RPC header, and some reserve.
const CALLBACK_BYTES_MIN: u32 = 256;
/// Minimum of operations in a callback: CB_SEQUENCE and one more.
const CALLBACK_OPERATIONS_MIN: u32 = 2;
/// Maximum size of a reply that a slot keeps.
const CACHED_BYTES_MAX: u32 = 64 << 10;
/// Maximum of operations in a compound.
const OPERATIONS_MAX: u32 = 128;
/// Maximum of slots of a session: the number that a Linux client requests.
const SLOTS_MAX: u32 = 64;

pub(crate) async fn create_session(
    server: &Metaserver,
    context: &Context,
    args: Args,
) -> Result<ResOk, Status> {
    if args.flags & !(PERSIST | CONN_BACK_CHAN | CONN_RDMA) != 0 {
        return Err(Status::Inval);
    }
    let fore = fore_channel(&args.fore_chan_attrs)?;
    let back = back_channel(&args.back_chan_attrs)?;
    let callback = callback(args.cb_program, args.sec_parms)?;
    let client = ClientId(args.clientid.0);
    let command = Command::CreateSession {
        client,
        sequence: args.sequence,
        principal: principal(&context.credential),
        channels: Channels { fore, back, callback },
        address: context.connection.peer().ip(),
    };
    let reply = server.state.propose(None, command).await?;
    let Reply::Session { id, client, sequence, channels, ended } = reply else {
        return Err(Status::ServerFault);
    };
    // The command has ended the client's courtesy.
    server.state.leases.begin(client, server.machine.clock.monotonic());
    if let Some(before) = ended {
        server.state.client_ended(before);
    }
    let bind = args.flags & CONN_BACK_CHAN != 0;
    server.state.begin_session(id, client, &channels, &context.connection, bind);
    Ok(ResOk {
        sessionid: SessionId(id.0),
        sequence,
        // Only the replies of changes are kept on disk: the session is not persistent as defined by the RFC.
        flags: if bind { CONN_BACK_CHAN } else { 0 },
        fore_chan_attrs: attrs(&channels.fore),
        back_chan_attrs: attrs(&channels.back),
    })
}

fn fore_channel(asked: &ChannelAttrs) -> Result<Channel, Status> {
    if asked.max_request_size < MESSAGE_BYTES_MIN || asked.max_response_size < MESSAGE_BYTES_MIN {
        return Err(Status::TooSmall);
    }
    let asked = channel(asked);
    Ok(Channel {
        request_bytes_max: asked.request_bytes_max.min(MESSAGE_BYTES_MAX),
        response_bytes_max: asked.response_bytes_max.min(MESSAGE_BYTES_MAX),
        cached_bytes_max: asked.cached_bytes_max.min(CACHED_BYTES_MAX),
        operations_max: asked.operations_max.clamp(2, OPERATIONS_MAX),
        slots: asked.slots.clamp(1, SLOTS_MAX),
    })
}

fn back_channel(asked: &ChannelAttrs) -> Result<Channel, Status> {
    let short = asked.max_request_size.min(asked.max_response_size) < CALLBACK_BYTES_MIN;
    if short || asked.max_operations < CALLBACK_OPERATIONS_MIN {
        return Err(Status::TooSmall);
    }
    Ok(channel(asked))
}

fn channel(asked: &ChannelAttrs) -> Channel {
    Channel {
        request_bytes_max: asked.max_request_size,
        response_bytes_max: asked.max_response_size,
        cached_bytes_max: asked.max_response_size_cached,
        operations_max: asked.max_operations,
        slots: asked.max_requests,
    }
}

fn attrs(channel: &Channel) -> ChannelAttrs {
    ChannelAttrs {
        header_pad_size: 0,
        max_request_size: channel.request_bytes_max,
        max_response_size: channel.response_bytes_max,
        max_response_size_cached: channel.cached_bytes_max,
        max_operations: channel.operations_max,
        max_requests: channel.slots,
        rdma_ird: None,
    }
}
