//! REPORT, CLOCK: members of the group, and their clocks.

/// REPORT: what only the leader knows of the group.
pub mod report {
    use bytes::Bytes;

    crate::xdr_struct! {
        /// No arguments.
        #[derive(Copy, Default)]
        pub struct Args {}

        /// One member.
        #[derive(Copy)]
        pub struct MemberReport {
            /// Member id.
            pub member: u64,
            /// Milliseconds since the leader heard of it; none: never.
            pub heard_ms: Option<u64>,
            /// Last index of the log that it has; none: unknown.
            pub matched: Option<u64>,
            /// True if the leader can reach the member now.
            pub lives: bool,
            /// True if the member serves no client, since its state is disputed or cannot be read.
            pub out_of_service: bool,
        }

        /// One service address.
        pub struct AddressReport {
            /// The address, as text.
            pub address: Bytes,
            /// Id of its holder: a member, or a data server.
            pub holder: Option<u64>,
        }

        /// The clock of one server.
        #[derive(Copy)]
        pub struct ClockReport {
            /// True if the server is a data server.
            pub is_data_server: bool,
            /// Its id.
            pub server: u64,
            /// Milliseconds that its clock is ahead of the cluster's.
            pub ahead_ms: i64,
        }

        /// The report.
        #[derive(Default)]
        pub struct Report {
            /// One for each member.
            pub members: Vec<MemberReport>,
            /// One for each service address.
            pub addresses: Vec<AddressReport>,
            /// One for each service address of a data server.
            pub data_addresses: Vec<AddressReport>,
            /// One for each server whose clock is known.
            pub clocks: Vec<ClockReport>,
        }

        /// The results.
        pub struct Res {
            /// None: the callee does not lead.
            pub report: Option<Report>,
        }
    }
}

/// CLOCK: the time of day at the callee.
pub mod clock {
    crate::xdr_struct! {
        /// No arguments.
        #[derive(Copy, Default)]
        pub struct Args {}

        /// The results.
        #[derive(Copy)]
        pub struct Res {
            /// Milliseconds since 1970.
            pub clock_ms: u64,
            /// See [`MemberReport::out_of_service`](super::report::MemberReport::out_of_service).
            pub out_of_service: bool,
        }
    }
}
