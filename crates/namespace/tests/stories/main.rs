//! Tables of `apply`: one story a test, told in the words of the domain. After each command the whole store
//! is checked.

mod attributes;
mod boot;
mod broken;
mod chains;
mod clients;
mod clone_data;
mod clones;
mod cluster;
mod counted;
mod delegations;
mod disk_format;
mod epochs;
mod generations;
mod later_names;
mod layouts;
mod leftovers;
mod locks;
mod many_locks;
mod measured;
mod names;
mod once;
mod opens;
mod pools;
mod quotas;
mod replay;
mod small_files;
mod snapshots;
mod space_used;
mod unsettled;
mod volumes;
mod world;
mod write_delegations;
mod xattrs;
