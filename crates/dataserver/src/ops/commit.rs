//! COMMIT at a data server: the whole object, whatever range was named. A file system can hardly sync less.

use wire::nfs4::{Status, commit};

use super::{NfsServer, State, refusal};
use crate::server::Found;

impl NfsServer {
    pub(super) async fn commit(&self, state: &State) -> Result<commit::ResOk, Status> {
        let Found { target, object, .. } = state.current()?.clone();
        target.run(move |o| o.commit(object)).await.map_err(refusal)?;
        Ok(commit::ResOk { writeverf: target.objects().verifier() })
    }
}
