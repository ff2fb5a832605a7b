//! Memory of the machine.

/// Bytes of memory that the machine has.
#[must_use]
pub fn memory_bytes() -> u64 {
    let found = rustix::system::sysinfo();
    (found.totalram as u64).saturating_mul(u64::from(found.mem_unit))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_machine_has_more_than_its_kernel_needs() {
        assert!(super::memory_bytes() > 64 << 20);
    }
}
