//! Recalls of layouts that the data of a file need: before its size changes, and when a target is lost.

use std::sync::Arc;

use namespace::{DataPlace, Inode, LayoutState};

use crate::data::Data;
use crate::errors::FileError;
use crate::state::recall::Holders;

impl Data {
    /// Brings about what the state machine asks for before a file's size is set: the data at rest, and no
    /// layout out but those of other clients than `whose`.
    ///
    /// # Errors
    /// `Delay` as with [`ClientState::recall_layouts`], or while a data server that is to get the data is
    /// away.
    pub(crate) async fn before_truncation(&self, inode: &Inode, whose: Holders) -> Result<(), FileError> {
        if inode.data() == Some(DataPlace::Migrating) {
            self.migrate_to_objects(inode.id).await?;
        }
        self.state.recall_layouts(inode.id, inode.generation, whose).await
    }

    /// Recalls all layouts of files with a column on a lost target. Clients get no others there, and are
    /// answered an error for lost data by the metaservers.
    pub(crate) async fn recall_layouts_of_lost(self: Arc<Self>) {
        let data = Arc::clone(&self);
        let is_lost = move |layout: &LayoutState| {
            data.has_lost_column(&data.machine.inode(&*data.machine.view()?, layout.inode)?)
        };
        let files = Arc::clone(&self.state).recall_all(is_lost).await.unwrap_or_default();
        tracing::info!(files, "layouts of files on lost targets were recalled");
    }
}
