//! Clients of NFSv4: a list for administrators.

use std::net::IpAddr;

use cluster::AdminError;
use namespace::{ClientId, State, read};
use store::{StoreError, View};

use crate::Metaserver;
use crate::admin::stripe::server_failed;

/// A client of NFSv4 and what it holds, for a list. Clients of NFSv3 are not known one by one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientReport {
    /// Its id.
    pub id: u64,
    /// `co_ownerid`: the name that it gives itself, bytes that are no ASCII as `\xff`. Linux puts its host name there.
    pub owner: String,
    /// Addresses that it has used, the first one first.
    pub addresses: Vec<IpAddr>,
    /// Seconds since its lease was found to have run out: it keeps its state until others want it.
    pub silent_seconds: Option<u64>,
    /// Number of sessions.
    pub sessions: u64,
    /// Opens, without those that the leader has in its memory only.
    pub opens: u64,
    /// Lock-owners with locks in a file.
    pub locks: u64,
    /// Layouts.
    pub layouts: u64,
    /// Delegations to read.
    pub read_delegations: u64,
    /// Delegations to write.
    pub write_delegations: u64,
}

impl Metaserver {
    /// Returns the clients that have confirmed themselves, in the order of their ids.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn client_report(&self) -> Result<Vec<ClientReport>, AdminError> {
        self.cluster.agree().await?;
        let view = self.machine.view().map_err(server_failed)?;
        let now = self.machine.now().seconds;
        // Looks at each state of each client.
        let look = move || {
            let clients = read::clients(&*view)?.into_iter();
            clients.filter_map(|client| report(&*view, client, now).transpose()).collect()
        };
        let found: Result<Vec<ClientReport>, StoreError> = self
            .machine
            .replica
            .run_blocking(look)
            .await
            .map_err(|error| AdminError::Failed(error.to_string()))?;
        Ok(found?)
    }
}

fn report(view: &dyn View, client: ClientId, now: i64) -> Result<Option<ClientReport>, StoreError> {
    let Some(record) = read::client(view, client)?.filter(|record| record.confirmed) else { return Ok(None) };
    let silent = record.lapsed.map(|since| u64::try_from(now - since.seconds).unwrap_or(0));
    let mut report = ClientReport {
        id: client.0,
        owner: record.owner.escape_ascii().to_string(),
        addresses: record.addresses,
        silent_seconds: silent,
        sessions: read::sessions(view, client)?.len() as u64,
        ..ClientReport::default()
    };
    for state in read::states(view, client)? {
        match read::state(view, state)? {
            Some(State::Open(_)) => report.opens += 1,
            Some(State::Lock(_)) => report.locks += 1,
            Some(State::Layout(_)) => report.layouts += 1,
            Some(State::Delegation(held)) if held.writes() => report.write_delegations += 1,
            Some(State::Delegation(held)) if !held.is_revoked() => report.read_delegations += 1,
            Some(State::Delegation(_)) | None => {}
        }
    }
    Ok(Some(report))
}
