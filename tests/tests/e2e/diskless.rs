//! Machines without a disk: real kernels whose initramfs and root come from Heorot work on while servers die.

use std::path::Path;
use std::time::Duration;

use tests::copies::until;
use tests::image::{KernelFiles, make_dracut_initramfs, make_image, make_initramfs};
use tests::{Client, Lab, Metaservers};

use crate::nodes::{Nodes, put_kernel};
use crate::snapshots::kill_leader;

/// Programs that one build makes and runs.
const BUILT: usize = 3;
/// Time limit of a build on a busy machine.
const SLOW: Duration = Duration::from_secs(240);

/// Compiles and runs programs in a directory until it is told to stop, and counts the builds.
fn builds(dir: &str) -> String {
    format!(
        r#"mkdir -p {dir}; cd {dir}; build=0
        until [ -e /tmp/stop ]; do
            build=$((build + 1)); rm -rf work; mkdir work
            for n in $(seq {BUILT}); do
                printf '#include <stdio.h>\nint main(void) {{ printf("%%d\\n", %d * %d); return 0; }}\n' $n $build >work/$n.c
                tcc -o work/$n work/$n.c
                [ "$(work/$n)" = $((n * build)) ]
            done
            echo $build >/tmp/builds
        done"#
    )
}

fn built(node: &Client) -> usize {
    node.run("cat /tmp/builds 2>/dev/null || echo 0").trim().parse().expect("a number")
}

/// Bytes that clients have read from data servers.
fn straight(cluster: &Metaservers) -> f64 {
    cluster.data_metrics(0).sum("heorot_file_read_bytes_total", &[("caller", "client")])
}

#[test]
fn nodes_without_a_disk_build_on_while_the_leader_and_a_data_server_die_and_change_their_version_by_a_reboot()
{
    let began = std::time::Instant::now();
    let stage = |what: &str| println!("{:6.1} s: {what}", began.elapsed().as_secs_f64());
    let lab = Lab::open();
    let mut cluster = Metaservers::start(&lab, 3, 2, 1);
    let (image, address) = (lab.folder().join("image"), cluster.service(0));
    make_image(&image);
    let initramfs = make_initramfs(lab.folder(), &KernelFiles::uml());
    put_kernel(&image, &initramfs);
    stage("image and initramfs");
    let source = image.display().to_string();
    let all = Nodes::of(&lab, &cluster);
    cluster.heorot(0, &["boot", "image", "import", &source, "tiny@1"]);
    stage("the image is imported");
    for (group, root) in [
        ("shared", ["--shared", "128MiB"].as_slice()),
        ("builders", &["--clone"]),
        ("own", &["--own", "/etc,/var"]),
    ] {
        cluster.heorot(0, &[["boot", "group", "set", group].as_slice(), root].concat());
        cluster.heorot(0, &["boot", "assign", group, "tiny@1"]);
    }
    for (name, group) in [("oak", "shared"), ("elm", "shared"), ("yew", "builders"), ("fir", "own")] {
        all.add(&cluster, name, group);
    }
    let version = |node: &Client| node.run("cat /etc/version").trim().to_owned();
    let nodes = [
        (all.boot("oak"), "/root/build"),
        (all.boot("elm"), "/root/build"),
        (all.boot("yew"), "/root/build"),
        (all.boot("fir"), "/var/build"),
    ];
    stage("four nodes are up");
    for (node, _) in &nodes {
        assert_eq!(version(node), "1", "{}", node.name());
        assert_eq!(node.run("cat /proc/sys/kernel/hostname").trim(), node.name());
        // Nothing of this machine is there but the folder of the scripts.
        let mounts = node.run("cat /proc/mounts");
        assert_eq!(mounts.lines().filter(|line| line.contains("hostfs")).count(), 1, "{mounts}");
        assert!(mounts.contains(&format!("{address}:/")) && mounts.contains("vers=4.2"), "{mounts}");
    }
    let running: Vec<_> = nodes.iter().map(|(node, dir)| node.spawn(&builds(dir))).collect();
    let all_build = |more: usize| {
        let before: Vec<usize> = nodes.iter().map(|(node, _)| built(node)).collect();
        until("all nodes build", || {
            nodes.iter().zip(&before).all(|((node, _), before)| built(node) >= before + more)
        });
    };
    all_build(1);
    stage("all have built");
    assert!(straight(&cluster) > 0.0, "their programs come from the data servers");
    kill_leader(&mut cluster);
    all_build(1);
    stage("and without the leader");
    let data_server = cluster.data_server(0);
    data_server.kill();
    data_server.start().unwrap_or_else(|error| panic!("{error}"));
    all_build(1);
    for ((node, _), running) in nodes.iter().zip(running) {
        node.run("touch /tmp/stop");
        running.wait(SLOW).must_succeed(&format!("the builds of {}", node.name()));
    }

    stage("and with a data server killed");

    // What each writes is its own, its group's, or gone with the next boot.
    for (node, _) in &nodes {
        node.run("echo mine >/var/mine; sync");
    }
    let ash = lab.client("ash");
    cluster.mount(&ash, 0, "vers=4.2");
    let mine = ash.run("cd /mnt/h/boot; cat groups/builders/tiny-1/var/mine nodes/fir/var/mine");
    assert_eq!(mine, "mine\nmine\n");
    assert_eq!(ash.run("ls /mnt/h/boot/images/tiny/var").trim(), "lib");
    let said = nodes[3].0.try_run("echo x >/root/x 2>&1");
    assert!(said.text.contains("Read-only"), "{said:?}");
    drop(nodes);

    stage("their files are where they should be");

    // A new version takes effect with a reboot, and so does the way back.
    std::fs::write(image.join("etc/version"), "2\n").expect("a file");
    cluster.heorot(0, &["boot", "image", "import", &source, "tiny@2"]);
    stage("a second version");
    for group in ["shared", "own"] {
        cluster.heorot(0, &["boot", "assign", group, "tiny@2"]);
    }
    let node = all.boot("oak");
    assert_eq!(version(&node), "2");
    assert_eq!(node.run("ls /var").trim(), "lib", "what it wrote was in its memory");
    drop(node);
    stage("one has changed its version");
    let node = all.boot("fir");
    assert_eq!(node.run("cat /var/mine; cat /etc/version"), "mine\n1\n", "its /etc and /var stay");
    assert!(node.run("cat /proc/cmdline").contains("/boot/images/tiny/.snapshot/2"));
    drop(node);
    cluster.heorot(0, &["boot", "rollback", "shared"]);
    assert_eq!(version(&all.boot("elm")), "1");
    stage("and one has gone back");
}

