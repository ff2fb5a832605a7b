//! Answers to calls of other metaservers about the cluster: [`wire::peer`].

use std::net::IpAddr;
use std::sync::Arc;

use wire::peer::addresses::{addresses_free, grant, release};
use wire::peer::balance;
use wire::peer::clients::{connected, connected_to};
use wire::peer::files::spaces;
use wire::peer::group::{clock, report};

use crate::chains::rebalance::PoolBalance;
use crate::cluster::Cluster;
use crate::peers::{addresses, text};
use crate::service_addresses::clients;

impl Cluster {
    /// Grants service addresses to a member, if this metaserver leads.
    pub async fn answer_grant(self: &Arc<Self>, args: grant::Args) -> grant::Res {
        let granted = self.grant_addresses(args.member, &addresses(&args.held)).await;
        grant::Res { granted: granted.map(|granted| granted.iter().map(text).collect()) }
    }

    /// Notes that a member holds no service addresses any more.
    pub fn answer_release(self: &Arc<Self>, args: release::Args) -> release::Res {
        self.addresses_free(args.member);
        release::Res {}
    }

    /// Asks the leader for service addresses now.
    pub fn answer_addresses_free(&self) -> addresses_free::Res {
        self.ask_for_addresses_now();
        addresses_free::Res {}
    }

    /// Notes the clients that are connected to the service addresses of another member.
    pub fn answer_connected(&self, args: connected::Args) -> connected::Res {
        self.addressing.clients.learn(clients::of_wire(&args.held));
        connected::Res {}
    }

    /// The clients that were connected to a service address at the last report to this metaserver.
    #[must_use]
    pub fn answer_connected_to(&self, args: connected_to::Args) -> connected_to::Res {
        let address: Option<IpAddr> = addresses(std::slice::from_ref(&args.address)).pop();
        let known = address.map(|address| self.addressing.clients.of(address)).unwrap_or_default();
        connected_to::Res { clients: known.iter().map(text).collect() }
    }

    /// The live targets that this metaserver knows.
    #[must_use]
    pub fn answer_spaces(&self) -> spaces::Res {
        spaces::Res { targets: self.data_servers.living() }
    }

    /// Report of this metaserver on the group, if it leads.
    #[must_use]
    pub fn answer_report(&self) -> report::Res {
        report::Res { report: self.group_report().map(|report| report.to_wire()) }
    }

    /// The balance of the targets, if this metaserver leads. It looks for chains to move first, if it is asked to.
    #[must_use]
    pub fn answer_balance(&self, args: balance::Args) -> balance::Res {
        let pools = self.balance_here(args.look);
        balance::Res { pools: pools.map(|pools| pools.iter().map(PoolBalance::to_wire).collect()) }
    }

    /// This machine's clock.
    #[must_use]
    pub fn answer_clock(&self) -> clock::Res {
        clock::Res { clock_ms: self.clock_ms(), out_of_service: self.group.replica.is_out_of_service() }
    }
}
