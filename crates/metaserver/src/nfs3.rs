//! NFS version 3 as a program: each call goes to its file in `ops3`.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use namespace::InodeId;
use nfs::{Answer, CallId, Connection, Keep, OperationLabels, Program};
use wire::nfs3::{Call, Failure, PROGRAM, Procedure, Status, VERSION};
use wire::rpc::{AuthStat, CallHeader, Rejection};
use wire::xdr::{Decoder, Encode, Encoder, Message};

use crate::data::hold::held;
use crate::errors::FileError;
use crate::user::User;
use crate::{Metaserver, ops3};

/// Time limit of a change without a leader. After it, the change is dropped. The state machine keeps calls
/// (`namespace::calls`) twice as long, so that it never takes a late retry for a new call.
const CHANGE_TIME_MAX: Duration = Duration::from_secs(60);

/// NFS version 3 over a metaserver.
pub(crate) struct Nfs3Program(pub Arc<Metaserver>);

impl Program for Nfs3Program {
    fn number(&self) -> u32 {
        PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        VERSION..=VERSION
    }

    fn trusts(&self, _: &CallHeader, _: Decoder, connection: &Connection) -> bool {
        self.0.admission.check_admitted(connection).is_ok()
    }

    fn is_out_of_service(&self) -> bool {
        self.0.machine.replica.is_out_of_service()
    }

    fn call(self: Arc<Self>, mut call: nfs::Call) -> Answer {
        Box::pin(async move {
            let server = &*self.0;
            let procedure =
                Procedure::from_u32(call.header.procedure).ok_or(Rejection::ProcedureUnavailable)?;
            // Computed before the arguments are decoded. Other calls need no id, and may have a megabyte of
            // arguments.
            let id = must_be_done_once(procedure).then(|| CallId::of(&call));
            let arguments =
                Call::decode(procedure, &mut call.arguments).map_err(|_| Rejection::GarbageArguments)?;
            if let Call::Null(_) = arguments {
                return Ok(Message::default()); // every client may test whether the server is alive
            }
            let refused =
                |status| server.admission.note_refused(&call.connection, status, procedure.name().as_bytes());
            let too_weak = |status| {
                refused(status);
                Rejection::Auth(AuthStat::TooWeak)
            };
            server.admission.check_admitted(&call.connection).map_err(too_weak)?;
            let export =
                arguments.object().map_or(Ok(InodeId::ROOT), |handle| server.machine.export_of(handle));
            let user = |export| server.admission.user(&call.connection, &call.header.credential, export);
            let user = match export.and_then(user) {
                Ok(user) => user,
                Err(status @ FileError::Access) => return Err(too_weak(status)),
                Err(status) => {
                    if status == FileError::Stale {
                        refused(status); // a handle of an export that does not admit this client
                    }
                    return Ok(ops3::refused::refused(procedure, status));
                }
            };
            let start = server.machine.clock.monotonic();
            // Without space the client has closed its connection: the reply would not be read.
            call.room.take(payload_bytes(&arguments)).await.map_err(|_| Rejection::SystemError)?;
            // Linux takes an error for a disk error: the call waits until there is a leader.
            while let Err(status) = server.admission.barrier_before_call3(&call.connection, procedure).await {
                if status != FileError::Delay || !call.connection.is_open() {
                    return Err(Rejection::SystemError);
                }
            }
            if !server.cluster.may_answer(&call.connection, start) {
                return Err(Rejection::SystemError);
            }
            let work = async {
                let hold = server.data.hold(&call.connection, None);
                let (results, failed) = held(hold, carry_out(server, &user, arguments, &known_by(id))).await;
                let labels = OperationLabels { protocol: "nfs3", operation: procedure.name() };
                server.metrics.operation(
                    labels,
                    server.machine.clock.monotonic().saturating_sub(start),
                    failed,
                );
                results
            };
            let Some(id) = id else {
                return tokio::select! {
                    biased;
                    results = work => Ok(results),
                    // The client retries over another connection, perhaps to another metaserver: a write here
                    // could come after its later writes.
                    () = call.connection.ended() => Err(Rejection::SystemError),
                };
            };
            let kept = async {
                let results = work.await;
                let keep = if is_jukebox(&results) { Keep::Nothing } else { Keep::Reply };
                (results, keep)
            };
            let once = tokio::time::timeout(CHANGE_TIME_MAX, server.drc.once(id, kept)).await;
            once.map_err(|_| {
                call.connection.close(); // Linux takes an error as final, but retries on a lost connection
                Rejection::SystemError
            })
        })
    }
}

