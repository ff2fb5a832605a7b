//! Operations of NFSv4.2 on ranges (RFC 7862): ALLOCATE, DEALLOCATE, SEEK, READ_PLUS, COPY, CLONE.

use nfs_rs::{ReadPlusContent, SeekContent};

use crate::file::{Dice, OpenFile, assert_same, get, overwrite, put};
use crate::scene::{Scene, Version, each, mount_with, refusal};

const KIB: usize = 1 << 10;
const UNIT: usize = 64 * KIB;
const V42: [Version; 1] = [Version::V42];

/// Position that SEEK returns, and whether it is the end.
async fn seek(file: &OpenFile, offset: usize, what: SeekContent) -> (usize, bool) {
    let found = file.client().seek_content(file.handle.clone(), offset as u64, what).await;
    let found = found.unwrap_or_else(|e| panic!("seek {what:?} from {offset}: {e:?}"));
    (found.offset as usize, found.eof)
}

async fn allocate(file: &OpenFile, offset: usize, length: usize) {
    let done = file.client().allocate(file.handle.clone(), offset as u64, length as u64).await;
    done.unwrap_or_else(|e| panic!("allocate {length} at {offset}: {e:?}"));
}

async fn deallocate(file: &OpenFile, offset: usize, length: usize) {
    let done = file.client().deallocate(file.handle.clone(), offset as u64, length as u64).await;
    done.unwrap_or_else(|e| panic!("deallocate {length} at {offset}: {e:?}"));
}

/// Copies the whole range, with as many COPYs as needed.
async fn copy(source: &OpenFile, from: usize, target: &OpenFile, to: usize, length: usize) {
    let mut done = 0;
    while done < length {
        let (from, to, left) = ((from + done) as u64, (to + done) as u64, (length - done) as u64);
        let (a, b) = (source.handle.clone(), target.handle.clone());
        let copied = source.client().copy_range(a, b, from, to, left).await;
        let copied = copied.unwrap_or_else(|e| panic!("copy {left} from {from} to {to}: {e:?}"));
        assert!((1..=left).contains(&copied.count), "{copied:?} of {left}");
        done += copied.count as usize;
    }
}

/// Bytes of the file by READ_PLUS, and the number of those in holes.
async fn read_plus(file: &OpenFile, offset: usize, length: usize) -> (Vec<u8>, usize) {
    let (mut bytes, mut holes) = (Vec::new(), 0);
    while bytes.len() < length {
        let at = offset + bytes.len();
        let count = (length - bytes.len()).min(1 << 20) as u32;
        let read = file.client().read_plus(file.handle.clone(), at as u64, count).await;
        let read = read.unwrap_or_else(|e| panic!("read_plus {count} at {at}: {e:?}"));
        for content in read.contents {
            match content {
                ReadPlusContent::Data { offset: at, data } => {
                    assert_eq!(at as usize, offset + bytes.len());
                    bytes.extend_from_slice(&data);
                }
                ReadPlusContent::Hole { offset: at, length } => {
                    assert_eq!(at as usize, offset + bytes.len());
                    bytes.resize(bytes.len() + length as usize, 0);
                    holes += length as usize;
                }
            }
        }
        if read.eof {
            break;
        }
    }
    (bytes, holes)
}

