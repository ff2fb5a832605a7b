//! LOCK (RFC 8881, section 18.10). The answer to a conflicting lock is DENIED; a waiting client is notified
//! when it can ask again (see `lock_waiters`).

use namespace::{ByteRange, Command, Conflict, LockKind, LockOwner, Reply, State};
use wire::nfs4::lock::{Args, Denied, Error, LENGTH_TO_EOF, Locker, ResOk};
use wire::nfs4::{ClientId, LockType, StateOwner, Status};

use crate::Metaserver;
use crate::compound::{Context, client, stateid, wire_stateid};
use crate::errors::store_failed;
use crate::state::lock_waiters::Waiter;

pub(crate) async fn lock(server: &Metaserver, context: &mut Context, args: Args) -> Result<ResOk, Error> {
    if args.reclaim {
        // State survives restarts, so there is no grace period for reclaims.
        return Err(Status::NoGrace.into());
    }
    let client = client(context)?;
    let inode = context.state.current()?.inode;
    let range = range(args.offset, args.length)?;
    let owner = match args.locker {
        Locker::New(new) => {
            let open = stateid(&context.state.resolve(new.open_stateid)?)?;
            LockOwner::New { open, owner: new.lock_owner.owner.0.to_vec() }
        }
        Locker::Existing(known) => {
            LockOwner::Known { lock: stateid(&context.state.resolve(known.lock_stateid)?)? }
        }
    };
    let kind = kind(args.locktype);
    let owner_name = owner_name(server, &owner)?;
    let now = server.machine.clock.monotonic();
    let waiter = Waiter::new(client, owner_name, kind, range, context.state.export()?, now);
    let waits = matches!(args.locktype, LockType::ReadWait | LockType::WriteWait);
    // A waiter that asks again causes no log entry while its lock is not free.
    let asks_again = waits && server.state.lock_waiters.knows(inode, client, &waiter.owner);
    let mut conflict = None;
    // Not called for a retry: a granted lock stays granted, even during another waiter's turn.
    let prepare = |view: &dyn store::View| {
        let current = server.machine.inode(view, inode)?;
        match current.kind {
            namespace::Kind::File(_) => {}
            namespace::Kind::Directory(_) => return Err(Status::IsDir),
            _ => return Err(Status::Inval),
        }
        if waits {
            conflict = server.state.lock_waiters.turn_of_another(inode, &waiter, now);
        }
        if asks_again && conflict.is_none() {
            conflict = server.state.conflict_with(view, inode, &waiter)?;
        }
        if conflict.is_some() {
            return Err(Status::Denied);
        }
        Ok(Command::Lock { client, inode, owner, kind, range })
    };
    let outcome = match server.change(context, prepare).await {
        // NOSPC is not an error of LOCK (section 15.2). SERVERFAULT is the nearest without endless retries.
        Err(Status::NoSpc) => Err(Status::ServerFault),
        outcome => outcome,
    };
    let reply = match (outcome, conflict) {
        (Err(Status::Denied), Some(conflict)) => Reply::Denied(conflict),
        (outcome, _) => outcome?,
    };
    match reply {
        Reply::State { stateid: Some(stateid) } => {
            let lock_stateid = wire_stateid(stateid);
            context.state.set_stateid(lock_stateid);
            server.state.lock_waiters.leave(inode, client, &waiter.owner);
            server.state.tell_lock_waiters(inode); // a lock for writing may have become a lock for reading
            Ok(ResOk { lock_stateid })
        }
        Reply::Denied(conflict) if waits => Err(still_denied(server, context, waiter, conflict).await),
        Reply::Denied(conflict) => {
            server.state.lock_waiters.leave(inode, client, &waiter.owner);
            Err(Error::Denied(denied(conflict)))
        }
        _ => Err(Status::ServerFault.into()),
    }
}

async fn still_denied(server: &Metaserver, context: &Context, waiter: Waiter, conflict: Conflict) -> Error {
    let (Some(session), Ok(current)) = (&context.session, context.state.current()) else {
        return Error::Denied(denied(conflict));
    };
    if server.state.waits_on(session, current.inode, waiter).await {
        return Status::Delay.into();
    }
    Error::Denied(denied(conflict))
}

/// Name of the lock-owner; empty for an unknown lock state, which the command refuses.
fn owner_name(server: &Metaserver, owner: &LockOwner) -> Result<Vec<u8>, Status> {
    match owner {
        LockOwner::New { owner, .. } => Ok(owner.clone()),
        LockOwner::Known { lock } => {
            match namespace::read::state(&*server.machine.view()?, lock.id).map_err(store_failed)? {
                Some(State::Lock(lock)) => Ok(lock.owner),
                _ => Ok(Vec::new()),
            }
        }
    }
}

/// Byte range in the form of the state machine.
pub(super) fn range(offset: u64, length: u64) -> Result<ByteRange, Status> {
    match length {
        0 => Err(Status::Inval),
        LENGTH_TO_EOF => Ok(ByteRange { start: offset, end: u64::MAX }),
        n => Ok(ByteRange { start: offset, end: offset.checked_add(n).ok_or(Status::Inval)? }),
    }
}

pub(super) fn kind(locktype: LockType) -> LockKind {
    if locktype.is_write() { LockKind::Write } else { LockKind::Read }
}

/// Returns the body of DENIED: the conflicting lock and its owner.
pub(super) fn denied(conflict: Conflict) -> Denied {
    let length = match conflict.range.end {
        u64::MAX => LENGTH_TO_EOF,
        end => end - conflict.range.start,
    };
    Denied {
        offset: conflict.range.start,
        length,
        locktype: match conflict.kind {
            LockKind::Read => LockType::Read,
            LockKind::Write => LockType::Write,
        },
        owner: StateOwner {
            clientid: ClientId(conflict.client.0),
            owner: bytes::Bytes::from(conflict.owner).into(),
        },
    }
}
