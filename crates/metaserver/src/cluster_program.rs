//! Cluster program: data servers register here, and ask for the lengths of their objects.

use std::sync::Arc;
use std::time::Instant;

use ::cluster::{HEARTBEAT, HEARTBEAT_OF_MEMBERS, Registered};
use bytes::Bytes;
use namespace::{DataServer, DataServerId, InodeId, Kind, NodeKey, NodeState, TargetId, read};
use nfs::{Answer, OperationLabels, PeerAuth, PrivateProgram, encoded};
use wire::cluster::{self, Call, Reply, Status, cluster_status, register, size};
use wire::data::{TargetCondition, TargetSpace};
use wire::handle::ObjectHandle;

use crate::Metaserver;
use crate::data::proxy::incarnation;
use crate::errors::FileError;

/// Maximum of targets of one data server: bounds the bytes that a REGISTER adds to the state machine.
const TARGETS_MAX: usize = 1024;
/// Maximum of addresses of one data server.
const ADDRESSES_MAX: usize = 16;
/// Maximum length of a name; it fits a table for an operator.
const NAME_BYTES_MAX: usize = 255;

/// RPC program for the other servers of the cluster.
pub(crate) struct ClusterProgram(pub Arc<Metaserver>);

impl PrivateProgram for ClusterProgram {
    fn number(&self) -> u32 {
        cluster::PROGRAM
    }

    fn version(&self) -> u32 {
        cluster::VERSION
    }

    fn peer_auth(&self) -> &PeerAuth {
        &self.0.cluster.peer_auth
    }

    fn call_of_peer(self: Arc<Self>, mut call: nfs::Call) -> Answer {
        Box::pin(async move {
            let arguments = Call::of_number(call.header.procedure, &mut call.arguments)?;
            let procedure = arguments.procedure();
            let start = Instant::now();
            let reply = self.0.cluster_call(arguments).await;
            let failed =
                matches!(reply, Reply::Register(Err(_)) | Reply::Size(Err(_)) | Reply::Status(Err(_)));
            let labels = OperationLabels { protocol: "cluster", operation: procedure.name() };
            self.0.metrics.operation(labels, start.elapsed(), failed);
            Ok(encoded(&reply))
        })
    }
}

impl Metaserver {
    async fn cluster_call(&self, call: Call) -> Reply {
        match call {
            Call::Register(args) => Reply::Register(self.register_data_server(args).await),
            Call::Size(args) => Reply::Size(self.object_len(&args.handle).await),
            Call::Status(_) => Reply::Status(self.status_as_json().await),
            Call::HoldAddresses(args) => {
                Reply::HoldAddresses(Ok(self.cluster.answer_hold_addresses(args).await))
            }
        }
    }

