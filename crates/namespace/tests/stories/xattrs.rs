//! Extended attributes.

use namespace::XattrExists::{Create, Either, Replace};
use namespace::*;

use crate::world::*;

fn value(w: &World, path: &str, name: &str) -> Option<Vec<u8>> {
    read::xattr(&*w.view(), w.id(path), name.as_bytes()).expect("reads")
}

/// Names in the order of their cookies.
fn names(w: &World, path: &str) -> Vec<String> {
    let listed = read::xattrs(&*w.view(), w.id(path)).expect("reads");
    assert!(listed.is_sorted_by(|(a, _), (b, _)| a < b), "every cookie once: {listed:?}");
    listed.into_iter().map(|(_, name)| String::from_utf8(name).expect("a test's name")).collect()
}

#[test]
fn an_extended_attribute_is_made_replaced_and_removed() {
    let mut w = World::new();
    w.file("/f");
    assert_eq!(w.set_xattr("/f", "a", b"1", Replace), Err(Error::NoXattr));
    w.set_xattr("/f", "a", b"1", Create).unwrap();
    assert_eq!(w.set_xattr("/f", "a", b"2", Create), Err(Error::Exists));
    assert_eq!(value(&w, "/f", "a"), Some(b"1".to_vec()));
    w.set_xattr("/f", "a", b"2", Replace).unwrap();
    w.set_xattr("/f", "b", b"", Either).unwrap();
    w.set_xattr("/f", "a", b"3", Either).unwrap();
    assert_eq!((value(&w, "/f", "a"), value(&w, "/f", "b")), (Some(b"3".to_vec()), Some(vec![])));
    w.remove_xattr("/f", "a").unwrap();
    assert_eq!(w.remove_xattr("/f", "a"), Err(Error::NoXattr));
    assert_eq!((value(&w, "/f", "a"), names(&w, "/f")), (None, vec!["b".to_string()]));
}

#[test]
fn each_change_of_an_extended_attribute_moves_the_change_attribute_and_the_change_time_alone() {
    let mut w = World::new();
    w.file("/f");
    let made = w.stat("/f");
    let changed = |outcome| match outcome {
        Ok(Reply::Changed { change }) => change,
        outcome => panic!("{outcome:?}"),
    };
    let first = changed(w.set_xattr("/f", "a", b"1", Either));
    assert_eq!((first.before, first.after), (made.change, made.change + 1));
    let second = changed(w.remove_xattr("/f", "a"));
    assert_eq!((second.before, second.after), (first.after, first.after + 1));
    let now = w.stat("/f");
    assert_eq!((now.change, now.changed), (second.after, at(w.seconds)));
    assert_eq!((now.modified, now.accessed, now.size), (made.modified, made.accessed, made.size));
}

#[test]
fn a_listing_goes_on_where_it_was_whatever_came_and_went() {
    let mut w = World::new();
    w.dir("/d");
    for name in ["z", "y", "x"] {
        w.set_xattr("/d", name, b"1", Create).unwrap();
    }
    assert_eq!(names(&w, "/d"), ["z", "y", "x"], "in the order in which they were made");
    let after_z = read::xattrs(&*w.view(), w.id("/d")).unwrap()[0].0;
    w.remove_xattr("/d", "z").unwrap();
    w.set_xattr("/d", "y", b"2", Replace).unwrap();
    w.set_xattr("/d", "z", b"again", Create).unwrap();
    let rest: Vec<_> = read::xattrs(&*w.view(), w.id("/d"))
        .unwrap()
        .into_iter()
        .filter(|(cookie, _)| *cookie > after_z)
        .collect();
    assert_eq!(rest.into_iter().map(|(_, name)| name).collect::<Vec<_>>(), [b"y", b"x", b"z"]);
}

#[test]
fn extended_attributes_are_of_files_and_directories_only() {
    let mut w = World::new();
    w.make("/s", NewNode::Symlink(b"f".to_vec()), Exists::Refuse).unwrap();
    w.make("/p", NewNode::Fifo, Exists::Refuse).unwrap();
    for path in ["/s", "/p"] {
        assert_eq!(w.set_xattr(path, "a", b"1", Either), Err(Error::WrongType), "{path}");
        assert_eq!(w.remove_xattr(path, "a"), Err(Error::WrongType), "{path}");
    }
    w.set_xattr("/", "a", b"1", Either).unwrap();
    let gone = Command::RemoveXattr { inode: InodeId(99), name: b"a".to_vec() };
    assert_eq!(w.apply(gone), Err(Error::Stale));
}

#[test]
fn names_values_and_the_sum_of_them_have_bounds() {
    let mut w = World::new();
    w.file("/f");
    w.file("/many");
    assert_eq!(w.set_xattr("/f", "", b"1", Either), Err(Error::Invalid));
    assert_eq!(w.set_xattr("/f", &"n".repeat(256), b"1", Either), Err(Error::Invalid));
    assert_eq!(w.set_xattr("/f", "a", &[0; XATTR_VALUE_BYTES_MAX + 1], Either), Err(Error::XattrTooBig));
    for name in ["a", "b", "c"] {
        w.set_xattr("/f", name, &[7; XATTR_VALUE_BYTES_MAX], Either).unwrap();
    }
    assert_eq!(w.set_xattr("/f", "d", &[7; XATTR_VALUE_BYTES_MAX], Either), Err(Error::NoXattrRoom));
    w.set_xattr("/f", "d", &[7; XATTR_VALUE_BYTES_MAX - 4], Either).unwrap();
    assert_eq!(w.set_xattr("/f", "d", &[7; XATTR_VALUE_BYTES_MAX - 3], Replace), Err(Error::NoXattrRoom));
    w.set_xattr("/f", "a", b"shorter", Replace).unwrap();
    w.set_xattr("/f", "d", &[7; XATTR_VALUE_BYTES_MAX], Replace).unwrap();

    for number in 0..XATTRS_MAX {
        w.set_xattr("/many", &number.to_string(), b"", Create).unwrap();
    }
    assert_eq!(w.set_xattr("/many", "more", b"", Create), Err(Error::NoXattrRoom));
    w.set_xattr("/many", "0", b"x", Replace).unwrap();
}

#[test]
fn extended_attributes_go_with_the_last_name_and_the_last_open() {
    let mut w = World::new();
    let a = w.client("a");
    let file = w.file("/f");
    w.dir("/d");
    w.set_xattr("/f", "a", b"1", Create).unwrap();
    w.set_xattr("/d", "a", b"1", Create).unwrap();
    let open = w.open(a, "/f", READ).unwrap();
    w.remove("/f").unwrap();
    w.remove("/d").unwrap();
    assert_eq!(read::xattr(&*w.view(), file, b"a").unwrap(), Some(b"1".to_vec()), "still open");
    w.close(a, open).unwrap();
    assert!(w.dump().iter().all(|(key, _)| key[0] != 0x05), "no record stays behind");
}
