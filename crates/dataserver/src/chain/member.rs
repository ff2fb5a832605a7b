//! Changes of one member alone, ordered by the head, which holds the lock of their range: refilling,
//! mended blocks, and times.

use std::sync::Arc;

use nfs::ConnectionId;
use tokio::time::{Instant, timeout_at};
use wire::data::{Status, member};
use wire::xdr::Payload;

use super::dirty_log::Maker;
use super::locks::{Kind, WHOLE};
use super::{CALL_TIME_MAX, Chains, Sender, Trouble};
use crate::checksums::{BLOCK, sums_of_pieces};
use crate::epoch::Mark;
use crate::found::Found;
use crate::objects::{ObjectError, Objects};

impl Chains {
    /// Makes the change at this member. As with a forwarded change, everything up to the place in the lock's
    /// queue is done at the first poll.
    pub(crate) async fn change_member(
        self: &Arc<Self>,
        found: Found,
        change: member::Change,
        connection: ConnectionId,
    ) -> Result<(), Trouble> {
        if found.handle.chain_version == 0 {
            return Err(Status::Invalid.into());
        }
        let bytes = match &change {
            member::Change::Fill(fill) | member::Change::Mend(fill) | member::Change::Damaged(fill) => {
                fill.data.len()
            }
            _ => 0,
        };
        let chain = self.of_version(&found.handle, bytes).await?;
        let own = chain.member(found.handle.target).ok_or(Status::StaleChain)?;
        // The data of a member that is in are changed along the chain only, unless they are damaged.
        let is_of_all = matches!(change, member::Change::Modified(_) | member::Change::Mend(_));
        if !own.is_refilling && !is_of_all {
            return Err(Status::StaleChain.into());
        }
        self.check_sender(&found.handle, Sender::Refills, connection)?;
        let range = match &change {
            member::Change::Fill(fill) => fill.offset..fill.offset.saturating_add(fill.data.len() as u64),
            member::Change::Damaged(fill) => fill.offset..fill.offset.saturating_add(BLOCK),
            member::Change::Clear(clear) => clear.offset..clear.offset.saturating_add(clear.len),
            // The head holds a shared lock, and no change is under way.
            member::Change::Modified(_) | member::Change::Sync => 0..0,
            // Changes that wait for the block hold their locks.
            member::Change::Mend(_) => 0..0,
            member::Change::Make(_) | member::Change::Length(_) | member::Change::Remove => WHOLE,
        };
        if let member::Change::Fill(fill) | member::Change::Mend(fill) | member::Change::Damaged(fill) =
            &change
            && sums_of_pieces(fill.offset, &fill.data) != fill.sums
        {
            self.wrong_sum(&found);
            return Err(Status::WrongSum.into());
        }
        let deadline = Instant::now() + CALL_TIME_MAX;
        let asked = self.locks.ask((own.target, found.object.name), range, Kind::Alone(found.handle.chain));
        let lock = timeout_at(deadline, asked.held()).await.map_err(|_| Status::ChainWaits)?;
        let (version, id) = (found.handle.chain_version, found.handle.chain);
        if self.table.get(id).is_none_or(|now| now.version != version) {
            return Err(Status::StaleChain.into());
        }
        if let member::Change::Modified(_) = change {
            // Members that are away must know it, too, if this one is the next head.
            self.note_time(&found).await?;
        }
        let is_mend = matches!(change, member::Change::Mend(_));
        let chains = Arc::clone(self);
        self.finish(deadline, async move {
            let work_on = found.clone();
            if let member::Change::Make(_) = change {
                let (name, object) = (found.object.name, found.object);
                let is_new =
                    move |o: &Objects| Ok(o.mark_of(name)?.is_none() || o.is_of_earlier_placement(object)?);
                if found.target.run(is_new).await? {
                    // If the head does not come to its end, the next one must know that all of it is otherwise.
                    chains.dirty.makes(id, name, Maker::Head);
                }
            }
            let done = found.target.run(move |o| work(o, &work_on, change)).await;
            drop(lock);
            done.map_err(|error| match error {
                ObjectError::Io | ObjectError::ReadOnly => chains.own_failure(&found, error),
                // The block stays damaged here alone.
                ObjectError::NoSpace if is_mend => chains.own_failure(&found, error),
                _ => error.into(),
            })
        })
        .await
    }
}

/// Bytes for one member, with their sums.
pub(super) fn fill(offset: u64, data: Payload) -> member::Fill {
    member::Fill { offset, sums: sums_of_pieces(offset, &data), data }
}

/// An error if the column was placed on another chain meanwhile, which has the object here, too.
fn is_of_chain(o: &Objects, found: &Found) -> Result<(), ObjectError> {
    match o.mark_of(found.object.name)? {
        Some(mark) if mark.chain != found.handle.chain => Err(ObjectError::StaleEpoch),
        _ => Ok(()),
    }
}

fn work(o: &Objects, found: &Found, change: member::Change) -> Result<(), ObjectError> {
    let (object, handle) = (found.object, found.handle);
    match change {
        member::Change::Make(epochs) => {
            let member::Epochs { epoch, layout_epoch, truncated } = epochs;
            let (incarnation, chain) = (handle.incarnation, handle.chain);
            let mark = Mark { incarnation, epoch, layout_epoch, truncated, chain };
            o.make_way(object)?;
            // The head's epochs, also if they are earlier: the state machine may count anew after a restore.
            let has_none = (epoch, layout_epoch, truncated) == (0, 0, 0);
            let incarnation = if has_none { 0 } else { incarnation };
            o.make_of_head(object.name, chain, |_| Mark { incarnation, ..mark })
        }
        member::Change::Fill(member::Fill { offset, data, .. }) => o.write(object, offset, &data).map(drop),
        member::Change::Clear(member::Clear { offset, len }) => o.clear(object, offset, len),
        member::Change::Length(len) => {
            is_of_chain(o, found)?;
            o.set_length(object.name, len)
        }
        member::Change::Sync => o.commit(object),
        // In another chain, an object of this name is another one.
        member::Change::Remove => match o.mark_of(object.name)? {
            Some(mark) if mark.chain != handle.chain => Ok(()),
            _ => {
                o.remove(&[object.name])?;
                // The head does not have it yet: a MAKE without an answer so far may come again.
                o.removed.lock().forget(&object.name);
                // This member may be the next head, and another one have the object still.
                o.note_removal(&object.name, handle.chain)
            }
        },
        member::Change::Mend(member::Fill { offset, data, .. }) => {
            o.mend_block(object.name, offset / BLOCK, &data.to_bytes()).map(drop)
        }
        member::Change::Damaged(member::Fill { offset, data, .. }) => {
            is_of_chain(o, found)?;
            o.keep_damaged(object, offset / BLOCK, &data.to_bytes())
        }
        member::Change::Modified(told_ns) => o.tell_time(object.name, told_ns),
    }
}
