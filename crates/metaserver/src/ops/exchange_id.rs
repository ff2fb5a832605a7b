//! EXCHANGE_ID (RFC 8881, section 18.35).

use host::Repeated;
use namespace::{Command, Error, Principal, Reply};
use wire::nfs4::exchange_id::{
    Args, CONFIRMED_R, FLAGS_FROM_CLIENT, ResOk, SUPP_FENCE_OPS, ServerOwner, StateProtectArgs,
    StateProtectRes, UPD_CONFIRMED_REC_A, USE_PNFS_MDS,
};
use wire::nfs4::{ClientId, Status};
use wire::rpc::Credential;

use crate::errors::FileError;

use crate::Metaserver;
use crate::compound::Context;

/// Clients that were refused, since another client has their name.
static NAMES_TAKEN: Repeated = Repeated::new();

/// Principal of a call: the RPC credential that the client owner belongs to.
pub(super) fn principal(credential: &Credential) -> Principal {
    match credential {
        Credential::Sys(sys) => Principal::Sys { uid: sys.uid, machine: sys.machine.to_vec() },
        Credential::None | Credential::Unknown(_) => Principal::Nobody,
    }
}

pub(crate) async fn exchange_id(server: &Metaserver, context: &Context, args: Args) -> Result<ResOk, Status> {
    // SUPP_FENCE_OPS is not defined in 4.1. In 4.2 a client should ask for it, and nfs-rs does (RFC 7862,
    // section 14.1.3); pynfs test EID4 wrongly expects an error in 4.2, too.
    let known = match context.minor_version {
        1 => FLAGS_FROM_CLIENT & !SUPP_FENCE_OPS,
        _ => FLAGS_FROM_CLIENT,
    };
    if args.flags & !known != 0 {
        return Err(Status::Inval);
    }
    match args.state_protect {
        StateProtectArgs::None => {}
        // Both need RPCSEC_GSS (RFC 8881, section 2.10.8.3).
        StateProtectArgs::MachCred(_) => return Err(Status::Inval),
        StateProtectArgs::Ssv(_) => return Err(Status::EncrAlgUnsupp),
    }
    let address = context.connection.peer().ip();
    let command = Command::ExchangeId {
        address,
        owner: args.clientowner.ownerid.0.to_vec(),
        verifier: args.clientowner.verifier,
        principal: principal(&context.credential),
        update: args.flags & UPD_CONFIRMED_REC_A != 0,
    };
    let outcome = server.state.propose(None, command).await;
    if outcome == Err(FileError::State(Error::ClientInUse))
        && let Some(count) = NAMES_TAKEN.count()
    {
        tracing::info!(%address, count, owner = %args.clientowner.ownerid.0.escape_ascii(), "client refused: another client, at another address or with another credential, has its name; it is served when the lease of that one has run out");
    }
    let Reply::Client { id, sequence, confirmed } = outcome? else {
        return Err(Status::ServerFault);
    };
    // The lease of an unconfirmed client begins at the leader's first check: unknown hosts take no memory
    // here.
    if confirmed {
        server.state.renew(id).await?;
    }
    let name: String = server.cluster.id.iter().map(|b| format!("{b:02x}")).collect();
    let owner = bytes::Bytes::from(format!("heorot-{name}"));
    Ok(ResOk {
        clientid: ClientId(id.0),
        sequenceid: sequence,
        flags: USE_PNFS_MDS | if confirmed { CONFIRMED_R } else { 0 },
        state_protect: StateProtectRes::None,
        server_owner: ServerOwner { minor_id: 0, major_id: owner.clone().into() },
        server_scope: owner.into(),
        server_impl_id: None,
    })
}
