//! Back channel of a mount: recalls and notices of locks. A client mostly obeys; now and then it says that it
//! does, and does not.

use std::ops::RangeInclusive;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use nfs::{Answer, Call, Connection, Program, encoded};
use wire::nfs4::callback::{CbArgOp, CbCompound, CbReply, CbResOp, LayoutRecall, SequenceArgs, SequenceOk};
use wire::nfs4::{self, OwnerName, Status};
use wire::rpc::{CallHeader, Rejection};
use wire::xdr::{Decode, Decoder};

use super::{Mount, Recallable};

/// Number of the callback program.
pub const CALLBACK_PROGRAM: u32 = 0x4000_0000;
/// One recall in this many is not obeyed; of clients that linger, more.
const DISOBEYED_ONE_IN: [usize; 2] = [12, 6];

/// Program of call-backs.
pub struct Callbacks(pub Weak<Mount>);

impl Program for Callbacks {
    fn number(&self) -> u32 {
        CALLBACK_PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        nfs4::CB_VERSION..=nfs4::CB_VERSION
    }

    fn trusts(&self, _: &CallHeader, _: Decoder, _: &Connection) -> bool {
        true
    }

    fn call(self: Arc<Self>, mut call: Call) -> Answer {
        let compound = CbCompound::decode(&mut call.arguments).map_err(|_| Rejection::GarbageArguments);
        let answer = compound.and_then(|compound| {
            let mount = self.0.upgrade().ok_or(Rejection::SystemError)?;
            Ok(encoded(&mount.called_back(&compound)))
        });
        Box::pin(std::future::ready(answer))
    }
}

impl Mount {
    fn called_back(&self, compound: &CbCompound) -> CbReply {
        let mut ops = vec![];
        for op in &compound.ops {
            let result = match op {
                CbArgOp::Sequence(args) => CbResOp::Sequence(self.sequenced(args)),
                CbArgOp::Recall(args) => CbResOp::Recall(self.recall(&args.fh.0, false)),
                CbArgOp::LayoutRecall(args) => CbResOp::LayoutRecall(match &args.recall {
                    LayoutRecall::File(file) => self.recall(&file.fh.0, true),
                    LayoutRecall::FsId(_) | LayoutRecall::All => Err(Status::NoMatchingLayout),
                }),
                // What it needs least is none: it keeps all.
                CbArgOp::RecallAny(_) => CbResOp::RecallAny(Ok(())),
                CbArgOp::NotifyLock(_) => {
                    self.lock_is_free.notify_waiters();
                    CbResOp::NotifyLock(Ok(()))
                }
                other => CbResOp::refused(other.number(), Status::NotSupp),
            };
            let status = result.status();
            ops.push(result);
            if status != Status::Ok {
                break;
            }
        }
        let status = ops.last().map_or(Status::Ok, CbResOp::status);
        CbReply { status, tag: OwnerName::default(), ops }
    }

    fn sequenced(&self, args: &SequenceArgs) -> Result<SequenceOk, Status> {
        let mut known = self.known();
        if known.session.is_none_or(|session| session.id != args.sessionid) {
            return Err(Status::BadSession);
        }
        let last = known.back_sequences.entry(args.slotid).or_default();
        match args.sequenceid.wrapping_sub(*last) {
            0 if args.sequenceid > 0 => return Err(Status::RetryUncachedRep),
            1 => *last = args.sequenceid,
            _ => return Err(Status::SeqMisordered),
        }
        Ok(SequenceOk {
            sessionid: args.sessionid,
            sequenceid: args.sequenceid,
            slotid: args.slotid,
            highest_slotid: args.slotid,
            target_highest_slotid: args.slotid,
        })
    }

    fn recall(&self, file: &Bytes, is_layout: bool) -> Result<(), Status> {
        let is_kept = self.below(DISOBEYED_ONE_IN[usize::from(self.shared.clients_linger)]) == 0;
        let mut known = self.known();
        let is_asking = known.asking.contains(file);
        let held = if is_layout { &mut known.layouts } else { &mut known.delegations };
        let outcome = match held.get_mut(file) {
            Some(Recallable { is_recalled: recalled @ false, is_kept: kept, .. }) => {
                (*recalled, *kept) = (true, is_kept);
                Ok(())
            }
            Some(_) => Ok(()),
            // The reply that brings it may be on its way.
            None if is_asking => Err(Status::Delay),
            None if is_layout => Err(Status::NoMatchingLayout),
            None => Err(Status::BadHandle),
        };
        drop(known);
        self.shared.note(|| {
            let what = if is_layout { "a layout" } else { "a delegation" };
            format!("client {} is asked for {what}, keeps it: {is_kept}; {outcome:?}", self.address)
        });
        self.recalled.notify_one();
        outcome
    }
}
