//! Quotas: requests of administrators.

use cluster::AdminError;
use namespace::{Command, Error, InodeId, Limits, Subject, Time, Usage, Volume, VolumeId, read};
use store::View;

use crate::Metaserver;
use crate::admin::snapshots::RECALL_MAX;
use crate::admin::stripe::{server_failed, walk, written_out};
use crate::errors::FileError;

/// Time above a soft limit, where none was set.
const GRACE_SECONDS_DEFAULT: u32 = 7 * 86_400;

/// Whose quota it is, as an administrator says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuotaOf {
    /// Of a volume.
    Volume,
    /// Of a user in it: name or number.
    User(String),
    /// Of a group in it: name or number.
    Group(String),
}

/// Usage and limits, for a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaReport {
    /// Path of the volume.
    pub path: String,
    /// Whose it is. A name, if this metaserver knows one.
    pub of: QuotaOf,
    /// What it has, and may have.
    pub usage: Usage,
    /// False while the volume, or users and groups in it, are still being counted.
    pub is_counted: bool,
    /// Seconds until a soft limit becomes a hard one; 0: it is.
    pub grace_left: Option<u64>,
}

/// Limits to change; none: as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NewLimits {
    /// Bytes; 0: no limit, as in the next three.
    pub bytes_hard: Option<u64>,
    /// Bytes that may be exceeded for a time.
    pub bytes_soft: Option<u64>,
    /// Files, directories and all else.
    pub inodes_hard: Option<u64>,
    /// The same, which may be exceeded for a time.
    pub inodes_soft: Option<u64>,
    /// This time.
    pub grace_seconds: Option<u32>,
}

impl Metaserver {
    /// Returns usage and limits of all volumes, or of the one whose root is `path`: the volume, then users, then
    /// groups.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn quota_report(&self, path: Option<&str>) -> Result<Vec<QuotaReport>, AdminError> {
        self.cluster.agree().await?;
        let view = self.machine.view().map_err(server_failed)?;
        let wanted = path.map(|path| volume_at(&*view, path)).transpose()?.map(|(id, _)| id);
        let (mut reports, now) = (Vec::new(), self.machine.now());
        for volume in
            read::volumes(&*view)?.into_iter().filter(|volume| wanted.is_none_or(|id| id == volume.id))
        {
            let Volume { id, usage, counted, .. } = volume;
            let path = self.admission.path_of_directory(&*view, id.root()).map_err(server_failed)?;
            let report = |of, usage| QuotaReport {
                path: path.clone(),
                of,
                usage,
                is_counted: counted.is_done(),
                grace_left: grace_left(&usage, now),
            };
            reports.push(report(QuotaOf::Volume, usage));
            let of_owners = read::usages(&*view, id)?.into_iter();
            reports.extend(of_owners.map(|(subject, usage)| report(self.named(subject), usage)));
        }
        Ok(reports)
    }

    /// Changes limits of the volume whose root is `path`, or of a user or group in it, and returns a message.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn quota_set(&self, path: &str, of: QuotaOf, new: NewLimits) -> Result<String, AdminError> {
        self.cluster.agree().await?;
        let subject = self.subject(&of)?;
        let (volume, path, before) = {
            let view = self.machine.view().map_err(server_failed)?;
            let (id, path) = volume_at(&*view, path)?;
            (id, path, read::usage(&*view, id, subject)?.unwrap_or_default())
        };
        let limits = changed(before.limits, new);
        check(&limits)?;
        let set = Command::SetLimits { volume, subject, limits };
        self.state.propose(None, set).await.map_err(|error| match error {
            FileError::Stale => AdminError::Invalid(format!("{path} was removed meanwhile")),
            FileError::State(Error::Invalid) | FileError::Invalid => {
                AdminError::Invalid("a soft limit is not above its hard one".into())
            }
            other => server_failed(other),
        })?;
        tracing::info!(path, ?of, ?limits, "limits are set");
        // What clients have closed already should be refused to them, not lost.
        let recalled = tokio::time::timeout(RECALL_MAX, self.state.recall_writers_of(volume)).await;
        if !matches!(recalled, Ok(Ok(()))) {
            tracing::debug!(path, "write delegations are not back yet");
        }
        let usage = read::usage(&*self.machine.view().map_err(server_failed)?, volume, subject)?;
        let is_above = |has: u128, limit: u64| limit > 0 && has > limit.into();
        let is_exceeded = usage.is_some_and(|usage| {
            is_above(usage.bytes, limits.bytes_hard) || is_above(usage.inodes.into(), limits.inodes_hard)
        });
        let whose = match of {
            QuotaOf::Volume => path,
            QuotaOf::User(name) => format!("user {name} in {path}"),
            QuotaOf::Group(name) => format!("group {name} in {path}"),
        };
        let note = if is_exceeded { "; more is used: nothing can grow until less is" } else { "" };
        Ok(format!("the limits of {whose} are set{note}"))
    }

    fn subject(&self, of: &QuotaOf) -> Result<Subject, AdminError> {
        let idmap = self.attributes.idmap();
        let unknown = |kind: &str, name: &str| {
            AdminError::Invalid(format!(
                "this metaserver's machine knows no {kind} {name:?}; a number is possible"
            ))
        };
        match of {
            QuotaOf::Volume => Ok(Subject::Volume),
            QuotaOf::User(name) => {
                idmap.user_here(name).map(Subject::User).ok_or_else(|| unknown("user", name))
            }
            QuotaOf::Group(name) => {
                idmap.group_here(name).map(Subject::Group).ok_or_else(|| unknown("group", name))
            }
        }
    }

    fn named(&self, subject: Subject) -> QuotaOf {
        let idmap = self.attributes.idmap();
        let text = |name: bytes::Bytes| {
            let name = String::from_utf8_lossy(&name).into_owned();
            name.split_once('@').map_or(name.clone(), |(name, _)| name.to_owned())
        };
        match subject {
            Subject::Volume => QuotaOf::Volume,
            Subject::User(id) => QuotaOf::User(text(idmap.user_name(id))),
            Subject::Group(id) => QuotaOf::Group(text(idmap.group_name(id))),
        }
    }
}

