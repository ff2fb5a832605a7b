//! Choice of a client's next request. Names, files and offsets are few, so that clients conflict.

use bytes::Bytes;
use namespace::{
    ByteRange, ClientId, Command, Create, DeviceId, Exists, Expect, FileLayout, InodeId, Kind, LockKind,
    LockOwner, NewAttributes, NewNode, Open, OpenTarget, Reply, SetAttributes, Share, StripeUnit,
};

use crate::client::Known;
use crate::dice::Dice;
use crate::request::Look;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// Greatest number of known inodes of each kind, so that clients conflict.
const KNOWN_MAX: usize = 6;

/// Chosen request: a read or a change.
pub(crate) enum Chosen {
    Look(Look),
    Change(Command),
}

pub(crate) fn request(client: ClientId, slot: u32, known: &Known, dice: &mut Dice) -> Chosen {
    let dir = |dice: &mut Dice| dice.of(&known.dirs).copied().unwrap_or(InodeId::ROOT);
    let name = |dice: &mut Dice| NAMES[dice.below(NAMES.len())].as_bytes().to_vec();
    let inode = |dice: &mut Dice| dice.of(&known.files).copied().unwrap_or(InodeId::ROOT);
    let opened = known.opens.iter().find(|(by, ..)| *by == slot);
    let locked = known.locks.iter().find(|(by, ..)| *by == slot);
    Chosen::Change(match dice.below(24) {
        0..4 => return Chosen::Look(Look::Lookup(dir(dice), name(dice))),
        4..6 => return Chosen::Look(Look::List(dir(dice))),
        6 => return Chosen::Look(Look::Attributes(inode(dice))),
        7 => return Chosen::Look(Look::Data(inode(dice))),
        8..11 => Command::Create(create(dir(dice), name(dice), dice)),
        11 | 12 => Command::Link { inode: inode(dice), dir: dir(dice), name: name(dice) },
        13..15 => Command::Remove { dir: dir(dice), name: name(dice), expect: Expect::Anything },
        15..18 => {
            Command::Rename { from_dir: dir(dice), from: name(dice), to_dir: dir(dice), to: name(dice) }
        }
        18 => {
            let set = SetAttributes { mode: Some(dice.within(0..=0o777) as u32), ..SetAttributes::default() };
            Command::SetAttributes { inode: inode(dice), set }
        }
        19 => {
            let data = Bytes::from(vec![dice.number() as u8; 1 + dice.below(900)]);
            Command::WriteInline { inode: inode(dice), offset: dice.within(0..=500), data }
        }
        _ => match (opened, locked) {
            (Some((_, inode, _)), Some((_, _, lock))) if dice.below(3) > 0 => {
                let _ = inode;
                Command::Unlock { client, stateid: *lock, range: ByteRange { start: 0, end: u64::MAX } }
            }
            (Some((_, _, open)), _) if dice.below(4) == 0 => Command::Close { client, stateid: *open },
            (Some((_, inode, open)), _) => {
                let start = dice.within(0..=3);
                let owner = format!("owner {slot}").into_bytes();
                Command::Lock {
                    client,
                    inode: *inode,
                    owner: LockOwner::New { open: *open, owner },
                    kind: if dice.below(3) == 0 { LockKind::Read } else { LockKind::Write },
                    range: ByteRange { start, end: start + dice.within(1..=3) },
                }
            }
            (None, _) => {
                let mut create = create(InodeId::ROOT, name(dice), dice);
                create.node = NewNode::File(layout());
                create.exists = Exists::Take;
                Command::Open(Open {
                    client,
                    owner: format!("owner {slot}").into_bytes(),
                    target: OpenTarget::Create { create, truncate: false },
                    access: Share::BOTH,
                    deny: Share::NONE,
                    delegate: false,
                    export: InodeId::ROOT,
                })
            }
        },
    })
}

fn create(dir: InodeId, name: Vec<u8>, dice: &mut Dice) -> Create {
    let node = match dice.below(4) {
        0 | 1 => NewNode::Directory,
        2 => NewNode::File(layout()),
        _ => NewNode::Symlink(b"elsewhere".to_vec()),
    };
    let exists = match (&node, dice.below(3)) {
        (NewNode::File(_), 0) => Exists::Verify(dice.number().to_le_bytes()),
        (NewNode::File(_), 1) => Exists::Take,
        _ => Exists::Refuse,
    };
    let attributes = NewAttributes { mode: 0o755, uid: 0, gid: 0, accessed: None, modified: None };
    Create { dir, name, node, attributes, exists }
}

fn layout() -> FileLayout {
    FileLayout { device: DeviceId(1), first: 0, unit: StripeUnit::DEFAULT, columns: 1 }
}

/// Updates a client's knowledge by the reply to a change.
pub(crate) fn learn(known: &mut Known, slot: u32, command: &Command, reply: &Reply) {
    match (command, reply) {
        (_, Reply::Created { inode, .. } | Reply::Linked { inode, .. }) => {
            let all = match inode.kind {
                Kind::Directory(_) => &mut known.dirs,
                _ => &mut known.files,
            };
            if !all.contains(&inode.id) {
                all.push(inode.id);
                if all.len() > KNOWN_MAX {
                    all.remove(1);
                }
            }
        }
        (_, Reply::Opened { inode, stateid, .. }) => {
            known.opens.retain(|(by, ..)| *by != slot);
            known.opens.push((slot, inode.id, *stateid));
        }
        (Command::Close { .. }, Reply::State { .. }) => {
            known.opens.retain(|(by, ..)| *by != slot);
            known.locks.retain(|(by, ..)| *by != slot);
        }
        (Command::Lock { inode, .. }, Reply::State { stateid: Some(stateid) }) => {
            known.locks.retain(|(by, ..)| *by != slot);
            known.locks.push((slot, *inode, *stateid));
        }
        (Command::Unlock { .. }, Reply::State { .. }) => known.locks.retain(|(by, ..)| *by != slot),
        // Without state at the state machine the client has none.
        (Command::Close { .. } | Command::Lock { .. } | Command::Unlock { .. }, Reply::Refused(_)) => {
            known.opens.retain(|(by, ..)| *by != slot);
            known.locks.retain(|(by, ..)| *by != slot);
        }
        _ => {}
    }
}
