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

impl Objects {
    /// The bytes that the objects of a page after `after` occupy, by chain.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn usage(&self, after: Option<list::ObjectName>) -> Result<ResOk, ObjectError> {
        let page = self.list(after, PAGE)?;
        let mut chains = BTreeMap::<u64, u64>::new();
        for entry in &page.objects {
            if let Some((chain, bytes)) = self.chain_and_bytes(&name(entry))? {
                let sum = chains.entry(chain).or_default();
                *sum = sum.saturating_add(bytes);
            }
        }
        let chains = chains.into_iter().map(|(chain, bytes)| ChainBytes { chain, bytes }).collect();
        Ok(ResOk { chains, next: page.next() })
    }

    /// The chain in the mark of an object, 0 without copies, and the bytes that the object occupies. None: it was
    /// removed.
    pub(crate) fn chain_and_bytes(&self, name: &ObjectName) -> Result<Option<(u64, u64)>, ObjectError> {
        let file = match self.root.open_file(&name.path()) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|e| self.trouble("open", name, e))?,
        };
        let mark = self.disk.mark(&file).map_err(|e| self.trouble("read the mark of", name, e))?;
        let chain = mark.and_then(|bytes| Mark::from_bytes(&bytes)).map_or(0, |mark| mark.chain);
        let stat = rustix::fs::fstat(&file).map_err(|e| self.trouble("look at", name, e.into()))?;
        Ok(Some((chain, u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(STAT_BLOCK))))
    }
}
