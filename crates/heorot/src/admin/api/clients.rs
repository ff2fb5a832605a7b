//! Answers about clients.

use serde::{Deserialize, Serialize};

/// Client of NFSv4 in the answer to `GET /clients`, and what it holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Client {
    pub id: String,
    /// The name that it gives itself; bytes that are no ASCII are written as `\xff`.
    pub owner: String,
    /// Addresses that it has used, the first one first.
    pub addresses: Vec<String>,
    /// Seconds since its lease was found to have run out: it keeps its state until others want it.
    pub silent_seconds: Option<u64>,
    pub sessions: u64,
    pub opens: u64,
    pub locks: u64,
    pub layouts: u64,
    pub read_delegations: u64,
    pub write_delegations: u64,
}
