//! Memory that a process may use: that of the machine, or the limit of its cgroup.

/// Bytes of memory that the machine has, or that the cgroup of this process may use.
#[must_use]
pub fn memory_bytes() -> u64 {
    let found = rustix::system::sysinfo();
    let machine = (found.totalram as u64).saturating_mul(u64::from(found.mem_unit));
    held_to().map_or(machine, |limit| limit.min(machine))
}

/// Memory limit of the cgroup, of version 2 or 1; "max" and missing files are no limit.
fn held_to() -> Option<u64> {
    let files = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    files.iter().find_map(|file| std::fs::read_to_string(file).ok()?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_machine_has_more_than_its_kernel_needs() {
        assert!(super::memory_bytes() > 64 << 20);
    }
}
