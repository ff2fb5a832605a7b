//! COMPOUND (RFC 8881, sections 2.10.6 and 16.2): executes operations in order until one fails.
//!
//! ```text
//! header ─▶ SEQUENCE: session, slot ─┬─ retry: the reply that the slot keeps
//!                                    └─ new: operation, operation, … ─▶ reply, kept in the slot
//! ```

mod lengths;

use std::future::Future;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Instant;

use wire::nfs4::compound::{self, CompoundHeader};
use wire::nfs4::{self, ArgOp, OwnerName, ResOp, SessionId, Stateid, Status, sequence};
use wire::rpc::{CallHeader, Credential, Rejection};
use wire::xdr::{Decode, Decoder, Message};

use self::lengths::{changing_result_bytes, delegation_returned, payload_bytes};
use crate::session::{RequestFingerprint, Session, SlotAnswer};
use crate::{Answer, Call, Connection, Metrics, NoRoom, OperationLabels, Program, ReplyRoom};

/// Reply header before the results: status, tag and result count; and some bytes for the last operation's
/// status.
const REPLY_OVERHEAD_BYTES: usize = 64;
/// Result of SEQUENCE: operation, status, session id, and five words.
const SEQUENCE_RESULT_BYTES: usize = 44;
/// RPC call header with empty credential and verifier (RFC 5531, section 9).
const CALL_HEADER_BYTES_MIN: usize = 40;

/// Position of an operation: session, slot, sequence and index in the compound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Session.
    pub session: SessionId,
    /// Slot.
    pub slot: u32,
    /// Sequence of the slot.
    pub sequence: u32,
    /// Index of the operation in the compound; SEQUENCE has 0.
    pub operation: u32,
}

/// State that the operations of one compound share.
pub struct CompoundContext<S> {
    /// Connection of the call.
    pub connection: Arc<Connection>,
    /// Credential of the caller.
    pub credential: Credential,
    /// Minor version: 1 or 2.
    pub minor_version: u32,
    /// The session, when the compound began with SEQUENCE.
    pub session: Option<Arc<Session>>,
    /// Position of the present operation in the session.
    pub position: Option<Position>,
    /// True if another server may be carrying out the compound, too: the client may have sent it there before.
    pub may_be_elsewhere: bool,
    /// The delegation that the next operation returns.
    pub returns_next: Option<Stateid>,
    /// True if the present operation is the last one.
    pub is_last: bool,
    /// Byte limit of the present operation's results.
    pub room_bytes: usize,
    /// Reply budget for the payloads of the whole compound.
    reply_room: ReplyRoom,
    /// State of the server: current and saved filehandle and so on.
    pub state: S,
}

impl<S> CompoundContext<S> {
    /// True if the compound has only the present operation, on a filehandle: its error is no other
    /// operation's.
    #[must_use]
    pub fn stands_by_itself(&self) -> bool {
        // After SEQUENCE and PUTFH.
        self.is_last && self.position.is_some_and(|position| position.operation == 2)
    }
}

/// NFSv4 server: executes each operation except SEQUENCE.
pub trait Nfs4: Send + Sync + 'static {
    /// State of the server for one compound.
    type State: Default + Send;

    /// Finds the session with this id, or adopts it. None: no such session (BADSESSION).
    fn session(&self, id: SessionId) -> impl Future<Output = Option<Arc<Session>>> + Send;

    /// True if this server has the session in memory: no request to another server, no adoption.
    fn knows(&self, id: SessionId) -> bool;

    /// True if this server has been the only one for these sessions since it has them.
    fn serves_alone(&self) -> bool {
        true
    }

    /// Begins a request of this session: renews the client lease. Returns SEQUENCE's status flags, or
    /// SEQUENCE's error status when the session has ended. After success the connection is associated with
    /// the session.
    fn sequenced(
        &self,
        session: &Session,
        context: &mut CompoundContext<Self::State>,
    ) -> impl Future<Output = Result<u32, Status>> + Send;

    /// Executes one operation.
    fn operation(
        &self,
        context: &mut CompoundContext<Self::State>,
        op: ArgOp,
    ) -> impl Future<Output = ResOp> + Send;

    /// Counters of operations.
    fn metrics(&self) -> &Metrics;

    /// See [`Program::is_out_of_service`].
    fn is_out_of_service(&self) -> bool {
        false
    }
}

/// NFSv4 as an RPC program, around a server.
pub struct Nfs4Program<N>(pub Arc<N>);

impl<N: Nfs4> Program for Nfs4Program<N> {
    fn number(&self) -> u32 {
        nfs4::PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        nfs4::VERSION..=nfs4::VERSION
    }

    /// A known session is trusted: only its client knows the session id.
    fn trusts(&self, header: &CallHeader, mut arguments: Decoder, _: &Connection) -> bool {
        if header.procedure != nfs4::PROC_COMPOUND {
            return false;
        }
        let Ok(CompoundHeader { minor_version, .. }) = CompoundHeader::decode(&mut arguments) else {
            return false;
        };
        match ArgOp::decode(&mut arguments, minor_version) {
            Ok(ArgOp::Sequence(args)) => self.0.knows(args.sessionid),
            _ => false,
        }
    }

