//! Attaching.

use std::io;
use std::sync::Arc;

use super::{Attached, BASES_MAX, Bases, Map, Number, REGION_BYTES, base_files, map_file, numbers, suffixes};
use crate::checksums;
use crate::epoch::ObjectRef;
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
        let is_plain = name != base && from.gate.mark().chain == open.gate.mark().chain;
        if !is_plain || !is_empty || from.is_doubtful() || len > 0 && len < LEN_MIN {
            return Err(ObjectError::NotSupported);
        }
        if len == 0 {
            return Ok(());
        }
        // What its second name shows needs no change log.
        from.touch();
        self.sync(&base, &from)?;
        let Some(sums) = from.sums.get() else { return Err(ObjectError::NotSupported) };
        self.disk.sync_sums(&sums.0).map_err(|e| self.sums_sync_failed(&base, &from, &e))?;
        self.begin_sums(&name, &open, 0)?;
        let attached = self.attach_names(&name, &base, &from, len)?;
        open.attachment.set(Some(Arc::new(attached)));
        // An object that has a length has its map, and its bases.
        self.sync_directory(name.directory())?;
        let set = self.disk.set_len(&open.file, len);
        open.touch();
        set.map_err(|e| self.trouble("set the length of", &name, e))?;
        self.sync_by(&name, &open, |file| self.disk.sync_all(file))?;
        self.attachments.news.notify_one();
        Ok(())
    }

    fn attach_names(
        &self,
        name: &ObjectName,
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
        let attached = self.make_names(name, plan)?;
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
            plan.regions = vec![1; count];
            return Ok(plan);
        };
        // A region has one base.
        let limit = of_base.map.lock().limit();
        if limit < len && !limit.is_multiple_of(REGION_BYTES) {
            self.own_some(base, from, of_base, limit / REGION_BYTES * REGION_BYTES..limit, u64::MAX)?;
            self.sync(base, from)?;
        }
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
        plan.regions.extend(map.regions().iter().map(|region| new[usize::from(*region)]));
        plan.regions.resize(count, 1);
        Ok(plan)
    }

    /// Makes the second names of bases, and a map. The caller has the lock of the name.
    fn make_names(&self, name: &ObjectName, plan: Plan) -> Result<Attached, ObjectError> {
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
            self.open_bases(name, map)
        };
        make().map_err(|e| match e.kind() {
            // A file system without second names, or one that has given a base all that it can; or the base goes just now.
            io::ErrorKind::TooManyLinks
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::Unsupported
            | io::ErrorKind::NotFound => ObjectError::NotSupported,
            _ => self.trouble("attach", name, e),
        })
    }
}
