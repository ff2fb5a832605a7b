//! Table of states, and the indexes that must agree with it. Every open, lock, layout and delegation is
//! added, changed and removed here.

use std::cmp::Ordering;

use store::StoreError;

use super::delegation;
use crate::files::unsettled;
use crate::keys::Key;
use crate::plan::{Broken, Plan, Stop};
use crate::record::{Use, get};
use crate::{ClientId, Error, IoMode, Share, State, StateId, Stateid, keys, read};

/// Stateid for a new state.
pub(super) fn new_stateid(plan: &mut Plan<'_>) -> Result<Stateid, StoreError> {
    plan.count(|counters| {
        let id = StateId(counters.next_state);
        counters.next_state += 1;
        Stateid { sequence: 1, id }
    })
}

/// Advances the stateid after a change. The sequence 0 means "the current one" in requests, so it is skipped
/// (RFC 8881, section 8.2.2).
pub(super) fn advance(stateid: &mut Stateid) {
    stateid.sequence = stateid.sequence.checked_add(1).unwrap_or(1);
}

/// Adds a new state.
pub(super) fn insert(plan: &mut Plan<'_>, state: &State) -> Result<(), Stop> {
    let id = state.stateid().id;
    plan.put(&keys::state(id), state)?;
    plan.mark(&keys::client_state(state.client(), id));
    plan.put(&index_key(state), &id)?;
    if let State::Delegation(delegation) = state
        && delegation.writes()
    {
        plan.put(&keys::write_delegation(delegation.inode), &delegation.client)?;
    }
    plan.count(|counters| *counters.states.of(state) += 1)?;
    change_client_use(plan, None, Some(state))?;
    change_use(plan, None, Some(state))
}

/// Replaces the record `before` of a state by `after`.
pub(super) fn replace(plan: &mut Plan<'_>, before: &State, after: &State) -> Result<(), Stop> {
    plan.put(&keys::state(after.stateid().id), after)?;
    change_client_use(plan, Some(before), Some(after))?;
    change_use(plan, Some(before), Some(after))
}

/// Deletes a state.
pub(super) fn remove(plan: &mut Plan<'_>, state: &State) -> Result<(), Stop> {
    let id = state.stateid().id;
    plan.delete(&keys::state(id));
    plan.delete(&keys::client_state(state.client(), id));
    plan.delete(&index_key(state));
    if let State::Delegation(delegation) = state
        && delegation.writes()
    {
        plan.delete(&keys::write_delegation(delegation.inode));
    }
    plan.count(|counters| {
        let count = counters.states.of(state);
        *count = count.saturating_sub(1);
    })?;
    change_client_use(plan, Some(state), None)?;
    change_use(plan, Some(state), None)
}

/// Checks that the client may have one more state or locked range.
pub(super) fn check_room(plan: &Plan<'_>, client: ClientId) -> Result<(), Stop> {
    if read::has_room(plan.view(), client)? { Ok(()) } else { Err(Error::TooManyStates.into()) }
}

fn change_client_use(
    plan: &mut Plan<'_>,
    before: Option<&State>,
    after: Option<&State>,
) -> Result<(), StoreError> {
    let Some(state) = after.or(before) else { return Ok(()) };
    let (less, more) = (before.map_or(0, client_use_of), after.map_or(0, client_use_of));
    if less == more {
        return Ok(());
    }
    let key = keys::client_uses(state.client());
    let uses = (read::client_uses(plan.view(), state.client())? + more).saturating_sub(less);
    plan.put_or_delete(&key, &uses)
}

/// Number that one state adds to its client's count of states and ranges.
pub(crate) fn client_use_of(state: &State) -> u64 {
    match state {
        State::Open(_) | State::Layout(_) | State::Delegation(_) => 1,
        State::Lock(lock) => 1 + u64::from(lock.ranges),
    }
}

/// Returns the state of `client` with this id; the sequence is not checked.
pub(super) fn find(plan: &Plan<'_>, client: ClientId, id: StateId) -> Result<State, Stop> {
    match read::state(plan.view(), id)? {
        Some(State::Layout(layout)) if read::is_returned(plan.view(), &layout)? => {
            Err(Error::BadStateid.into())
        }
        // A leftover of a closed open.
        Some(State::Lock(lock)) if !read::holds(plan.view(), &lock)? => Err(Error::BadStateid.into()),
        Some(state) if state.client() == client => Ok(state),
        Some(_) | None => Err(Error::BadStateid.into()),
    }
}

/// Checks the sequence of a request against the state's (RFC 8881, section 8.2.2): 0 means the current one.
pub(super) fn check_sequence(presented: Stateid, current: Stateid) -> Result<(), Error> {
    match compare_sequences(presented.sequence, current.sequence) {
        Ordering::Equal => Ok(()),
        Ordering::Less => Err(Error::OldStateid),
        Ordering::Greater => Err(Error::BadStateid),
    }
}

