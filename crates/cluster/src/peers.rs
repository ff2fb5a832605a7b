//! Calls to the other metaservers of the group: [`wire::peer`].

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use namespace::NodeKey;
use nfs::ConnectedClients;
use replica::{Member, NodeId, Replica, Unreachable};
use wire::peer::addresses::{addresses_free, grant, release};
use wire::peer::balance;
use wire::peer::clients::{connected, connected_to};
use wire::peer::files::spaces;
use wire::peer::group::{clock, report};
use wire::peer::{Call, Reply};
use wire::xdr::Decoder;

use crate::chains::rebalance::PoolBalance;
use crate::cluster::Cluster;
use crate::nodes::GroupReport;
use crate::service_addresses::clients;

/// Time for a small call; the caller goes on without an answer.
pub const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// Time for SPACES: a metaserver that has not answered by then may be dead; data servers report their free
/// space themselves.
const SPACES_TIME_MAX: Duration = Duration::from_millis(300);
/// Time for the group report: an operator waits for the answer, and a live leader answers at once.
const GROUP_TIME_MAX: Duration = Duration::from_secs(2);
/// Time for calls about service addresses: an address lease lasts a second at most.
const ADDRESSES_TIME_MAX: Duration = Duration::from_millis(150);

/// Calls another metaserver.
///
/// # Errors
/// [`Unreachable`], also for a malformed answer: the callee does not know the procedure.
pub async fn call(
    replica: &Replica,
    to: &Member,
    call: &Call,
    limit: Duration,
) -> Result<Reply, Unreachable> {
    let answer = replica.ask_peer(to, call.message().into(), limit).await?;
    Reply::decode(call.procedure(), &mut Decoder::new(answer))
        .map_err(|error| Unreachable::NoAnswer(format!("{}: {error}", call.procedure().name())))
}

impl Cluster {
    /// Calls the leader.
    ///
    /// # Errors
    /// [`Unreachable`], also if there is no leader.
    pub async fn call_leader(&self, question: Call, limit: Duration) -> Result<Reply, Unreachable> {
        let leader = self.group.replica.leader();
        let leader = leader.ok_or_else(|| Unreachable::NotSent("no metaserver leads".into()))?;
        call(&self.group.replica, &leader, &question, limit).await
    }

    /// Returns the answers of all other metaservers, called at the same time.
    async fn call_others(&self, question: Call, limit: Duration) -> Vec<Reply> {
        let others = self.group.replica.other_members();
        let ask = |member| call(&self.group.replica, member, &question, limit);
        join_all(others.iter().map(ask)).await.into_iter().flatten().collect()
    }

    /// Asks the leader for the service addresses that this metaserver may hold.
    pub(crate) async fn ask_leader_for_addresses(
        &self,
        member: NodeId,
        held: Vec<IpAddr>,
    ) -> Option<Vec<IpAddr>> {
        let args = grant::Args { member, held: held.iter().map(text).collect() };
        match self.call_leader(Call::Grant(args), ADDRESSES_TIME_MAX).await {
            Ok(Reply::Grant(res)) => Some(addresses(&res.granted?)),
            _ => None,
        }
    }

    /// Asks the leader for its report of the group.
    pub(crate) async fn ask_leader_for_group(&self) -> Option<GroupReport> {
        match self.call_leader(Call::Report(report::Args {}), GROUP_TIME_MAX).await {
            Ok(Reply::Report(res)) => res.report.map(GroupReport::of_wire),
            _ => None,
        }
    }

    /// Asks the leader for the balance of the targets; none: it cannot be asked, or does not lead.
    pub(crate) async fn ask_leader_for_balance(&self, look: bool) -> Option<Vec<PoolBalance>> {
        match self.call_leader(Call::Balance(balance::Args { look }), GROUP_TIME_MAX).await {
            Ok(Reply::Balance(res)) => {
                res.pools.map(|pools| pools.iter().map(PoolBalance::of_wire).collect())
            }
            _ => None,
        }
    }

    /// Tells another metaserver the clients that are connected to the service addresses of this one.
    pub(crate) async fn tell_of_clients(&self, member: &Member, clients: &ConnectedClients) {
        let question = Call::Connected(connected::Args { held: clients::to_wire(clients) });
        if let Err(error) = call(&self.group.replica, member, &question, ANSWER_TIME_MAX).await {
            tracing::debug!(%error, member = %member.name, "telling another metaserver of clients");
        }
    }

    /// Clients that were connected to a service address before it moved here, as far as any metaserver knows.
    pub(crate) async fn clients_of(&self, address: IpAddr) -> BTreeSet<SocketAddr> {
        let mut clients = self.addressing.clients.of(address);
        let question = Call::ConnectedTo(connected_to::Args { address: text(&address) });
        for answer in self.call_others(question, ADDRESSES_TIME_MAX).await {
            if let Reply::ConnectedTo(res) = answer {
                clients.extend(addresses::<SocketAddr>(&res.clients));
            }
        }
        clients
    }

    /// Tells the leader that this metaserver holds no service addresses from now on.
    pub(crate) async fn holds_none(self: &Arc<Self>) {
        let member = self.group.replica.status().id;
        if self.group.replica.leader().is_none() {
            return self.addresses_free(member);
        }
        let _ = self.call_leader(Call::Release(release::Args { member }), ADDRESSES_TIME_MAX).await;
    }

    /// Tells all other members to ask now for the service addresses that they may hold.
    pub(crate) async fn have_others_ask_for_addresses(&self) {
        self.call_others(Call::AddressesFree(addresses_free::Args {}), ADDRESSES_TIME_MAX).await;
    }

    /// Asks the other members for the live data servers. Data servers report only once in a second, and new
    /// files would wait for the report.
    pub async fn learn_living_targets(&self) {
        for answer in self.call_others(Call::Spaces(spaces::Args {}), SPACES_TIME_MAX).await {
            if let Reply::Spaces(res) = answer {
                self.data_servers.learn_living(res.targets);
            }
        }
    }

    /// Asks all other metaservers for their clocks.
    pub(crate) async fn ask_for_clocks(&self) {
        let question = Call::Clock(clock::Args {});
        let ask = |(id, member, _)| {
            let question = &question;
            async move { (id, call(&self.group.replica, &member, question, GROUP_TIME_MAX).await) }
        };
        let members = self.group.replica.status().members;
        let mut out_of_service = BTreeSet::new();
        for (id, answer) in join_all(members.into_iter().map(ask)).await {
            if let Ok(Reply::Clock(res)) = answer {
                out_of_service.extend(res.out_of_service.then_some(id));
                let (ours, now) = (self.clock_ms(), self.group.clock.monotonic());
                self.clocks.note(NodeKey::Metaserver(id), res.clock_ms, ours, now);
            }
        }
        self.clocks.note_out_of_service(out_of_service);
    }

    /// Members that serve no client, as they answered when this one, the leader, asked them for their clocks.
    pub(crate) fn out_of_service(&self) -> BTreeSet<NodeId> {
        let mut members = self.clocks.out_of_service();
        members.extend(self.group.replica.is_out_of_service().then(|| self.group.replica.status().id));
        members
    }
}

/// An address in its form on the wire.
pub(crate) fn text(address: &impl ToString) -> Bytes {
    address.to_string().into()
}

/// Addresses from their form on the wire; malformed ones are left out.
pub(crate) fn addresses<A: std::str::FromStr>(texts: &[Bytes]) -> Vec<A> {
    let texts = texts.iter().filter_map(|text| std::str::from_utf8(text).ok());
    texts.filter_map(|text| text.parse().ok()).collect()
}
