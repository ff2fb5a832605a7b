//! File handles as capabilities: a keyed tag seals each handle, so that a guessed or altered handle is
//! refused before any look-up.
//!
//! ```text
//! metaserver   │kind 1│vol 4│inode 8│gen 4│tag 16│            33 bytes: export of the volume; pseudo fs
//!              │kind 1│vol 4│inode 8│gen 4│export 8│tag 16│   41 bytes: export of a directory
//! data server  │kind 1│vol 4│inode 8│gen 4│column 4│target 8│unit 4│columns 4│incarnation 8│epoch 4
//!              │layout epoch 4│chain 8│chain version 4│tag 16│    81 bytes; the kind tells whose it is, and
//!              whether it permits writes
//! ```
//!
//! A metaserver's handle contains the export of its client, so that a handle of one export gives no access
//! through another.
//!
//! The tag is the first 16 bytes of BLAKE3 over the bytes before it, keyed with the cluster's handle key.
//! Every holder of the key could make handles; metaservers make both kinds, data servers only open theirs.
//! All numbers are big-endian.

use bytes::Bytes;

const KIND_FILE: u8 = 1;
const KIND_OBJECT: u8 = 2;
const KIND_OBJECT_TO_READ: u8 = 3;
const KIND_EXPORTED_FILE: u8 = 4;
const KIND_PSEUDO: u8 = 5;
const KIND_OBJECT_OF_CALL: u8 = 6;
const TAG_BYTES: usize = 16;
const FILE_BYTES: usize = 17;
const EXPORTED_FILE_BYTES: usize = 25;
const OBJECT_BYTES: usize = 65;

/// Key that seals handles. All servers of a cluster hold it, and no other machine.
#[derive(Clone)]
pub struct HandleKey([u8; 32]);

impl HandleKey {
    /// Key of 32 secret bytes.
    #[must_use]
    pub fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    fn tag(&self, body: &[u8]) -> [u8; TAG_BYTES] {
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&blake3::keyed_hash(&self.0, body).as_bytes()[..TAG_BYTES]);
        tag
    }

    fn seal(&self, body: &[u8]) -> Bytes {
        [body, &self.tag(body)].concat().into()
    }

    fn open<'a>(&self, handle: &'a [u8], kind: u8, body_bytes: usize) -> Option<&'a [u8]> {
        if handle.len() != body_bytes + TAG_BYTES || handle[0] != kind {
            return None;
        }
        let (body, tag) = handle.split_at(body_bytes);
        // In constant time, so that an attacker cannot learn a tag byte by byte.
        let differs = self.tag(body).iter().zip(tag).fold(0, |acc, (a, b)| acc | (a ^ b));
        (differs == 0).then_some(body)
    }
}

impl std::fmt::Debug for HandleKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HandleKey(secret)")
    }
}

/// Handle of a file, directory or other inode at a metaserver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileHandle {
    /// Volume.
    pub volume: u32,
    /// Inode of the volume.
    pub inode: u64,
    /// Generation of the inode.
    pub generation: u32,
}

impl FileHandle {
    /// Seals the handle, in the export of the whole volume.
    #[must_use]
    pub fn seal(&self, key: &HandleKey) -> Bytes {
        key.seal(&self.body(KIND_FILE))
    }

    fn body(&self, kind: u8) -> Vec<u8> {
        let mut body = Vec::with_capacity(OBJECT_BYTES);
        body.push(kind);
        body.extend_from_slice(&self.volume.to_be_bytes());
        body.extend_from_slice(&self.inode.to_be_bytes());
        body.extend_from_slice(&self.generation.to_be_bytes());
        body
    }

    fn from_body(body: &[u8]) -> Option<Self> {
        Some(Self {
            volume: u32::from_be_bytes(body.get(1..5)?.try_into().ok()?),
            inode: u64::from_be_bytes(body.get(5..13)?.try_into().ok()?),
            generation: u32::from_be_bytes(body.get(13..17)?.try_into().ok()?),
        })
    }

    /// Opens a handle of any export; none if it was not sealed with this key.
    #[must_use]
    pub fn open(handle: &[u8], key: &HandleKey) -> Option<Self> {
        ClientHandle::open(handle, key).map(|handle| handle.file)
    }
}

/// Export through which a client reached a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Via {
    /// Export of the whole volume.
    Volume,
    /// Export of the directory with this inode.
    Directory(u64),
    /// The pseudo file system above the exports (RFC 8881, section 7.3).
    Pseudo,
}

/// Handle of an inode at a metaserver, with the export of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientHandle {
    /// The inode.
    pub file: FileHandle,
    /// The export.
    pub via: Via,
}

impl ClientHandle {
    /// Seals the handle.
    #[must_use]
    pub fn seal(&self, key: &HandleKey) -> Bytes {
        match self.via {
            Via::Volume => self.file.seal(key),
            Via::Pseudo => key.seal(&self.file.body(KIND_PSEUDO)),
            Via::Directory(export) => {
                let mut body = self.file.body(KIND_EXPORTED_FILE);
                body.extend_from_slice(&export.to_be_bytes());
                key.seal(&body)
            }
        }
    }

