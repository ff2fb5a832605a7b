//! What holds in a pool: the number of copies of new files, and when blocks are verified. A pool says it, or the
//! cluster's settings do.

use namespace::{COPIES_MAX, Error, MapChange, PoolId, PoolPolicy, StripePolicy, TargetId, Verify};

use crate::cluster::Cluster;
use crate::error::{AdminError, ClusterError};
use crate::settings::Copies;

impl Cluster {
    /// Copies of new files in a pool whose directory names no number. While there are no chains on two machines of the
    /// pool, [`Copies::Auto`] is one.
    #[must_use]
    pub fn copies_in(&self, pool: PoolId) -> u8 {
        match (self.map().pool_policy(pool).copies, self.settings().stripe_copies) {
            (Some(number), _) | (None, Copies::Number(number)) => number,
            (None, Copies::Auto) => self.chains.copies_if_auto(pool),
        }
    }

    /// Copies of new files in a directory with this policy.
    #[must_use]
    pub fn copies_of(&self, policy: &StripePolicy) -> u8 {
        if policy.copies > 0 { policy.copies } else { self.copies_in(policy.pool) }
    }

    /// When blocks of the targets in a pool are verified.
    #[must_use]
    pub fn verify_in(&self, pool: PoolId) -> Verify {
        self.map().pool_policy(pool).verify.unwrap_or(self.settings().verify)
    }

    /// Those of the targets whose blocks are verified by scrubs only.
    #[must_use]
    pub fn verified_at_scrub(&self, targets: &[TargetId]) -> Vec<u64> {
        let map = self.map();
        let is_it = |target: &&TargetId| self.verify_in(map.pool_of(**target)) == Verify::Scrub;
        targets.iter().filter(is_it).map(|target| target.0).collect()
    }

    /// Changes what holds in a pool beside the default one. Files that exist keep their copies.
    ///
    /// # Errors
    /// [`AdminError::Invalid`] if there is no such pool, or it has too few data servers or zones for so many copies.
    pub async fn set_pool_policy(
        &self,
        name: &str,
        change: impl Fn(PoolPolicy) -> PoolPolicy,
    ) -> Result<(), AdminError> {
        self.agree().await?;
        let id = self.pool(name)?;
        if id == PoolId::DEFAULT {
            return Err(AdminError::Invalid(
                "for the default pool the cluster's settings hold: heorot set stripe_copies N, heorot set verify read".into(),
            ));
        }
        let policy = change(self.map().pool_policy(id));
        let copies = policy.copies.unwrap_or(match self.settings().stripe_copies {
            Copies::Number(number) => number,
            Copies::Auto => 1,
        });
        if !(1..=COPIES_MAX).contains(&usize::from(copies)) {
            return Err(AdminError::Invalid(format!(
                "copies are 1 to {COPIES_MAX}, each on a data server of its own; 0: as heorot set stripe_copies says"
            )));
        }
        // While it has no targets, this is checked when directories name it.
        if self.servers_of_pool(id) > 0 {
            self.ensure_chains_apart(copies, id).await?;
        }
        self.change_map(MapChange::PoolPolicy(id, policy)).await.map_err(|error| match error {
            ClusterError::Refused(Error::NoEntry) => {
                AdminError::Invalid(format!("there is no pool {name:?} any more"))
            }
            error => error.into(),
        })
    }
}
