//! What calls of NFSv3 were answered: for clients that have no session, and send a call again over a new connection,
//! perhaps to another metaserver (RFC 1813, section 4.6).
//!
//! ```text
//! 17 call     -> its number, and the reply to each of its commands
//! 18 number   -> the call: the oldest go first, by number and by age
//! 18          -> the oldest number that is kept, and the next
//! ```
//!
//! A call that makes a change costs three puts more, and two deletes once there are [`CALLS_MAX`]. Ages are told by the
//! stamps of the commands, so that all replicas forget the same calls at the same index.

use store::{Edit, StoreError, View};

use crate::record::{CallOrder, CallRecord, encode, get};
use crate::{CALL_SECONDS_MAX, CALLS_MAX, CallId, Reply, Time, keys};

/// Calls that are forgotten for one that comes: one more than that, so that old ones go in time.
const FORGOTTEN_AT_ONCE: usize = 2;

/// What the command `index` of this call was answered, if that is known.
pub(crate) fn reply(view: &dyn View, call: &CallId, index: u32) -> Result<Option<Reply>, StoreError> {
    let Some(record) = get::<CallRecord>(view, &keys::call(call))? else { return Ok(None) };
    Ok(record.replies.into_iter().find(|(known, _)| *known == index).map(|(_, reply)| reply))
}

/// Keeps a reply.
pub(crate) fn remember(
    edit: &mut dyn Edit,
    call: &CallId,
    index: u32,
    now: Time,
    reply: &Reply,
) -> Result<(), StoreError> {
    let key = keys::call(call);
    if let Some(mut record) = get::<CallRecord>(&*edit, &key)? {
        record.replies.push((index, reply.clone()));
        return edit.put(&key, &encode(&key, &record)?);
    }
    let mut order: CallOrder = get(&*edit, &keys::call_order())?.unwrap_or_default();
    for _ in 0..FORGOTTEN_AT_ONCE {
        if !forget_oldest(edit, &mut order, now)? {
            break;
        }
    }
    let record = CallRecord { number: order.next, time: now, replies: vec![(index, reply.clone())] };
    edit.put(&key, &encode(&key, &record)?)?;
    let key = keys::call_number(order.next);
    edit.put(&key, &encode(&key, call)?)?;
    order.next += 1;
    let key = keys::call_order();
    edit.put(&key, &encode(&key, &order)?)
}

/// Forgets the oldest call if there are too many, or if it is too old; whether it did.
fn forget_oldest(edit: &mut dyn Edit, order: &mut CallOrder, now: Time) -> Result<bool, StoreError> {
    let number = keys::call_number(order.oldest);
    let Some(call) = get::<CallId>(&*edit, &number)? else { return Ok(false) };
    let key = keys::call(&call);
    if order.next - order.oldest < CALLS_MAX {
        let record = get::<CallRecord>(&*edit, &key)?;
        if record.is_some_and(|record| now.seconds.saturating_sub(record.time.seconds) <= CALL_SECONDS_MAX) {
            return Ok(false);
        }
    }
    edit.delete(&key)?;
    edit.delete(&number)?;
    order.oldest += 1;
    Ok(true)
}
