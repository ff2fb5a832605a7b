//! The state machine for file operations: file errors, and sealed handles of inodes.

use std::sync::Arc;

use cluster::Group;
use host::{Clock, Entropy};
use namespace::{Command, Inode, InodeId, Reply, RequestId, Snapshots, Time, read};
use replica::Replica;
use store::View;
use wire::handle::{ClientHandle, FileHandle, HandleKey};

use crate::errors::FileError;
use crate::exports::admission::Via;

/// State machine of the group, and the served volume in it.
pub(crate) struct StateMachine {
    pub group: Arc<Group>,
    pub replica: Replica,
    pub key: HandleKey,
    /// Id of the served volume.
    pub volume: u32,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
}

impl StateMachine {
    pub(crate) fn new(group: Arc<Group>, volume: u32, key: HandleKey) -> Self {
        let (replica, clock, entropy) =
            (group.replica.clone(), Arc::clone(&group.clock), Arc::clone(&group.entropy));
        Self { group, replica, key, volume, clock, entropy }
    }

    /// Read barrier: returns when views have all changes that any metaserver acknowledged before this call.
    ///
    /// # Errors
    /// `Delay` after 20 s without a leader.
    pub(crate) async fn read_barrier(&self) -> Result<(), FileError> {
        Ok(self.group.read_barrier().await?)
    }

    /// Returns a view with all changes that this metaserver has acknowledged, and all changes before the last
    /// [`StateMachine::read_barrier`]. It shows snapshots, too.
    pub(crate) fn view(&self) -> Result<Box<dyn View + Send + Sync>, FileError> {
        Ok(Box::new(Snapshots(self.group.view()?)))
    }

    /// Current time, in the form of the state machine and the protocol.
    pub(crate) fn now(&self) -> Time {
        self.group.now()
    }

    /// Proposes a command and returns its reply; the caller must process [`Reply::Delegated`].
    ///
    /// # Errors
    /// The error of a refusal, or of a replica that cannot apply the command.
    pub(crate) async fn propose_once(
        &self,
        request: Option<RequestId>,
        command: Command,
    ) -> Result<Reply, FileError> {
        Ok(self.group.propose(request, command).await?)
    }

    /// Returns the inode of a handle.
    pub(crate) fn inode_of(&self, view: &dyn View, handle: &[u8]) -> Result<Inode, FileError> {
        self.inode_and_via(view, handle).map(|(inode, _)| inode)
    }

    /// Returns the inode of a handle, and the export or pseudo file system that the handle names.
    pub(crate) fn inode_and_via(&self, view: &dyn View, handle: &[u8]) -> Result<(Inode, Via), FileError> {
        let ClientHandle { file, via } = ClientHandle::open(handle, &self.key).ok_or(FileError::BadHandle)?;
        if file.volume != self.volume {
            return Err(FileError::Stale);
        }
        let inode = self.inode(view, InodeId(file.inode))?;
        // What is in a removed volume is gone for clients, although its records are still being deleted.
        if !read::volume_lives(view, inode.id)? {
            return Err(FileError::Stale);
        }
        if read::rolls_back(view, inode.id.volume())? {
            return Err(FileError::Delay);
        }
        if inode.generation == file.generation { Ok((inode, via.into())) } else { Err(FileError::Stale) }
    }

    /// Returns the export that a handle names.
    pub(crate) fn export_of(&self, handle: &[u8]) -> Result<InodeId, FileError> {
        let handle = ClientHandle::open(handle, &self.key).ok_or(FileError::BadHandle)?;
        match handle.via.into() {
            Via::Export(export) => Ok(export),
            Via::Pseudo => Err(FileError::Stale),
        }
    }

    /// Returns an inode; `Stale` if it was removed meanwhile.
    pub(crate) fn inode(&self, view: &dyn View, id: InodeId) -> Result<Inode, FileError> {
        read::inode(view, id)?.ok_or(FileError::Stale)
    }

    /// File system id for the volume, or snapshot, of an inode: that of the cluster, and the volume in the upper half.
    pub(crate) fn fsid(&self, inode: InodeId) -> u64 {
        u64::from(inode.volume().0) << 32 | u64::from(self.volume)
    }

    /// Returns the sealed handle of an inode, for a client that reached it through `via`.
    pub(crate) fn handle(&self, via: Via, inode: InodeId, generation: u32) -> bytes::Bytes {
        let file = FileHandle { volume: self.volume, inode: inode.0, generation };
        ClientHandle { file, via: via.into() }.seal(&self.key)
    }
}
