//! Inodes and directory entries.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use store::{StoreError, View};

use super::volumes::{self, Volumes};
use super::{Findings, table};
use crate::record::{CookieEntry, Counters, Name, Xattr, decode_data};
use crate::{
    DataPlace, FIRST_COOKIE, INLINE_BYTES_MAX, Inode, InodeId, Kind, SIZE_BYTES_MAX, XATTR_NAME_BYTES_MAX,
    XATTR_VALUE_BYTES_MAX, XATTRS_BYTES_MAX, XATTRS_MAX, keys, read,
};

/// Counts of the entries of one inode.
#[derive(Default)]
struct Named {
    names: u32,
    subdirectories: u32,
    entries: u64,
    /// Directory of the last entry of the inode.
    within: Option<InodeId>,
}

pub(super) fn check(
    view: &dyn View,
    counters: &Counters,
    findings: &mut Findings,
) -> Result<BTreeMap<InodeId, Inode>, StoreError> {
    let mut inodes = BTreeMap::new();
    for (key, inode) in table::<Inode>(view, keys::INODES, findings)? {
        findings.expect(key == keys::inode(inode.id), || format!("{:?} is under key {key:02x?}", inode.id));
        inodes.insert(inode.id, inode);
    }
    let counted = volumes::counted(view, &inodes)?;
    findings.expect(counters.inodes == counted, || {
        format!("{} inodes are counted, there are {counted}", counters.inodes)
    });
    let volumes = volumes::check(view, &inodes, findings)?;
    let named = entries(view, &inodes, &volumes, findings)?;
    xattrs(view, &inodes, findings)?;
    findings.expect(inodes.contains_key(&InodeId::ROOT), || "there is no root".to_string());
    for inode in inodes.values().filter(|inode| volumes.has(inode.id)) {
        let none = Named::default();
        check_inode(view, &inodes, inode, named.get(&inode.id).unwrap_or(&none), findings)?;
    }
    inline(view, &inodes, &volumes, findings)?;
    Ok(inodes)
}

/// Checks that the length of inline data is `written`, and that no other inode has inline data.
fn inline(
    view: &dyn View,
    inodes: &BTreeMap<InodeId, Inode>,
    volumes: &Volumes,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let mut lengths = BTreeMap::new();
    view.scan(&[keys::INLINE], &keys::after(&[keys::INLINE]), &mut |key, value| {
        match decode_data(key, value.to_vec()) {
            Ok(data) => drop(lengths.insert(key.to_vec(), data.len() as u64)),
            Err(error) => findings.add(error.to_string()),
        }
        ControlFlow::Continue(())
    })?;
    for inode in inodes.values() {
        let expected = match inode.data() {
            Some(DataPlace::Inline | DataPlace::Migrating) => inode.written,
            Some(DataPlace::Striped) | None => 0,
        };
        let found = lengths.remove(&keys::inline(inode.id));
        let agrees = found == Some(expected).filter(|bytes| *bytes > 0) && expected <= INLINE_BYTES_MAX;
        let agrees = agrees || !volumes.has(inode.id);
        findings.expect(agrees, || format!("{:?} keeps {found:?} bytes, not {expected}", inode.id));
    }
    findings.expect(lengths.is_empty(), || format!("data of no file: {lengths:02x?}"));
    Ok(())
}

/// Checks the entries against each other and against the inodes, and counts them.
fn entries(
    view: &dyn View,
    inodes: &BTreeMap<InodeId, Inode>,
    volumes: &Volumes,
    findings: &mut Findings,
) -> Result<BTreeMap<InodeId, Named>, StoreError> {
    let mut named: BTreeMap<InodeId, Named> = BTreeMap::new();
    let mut by_cookie: BTreeMap<Vec<u8>, CookieEntry> = table(view, keys::COOKIES, findings)?;
    by_cookie.retain(|key, _| volumes.has(InodeId(keys::number(key, 1))));
    for (key, Name { cookie, inode }) in table(view, keys::NAMES, findings)? {
        let dir = InodeId(keys::number(&key, 1));
        if !volumes.has(dir) {
            continue;
        }
        let name = key.get(9..).unwrap_or_default();
        let entry = || format!("entry {:?} of {dir:?}", String::from_utf8_lossy(name));

        match by_cookie.remove(&keys::cookie(dir, cookie)) {
            Some(found) => findings.expect(found.name == name && found.inode == inode, || {
                format!("{} is another one under its cookie {cookie}: {found:?}", entry())
            }),
            None => findings.add(format!("{} is not under its cookie {cookie}", entry())),
        }
        match inodes.get(&dir).and_then(Inode::directory) {
            Some(directory) => findings
                .expect((FIRST_COOKIE..directory.next_cookie).contains(&cookie), || {
                    format!("{} has cookie {cookie}, the next is {}", entry(), directory.next_cookie)
                }),
            None => findings.add(format!("{} is in no directory", entry())),
        }
        match inodes.get(&inode) {
            Some(inode) if inode.directory().is_some() => named.entry(dir).or_default().subdirectories += 1,
            Some(inode) => findings.expect(inode.id.volume() == dir.volume(), || {
                format!("{} names {:?} of another volume", entry(), inode.id)
            }),
            None => findings.add(format!("{} names {inode:?}, which is not there", entry())),
        }
        named.entry(dir).or_default().entries += 1;
        let inode = named.entry(inode).or_default();
        inode.names += 1;
        inode.within = Some(dir);
    }
    for key in by_cookie.keys() {
        findings.add(format!("cookie {} of {} has no name", keys::number(key, 9), keys::number(key, 1)));
    }
    Ok(named)
}