#[test]
fn an_initramfs_of_dracut_finds_roots_with_an_overlay_and_with_own_directories() {
    let lab = Lab::open();
    let cluster = Metaservers::start(&lab, 1, 1, 1);
    let image = lab.folder().join("image");
    make_image(&image);
    put_kernel(&image, &make_dracut_initramfs(lab.folder(), &KernelFiles::uml()));
    let all = Nodes::of(&lab, &cluster);
    cluster.heorot(0, &["boot", "image", "import", &image.display().to_string(), "tiny@1"]);
    // A clone is mounted as it is, as the parts of these are.
    for (name, root) in [("oak", ["--shared", "128MiB"].as_slice()), ("fir", &["--own", "/etc,/var"])] {
        let group = format!("like-{name}");
        cluster.heorot(0, &[["boot", "group", "set", &group].as_slice(), root].concat());
        cluster.heorot(0, &["boot", "assign", &group, "tiny@1"]);
        all.add(&cluster, name, &group);
        let node = all.boot(name);
        node.run("grep 1 /etc/version; echo mine >/var/mine; sync");
        assert_eq!(node.run("cat /proc/sys/kernel/hostname").trim(), name);
        let said = node.try_run("echo x >/root/x 2>&1");
        assert_eq!(said.text.contains("Read-only"), name == "fir", "{name}: {said:?}");
    }
    assert!(straight(&cluster) > 0.0, "their programs come from the data servers");
    let ash = lab.client("ash");
    cluster.mount(&ash, 0, "vers=4.2");
    let mine = ash.run("cd /mnt/h/boot; cat nodes/fir/var/mine; ls images/tiny/var");
    assert_eq!(mine, "mine\nlib\n");
}

/// What an image needs beside one of the two is put there by one command, or said.
#[test]
fn an_image_that_can_find_no_root_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let install = Path::new(env!("CARGO_MANIFEST_DIR")).join("../boot/install");
    let run = || std::process::Command::new(&install).arg(folder.path()).output().expect("it runs");
    let is_refused = |why: &str| {
        let refused = run();
        let words = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && words.contains(why), "{words}");
    };
    let make = |dir: &str| std::fs::create_dir_all(folder.path().join(dir)).expect("a folder");
    is_refused("no mount.nfs");
    make("sbin");
    std::fs::write(folder.path().join("sbin/mount.nfs"), "").expect("a file");
    is_refused("neither initramfs-tools nor dracut");
    make("usr/lib/dracut/modules.d");
    is_refused("no module of it for networks");
    for dir in
        ["etc/initramfs-tools/hooks", "etc/initramfs-tools/scripts", "usr/lib/dracut/modules.d/40network"]
    {
        make(dir);
    }
    assert!(run().status.success());
    for file in ["etc/initramfs-tools/scripts/heorot", "usr/lib/dracut/modules.d/95heorot/module-setup.sh"] {
        assert!(folder.path().join(file).is_file(), "{file}");
    }
}
