//! Attaching.

use std::io;
use std::sync::Arc;

use super::{Attached, BASES_MAX, Bases, Map, Number, REGION_BYTES, base_files, map_file, numbers, suffixes};
use crate::checksums::{self, BlockSum};
use crate::disk::Place;
use crate::epoch::{Mark, ObjectRef};
use crate::object::{ObjectName, OpenObject};
use crate::objects::{ObjectError, Objects};

/// A shorter base is copied: the files of an attachment cost more.
const LEN_MIN: u64 = REGION_BYTES + 1;

/// What an object that is about to be attached will have.
struct Plan {
    bases: Bases,
    /// Files and sums of the bases, by their names.
    files: Vec<(Number, [String; 2])>,
    regions: Vec<Number>,
    len: u64,
}

impl Objects {
    /// Attaches an empty object to `base`. Durable.
    ///
    /// # Errors
    /// `NotSupported` where it is to be copied; [`ObjectError`].
    pub fn attach(&self, object: ObjectRef, base: ObjectName) -> Result<(), ObjectError> {
        self.check()?;
        let name = object.name;
        let from = match self.find(base) {
            Err(ObjectError::Lost | ObjectError::Stale) => return Err(ObjectError::NotSupported),
            found => found?,
        };
        let open = self.find(name)?;
        let _entered = self.enter(&open, object)?;
        let (len, is_empty) = (self.len_of(&base, &from)?, self.len_of(&name, &open)? == 0);
        if let Some(attached) = open.attachment.get().filter(|_| !is_empty) {
            let is_same = attached.map.lock().bases()[0] == Some(base);
            return if is_same { Ok(()) } else { Err(ObjectError::NotSupported) };
        }
        let may_share = name != base && from.gate.mark().chain == open.gate.mark().chain;
        if !may_share || !is_empty || from.is_doubtful() || len > 0 && len < LEN_MIN {
            return Err(ObjectError::NotSupported);
        }
        if len == 0 {
            return Ok(());
        }
        self.begin_sums(&name, &open, 0)?;
        let attached = self.attach_names((&name, &open), &base, &from, len)?;
        open.attachment.set(Some(Arc::new(attached)));
        // An object that has a length has its map, and its bases.
        let set_len =
            || self.disk.set_len(&open.file, len).map_err(|e| self.trouble("set the length of", &name, e));
        if let Err(error) = self.sync_directory(name.directory()).and_then(|()| set_len()) {
            // It is empty, and nothing of its bases may show when it gets bytes otherwise.
            let _name = self.name_lock(&name).lock();
            open.attachment.set(None);
            self.remove_names(&name);
            self.attachments.all.lock().remove(&name);
            return Err(error);
        }
        open.touch();
        self.sync_by(&name, &open, |file| self.disk.sync_all(file))?;
        self.attachments.news.notify_one();
        Ok(())
    }

    fn attach_names(
        &self,
        (name, open): (&ObjectName, &OpenObject),
        base: &ObjectName,
        from: &Arc<OpenObject>,
        len: u64,
    ) -> Result<Attached, ObjectError> {
        let of_base = from.attachment.get();
        // What the base is attached to stays meanwhile.
        let filling = of_base.as_ref().map(|attached| attached.filling.lock());
        let plan = self.plan(base, from, of_base.as_deref(), len)?;
        let _name = self.name_lock(name).lock();
        self.check_not_removed(name)?;
        let bases = plan.bases;
        let attached = self.make_names(name, open.gate.mark(), plan)?;
        drop(filling);
        self.attachments.all.lock().insert(*name, bases);
        Ok(attached)
    }