/// Checks that extended attributes belong to files and directories, and are within their bounds.
fn xattrs(
    view: &dyn View,
    inodes: &BTreeMap<InodeId, Inode>,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let mut sums: BTreeMap<InodeId, (usize, u64, BTreeSet<u64>)> = BTreeMap::new();
    for (key, Xattr { cookie, value }) in table(view, keys::XATTRS, findings)? {
        let (inode, name) = (InodeId(keys::number(&key, 1)), key.get(9..).unwrap_or_default());
        let of = inodes.get(&inode);
        let has =
            of.is_some_and(|of| (of.layout().is_some() || of.directory().is_some()) && cookie <= of.change);
        let bounded =
            (1..=XATTR_NAME_BYTES_MAX).contains(&name.len()) && value.len() <= XATTR_VALUE_BYTES_MAX;
        findings.expect(has && bounded, || format!("an extended attribute under {key:02x?} is of {of:?}"));
        let (count, bytes, cookies) = sums.entry(inode).or_default();
        *count += 1;
        *bytes += (name.len() + value.len()) as u64;
        findings.expect(cookies.insert(cookie), || format!("{inode:?} lists two attributes at {cookie}"));
    }
    for (inode, (count, bytes, _)) in sums {
        findings.expect(count <= XATTRS_MAX && bytes <= XATTRS_BYTES_MAX, || {
            format!("{inode:?} has {count} extended attributes of {bytes} bytes")
        });
    }
    Ok(())
}

fn check_inode(
    view: &dyn View,
    inodes: &BTreeMap<InodeId, Inode>,
    inode: &Inode,
    named: &Named,
    findings: &mut Findings,
) -> Result<(), StoreError> {
    let Inode { id, links, size, .. } = inode;
    let written_max = if inode.layout().is_some() { *size } else { 0 };
    findings.expect(inode.written <= written_max, || format!("{id:?} has {} written bytes", inode.written));
    findings.expect(inode.generation != 0, || format!("{id:?} has generation 0"));
    match &inode.kind {
        Kind::Directory(directory) => {
            findings.expect(directory.entries == named.entries, || {
                format!("{id:?} counts {} entries, there are {}", directory.entries, named.entries)
            });
            findings.expect(*size == directory.entries * 64, || format!("{id:?} has size {size}"));
            let counted = 2 + named.subdirectories;
            findings.expect(*links == counted, || format!("{id:?} has {links} links, not {counted}"));
            let (names, within) =
                if *id == InodeId::ROOT { (0, Some(InodeId::ROOT)) } else { (1, named.within) };
            findings.expect(named.names == names, || format!("{id:?} has {} names", named.names));
            findings.expect(within == Some(directory.parent), || {
                format!("{id:?} is in {within:?}, and takes {:?} for its parent", directory.parent)
            });
            findings.expect(reaches_root(inodes, *id), || format!("{id:?} is in a circle"));
        }
        kind => {
            findings.expect(*links == named.names, || {
                format!("{id:?} has {links} links, {} entries name it", named.names)
            });
            findings.expect(*links > 0 || read::in_use(view, *id)?, || {
                format!("{id:?} has no name, and nothing holds it")
            });
            findings.expect(*size <= SIZE_BYTES_MAX, || format!("{id:?} has size {size}"));
            if let Kind::Symlink(target) = kind {
                findings.expect(*size == target.len() as u64, || format!("{id:?} has size {size}"));
            }
        }
    }
    Ok(())
}

fn reaches_root(inodes: &BTreeMap<InodeId, Inode>, dir: InodeId) -> bool {
    // The number of directories on the way is bounded by the number of inodes.
    let (mut at, mut steps) = (dir, inodes.len());
    while at != InodeId::ROOT && steps > 0 {
        let Some(directory) = inodes.get(&at).and_then(Inode::directory) else { return false };
        at = directory.parent;
        steps -= 1;
    }
    at == InodeId::ROOT
}
