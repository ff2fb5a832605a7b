//! Machines without a disk: real kernels whose root is an image in Heorot work on while servers die.

use std::time::Duration;

use lab::Diskless;
use tests::copies::until;
use tests::image::{make_image, make_initramfs};
use tests::{Client, Lab, Metaservers};

use crate::snapshots::kill_leader;

/// Programs that one build makes and runs.
const BUILT: usize = 12;
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

#[test]
fn nodes_without_a_disk_build_on_while_the_leader_and_a_data_server_die_and_change_their_version_by_a_reboot()
{
    let began = std::time::Instant::now();
    let stage = |what: &str| println!("{:6.1} s: {what}", began.elapsed().as_secs_f64());
    let lab = Lab::open();
    let mut cluster = Metaservers::start(&lab, 3, 2, 1);
    let (image, address) = (lab.folder().join("image"), cluster.service(0));
    make_image(&image);
    let initramfs = make_initramfs(lab.folder());
    stage("image and initramfs");
    let ash = lab.client("ash");
    for volume in ["/images", "/nodes"] {
        cluster.heorot(0, &["volume", "create", volume]);
    }
    cluster.mount(&ash, 0, "vers=4.2");
    ash.run_within(
        SLOW,
        &format!("cp -a {}/. /mnt/h/images/; mkdir /mnt/h/nodes/fir; sync", image.display()),
    );
    cluster.heorot(0, &["snapshot", "create", "/images@1"]);
    stage("the image is in place");
    // A group of nodes has a root of its own, which it writes to.
    cluster.heorot(0, &["volume", "clone", "/images@1", "/group"]);

    let boot = |name: &str, root: &str, more: &[&str]| {
        let mut words = vec!["boot=heorot".to_owned(), format!("heorot.root={address}:{root}")];
        words.extend(more.iter().map(|word| (*word).to_owned()));
        lab.diskless(name, &Diskless { initramfs: initramfs.clone(), words })
    };
    let shared = ["heorot.overlay=128m"];
    let own = ["heorot.own=/nodes/fir"];
    let version = |node: &Client| node.run("cat /etc/version").trim().to_owned();
    let nodes = [
        (boot("oak", "/images/.snapshot/1", &shared), "/root/build"),
        (boot("elm", "/images/.snapshot/1", &shared), "/root/build"),
        (boot("yew", "/group", &["heorot.write"]), "/root/build"),
        (boot("fir", "/images/.snapshot/1", &own), "/var/build"),
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
    assert_eq!(ash.run("cat /mnt/h/group/var/mine /mnt/h/nodes/fir/var/mine"), "mine\nmine\n");
    assert_eq!(ash.run("ls /mnt/h/images/var").trim(), "lib");
    let said = nodes[3].0.try_run("echo x >/root/x 2>&1");
    assert!(said.text.contains("Read-only"), "{said:?}");
    drop(nodes);

    stage("their files are where they should be");

    // A new version takes effect with a reboot, and so does the way back.
    ash.run("echo 2 >/mnt/h/images/etc/version; sync");
    cluster.heorot(0, &["snapshot", "create", "/images@2"]);
    stage("a second version");
    for number in ["2", "1"] {
        let node = boot("oak", &format!("/images/.snapshot/{number}"), &shared);
        assert_eq!(version(&node), number);
        stage("one has changed its version");
        assert_eq!(node.run("ls /var").trim(), "lib", "what it wrote was in its memory");
    }
    let node = boot("fir", "/images/.snapshot/2", &own);
    assert_eq!(node.run("cat /var/mine; cat /etc/version"), "mine\n1\n", "its /etc and /var stay");
    assert!(!node.run("ls /usr/bin").is_empty());
}