    /// Opens a handle; none if it was not sealed with this key.
    #[must_use]
    pub fn open(handle: &[u8], key: &HandleKey) -> Option<Self> {
        let (body, via) = match *handle.first()? {
            KIND_FILE => (key.open(handle, KIND_FILE, FILE_BYTES)?, Via::Volume),
            KIND_PSEUDO => (key.open(handle, KIND_PSEUDO, FILE_BYTES)?, Via::Pseudo),
            _ => {
                let body = key.open(handle, KIND_EXPORTED_FILE, EXPORTED_FILE_BYTES)?;
                let export = u64::from_be_bytes(body.get(FILE_BYTES..)?.try_into().ok()?);
                (body, Via::Directory(export))
            }
        };
        Some(Self { file: FileHandle::from_body(body)?, via })
    }
}

/// Handle of one object at a data server: one column of one file on one storage target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ObjectHandle {
    /// The file.
    pub file: FileHandle,
    /// Column of the file, from 0.
    pub column: u32,
    /// Storage target that keeps the column.
    pub target: u64,
    /// Stripe unit in bytes.
    pub unit: u32,
    /// Number of columns of the file.
    pub columns: u32,
    /// Incarnation of the group that made the handle: the first half of its id. A target obeys one
    /// incarnation.
    pub incarnation: u64,
    /// Object epoch of the file: a data server refuses a metaserver's call with an earlier one than the highest
    /// that it has seen for the object.
    pub epoch: u32,
    /// Object epoch of the file's last fence: likewise for the calls of a client with a layout.
    pub layout_epoch: u32,
    /// Chain of the column. A column without copies is on the chain of one target, whose id is that of the target.
    pub chain: u64,
    /// Version of the chain, in a call that one member forwards to the next; 0 in all others.
    pub chain_version: u32,
}

/// Holder of an object's handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// A client with a layout to read.
    Reader,
    /// A client with a layout to write.
    Writer,
    /// A metaserver or data server.
    Server,
}

impl Holder {
    fn kind(self) -> u8 {
        match self {
            Holder::Reader => KIND_OBJECT_TO_READ,
            Holder::Writer => KIND_OBJECT,
            Holder::Server => KIND_OBJECT_OF_CALL,
        }
    }
}

/// Position of a byte of a file in the object of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Offset from the object's start, in bytes.
    pub object_offset: u64,
    /// Bytes to the end of the stripe unit.
    pub left: u64,
}

impl ObjectHandle {
    /// True if the column has copies on other targets.
    #[must_use]
    pub fn has_copies(&self) -> bool {
        self.chain != self.target
    }

    /// True if these bytes would be the handle of a column with copies. Does not check the tag.
    #[must_use]
    pub fn seems_to_have_copies(handle: &[u8]) -> bool {
        handle.len() == OBJECT_BYTES + TAG_BYTES && handle[21..29] != handle[53..61]
    }

    /// Position in this object of the file's byte at `file_offset`; none if another column has the byte.
    /// Stripe unit `n` of a file is unit `n / columns` of column `n % columns`.
    #[must_use]
    pub fn place(&self, file_offset: u64) -> Option<Place> {
        let (unit, columns) = (u64::from(self.unit), u64::from(self.columns));
        if columns == 1 {
            return Some(Place { object_offset: file_offset, left: u64::MAX });
        }
        let (stripe, within) = (file_offset.checked_div(unit)?, file_offset % unit);
        (stripe.checked_rem(columns)? == u64::from(self.column))
            .then(|| Place { object_offset: stripe / columns * unit + within, left: unit - within })
    }

    /// Seals the handle for this holder.
    #[must_use]
    pub fn seal_for(&self, holder: Holder, key: &HandleKey) -> Bytes {
        let mut body = self.file.body(holder.kind());
        body.extend_from_slice(&self.column.to_be_bytes());
        body.extend_from_slice(&self.target.to_be_bytes());
        body.extend_from_slice(&self.unit.to_be_bytes());
        body.extend_from_slice(&self.columns.to_be_bytes());
        body.extend_from_slice(&self.incarnation.to_be_bytes());
        body.extend_from_slice(&self.epoch.to_be_bytes());
        body.extend_from_slice(&self.layout_epoch.to_be_bytes());
        body.extend_from_slice(&self.chain.to_be_bytes());
        body.extend_from_slice(&self.chain_version.to_be_bytes());
        key.seal(&body)
    }

    /// Seals the handle for a call between servers.
    #[must_use]
    pub fn seal(&self, key: &HandleKey) -> Bytes {
        self.seal_for(Holder::Server, key)
    }

    /// Opens a handle; none if it was not sealed with this key.
    #[must_use]
    pub fn open(handle: &[u8], key: &HandleKey) -> Option<Self> {
        Self::open_with_holder(handle, key).map(|(object, _)| object)
    }

