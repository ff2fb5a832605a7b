//! BIND_CONN_TO_SESSION (RFC 8881, section 18.34): gives a session one more connection.

use super::{SessionId, Status};
use crate::{xdr_enum, xdr_struct};

xdr_enum! {
    /// channel_dir_from_client4.
    pub enum DirFromClient {
        /// For calls.
        Fore = 1,
        /// For call-backs.
        Back = 2,
        /// For both, or for calls alone.
        ForeOrBoth = 3,
        /// For both, or for call-backs alone.
        BackOrBoth = 7,
    }

    /// channel_dir_from_server4.
    pub enum DirFromServer {
        /// For calls.
        Fore = 1,
        /// For call-backs.
        Back = 2,
        /// For both.
        Both = 3,
    }
}

xdr_struct! {
    /// The arguments.
    #[derive(Copy)]
    pub struct Args {
        /// The session.
        pub sessid: SessionId,
        /// What the connection is for.
        pub dir: DirFromClient,
        /// Whether it goes over to RDMA.
        pub use_conn_in_rdma_mode: bool,
    }

    /// The results.
    #[derive(Copy)]
    pub struct ResOk {
        /// The session.
        pub sessid: SessionId,
        /// What the connection is for.
        pub dir: DirFromServer,
        /// Whether it goes over to RDMA.
        pub use_conn_in_rdma_mode: bool,
    }
}

/// How it ended.
pub type Res = Result<ResOk, Status>;