/// Like [`check_sequence`], for a layout: its operations may overtake each other, so an older sequence is
/// valid (RFC 8881, section 12.5.3).
pub(super) fn check_layout_sequence(presented: Stateid, current: Stateid) -> Result<(), Error> {
    match compare_sequences(presented.sequence, current.sequence) {
        Ordering::Equal | Ordering::Less => Ok(()),
        Ordering::Greater => Err(Error::BadStateid),
    }
}

/// Compares sequences, which wrap: the one that is less than half the range ahead is the greater.
fn compare_sequences(presented: u32, current: u32) -> Ordering {
    if presented == 0 {
        return Ordering::Equal;
    }
    (presented.wrapping_sub(current) as i32).cmp(&0)
}

/// Key of the state in the index of its file.
pub(crate) fn index_key(state: &State) -> Key {
    match state {
        State::Open(open) => keys::open(open.inode, open.client, &open.owner),
        State::Lock(lock) => keys::lock_state(lock.inode, lock.client, &lock.owner),
        State::Layout(layout) => keys::layout(layout.inode, layout.client),
        State::Delegation(state) if state.is_revoked() => keys::revoked(state.client, state.stateid.id),
        State::Delegation(state) => keys::delegation(state.inode, state.client),
    }
}

/// Updates the summary of the file's use; it is deleted when the file is unused.
fn change_use(plan: &mut Plan<'_>, before: Option<&State>, after: Option<&State>) -> Result<(), Stop> {
    let Some(state) = after.or(before) else { return Ok(()) };
    let (less, more) = (before.map(use_of).unwrap_or_default(), after.map(use_of).unwrap_or_default());
    if less == more {
        return Ok(());
    }
    let key = keys::uses(state.inode());
    let uses_before = get::<Use>(plan.view(), &key)?.unwrap_or_default();
    let kept = uses_before.minus(less).ok_or(Broken("a file is used more than is counted"))?;
    let uses = kept.plus(more);
    unsettled::used(plan, state.inode(), uses_before.writing_layouts, uses.writing_layouts);
    if uses.delegations == 0 && uses_before.delegations > 0 {
        delegation::ended_all(plan, state.inode())?;
    }
    Ok(plan.put_or_delete(&key, &uses)?)
}

/// Use of a file by one state. Locks belong to opens, and add nothing.
pub(crate) fn use_of(state: &State) -> Use {
    match state {
        State::Open(open) => Use {
            opens: 1,
            reading: u32::from(open.access.contains(Share::READ)),
            writing: u32::from(open.access.contains(Share::WRITE)),
            denying_read: u32::from(open.deny.contains(Share::READ)),
            denying_write: u32::from(open.deny.contains(Share::WRITE)),
            layouts: 0,
            delegations: 0,
            writing_layouts: 0,
        },
        State::Lock(_) => Use::default(),
        State::Layout(layout) => {
            let writing_layouts = u32::from(layout.mode == IoMode::ReadWrite);
            Use { layouts: 1, writing_layouts, ..Use::default() }
        }
        State::Delegation(state) => Use { delegations: u32::from(!state.is_revoked()), ..Use::default() },
    }
}

impl Use {
    pub(crate) fn plus(self, more: Use) -> Use {
        Use {
            opens: self.opens + more.opens,
            reading: self.reading + more.reading,
            writing: self.writing + more.writing,
            denying_read: self.denying_read + more.denying_read,
            denying_write: self.denying_write + more.denying_write,
            layouts: self.layouts + more.layouts,
            delegations: self.delegations + more.delegations,
            writing_layouts: self.writing_layouts + more.writing_layouts,
        }
    }