    fn call(self: Arc<Self>, call: Call) -> Answer {
        Box::pin(async move {
            match call.header.procedure {
                nfs4::PROC_NULL => Ok(Message::default()),
                nfs4::PROC_COMPOUND => compound(&*self.0, call).await,
                _ => Err(Rejection::ProcedureUnavailable),
            }
        })
    }

    fn is_out_of_service(&self) -> bool {
        self.0.is_out_of_service()
    }
}

async fn compound<N: Nfs4>(server: &N, mut call: Call) -> Result<Message, Rejection> {
    if let Credential::Unknown(_) = call.header.credential {
        return Err(Rejection::Auth(wire::rpc::AuthStat::RejectedCred));
    }
    let request_bytes = CALL_HEADER_BYTES_MIN + call.arguments.remaining();
    let header = CompoundHeader::decode(&mut call.arguments).map_err(|_| Rejection::GarbageArguments)?;
    let mut results = Results { tag: header.tag.clone(), done: Vec::new(), bytes: 0, status: Status::Ok };
    if !(1..=2).contains(&header.minor_version) {
        results.status = Status::MinorVersMismatch;
        return Ok(results.finish());
    }
    // Names are bytes to this server; the tag is the one string that must be UTF-8 (RFC 8881, section
    // 16.2.3).
    if std::str::from_utf8(&header.tag.0).is_err() {
        results.status = Status::Inval;
        return Ok(results.finish());
    }
    if header.op_count == 0 {
        return Ok(results.finish());
    }
    let mut context = CompoundContext {
        connection: call.connection,
        credential: call.header.credential,
        minor_version: header.minor_version,
        session: None,
        position: None,
        may_be_elsewhere: false,
        returns_next: None,
        is_last: true,
        room_bytes: 1 << 20,
        reply_room: call.room,
        state: N::State::default(),
    };
    let mut ops = call.arguments;
    let first = ArgOp::decode(&mut ops, header.minor_version);
    match first {
        Ok(ArgOp::Sequence(args)) => {
            let request =
                Request { sequence: args, header: &header, ops, bytes: request_bytes, cut: call.cut };
            in_session(server, context, request, results).await
        }
        Ok(op) if stands_alone(&op) => {
            if header.op_count > 1 {
                results.push(&ResOp::refused(op.number(), Status::NotOnlyOp));
            } else {
                let result = timed(server, &mut context, op).await;
                results.push(&result);
            }
            Ok(results.finish())
        }
        Ok(op) => {
            let status = match op {
                ArgOp::Illegal(_) => Status::OpIllegal,
                _ => Status::OpNotInSession,
            };
            results.push(&ResOp::refused(op.number(), status));
            Ok(results.finish())
        }
        Err(bad) => {
            results.push(&ResOp::refused(bad.number, Status::BadXdr));
            Ok(results.finish())
        }
    }
}

/// Operations that are allowed without a session, alone in their compound (RFC 8881, section 2.10.2.1).
fn stands_alone(op: &ArgOp) -> bool {
    matches!(
        op,
        ArgOp::ExchangeId(_)
            | ArgOp::CreateSession(_)
            | ArgOp::DestroySession(_)
            | ArgOp::DestroyClientid(_)
            | ArgOp::BindConnToSession(_)
    )
}

/// A compound that began with SEQUENCE.
struct Request<'a> {
    sequence: sequence::Args,
    header: &'a CompoundHeader,
    /// Decoder at the second operation.
    ops: Decoder,
    /// Lower bound of the request's length in bytes.
    bytes: usize,
    /// True if the record was cut: not all operations are there.
    cut: bool,
}

