//! The bytes of docs/disk-format.md: what was written once must be read for ever.

use crate::world::*;

#[test]
fn a_store_with_one_file_is_these_bytes() {
    let mut w = World::new();
    w.small_file("/f");
    w.write_small("/f", 0, "hi").unwrap();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let found: Vec<String> =
        w.dump().iter().map(|(key, value)| format!("{} {}", hex(key), hex(value))).collect();
    assert_eq!(found, EXPECTED);
}

const EXPECTED: [&str; 7] = [
    "00 01e54f9431040101effdb6f70f0101010200000000000000",
    "010000000000000002 012d3a418b02010102010400ed0300000240000000070207020700070200",
    "010000000000000003 01406f610e038180cc99030001008080400200a4030a140102020002070407040702070200",
    "02000000000000000266 017b9aed970303",
    "0300000000000000020000000000000003 019e99d472016603",
    "040000000000000003 01ca50382d6869",
    "46 01806f0fb007070707070707070707070707070707010007",
];
