//! Striping of new files: requests and changes of administrators.
//!
//! Plain values: the caller formats them as text or JSON.

use cluster::AdminError;
use namespace::{COPIES_MAX, Command, Inode, InodeId, Kind, PoolId, StripePolicy, StripeUnit, read};
use store::View;

use crate::COLUMNS_MAX;
use crate::data::Data;
use crate::errors::FileError;

/// Striping of new files in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StripeReport {
    /// Full path of the directory.
    pub path: String,
    /// Stripe unit in bytes.
    pub unit_bytes: u32,
    /// Number of columns; 0: one on each target.
    pub columns: u32,
    /// Copies of each column.
    pub copies: u8,
    /// Whether the policy says how many; else its pool does.
    pub sets_copies: bool,
    /// Pool of the targets.
    pub pool: String,
    /// Directory with the policy: this one, or one above. None: the metaserver's configuration.
    pub set_on: Option<String>,
}

/// Stripe policy as an administrator gives it, not checked yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewStripe {
    /// Stripe unit in bytes.
    pub unit_bytes: u64,
    /// Number of columns; 0: one on each target.
    pub columns: u32,
    /// Copies of each column; 0: as many as the pool says.
    pub copies: u32,
    /// Name of a pool.
    pub pool: String,
}

impl Data {
    /// Returns the striping of new files in the directory `path`. Paths begin at the volume's root, "/".
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn stripe_get(&self, path: &str) -> Result<StripeReport, AdminError> {
        let view = self.machine.view().map_err(server_failed)?;
        let way = walk(&*view, path)?;
        let set = way.iter().rposition(|(_, _, policy)| policy.is_some());
        let policy = set.and_then(|at| way[at].2).unwrap_or(self.cluster.default_stripe().into());
        Ok(StripeReport {
            path: written_out(&way),
            unit_bytes: policy.unit.bytes(),
            columns: policy.columns,
            copies: self.cluster.copies_of(&policy),
            sets_copies: set.is_some() && policy.copies > 0,
            pool: self.cluster.map().pool_name(policy.pool).into(),
            set_on: set.map(|at| written_out(&way[..=at])),
        })
    }

    /// Sets the striping of new files in and below the directory `path`; none: as in the directory above.
    /// Existing files keep their layout.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn stripe_set(
        &self,
        path: &str,
        policy: Option<NewStripe>,
    ) -> Result<StripeReport, AdminError> {
        self.cluster.agree().await?;
        let (dir, before) = {
            let view = self.machine.view().map_err(server_failed)?;
            walk(&*view, path)?.last().map_or((InodeId::ROOT, None), |(inode, _, policy)| (*inode, *policy))
        };
        let policy = match policy {
            None => None,
            Some(new) => Some(self.ready_policy(&new, before).await?),
        };
        self.state.propose(None, Command::SetStripe { dir, policy }).await.map_err(
            |status| match status {
                FileError::Stale | FileError::NoEntry => AdminError::NotFound(path.into()),
                FileError::NotDirectory => AdminError::NotDirectory(path.into()),
                FileError::NoSpace => {
                    AdminError::Failed("no space for metadata: free some in the data directory".into())
                }
                other => server_failed(other),
            },
        )?;
        self.stripe_get(path).await
    }

    /// Policy for a directory that has the policy `before`: its pool has targets, and there are chains for its files.
    ///
    /// # Errors
    /// [`AdminError`].
    pub(super) async fn ready_policy(
        &self,
        new: &NewStripe,
        before: Option<StripePolicy>,
    ) -> Result<StripePolicy, AdminError> {
        let policy = stripe_policy(new, self.cluster.pool(&new.pool)?)?;
        if before.is_none_or(|before| before.pool != policy.pool) {
            self.cluster.check_pool_has_targets(policy.pool)?;
        }
        let copies = match policy.copies {
            0 => self.cluster.wanted_copies(policy.pool),
            copies => copies,
        };
        self.cluster.ensure_chains_apart(copies, policy.pool).await?;
        Ok(policy)
    }
}

pub(crate) fn server_failed(status: FileError) -> AdminError {
    match status {
        FileError::Delay | FileError::Away | FileError::NoAnswer | FileError::StaleEpoch => {
            AdminError::unreachable()
        }
        status => AdminError::Failed(format!("{status:?}")),
    }
}

