//! Clusters of real processes on this machine's loopback: servers start and stop, metadata are restored.

mod admission;
mod backup;
mod balance;
mod clocks;
mod damaged_blocks;
mod dead_data_servers;
mod flipped_bits;
mod incarnations;
mod killed_moves;
mod lost_targets;
mod name_space;
mod no_quorum;
mod nodes;
mod old_files;
mod pool_rules;
mod pools;
mod quiet_logs;
mod restored_chains;
mod servers;
mod small_disk;
mod status;
mod target_add;
mod target_changes;
mod targets;
mod trash;
mod zones;
