//! GRANT, RELEASE, ADDRESSES_FREE: service addresses, which the leader assigns.

/// GRANT: address leases for the caller, which lives.
pub mod grant {
    use bytes::Bytes;

    crate::xdr_struct! {
        /// The arguments.
        pub struct Args {
            /// Member id of the caller.
            pub member: u64,
            /// Service addresses that it holds, as text.
            pub held: Vec<Bytes>,
        }

        /// The results.
        pub struct Res {
            /// Service addresses that it may hold, as text; none: the callee does not lead.
            pub granted: Option<Vec<Bytes>>,
        }
    }
}

/// RELEASE: all service addresses of a member are free.
pub mod release {
    crate::xdr_struct! {
        /// The arguments.
        #[derive(Copy)]
        pub struct Args {
            /// Member id.
            pub member: u64,
        }

        /// No results.
        #[derive(Copy, Default)]
        pub struct Res {}
    }
}

/// ADDRESSES_FREE: the callee may call GRANT at once.
pub mod addresses_free {
    crate::xdr_struct! {
        /// No arguments.
        #[derive(Copy, Default)]
        pub struct Args {}

        /// No results.
        #[derive(Copy, Default)]
        pub struct Res {}
    }
}
