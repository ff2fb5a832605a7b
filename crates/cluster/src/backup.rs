//! A backup of the metadata.

use crate::cluster::Cluster;
use crate::error::AdminError;

impl Cluster {
    /// A backup of all metadata in their present state.
    ///
    /// # Errors
    /// [`AdminError::Failed`].
    pub async fn backup(&self, version: &str) -> Result<replica::Backup, AdminError> {
        self.group.read_barrier().await?;
        let view = self.group.view()?.into();
        let backup = replica::Backup::taken(view, self.id, self.group.now().seconds, version);
        backup.map_err(|error| AdminError::Failed(error.to_string()))
    }
}
