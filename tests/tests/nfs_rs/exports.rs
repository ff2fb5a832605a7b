//! Exports: permissions by network, and `heorot export`, which changes them under mounted clients.

use bytes::Bytes;
use nfs_rs::{NfsError, OPEN_BOTH, OPEN_READ};

use crate::file::{OpenFile, get, put};
use crate::scene::{ALL, Version, mount, mount_with, refusal};
use crate::server::Server;

/// ACCESS4_READ, LOOKUP, MODIFY, EXTEND, DELETE, EXECUTE.
const ALL_ACCESS: u32 = 0x3f;
const READ_LOOKUP: u32 = 0x03;
const READ_EXECUTE: u32 = 0x21;

/// Export for this machine, whose clients need no reserved port.
const LOCAL: &str = "127.0.0.0/8 squash=none,insecure";

async fn made_folder(server: &Server, version: Version, mode: u32) -> String {
    let folder = format!("/v{}", version.option());
    let builder = mount(server, Version::V42, "/").await;
    builder.mkdir_path(&folder, mode).await.expect("make the folder");
    builder.umount().await.expect("unmount the root");
    folder
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mounted_export_that_becomes_read_only_refuses_every_change_until_it_is_writable_again() {
    let mut server = Server::exporting(LOCAL);
    for version in ALL {
        println!("--- version {}", version.option());
        let folder = made_folder(&server, version, 0o755).await;
        let ash = mount(&server, version, &folder).await;
        put(&ash, "file", b"data").await;
        ash.mkdir_path("dir", 0o777).await.expect("mkdir");
        let open = OpenFile::open(&ash, "file").await;
        open.write(4, b" and more").await;

        server.export_and_recall("set / --ro");
        let file = || open.handle.clone();
        let dir = ash.lookup_path("dir").await.expect("look up").fh;
        let answers = [
            refusal(ash.create_path("new", Some(0o644)).await),
            refusal(ash.mkdir_path("new", 0o755).await),
            refusal(ash.symlink_path("file", "new").await),
            refusal(ash.link_path("file", "new").await),
            refusal(ash.rename_path("file", "new").await),
            refusal(ash.remove_path("file").await),
            refusal(ash.rmdir_path("dir").await),
            refusal(ash.setattr(file(), None, Some(0o600), None, None, None, None, None).await),
            refusal(ash.setattr(file(), None, None, None, None, Some(0), None, None).await),
            refusal(ash.setattr(file(), None, None, Some(7), Some(7), None, None, None).await),
            refusal(ash.write(file(), 0, Bytes::from_static(b"other")).await),
        ];
        assert_eq!(answers, ["ROFS"; 11]);
        assert_eq!(ash.access(dir.clone(), ALL_ACCESS).await.expect("access"), READ_LOOKUP);
        assert_eq!(ash.access(file(), ALL_ACCESS).await.expect("access") & !READ_EXECUTE, 0);
        if version.is_v4() {
            assert_eq!(refusal(ash.open_path("file", OPEN_BOTH).await), "ROFS");
        }
        // Another client: nfs-rs would write through the layout that it has read with.
        let other = mount(&server, version, &folder).await;
        let read = other.open_path("file", OPEN_READ).await.expect("open to read");
        assert_eq!(&other.read(read.fh.clone(), 0, 4).await.expect("read")[..], b"data");
        other.close(read.fh).await.expect("close");
        other.umount().await.expect("unmount");

        server.export("set / --rw");
        open.write(0, b"DATA").await;
        assert_eq!(open.read_all().await, b"DATA and more");
        open.close().await;
        ash.rename_path("file", "new").await.expect("rename");
        ash.umount().await.expect("unmount");
        assert_eq!(server.clients(), 0, "clients that unmounted");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_served_to_an_address_or_a_port_without_an_export() {
    let server = Server::exporting(LOCAL);
    let exports = async |server: &Server| {
        let url = format!("nfs://{}/?mountport={}", server.nfs.ip(), server.nfs.port());
        let listed = nfs_rs::list_exports(&url).await.expect("EXPORT");
        listed.into_iter().map(|export| (export.path, export.groups)).collect::<Vec<_>>()
    };
    assert_eq!(exports(&server).await, [("/".to_owned(), vec!["127.0.0.0/8".to_owned()])]);
    for version in ALL {
        println!("--- version {}", version.option());
        let ash = mount(&server, version, "/").await;
        let name = format!("v{}", version.option());
        put(&ash, &name, b"data").await;

        let url =
            format!("nfs://{}/?version={}&mountport={}", server.nfs, version.option(), server.nfs.port());
        let from_any_port = format!("{url}&noresvport=true");
        server.export("add / --network 10.0.0.0/8,127.1.0.0/16 --insecure");
        server.export("remove / --network 127.0.0.0/8");
        assert_eq!(exports(&server).await, []);
        refused(nfs_rs::parse_url_and_mount(&from_any_port).await.err());
        refused(ash.getattr(ash.getfh().await).await.err());
        refused(ash.remove_path(&name).await.err());

        // Exported, but only for reserved ports.
        server.export("add / --network 127.0.0.1 --squash none");
        refused(nfs_rs::parse_url_and_mount(&from_any_port).await.err());
        let root = nfs_rs::parse_url_and_mount(&url).await.expect("mount from a reserved port");
        root.getattr_path(&name).await.expect("attributes");
        root.umount().await.expect("unmount");

        server.export("add / --network 127.0.0.0/8 --squash none --insecure");
        server.export("remove / --network 10.0.0.0/8,127.1.0.0/16,127.0.0.1");
        assert_eq!(get(&ash, &name).await, b"data");
        ash.umount().await.expect("unmount");
    }
}

/// v4 returns ACCESS; v3 rejects the call by RPC (AUTH_TOOWEAK), which Linux maps to EACCES.
#[track_caller]
fn refused(error: Option<NfsError>) {
    let said = format!("{:?}", error.expect("this should be refused"));
    assert!(
        ["ACCES", "could not parse response due to bad status"].iter().any(|word| said.contains(word)),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn squashed_users_are_nobody() {
    let server = Server::exporting(LOCAL);
    for version in ALL {
        println!("--- version {}", version.option());
        let folder = made_folder(&server, version, 0o777).await;
        let root = mount(&server, version, &folder).await;
        let set = root.setattr_path(".", false, Some(0o777), None, None, None, None, None).await;
        set.expect("chmod");
        let user = mount_with(&server, version, &folder, "&uid=1000&gid=1001").await;
        for (squash, expected) in [
            ("--squash none", [(0, 0), (1000, 1001)]),
            ("--squash root --anonymous 65534:65534", [(65534, 65534), (1000, 1001)]),
            ("--anonymous 77:78", [(77, 78), (1000, 1001)]),
            ("--squash all", [(77, 78), (77, 78)]),
        ] {
            server.export(&format!("set / {squash}"));
            for (who, expected) in [&root, &user].into_iter().zip(expected) {
                let made = who.mkdir_path("dir", 0o755).await.expect("mkdir").attr.expect("attributes");
                assert_eq!((made.uid, made.gid), expected, "{squash}");
                who.rmdir_path("dir").await.expect("rmdir");
            }
        }
        server.export("set / --squash none");
        for client in [root, user] {
            client.umount().await.expect("unmount");
        }
    }
}
