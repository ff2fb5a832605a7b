//! Commands about nodes that boot from images.

use namespace::*;

use super::*;
use crate::plain::MACS;

impl Chooser<'_> {
    fn assigned(&mut self) -> Assigned {
        let there: Vec<VolumeId> = self.plain.snapshots.keys().copied().collect();
        let image = |this: &mut Self| match this.pick(4) {
            0 => None,
            1 => Some(VolumeId((1 << 23) + 77)),
            _ if there.is_empty() => None,
            _ => Some(there[this.pick(there.len())]),
        };
        Assigned { image: image(self), previous: image(self) }
    }

    pub(super) fn boot_change(&mut self) -> BootChange {
        let name = ["oak", "elm", "blue", "red", "o.k"][self.pick(5)].to_owned();
        if self.pick(2) == 0 {
            let was = self.plain.boot_groups.get(&name).cloned();
            let root = match self.pick(4) {
                0 => BootRoot::Group,
                1 => BootRoot::Own { directories: vec!["/var/lib".into()] },
                2 if self.seldom(3) => BootRoot::Own { directories: vec!["/a/../b".into()] },
                _ => BootRoot::Shared { memory_mib: 64 },
            };
            let new = BootGroup { name, root, words: String::new(), assigned: self.assigned() };
            let was = if self.seldom(5) { Some(new.clone()) } else { was };
            return BootChange::Group { was, becomes: (!self.seldom(3)).then_some(new) };
        }
        let was = self.plain.boot_nodes.get(&name).cloned();
        let group = ["blue", "red", "oak"][self.pick(3)].to_owned();
        let (mac, assigned) = (MACS[self.pick(MACS.len())], self.assigned());
        let new = BootNode { name, mac, group, assigned };
        let was = if self.seldom(5) { None } else { was };
        BootChange::Node { was, becomes: (!self.seldom(3)).then_some(new) }
    }
}