    /// Plans the bases of an object that is attached to `base`. The caller has `filling` of what that is attached to.
    fn plan(
        &self,
        base: &ObjectName,
        from: &Arc<OpenObject>,
        of_base: Option<&Attached>,
        len: u64,
    ) -> Result<Plan, ObjectError> {
        let mut plan = Plan { bases: Bases::default(), files: vec![], regions: vec![], len };
        plan.bases[0] = Some(*base);
        plan.files.push((1, [base.path(), base.path() + checksums::SUFFIX]));
        let count = len.div_ceil(REGION_BYTES) as usize;
        let Some(of_base) = of_base else {
            self.sync_base(base, from)?;
            plan.regions = self.without_holes(base, from, vec![1; count])?;
            return Ok(plan);
        };
        // A region has one base.
        let limit = of_base.map.lock().limit();
        if limit < len && !limit.is_multiple_of(REGION_BYTES) {
            self.own_some(base, from, of_base, limit / REGION_BYTES * REGION_BYTES..limit, u64::MAX, None)?;
        }
        self.sync_base(base, from)?;
        let map = of_base.map.lock();
        let mut new = [0; BASES_MAX + 1];
        new[0] = 1;
        for number in numbers().filter(|number| map.count(*number) > 0) {
            let place = plan.files.len();
            if place == BASES_MAX {
                return Err(ObjectError::NotSupported);
            }
            let next = place as Number + 1;
            plan.bases[place] = map.bases()[usize::from(number) - 1];
            plan.files.push((next, base_files(base, number)));
            new[usize::from(number)] = next;
        }
        let mut regions: Vec<Number> = map.regions().iter().map(|region| new[usize::from(*region)]).collect();
        drop(map);
        regions.resize(count, 1);
        plan.regions = self.without_holes(base, from, regions)?;
        Ok(plan)
    }

    /// Makes a base durable, with its sums: what its second name shows needs no change log.
    fn sync_base(&self, base: &ObjectName, from: &OpenObject) -> Result<(), ObjectError> {
        from.touch();
        self.sync(base, from)?;
        let Some(sums) = from.sums.get() else { return Err(ObjectError::NotSupported) };
        self.disk.sync_sums(&sums.0).map_err(|e| self.sums_sync_failed(base, from, &e))
    }

    /// Regions that are holes of the first base are the object's own: it has holes there, too. The sums must say so, as well:
    /// lost bytes of a file are a hole, and lost bytes of a sum file are sums of zeros.
    fn without_holes(
        &self,
        base: &ObjectName,
        from: &OpenObject,
        mut regions: Vec<Number>,
    ) -> Result<Vec<Number>, ObjectError> {
        let Some(sums) = from.sums.get() else { return Ok(regions) };
        let (count, mut holes, mut at) = (regions.len() as u64, Vec::new(), 0);
        while at < count {
            let data = self.disk.seek(&from.file, Place::Data, at * REGION_BYTES);
            let data =
                data.map_err(|e| self.trouble("seek in", base, e))?.map_or(count, |data| data / REGION_BYTES);
            holes.push(at..data.min(count));
            if data >= count {
                break;
            }
            let hole = self.disk.seek(&from.file, Place::Hole, data * REGION_BYTES);
            let hole = hole.map_err(|e| self.trouble("seek in", base, e))?;
            at = hole.map_or(count, |hole| hole.div_ceil(REGION_BYTES)).max(data + 1);
        }
        for hole in holes.into_iter().filter(|hole| !hole.is_empty()) {
            let each = sums.each(&*self.disk, hole.start, hole.end - hole.start, |block, sum| {
                let region = &mut regions[block as usize];
                if *region == 1 && sum == Ok(BlockSum::Zeros) {
                    *region = 0;
                }
                true
            });
            each.map_err(|e| self.trouble("read the sums of", base, e))?;
        }
        Ok(regions)
    }

    /// Removes what an attempt has made. What cannot be removed is so when the object is opened, or at the next start.
    fn remove_names(&self, name: &ObjectName) {
        for suffix in suffixes() {
            if let Err(error) = self.remove_if_there(&(name.path() + &suffix)) {
                self.trouble("remove the bases of", name, error);
            }
        }
    }

    /// Makes the second names of bases, and a map. The caller has the lock of the name.
    fn make_names(&self, name: &ObjectName, mark: Mark, plan: Plan) -> Result<Attached, ObjectError> {
        let make = || {
            for suffix in suffixes() {
                self.remove_if_there(&(name.path() + &suffix))?;
            }
            let root = self.root.file();
            for (number, files) in &plan.files {
                for (file, second) in files.iter().zip(base_files(name, *number)) {
                    self.disk.link(root, file, &second)?;
                }
            }
            let map = self.disk.create_file(root, &map_file(name))?;
            let map = Map::create(&*self.disk, map, plan.bases, plan.len, plan.regions)?;
            self.open_bases(name, mark, map)
        };
        let made = make();
        if made.is_err() {
            self.remove_names(name);
        }
        made.map_err(|e| match e.kind() {
            // A file system without second names, or one that has given a base all that it can; or the base goes just now.
            io::ErrorKind::TooManyLinks
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::Unsupported
            | io::ErrorKind::NotFound => ObjectError::NotSupported,
            _ => self.trouble("attach", name, e),
        })
    }
}
