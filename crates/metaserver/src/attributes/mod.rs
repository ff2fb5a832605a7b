//! Attributes of files: conversion between inodes and NFSv4 or NFSv3 attributes, and the rules for changes.

pub(crate) mod idmap;
pub(crate) mod locations;
pub(crate) mod nfs3;
pub(crate) mod nfs4;
pub(crate) mod room;
pub(crate) mod setattr;
pub(crate) mod xattrs;

use std::sync::Arc;

use cluster::Cluster;
use parking_lot::RwLock;

use crate::attributes::idmap::Idmap;
use crate::data::Data;
use crate::machine::StateMachine;

/// Set-user-id and set-group-id bits.
pub(crate) const SET_ID_BITS: u32 = 0o6000;

/// Conversion of attributes.
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

    /// Sets the names of users and groups; before this call there are only numbers.
    pub(crate) fn set_idmap(&self, idmap: Idmap) {
        *self.idmap.write() = Arc::new(idmap);
    }

    /// Names of users and groups.
    pub(crate) fn idmap(&self) -> Arc<Idmap> {
        Arc::clone(&self.idmap.read())
    }
}
