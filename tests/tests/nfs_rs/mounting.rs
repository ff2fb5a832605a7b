//! Mounts: exported paths, and supported versions.

use nfs_rs::NfsError;

use crate::file::put;
use crate::scene::{ALL, Version, each, refusal};

#[tokio::test(flavor = "multi_thread")]
async fn the_root_is_exported_and_all_below_it_can_be_mounted() {
    each(&ALL, async |scene| {
        let address = scene.server.nfs;
        let exports =
            nfs_rs::list_exports(&format!("nfs://{}/?mountport={}", address.ip(), address.port())).await;
        let exports = exports.expect("EXPORT");
        assert_eq!(exports.len(), 1);
        assert_eq!((exports[0].path.as_str(), exports[0].groups.len()), ("/", 0));

        // Both clients have mounted a folder. A path that is no folder, or does not exist, cannot be mounted;
        // v3 only, because in v4 nfs-rs would leave the client that it created for it.
        if scene.version == Version::V3 {
            put(&scene.ash, "file", b"").await;
            for (path, expected) in [("none", "MNT3ERR_NOENT"), ("file", "MNT3ERR_NOTDIR")] {
                let folder = format!("{}/{path}", scene.folder);
                let url = format!("nfs://{address}{folder}?mountport={}&noresvport=true", address.port());
                match nfs_rs::parse_url_and_mount(&url).await {
                    Err(NfsError::Mount(code)) => assert_eq!(format!("{code:?}"), expected),
                    other => panic!("mount {folder}: {other:?}"),
                }
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn minor_version_0_is_not_spoken() {
    each(&[Version::V41], async |scene| {
        let url = format!("nfs://{}{}?version=4.0&noresvport=true", scene.server.nfs, scene.folder);
        assert_eq!(refusal(nfs_rs::parse_url_and_mount(&url).await), "MINOR_VERS_MISMATCH");
    })
    .await;
}
