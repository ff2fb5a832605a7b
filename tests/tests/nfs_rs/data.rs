//! Reads return written data.

use futures_util::future::join;

use crate::file::{Dice, OpenFile, assert_same, get, overwrite, put};
use crate::scene::{ALL, Version, each, mount};
use crate::server::Server;

const KIB: usize = 1 << 10;

#[tokio::test(flavor = "multi_thread")]
async fn writes_at_odd_offsets_across_stripe_boundaries_are_as_in_memory() {
    const FILE_BYTES_MAX: usize = 1536 * KIB;
    const PIECE_BYTES_MAX: usize = 300 * KIB;
    const PIECES: usize = 25;
    each(&ALL, async |scene| {
        for (unit_kib, columns) in [(64, 4), (128, 3), (64, 1)] {
            println!("{unit_kib} KiB on {columns}");
            let name = format!("odd.{unit_kib}.{columns}");
            scene.server.stripe(&scene.folder, &format!("{unit_kib}KiB"), columns);
            let mut dice = Dice(unit_kib * 10 + columns as u64);
            let mut memory = Vec::new();
            let file = OpenFile::create(&scene.ash, &name).await;
            for _ in 0..PIECES {
                let length = 1 + dice.below(PIECE_BYTES_MAX);
                let offset = dice.below(FILE_BYTES_MAX - length);
                let data = dice.bytes(length);
                file.write(offset, &data).await;
                overwrite(&mut memory, offset, &data);
                let at = dice.below(memory.len());
                let expected = &memory[at..memory.len().min(at + PIECE_BYTES_MAX)];
                assert_same(&file.read(at, expected.len()).await, expected);
            }
            assert_eq!(file.attributes().await.filesize, memory.len() as u64);
            assert_same(&file.read_all().await, &memory);
            file.close().await;
            assert_same(&get(&scene.elm, &name).await, &memory);
        }
    })
    .await;
}

