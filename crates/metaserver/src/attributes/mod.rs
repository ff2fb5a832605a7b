//! Attributes of files: from an inode to NFSv4's and NFSv3's words and back, and the rules by which they
//! change.

pub(crate) mod idmap;
pub(crate) mod locations;
pub(crate) mod nfs3;
pub(crate) mod nfs4;
pub(crate) mod setattr;
pub(crate) mod xattrs;

use std::sync::Arc;

use cluster::Cluster;
use parking_lot::RwLock;

use crate::attributes::idmap::Idmap;
use crate::data::Data;
use crate::machine::StateMachine;

/// Attributes as clients see them.
pub(crate) struct Attributes {
    pub machine: Arc<StateMachine>,
    pub cluster: Arc<Cluster>,
    pub data: Arc<Data>,
    idmap: RwLock<Arc<Idmap>>,
}

impl Attributes {
    pub fn new(machine: Arc<StateMachine>, cluster: Arc<Cluster>, data: Arc<Data>) -> Self {
        Self { machine, cluster, data, idmap: RwLock::default() }
    }

    /// Users and groups have these names from now on; only numbers, before that is called.
    pub(crate) fn set_idmap(&self, idmap: Idmap) {
        *self.idmap.write() = Arc::new(idmap);
    }

    /// Names of users and groups.
    pub(crate) fn idmap(&self) -> Arc<Idmap> {
        Arc::clone(&self.idmap.read())
    }
}
