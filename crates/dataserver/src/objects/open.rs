//! Opening of objects: at most so many are open, and one that is closed for another is synced first.

use std::io;
use std::sync::Arc;

use super::{ObjectError, Objects};
use crate::epoch::{ATTRIBUTE, Mark};
use crate::object::{ObjectName, OpenObject};
use crate::open_files::Victim;

impl Objects {
    /// The open object.
    pub(crate) fn find(&self, name: ObjectName) -> Result<Arc<OpenObject>, ObjectError> {
        if let Some(object) = self.open.lock().get(&name) {
            return Ok(object);
        }
        self.make_room()?;
        let _name = self.name_lock(&name).lock();
        self.check_not_removed(&name)?;
        if let Some(object) = self.open.lock().get(&name) {
            return Ok(object);
        }
        let file = match self.root.open_file(&name.path()) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                // The memory of removals ends with the process, and is bounded.
                let removed =
                    self.trash.own().contains(&name).map_err(|e| self.trouble("look for", &name, e))?;
                return Err(if removed { ObjectError::Stale } else { ObjectError::Lost });
            }
            opened => opened.map_err(|e| self.trouble("open", &name, e))?,
        };
        let mark = self.disk.mark(&file).map_err(|e| self.trouble("read the mark of", &name, e))?;
        let mark = match mark.map(|bytes| Mark::from_bytes(&bytes).ok_or(bytes)) {
            None => Mark::default(),
            Some(Ok(mark)) => mark,
            Some(Err(bytes)) => {
                let error = format!("its {ATTRIBUTE} is damaged: {bytes:02x?}");
                return Err(self.trouble("open", &name, io::Error::other(error)));
            }
        };
        let object = Arc::new(OpenObject::new(file, mark));
        self.open_sums(&name, &object)?;
        self.open_attachment(&name, &object)?;
        self.open.lock().insert(name, Arc::clone(&object));
        Ok(object)
    }

    fn make_room(&self) -> Result<(), ObjectError> {
        loop {
            let mut open = self.open.lock();
            if !open.is_full() {
                return Ok(());
            }
            match open.evict() {
                Victim::Dropped => {}
                Victim::None => return Ok(()),
                Victim::Sync(name, object) => {
                    drop(open);
                    match self.sync(&name, &object) {
                        // Its clients are told by the verifier; what is to be opened now has nothing to do
                        // with it.
                        Ok(()) | Err(ObjectError::NoSpace) => {}
                        // It cannot leave, and others can be read.
                        Err(ObjectError::ReadOnly) => return Ok(()),
                        Err(error) => return Err(error),
                    }
                }
            }
        }
    }
}