    async fn register_data_server(&self, mut args: register::Args) -> register::Res {
        // A target that is missing here, and that another data server serves now, belongs to that server.
        let reports = self.cluster.data_servers.report();
        let is_elsewhere = |missing: &TargetSpace| {
            reports.iter().any(|report| {
                let serves = report.alive && report.condition != TargetCondition::Missing;
                report.target.0 == missing.target && report.server.0 != args.server && serves
            })
        };
        args.targets.retain(|space| space.condition != TargetCondition::Missing || !is_elsewhere(space));
        let server = data_server(&args)?;
        // A copy of a target's directory, served beside the original, would split the target's files between
        // the two. A target that moved is accepted after its former server has been silent for a while.
        let elsewhere = reports.into_iter().find(|report| {
            let serves = report.alive && report.condition != TargetCondition::Missing;
            serves && report.server != server.id && server.targets.contains(&report.target)
        });
        if let Some(report) = elsewhere {
            if self.cluster.data_servers.refuse(server.id, Some(Status::Invalid)) {
                tracing::warn!(
                    name = %server.name,
                    target = %format!("{:016x}", report.target.0),
                    path = %report.path,
                    "refused: another data server that lives has this target; a target can be served once"
                );
            }
            return Err(Status::Invalid);
        }
        let view = self.machine.view().map_err(|_| Status::Io)?;
        let name_space = read::name_space(&*view).map_err(|_| Status::Io)?;
        let (incarnation, epoch) = incarnation(&*view).map_err(|_| Status::Delay)?;
        drop(view);
        if let Some(target) = args.targets.iter().find(|t| ![0, name_space].contains(&t.name_space)) {
            if self.cluster.data_servers.refuse(server.id, Some(Status::OtherNameSpace)) {
                tracing::error!(
                    name = %server.name,
                    path = %String::from_utf8_lossy(&target.path),
                    "refused: this data server has files of another name space of this cluster; was this metaserver started \
                     with an empty data directory, where its own should have been?"
                );
            }
            return Err(Status::OtherNameSpace);
        }
        let answer = register::ResOk {
            name_space,
            incarnation,
            epoch,
            process: args.known,
            heartbeat_ms: HEARTBEAT.as_millis() as u32,
            map_version: args.map_version,
            metaservers: vec![],
            networks: vec![],
            trash_seconds: self.cluster.settings().trash_time.as_secs(),
            chain_lease_ms: 0,
            verify_at_scrub: vec![],
            chains: vec![],
        };
        // A missing target reports no incarnation.
        let mut present = args.targets.iter().filter(|space| space.condition != TargetCondition::Missing);
        if present.any(|target| target.incarnation != incarnation) {
            // A new target gets the incarnation in the reply, and its server registers again at once; clients
            // can come after that. For a target of another incarnation, the operator of the data server has
            // to choose the incarnation to obey.
            let other = args.targets.iter().any(|target| ![0, incarnation].contains(&target.incarnation));
            if other && self.cluster.data_servers.refuse(server.id, Some(Status::OtherIncarnation)) {
                tracing::error!(
                    name = %server.name, epoch,
                    "not taken in: this data server obeys another incarnation of its metaservers, since this group was \
                     restored from a backup. If it is to serve the restored group from now on, run heorot ds adopt there"
                );
            }
            let map_version = self.cluster.map().head.version;
            return Ok(register::ResOk { map_version, networks: self.exported_networks(), ..answer });
        }
        if self.cluster.map().state(NodeKey::DataServer(server.id)) == NodeState::Removed {
            return Err(Status::NotFound);
        }
        if let Some(why) = self.cluster.service_address_refusal(&server) {
            if self.cluster.data_servers.refuse(server.id, Some(Status::AddressInUse)) {
                tracing::warn!(name = %server.name, "refused: its `service_address` cannot be had: {why}");
            }
            return Err(Status::AddressInUse);
        }
        if self.cluster.data_servers.refuse(server.id, None) {
            tracing::info!(name = %server.name, "is refused no longer");
        }
        let key = NodeKey::DataServer(server.id);
        self.cluster.clocks.note(key, args.clock_ms, self.cluster.clock_ms(), self.machine.clock.monotonic());
        let version = String::from_utf8_lossy(&args.version).into_owned();
        let registered = self.cluster.register(&server, args.known, version, &args.targets).await;
        let registered = registered.map_err(|error| match FileError::from(error) {
            FileError::NoSpace => Status::NoSpace,
            FileError::Io => Status::Io,
            _ => Status::Delay,
        })?;
        match registered {
            Registered::Yes { answers_again: true } => self.data.retry_now(&server.targets),
            Registered::Yes { answers_again: false } => {}
            Registered::OtherProcess(process) => return Ok(register::ResOk { process, ..answer }),
        }
        self.cluster.data_servers.note_refilling(server.id, args.process, args.refill);
        // After the command with its process: the chains that it is told are those of this process. Before the changes of
        // chains, which may wait for other data servers: its lease counts from its request.
        let lease = self.cluster.lease_chains(server.id).await;
        if let Err(error) = self.cluster.complete_members(&server.targets, &args.refilled).await {
            tracing::debug!(%error, "refilled members of chains are not in yet");
        }
        if let Err(error) = self.cluster.members_left(&server.targets, &args.left).await {
            tracing::debug!(%error, "members that left their chains are not out yet");
        }
        let map = self.cluster.map();
        let changed = map.head.version != args.map_version;
        let has_chains = !map.chains.is_empty();
        let serving = map
            .nodes
            .iter()
            .filter(|node| matches!(node.key, NodeKey::Metaserver(_)) && node.state != NodeState::Removed);
        Ok(register::ResOk {
            process: args.process,
            map_version: map.head.version,
            metaservers: match changed {
                true => serving.map(|node| Bytes::from(node.address.clone())).collect(),
                false => vec![],
            },
            networks: match changed {
                true => self.exported_networks(),
                false => vec![],
            },
            heartbeat_ms: if has_chains { HEARTBEAT_OF_MEMBERS } else { HEARTBEAT }.as_millis() as u32,
            chain_lease_ms: lease.as_millis() as u32,
            verify_at_scrub: self.cluster.verified_at_scrub(&server.targets),
            chains: match map.head.version != args.chains_of_map {
                true => self.cluster.chains_of(&server.targets),
                false => vec![],
            },
            ..answer
        })
    }

    /// Networks of all exports, for a data server.
    fn exported_networks(&self) -> Vec<Bytes> {
        self.cluster.exports.get().networks().iter().map(|network| Bytes::from(network.to_string())).collect()
    }

    /// Returns the cluster's status, for a data server's admin interface.
    async fn status_as_json(&self) -> cluster_status::Res {
        let status = self.status().await.map_err(|_| Status::Io)?;
        let json = serde_json::to_vec(&status).map_err(|_| Status::Io)?;
        Ok(cluster_status::ResOk { json: json.into() })
    }