fn stripe_policy(new: &NewStripe, pool: PoolId) -> Result<StripePolicy, AdminError> {
    let (unit, columns, copies) = (new.unit_bytes, new.columns, new.copies);
    let bytes = u32::try_from(unit).ok().and_then(StripeUnit::new);
    let unit = bytes.ok_or_else(|| {
        AdminError::Invalid(format!("a stripe unit is a multiple of 64KiB up to 1GiB, which {unit} is not"))
    })?;
    if columns > COLUMNS_MAX {
        let why =
            format!("columns are 1 to {COLUMNS_MAX}, or 0 for one on each target; {columns} is too many");
        return Err(AdminError::Invalid(why));
    }
    let copies = u8::try_from(copies).ok().filter(|copies| usize::from(*copies) <= COPIES_MAX);
    let copies = copies.ok_or_else(|| {
        AdminError::Invalid(format!(
            "copies are 1 to {COPIES_MAX}, each on a data server of its own, or 0 for as many as the pool says"
        ))
    })?;
    Ok(StripePolicy { unit, columns, copies, pool })
}

/// Directory on a path: inode, name and its own policy.
pub(crate) type Step = (InodeId, String, Option<StripePolicy>);

/// Returns the directories from the root, which has no name, to `path`.
pub(crate) fn walk(view: &dyn View, path: &str) -> Result<Vec<Step>, AdminError> {
    let mut way = vec![directory(view, InodeId::ROOT, String::new(), path)?];
    for name in path.split('/').filter(|name| !name.is_empty() && *name != ".") {
        if name == ".." {
            way.truncate(way.len().saturating_sub(1).max(1));
            continue;
        }
        let dir = way.last().map_or(InodeId::ROOT, |(inode, ..)| *inode);
        let found = read::lookup(view, dir, name.as_bytes())?;
        let inode = found.ok_or_else(|| AdminError::NotFound(path.into()))?;
        way.push(directory(view, inode, name.into(), path)?);
    }
    Ok(way)
}

fn directory(view: &dyn View, inode: InodeId, name: String, path: &str) -> Result<Step, AdminError> {
    match read::inode(view, inode)? {
        Some(Inode { kind: Kind::Directory(directory), .. }) => Ok((inode, name, directory.stripe)),
        Some(_) => Err(AdminError::NotDirectory(path.into())),
        None => Err(AdminError::NotFound(path.into())),
    }
}

pub(crate) fn written_out(way: &[Step]) -> String {
    let names: Vec<_> = way.iter().skip(1).map(|(_, name, _)| name.as_str()).collect();
    format!("/{}", names.join("/"))
}

#[cfg(test)]
mod tests {
    use namespace::{Create, Exists, NewAttributes, NewNode, Proposal, Stamp, apply};
    use store::{Durability, MemoryStore, Store};

    use super::*;

    fn policy(unit_bytes: u64, columns: u32, copies: u32) -> Result<StripePolicy, AdminError> {
        let new = NewStripe { unit_bytes, columns, copies, pool: String::new() };
        stripe_policy(&new, PoolId::DEFAULT)
    }

    #[test]
    fn a_path_is_walked_from_the_root_of_the_volume() {
        let memory = MemoryStore::new();
        let make = |name: &str, node| {
            Command::Create(Create {
                dir: InodeId::ROOT,
                name: name.into(),
                node,
                attributes: NewAttributes { mode: 0o755, uid: 0, gid: 0, accessed: None, modified: None },
                exists: Exists::Refuse,
            })
        };
        let policy = policy(65_536, 2, 1).unwrap();
        let set = Command::SetStripe { dir: InodeId::ROOT, policy: Some(policy) };
        let commands = [make("d", NewNode::Directory), make("pipe", NewNode::Fifo), set];
        let mut all = |edit: &mut dyn store::Edit| {
            namespace::format(edit, &Stamp::default(), [7; 16])?;
            for command in &commands {
                let command = command.clone();
                apply(edit, &Proposal::new(Stamp::default(), None, command))?;
            }
            Ok(())
        };
        memory.batch(Durability::Immediate, &mut all).unwrap();
        let view = memory.snapshot().unwrap();
        let path = |p: &str| walk(&*view, p).map(|way| written_out(&way));
        assert_eq!(path("/").unwrap(), "/");
        assert_eq!(path("//d/.").unwrap(), "/d");
        assert_eq!(path("d/../../d").unwrap(), "/d");
        assert_eq!(walk(&*view, "/d").unwrap()[0].2, Some(policy));
        assert_eq!(path("/mnt/d"), Err(AdminError::NotFound("/mnt/d".into())));
        assert_eq!(path("/pipe"), Err(AdminError::NotDirectory("/pipe".into())));
    }

    #[test]
    fn policies_out_of_bounds_are_refused() {
        assert!(policy(1 << 20, 4, 0).is_ok() && policy(1 << 20, 0, 3).is_ok());
        let unit = 1 << 20;
        let table = [(0, 1, 1), (1000, 1, 1), (1 << 31, 1, 1), (1 << 40, 1, 1), (unit, 65, 1), (unit, 1, 4)];
        for (unit, columns, copies) in table {
            let policy = policy(unit, columns, copies);
            assert!(matches!(policy, Err(AdminError::Invalid(_))), "{unit} {columns} {copies}");
        }
    }
}
