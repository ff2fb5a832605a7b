//! Changes of one target by an operator: drain, remove, replace, declare lost or found.
//!
//! ```text
//! in use ── drain ──▶ draining ── its data are elsewhere, remove ──▶ removed
//!    ▲ └── lost ──▶ lost        its data are given up
//!    └── undrain, found: from any
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use cluster::{AGREE_TIME_MAX, AdminError, ClusterError, KnownTarget};
use namespace::{Error, MapChange, TargetId, TargetState};
use wire::data::TargetCondition;

use crate::data::Data;

/// A change of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetChange {
    /// Its data move to others, and it gets no new ones.
    Drain,
    /// It is used as before.
    Undrain,
    /// It leaves the cluster, without data.
    Remove,
    /// Its data are given up.
    Lost,
    /// It is used as before, after it was lost or removed.
    Found,
    /// It drains, and this target is in its pool.
    ReplaceBy(String),
}

impl Data {
    /// Changes a target. Returns a message for the operator.
    ///
    /// # Errors
    /// [`AdminError::Invalid`] when no target has this name, or it cannot change so.
    pub async fn change_target(
        self: &Arc<Self>,
        name: &str,
        change: &TargetChange,
    ) -> Result<String, AdminError> {
        self.cluster.agree().await?;
        let known = self.cluster.named_target(name)?;
        let id = format!("{:016x}", known.target.0);
        let place = known.place();
        match (change, known.state) {
            (TargetChange::Drain | TargetChange::ReplaceBy(_), TargetState::Lost | TargetState::Removed) => {
                Err(AdminError::Invalid(format!("{place} is lost or removed: there is nothing to move")))
            }
            (TargetChange::Drain, TargetState::Draining) => Ok(drains(&known)),
            (TargetChange::Drain, TargetState::InUse) => {
                check_readable(&known)?;
                self.cluster.check_target_drain(known.target, None)?;
                self.set_target_state(known.target, TargetState::Draining).await?;
                Ok(drains(&known))
            }
            (TargetChange::ReplaceBy(other), _) => self.replace_target(&known, other).await,
            (TargetChange::Undrain, TargetState::InUse) if known.drains => Err(AdminError::Invalid(format!(
                "{place} drains with its data server: heorot node undrain {}",
                known.server.unwrap_or_default()
            ))),
            (TargetChange::Undrain, TargetState::InUse) => Ok(format!("{place} is in use already")),
            (TargetChange::Undrain, TargetState::Draining) => {
                self.set_target_state(known.target, TargetState::InUse).await?;
                Ok(format!("{place} takes new data again"))
            }
            (TargetChange::Undrain, TargetState::Lost | TargetState::Removed) => Err(AdminError::Invalid(
                format!("{place} is lost or removed: heorot target found {place} has it used again"),
            )),
            (TargetChange::Remove, TargetState::Removed) => Ok(format!("{place} is removed already")),
            (TargetChange::Remove, TargetState::Draining) => self.remove_target(&known).await,
            (TargetChange::Remove, _) => Err(AdminError::Invalid(format!(
                "{place} may have data of files: heorot target drain {place} comes first; if its disk is gone, heorot target \
                 lost {place} gives up what only it has"
            ))),
            (TargetChange::Lost, TargetState::Lost) | (TargetChange::Found, TargetState::InUse) => {
                Ok(format!("target {id} is so already"))
            }
            (TargetChange::Lost, _) => {
                self.set_target_state(known.target, TargetState::Lost).await?;
                tokio::spawn(Arc::clone(self).recall_layouts_of_lost());
                Ok(format!(
                    "target {id} is lost: reading what files had there is an error from now on; heorot files --on {id} lists \
                     them"
                ))
            }
            (TargetChange::Found, TargetState::Draining) => {
                Err(AdminError::Invalid(format!("{place} drains; heorot target undrain {place} ends that")))
            }
            (TargetChange::Found, _) => {
                self.set_target_state(known.target, TargetState::InUse).await?;
                Ok(format!("target {id} is used as before, when its data server has it"))
            }
        }
    }

