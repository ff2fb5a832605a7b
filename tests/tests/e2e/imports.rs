//! Imports of images while clients and metaservers die, and disks fill up: a version is whole, or not there.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use tests::copies::until;
use tests::{Client, Lab, Metaservers, SmallDisk};

/// Small files of the image.
const FILES: usize = 500;
const MINUTES: Duration = Duration::from_secs(120);

#[track_caller]
fn sh(dir: &Path, script: &str) -> String {
    let output = Command::new("bash").args(["-euc", script]).current_dir(dir).output().expect("bash runs");
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Makes an image, with the sums of its files in it, and its tar.
pub(crate) fn image_of(lab: &Lab) -> (PathBuf, Vec<u8>) {
    let image = lab.folder().join("image");
    std::fs::create_dir(&image).expect("a folder");
    sh(
        &image,
        &format!(
            "mkdir -p boot etc; head -c 3000000 /dev/urandom >boot/vmlinuz-1; head -c 6000000 /dev/urandom >boot/initrd.img-1
             for n in $(seq {FILES}); do echo file $n >etc/$n; done
             find boot etc -type f | sort | xargs sha256sum >sums; tar --sort=name -cf ../image.tar ."
        ),
    );
    let tar = std::fs::read(lab.folder().join("image.tar")).expect("a tar");
    (image, tar)
}

/// Begins an import of which this many bytes have come.
pub(crate) fn begin(cluster: &Metaservers, n: usize, tar: &[u8], version: &str) -> Child {
    let mut import = cluster.begin_heorot(n, &["boot", "image", "import", "-", version]);
    import.stdin.as_mut().expect("a pipe").write_all(tar).expect("it is taken");
    import
}

pub(crate) fn said(import: Child) -> (bool, String) {
    let output = import.wait_with_output().expect("an end");
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// All of a version is there.
#[track_caller]
pub(crate) fn has(client: &Client, image: &str, version: &str) {
    let found = client.run_within(
        MINUTES,
        &format!(
            "cd /mnt/h/boot/images/{image}/.snapshot/{version}; sha256sum --quiet -c sums; ls etc | wc -l"
        ),
    );
    assert_eq!(found.trim(), FILES.to_string());
}

#[test]
fn an_import_ends_with_its_client_or_its_metaserver_and_the_next_makes_the_version() {
    let began = Instant::now();
    let stage = |what: &str| println!("{:6.1} s: {what}", began.elapsed().as_secs_f64());
    let lab = Lab::open();
    let mut cluster = Metaservers::start(&lab, 3, 2, 1);
    let (image, tar) = image_of(&lab);
    let source = image.display().to_string();
    let import = |cluster: &Metaservers, n, version: &str| {
        cluster.heorot(n, &["boot", "image", "import", &source, &format!("tiny@{version}")])
    };
    let half = &tar[..tar.len() / 2];

    // Two at once: the second is refused, wherever it is.
    let mut first = begin(&cluster, 0, half, "tiny@1");
    cluster.wait_until("some of it is there", |cluster| {
        cluster.try_heorot(1, &["volume", "list"]).contains("/boot/images/tiny")
    });
    for n in [0, 1] {
        let refused = cluster.refused(n, &["boot", "image", "import", &source, "tiny@1"]);
        assert!(refused.contains("another import into /boot/images/tiny is under way"), "{refused}");
    }
    // The client dies. No version is made, and the next import does not wait.
    first.kill().expect("it runs");
    first.wait().expect("its end");
    stage("the client of an import died");
    import(&cluster, 1, "1");
    stage("the next is done");

    // The metaserver dies.
    let child = begin(&cluster, 2, half, "tiny@2");
    cluster.kill(2);
    let (is_done, words) = said(child);
    assert!(!is_done && words.contains("the connection ends without an answer"), "{words}");
    stage("the metaserver of an import died");
    import(&cluster, 1, "2");
    stage("the next is done");
    cluster.start_again(2);

    // A metaserver that hangs goes no further, also when it is back; and its claim does not end that of another.
    let mut hangs = begin(&cluster, 2, half, "tiny@4");
    let ash = lab.client("ash");
    cluster.mount(&ash, 0, "vers=4.2,actimeo=0");
    let held = "stat -c %A /mnt/h/boot/.imports/* | grep -c rwx || true";
    until("its claim is there", || ash.run(held).trim() == "1");
    cluster.freeze(2);
    stage("the metaserver of an import hangs");
    import(&cluster, 1, "3");
    let mut third = begin(&cluster, 0, half, "tiny@5");
    until("a third claim is there", || ash.run(held).trim() == "1");
    cluster.thaw(2);
    stage("the next is done, a third is under way, and it goes on");
    hangs.stdin.as_mut().expect("a pipe").write_all(&tar[half.len()..]).unwrap_or_default();
    let (is_done, words) = said(hangs);
    assert!(!is_done && words.contains("another import may have begun"), "{words}");
    let refused = cluster.refused(1, &["boot", "image", "import", &source, "tiny@6"]);
    assert!(refused.contains("another import into /boot/images/tiny is under way"), "{refused}");
    third.stdin.as_mut().expect("a pipe").write_all(&tar[half.len()..]).expect("it is taken");
    let (is_done, words) = said(third);
    assert!(is_done, "{words}");
    stage("it has ended");
    for version in ["1", "2", "3", "5"] {
        has(&ash, "tiny", version);
    }
    let listed = ash.run("ls /mnt/h/boot/images/tiny/.snapshot; ls -A /mnt/h/boot/.imports | wc -l");
    assert_eq!(
        listed.split_whitespace().collect::<Vec<_>>(),
        ["1", "2", "3", "5", "1"],
        "versions, and claims"
    );
}

#[test]
fn an_import_that_finds_the_disks_full_says_so_and_the_next_goes_on() {
    let lab = Lab::open();
    let disk = SmallDisk::mount(&lab.folder().join("group/ds0/target"), "300m");
    let cluster = Metaservers::start(&lab, 1, 1, 1);
    let (image, _) = image_of(&lab);
    let source = image.display().to_string();
    let other = disk.fill_but(60 << 20);
    sh(&image, "head -c 100000000 /dev/zero >large");
    let refused = cluster.refused(0, &["boot", "image", "import", &source, "tiny@1"]);
    assert!(refused.contains("no space is left"), "{refused}");
    let listed = cluster.heorot(0, &["boot", "image", "list"]);
    assert!(!listed.contains("tiny@1"), "{listed}");
    std::fs::remove_file(other).expect("the file of another program");
    cluster.heorot(0, &["boot", "image", "import", &source, "tiny@1"]);
    let ash = lab.client("ash");
    cluster.mount(&ash, 0, "vers=4.2");
    has(&ash, "tiny", "1");
    assert_eq!(ash.run("stat -c %s /mnt/h/boot/images/tiny/.snapshot/1/large").trim(), "100000000");
}
