//! Calls to a client, over the back channel of any of its sessions.

use std::time::Instant;

use cluster::{peers, peers::ANSWER_TIME_MAX};
use namespace::ClientId;
use nfs::{CallbackError, OperationLabels};
use wire::nfs4::Status;
use wire::nfs4::callback::{CbArgOp, CbOpNum};
use wire::peer::clients::call_back;
use wire::peer::{Call, Reply};

use crate::state::ClientState;

impl ClientState {
    /// Sends the callback `op` to `client`, over a connection to this metaserver or to another one. Returns
    /// the status of the client's answer. The future does not borrow the server, so that it can run in a task
    /// of its own.
    pub(crate) fn call_back(
        &self,
        client: ClientId,
        op: CbArgOp,
    ) -> impl Future<Output = Result<Status, CallbackError>> + Send + 'static {
        let elsewhere = self.call_back_elsewhere(client, &op);
        let here = self.call_back_here(client, op);
        async move {
            match here.await {
                // The client may be connected to another metaserver, with the loss of its connection here not
                // noticed yet.
                Err(failure) => elsewhere.await.map_err(|_| failure),
                outcome => outcome,
            }
        }
    }

    /// Sends a callback over a back channel of another metaserver.
    fn call_back_elsewhere(
        &self,
        client: ClientId,
        op: &CbArgOp,
    ) -> impl Future<Output = Result<Status, CallbackError>> + Send + 'static + use<> {
        let question = Call::CallBack(call_back::Args { client: client.0, op: op.clone() });
        let replica = self.machine.replica.clone();
        async move {
            for member in replica.other_members() {
                if let Ok(Reply::CallBack(call_back::Res { status: Some(status) })) =
                    peers::call(&replica, &member, &question, ANSWER_TIME_MAX).await
                {
                    return Ok(status);
                }
            }
            Err(CallbackError::NoConnection)
        }
    }

    /// Sends a callback over the first of the client's sessions here that accepts the call.
    pub(crate) fn call_back_here(
        &self,
        client: ClientId,
        op: CbArgOp,
    ) -> impl Future<Output = Result<Status, CallbackError>> + Send + 'static + use<> {
        let sessions = self.sessions.of_client(client);
        if let CbArgOp::RecallAny(_) = op {
            self.sharing.note(client, self.machine.clock.monotonic());
        }
        let is_returned = matches!(&op, CbArgOp::Recall(args) if self.has_returned(args.stateid));
        let metrics = std::sync::Arc::clone(&self.metrics);
        async move {
            if is_returned {
                return Ok(Status::Ok);
            }
            let began = Instant::now();
            let mut outcome = Err(CallbackError::NoConnection);
            for session in sessions {
                outcome = session.back.call(op.clone()).await;
                if outcome.is_ok() {
                    break;
                }
            }
            let outcome = outcome.map(|result| result.status());
            let operation = CbOpNum::from_u32(op.number()).unwrap_or(CbOpNum::Illegal).name();
            let labels = OperationLabels { protocol: "nfs4_cb", operation };
            metrics.operation(labels, began.elapsed(), outcome != Ok(Status::Ok));
            outcome
        }
    }
}
