//! Nodes that boot from images, and their groups.

use namespace::*;

use crate::world::*;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

fn group(name: &str, image: Option<VolumeId>, previous: Option<VolumeId>) -> BootGroup {
    let root = BootRoot::Shared { memory_mib: 512 };
    BootGroup { name: name.into(), root, words: "quiet".into(), assigned: Assigned { image, previous } }
}

fn node(name: &str, mac: [u8; 6], group: &str) -> BootNode {
    BootNode { name: name.into(), mac, group: group.into(), assigned: Assigned::default() }
}

fn of_group(w: &mut World, was: Option<&BootGroup>, becomes: Option<&BootGroup>) -> Result<Reply, Error> {
    w.apply(Command::Boot(BootChange::Group { was: was.cloned(), becomes: becomes.cloned() }))
}

fn of_node(w: &mut World, was: Option<&BootNode>, becomes: Option<&BootNode>) -> Result<Reply, Error> {
    w.apply(Command::Boot(BootChange::Node { was: was.cloned(), becomes: becomes.cloned() }))
}

#[test]
fn a_group_boots_another_image_and_goes_back_by_one_command_each_that_knows_what_was() {
    let mut w = World::new();
    w.volume("/image").unwrap();
    let [one, two] = ["1", "2"].map(|name| w.snapshot(VolumeId(1), name).id);
    let before = group("blue", Some(one), None);
    let after = group("blue", Some(two), Some(one));
    of_group(&mut w, None, Some(&before)).unwrap();
    assert_eq!(of_group(&mut w, None, Some(&before)), Err(Error::NotSame), "it is there");
    of_group(&mut w, Some(&before), Some(&after)).unwrap();
    assert_eq!(of_group(&mut w, Some(&before), Some(&after)), Err(Error::NotSame), "as it is not any more");
    let back = group("blue", Some(one), Some(two));
    of_group(&mut w, Some(&after), Some(&back)).unwrap();
    assert_eq!(read::boot_group(&*w.view(), "blue").unwrap(), Some(back.clone()));

    // An image that was removed is not assigned; where it was assigned before, all else still changes.
    w.apply(Command::RemoveSnapshot { volume: VolumeId(1), name: b"1".to_vec(), force: false }).unwrap();
    assert_eq!(of_group(&mut w, None, Some(&group("red", Some(one), None))), Err(Error::NoEntry));
    let other_root = BootGroup { root: BootRoot::Group, ..back.clone() };
    of_group(&mut w, Some(&back), Some(&other_root)).unwrap();
    of_group(&mut w, Some(&other_root), None).unwrap();
}

#[test]
fn a_node_is_of_one_group_has_a_mac_address_of_its_own_and_a_name_that_no_group_has() {
    let mut w = World::new();
    let blue = group("blue", None, None);
    let oak = node("oak", MAC, "blue");
    assert_eq!(of_node(&mut w, None, Some(&oak)), Err(Error::NoDevice), "no group");
    of_group(&mut w, None, Some(&blue)).unwrap();
    of_node(&mut w, None, Some(&oak)).unwrap();
    assert_eq!(of_node(&mut w, None, Some(&node("elm", MAC, "blue"))), Err(Error::ClientInUse));
    assert_eq!(of_node(&mut w, None, Some(&node("blue", [9; 6], "blue"))), Err(Error::Exists));
    assert_eq!(of_group(&mut w, None, Some(&group("oak", None, None))), Err(Error::Exists));
    assert_eq!(of_group(&mut w, Some(&blue), None), Err(Error::NotEmpty));
    // Its address changes: the old one is free.
    let moved = node("oak", [4; 6], "blue");
    of_node(&mut w, Some(&oak), Some(&moved)).unwrap();
    let found = |w: &World, mac| read::boot_node_of_mac(&*w.view(), mac).unwrap();
    assert_eq!((found(&w, MAC), found(&w, [4; 6])), (None, Some(moved.clone())));
    of_node(&mut w, None, Some(&node("elm", MAC, "blue"))).unwrap();
    of_node(&mut w, Some(&moved), None).unwrap();
    assert_eq!(found(&w, [4; 6]), None);
    assert_eq!(read::boot_nodes(&*w.view()).unwrap(), [node("elm", MAC, "blue")]);
}

#[test]
fn names_and_directories_that_would_climb_or_need_quotes_are_refused() {
    let mut w = World::new();
    for name in ["", "-a", "a-", "a.b", "a/b", "..", "Oak", "a b", &"a".repeat(BOOT_NAME_BYTES_MAX + 1)] {
        assert_eq!(of_group(&mut w, None, Some(&group(name, None, None))), Err(Error::Invalid), "{name:?}");
    }
    for path in ["", "/", "etc", "/etc/", "//etc", "/a/../etc", "/./etc", "/a b", "/a,b", "/a:b", "/a\"b"] {
        let root = BootRoot::Own { directories: vec![path.into()] };
        let refused = BootGroup { root, ..group("blue", None, None) };
        assert_eq!(of_group(&mut w, None, Some(&refused)), Err(Error::Invalid), "{path:?}");
    }
    for root in [BootRoot::Shared { memory_mib: 0 }, BootRoot::Own { directories: vec![] }] {
        let refused = BootGroup { root, ..group("blue", None, None) };
        assert_eq!(of_group(&mut w, None, Some(&refused)), Err(Error::Invalid));
    }
    for words in [
        "a\nboot",
        "${net0/mac}",
        "a || reboot",
        "a ; reboot",
        "\u{e4}",
        &"w".repeat(BOOT_WORDS_BYTES_MAX + 1),
    ] {
        let refused = BootGroup { words: words.into(), ..group("blue", None, None) };
        assert_eq!(of_group(&mut w, None, Some(&refused)), Err(Error::Invalid), "{words:?}");
    }
    let root = BootRoot::Own { directories: vec!["/etc".into(), "/var/lib/x_1.2+3-4".into()] };
    of_group(&mut w, None, Some(&BootGroup { root, ..group("blue", None, None) })).unwrap();
}

/// Nodes by the same check, which takes a minute for as many as there may be.
#[test]
fn groups_are_bounded() {
    let mut w = World::new();
    let numbered = |n: usize| group(&format!("g{n}"), None, None);
    for n in 0..BOOT_GROUPS_MAX {
        of_group(&mut w, None, Some(&numbered(n))).unwrap();
    }
    assert_eq!(of_group(&mut w, None, Some(&numbered(BOOT_GROUPS_MAX))), Err(Error::TooLarge));
    let other = BootGroup { root: BootRoot::Group, ..numbered(7) };
    of_group(&mut w, Some(&numbered(7)), Some(&other)).unwrap();
    of_group(&mut w, Some(&other), None).unwrap();
    of_group(&mut w, None, Some(&numbered(BOOT_GROUPS_MAX))).unwrap();
}
