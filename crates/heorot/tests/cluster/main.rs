//! Clusters of real processes on this machine's loopback: servers that come and go, and metadata that are brought back.

mod backup;
mod name_space;
mod nodes;
mod servers;
mod status;
