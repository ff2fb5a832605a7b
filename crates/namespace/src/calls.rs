//! Duplicate request cache: replies to calls of NFSv3. Its clients have no session, and send a call again
//! over a new connection, perhaps to another metaserver (RFC 1813, section 4.5).
//!
//! ```text
//! 17 call     -> its number, and the reply to each of its commands
//! 18 number   -> the call; the oldest are removed first, by number and by age 18          -> the oldest
//! number, and the next
//! ```
//!
//! A call with a change costs three more puts, and two deletes once there are [`CALLS_MAX`]. Ages are
//! computed from the stamps of the commands, so that all replicas remove the same calls at the same index.

use store::{StoreError, View};

use crate::plan::Plan;
use crate::record::{CallOrder, CallRecord, get};
use crate::{CALL_SECONDS_MAX, CALLS_MAX, CallId, Reply, keys};

/// Calls removed for each new call: one more than needed, so that old calls are removed in time.
const FORGOTTEN_AT_ONCE: usize = 2;

/// Reply to the command `index` of this call, if it is recorded.
pub(crate) fn reply(view: &dyn View, call: &CallId, index: u32) -> Result<Option<Reply>, StoreError> {
    let Some(record) = get::<CallRecord>(view, &keys::call(call))? else { return Ok(None) };
    Ok(record.replies.into_iter().find(|(known, _)| *known == index).map(|(_, reply)| reply))
}

/// Records a reply.
pub(crate) fn remember(
    plan: &mut Plan<'_>,
    call: &CallId,
    index: u32,
    reply: &Reply,
) -> Result<(), StoreError> {
    let key = keys::call(call);
    if let Some(mut record) = get::<CallRecord>(plan.view(), &key)? {
        record.replies.push((index, reply.clone()));
        return plan.put(&key, &record);
    }
    let mut order: CallOrder = get(plan.view(), &keys::call_order())?.unwrap_or_default();
    for _ in 0..FORGOTTEN_AT_ONCE {
        if !forget_oldest(plan, &mut order)? {
            break;
        }
    }
    let record = CallRecord { number: order.next, time: plan.now(), replies: vec![(index, reply.clone())] };
    plan.put(&key, &record)?;
    let key = keys::call_number(order.next);
    plan.put(&key, call)?;
    order.next += 1;
    let key = keys::call_order();
    plan.put(&key, &order)
}

/// Removes the oldest call if there are too many, or if it is too old. Returns true if it did.
fn forget_oldest(plan: &mut Plan<'_>, order: &mut CallOrder) -> Result<bool, StoreError> {
    let (now, number) = (plan.now(), keys::call_number(order.oldest));
    let Some(call) = get::<CallId>(plan.view(), &number)? else { return Ok(false) };
    let key = keys::call(&call);
    if order.next - order.oldest < CALLS_MAX {
        let record = get::<CallRecord>(plan.view(), &key)?;
        if record.is_some_and(|record| now.seconds.saturating_sub(record.time.seconds) <= CALL_SECONDS_MAX) {
            return Ok(false);
        }
    }
    plan.delete(&key);
    plan.delete(&number);
    order.oldest += 1;
    Ok(true)
}
