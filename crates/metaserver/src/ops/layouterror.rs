//! LAYOUTERROR (RFC 7862, section 15.6): a client reports an error of a data server, or that it could not
//! reach it. The error is logged, and the metaserver checks these data servers itself: a server that does not
//! answer gets no new files until it does.

use host::Repeated;
use namespace::{Inode, State, read};
use store::View;
use wire::nfs4::layouterror::Args;
use wire::nfs4::op::OpNum;
use wire::nfs4::{Stateid, Status};

use super::getdeviceinfo::device_number;
use crate::Metaserver;
use crate::compound::{Context, client, stateid};
use crate::errors::store_failed;

/// Maximum of errors processed in one call; further errors are ignored.
const ERRORS_MAX: usize = 16;
/// Reports of clients: each I/O of a client to a failed data server may be one.
static REPORTS: Repeated = Repeated::new();

pub(crate) fn layouterror(server: &Metaserver, context: &Context, args: Args) -> Result<(), Status> {
    let view = server.machine.view()?;
    let inode = check_layout(server, &*view, context, args.stateid)?;
    for error in args.errors.iter().take(ERRORS_MAX) {
        let operation = OpNum::from_u32(error.opnum).map_or("unknown", OpNum::name);
        let device = device_number(error.deviceid);
        let Some(device) = read::device(&*view, device).map_err(store_failed)? else {
            return Err(Status::Inval);
        };
        if let Some(count) = REPORTS.count() {
            tracing::warn!(
                client = %context.connection.peer(),
                inode = inode.id.0,
                device = device.id.0,
                operation,
                status = ?error.status,
                count,
                "a client reports that a data server failed it"
            );
        }
        server.data.reports.layout_errors.inc();
        let members: Vec<_> =
            device.chains.iter().flat_map(|chain| server.cluster.members_of(*chain)).collect();
        server.data.look_at(&members);
    }
    Ok(())
}

/// Returns the current file, if `given` is the caller's layout of it.
pub(super) fn check_layout(
    server: &Metaserver,
    view: &dyn View,
    context: &Context,
    given: Stateid,
) -> Result<Inode, Status> {
    let inode = server.current_file(view, context)?;
    let given = stateid(&context.state.resolve(given)?)?;
    match read::state(view, given.id).map_err(store_failed)? {
        // The sequence number is not checked: the error may have happened under an older layout stateid.
        Some(State::Layout(layout)) if layout.client == client(context)? && layout.inode == inode.id => {
            Ok(inode)
        }
        _ => Err(Status::BadStateid),
    }
}
