//! One operation on many names, one after the other.

use std::io;
use std::sync::Arc;

use super::{Turn, Work, whole_file};
use crate::phase::Phase;
use crate::target::Target;
use crate::task::{NameOperation, Names};
use crate::trouble::Trouble;

pub(super) fn prepare(
    names: &Names,
    phase: &Phase,
    target: &Arc<dyn Target>,
) -> Result<Box<dyn Work>, Trouble> {
    if names.dirs.is_empty() && names.count > 0 {
        return Err(Trouble(format!("phase {}: names without a directory", phase.name)));
    }
    Ok(Box::new(NamesWork {
        names: names.clone(),
        target: target.clone(),
        verify: phase.verify,
        buffer: Vec::new(),
    }))
}

struct NamesWork {
    names: Names,
    target: Arc<dyn Target>,
    verify: bool,
    buffer: Vec<u8>,
}

impl Work for NamesWork {
    fn carry_out(mut self: Box<Self>, turn: &mut Turn<'_>) -> Result<(), Trouble> {
        if self.names.operation == NameOperation::List {
            return self.list(turn);
        }
        for step in 0..self.names.count {
            if !turn.goes_on() {
                break;
            }
            self.one(step, turn)?;
        }
        Ok(())
    }
}

impl NamesWork {
    fn list(&self, turn: &mut Turn<'_>) -> Result<(), Trouble> {
        for dir in &self.names.dirs {
            if !turn.goes_on() {
                break;
            }
            let mut entries = 0;
            let listed = self.target.list(dir, &mut |_, _| entries += 1);
            listed.map_err(|e| Trouble::io(&format!("list {dir}"), &e))?;
            turn.did_many(entries, 0);
        }
        Ok(())
    }

    fn one(&mut self, step: u64, turn: &mut Turn<'_>) -> Result<(), Trouble> {
        let (target, path, bytes) = (&*self.target, self.names.path(step), self.names.file_bytes);
        let seed = self.names.seed.wrapping_add(self.names.first + step);
        let plain = |what: &str, outcome: io::Result<()>| {
            outcome.map_err(|e| Trouble::io(&format!("{what} {path}"), &e))
        };
        let mut moved = 0;
        match self.names.operation {
            NameOperation::Create => {
                whole_file::create(target, &path, seed, bytes, &mut self.buffer)?;
                moved = bytes;
            }
            NameOperation::Read => {
                whole_file::read(target, &path, seed, bytes, self.verify, &mut self.buffer)?;
                moved = bytes;
                if self.verify {
                    turn.verified(bytes);
                }
            }
            NameOperation::Stat => plain("stat", target.stat(&path).map(drop))?,
            NameOperation::Rename => plain("rename", target.rename(&path, &renamed(&path)))?,
            NameOperation::Unlink => plain("unlink", target.unlink(&path))?,
            NameOperation::Mkdir => plain("mkdir", target.mkdir(&path))?,
            NameOperation::Rmdir => plain("rmdir", target.rmdir(&path))?,
            NameOperation::List => unreachable!("lists directories, not names"),
        }
        turn.did(moved);
        Ok(())
    }
}

fn renamed(path: &str) -> String {
    match path.rsplit_once('/') {
        Some((dir, name)) => format!("{dir}/r{name}"),
        None => format!("r{path}"),
    }
}
