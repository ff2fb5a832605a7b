//! Walk of directory trees with stat of names: a `find`.

use std::sync::Arc;

use super::{Turn, Work};
use crate::target::{Attributes, Target};
use crate::task::Walk;
use crate::trouble::Trouble;

pub(super) fn prepare(walk: &Walk, target: &Arc<dyn Target>) -> Result<Box<dyn Work>, Trouble> {
    let since = match &walk.found {
        None => None,
        Some(found) => Some(stat(&**target, &found.since)?.changed),
    };
    Ok(Box::new(WalkWork { walk: walk.clone(), since, target: target.clone() }))
}

struct WalkWork {
    walk: Walk,
    since: Option<i64>,
    target: Arc<dyn Target>,
}

impl Work for WalkWork {
    fn carry_out(self: Box<Self>, turn: &mut Turn<'_>) -> Result<(), Trouble> {
        // Last in, first out: pending directories are only siblings along one path.
        let mut dirs: Vec<String> = self.walk.dirs.iter().rev().cloned().collect();
        let mut asked: Vec<String> = Vec::new();
        while let Some(dir) = dirs.pop() {
            if !turn.goes_on() {
                break;
            }
            let mut others = 0;
            let listed = self.target.list(&dir, &mut |name, is_dir| {
                let path = || if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") };
                if is_dir {
                    dirs.push(path());
                } else if name.contains(&self.walk.name_has) {
                    asked.push(path());
                } else {
                    others += 1;
                }
            });
            listed.map_err(|e| Trouble::io(&format!("list {dir}"), &e))?;
            turn.did_many(others, 0);
            for path in asked.drain(..) {
                if !turn.goes_on() {
                    break;
                }
                if self.is_found(stat(&*self.target, &path)?) {
                    turn.found();
                }
                turn.did(0);
            }
        }
        Ok(())
    }
}

impl WalkWork {
    /// Compares whole seconds, as `pfind` does: a file of the same second as the time stamp counts.
    fn is_found(&self, attributes: Attributes) -> bool {
        self.walk.found.as_ref().is_none_or(|found| attributes.bytes == found.bytes)
            && self.since.is_none_or(|since| attributes.changed >= since)
    }
}

fn stat(target: &dyn Target, path: &str) -> Result<Attributes, Trouble> {
    target.stat(path).map_err(|e| Trouble::io(&format!("stat {path}"), &e))
}
