//! Clusters of real processes on this machine's loopback: servers that come and go, and metadata that are brought back.

mod admission;
mod backup;
mod incarnations;
mod lost_targets;
mod name_space;
mod nodes;
mod servers;
mod status;
mod targets;
mod trash;
