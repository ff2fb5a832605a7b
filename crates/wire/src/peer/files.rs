//! MIGRATE, TRUNCATE, SPACES: file data, which the leader changes.

/// MIGRATE: inline data of a file go to its objects.
pub mod migrate {
    use crate::nfs4::Status;

    crate::xdr_struct! {
        /// The arguments.
        #[derive(Copy)]
        pub struct Args {
            /// Inode number.
            pub inode: u64,
        }

        /// The results.
        #[derive(Copy)]
        pub struct Res {
            /// `Ok`: the data are in objects.
            pub status: Status,
        }
    }
}

/// TRUNCATE: the deferred truncation of a file is carried out.
pub mod truncate {
    crate::xdr_struct! {
        /// The arguments.
        #[derive(Copy)]
        pub struct Args {
            /// Id of the deferred operation.
            pub operation: u64,
        }

        /// The results.
        #[derive(Copy)]
        pub struct Res {
            /// Outcome.
            pub outcome: Outcome,
        }
    }

    crate::xdr_enum! {
        /// Outcome of a deferred truncation.
        pub enum Outcome {
            /// Carried out, now or before.
            Done = 0,
            /// A data server did not answer: the operation stays.
            Away = 1,
            /// A data server said that its disk failed: the operation stays.
            Io = 2,
            /// The callee does not lead: nothing was done.
            NotLeader = 3,
        }
    }
}

/// SPACES: targets that live, with their free space.
pub mod spaces {
    use crate::data::TargetSpace;

    crate::xdr_struct! {
        /// No arguments.
        #[derive(Copy, Default)]
        pub struct Args {}

        /// The results.
        pub struct Res {
            /// One for each target.
            pub targets: Vec<TargetSpace>,
        }
    }
}
