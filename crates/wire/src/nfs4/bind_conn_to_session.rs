//! BIND_CONN_TO_SESSION (RFC 8881, section 18.34): binds a connection to a session.

use super::{SessionId, Status};
use crate::{xdr_enum, xdr_struct};

xdr_enum! {
    /// channel_dir_from_client4.
    pub enum DirFromClient {
        /// Fore channel.
        Fore = 1,
        /// Back channel.
        Back = 2,
        /// Both channels, or the fore channel only.
        ForeOrBoth = 3,
        /// Both channels, or the back channel only.
        BackOrBoth = 7,
    }

    /// channel_dir_from_server4.
    pub enum DirFromServer {
        /// Fore channel.
        Fore = 1,
        /// Back channel.
        Back = 2,
        /// Both channels.
        Both = 3,
    }
}

xdr_struct! {
    /// The arguments.
    #[derive(Copy)]
    pub struct Args {
        /// The session.
        pub sessid: SessionId,
        /// Channels of the connection.
        pub dir: DirFromClient,
        /// True if the connection changes to RDMA mode.
        pub use_conn_in_rdma_mode: bool,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// The session.
        pub sessid: SessionId,
        /// Channels of the connection.
        pub dir: DirFromServer,
        /// True if the connection changes to RDMA mode.
        pub use_conn_in_rdma_mode: bool,
    }
}

/// Results, or the error status.
pub type Res = Result<ResOk, Status>;
