//! Layout recalls for a file's data: before a change of its size, and after the loss of a target.

use std::sync::Arc;

use namespace::{DataPlace, Inode, LayoutState};

use crate::data::Data;
use crate::errors::FileError;
use crate::state::recall::Holders;

impl Data {
    /// Prepares a truncation as the state machine requires: no migration under way, objects that no snapshot shows, and
    /// layouts recalled from the holders `whose`.
    ///
    /// # Errors
    /// `Delay` as with [`ClientState::recall_layouts`], or while a data server for migrated data is
    /// unreachable.
    pub(crate) async fn before_truncation(
        self: &Arc<Self>,
        inode: &Inode,
        whose: Holders,
    ) -> Result<(), FileError> {
        if inode.data() == Some(DataPlace::Migrating) {
            self.migrate_to_objects(inode.id).await?;
        }
        self.own_columns_if_any(inode).await?;
        self.state.recall_layouts(inode.id, inode.generation, whose).await
    }

    /// Recalls all layouts of files with a column on a lost target. Clients get no new layouts of these
    /// files, and the metaservers answer with an error for lost data.
    pub(crate) async fn recall_layouts_of_lost(self: Arc<Self>) {
        let data = Arc::clone(&self);
        let is_lost = move |layout: &LayoutState| {
            data.has_lost_column(&data.machine.inode(&*data.machine.view()?, layout.inode)?)
        };
        let files = Arc::clone(&self.state).recall_all(is_lost).await.unwrap_or_default();
        tracing::info!(files, "layouts of files on lost targets were recalled");
    }
}
