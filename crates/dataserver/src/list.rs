//! LIST: the objects of a target, a page at a time, in bounded memory.
//!
//! The order is by directory (the inode's low byte), inode, column, volume, generation. Directories come
//! first so that a page reads one of them, not all 256: the whole list costs each entry a few times over, not
//! once for each page.

use std::collections::BinaryHeap;

use wire::data::{ObjectEntry, list};

use crate::held_dir::Visit;
use crate::object::{DIRECTORIES, ObjectName};
use crate::objects::{ObjectError, Objects};

/// Entries in a page: a reply of 80 KiB.
pub(crate) const PAGE_MAX: usize = 4096;

/// Key of a cursor: objects with the same key are always on one page.
type Cursor = (u64, u32);

fn cursor(name: &ObjectName) -> Cursor {
    (name.inode, name.column)
}

impl Objects {
    /// The objects after `after`, at most `max`.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn list(&self, after: Option<list::ObjectName>, max: u32) -> Result<list::ResOk, ObjectError> {
        self.check()?;
        let max = (max as usize).clamp(1, PAGE_MAX);
        let after = after.map(|a| (a.inode, a.column));
        let first = after.map_or(0, |(inode, _)| u16::from(inode.to_be_bytes()[7]));
        let mut page = Vec::new();
        for directory in first..DIRECTORIES {
            let directory = directory as u8;
            let from = after.filter(|_| u16::from(directory) == first);
            // One more than wanted tells whether the page is the last.
            let found = self.smallest(directory, max + 1 - page.len(), |c| Some(c) > from)?;
            page.extend(found);
            if page.len() > max {
                let next = cursor(&page[max]);
                page.truncate(max);
                // Objects that the cursor cannot tell apart stay together: on the next page, or all on this
                // one.
                while page.last().is_some_and(|last| cursor(last) == next) {
                    page.pop();
                }
                if page.is_empty() {
                    page = self.smallest(directory, usize::MAX, |c| c == next)?;
                }
                return Ok(list::ResOk { objects: page.iter().map(entry).collect(), done: false });
            }
        }
        Ok(list::ResOk { objects: page.iter().map(entry).collect(), done: true })
    }

    /// The objects of a chain after `after`, at most `max`. Reads the mark of each object that it passes.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn list_of_chain(
        &self,
        mut after: Option<list::ObjectName>,
        max: u32,
        chain: u64,
    ) -> Result<list::ResOk, ObjectError> {
        loop {
            let mut page = self.list(after, max)?;
            after = page.next();
            let mut objects = Vec::new();
            for entry in page.objects {
                if self.look_at(&name(&entry))?.is_some_and(|look| look.chain == chain) {
                    objects.push(entry);
                }
            }
            page.objects = objects;
            // The caller goes on after the last object of the page, so a page that is not the last has one.
            if page.done || !page.objects.is_empty() {
                return Ok(page);
            }
        }
    }

    /// The `count` smallest names of a directory whose cursor is `wanted`, in order.
    fn smallest(
        &self,
        directory: u8,
        count: usize,
        wanted: impl Fn(Cursor) -> bool,
    ) -> Result<Vec<ObjectName>, ObjectError> {
        let mut heap = BinaryHeap::new();
        let trouble = |error: std::io::Error| {
            tracing::error!(target = %self.root.path().display(), directory, %error, "list failed");
            ObjectError::Io
        };
        let dir = self.root.child(&format!("{directory:02x}")).map_err(trouble)?;
        let listed = dir.names(|name, _| {
            if let Some(name) = ObjectName::parse(name)
                && name.directory() == directory
                && wanted(cursor(&name))
            {
                heap.push(name);
                if heap.len() > count {
                    heap.pop();
                }
            }
            Visit::GoOn
        });
        listed.map_err(trouble)?;
        Ok(heap.into_sorted_vec())
    }
}

/// Name of a listed object.
pub(crate) fn name(entry: &ObjectEntry) -> ObjectName {
    let ObjectEntry { volume, inode, generation, column } = *entry;
    ObjectName { inode, column, volume, generation }
}

/// A name as it is listed.
pub(crate) fn entry(name: &ObjectName) -> ObjectEntry {
    let ObjectName { inode, column, volume, generation } = *name;
    ObjectEntry { volume, inode, generation, column }
}
