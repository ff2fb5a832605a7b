//! Memory of this process: that of the machine, or the limit of its cgroup.

use std::fs;

/// Share of the memory for the metadata store: one in `STORE_SHARE`. The rest is for connections, for the
/// page cache of a data server on the same machine, and for other programs.
const STORE_SHARE: u64 = 4;
/// Minimum: with less, the upper levels of the store's tree for a few million files would not stay in memory.
const STORE_BYTES_MIN: u64 = 64 << 20;
/// Upper limit of the default: the upper levels for a billion files, and the leaves in use. Larger sites set
/// `metadata_memory`.
const STORE_BYTES_MAX: u64 = 4 << 30;

/// Default of `metadata_memory`.
pub(crate) fn store_bytes_default() -> u64 {
    share(machine_bytes().into_iter().chain(held_to()).min())
}

fn share(memory_bytes: Option<u64>) -> u64 {
    memory_bytes.map_or(STORE_BYTES_MIN, |b| (b / STORE_SHARE).clamp(STORE_BYTES_MIN, STORE_BYTES_MAX))
}

fn machine_bytes() -> Option<u64> {
    mem_total(&fs::read_to_string("/proc/meminfo").ok()?)
}

/// Parses `MemTotal:       24684096 kB`.
fn mem_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

/// Memory limit of the cgroup, of version 2 or 1; "max" and missing files are no limit.
fn held_to() -> Option<u64> {
    let files = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    files.iter().find_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_gets_a_quarter_within_reason() {
        assert_eq!(share(Some(512 << 20)), 128 << 20);
        assert_eq!(share(Some(64 << 20)), STORE_BYTES_MIN);
        assert_eq!(share(Some(1 << 40)), STORE_BYTES_MAX);
        assert_eq!(share(None), STORE_BYTES_MIN);
        assert_eq!(mem_total("MemTotal:       24684096 kB\nMemFree: 1 kB\n"), Some(24_684_096 << 10));
        assert_eq!(mem_total("MemTotal: lots"), None);
    }
}
