//! GETDEVICEINFO (RFC 8881, section 18.40): the data servers of a device, in the order of its targets.

use std::net::SocketAddr;

use bytes::Bytes;
use namespace::{DeviceId, read};
use wire::nfs4::getdeviceinfo::{Args, DeviceAddr, Error, ResOk};
use wire::nfs4::layout_files::{self, DsAddr};
use wire::nfs4::{self, Bitmap, LayoutType, NetAddr, Status};

use crate::Metaserver;
use crate::errors::store_failed;

/// A device id on the wire: our number, and zeros.
pub(super) fn wire_device(id: DeviceId) -> nfs4::DeviceId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&id.0.to_be_bytes());
    nfs4::DeviceId(bytes)
}

fn device(id: nfs4::DeviceId) -> Option<DeviceId> {
    let [a, b, c, d, e, f, g, h, rest @ ..] = id.0;
    (rest == [0; 8]).then_some(DeviceId(u64::from_be_bytes([a, b, c, d, e, f, g, h])))
}

pub(crate) fn getdeviceinfo(server: &Metaserver, args: Args) -> Result<ResOk, Error> {
    if args.layout_type != LayoutType::FILES {
        return Err(Status::UnknownLayoutType.into());
    }
    let view = server.view()?;
    let id = device(args.device_id).ok_or(Status::NoEnt)?;
    let device = read::device(&*view, id).map_err(store_failed)?.ok_or(Status::NoEnt)?;
    let servers = read::data_servers(&*view).map_err(store_failed)?;
    let mut list: Vec<Vec<NetAddr>> = Vec::new();
    let mut stripe_indices = Vec::new();
    for target in device.targets {
        // Targets of one data server are one entry: the handle says which target is meant.
        let server = servers.iter().find(|s| s.targets.contains(&target)).ok_or(Status::NoEnt)?;
        let addresses: Vec<_> = server.addresses.iter().filter_map(|a| net_addr(a)).collect();
        let index = list.iter().position(|known| *known == addresses).unwrap_or_else(|| {
            list.push(addresses);
            list.len() - 1
        });
        stripe_indices.push(index as u32);
    }
    let body = layout_files::to_body(&DsAddr { stripe_indices, multipath_ds_list: list });
    // maxcount covers the whole device_addr4: type, length and body.
    let mincount = body.len() as u32 + 8;
    if args.maxcount != 0 && args.maxcount < mincount {
        return Err(Error::TooSmall { mincount });
    }
    let device_addr = DeviceAddr { layout_type: LayoutType::FILES, body };
    Ok(ResOk { device_addr, notification: Bitmap::EMPTY })
}

/// A universal address: the host, and the port as two more numbers (RFC 5665, section 5.2.3.3).
fn net_addr(address: &str) -> Option<NetAddr> {
    let address: SocketAddr = address.parse().ok()?;
    let (high, low) = (address.port() >> 8, address.port() & 0xff);
    let netid = if address.is_ipv4() { "tcp" } else { "tcp6" };
    Some(NetAddr {
        netid: Bytes::from_static(netid.as_bytes()),
        uaddr: Bytes::from(format!("{}.{high}.{low}", address.ip())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_two_numbers() {
        assert_eq!(net_addr("10.77.0.1:2050").unwrap().uaddr, "10.77.0.1.8.2");
        assert_eq!(net_addr("[fd00::1]:2050").unwrap().netid, "tcp6");
        assert_eq!(device(wire_device(DeviceId(7))), Some(DeviceId(7)));
        assert_eq!(net_addr("somewhere"), None);
    }
}