async fn in_session<N: Nfs4>(
    server: &N,
    mut context: CompoundContext<N::State>,
    request: Request<'_>,
    mut results: Results,
) -> Result<Message, Rejection> {
    let Request { sequence: args, header, mut ops, bytes, cut } = request;
    let refuse = |mut results: Results, status| {
        results.push(&ResOp::Sequence(Err(status)));
        Ok(results.finish())
    };
    let Some(session) = server.session(args.sessionid).await else {
        return refuse(results, Status::BadSession);
    };
    if cut {
        // Another metaserver made the session a moment ago: this server has adopted it when the client
        // retries.
        return refuse(results, Status::Delay);
    }
    let limits = *session.limits();
    if header.op_count > limits.operations_max {
        return refuse(results, Status::TooManyOps);
    }
    if bytes > limits.request_bytes_max as usize {
        return refuse(results, Status::ReqTooBig);
    }
    let (reply_max, too_big) = match args.cachethis {
        true if limits.cached_bytes_max < limits.response_bytes_max => {
            (limits.cached_bytes_max, Status::RepTooBigToCache)
        }
        _ => (limits.response_bytes_max, Status::RepTooBig),
    };
    if (reply_max as usize) < REPLY_OVERHEAD_BYTES + SEQUENCE_RESULT_BYTES {
        return refuse(results, too_big);
    }
    let fingerprint = RequestFingerprint {
        uid: match &context.credential {
            Credential::Sys(sys) => Some(sys.uid),
            Credential::None | Credential::Unknown(_) => None,
        },
        keep: args.cachethis,
        operations: header.op_count,
        bytes,
    };
    let alone = server.serves_alone();
    if !alone && !context.connection.is_associated(args.sessionid) {
        session.comes_from_elsewhere();
    }
    let attempt = match session.begin(args.slotid, args.sequenceid, fingerprint, alone) {
        Err(status) => return refuse(results, status),
        Ok(SlotAnswer::Replay(reply)) => {
            // Not if the client has ended meanwhile: the state that the reply tells of is gone.
            return match server.sequenced(&session, &mut context).await {
                Ok(_) => Ok(reply),
                Err(status) => refuse(results, status),
            };
        }
        Ok(SlotAnswer::Execute { may_be_elsewhere, attempt }) => {
            context.may_be_elsewhere = may_be_elsewhere;
            attempt
        }
    };
    // Set here and not when the session is made: an adopted session may come from an earlier process of this
    // server.
    session.back.set_minor_version(header.minor_version);
    let slot = SlotGuard { session: &session, slot: args.slotid, attempt };
    let status_flags = match server.sequenced(&session, &mut context).await {
        Ok(flags) => flags,
        Err(status) => return refuse(results, status),
    };
    context.connection.associate(args.sessionid);
    results.push(&ResOp::Sequence(Ok(sequence::ResOk {
        sessionid: args.sessionid,
        sequenceid: args.sequenceid,
        slotid: args.slotid,
        highest_slotid: limits.slots - 1,
        target_highest_slotid: limits.slots - 1,
        status_flags,
    })));
    context.session = Some(Arc::clone(&session));
    for left in (1..header.op_count).rev() {
        let (session, slot, sequence) = (args.sessionid, args.slotid, args.sequenceid);
        context.position = Some(Position { session, slot, sequence, operation: header.op_count - left });
        context.room_bytes = (reply_max as usize).saturating_sub(results.bytes + REPLY_OVERHEAD_BYTES);
        let result = match ArgOp::decode(&mut ops, header.minor_version) {
            Err(bad) => ResOp::refused(bad.number, Status::BadXdr),
            Ok(ArgOp::Sequence(_)) => ResOp::Sequence(Err(Status::SequencePos)),
            // DESTROY_SESSION ends the session that the remaining operations need (section 18.37.3).
            Ok(ArgOp::DestroySession(op)) if op.sessionid == args.sessionid && left > 1 => {
                ResOp::DestroySession(Err(Status::NotOnlyOp))
            }
            // BIND_CONN_TO_SESSION depends on its connection: a slot must not replay its reply (section
            // 18.34.3).
            Ok(op @ ArgOp::BindConnToSession(_)) => op.refused(Status::NotOnlyOp),
            // Refuse before execution: a change without its reply would be lost to the client.
            Ok(op) if changing_result_bytes(&op) > context.room_bytes => op.refused(too_big),
            Ok(op) => {
                let number = op.number();
                context.is_last = left == 1;
                context.returns_next = match op {
                    ArgOp::GetAttr(_) if left > 1 => delegation_returned(&ops, header.minor_version),
                    _ => None,
                };
                let result = timed(server, &mut context, op).await;
                let message = compound::encode_op(&result);
                if message.len <= context.room_bytes {
                    results.push_encoded(result.status(), message);
                    if results.status != Status::Ok {
                        break;
                    }
                    continue;
                }
                ResOp::refused(number, too_big)
            }
        };
        results.push(&result);
        if results.status != Status::Ok {
            break;
        }
    }
    let reply = results.finish();
    slot.session.finish(args.slotid, attempt, &reply, args.cachethis);
    Ok(reply)
}

async fn timed<N: Nfs4>(server: &N, context: &mut CompoundContext<N::State>, op: ArgOp) -> ResOp {
    let labels = OperationLabels { protocol: "nfs4", operation: op.name() };
    let start = Instant::now();
    let result = match context.reply_room.take(payload_bytes(&op).min(context.room_bytes)).await {
        Ok(()) => server.operation(context, op).await,
        Err(NoRoom) => op.refused(Status::Delay),
    };
    server.metrics().operation(labels, start.elapsed(), result.status() != Status::Ok);
    result
}

/// Guard of a busy slot: frees the slot if the request does not finish.
struct SlotGuard<'a> {
    session: &'a Session,
    slot: u32,
    attempt: u64,
}

impl Drop for SlotGuard<'_> {
    fn drop(&mut self) {
        self.session.abandon(self.slot, self.attempt);
    }
}

/// Results so far, encoded.
struct Results {
    tag: OwnerName,
    done: Vec<Message>,
    bytes: usize,
    status: Status,
}

impl Results {
    fn push(&mut self, result: &ResOp) {
        self.push_encoded(result.status(), compound::encode_op(result));
    }

    fn push_encoded(&mut self, status: Status, message: Message) {
        self.bytes += message.len;
        self.status = status;
        self.done.push(message);
    }

    fn finish(&self) -> Message {
        compound::reply(self.status, &self.tag, &self.done)
    }
}
