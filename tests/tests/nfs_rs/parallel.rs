//! pNFS: the path of the data, counted at the servers. A client that cannot use its layout uses the
//! metaserver with correct data, so the data alone prove nothing.

use std::sync::Arc;

use bytes::Bytes;
use nfs_rs::BufferedFile;
use tests::{FileBytes, Traffic};

use crate::file::{Dice, OpenFile, assert_same, get, overwrite, put};
use crate::scene::{V4, Version, each};
use crate::server::DATA_SERVERS;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const NOTHING: FileBytes = FileBytes { read: 0, written: 0 };

#[tokio::test(flavor = "multi_thread")]
async fn bytes_go_straight_to_the_data_servers() {
    const SIZE: usize = 16 * MIB;
    each(&V4, async |scene| {
        assert!(scene.ash.capabilities().pnfs);
        let data = Bytes::from(Dice(1).bytes(SIZE));
        let before = scene.server.traffic();
        let made = scene.ash.create_path("straight", Some(0o644)).await.expect("create");
        // nfs-rs's buffered file: eight requests in flight.
        let file = BufferedFile::new(Arc::clone(&scene.ash), made.fh);
        file.write_at(0, data.clone()).await.expect("write");
        file.close().await.expect("close");
        let found = scene.elm.open_path("straight", nfs_rs::OPEN_READ).await.expect("open");
        let file = BufferedFile::new(Arc::clone(&scene.elm), found.fh);
        assert_same(&file.read_at(0, SIZE as u32).await.expect("read"), &data);
        file.close().await.expect("close");
        // Each stripe unit once, and to its own server: no retry, no wrong server.
        let share = (SIZE / DATA_SERVERS) as u64;
        let each = FileBytes { read: share, written: share };
        let expected = Traffic { metaserver: NOTHING, data_servers: vec![each; DATA_SERVERS] };
        assert_eq!(scene.server.traffic().since(&before), expected);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_offsets_holes_and_ends_never_fall_back_to_the_metaserver() {
    each(&V4, async |scene| {
        for (unit, columns) in [("64KiB", 4), ("128KiB", 3), ("64KiB", 2), ("64KiB", 1)] {
            println!("{unit} on {columns}");
            scene.server.stripe(&scene.folder, unit, columns);
            let before = scene.server.traffic();
            let mut dice = Dice(columns as u64);
            let (mut memory, mut expected) = (Vec::new(), NOTHING);
            let name = format!("odd.{unit}.{columns}");
            let file = OpenFile::create(&scene.ash, &name).await;
            for offset in [900_001, 5, 300_000, 65_535, 899_000, 0] {
                let length = 1 + dice.below(100_000);
                let data = dice.bytes(length);
                file.write(offset, &data).await;
                overwrite(&mut memory, offset, &data);
                expected.written += data.len() as u64;
            }
            file.truncate(700_007).await;
            memory.truncate(700_007);
            file.close().await;
            for reader in [&scene.ash, &scene.elm] {
                assert_same(&get(reader, &name).await, &memory);
                // Holes are sent as zeros; beyond the end nothing is sent.
                expected.read += memory.len() as u64;
            }
            let moved = scene.server.traffic().since(&before);
            assert_eq!((moved.metaserver, moved.straight()), (NOTHING, expected));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v3_bytes_pass_through_the_metaserver() {
    each(&[Version::V3], async |scene| {
        let data = Dice(2).bytes(3 * MIB + 1);
        let before = scene.server.traffic();
        put(&scene.ash, "through", &data).await;
        assert_same(&get(&scene.elm, "through").await, &data);
        let all = FileBytes { read: data.len() as u64, written: data.len() as u64 };
        let expected = Traffic { metaserver: all, data_servers: vec![NOTHING; DATA_SERVERS] };
        assert_eq!(scene.server.traffic().since(&before), expected);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_one_column_are_spread_over_the_data_servers() {
    const FILES: usize = 8;
    each(&V4, async |scene| {
        scene.server.stripe(&scene.folder, "1MiB", 1);
        let data = Dice(4).bytes(100_001);
        let before = scene.server.traffic();
        for n in 0..FILES {
            put(&scene.ash, &format!("whole.{n}"), &data).await;
        }
        let share = (data.len() * FILES / DATA_SERVERS) as u64;
        let expected = Traffic {
            metaserver: NOTHING,
            data_servers: vec![FileBytes { read: 0, written: share }; DATA_SERVERS],
        };
        assert_eq!(scene.server.traffic().since(&before), expected);
    })
    .await;
}

/// ```text
/// elm write              -> directly, with a layout
/// ash truncate 100000    -> CB_LAYOUTRECALL elm, LAYOUTRETURN, ok
/// elm read, write        -> a new layout, directly again
/// ```
#[tokio::test(flavor = "multi_thread")]
async fn a_truncate_recalls_the_layouts_of_others() {
    each(&V4, async |scene| {
        scene.server.stripe(&scene.folder, "64KiB", 4);
        let before = scene.server.traffic();
        let mut memory = Dice(6).bytes(400 * KIB);
        let file = OpenFile::create(&scene.elm, "recalled").await;
        file.write(0, &memory).await;
        let cutter = OpenFile::open(&scene.ash, "recalled").await;
        let recalls = async || scene.elm.nfs41_callback_stats().await.expect("4.x counts recalls");
        assert_eq!(recalls().await.layout_recalls_received, 0);
        cutter.truncate(100_000).await;
        let recalled = recalls().await;
        assert_eq!((recalled.layout_recalls_received, recalled.layout_returns_completed), (1, 1));

        memory.truncate(100_000);
        assert_same(&file.read_all().await, &memory);
        file.write(150_000, b"again").await;
        overwrite(&mut memory, 150_000, b"again");
        assert_same(&cutter.read_all().await, &memory);
        cutter.close().await;
        file.close().await;
        assert_eq!(scene.server.traffic().since(&before).metaserver, NOTHING);
    })
    .await;
}
