//! GETDEVICEINFO (RFC 8881, section 18.40): the data servers of a device, in the order of its targets.

use std::net::SocketAddr;

use bytes::Bytes;
use namespace::{DeviceId, read};
use store::View;
use wire::nfs4::getdeviceinfo::{Args, DeviceAddr, Error, ResOk};
use wire::nfs4::layout_files::{self, DsAddr};
use wire::nfs4::{self, Bitmap, LayoutType, NetAddr, Status};

use crate::Metaserver;
use crate::errors::store_failed;

/// NOTIFY_DEVICEID4_CHANGE and NOTIFY_DEVICEID4_DELETE (RFC 8881, section 20.12).
const NOTIFY_CHANGE: u32 = 1;
const NOTIFY_DELETE: u32 = 2;

/// A device as clients know it: an id, and the data servers behind it.
///
/// ```text
/// id on the wire  │ our number 8 │ hash of the addresses 8 │
/// ```
///
/// Clients keep what they learn of a device until the id goes away. So a data server that comes back under
/// another address gets its devices new ids: the next layout names them, and nobody goes to the old address
/// again.
pub(super) struct WireDevice {
    pub id: nfs4::DeviceId,
    body: Bytes,
}

impl WireDevice {
    /// The device as its data servers are reached now.
    pub(super) fn find(view: &dyn View, id: DeviceId) -> Result<Self, Status> {
        let device = read::device(view, id).map_err(store_failed)?.ok_or(Status::NoEnt)?;
        let servers = read::data_servers(view).map_err(store_failed)?;
        let mut list: Vec<Vec<NetAddr>> = Vec::new();
        for target in device.targets {
            // An entry for each target, also where a data server has several: a layout's handles go by these
            // entries, and the handle says which target is meant. Clients share the connections of equal
            // addresses.
            let server = servers.iter().find(|s| s.targets.contains(&target)).ok_or(Status::NoEnt)?;
            list.push(server.addresses.iter().filter_map(|a| net_addr(a)).collect());
        }
        let stripe_indices = (0..list.len() as u32).collect();
        let body = layout_files::to_body(&DsAddr { stripe_indices, multipath_ds_list: list });
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&id.0.to_be_bytes());
        bytes[8..].copy_from_slice(&fnv1a(&body).to_be_bytes());
        Ok(Self { id: nfs4::DeviceId(bytes), body })
    }
}

/// Our number of a device.
pub(super) fn device_number(id: nfs4::DeviceId) -> DeviceId {
    let [a, b, c, d, e, f, g, h, ..] = id.0;
    DeviceId(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
}

/// FNV-1a: the same in every version of the program, and nobody gains by a collision.
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
    let device = WireDevice::find(&*view, device_number(args.device_id))?;
    if device.id != args.device_id {
        return Err(Status::NoEnt.into());
    }
    // maxcount covers the whole device_addr4: type, length and body.
    let mincount = device.body.len() as u32 + 8;
    if args.maxcount != 0 && args.maxcount < mincount {
        return Err(Error::TooSmall { mincount });
    }
    // What an id stands for never changes, and one that no layout names any more does no harm in a client's
    // cache: there is never anything to notify. Linux keeps a device for the next layout only if it is
    // promised both; without them it makes a new session with a data server for every file.
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
