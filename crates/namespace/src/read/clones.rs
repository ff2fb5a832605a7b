//! Reads of clones.

use std::ops::ControlFlow;

use store::{StoreError, View};

use super::{scan_keys, some_keys};
use crate::record::get;
use crate::{InodeId, Origin, VolumeId, keys};

/// Where a clone has its records from; none of a volume that is no clone, or none any more.
///
/// # Errors
/// [`StoreError`] when the store fails, as all reads here.
pub fn origin(view: &dyn View, id: VolumeId) -> Result<Option<Origin>, StoreError> {
    if id.is_clone() { get(view, &keys::origin(id)) } else { Ok(None) }
}

/// Clones of a snapshot.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn clones(view: &dyn View, snapshot: VolumeId) -> Result<Vec<VolumeId>, StoreError> {
    let mut clones = Vec::new();
    scan_keys(view, &keys::clones_of(snapshot), |key| {
        clones.push(VolumeId(keys::number(key, 9) as u32));
        ControlFlow::Continue(())
    })?;
    Ok(clones)
}

/// Files of promoted clones whose objects are to be copied, at most `max` from `from` on.
///
/// # Errors
/// [`StoreError`] when the store fails.
pub fn clones_to_copy(view: &dyn View, from: InodeId, max: usize) -> Result<Vec<InodeId>, StoreError> {
    let some = some_keys(view, &keys::to_copy(from), &keys::after(&[keys::TO_COPY]), max)?;
    Ok(some.iter().map(|key| InodeId(keys::number(key, 1))).collect())
}