    /// Returns the object's length in a file of its present size.
    async fn object_len(&self, handle: &Bytes) -> size::Res {
        let object = ObjectHandle::open(handle, &self.machine.key).ok_or(Status::BadHandle)?;
        if object.file.volume != self.machine.volume {
            return Err(Status::Stale);
        }
        self.machine.read_barrier().await.map_err(|_| Status::Io)?;
        let inode = {
            let view = self.machine.view().map_err(|_| Status::Io)?;
            let owner = read::owner(&*view, InodeId(object.file.inode)).map_err(|_| Status::Io)?;
            let file = owner.filter(|owner| !owner.is_kept).ok_or(Status::Stale)?.file;
            read::inode(&*view, file).map_err(|_| Status::Io)?
        };
        let inode = inode.filter(|i| i.generation == object.file.generation).ok_or(Status::Stale)?;
        let inode = self.data.true_inode(inode).await.map_err(|error| match error {
            FileError::Io => Status::Io,
            _ => Status::Delay,
        })?;
        match inode.kind {
            Kind::File(file) if object.column < file.layout.columns => {
                Ok(size::ResOk { len: file.layout.object_len(object.column, inode.size) })
            }
            _ => Err(Status::Stale),
        }
    }
}

/// Validates a REGISTER request.
fn data_server(args: &register::Args) -> Result<DataServer, Status> {
    let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).map_err(|_| Status::Invalid);
    if args.targets.len() > TARGETS_MAX
        || args.addresses.is_empty()
        || args.addresses.len() > ADDRESSES_MAX
        || args.name.len() > NAME_BYTES_MAX
        || args.version.len() > NAME_BYTES_MAX
    {
        return Err(Status::Invalid);
    }
    let addresses = args.addresses.iter().map(text).collect::<Result<Vec<_>, _>>()?;
    if addresses.iter().any(|a| a.parse::<std::net::SocketAddr>().is_err()) {
        return Err(Status::Invalid);
    }
    let service_address = match text(&args.service_address)? {
        none if none.is_empty() => None,
        address if is_service_address(&address) => Some(address),
        _ => return Err(Status::Invalid),
    };
    let targets = args.targets.iter().map(|space| TargetId(space.target)).collect();
    let (id, name, process) = (DataServerId(args.server), text(&args.name)?, args.process);
    let zone = text(&args.zone)?;
    if zone.len() > NAME_BYTES_MAX || zone.chars().any(char::is_control) {
        return Err(Status::Invalid);
    }
    Ok(DataServer { id, name, addresses, service_address, zone, targets, process })
}

/// True if clients of many machines can connect to this address.
fn is_service_address(text: &str) -> bool {
    let Ok(address) = text.parse::<std::net::SocketAddr>() else { return false };
    let ip = address.ip();
    address.port() != 0 && !ip.is_unspecified() && !ip.is_multicast() && !ip.is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(address: &'static str) -> register::Args {
        let name = Bytes::from_static(b"ds0");
        let version = Bytes::from_static(b"0.1.0");
        register::Args {
            server: 7,
            name,
            addresses: vec![address.into()],
            service_address: Bytes::new(),
            zone: Bytes::new(),
            targets: vec![],
            version,
            map_version: 0,
            clock_ms: 1_900_000_000_000,
            process: 0,
            known: 0,
            chains_of_map: 0,
            refilled: vec![],
            left: vec![],
            refill: register::Refill::default(),
        }
    }

    #[test]
    fn an_address_that_nobody_can_reach_is_refused() {
        assert_eq!(data_server(&args("10.0.0.5:2050")).map(|s| s.id), Ok(DataServerId(7)));
        for address in ["10.0.0.5", "ds0:2050", "", "10.0.0.5:99999"] {
            assert_eq!(data_server(&args(address)), Err(Status::Invalid), "{address}");
        }
        assert_eq!(data_server(&register::Args { addresses: vec![], ..args("") }), Err(Status::Invalid));
        let service = |address: &'static str| {
            data_server(&register::Args { service_address: address.into(), ..args("10.0.0.5:2050") })
        };
        assert_eq!(service("10.0.0.105:2050").map(|s| s.service_address), Ok(Some("10.0.0.105:2050".into())));
        assert_eq!(service("").map(|s| s.service_address), Ok(None));
        for address in ["10.0.0.105", "10.0.0.105:0", "0.0.0.0:2050", "127.0.0.1:2050", "224.0.0.1:2050", "x"]
        {
            assert_eq!(service(address), Err(Status::Invalid), "{address}");
        }
        let long = register::Args { name: vec![b'x'; 256].into(), ..args("10.0.0.5:2050") };
        assert_eq!(data_server(&long), Err(Status::Invalid));
        let in_zone = |zone: &str| {
            let zone = Bytes::copy_from_slice(zone.as_bytes());
            data_server(&register::Args { zone, ..args("10.0.0.5:2050") }).map(|server| server.zone)
        };
        assert_eq!(in_zone("rack-1"), Ok("rack-1".into()));
        assert_eq!(
            (in_zone("a\nb"), in_zone(&"x".repeat(256))),
            (Err(Status::Invalid), Err(Status::Invalid))
        );
    }
}
