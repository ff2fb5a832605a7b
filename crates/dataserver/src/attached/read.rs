//! Reads of an attached object: each region from where it is.

use std::sync::Arc;

use bytes::BytesMut;

use super::Attached;
use crate::disk::Place;
use crate::object::{ObjectName, OpenObject};
use crate::objects::{ObjectError, Objects, ReadOutcome};

impl Objects {
    /// Reads `count` bytes at `offset`, whose end is an offset, too.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub(crate) fn read_attached(
        &self,
        name: &ObjectName,
        open: &Arc<OpenObject>,
        attached: &Attached,
        offset: u64,
        count: usize,
        verifies: bool,
    ) -> Result<ReadOutcome, ObjectError> {
        let len = self.len_of(name, open)?;
        let end = (offset + count as u64).min(len);
        let mut data = BytesMut::new();
        let mut at = offset;
        while at < end {
            let of_base = attached.map.lock().next_of_base(at..end, u64::MAX, None);
            let (to, base) = match &of_base {
                Some(of_base) if of_base.range.start == at => {
                    (of_base.range.end, attached.base(of_base.base))
                }
                Some(of_base) => (of_base.range.start, None),
                None => (end, None),
            };
            let wanted = (to - at) as usize;
            let read = match base {
                Some(base) => {
                    let read = self.read_blocks(name, &base, at, wanted, verifies);
                    // They were copied meanwhile, and the base may have other bytes by now.
                    if attached.map.lock().next_of_base(at..end, u64::MAX, None) != of_base {
                        continue;
                    }
                    read?
                }
                None => self.read_blocks(name, open, at, wanted, verifies)?,
            };
            if to == end && data.is_empty() && read.data.len() == wanted {
                return Ok(ReadOutcome { data: read.data, at_end: end >= len });
            }
            data.extend_from_slice(&read.data);
            at = to;
            // It was cut off meanwhile.
            if read.data.len() < wanted {
                break;
            }
        }
        Ok(ReadOutcome { data: data.freeze(), at_end: at >= len || at < end })
    }

    /// The next data or hole of an attached object at or after `offset`: what is the base's counts as data.
    pub(crate) fn seek_attached(
        &self,
        name: &ObjectName,
        open: &OpenObject,
        attached: &Attached,
        place: Place,
        offset: u64,
    ) -> Result<Option<u64>, ObjectError> {
        let mut at = offset;
        loop {
            let found = self.disk.seek(&open.file, place, at);
            let found = found.map_err(|e| self.trouble("seek in", name, e))?;
            let of_base = attached.map.lock().next_of_base(at..u64::MAX, u64::MAX, None);
            let Some(of_base) = of_base.map(|of_base| of_base.range) else { return Ok(found) };
            match place {
                Place::Data => {
                    return Ok(Some(found.map_or(of_base.start, |found| found.min(of_base.start))));
                }
                Place::Hole if found.is_some_and(|found| found >= of_base.start) => at = of_base.end,
                Place::Hole => return Ok(found),
            }
        }
    }
}
