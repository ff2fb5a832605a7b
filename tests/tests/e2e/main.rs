//! End to end: stories of real Linux clients and real `heorot` processes, a module for each kind.
//!
//! One program, so that stories that wait for a lease or a fail-over share the processors with others that
//! work: `--test-threads` sets their number. `cargo test` alone excludes it, since it needs root and `make
//! setup`; `cargo test -p tests --test e2e everyday::` runs a module.

mod bench_names;
mod bench_verify;
mod big_directory;
mod boot_storm;
mod chains;
mod client_kernel;
mod clones;
mod copies_killed;
mod courtesy;
mod crash_rounds;
mod cut_off;
mod data_addresses;
mod data_server_away;
mod data_server_restarts;
mod data_servers_rolling;
mod delegations;
mod diskless;
mod everyday;
mod expansion;
mod exports;
mod failover;
mod faulty_clones;
mod faulty_disks;
mod faulty_imports;
mod follow;
mod fsx;
mod full_disk;
mod imports;
mod killed_client;
mod lock_waiters;
mod lost_target;
mod metaservers;
mod mixed_kernels;
mod nodes;
mod old_files;
mod operator;
mod pjdfstest;
mod postgres;
mod pxe;
mod quotas;
mod ranges;
mod real_client;
mod recall;
mod reflink;
mod repair;
mod rolling;
mod service_addresses;
mod shared_regions;
mod sizes;
mod snapshots;
mod space_used;
mod stripe;
mod two_clients;
mod upgrade;
mod volumes;
mod write_delegations;
mod xattrs;