/// ```text
/// column       c0      c1      c2      c3      c0      c1      c2      c3
/// file     │       │ data  │       │       │       │ data  │ data  │ d     end
/// ```
#[tokio::test(flavor = "multi_thread")]
async fn seek_finds_data_and_holes_of_all_columns_and_nothing_beyond_the_end() {
    each(&V42, async |scene| {
        scene.server.stripe(&scene.folder, "64KiB", 4);
        let file = OpenFile::create(&scene.ash, "sparse").await;
        let end = 7 * UNIT + 4096;
        file.write(5 * UNIT, &vec![1; end - 5 * UNIT]).await;
        file.write(UNIT, &vec![2; UNIT]).await;
        for (from, data, hole) in [
            (0, UNIT, 0),
            (UNIT - 1, UNIT, UNIT - 1),
            (UNIT, UNIT, 2 * UNIT),
            (UNIT + 9, UNIT + 9, 2 * UNIT),
            (2 * UNIT, 5 * UNIT, 2 * UNIT),
            (4 * UNIT + 1, 5 * UNIT, 4 * UNIT + 1),
            (5 * UNIT, 5 * UNIT, end),
            (end - 1, end - 1, end),
        ] {
            assert_eq!(seek(&file, from, SeekContent::Data).await, (data, false), "data from {from}");
            assert_eq!(seek(&file, from, SeekContent::Hole).await, (hole, hole == end), "hole from {from}");
        }
        // A hole at the end: no data left is the end, not an error (section 15.11.3).
        file.truncate(20 * UNIT).await;
        assert_eq!(seek(&file, end, SeekContent::Data).await, (20 * UNIT, true));
        assert_eq!(seek(&file, 9 * UNIT, SeekContent::Hole).await, (9 * UNIT, false));
        for beyond in [20 * UNIT, 21 * UNIT, i64::MAX as usize, usize::MAX] {
            for what in [SeekContent::Data, SeekContent::Hole] {
                let answer = scene.ash.seek_content(file.handle.clone(), beyond as u64, what).await;
                assert_eq!(refusal(answer), "NXIO", "from {beyond}");
            }
        }
        file.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn allocate_reserves_room_makes_the_file_longer_and_changes_no_byte() {
    each(&V42, async |scene| {
        scene.server.stripe(&scene.folder, "64KiB", 4);
        let file = OpenFile::create(&scene.ash, "room").await;
        file.write(0, b"data").await;
        let before = file.attributes().await;
        allocate(&file, 2, 3 * UNIT).await;
        let after = file.attributes().await;
        assert_eq!(after.filesize, 3 * UNIT as u64 + 2);
        assert!(after.used >= 3 * UNIT as u64, "{} bytes used", after.used);
        assert!((after.ctime.seconds, after.ctime.nseconds) > (before.ctime.seconds, before.ctime.nseconds));
        let mut memory = b"data".to_vec();
        memory.resize(3 * UNIT + 2, 0);
        assert_same(&file.read_all().await, &memory);
        // Within the file the size is unchanged.
        allocate(&file, 0, 10).await;
        assert_same(&file.read_all().await, &memory);

        let answer = scene.ash.allocate(file.handle.clone(), i64::MAX as u64, 1).await;
        assert_eq!(refusal(answer), "FBIG");
        // More than any disk here has: nothing is reserved or changed, and a smaller request succeeds.
        let answer = scene.ash.allocate(file.handle.clone(), 0, 1 << 50).await;
        assert_eq!(refusal(answer), "NOSPC");
        assert_eq!(file.attributes().await.filesize, memory.len() as u64);
        allocate(&file, 0, 4 * UNIT).await;
        file.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deallocate_leaves_zeros_and_the_size() {
    each(&V42, async |scene| {
        scene.server.stripe(&scene.folder, "64KiB", 4);
        let mut memory = Dice(1).bytes(10 * UNIT + 77);
        put(&scene.ash, "punched", &memory).await;
        let file = OpenFile::open(&scene.ash, "punched").await;
        let size = memory.len();
        let mut change = file.attributes().await.ctime;
        // Within a unit, over several, at odd offsets, over the end, and beyond it.
        for (offset, length) in
            [(100, 50), (UNIT, UNIT), (2 * UNIT + 5, 3 * UNIT), (9 * UNIT, 5 * UNIT), (30 * UNIT, 9)]
        {
            deallocate(&file, offset, length).await;
            memory[offset.min(size)..(offset + length).min(size)].fill(0);
            assert_same(&file.read_all().await, &memory);
            let now = file.attributes().await;
            assert_eq!(now.filesize, size as u64);
            assert!(
                (now.ctime.seconds, now.ctime.nseconds) > (change.seconds, change.nseconds),
                "the change is seen"
            );
            change = now.ctime;
        }
        assert_eq!(seek(&file, UNIT, SeekContent::Hole).await, (UNIT, false));
        assert_eq!(seek(&file, UNIT, SeekContent::Data).await, (2 * UNIT, false));
        file.close().await;
        assert_same(&get(&scene.elm, "punched").await, &memory);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn read_plus_tells_holes_from_data() {
    each(&V42, async |scene| {
        scene.server.stripe(&scene.folder, "64KiB", 3);
        let file = OpenFile::create(&scene.ash, "sparse").await;
        let mut memory = Vec::new();
        let mut dice = Dice(4);
        for offset in [UNIT, 4 * UNIT + 4096, 30 * UNIT] {
            let data = dice.bytes(UNIT);
            file.write(offset, &data).await;
            overwrite(&mut memory, offset, &data);
        }
        let (bytes, holes) = read_plus(&file, 0, memory.len() + 10).await;
        assert_same(&bytes, &memory);
        assert_eq!(holes, memory.len() - 3 * UNIT);
        for (offset, length) in [(3, 10), (UNIT - 10, 20), (4 * UNIT, UNIT), (30 * UNIT + 5, 9)] {
            let (bytes, _) = read_plus(&file, offset, length).await;
            assert_same(&bytes, &memory[offset..offset + length]);
        }
        let beyond =
            scene.ash.read_plus(file.handle.clone(), memory.len() as u64, 10).await.expect("read_plus");
        assert!(beyond.eof && beyond.contents.is_empty(), "{beyond:?}");
        file.close().await;
    })
    .await;
}

/// Files of different units, columns and offsets; a hole in the source is one in the copy.
#[tokio::test(flavor = "multi_thread")]
async fn copy_goes_between_the_data_servers_and_not_through_the_metaserver() {
    each(&V42, async |scene| {
        let mut dice = Dice(9);
        let mut data = dice.bytes(3 << 20);
        data[700_000..1_900_000].fill(0);
        scene.server.stripe(&scene.folder, "128KiB", 3);
        put(&scene.ash, "source", &[]).await;
        let source = OpenFile::open(&scene.ash, "source").await;
        source.write(0, &data[..700_000]).await;
        source.write(1_900_000, &data[1_900_000..]).await;
        let moved = |scene: &Scene<'_>| scene.server.traffic();
        for (unit, columns) in [("64KiB", 4), ("128KiB", 3), ("1MiB", 1)] {
            scene.server.stripe(&scene.folder, unit, columns);
            let name = format!("copy.{unit}");
            let before = moved(scene);
            let target = OpenFile::create(&scene.ash, &name).await;
            copy(&source, 0, &target, 0, data.len()).await;
            let moved = moved(scene).since(&before);
            assert_eq!(moved.metaserver, tests::FileBytes::default(), "no byte through the metaserver");
            assert_eq!(moved.straight(), tests::FileBytes::default(), "and none through the client");
            assert_eq!(seek(&target, 1 << 20, SeekContent::Hole).await, (1 << 20, false), "still sparse");
            let mut memory = data.clone();
            for (from, to, length) in
                [(5, 2_000_001, 100_000), (2_999_999, 17, 65_537), (700_000, 0, 1_200_000)]
            {
                copy(&source, from, &target, to, length).await;
                memory[to..to + length].copy_from_slice(&data[from..from + length]);
            }
            assert_eq!(target.attributes().await.filesize, memory.len() as u64);
            // Beyond the end of the target, which grows.
            copy(&source, 10, &target, 4 << 20, 100).await;
            overwrite(&mut memory, 4 << 20, &data[10..110]);
            assert_same(&target.read_all().await, &memory);
            target.close().await;
            assert_same(&get(&scene.elm, &name).await, &memory);
        }
        source.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_of_what_is_not_there_is_refused() {
    each(&V42, async |scene| {
        put(&scene.ash, "source", b"0123456789").await;
        let source = OpenFile::open(&scene.ash, "source").await;
        let target = OpenFile::create(&scene.ash, "target").await;
        let copy = async |from, to, count| {
            scene.ash.copy_range(source.handle.clone(), target.handle.clone(), from, to, count).await
        };
        // Beyond the end of the source (section 15.2.3).
        assert_eq!(refusal(copy(0, 0, 11).await), "INVAL");
        assert_eq!(refusal(copy(11, 0, 1).await), "INVAL");
        assert_eq!(refusal(copy(0, i64::MAX as u64, 5).await), "FBIG");
        assert_eq!(target.attributes().await.filesize, 0);
        // Count 0: up to the end of the source, which may be empty.
        assert_eq!(copy(10, 0, 0).await.expect("copy nothing").count, 0);
        assert_eq!(copy(4, 1, 0).await.expect("copy the rest").count, 6);
        assert_eq!(target.read_all().await, b"\x00456789");
        source.close().await;
        target.close().await;
    })
    .await;
}

/// The disk under the test cannot share data; the data server's own tests cover disks that can.
#[tokio::test(flavor = "multi_thread")]
async fn clone_is_refused_where_disks_cannot_share_and_nothing_is_changed() {
    each(&V42, async |scene| {
        scene.server.stripe(&scene.folder, "64KiB", 4);
        let data = Dice(2).bytes(5 * UNIT);
        put(&scene.ash, "source", &data).await;
        let source = OpenFile::open(&scene.ash, "source").await;
        let target = OpenFile::create(&scene.ash, "target").await;
        let block =
            scene.ash.nfs42_attributes(source.handle.clone()).await.expect("attributes").clone_blksize;
        assert_eq!(block, Some(4096));
        let clone = async |from, to, count| {
            scene.ash.clone_range(source.handle.clone(), target.handle.clone(), from, to, count).await
        };
        for (from, to, count) in [(1, 0, 4096), (0, 1, 4096), (0, 0, 4095), (0, 0, 1 << 30), (1 << 30, 0, 0)]
        {
            assert_eq!(refusal(clone(from, to, count).await), "INVAL", "{count} from {from} to {to}");
        }
        assert_eq!(refusal(clone(0, 0, 0).await), "NOTSUPP");
        assert_eq!(target.attributes().await.filesize, 0);
        source.close().await;
        target.close().await;
    })
    .await;
}

/// As with a write (POSIX): a program changed by another user must not run with its owner's rights.
#[tokio::test(flavor = "multi_thread")]
async fn changing_a_range_takes_set_id_bits_away() {
    each(&V42, async |scene| {
        let user = mount_with(scene.server, Version::V42, &scene.folder, "&uid=1000&gid=1000").await;
        put(&scene.ash, "source", b"0123456789").await;
        let source = OpenFile::open_to_read(&user, "source").await;
        for change in ["allocate", "deallocate", "copy"] {
            put(&scene.ash, change, b"program").await;
            let mode = Some(0o6777);
            scene.ash.setattr_path(change, false, mode, None, None, None, None, None).await.expect("chmod");
            let file = OpenFile::open(&user, change).await;
            assert_eq!(file.attributes().await.file_mode & 0o7777, 0o6777);
            match change {
                "allocate" => allocate(&file, 0, 100).await,
                "deallocate" => deallocate(&file, 0, 2).await,
                _ => copy(&source, 0, &file, 0, 5).await,
            }
            assert_eq!(file.attributes().await.file_mode & 0o7777, 0o777, "{change}");
            file.close().await;
        }
        source.close().await;
        user.umount().await.expect("unmount");
    })
    .await;
}

/// Random writes, truncations, reservations, holes and copies, and the same in memory.
#[tokio::test(flavor = "multi_thread")]
async fn operations_on_random_ranges_are_as_in_memory_after_every_step() {
    const SIZE_MAX: usize = 20 * UNIT;
    const STEPS: usize = 150;
    each(&V42, async |scene| {
        let mut dice = Dice(42);
        let mut files = Vec::new();
        for (name, unit, columns) in [("one", "64KiB", 4), ("other", "128KiB", 3)] {
            scene.server.stripe(&scene.folder, unit, columns);
            files.push((OpenFile::create(&scene.ash, name).await, Vec::<u8>::new()));
        }
        for step in 0..STEPS {
            let which = dice.below(2);
            let (offset, length) = (dice.below(SIZE_MAX), 1 + dice.below(4 * UNIT));
            let size = files[which].1.len();
            match dice.below(6) {
                0 | 1 => {
                    println!("{step}: write {length} at {offset} of {which}");
                    let data = dice.bytes(length);
                    let (file, memory) = &mut files[which];
                    file.write(offset, &data).await;
                    overwrite(memory, offset, &data);
                }
                2 => {
                    println!("{step}: allocate {length} at {offset} of {which}");
                    let (file, memory) = &mut files[which];
                    allocate(file, offset, length).await;
                    memory.resize(size.max(offset + length), 0);
                }
                3 => {
                    println!("{step}: deallocate {length} at {offset} of {which}");
                    let (file, memory) = &mut files[which];
                    deallocate(file, offset, length).await;
                    memory[offset.min(size)..(offset + length).min(size)].fill(0);
                }
                4 if dice.below(4) == 0 => {
                    println!("{step}: cut {which} at {offset}");
                    let (file, memory) = &mut files[which];
                    file.truncate(offset).await;
                    memory.resize(offset, 0);
                }
                _ => {
                    let from = dice.below(size + 1);
                    let length = length.min(size - from);
                    println!("{step}: copy {length} from {from} of {which} to {offset}");
                    if length > 0 {
                        copy(&files[which].0, from, &files[1 - which].0, offset, length).await;
                        let data = files[which].1[from..from + length].to_vec();
                        overwrite(&mut files[1 - which].1, offset, &data);
                    }
                }
            }
            for (file, memory) in &files {
                assert_same(&file.read_all().await, memory);
                if step % 5 == 0 {
                    assert_same(&read_plus(file, 0, memory.len()).await.0, memory);
                }
            }
        }
        for (file, memory) in files {
            // Each nonzero byte is in SEEK's data.
            let mut at = 0;
            while at < memory.len() {
                let (data, _) = seek(&file, at, SeekContent::Data).await;
                assert!(memory[at..data].iter().all(|byte| *byte == 0), "data between {at} and {data}");
                if data == memory.len() {
                    break;
                }
                (at, _) = seek(&file, data, SeekContent::Hole).await;
                assert!(at > data);
            }
            file.close().await;
        }
    })
    .await;
}
