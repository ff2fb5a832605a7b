//! Rebuild of a metaserver from the other members: its log or store is damaged, or its state differs from
//! theirs.
//!
//! Entries that it acknowledged may have counted for a quorum, and may be lost: so it must not vote again. It
//! joins as a new member, with an empty directory, after the group has removed the old member.
//!
//! ```text
//! damaged.<old id>.new/others    addresses of the other voters; then identity.toml gets the new id, and log
//!                                and store move in
//! damaged.<old id>/              remove the old member from the group, and join with the new one
//! damaged.<old id>.replaced/     done; kept for the operator, until the next rebuild
//! ```
//!
//! After a crash at any of these points the next start continues. Two other voters are needed, which have a
//! quorum without the old member.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use host::SystemFiles;
use replica::{Member, NodeId, Replica, ReplicaConfig, ReplicaError};

use crate::node::data_dir::DataDir;
use command_line::Failure;

const FOLDER: &str = "damaged.";
const UNFINISHED: &str = ".new";
const REPLACED: &str = ".replaced";
const OTHERS: &str = "others";
/// Files that the rebuild moves away.
const SET_ASIDE: [&str; 2] = ["log", "namespace.redb"];
/// File that moves with them: the voters of the old member's group (`replica::transport::members_file`).
const VOTERS: &str = "members";
/// Number of other voters that have a quorum without this one.
const OTHERS_MIN: usize = 2;
/// Remedy for one of two voters.
const OF_TWO: &str = ", which cannot go on without it: restore the metadata from a backup (heorot restore)";
/// Remedy for the only voter.
const ALONE: &str = ": restore the metadata from a backup (heorot restore)";
/// Time limit of the removal: an election and a membership change.
const REMOVE_TIME_MAX: Duration = Duration::from_secs(60);

/// Damaged member that this one replaces.
pub(crate) struct Lost {
    member: NodeId,
    others: Vec<String>,
}

/// Opens the replica with `open`; if its log or store is damaged, rebuilds it as a new member with the id
/// `new_id`. Returns also the members that still have to be removed.
pub(crate) fn open(
    dir: &mut DataDir,
    cluster: &[u8; 16],
    config: &mut ReplicaConfig,
    new_id: NodeId,
    open: impl Fn(&ReplicaConfig) -> Result<Replica, ReplicaError>,
) -> Result<(Replica, Vec<Lost>), Failure> {
    finish(dir.path(), dir.member()).map_err(|e| said(dir.path(), &e))?;
    check_there(dir)?;
    let replica = match open(config) {
        Err(ReplicaError::Damaged { why, others }) => {
            if others.len() < OTHERS_MIN {
                return Err(Failure::new(format!(
                    "{why}; it cannot fill itself from others: that takes two that have a vote, and it knows of {}{}",
                    others.len(),
                    if others.len() == 1 { OF_TWO } else { ALONE }
                )));
            }
            tracing::error!(%why, "log or store is damaged: rebuilding this metaserver from the others, as a new member");
            set_aside(dir, cluster, config.id, new_id, &others)?;
            (config.id, config.founds) = (new_id, false);
            open(config)?
        }
        replica => replica?,
    };
    let lost = lost(dir.path()).map_err(|e| said(dir.path(), &e))?;
    Ok((replica, lost))
}

/// Refuses an empty directory of a known member: it would vote without the entries that it had acknowledged.
fn check_there(dir: &DataDir) -> Result<(), Failure> {
    let path = dir.path();
    let is_there = SET_ASIDE.iter().any(|name| path.join(name).exists());
    let is_filled_again = !lost(path).map_err(|e| said(path, &e))?.is_empty();
    if dir.member().is_none() || is_there || is_filled_again {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{}: the metadata of this metaserver are gone (neither {} nor {}); bring them back, or start it with an empty directory: \
         with another metaserver as `join`, which has all of it, once the group goes on without this one (heorot node remove); \
         or from a backup (heorot restore)",
        path.display(),
        SET_ASIDE[0],
        SET_ASIDE[1]
    )))
}

/// Removes the damaged members from the group. Returns an address to join, if there were any.
pub(crate) async fn remove(lost: Vec<Lost>, replica: &Replica) -> Result<Option<String>, Failure> {
    let mut where_to_join = None;
    for lost in lost {
        let mut outcome = Err("no other member is known".to_owned());
        for address in &lost.others {
            outcome = replica.remove_lost(address, lost.member, REMOVE_TIME_MAX).await;
            if outcome.is_ok() {
                where_to_join = Some(address.clone());
                break;
            }
        }
        outcome.map_err(|why| {
            Failure::new(format!(
                "log or store was damaged, and the member {:016x} that had it is not removed from the group: {why}; start again \
                 when two others run",
                lost.member
            ))
        })?;
        tracing::info!(member = format!("{:016x}", lost.member), "removed the damaged member from the group");
    }
    Ok(where_to_join)
}

