//! Check of the nodes that boot from images, of their groups, and of the index of their MAC addresses.

use std::collections::BTreeMap;

use store::{StoreError, View};

use super::{Findings, table};
use crate::{BootGroup, BootNode, keys};

pub(super) fn check(view: &dyn View, findings: &mut Findings) -> Result<(), StoreError> {
    let groups = table::<BootGroup>(view, keys::BOOT_GROUPS, findings)?;
    for (key, group) in &groups {
        findings.expect(*key == keys::boot_group(&group.name), || format!("{group:?} is under {key:02x?}"));
    }
    let mut macs = BTreeMap::new();
    for (key, node) in table::<BootNode>(view, keys::BOOT_NODES, findings)? {
        findings.expect(key == keys::boot_node(&node.name), || format!("{node:?} is under {key:02x?}"));
        findings.expect(groups.contains_key(&keys::boot_group(&node.group)), || {
            format!("{node:?} is in no group")
        });
        macs.insert(keys::boot_mac(node.mac), node.name);
    }
    let indexed = table::<String>(view, keys::BOOT_MACS, findings)?;
    findings.expect(indexed == macs, || format!("MAC addresses {indexed:02x?}, and nodes {macs:02x?}"));
    Ok(())
}
