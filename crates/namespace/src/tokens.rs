//! Join tokens: each lets one machine into the cluster, once. The token itself is not here, only its id: the
//! key that a machine proves to hold is derived from the id, the end and the cluster's secret, so that a
//! store or a backup gives none away.
//!
//! ```text
//! Make ─▶ unused ── Use by a machine ─▶ used ─┐
//!            ├──── Revoke ───────────────────┴─▶ gone
//!            └──── its end, at the next Make ──▶ gone
//! ```
//!
//! A used token stays until its end: a machine whose answer was lost asks again with the ticket that it used
//! it with, and another one is told the name of that machine.

use serde::{Deserialize, Serialize};
use store::{StoreError, View};

use crate::plan::{Plan, Stop};
use crate::record::get;
use crate::{Error, NODE_TEXT_BYTES_MAX, Reply, Time, keys, read};

/// Tokens that have not ended, used or not: more machines than are set up in a week.
pub const JOIN_TOKENS_MAX: usize = 1024;

/// One token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinToken {
    /// Tells it from others; random, not 0.
    pub id: u64,
    /// Its end, in seconds since 1970.
    pub expires: u64,
    /// When it was made.
    pub made: Time,
    /// None: it has let no machine in.
    pub used: Option<TokenUse>,
}

/// The use of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUse {
    /// The name of the machine that it let in.
    pub name: String,
    /// When.
    pub time: Time,
    /// Random bits that the machine chose: it alone is told the same again.
    pub ticket: [u8; 32],
}

/// A change of the tokens.
#[expect(missing_docs, reason = "the fields are those of the records")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TokenChange {
    /// A new token. `Exists` if its id was taken, `Invalid` if there are too many or it has ended.
    Make { id: u64, expires: u64 },
    /// A machine comes in. `NoEntry`: there is no such token (any more); `Exists`: another machine has used
    /// it.
    Use { id: u64, name: String, ticket: [u8; 32] },
    /// A token ends now. `NoEntry`: there is none.
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
