//! Commands that may conflict with delegations: proposed again after the recall.

use namespace::{ClientId, Command, Reply, RequestId, read};

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

    fn client_of(&self, request: Option<RequestId>) -> Result<Option<ClientId>, FileError> {
        let Some(RequestId::Compound(request)) = request else { return Ok(None) };
        let session = read::session(&*self.machine.view()?, request.session)?;
        Ok(session.map(|session| session.client))
    }
}
