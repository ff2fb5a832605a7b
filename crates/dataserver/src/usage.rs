//! USAGE: the bytes of each chain on a target.

use std::collections::BTreeMap;

use wire::data::list;
use wire::data::usage::{ChainBytes, ResOk};

use crate::epoch::Mark;
use crate::list::name;
use crate::object::ObjectName;
use crate::objects::{ObjectError, Objects};

/// Objects of a page: each is opened.
const PAGE: u32 = 1024;
/// Bytes of a block of `st_blocks`.
const STAT_BLOCK: u64 = 512;

/// Object as it is on the disk.
pub(crate) struct Look {
    /// Chain in its mark; 0: none, it is without copies.
    pub chain: u64,
    /// Bytes that it occupies.
    pub bytes: u64,
    /// Its length.
    pub len: u64,
}

impl Objects {
    /// The bytes that the objects of a page after `after` occupy, by chain.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn usage(&self, after: Option<list::ObjectName>) -> Result<ResOk, ObjectError> {
        let page = self.list(after, PAGE)?;
        let mut chains = BTreeMap::<u64, u64>::new();
        for entry in &page.objects {
            if let Some(look) = self.look_at(&name(entry))? {
                let sum = chains.entry(look.chain).or_default();
                *sum = sum.saturating_add(look.bytes);
            }
        }
        let chains = chains.into_iter().map(|(chain, bytes)| ChainBytes { chain, bytes }).collect();
        Ok(ResOk { chains, next: page.next() })
    }

    /// Looks at an object. None: it was removed.
    pub(crate) fn look_at(&self, name: &ObjectName) -> Result<Option<Look>, ObjectError> {
        let file = match self.root.open_file(&name.path()) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|e| self.trouble("open", name, e))?,
        };
        let mark = self.disk.mark(&file).map_err(|e| self.trouble("read the mark of", name, e))?;
        let chain = mark.and_then(|bytes| Mark::from_bytes(&bytes)).map_or(0, |mark| mark.chain);
        let stat = rustix::fs::fstat(&file).map_err(|e| self.trouble("look at", name, e.into()))?;
        let bytes = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(STAT_BLOCK);
        let len = u64::try_from(stat.st_size).unwrap_or(0);
        Ok(Some(Look { chain, bytes, len }))
    }
}
