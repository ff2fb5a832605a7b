//! Imports of images on disks that fail or lose files, through a metaserver that is cut off, and of a volume that an operator
//! removes.

use std::fs;
use std::io::Write;
use std::process::Child;

use tests::copies::until;
use tests::{Lab, Metaservers, SmallDisk};

use super::faulty_disks::files;
use super::imports::{begin, has, image_of, said};

/// Begins an import of which half has come, and waits until data servers have some of it.
fn begin_half(cluster: &Metaservers, n: usize, tar: &[u8], version: &str) -> Child {
    let written = || (0..2).map(|n| cluster.data_metrics(n).file_bytes().written).sum::<u64>();
    let before = written();
    let import = begin(cluster, n, &tar[..tar.len() / 2], version);
    until("data servers have some of the image", || written() > before + 1_000_000);
    import
}

#[test]
fn an_import_goes_on_while_a_disk_fails_and_while_another_loses_its_files() {
    let lab = Lab::open();
    let disk = SmallDisk::ext4(&lab.folder().join("group/ds0/target"), 500);
    let mut cluster = Metaservers::start(&lab, 1, 2, 1);
    cluster.heorot(0, &["stripe", "set", "/", "--copies", "2"]);
    cluster.wait_until("files have copies", Metaservers::has_whole_chains);
    let (_, tar) = image_of(&lab);
    let rest = &tar[tar.len() / 2..];
    let ash = lab.client("ash");
    cluster.mount(&ash, 0, "vers=4.2");

    let mut first = begin_half(&cluster, 0, &tar, "tiny@1");
    disk.fail();
    first.stdin.as_mut().expect("a pipe").write_all(rest).expect("it is taken");
    let (is_done, words) = said(first);
    assert!(is_done, "{words}");
    has(&ash, "tiny", "1");
    until("the failed disk is out of the chains", || !cluster.has_whole_chains());
    cluster.data_server(0).kill();
    disk.mend();
    cluster.data_server(0).start().expect("it starts");
    cluster.wait_until("the copies are back", Metaservers::has_whole_chains);

    // A file that is there already would stay, and nothing be written.
    ash.run("rm /mnt/h/boot/images/tiny/boot/initrd.img-1");
    let mut second = begin_half(&cluster, 0, &tar, "tiny@2");
    let lost = files(&cluster.folder().join("ds1/target/objects"));
    assert!(lost.len() > 2, "{lost:?}");
    lost.iter().for_each(|file| fs::remove_file(file).expect("a file is removed"));
    second.stdin.as_mut().expect("a pipe").write_all(rest).expect("it is taken");
    let (is_done, words) = said(second);
    assert!(is_done, "{words}");
    for version in ["1", "2"] {
        has(&ash, "tiny", version);
    }
    cluster.wait_until("the copies are back", Metaservers::has_whole_chains);
}

#[test]
fn an_import_whose_volume_is_removed_or_whose_metaserver_is_cut_off_says_so_and_makes_nothing() {
    let lab = Lab::open();
    let cluster = Metaservers::start(&lab, 3, 2, 1);
    let (image, tar) = image_of(&lab);
    let source = image.display().to_string();
    let rest = &tar[tar.len() / 2..];
    let ash = lab.client("ash");
    cluster.mount(&ash, 0, "vers=4.2,actimeo=0");

    let mut removed = begin_half(&cluster, 0, &tar, "tiny@1");
    cluster.heorot(1, &["volume", "remove", "/boot/images/tiny", "--force"]);
    removed.stdin.as_mut().expect("a pipe").write_all(rest).unwrap_or_default();
    let (is_done, words) = said(removed);
    assert!(!is_done && words.contains("was removed"), "{words}");
    cluster.heorot(0, &["boot", "image", "import", &source, "tiny@2"]);
    has(&ash, "tiny", "2");

    let parted = 2;
    let mut cut_off = begin_half(&cluster, parted, &tar, "other@1");
    cluster.set_parted(parted, true);
    cluster.heorot(0, &["boot", "image", "import", &source, "other@2"]);
    cluster.set_parted(parted, false);
    cut_off.stdin.as_mut().expect("a pipe").write_all(rest).unwrap_or_default();
    let (is_done, words) = said(cut_off);
    assert!(!is_done && words.contains("another import may have begun"), "{words}");
    let listed = cluster.heorot(1, &["boot", "image", "list"]);
    assert!(
        listed.contains("other@2") && !listed.contains("other@1") && !listed.contains("tiny@1"),
        "{listed}"
    );
    has(&ash, "other", "2");
}