fn changed(before: Limits, new: NewLimits) -> Limits {
    let grace = if before.grace_seconds == 0 { GRACE_SECONDS_DEFAULT } else { before.grace_seconds };
    let limits = Limits {
        bytes_hard: new.bytes_hard.unwrap_or(before.bytes_hard),
        bytes_soft: new.bytes_soft.unwrap_or(before.bytes_soft),
        inodes_hard: new.inodes_hard.unwrap_or(before.inodes_hard),
        inodes_soft: new.inodes_soft.unwrap_or(before.inodes_soft),
        grace_seconds: new.grace_seconds.unwrap_or(grace),
    };
    let has_none = Limits { grace_seconds: 0, ..limits } == Limits::default();
    if has_none { Limits::default() } else { limits }
}

fn check(limits: &Limits) -> Result<(), AdminError> {
    let is_above = |soft: u64, hard: u64| hard > 0 && soft > hard;
    if is_above(limits.bytes_soft, limits.bytes_hard) || is_above(limits.inodes_soft, limits.inodes_hard) {
        return Err(AdminError::Invalid("a soft limit is not above its hard one".into()));
    }
    Ok(())
}

/// Seconds until the first soft limit that is exceeded becomes a hard one.
fn grace_left(usage: &Usage, now: Time) -> Option<u64> {
    let since = [usage.bytes_over, usage.inodes_over].into_iter().flatten().min()?;
    let end = since.seconds.saturating_add(usage.limits.grace_seconds.into());
    Some(u64::try_from(end.saturating_sub(now.seconds)).unwrap_or(0))
}

/// Volume whose root is at a path, and the path.
fn volume_at(view: &dyn View, path: &str) -> Result<(VolumeId, String), AdminError> {
    let way = walk(view, path)?;
    let root = way.last().map_or(InodeId::ROOT, |(inode, ..)| *inode);
    let path = written_out(&way);
    if root.is_root() {
        return Ok((root.volume(), path));
    }
    Err(AdminError::Invalid(format!(
        "{path} is a directory, and no volume; limits are of volumes, and of users and groups in them"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_stays_and_no_limit_leaves_no_grace() {
        let set = |before, bytes_hard, bytes_soft| {
            changed(before, NewLimits { bytes_hard, bytes_soft, ..NewLimits::default() })
        };
        let first = set(Limits::default(), Some(10), None);
        assert_eq!((first.bytes_hard, first.bytes_soft, first.grace_seconds), (10, 0, GRACE_SECONDS_DEFAULT));
        let second = set(Limits { grace_seconds: 5, ..first }, None, Some(7));
        assert_eq!((second.bytes_hard, second.bytes_soft, second.grace_seconds), (10, 7, 5));
        assert_eq!(set(second, Some(0), Some(0)), Limits::default());
        assert!(check(&second).is_ok() && check(&Limits { bytes_soft: 11, ..second }).is_err());
    }

    #[test]
    fn the_first_soft_limit_tells_the_time_left() {
        let at = |seconds| Time { seconds, nanoseconds: 0 };
        let limits = Limits { grace_seconds: 100, ..Limits::default() };
        let over = Usage { limits, bytes_over: Some(at(50)), inodes_over: Some(at(20)), ..Usage::default() };
        assert_eq!(grace_left(&over, at(60)), Some(60));
        assert_eq!(grace_left(&over, at(500)), Some(0));
        assert_eq!(grace_left(&Usage::default(), at(60)), None);
    }
}
