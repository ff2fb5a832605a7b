//! Scene of a story: a server, and two clients of one version.

use std::sync::Arc;
use std::time::Duration;

use nfs_rs::{Mount, NfsError};

use crate::server::Server;

/// Mounted client for reads and writes; can be sent to a task.
pub type Client = Arc<dyn Mount>;

/// Versions that nfs-rs and Heorot have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    V3,
    V41,
    V42,
}

pub const ALL: [Version; 3] = [Version::V3, Version::V41, Version::V42];
/// Versions with sessions, opens, locks and layouts.
pub const V4: [Version; 2] = [Version::V41, Version::V42];

/// Time limit of a story, long enough for a busy machine.
const STORY_TIMEOUT: Duration = Duration::from_secs(60);

pub struct Scene<'a> {
    pub server: &'a Server,
    pub version: Version,
    pub ash: Client,
    pub elm: Client,
    /// Folder that both clients have mounted, by its name on the server; one for each version.
    pub folder: String,
}

impl Version {
    /// Version in nfs-rs's URLs.
    pub fn option(self) -> &'static str {
        match self {
            Version::V3 => "3",
            Version::V41 => "4.1",
            Version::V42 => "4.2",
        }
    }

    pub fn is_v4(self) -> bool {
        self != Version::V3
    }
}

/// Runs the story once with each version, against one server. After each run both clients end, and the server
/// must have no state of them.
pub async fn each(versions: &[Version], story: impl AsyncFn(&Scene<'_>)) {
    let server = Server::start();
    for &version in versions {
        // Output of a failed test ends with this line.
        println!("--- version {}", version.option());
        let folder = format!("/v{}", version.option());
        let builder = mount(&server, Version::V42, "/").await;
        builder.mkdir_path(&folder, 0o755).await.expect("make the folder");
        builder.umount().await.expect("unmount the root");
        let ash = mount(&server, version, &folder).await;
        let elm = mount(&server, version, &folder).await;
        let scene = Scene { server: &server, version, ash, elm, folder };
        let told = tokio::time::timeout(STORY_TIMEOUT, story(&scene)).await;
        told.unwrap_or_else(|_| panic!("the story did not end within {STORY_TIMEOUT:?}"));
        scene.ash.umount().await.expect("unmount ash");
        scene.elm.umount().await.expect("unmount elm");
        assert_eq!(server.clients(), 0, "clients that unmounted");
    }
}

/// Mounts `folder` as root, with a new client for each call.
pub async fn mount(server: &Server, version: Version, folder: &str) -> Client {
    mount_with(server, version, folder, "").await
}

/// [`mount`] with further options of nfs-rs, such as `&uid=1000`.
pub async fn mount_with(server: &Server, version: Version, folder: &str, options: &str) -> Client {
    let (address, port) = (server.nfs, server.nfs.port());
    let url = format!(
        "nfs://{address}{folder}?version={}&mountport={port}&noresvport=true{options}",
        version.option()
    );
    let mount = nfs_rs::parse_url_and_mount(&url).await;
    Arc::from(mount.unwrap_or_else(|e| panic!("mount {url}: {e}")))
}

/// Error name of the protocol, in v4's form, without the prefix, such as `NOENT`.
#[track_caller]
pub fn refusal<T: std::fmt::Debug>(result: nfs_rs::Result<T>) -> String {
    let name = match result.expect_err("this should be refused") {
        NfsError::Nfs3(code) => format!("{code:?}"),
        NfsError::Nfs4(code) => format!("{code:?}"),
        other => panic!("not an answer of the protocol: {other:?}"),
    };
    match name.trim_start_matches("NFS3ERR_").trim_start_matches("NFS4ERR_") {
        "ACCES" => "ACCESS".to_owned(), // v3 spells it so
        name => name.to_owned(),
    }
}