    /// Difference; none if `less` is more than `self`.
    pub(crate) fn minus(self, less: Use) -> Option<Use> {
        Some(Use {
            opens: self.opens.checked_sub(less.opens)?,
            reading: self.reading.checked_sub(less.reading)?,
            writing: self.writing.checked_sub(less.writing)?,
            denying_read: self.denying_read.checked_sub(less.denying_read)?,
            denying_write: self.denying_write.checked_sub(less.denying_write)?,
            layouts: self.layouts.checked_sub(less.layouts)?,
            delegations: self.delegations.checked_sub(less.delegations)?,
            writing_layouts: self.writing_layouts.checked_sub(less.writing_layouts)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::CLIENT_STATES_MAX;
    use store::{Durability, MemoryStore, Store};

    use super::*;
    use crate::{
        Callback, CallbackCredential, Channel, Channels, Command, Create, DeviceId, Exists, FileLayout,
        InodeId, IoMode, LockKind, LockOwner, NewAttributes, NewNode, Open, OpenTarget, Principal, Proposal,
        Reply, Stamp, StripeUnit, apply,
    };

    /// A million states would take the test too long, so it sets the count.
    #[test]
    fn a_client_that_has_as_much_as_one_client_may_gets_no_more() {
        let store = MemoryStore::new();
        let stamp = Stamp { random: 7 << 32, ..Stamp::default() };
        let (client, other) = (ClientId(7 << 32 | 1), ClientId(7 << 32 | 2));
        store
            .batch(Durability::Immediate, &mut |edit| {
                apply::format(edit, &stamp, [7; 16])?;
                let mut plan = Plan::new(&*edit, stamp);
                plan.put(&keys::client_uses(client), &(CLIENT_STATES_MAX - 1))?;
                assert!(check_room(&plan, client).is_ok());
                plan.put(&keys::client_uses(client), &CLIENT_STATES_MAX)?;
                let refused = check_room(&plan, client);
                assert!(matches!(refused, Err(Stop::Refused(Error::TooManyStates))));
                assert!(check_room(&plan, other).is_ok());
                Ok::<(), StoreError>(())
            })
            .expect("a batch");
    }

    fn run(store: &MemoryStore, command: Command) -> Reply {
        let proposal = Proposal::new(Stamp { random: 7 << 32, ..Stamp::default() }, None, command);
        let mut reply = Reply::Done;
        store
            .batch(Durability::Immediate, &mut |edit| {
                reply = apply::apply(edit, &proposal)?;
                Ok::<(), StoreError>(())
            })
            .expect("a batch");
        reply
    }

    fn dump(store: &MemoryStore) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut pairs = Vec::new();
        let mut each = |key: &[u8], value: &[u8]| {
            pairs.push((key.to_vec(), value.to_vec()));
            std::ops::ControlFlow::Continue(())
        };
        store.snapshot().expect("a snapshot").scan(&[], &[0xff], &mut each).expect("scans");
        pairs
    }

    fn opening(client: ClientId, owner: &str, name: &str, exists: Exists) -> Command {
        let layout = FileLayout { device: DeviceId(1), first: 0, unit: StripeUnit::DEFAULT, columns: 1 };
        let (accessed, modified) = (None, None);
        let create = Create {
            dir: InodeId::ROOT,
            name: name.into(),
            node: NewNode::File(layout),
            attributes: NewAttributes { mode: 0o644, uid: 0, gid: 0, accessed, modified },
            exists,
        };
        let target = OpenTarget::Create { create, truncate: true };
        let (access, deny, delegate) = (Share::BOTH, Share::NONE, true);
        Command::Open(Open {
            client,
            owner: owner.into(),
            target,
            access,
            deny,
            delegate,
            export: InodeId::ROOT,
        })
    }

    /// A refusal after a put would stop every replica, and again at each replay of its log.
    #[test]
    fn what_a_client_at_its_bound_is_refused_leaves_the_store_as_it_was() {
        let store = MemoryStore::new();
        run(&store, Command::Format { incarnation: [7; 16] });
        let (principal, address) = (Principal::Nobody, std::net::Ipv4Addr::LOCALHOST.into());
        let exchange = Command::ExchangeId {
            owner: b"a".to_vec(),
            verifier: [1; 8],
            principal: principal.clone(),
            update: false,
            address,
        };
        let Reply::Client { id: client, sequence, .. } = run(&store, exchange) else { panic!("no client") };
        let channel = Channel {
            request_bytes_max: 1 << 20,
            response_bytes_max: 1 << 20,
            cached_bytes_max: 4096,
            operations_max: 16,
            slots: 8,
        };
        let callback = Callback { program: 1, credential: CallbackCredential::Nobody };
        let channels = Channels { fore: channel, back: channel, callback };
        run(&store, Command::CreateSession { client, sequence, principal, channels, address });
        let opened = |reply| match reply {
            Reply::Opened { stateid, inode, .. } => (stateid, inode.id, inode.placed()),
            reply => panic!("{reply:?}"),
        };
        let (stateid, inode, made) = opened(run(&store, opening(client, "o", "empty", Exists::Refuse)));
        let (striped_stateid, striped, _) =
            opened(run(&store, opening(client, "o", "striped", Exists::Refuse)));
        run(&store, Command::Migrate { inode: striped, made });
        store
            .batch(Durability::Immediate, &mut |edit| {
                let mut plan = Plan::new(&*edit, Stamp::default());
                plan.put(&keys::client_uses(client), &CLIENT_STATES_MAX)?;
                plan.finish()?.commit(edit)
            })
            .expect("a batch");

        let mode = IoMode::ReadWrite;
        let owner = |open| LockOwner::New { open, owner: b"l".to_vec() };
        let range = crate::ByteRange { start: 0, end: 9 };
        let kind = LockKind::Write;
        for command in [
            Command::LayoutGet { client, inode, stateid, mode, made, version: 0, export: InodeId::ROOT },
            Command::LayoutGet {
                client,
                inode: striped,
                stateid: striped_stateid,
                mode,
                made,
                version: 0,
                export: InodeId::ROOT,
            },
            Command::Lock { client, inode, owner: owner(stateid), kind, range },
            opening(client, "o", "empty", Exists::Take),
            opening(client, "p", "striped", Exists::Take),
            opening(client, "o", "new", Exists::Refuse),
        ] {
            let before = dump(&store);
            assert_eq!(run(&store, command.clone()), Reply::Refused(Error::TooManyStates), "{command:?}");
            assert!(dump(&store) == before, "{command:?} changed the store");
        }
    }
}
