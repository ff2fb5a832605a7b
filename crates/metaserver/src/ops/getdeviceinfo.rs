//! GETDEVICEINFO (RFC 8881, section 18.40): the data servers of a device, in the order of its chains.

use std::net::SocketAddr;

use bytes::Bytes;
use cluster::Cluster;
use namespace::{ChainId, DeviceId, InodeId, IoMode, TargetId, read};
use store::View;
use wire::nfs4::getdeviceinfo::{Args, DeviceAddr, Error, ResOk};
use wire::nfs4::layout_files::{self, DsAddr};
use wire::nfs4::{self, Bitmap, LayoutType, NetAddr, Status};

use crate::Metaserver;
use crate::errors::store_failed;

/// NOTIFY_DEVICEID4_CHANGE and NOTIFY_DEVICEID4_DELETE (RFC 8881, section 20.12).
const NOTIFY_CHANGE: u32 = 1;
const NOTIFY_DELETE: u32 = 2;

/// A device in the wire format: its id, and the addresses of its data servers.
///
/// ```text
/// id on the wire  │ role 1 │ device number 7 │ hash of the addresses 8 │
/// ```
///
/// A column with copies has several data servers. A layout to write names the heads of the chains; one to read the
/// members that [`Role::Read`] picks. Each has an id of its own.
///
/// Clients keep a device in their cache until its id goes away. So when a data server changes its addresses,
/// its devices get new ids: the next layout has the new ids, and clients stop using the old address.
pub(super) struct WireDevice {
    pub id: nfs4::DeviceId,
    body: Bytes,
}

/// Members of chains that the data servers of a device are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The heads.
    Write,
    /// The members at this place, from 0, modulo their number.
    Read(u8),
}

impl Role {
    /// Role of a layout of this file, on a device of chains with this number of copies. Readers of different files go
    /// to different members.
    pub(super) fn of(mode: IoMode, inode: InodeId, copies: u8) -> Self {
        match mode {
            IoMode::Read if copies > 1 => Role::Read((inode.0 % u64::from(copies)) as u8),
            IoMode::Read | IoMode::ReadWrite => Role::Write,
        }
    }

    fn byte(self) -> u8 {
        match self {
            Role::Write => 0,
            Role::Read(place) => 1 + place,
        }
    }

    /// The member of a chain.
    pub(super) fn target(self, cluster: &Cluster, chain: ChainId) -> TargetId {
        match self {
            Role::Write => cluster.head_of(chain),
            Role::Read(place) => cluster.reader_of(chain, place.into()),
        }
    }
}

impl WireDevice {
    /// Returns the device with the current addresses of its data servers.
    pub(super) fn find(cluster: &Cluster, view: &dyn View, id: DeviceId, role: Role) -> Result<Self, Status> {
        let device = read::device(view, id).map_err(store_failed)?.ok_or(Status::NoEnt)?;
        let servers = read::data_servers(view).map_err(store_failed)?;
        let mut list: Vec<Vec<NetAddr>> = Vec::new();
        for chain in device.chains {
            let target = role.target(cluster, chain);
            // One entry for each chain, even if a data server has several: handles of a layout are indexed
            // by these entries, and each handle names its target. Clients share connections to equal
            // addresses.
            let server = servers.iter().find(|s| s.targets.contains(&target)).ok_or(Status::NoEnt)?;
            let addresses = match &server.service_address {
                Some(address) => std::slice::from_ref(address),
                None => &server.addresses[..],
            };
            list.push(addresses.iter().filter_map(|a| net_addr(a)).collect());
        }
        let stripe_indices = (0..list.len() as u32).collect();
        let body = layout_files::to_body(&DsAddr { stripe_indices, multipath_ds_list: list });
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&id.0.to_be_bytes());
        bytes[0] = role.byte();
        bytes[8..].copy_from_slice(&fnv1a(&body).to_be_bytes());
        Ok(Self { id: nfs4::DeviceId(bytes), body })
    }
}

/// Device number in a wire device id.
pub(super) fn device_number(id: nfs4::DeviceId) -> DeviceId {
    let [_, b, c, d, e, f, g, h, ..] = id.0;
    DeviceId(u64::from_be_bytes([0, b, c, d, e, f, g, h]))
}

fn role(id: nfs4::DeviceId) -> Role {
    id.0[0].checked_sub(1).map_or(Role::Write, Role::Read)
}

/// FNV-1a hash: the same in every version of the program, and a collision is no security risk.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

pub(crate) fn getdeviceinfo(server: &Metaserver, args: Args) -> Result<ResOk, Error> {
    if args.layout_type != LayoutType::FILES {
        return Err(Status::UnknownLayoutType.into());
    }
    let view = server.machine.view()?;
    let (number, role) = (device_number(args.device_id), role(args.device_id));
    let device = WireDevice::find(&server.cluster, &*view, number, role)?;
    if device.id != args.device_id {
        return Err(Status::NoEnt.into());
    }
    // maxcount is for the whole device_addr4: type, length and body.
    let mincount = device.body.len() as u32 + 8;
    if args.maxcount != 0 && args.maxcount < mincount {
        return Err(Error::TooSmall { mincount });
    }
    // No notification is ever needed: the meaning of an id never changes, and an unused id in a client's
    // cache does no harm. But Linux keeps a device for the next layout only if both are promised; otherwise
    // it makes a new session with a data server for every file.
    let notification = args.notify_types.intersection(&Bitmap::of(&[NOTIFY_CHANGE, NOTIFY_DELETE]));
    let device_addr = DeviceAddr { layout_type: LayoutType::FILES, body: device.body };
    Ok(ResOk { device_addr, notification })
}

fn net_addr(address: &str) -> Option<NetAddr> {
    let address: SocketAddr = address.parse().ok()?;
    Some(NetAddr::tcp(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_two_numbers() {
        assert_eq!(net_addr("10.77.0.1:2050").unwrap().uaddr, "10.77.0.1.8.2");
        assert_eq!(net_addr("[fd00::1]:2050").unwrap().netid, "tcp6");
        assert_eq!(net_addr("somewhere"), None);
    }
}
