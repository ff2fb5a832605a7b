//! Peer RPC: answers to calls of other metaservers, [`wire::peer`].

use std::sync::Arc;

use namespace::{ClientId, InodeId, StateId};
use wire::nfs4::Status;
use wire::peer::clients::{call_back, heard, write_opens};
use wire::peer::files::{migrate, truncate};
use wire::peer::{Call, Reply};

use crate::Metaserver;
use crate::errors::FileError;

impl Metaserver {
    /// Answers a call of another metaserver.
    pub(crate) async fn answer(self: &Arc<Self>, call: Call) -> Reply {
        match call {
            Call::Heard(args) => {
                self.state.heard_elsewhere(args.clients.into_iter().map(ClientId)).await;
                Reply::Heard(heard::Res {})
            }
            Call::CallBack(args) => Reply::CallBack(self.call_back_for(args).await),
            Call::Grant(args) => Reply::Grant(self.cluster.answer_grant(args).await),
            Call::Release(args) => Reply::Release(self.cluster.answer_release(args)),
            Call::AddressesFree(_) => Reply::AddressesFree(self.cluster.answer_addresses_free()),
            Call::Connected(args) => Reply::Connected(self.cluster.answer_connected(args)),
            Call::ConnectedTo(args) => Reply::ConnectedTo(self.cluster.answer_connected_to(args)),
            Call::Migrate(args) => {
                let status = match self.machine.replica.leads() {
                    true => self.data.columns_at_leader(InodeId(args.inode)).await.err(),
                    false => Some(FileError::Delay),
                };
                Reply::Migrate(migrate::Res { status: status.map_or(Status::Ok, Status::from) })
            }
            Call::Truncate(args) => {
                Reply::Truncate(truncate::Res { outcome: self.data.truncate(args.operation).await })
            }
            Call::Spaces(_) => Reply::Spaces(self.cluster.answer_spaces()),
            Call::Report(_) => Reply::Report(self.cluster.answer_report()),
            Call::Clock(_) => Reply::Clock(self.cluster.answer_clock()),
            Call::WriteOpens(args) => {
                self.state.write_opens(args.states.into_iter().map(StateId).collect()).await;
                Reply::WriteOpens(write_opens::Res {})
            }
            Call::Balance(args) => Reply::Balance(self.cluster.answer_balance(args)),
        }
    }

    async fn call_back_for(&self, args: call_back::Args) -> call_back::Res {
        let (client, op) = (ClientId(args.client), args.op);
        let recalled = self.state.recalled(&op);
        self.state.note_recall_for_another(&op);
        let answer = self.state.call_back_here(client, op).await;
        call_back::Res { status: answer.map(|status| self.state.or_later(client, recalled, status)).ok() }
    }
}
