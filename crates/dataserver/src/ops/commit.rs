//! COMMIT at a data server: the whole object, whatever range was named. A file system can hardly sync less.

use wire::nfs4::{Status, commit};

use super::{NfsServer, State, refusal, refusal_of_chain};
use crate::chain::{Caller, Change};
use crate::found::Found;

impl NfsServer {
    pub(super) async fn commit(&self, state: &State) -> Result<commit::ResOk, Status> {
        let found = state.current()?.clone();
        if found.handle.has_copies() {
            let done = self.chains.change(found, Change::Commit, Caller::Client).await;
            return Ok(commit::ResOk { writeverf: done.map_err(refusal_of_chain)?.verifier });
        }
        let Found { target, object, .. } = found;
        target.run(move |o| o.commit(object)).await.map_err(refusal)?;
        Ok(commit::ResOk { writeverf: target.objects().verifier() })
    }
}
