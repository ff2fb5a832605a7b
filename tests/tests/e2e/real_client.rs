//! Test of the harness: real kernels boot, reach each other, and have the programs for NFS.

use std::time::Duration;

use tests::Lab;

#[test]
fn two_clients_boot_with_names_and_addresses_of_their_own() {
    let lab = Lab::open();
    let (ash, elm) = (lab.client("ash"), lab.client("elm"));
    println!("{} runs Linux {}, {} runs Linux {}", ash.name(), ash.kernel(), elm.name(), elm.kernel());

    for (client, other) in [(&ash, &elm), (&elm, &ash)] {
        let name = client.run("hostname; cat /sys/module/nfs/parameters/nfs4_unique_id");
        assert_eq!(name, format!("{0}\n{0}\n", client.name()));
        client.run(&format!("ping -q -c 2 -i 0.2 {}", lab.address()));
        client.run(&format!("ping -q -c 2 -i 0.2 {}", other.address()));
        client.run("modprobe nfsv4; modprobe nfsv3; modprobe nfs_layout_nfsv41_files");
        client.run("grep -w nfs4 /proc/filesystems");
    }
}

#[test]
fn a_client_runs_many_scripts_and_cannot_write_on_the_host() {
    let lab = Lab::open();
    let client = lab.client("ash");

    let slow: Vec<_> = (0..4).map(|i| client.spawn(&format!("sleep 1; echo {i}; exit {i}"))).collect();
    assert_eq!(client.run("echo quick"), "quick\n");
    for (i, running) in slow.into_iter().enumerate() {
        let output = running.wait(Duration::from_secs(20));
        assert_eq!((output.status, output.text.as_str()), (i as i32, format!("{i}\n").as_str()));
    }

    let failed = client.try_run("echo before\nfalse\necho after");
    assert_eq!(failed.status, 1);
    assert_eq!(failed.text, "before\nline 2: exit status 1: false\n");

    let endless = client.spawn("sleep 1000");
    endless.kill();
    assert_eq!(endless.wait(Duration::from_secs(20)).status, 128 + 9);

    let refused = client.try_run("touch /etc/written-by-a-client");
    assert!(refused.text.contains("Read-only file system"), "{refused}");
    client.run("touch /mnt/a /tmp/b /run/c");
    assert!(!std::path::Path::new("/mnt/a").exists());
}

#[test]
#[should_panic(expected = "sysrq triggered crash")]
fn a_kernel_panic_is_reported_with_the_console_log() {
    let lab = Lab::open();
    lab.client("ash").run("echo c >/proc/sysrq-trigger; sleep 100");
}

#[test]
#[should_panic(expected = "sleep 1001")]
fn a_script_that_hangs_is_reported_with_what_it_was_doing() {
    let lab = Lab::open();
    lab.client("ash").run_within(Duration::from_secs(2), "echo so far; sleep 1001");
}
