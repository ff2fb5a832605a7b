//! Join tokens: each lets one machine into the cluster, once. Only the token's id is stored. The key that a
//! machine proves to have is derived from the id, the expiry and the cluster's secret, so a store or a backup
//! reveals no token.
//!
//! ```text
//! Make ─▶ unused ── Use by a machine ─▶ used ─┐
//!            ├──── Revoke ───────────────────┴─▶ gone
//!            └──── expiry, at the next Make ───▶ gone
//! ```
//!
//! A used token stays until its expiry. A machine whose answer was lost asks again with the ticket of its
//! first use; another machine gets the name of the first in the refusal.

use serde::{Deserialize, Serialize};
use store::{StoreError, View};

use crate::plan::{Plan, Stop};
use crate::record::get;
use crate::{Error, NODE_TEXT_BYTES_MAX, Reply, Time, keys, read};

/// Maximum of tokens before their expiry, used or not: more machines than an operator installs in a week.
pub const JOIN_TOKENS_MAX: usize = 1024;

/// Record of a join token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinToken {
    /// Id; random, not 0.
    pub id: u64,
    /// Expiry, in seconds since 1970.
    pub expires: u64,
    /// Time of its creation.
    pub made: Time,
    /// Use; none: it has let no machine in.
    pub used: Option<TokenUse>,
}

/// Use of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUse {
    /// Name of the machine.
    pub name: String,
    /// Time of the use.
    pub time: Time,
    /// Random bits chosen by the machine: only this machine gets the same answer again.
    pub ticket: [u8; 32],
}

/// A change of the tokens.
#[expect(missing_docs, reason = "the fields are those of the records")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TokenChange {
    /// Makes a token. `Exists` if its id is taken, `Invalid` if there are too many or it has expired.
    Make { id: u64, expires: u64 },
    /// Uses a token for a machine. `NoEntry`: there is no such token (any more); `Exists`: another machine
    /// has used it.
    Use { id: u64, name: String, ticket: [u8; 32] },
    /// Revokes a token. `NoEntry`: there is none.
    Revoke { id: u64 },
}

pub(crate) fn change(plan: &mut Plan<'_>, change: &TokenChange) -> Result<Reply, Stop> {
    match change {
        TokenChange::Make { id, expires } => make(plan, *id, *expires),
        TokenChange::Use { id, name, ticket } => use_once(plan, *id, name, *ticket),
        TokenChange::Revoke { id } => {
            token(plan.view(), *id)?.ok_or(Error::NoEntry)?;
            plan.delete(&keys::join_token(*id));
            Ok(Reply::Done)
        }
    }
}

fn make(plan: &mut Plan<'_>, id: u64, expires: u64) -> Result<Reply, Stop> {
    let now = plan.now();
    let all = read::join_tokens(plan.view())?;
    let (living, ended): (Vec<_>, Vec<_>) = all.into_iter().partition(|token| !has_ended(token.expires, now));
    if living.iter().any(|token| token.id == id) {
        return Err(Error::Exists.into());
    }
    if id == 0 || living.len() >= JOIN_TOKENS_MAX || has_ended(expires, now) {
        return Err(Error::Invalid.into());
    }
    for token in ended {
        plan.delete(&keys::join_token(token.id));
    }
    plan.put(&keys::join_token(id), &JoinToken { id, expires, made: now, used: None })?;
    Ok(Reply::Done)
}

fn use_once(plan: &mut Plan<'_>, id: u64, name: &str, ticket: [u8; 32]) -> Result<Reply, Stop> {
    let (now, known) = (plan.now(), token(plan.view(), id)?);
    let known = known.filter(|token| !has_ended(token.expires, now)).ok_or(Error::NoEntry)?;
    if name.len() > NODE_TEXT_BYTES_MAX {
        return Err(Error::Invalid.into());
    }
    match &known.used {
        Some(used) if used.ticket == ticket => {}
        Some(_) => return Err(Error::Exists.into()),
        None => {
            let used = Some(TokenUse { name: name.to_owned(), time: now, ticket });
            plan.put(&keys::join_token(id), &JoinToken { used, ..known })?;
        }
    }
    Ok(Reply::Done)
}

fn token(view: &dyn View, id: u64) -> Result<Option<JoinToken>, StoreError> {
    get(view, &keys::join_token(id))
}

fn has_ended(expires: u64, now: Time) -> bool {
    now.seconds.max(0).unsigned_abs() >= expires
}