/// Payload bytes of a reply, at most, for procedures with large replies.
fn payload_bytes(call: &Call) -> usize {
    let asked = match call {
        Call::Read(args) => args.count,
        Call::ReadDir(args) => args.count,
        Call::ReadDirPlus(args) => args.maxcount,
        _ => 0,
    };
    asked.min(ops3::TRANSFER_BYTES_MAX) as usize
}

/// True for calls that must be answered once: a retry would get another answer. Not for WRITE and COMMIT.
fn must_be_done_once(procedure: Procedure) -> bool {
    match procedure {
        Procedure::SetAttr
        | Procedure::Create
        | Procedure::MkDir
        | Procedure::SymLink
        | Procedure::MkNod
        | Procedure::Remove
        | Procedure::RmDir
        | Procedure::Rename
        | Procedure::Link => true,
        Procedure::Null
        | Procedure::GetAttr
        | Procedure::Lookup
        | Procedure::Access
        | Procedure::ReadLink
        | Procedure::Read
        | Procedure::Write
        | Procedure::ReadDir
        | Procedure::ReadDirPlus
        | Procedure::FsStat
        | Procedure::FsInfo
        | Procedure::PathConf
        | Procedure::Commit => false,
    }
}

/// True if the reply has the status NFS3ERR_JUKEBOX.
fn is_jukebox(results: &Message) -> bool {
    let status = results.segments.first().and_then(|first| first.first_chunk::<4>());
    status.is_some_and(|status| u32::from_be_bytes(*status) == Status::Jukebox as u32)
}

/// Call id for the state machine; the default for calls that are not recorded.
fn known_by(id: Option<CallId>) -> namespace::CallId {
    let known = |CallId { client: from, xid, procedure, checksum }: CallId| {
        let client = match from.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        namespace::CallId { client: client.octets(), port: from.port(), xid, procedure, checksum }
    };
    id.map(known).unwrap_or_default()
}

async fn carry_out(server: &Metaserver, user: &User, call: Call, id: &namespace::CallId) -> (Message, bool) {
    match call {
        Call::Null(_) => (Message::default(), false),
        Call::GetAttr(args) => encoded(ops3::getattr::getattr(server, args).await),
        Call::SetAttr(args) => encoded(ops3::setattr::setattr(server, user, id, args).await),
        Call::Lookup(args) => encoded(ops3::lookup::lookup(server, user, args).await),
        Call::Access(args) => encoded(ops3::access::access(server, user, args)),
        Call::ReadLink(args) => encoded(ops3::readlink::readlink(server, args)),
        Call::Read(args) => encoded(ops3::read::read(server, user, args).await),
        Call::Write(args) => encoded(ops3::write::write(server, user, args).await),
        Call::Create(args) => encoded(ops3::create::create(server, user, id, args).await),
        Call::MkDir(args) => encoded(ops3::mkdir::mkdir(server, user, id, args).await),
        Call::SymLink(args) => encoded(ops3::symlink::symlink(server, user, id, args).await),
        Call::MkNod(args) => encoded(ops3::mknod::mknod(server, user, id, args).await),
        Call::Remove(args) => encoded(ops3::remove::remove(server, user, id, args).await),
        Call::RmDir(args) => encoded(ops3::rmdir::rmdir(server, user, id, args).await),
        Call::Rename(args) => encoded(ops3::rename::rename(server, user, id, args).await),
        Call::Link(args) => encoded(ops3::link::link(server, user, id, args).await),
        Call::ReadDir(args) => encoded(ops3::readdir::readdir(server, user, args)),
        Call::ReadDirPlus(args) => encoded(ops3::readdirplus::readdirplus(server, user, args)),
        Call::FsStat(args) => encoded(ops3::fsstat::fsstat(server, args)),
        Call::FsInfo(args) => encoded(ops3::fsinfo::fsinfo(server, args)),
        Call::PathConf(args) => encoded(ops3::pathconf::pathconf(server, args)),
        Call::Commit(args) => encoded(ops3::commit::commit(server, user, args).await),
    }
}

/// Encodes the results; the second value is true for a failure.
fn encoded<T: Encode, F: Encode>(result: Result<T, Failure<F>>) -> (Message, bool) {
    let mut e = Encoder::new();
    result.encode(&mut e);
    (e.finish(), result.is_err())
}
