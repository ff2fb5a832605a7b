//! Where a story takes place: a server, and two clients that speak one version.

use std::sync::Arc;
use std::time::Duration;

use nfs_rs::{Mount, NfsError};

use crate::server::Server;

/// A mount, to read and write with, or to hand to a task.
pub type Client = Arc<dyn Mount>;

/// The versions that nfs-rs and Heorot have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    V3,
    V41,
    V42,
}

pub const ALL: [Version; 3] = [Version::V3, Version::V41, Version::V42];
/// With sessions, opens, locks and layouts.
pub const V4: [Version; 2] = [Version::V41, Version::V42];

/// Much longer than any story takes on a busy machine; shorter than a suite that hangs.
const STORY_TIMEOUT: Duration = Duration::from_secs(60);

pub struct Scene<'a> {
    pub server: &'a Server,
    pub version: Version,
    pub ash: Client,
    pub elm: Client,
    /// The folder, of this version alone, that both have mounted, as the server names it.
    pub folder: String,
}

impl Version {
    /// In nfs-rs's URLs.
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

/// Tells the story once with each version, against one server. After each, both clients go, and the server
/// must have forgotten them.
pub async fn each(versions: &[Version], story: impl AsyncFn(&Scene<'_>)) {
    let server = Server::start();
    for &version in versions {
        // Shown when the test fails, which it then does with this line last.
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

/// Mounts `folder` as root, a new client with each call.
pub async fn mount(server: &Server, version: Version, folder: &str) -> Client {
    mount_with(server, version, folder, "").await
}

/// [`mount`], with more of nfs-rs's options, such as `&uid=1000`.
pub async fn mount_with(server: &Server, version: Version, folder: &str, options: &str) -> Client {
    let (address, port) = (server.nfs, server.nfs.port());
    let url = format!(
        "nfs://{address}{folder}?version={}&mountport={port}&noresvport=true{options}",
        version.option()
    );
    let mount = nfs_rs::parse_url_and_mount(&url).await;
    Arc::from(mount.unwrap_or_else(|e| panic!("mount {url}: {e}")))
}

/// The protocol's own error, in v4's words, without the prefix: such as `NOENT`.
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
