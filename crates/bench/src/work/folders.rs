//! Folder of a run: made before, and removed with its content.

use std::io;
use std::sync::Arc;

use crate::target::Target;
use crate::trouble::Trouble;
use crate::work::{Turn, Work};

pub(super) struct Make {
    pub path: String,
    pub target: Arc<dyn Target>,
}

impl Work for Make {
    fn carry_out(self: Box<Self>, turn: &mut Turn<'_>) -> Result<(), Trouble> {
        match self.target.mkdir(&self.path) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                Err(Trouble::io(&format!("make {}", self.path), &e))
            }
            _ => {
                turn.did(0);
                Ok(())
            }
        }
    }
}

pub(super) struct Clear {
    pub path: String,
    pub target: Arc<dyn Target>,
}

impl Work for Clear {
    fn carry_out(self: Box<Self>, turn: &mut Turn<'_>) -> Result<(), Trouble> {
        match clear(&*self.target, &self.path, turn) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Trouble::io(&format!("remove {}", self.path), &error))
            }
            _ => Ok(()),
        }
    }
}

/// Recursive: runs make few levels.
fn clear(target: &dyn Target, path: &str, turn: &mut Turn<'_>) -> io::Result<()> {
    let mut names = Vec::new();
    target.list(path, &mut |name, is_dir| names.push((format!("{path}/{name}"), is_dir)))?;
    for (name, is_dir) in names {
        if is_dir {
            clear(target, &name, turn)?;
        } else {
            target.unlink(&name)?;
            turn.did(0);
        }
    }
    target.rmdir(path)?;
    turn.did(0);
    Ok(())
}