    async fn set_target_state(&self, target: TargetId, state: TargetState) -> Result<(), AdminError> {
        let change = self.cluster.change_map(MapChange::Target(target, state));
        let changed = tokio::time::timeout(AGREE_TIME_MAX, change).await;
        changed.unwrap_or(Err(ClusterError::NoLeader)).map_err(|error| match error {
            ClusterError::Refused(Error::NotEmpty) => {
                AdminError::Invalid("it is a member of chains still; try again when they have left it".into())
            }
            ClusterError::Refused(Error::Invalid) => AdminError::Invalid(format!(
                "another operator has changed it meanwhile, or {} targets are lost, removed or drain, and that is the bound",
                namespace::DECLARED_TARGETS_MAX
            )),
            error => error.into(),
        })?;
        self.state.deferred_ready.notify_one();
        Ok(())
    }

    async fn remove_target(self: &Arc<Self>, known: &KnownTarget) -> Result<String, AdminError> {
        let place = known.place();
        if self.has_files(format!("{:016x}", known.target.0)).await? {
            return Err(AdminError::Invalid(format!(
                "{place} has data of files that have not moved yet; heorot files --on {place} lists them"
            )));
        }
        if known.chains > 0 {
            return Err(AdminError::Invalid(format!(
                "{place} is a member of {} chains, whose data move to other targets that have room; heorot target list counts \
                 them",
                known.chains
            )));
        }
        let left = self.leave_targets(&BTreeSet::from([known.target])).await;
        left.map_err(|why| AdminError::Invalid(format!("{place} {why}").replace(", or force it", "")))?;
        self.set_target_state(known.target, TargetState::Removed).await?;
        // From here on nothing new comes to it. Meanwhile another operator may have had it serve again for a moment.
        if self.has_files(format!("{:016x}", known.target.0)).await? {
            self.set_target_state(known.target, TargetState::InUse).await?;
            return Err(AdminError::Invalid(format!(
                "{place} has got new data meanwhile, and is in use: heorot target drain {place} begins anew"
            )));
        }
        Ok(format!(
            "{place} is removed: take its directory out of `targets` in the configuration of its data server, and restart that"
        ))
    }

    async fn replace_target(&self, known: &KnownTarget, other: &str) -> Result<String, AdminError> {
        let (new, place) = (self.cluster.named_target(other)?, known.place());
        if new.target == known.target {
            return Err(AdminError::Invalid(format!("{place} cannot take its own place")));
        }
        if new.state != TargetState::InUse || new.drains || !new.is_alive {
            return Err(AdminError::Invalid(format!(
                "{} is not in use, so it can take no data",
                new.place()
            )));
        }
        check_readable(known)?;
        self.cluster.check_target_drain(known.target, Some(new.target))?;
        if new.pool != known.pool {
            self.cluster.put_into_pool(&known.pool, &[format!("{:016x}", new.target.0)]).await?;
        }
        self.set_target_state(known.target, TargetState::Draining).await?;
        Ok(format!("{}; {} is in its pool", drains(known), new.place()))
    }
}

/// Checks that the data of a target can be read.
fn check_readable(known: &KnownTarget) -> Result<(), AdminError> {
    let condition = known.report.as_ref().map(|report| report.condition);
    let is_readable = known.is_alive
        && !matches!(condition, None | Some(TargetCondition::Missing | TargetCondition::Failed));
    if is_readable {
        return Ok(());
    }
    let place = known.place();
    Err(AdminError::Invalid(format!(
        "{place} cannot be read now, so its data cannot move: start its data server, or mend its disk; if that is gone, heorot \
         target lost {place} gives up what only it has, and what has copies gets new ones"
    )))
}

fn drains(known: &KnownTarget) -> String {
    let place = known.place();
    format!(
        "{place} takes no new files; its data move to other targets that have room: heorot target list counts its chains, \
         heorot files --on {place} lists what has no copy elsewhere, and heorot target remove {place} ends it"
    )
}
