//! The example unit file for systemd is hardened.

use std::process::Command;

/// Maximal exposure, in tenths: systemd calls up to 4.0 "OK".
const EXPOSURE_MAX: u32 = 30;

#[test]
fn the_example_unit_may_do_little() {
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/heorot.service");
    let looked = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--no-pager", &format!("--threshold={EXPOSURE_MAX}"), unit])
        .output()
        .expect("systemd-analyze: make setup installs it");
    assert!(looked.status.success(), "{}", String::from_utf8_lossy(&looked.stdout));
}