    /// Opens a handle, and returns its holder, too.
    #[must_use]
    pub fn open_with_holder(handle: &[u8], key: &HandleKey) -> Option<(Self, Holder)> {
        let holder = match *handle.first()? {
            KIND_OBJECT_TO_READ => Holder::Reader,
            KIND_OBJECT => Holder::Writer,
            KIND_OBJECT_OF_CALL => Holder::Server,
            _ => return None,
        };
        let body = key.open(handle, holder.kind(), OBJECT_BYTES)?;
        let object = Self {
            file: FileHandle::from_body(body)?,
            column: u32::from_be_bytes(body.get(17..21)?.try_into().ok()?),
            target: u64::from_be_bytes(body.get(21..29)?.try_into().ok()?),
            unit: u32::from_be_bytes(body.get(29..33)?.try_into().ok()?),
            columns: u32::from_be_bytes(body.get(33..37)?.try_into().ok()?),
            incarnation: u64::from_be_bytes(body.get(37..45)?.try_into().ok()?),
            epoch: u32::from_be_bytes(body.get(45..49)?.try_into().ok()?),
            layout_epoch: u32::from_be_bytes(body.get(49..53)?.try_into().ok()?),
            chain: u64::from_be_bytes(body.get(53..61)?.try_into().ok()?),
            chain_version: u32::from_be_bytes(body.get(61..65)?.try_into().ok()?),
        };
        Some((object, holder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_with_any_bit_changed_is_refused() {
        let key = HandleKey::new([7; 32]);
        let file = FileHandle { volume: 1, inode: 42, generation: 3 };
        let object = ObjectHandle {
            file,
            column: 2,
            target: 9,
            unit: 10,
            columns: 3,
            incarnation: 4,
            epoch: 6,
            layout_epoch: 5,
            chain: 11,
            chain_version: 12,
        };
        let (f, o) = (file.seal(&key), object.seal(&key));
        assert_eq!(FileHandle::open(&f, &key), Some(file));
        assert_eq!(ObjectHandle::open(&o, &key), Some(object));
        assert_eq!(FileHandle::open(&o, &key), None);
        assert_eq!(ObjectHandle::open(&o, &HandleKey::new([8; 32])), None);
        assert!(object.has_copies() && ObjectHandle::seems_to_have_copies(&o));
        let alone = ObjectHandle { chain: object.target, ..object }.seal(&key);
        assert!(![&alone, &f].iter().any(|handle| ObjectHandle::seems_to_have_copies(handle)));
        let [r, w] = [Holder::Reader, Holder::Writer].map(|holder| object.seal_for(holder, &key));
        for (handle, holder) in [(&o, Holder::Server), (&r, Holder::Reader), (&w, Holder::Writer)] {
            assert_eq!(ObjectHandle::open_with_holder(handle, &key), Some((object, holder)));
        }
        let client = |via| ClientHandle { file, via };
        assert_eq!(ClientHandle::open(&f, &key), Some(client(Via::Volume)));
        let (e, p) = (client(Via::Directory(42)).seal(&key), client(Via::Pseudo).seal(&key));
        assert_eq!((f.len(), p.len(), e.len()), (33, 33, 41));
        assert_eq!(ClientHandle::open(&e, &key), Some(client(Via::Directory(42))));
        assert_eq!(ClientHandle::open(&p, &key), Some(client(Via::Pseudo)));
        assert_eq!(FileHandle::open(&e, &key), Some(file));
        for handle in [e, p, f.clone()] {
            for bit in 0..handle.len() * 8 {
                let mut altered = handle.to_vec();
                altered[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(ClientHandle::open(&altered, &key), None, "bit {bit}");
            }
        }
        for handle in [o, r, w] {
            for bit in 0..handle.len() * 8 {
                let mut altered = handle.to_vec();
                altered[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(ObjectHandle::open(&altered, &key), None, "bit {bit}");
            }
        }
        assert_eq!(FileHandle::open(&f[..f.len() - 1], &key), None);
        assert_eq!(FileHandle::open(&[], &key), None);
    }

    #[test]
    fn a_byte_of_a_file_has_one_place_in_one_column() {
        let file = FileHandle { volume: 1, inode: 42, generation: 3 };
        let column = |column| ObjectHandle {
            file,
            column,
            target: 9,
            unit: 10,
            columns: 3,
            incarnation: 4,
            epoch: 0,
            layout_epoch: 0,
            chain: 9,
            chain_version: 0,
        };
        let place = |object_offset, left| Some(Place { object_offset, left });
        for (column, file_offset, expected) in [
            (column(0), 0, place(0, 10)),
            (column(0), 9, place(9, 1)),
            (column(0), 10, None),
            (column(1), 10, place(0, 10)),
            (column(2), 29, place(9, 1)),
            (column(0), 34, place(14, 6)),
            (column(0), u64::MAX, None),
            (ObjectHandle { columns: 1, ..column(0) }, 34, place(34, u64::MAX)),
            (ObjectHandle { columns: 0, ..column(0) }, 34, None),
            (ObjectHandle { unit: 0, ..column(0) }, 34, None),
        ] {
            assert_eq!(column.place(file_offset), expected, "{column:?} {file_offset}");
        }
    }
}
