//! Linearizable reads at any member: by a read lease, or by one question to the leader for all waiting reads.

pub(crate) mod read_lease;
pub(crate) mod read_rounds;