/// ```text
/// a stripe unit  ├───────────────┤├───────────────┤├─ ...
/// written        #################################### ...
/// truncated             ┤ here
/// extended       #######00000000000000000000000000000 ...
/// ```
#[tokio::test(flavor = "multi_thread")]
async fn what_a_truncate_cut_off_reads_as_zeros_when_the_file_grows_again() {
    const SIZE: usize = 600 * KIB;
    const UNIT: usize = 64 * KIB;
    each(&ALL, async |scene| {
        scene.server.stripe(&scene.folder, "64KiB", 4);
        let data = Dice(7).bytes(SIZE);
        // Within a unit, at the edge of one, of a whole stripe, just beside them, and to 0.
        for cut in [UNIT + 777, 2 * UNIT, 4 * UNIT, 4 * UNIT - 1, 4 * UNIT + 1, 1, 0] {
            println!("cut at {cut}");
            put(&scene.ash, "cut", &data).await;
            let (file, seen) =
                join(OpenFile::open(&scene.ash, "cut"), OpenFile::open(&scene.elm, "cut")).await;
            file.truncate(cut).await;
            assert_eq!(seen.attributes().await.filesize, cut as u64);
            assert_same(&seen.read_all().await, &data[..cut]);

            // Extended by a truncate, then by a write beyond the end.
            file.truncate(SIZE).await;
            let mut memory = data[..cut].to_vec();
            memory.resize(SIZE, 0);
            assert_same(&seen.read_all().await, &memory);
            assert_same(&file.read_all().await, &memory);
            file.truncate(cut).await;
            memory.truncate(cut);
            file.write(SIZE, b"end").await;
            overwrite(&mut memory, SIZE, b"end");
            assert_same(&file.read_all().await, &memory);
            assert_same(&seen.read_all().await, &memory);
            file.close().await;
            seen.close().await;
            scene.ash.remove_path("cut").await.expect("remove");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn holes_read_as_zeros() {
    // 3 of 8 units are never written: one column has no object, one begins with a hole, and one object is too
    // short.
    const UNIT: usize = 256 * KIB;
    const LAST: usize = 7 * UNIT + 12345;
    each(&ALL, async |scene| {
        scene.server.stripe(&scene.folder, "256KiB", 4);
        let file = OpenFile::create(&scene.ash, "holes").await;
        let mut memory = Vec::new();
        for (offset, data) in [(LAST, "last"), (UNIT + 5, "second"), (3, "first"), (5 * UNIT - 2, "edge")] {
            file.write(offset, data.as_bytes()).await;
            overwrite(&mut memory, offset, data.as_bytes());
            assert_same(&file.read_all().await, &memory);
        }
        let attributes = file.attributes().await;
        assert_eq!(attributes.filesize, (LAST + 4) as u64);
        file.close().await;
        assert_same(&get(&scene.elm, "holes").await, &memory);
        // Reads beyond the end return nothing, not zeros.
        let file = OpenFile::open_to_read(&scene.elm, "holes").await;
        assert_eq!(file.read(LAST + 4, 10).await, b"");
        assert_eq!(file.read(LAST + 2, 10).await, b"st");
        assert_eq!(file.read(100 * UNIT, 10).await, b"");
        file.close().await;
    })
    .await;
}

/// Close-to-open: data written before a close are visible after the next open, for any versions and any path
/// of the data.
#[tokio::test(flavor = "multi_thread")]
async fn versions_see_each_others_writes() {
    let server = Server::start();
    server.stripe("/", "64KiB", 4);
    let mut clients = Vec::new();
    for version in ALL {
        clients.push(mount(&server, version, "/").await);
    }
    let mut dice = Dice(3);
    let mut memory = dice.bytes(500 * KIB);
    put(&clients[0], "shared", &memory).await;
    for round in 0..9 {
        let writer = round % ALL.len();
        println!("round {round}: {:?} writes", ALL[writer]);
        let length = 1 + dice.below(200 * KIB);
        let data = dice.bytes(length);
        let offset = dice.below(memory.len());
        let file = OpenFile::open(&clients[writer], "shared").await;
        file.write(offset, &data).await;
        overwrite(&mut memory, offset, &data);
        if round % 2 == 1 {
            memory.truncate(memory.len() - 33_333);
            file.truncate(memory.len()).await;
        }
        file.close().await;
        for reader in &clients {
            assert_same(&get(reader, "shared").await, &memory);
        }
    }
    for client in clients {
        client.umount().await.expect("unmount");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clients_write_records_of_odd_length_into_one_file() {
    const RECORD: usize = 10_007;
    const RECORDS: usize = 60;
    each(&ALL, async |scene| {
        scene.server.stripe(&scene.folder, "64KiB", 4);
        put(&scene.ash, "records", b"").await;
        let expected: Vec<u8> = Dice(11).bytes(RECORD * RECORDS);
        // Each writes every other record: neighbours in one stripe unit and in one disk block, at the same
        // time.
        let write_every_other = async |client, first| {
            let file = OpenFile::open(client, "records").await;
            for n in (first..RECORDS).step_by(2) {
                file.write(n * RECORD, &expected[n * RECORD..(n + 1) * RECORD]).await;
            }
            file.close().await;
        };
        join(write_every_other(&scene.ash, 0), write_every_other(&scene.elm, 1)).await;
        assert_same(&get(&scene.ash, "records").await, &expected);
        assert_same(&get(&scene.elm, "records").await, &expected);
    })
    .await;
}

/// v3 CREATE and OPEN with UNCHECKED of an existing file leave it unchanged.
#[tokio::test(flavor = "multi_thread")]
async fn creating_a_file_that_exists_keeps_its_data() {
    each(&ALL, async |scene| {
        put(&scene.ash, "kept", b"data").await;
        let again = OpenFile::create(&scene.elm, "kept").await;
        assert_eq!(again.read_all().await, b"data");
        again.close().await;
    })
    .await;
}

/// A v3 client has only the handle, and no open that would keep the file.
#[tokio::test(flavor = "multi_thread")]
async fn removed_files_are_stale_to_v3_and_stay_open_to_v4() {
    each(&ALL, async |scene| {
        let data = Dice(5).bytes(300 * KIB);
        put(&scene.ash, "gone", &data).await;
        let file = OpenFile::open_to_read(&scene.elm, "gone").await;
        assert_same(&file.read_all().await, &data);
        scene.ash.remove_path("gone").await.expect("remove");
        if scene.version == Version::V3 {
            let read = scene.elm.read(file.handle.clone(), 0, 10).await;
            assert_eq!(crate::scene::refusal(read), "STALE");
        } else {
            assert_same(&file.read_all().await, &data);
        }
        file.close().await;
    })
    .await;
}
