//! Schedules of snapshots: the leader makes those that are due, and removes the oldest ones above the number to keep.
//!
//! ```text
//! hourly=24    each hour     hourly-2026-11-28T20:00Z    and the oldest of more than 24 goes
//! daily=7      each day      daily-2026-11-28T00:00Z
//! weekly=5     each Monday   weekly-2026-11-23T00:00Z
//! ```
//!
//! A snapshot is one of the schedule if it has the name of the time at which it was made: others are never removed here.
//! One whose files clients have open stays until they are closed.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cluster::AdminError;
use namespace::{Command, Error, Reply, Schedule, Snapshot, VolumeId, read};

use crate::Metaserver;
use crate::admin::snapshots::{SnapshotMade, volume_at};
use crate::admin::stripe::server_failed;
use crate::errors::FileError;

/// Interval at which the leader looks for what is due.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Kind of scheduled snapshots.
struct Kind {
    name: &'static str,
    period_seconds: i64,
    /// Begin of a period in seconds since 1970: 1970 began on a Thursday.
    first: i64,
    keep: fn(&Schedule) -> u16,
}

const DAY: i64 = 86_400;

const KINDS: [Kind; 3] = [
    Kind { name: "hourly", period_seconds: 3600, first: 0, keep: |schedule| schedule.hourly },
    Kind { name: "daily", period_seconds: DAY, first: 0, keep: |schedule| schedule.daily },
    Kind { name: "weekly", period_seconds: 7 * DAY, first: 4 * DAY, keep: |schedule| schedule.weekly },
];

impl Kind {
    /// Name of the snapshot of the period that contains a time.
    fn name_at(&self, seconds: i64) -> String {
        let begin = (seconds - self.first).div_euclid(self.period_seconds) * self.period_seconds + self.first;
        let begin = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(begin).unwrap_or(0));
        let text = humantime::format_rfc3339_seconds(begin).to_string();
        format!("{}-{}Z", self.name, text.trim_end_matches(":00Z"))
    }

    /// The snapshots of this kind, in the order of their making.
    fn of<'a>(&self, all: &'a [Snapshot]) -> Vec<&'a Snapshot> {
        all.iter().filter(|one| one.name == self.name_at(one.created.seconds).as_bytes()).collect()
    }
}

/// Schedule of a volume, for a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleReport {
    /// Path of the volume.
    pub volume: String,
    /// How many snapshots of each kind are kept.
    pub schedule: Schedule,
}

