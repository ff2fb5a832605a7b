//! Answers to calls of other metaservers: [`wire::peer`].

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use namespace::{ClientId, InodeId};
use wire::nfs4::Status;
use wire::peer::addresses::{addresses_free, grant, release};
use wire::peer::clients::{call_back, connected, connected_to, heard};
use wire::peer::files::{migrate, spaces, truncate};
use wire::peer::group::{clock, report};
use wire::peer::{Call, Reply};

use crate::Metaserver;
use crate::cluster::peers::{addresses, text};
use crate::cluster::service_addresses::clients;
use crate::errors::FileError;

impl Metaserver {
    /// Carries out a call of another metaserver.
    pub(crate) async fn answer(self: &Arc<Self>, call: Call) -> Reply {
        match call {
            Call::Heard(args) => {
                self.state.heard_elsewhere(args.clients.into_iter().map(ClientId)).await;
                Reply::Heard(heard::Res {})
            }
            Call::CallBack(args) => Reply::CallBack(self.call_back_for(args).await),
            Call::Grant(args) => {
                let granted = self.cluster.grant_addresses(args.member, &addresses(&args.held)).await;
                let granted = granted.map(|granted| granted.iter().map(text).collect());
                Reply::Grant(grant::Res { granted })
            }
            Call::Release(args) => {
                self.cluster.addresses_free(args.member);
                Reply::Release(release::Res {})
            }
            Call::AddressesFree(_) => {
                self.cluster.ask_for_addresses_now();
                Reply::AddressesFree(addresses_free::Res {})
            }
            Call::Connected(args) => {
                self.cluster.addressing.clients.learn(clients::of_wire(&args.held));
                Reply::Connected(connected::Res {})
            }
            Call::ConnectedTo(args) => Reply::ConnectedTo(self.connected_to(&args.address)),
            Call::Migrate(args) => {
                let status = match self.machine.replica.leads() {
                    true => self.data.migrate_to_objects(InodeId(args.inode)).await.err(),
                    false => Some(FileError::Delay),
                };
                Reply::Migrate(migrate::Res { status: status.map_or(Status::Ok, Status::from) })
            }
            Call::Truncate(args) => {
                Reply::Truncate(truncate::Res { outcome: self.data.truncate(args.operation).await })
            }
            Call::Spaces(_) => Reply::Spaces(spaces::Res { targets: self.cluster.data_servers.living() }),
            Call::Report(_) => Reply::Report(report::Res {
                report: self.cluster.group_report().map(|report| report.to_wire()),
            }),
            Call::Clock(_) => Reply::Clock(clock::Res { clock_ms: self.cluster.clock_ms() }),
        }
    }

    async fn call_back_for(&self, args: call_back::Args) -> call_back::Res {
        let (client, op) = (ClientId(args.client), args.op);
        let recalled = self.state.recalled(&op);
        let answer = self.state.call_back_here(client, op).await;
        call_back::Res { status: answer.map(|status| self.state.or_later(client, recalled, status)).ok() }
    }

    fn connected_to(&self, address: &Bytes) -> connected_to::Res {
        let address: Option<IpAddr> = addresses(std::slice::from_ref(address)).pop();
        let known = address.map(|address| self.cluster.addressing.clients.of(address)).unwrap_or_default();
        connected_to::Res { clients: known.iter().map(text).collect() }
    }
}