/// Ends the rebuild: this member has all metadata.
pub(crate) fn done(dir: &Path) -> Result<(), Failure> {
    let rename = || -> io::Result<()> {
        for folder in folders(dir)?.into_iter().filter(|(_, state)| state.is_empty()) {
            for (old, _) in folders(dir)?.into_iter().filter(|(_, state)| state == REPLACED) {
                fs::remove_dir_all(old)?;
            }
            let mut name = folder.0.clone().into_os_string();
            name.push(REPLACED);
            fs::rename(&folder.0, &name)?;
            tracing::warn!(kept = %Path::new(&name).display(), "rebuilt; the damaged log and store are kept for inspection: remove them");
        }
        sync(dir)
    };
    rename().map_err(|e| said(dir, &e))
}

fn set_aside(
    dir: &mut DataDir,
    cluster: &[u8; 16],
    old: NodeId,
    new: NodeId,
    others: &[Member],
) -> Result<(), Failure> {
    let folder = dir.path().join(format!("{FOLDER}{old:016x}{UNFINISHED}"));
    let note = || -> io::Result<()> {
        host::private::make_dir(&folder)?;
        let lines: String = others.iter().map(|member| format!("{}\n", member.address)).collect();
        host::replace(&SystemFiles, &folder.join(OTHERS), lines.as_bytes())?;
        sync(dir.path())
    };
    note().map_err(|e| said(&folder, &e))?;
    // After this no start uses the old id, whatever the directory has.
    dir.claim_member(cluster, new)?;
    finish(dir.path(), dir.member()).map_err(|e| said(dir.path(), &e))
}

/// Continues an interrupted rebuild.
fn finish(dir: &Path, member: Option<NodeId>) -> io::Result<()> {
    for (folder, state) in folders(dir)? {
        if state != UNFINISHED {
            continue;
        }
        if member.is_some() && id(&folder) == member {
            // Nothing has moved yet: the next start finds the damage again.
            fs::remove_dir_all(&folder)?;
            continue;
        }
        for name in SET_ASIDE.into_iter().chain([VOTERS]) {
            let from = dir.join(name);
            if from.exists() {
                fs::rename(from, folder.join(name))?;
            }
        }
        sync(&folder)?;
        fs::rename(&folder, folder.with_extension(""))?;
        sync(dir)?;
    }
    Ok(())
}

fn lost(dir: &Path) -> io::Result<Vec<Lost>> {
    let mut lost = vec![];
    for (folder, _) in folders(dir)?.into_iter().filter(|(_, state)| state.is_empty()) {
        let others = fs::read_to_string(folder.join(OTHERS))?.lines().map(str::to_owned).collect();
        lost.extend(id(&folder).map(|member| Lost { member, others }));
    }
    Ok(lost)
}

/// Folders of moved files, each with its state: the suffix of its name.
fn folders(dir: &Path) -> io::Result<Vec<(PathBuf, String)>> {
    let mut found = vec![];
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Some((_, state)) = name.strip_prefix(FOLDER).and_then(|rest| rest.split_at_checked(16)) {
            let state = state.to_owned();
            found.push((path, state));
        }
    }
    Ok(found)
}

fn id(folder: &Path) -> Option<NodeId> {
    let name = folder.file_name()?.to_str()?.strip_prefix(FOLDER)?;
    NodeId::from_str_radix(name.get(..16)?, 16).ok()
}

fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

fn said(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("set aside the damaged files in {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_aside_goes_on_after_a_crash_and_never_under_the_old_id() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let begun = || {
            fs::create_dir_all(at("log")).unwrap();
            fs::write(at("namespace.redb"), "store").unwrap();
            fs::create_dir_all(at("damaged.0000000000000005.new")).unwrap();
            fs::write(at("damaged.0000000000000005.new/others"), "10.0.0.1:2052\n10.0.0.2:2052\n").unwrap();
        };
        begun();
        finish(dir.path(), Some(5)).unwrap();
        assert!(
            at("log").exists() && lost(dir.path()).unwrap().is_empty(),
            "it had not begun to be another one"
        );

        begun();
        // The claim was durable, and the log had moved already.
        fs::rename(at("log"), at("damaged.0000000000000005.new/log")).unwrap();
        for _ in 0..2 {
            finish(dir.path(), Some(77)).unwrap();
            assert!(!at("log").exists() && !at("namespace.redb").exists());
            let lost = lost(dir.path()).unwrap();
            assert_eq!((lost.len(), lost[0].member, lost[0].others.len()), (1, 5, 2));
            assert!(SET_ASIDE.iter().all(|name| at("damaged.0000000000000005").join(name).exists()));
        }
        fs::create_dir(at("damaged.0000000000000004.replaced")).unwrap();
        done(dir.path()).unwrap();
        assert!(lost(dir.path()).unwrap().is_empty());
        assert!(at("damaged.0000000000000005.replaced/log").exists(), "kept for people");
        assert!(!at("damaged.0000000000000004.replaced").exists(), "the one before goes");
    }
}
