//! LAYOUTSTATS (RFC 7862, section 15.7): bytes that a client read from and wrote to the data servers, by its
//! own count. They are added to the metrics.

use wire::nfs4::layoutstats::Args;
use wire::nfs4::{LayoutType, Status};

use super::getdeviceinfo::device_number;
use super::layouterror::check_layout;
use crate::Metaserver;
use crate::compound::Context;
use crate::errors::store_failed;

pub(crate) fn layoutstats(server: &Metaserver, context: &Context, args: Args) -> Result<(), Status> {
    if args.layout_type != LayoutType::FILES {
        return Err(Status::UnknownLayoutType);
    }
    let view = server.machine.view()?;
    check_layout(server, &*view, context, args.stateid)?;
    let device = device_number(args.deviceid);
    if namespace::read::device(&*view, device).map_err(store_failed)?.is_none() {
        return Err(Status::Inval);
    }
    server.data.reports.straight_read_bytes.inc_by(args.read.bytes);
    server.data.reports.straight_written_bytes.inc_by(args.write.bytes);
    Ok(())
}
