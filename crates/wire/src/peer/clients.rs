//! HEARD, CALL_BACK, CONNECTED, CONNECTED_TO: clients, as metaservers tell one another of them.

/// HEARD: clients that renewed their client leases at the caller.
pub mod heard {
    crate::xdr_struct! {
        /// The arguments.
        pub struct Args {
            /// Client ids.
            pub clients: Vec<u64>,
        }

        /// No results.
        #[derive(Copy, Default)]
        pub struct Res {}
    }
}

/// CALL_BACK: an operation for a client whose back channel ends at the callee.
pub mod call_back {
    use crate::nfs4::Status;
    use crate::nfs4::callback::CbArgOp;

    crate::xdr_struct! {
        /// The arguments.
        pub struct Args {
            /// Client id.
            pub client: u64,
            /// The operation.
            pub op: CbArgOp,
        }

        /// The results.
        #[derive(Copy)]
        pub struct Res {
            /// The client's status; none: no back channel of the client ends here, or it did not answer.
            pub status: Option<Status>,
        }
    }
}

/// CONNECTED: clients that are connected to the service addresses of the caller.
pub mod connected {
    use bytes::Bytes;

    crate::xdr_struct! {
        /// The connections of one service address.
        pub struct Connections {
            /// The service address, as text.
            pub address: Bytes,
            /// Addresses and ports of clients, as text such as `10.0.0.7:834`.
            pub clients: Vec<Bytes>,
        }

        /// The arguments.
        pub struct Args {
            /// One for each service address that the caller holds.
            pub held: Vec<Connections>,
        }

        /// No results.
        #[derive(Copy, Default)]
        pub struct Res {}
    }
}

/// CONNECTED_TO: clients that were connected to a service address, as far as the callee knows.
pub mod connected_to {
    use bytes::Bytes;

    crate::xdr_struct! {
        /// The arguments.
        pub struct Args {
            /// The service address, as text.
            pub address: Bytes,
        }

        /// The results.
        pub struct Res {
            /// Addresses and ports of clients, as text.
            pub clients: Vec<Bytes>,
        }
    }
}

/// WRITE_OPENS: opens that the leader has in its memory become those of the state machine.
pub mod write_opens {
    crate::xdr_struct! {
        /// The arguments.
        pub struct Args {
            /// Ids of the states.
            pub states: Vec<u64>,
        }

        /// The results: the leader does not have them in its memory any more, or never had.
        #[derive(Copy)]
        pub struct Res {}
    }
}
