//! Files, and their expected content.

use bytes::Bytes;
use nfs_rs::{Attr, OPEN_BOTH, OPEN_READ};

use crate::scene::Client;

/// File that one client has open (v3: has looked up).
pub struct OpenFile {
    client: Client,
    pub handle: Bytes,
}

impl OpenFile {
    pub async fn create(client: &Client, path: &str) -> OpenFile {
        let made = client.create_path(path, Some(0o644)).await;
        OpenFile::of(client, made.unwrap_or_else(|e| panic!("create {path}: {e}")).fh)
    }

    pub async fn open(client: &Client, path: &str) -> OpenFile {
        OpenFile::open_for(client, path, OPEN_BOTH).await
    }

    pub async fn open_to_read(client: &Client, path: &str) -> OpenFile {
        OpenFile::open_for(client, path, OPEN_READ).await
    }

    async fn open_for(client: &Client, path: &str, access: u32) -> OpenFile {
        let found = client.open_path(path, access).await;
        OpenFile::of(client, found.unwrap_or_else(|e| panic!("open {path}: {e}")).fh)
    }

    fn of(client: &Client, handle: Bytes) -> OpenFile {
        OpenFile { client: client.clone(), handle }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Writes durably: UNSTABLE writes, then COMMIT (and LAYOUTCOMMIT), as nfs-rs does it.
    pub async fn write(&self, offset: usize, data: &[u8]) {
        let data = Bytes::copy_from_slice(data);
        let (length, handle) = (data.len(), self.handle.clone());
        let written = nfs_rs::write_all(&*self.client, handle, offset as u64, data).await;
        let written = written.unwrap_or_else(|e| panic!("write {length} bytes at {offset}: {e:?}"));
        assert_eq!(written, length as u64);
    }

    /// Reads `length` bytes, or up to the end.
    pub async fn read(&self, offset: usize, length: usize) -> Vec<u8> {
        let chunk = self.client.get_max_read_size() as usize;
        let mut data = Vec::with_capacity(length);
        while data.len() < length {
            let at = (offset + data.len()) as u64;
            let count = (length - data.len()).min(chunk) as u32;
            let piece = self.client.read(self.handle.clone(), at, count).await;
            let piece = piece.unwrap_or_else(|e| panic!("read {count} bytes at {at}: {e:?}"));
            assert!(piece.len() <= count as usize);
            if piece.is_empty() {
                break;
            }
            data.extend_from_slice(&piece);
        }
        data
    }

    pub async fn read_all(&self) -> Vec<u8> {
        let size = self.attributes().await.filesize as usize;
        // One byte more, to detect a file longer than its size.
        self.read(0, size + 1).await
    }

    pub async fn truncate(&self, size: usize) {
        let size = Some(size as u64);
        let set = self.client.setattr(self.handle.clone(), None, None, None, None, size, None, None).await;
        set.unwrap_or_else(|e| panic!("truncate to {size:?}: {e:?}"));
    }

    pub async fn attributes(&self) -> Attr {
        self.client.getattr(self.handle.clone()).await.expect("attributes of an open file")
    }

    pub async fn close(self) {
        self.client.close(self.handle).await.expect("close");
    }
}

/// Creates a file with these bytes, and closes it.
pub async fn put(client: &Client, path: &str, data: &[u8]) {
    let file = OpenFile::create(client, path).await;
    if !data.is_empty() {
        file.write(0, data).await;
    }
    file.close().await;
}

/// All bytes of a file, after an open.
pub async fn get(client: &Client, path: &str) -> Vec<u8> {
    let file = OpenFile::open_to_read(client, path).await;
    let data = file.read_all().await;
    file.close().await;
    data
}

/// Applies a write to a file in memory.
pub fn overwrite(memory: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    if memory.len() < end {
        memory.resize(end, 0);
    }
    memory[offset..end].copy_from_slice(data);
}

/// Compares bytes; `assert_eq!` would print megabytes of both.
#[track_caller]
pub fn assert_same(found: &[u8], expected: &[u8]) {
    let differ = found.iter().zip(expected).position(|(a, b)| a != b);
    if let Some(at) = differ {
        panic!("byte {at} is {} and should be {}", found[at], expected[at]);
    }
    assert_eq!(found.len(), expected.len(), "as far as it goes it is right");
}

/// Seeded sequence (splitmix64): the same in every run.
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Random bytes without zeros, to distinguish data from holes.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            bytes.extend_from_slice(&self.next().to_le_bytes().map(|b| b | 1));
        }
        bytes.truncate(length);
        bytes
    }
}
