//! Errors of the cluster, and of administrators' requests.

use host::Repeated;
use replica::ReplicaError;
use store::StoreError;

/// Failure of a read or a change of the state machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// The state machine refuses the command.
    #[error("the state machine refuses the change: {0:?}")]
    Refused(namespace::Error),
    /// No metaserver leads, or the leader could not be asked in time.
    #[error("too few metaservers with a vote can be reached")]
    NoLeader,
    /// The replica could not carry the command out.
    #[error(transparent)]
    Replica(ReplicaError),
    /// The store could not be read; the replica has noticed, too, and stops the server.
    #[error("the metadata store cannot be read: {0}")]
    Store(String),
}

/// Failures of the store and of the replica: each request of a client may meet one.
static STORE_FAILURES: Repeated = Repeated::new();
static REPLICA_FAILURES: Repeated = Repeated::new();

/// Converts a failed read of the store, and logs it.
pub(crate) fn store_failed(error: StoreError) -> ClusterError {
    if let Some(count) = STORE_FAILURES.count() {
        tracing::error!(%error, count, "metadata store");
    }
    ClusterError::Store(error.to_string())
}

/// Converts a failed proposal or read barrier, and logs a failure that only an operator can mend.
pub(crate) fn replica_failed(error: ReplicaError) -> ClusterError {
    if let ReplicaError::Failed(reason) | ReplicaError::Damaged { why: reason, .. } = &error
        && let Some(count) = REPLICA_FAILURES.count()
    {
        tracing::error!(%reason, count, "proposal");
    }
    ClusterError::Replica(error)
}

/// Failure of an administrator's request. One line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// The path names nothing.
    #[error(
        "{0}: no such directory in the volume; paths begin at the volume's root, not at a client's mount point"
    )]
    NotFound(String),
    /// Only directories have a policy.
    #[error("{0}: not a directory; a file keeps the layout that it was made with")]
    NotDirectory(String),
    /// A value out of its bounds.
    #[error("{0}")]
    Invalid(String),
    /// The metadata service failed.
    #[error("the metaserver failed: {0}; its log says more")]
    Failed(String),
}

impl AdminError {
    /// The request needs servers that do not answer now.
    #[must_use]
    pub fn unreachable() -> Self {
        Self::Failed(
            "too few metaservers with a vote can be reached, or a data server does not answer: try again"
                .into(),
        )
    }
}

impl From<ClusterError> for AdminError {
    fn from(error: ClusterError) -> Self {
        match error {
            ClusterError::NoLeader
            | ClusterError::Replica(ReplicaError::Unknown)
            | ClusterError::Refused(namespace::Error::Delay | namespace::Error::ServerGone) => {
                Self::unreachable()
            }
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<StoreError> for AdminError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.to_string())
    }
}
