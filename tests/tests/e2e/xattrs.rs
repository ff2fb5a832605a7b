//! Extended attributes through a real client: `getfattr` on one machine shows attributes that `setfattr` set
//! on another.

use tests::{Cluster, Lab};

#[test]
fn extended_attributes_are_set_seen_by_others_kept_over_a_crash_and_removed() {
    let lab = Lab::open();
    let mut cluster = Cluster::up(&lab, 2);
    let (ash, elm) = (lab.client("ash"), lab.client("elm"));
    for client in [&ash, &elm] {
        cluster.mount(client, "vers=4.2");
    }
    ash.run(
        "cd /mnt/h; mkdir d; echo data >f; ln -s f s; mkfifo p
         setfattr -n user.color -v blue f; setfattr -n user.empty f; setfattr -n user.of.a.dir -v yes d",
    );
    // Drop the caches: a client caches attributes for some seconds.
    let shown = |client: &tests::Client, path: &str| {
        client.run(&format!("echo 3 >/proc/sys/vm/drop_caches; getfattr -d --absolute-names -m - /mnt/h/{path} | grep = | sort"))
    };
    assert_eq!(shown(&elm, "f"), "user.color=\"blue\"\nuser.empty=\"\"\n");
    assert_eq!(shown(&elm, "d"), "user.of.a.dir=\"yes\"\n");

    // Replace, remove; the maximum is 64 KiB, and a name of 255 bytes with its prefix.
    ash.run(
        r#"cd /mnt/h; setfattr -n user.color -v red f; setfattr -x user.empty f
        ! setfattr -x user.empty f 2>/tmp/why; grep -q 'No such attribute' /tmp/why
        # A value that no command line can carry comes from a restored dump.
        { echo '# file: f'; printf 'user.big=0x'; head -c 65536 /dev/zero | tr '\0' x | od -An -v -tx1 | tr -d ' \n'; echo; } >/tmp/dump
        setfattr --restore=/tmp/dump; [ $(getfattr --only-values -n user.big f | wc -c) = 65536 ]; setfattr -x user.big f
        long=$(printf 'n%.0s' $(seq 250)); setfattr -n user.$long -v v f
        [ "$(getfattr --only-values -n user.$long f)" = v ]; setfattr -x user.$long f"#,
    );
    assert_eq!(shown(&elm, "f"), "user.color=\"red\"\n");

    // Many attributes, in more than one page, then none.
    ash.run(r#"cd /mnt/h; for n in $(seq 200); do setfattr -n user.number.$n -v $n f; done"#);
    let listed = elm.run("getfattr --absolute-names -m number /mnt/h/f | grep -c number");
    assert_eq!(listed.trim(), "200");
    ash.run(r#"cd /mnt/h; for n in $(seq 200); do setfattr -x user.number.$n f; done"#);

    // Setting needs write permission; reading needs read permission.
    let as_user = "setpriv --reuid 1234 --regid 1234 --clear-groups";
    ash.run(&format!(
        "cd /mnt/h; chmod 644 f
         {as_user} getfattr -n user.color f >/dev/null
         ! {as_user} setfattr -n user.color -v mine f 2>/dev/null
         chmod 600 f; ! {as_user} getfattr -n user.color f 2>/dev/null
         chmod 1777 d; ! {as_user} setfattr -n user.mine -v x d 2>/dev/null
         chmod 777 d; {as_user} setfattr -n user.mine -v x d; setfattr -x user.mine d"
    ));
    // Links and pipes have none, as on every Linux file system.
    ash.run("cd /mnt/h; ! setfattr -h -n user.a -v 1 s 2>/dev/null; ! setfattr -n user.a -v 1 p 2>/dev/null");

    // A change of an extended attribute changes only the ctime.
    ash.run(
        "cd /mnt/h; times() { stat -c '%y %s' f; }; before=$(times); c=$(stat -c %Z%z f)
         setfattr -n user.color -v green f; [ \"$(times)\" = \"$before\" ]; [ \"$(stat -c %Z%z f)\" != \"$c\" ]",
    );

    cluster.kill_all();
    cluster.start_all();
    elm.run("echo 3 >/proc/sys/vm/drop_caches");
    assert_eq!(shown(&elm, "f"), "user.color=\"green\"\n");
    assert_eq!(shown(&ash, "d"), "user.of.a.dir=\"yes\"\n");
    ash.run("cd /mnt/h; rm -r d f s p; echo new >f; [ -z \"$(getfattr -d f)\" ]; rm f");
    for client in [&ash, &elm] {
        client.run("umount /mnt/h");
    }
}