impl Metaserver {
    /// Returns the schedules of all volumes that have one.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn schedules_report(&self) -> Result<Vec<ScheduleReport>, AdminError> {
        self.cluster.agree().await?;
        let view = self.machine.view().map_err(server_failed)?;
        let mut reports = Vec::new();
        for volume in read::volumes(&*view)? {
            let schedule = read::history(&*view, volume.id)?.schedule;
            if schedule != Schedule::default() {
                let path =
                    self.admission.path_of_directory(&*view, volume.id.root()).map_err(server_failed)?;
                reports.push(ScheduleReport { volume: path, schedule });
            }
        }
        Ok(reports)
    }

    /// Sets the schedule of the volume at `path`, and returns a message.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn schedule_set(&self, path: &str, schedule: Schedule) -> Result<String, AdminError> {
        self.cluster.agree().await?;
        let (volume, path) = volume_at(&*self.machine.view().map_err(server_failed)?, path)?;
        self.state.propose(None, Command::SetSchedule { volume, schedule }).await.map_err(server_failed)?;
        tracing::info!(path, ?schedule, "a schedule of snapshots is set");
        Ok(match schedule == Schedule::default() {
            true => format!("{path} has no schedule of snapshots; those that were made stay"),
            false => {
                format!("{path} has a schedule of snapshots; heorot snapshot list shows those that are there")
            }
        })
    }

    /// Makes and removes snapshots as the schedules say, while this metaserver leads. Never returns.
    pub(crate) async fn follow_schedules(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if self.machine.replica.leads()
                && let Err(error) = self.follow_schedules_once().await
            {
                tracing::warn!(%error, "a schedule of snapshots is tried again");
            }
        }
    }

    async fn follow_schedules_once(&self) -> Result<(), AdminError> {
        let with_schedules: Vec<(VolumeId, Schedule)> = {
            let view = self.machine.view().map_err(server_failed)?;
            let mut found = Vec::new();
            for volume in read::volumes(&*view)? {
                let schedule = read::history(&*view, volume.id)?.schedule;
                found.extend((schedule != Schedule::default()).then_some((volume.id, schedule)));
            }
            found
        };
        for (volume, schedule) in with_schedules {
            for kind in &KINDS {
                // Those of others do not wait for a volume that is promoted, or rolled back.
                if let Err(error) = self.follow_kind(volume, kind, (kind.keep)(&schedule).into()).await {
                    tracing::warn!(volume = volume.0, %error, "a schedule of snapshots is tried again");
                }
            }
        }
        Ok(())
    }

    async fn follow_kind(&self, volume: VolumeId, kind: &Kind, keep: usize) -> Result<(), AdminError> {
        let name = kind.name_at(self.machine.now().seconds);
        let snapshots =
            || Ok::<_, AdminError>(read::snapshots(&*self.machine.view().map_err(server_failed)?, volume)?);
        let is_there = snapshots()?.iter().any(|one| one.name == name.as_bytes());
        if keep > 0 && !is_there {
            let path = {
                let view = self.machine.view().map_err(server_failed)?;
                self.admission.path_of_directory(&*view, volume.root()).map_err(server_failed)?
            };
            if let SnapshotMade::NotYet(why) = self.snapshot_of(volume, &path, name.as_bytes()).await? {
                tracing::info!(path, name, why, "a snapshot of the schedule is not made yet");
                return Ok(()); // the old ones stay until then
            }
        }
        let all = snapshots()?;
        let of_kind = kind.of(&all);
        for old in of_kind.iter().take(of_kind.len().saturating_sub(keep)) {
            let remove = Command::RemoveSnapshot { volume, name: old.name.clone(), force: false };
            match self.state.propose(None, remove).await {
                Ok(Reply::Done)
                | Err(FileError::NoEntry | FileError::State(Error::FilesOpen | Error::HoldsClones)) => {}
                Ok(other) => return Err(AdminError::Failed(format!("{other:?}"))),
                Err(error) => return Err(server_failed(error)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use namespace::Time;

    use super::*;

    /// 2026-11-28T20:31:05Z, a Saturday.
    const NOW: i64 = 1_795_897_865;

    #[test]
    fn a_period_begins_on_the_hour_at_midnight_or_on_monday() {
        let names: Vec<String> = KINDS.iter().map(|kind| kind.name_at(NOW)).collect();
        let expected = ["hourly-2026-11-28T20:00Z", "daily-2026-11-28T00:00Z", "weekly-2026-11-23T00:00Z"];
        assert_eq!(names, expected);
        assert_eq!(KINDS[2].name_at(NOW + 2 * DAY), "weekly-2026-11-30T00:00Z");
    }

    #[test]
    fn only_snapshots_with_the_name_of_their_time_are_of_the_schedule() {
        let one = |version, name: &str, seconds| Snapshot {
            id: VolumeId(1 << 23),
            volume: VolumeId::FIRST,
            version,
            name: name.into(),
            created: Time { seconds, nanoseconds: 0 },
            volumes: 0,
        };
        let all = [
            one(1, "hourly-2026-11-28T19:00Z", NOW - 3600),
            one(2, "hourly-by-hand", NOW),
            one(3, "hourly-2026-11-28T20:00Z", NOW),
            one(4, "hourly-2026-11-27T20:00Z", NOW),
        ];
        let versions: Vec<u32> = KINDS[0].of(&all).iter().map(|one| one.version).collect();
        assert_eq!(versions, [1, 3]);
    }
}
