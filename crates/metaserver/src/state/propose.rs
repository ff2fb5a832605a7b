//! Commands that may conflict with delegations: proposed again after the recall.

use namespace::{ClientId, Command, InodeId, Reply, RequestId, read};

use crate::errors::FileError;
use crate::state::ClientState;
use crate::state::delegations::may_conflict;

/// Maximum of delegated files in one command: RENAME has two.
const DELEGATED_FILES_MAX: usize = 2;

impl ClientState {
    /// Proposes a command and returns its reply. Conflicting delegations of other clients are recalled first.
    ///
    /// # Errors
    /// The file error of a refused command; `Delay` while a delegation is not returned.
    pub(crate) async fn propose(
        &self,
        request: Option<RequestId>,
        command: Command,
    ) -> Result<Reply, FileError> {
        if let Some(file) = self.unnamed_by(&command)? {
            self.returns_of_file_ended(file).await;
        }
        if !may_conflict(&command) {
            return self.machine.propose_once(request, command).await;
        }
        for _ in 0..DELEGATED_FILES_MAX {
            let inode = match self.machine.propose_once(request, command.clone()).await? {
                Reply::Delegated { inode } => inode,
                reply => return Ok(reply),
            };
            let caller = match &command {
                Command::Open(open) | Command::OpenOrDelegate(open) => Some(open.client),
                _ => self.client_of(request)?,
            };
            self.recall_delegations(inode, caller).await?;
        }
        match self.machine.propose_once(request, command).await? {
            Reply::Delegated { .. } => Err(FileError::Delay),
            reply => Ok(reply),
        }
    }

    /// A file that the command takes a name from, and of which a delegation was returned here a moment ago.
    fn unnamed_by(&self, command: &Command) -> Result<Option<InodeId>, FileError> {
        if self.returns.is_empty() {
            return Ok(None); // the usual case
        }
        let (dir, name) = match command {
            Command::Remove { dir, name, .. } => (dir, name),
            Command::Rename { to_dir, to, .. } => (to_dir, to),
            _ => return Ok(None),
        };
        let named = read::lookup(&*self.machine.view()?, *dir, name)?;
        Ok(named.filter(|file| self.returns.has_file(*file)))
    }

    fn client_of(&self, request: Option<RequestId>) -> Result<Option<ClientId>, FileError> {
        let Some(RequestId::Compound(request)) = request else { return Ok(None) };
        let session = read::session(&*self.machine.view()?, request.session)?;
        Ok(session.map(|session| session.client))
    }
}
