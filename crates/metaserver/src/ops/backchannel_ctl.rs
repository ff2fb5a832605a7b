//! BACKCHANNEL_CTL (RFC 8881, section 18.33): program number and RPC credential of callbacks.

use namespace::{Callback, CallbackCredential, Command, SessionId};
use wire::nfs4::Status;
use wire::nfs4::backchannel_ctl::{Args, AuthSysParms, CallbackSec};
use wire::rpc::SYS_GIDS_MAX;

use crate::Metaserver;
use crate::compound::Context;
use crate::state::sessions::credential;

pub(crate) async fn control(server: &Metaserver, context: &mut Context, args: Args) -> Result<(), Status> {
    let session = context.session.clone().ok_or(Status::OpNotInSession)?;
    let callback = callback(args.cb_program, args.sec_parms)?;
    let command = Command::BackchannelCtl { session: SessionId(session.id().0), callback: callback.clone() };
    server.change(context, |_| Ok(command)).await?;
    session.back.set_callback(callback.program, credential(&callback.credential));
    Ok(())
}

/// Program and credential of callbacks: the first supported entry of the client's list, since the client
/// refuses any other (section 18.36.3). Linux asks for AUTH_SYS, nfs-rs for AUTH_NONE.
///
/// # Errors
/// `NoEnt` when the list has only RPCSEC_GSS: it needs handles of the server, and this server has none.
pub(super) fn callback(program: u32, accepted: Vec<CallbackSec>) -> Result<Callback, Status> {
    let any = accepted.is_empty();
    let possible = accepted.into_iter().find_map(|accepted| match accepted {
        CallbackSec::None => Some(CallbackCredential::Nobody),
        CallbackSec::Sys(AuthSysParms { machine, uid, gid, gids, .. }) if gids.len() <= SYS_GIDS_MAX => {
            Some(CallbackCredential::Sys { machine: machine.0.to_vec(), uid, gid, gids })
        }
        CallbackSec::Sys(_) | CallbackSec::Gss(_) => None,
    });
    let credential = possible.or(any.then_some(CallbackCredential::Nobody)).ok_or(Status::NoEnt)?;
    Ok(Callback { program, credential })
}
