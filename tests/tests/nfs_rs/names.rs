//! Names: rename, remove, hard and symbolic links, and their errors.

use crate::file::{OpenFile, get, put};
use crate::scene::{ALL, V4, Version, each, refusal};

const REGULAR: u32 = 1; // ftype3 and nfs_ftype4 agree on these
const DIRECTORY: u32 = 2;
const SYMBOLIC_LINK: u32 = 5;

#[tokio::test(flavor = "multi_thread")]
async fn rename_over_a_file_replaces_it() {
    each(&ALL, async |scene| {
        put(&scene.ash, "new", b"new data").await;
        put(&scene.ash, "old", b"old data, which is longer").await;
        let moved = scene.ash.lookup_path("new").await.expect("look up").attr.expect("attributes").fileid;
        scene.ash.rename_path("new", "old").await.expect("rename");
        assert_eq!(get(&scene.elm, "old").await, b"new data");
        let attributes = scene.elm.getattr_path("old").await.expect("attributes");
        assert_eq!((attributes.fileid, attributes.nlink), (moved, 1));
        assert_eq!(refusal(scene.elm.lookup_path("new").await), "NOENT");

        // Across directories, and a directory over an empty one.
        for directory in ["from", "to", "from/full", "to/empty"] {
            scene.ash.mkdir_path(directory, 0o755).await.expect("mkdir");
        }
        put(&scene.ash, "from/full/file", b"inside").await;
        scene.ash.rename_path("from/full", "to/empty").await.expect("rename a directory");
        assert_eq!(get(&scene.elm, "to/empty/file").await, b"inside");
        scene.ash.rename_path("to/empty/file", "old").await.expect("rename out of it");
        assert_eq!(get(&scene.elm, "old").await, b"inside");
        let links = async |path| scene.elm.getattr_path(path).await.expect("attributes").nlink;
        assert_eq!((links("from").await, links("to").await), (2, 3), "links of the directories");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_file_keeps_its_data_when_another_is_renamed_over_it() {
    each(&V4, async |scene| {
        put(&scene.ash, "new", b"new").await;
        put(&scene.ash, "old", b"old").await;
        let open = OpenFile::open(&scene.elm, "old").await;
        scene.ash.rename_path("new", "old").await.expect("rename");
        assert_eq!(open.attributes().await.nlink, 0);
        open.write(3, b" and open").await;
        assert_eq!(open.read_all().await, b"old and open");
        assert_eq!(get(&scene.elm, "old").await, b"new");
        let handle = open.handle.clone();
        open.close().await;
        assert_eq!(refusal(scene.elm.getattr(handle).await), "STALE");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn renames_that_cannot_be_are_refused() {
    each(&ALL, async |scene| {
        for directory in ["empty", "full", "full/below"] {
            scene.ash.mkdir_path(directory, 0o755).await.expect("mkdir");
        }
        put(&scene.ash, "file", b"").await;
        let refused = async |from, to| refusal(scene.ash.rename_path(from, to).await);
        assert_eq!(refused("none", "file").await, "NOENT");
        // RFC 8881, section 18.26.3: an existing target must be of the same kind, and empty; else
        // NFS4ERR_EXIST. RFC 1813, section 3.3.14, has the same, and NOTEMPTY for a directory that is not
        // empty.
        assert!(["EXIST", "ISDIR"].contains(&refused("file", "empty").await.as_str()));
        assert!(["EXIST", "NOTDIR"].contains(&refused("empty", "file").await.as_str()));
        assert!(["EXIST", "NOTEMPTY"].contains(&refused("empty", "full").await.as_str()));
        assert_eq!(refused("full", "full/below/itself").await, "INVAL");
        // Two names of one file: no effect, and both stay.
        scene.ash.link_path("file", "twin").await.expect("link");
        scene.ash.rename_path("file", "twin").await.expect("rename to itself");
        for name in ["file", "twin"] {
            assert_eq!(scene.elm.getattr_path(name).await.expect("attributes").nlink, 2);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hard_links_are_one_file() {
    each(&ALL, async |scene| {
        put(&scene.ash, "one", b"first").await;
        scene.ash.mkdir_path("directory", 0o755).await.expect("mkdir");
        scene.ash.link_path("one", "directory/two").await.expect("link");
        let (one, two) = (scene.elm.getattr_path("one").await, scene.elm.getattr_path("directory/two").await);
        let (one, two) = (one.expect("attributes"), two.expect("attributes"));
        assert_eq!((one.fileid, one.nlink), (two.fileid, 2));
        let file = OpenFile::open(&scene.elm, "directory/two").await;
        file.write(0, b"FIR").await;
        file.close().await;
        assert_eq!(get(&scene.ash, "one").await, b"FIRst");
        scene.ash.remove_path("one").await.expect("remove");
        assert_eq!(get(&scene.elm, "directory/two").await, b"FIRst");
        let left = scene.elm.getattr_path("directory/two").await.expect("attributes");
        assert_eq!(left.nlink, 1);
        assert!(left.ctime != two.ctime, "losing a name changes ctime");
        put(&scene.ash, "taken", b"").await;
        assert_eq!(refusal(scene.ash.link_path("directory/two", "taken").await), "EXIST");
        assert!(scene.ash.link_path("directory", "of-a-directory").await.is_err());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn symbolic_links_are_text() {
    each(&ALL, async |scene| {
        let long = "../".repeat(300) + "nowhere";
        for (name, text) in [("short", "a"), ("away", "/etc/passwd"), ("long", &long), ("text", "ünd so…")]
        {
            scene.ash.symlink_path(text, name).await.unwrap_or_else(|e| panic!("symlink {name}: {e}"));
            assert_eq!(scene.elm.readlink_path(name).await.expect("readlink"), text);
            let attributes = scene.elm.getattr_path(name).await.expect("attributes");
            assert_eq!((attributes.type_, attributes.filesize), (SYMBOLIC_LINK, text.len() as u64));
        }
        // The server does not follow links: the client does.
        assert!(["NOTDIR", "SYMLINK"].contains(&refusal(scene.ash.lookup_path("away/x").await).as_str()));
        put(&scene.ash, "file", b"").await;
        let file = scene.ash.lookup_path("file").await.expect("look up");
        let expected = if scene.version.is_v4() { "WRONG_TYPE" } else { "INVAL" };
        assert_eq!(refusal(scene.ash.readlink(file.fh).await), expected);
        scene.ash.remove_path("away").await.expect("remove");
        assert_eq!(refusal(scene.elm.readlink_path("away").await), "NOENT");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_are_made_and_removed() {
    each(&ALL, async |scene| {
        let made = scene.ash.mkdir_path("outer", 0o750).await.expect("mkdir");
        let attributes = scene.elm.getattr(made.fh.clone()).await.expect("attributes");
        assert_eq!(
            (attributes.type_, attributes.file_mode & 0o7777, attributes.nlink),
            (DIRECTORY, 0o750, 2)
        );
        scene.ash.mkdir(made.fh.clone(), "inner", 0o755).await.expect("mkdir");
        assert_eq!(scene.elm.getattr_path("outer").await.expect("attributes").nlink, 3);
        assert_eq!(refusal(scene.ash.mkdir_path("outer", 0o755).await), "EXIST");
        assert_eq!(refusal(scene.ash.rmdir_path("outer").await), "NOTEMPTY");
        scene.ash.rmdir_path("outer/inner").await.expect("rmdir");
        scene.ash.rmdir_path("outer").await.expect("rmdir");
        assert_eq!(refusal(scene.elm.getattr(made.fh).await), "STALE");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_cannot_be_are_refused() {
    each(&ALL, async |scene| {
        let root = scene.ash.getfh().await;
        let longest = "x".repeat(255);
        put(&scene.ash, &longest, b"long").await;
        assert_eq!(get(&scene.elm, &longest).await, b"long");
        let mkdir = async |name: &str| refusal(scene.ash.mkdir(root.clone(), name, 0o755).await);
        assert_eq!(mkdir(&"x".repeat(256)).await, "NAMETOOLONG");
        let odd: &[&str] = match scene.version {
            Version::V3 => &["ACCESS", "INVAL", "EXIST"], // RFC 1813 leaves it to the server
            _ => &["INVAL", "BADNAME", "BADCHAR"],
        };
        for name in ["", ".", "..", "a/b"] {
            let answer = mkdir(name).await;
            assert!(odd.contains(&answer.as_str()), "mkdir {name:?}: {answer}");
        }
        put(&scene.ash, "file", b"").await;
        let file = scene.ash.lookup_path("file").await.expect("look up");
        assert_eq!(file.attr.expect("attributes").type_, REGULAR);
        assert_eq!(refusal(scene.ash.lookup(file.fh, "below").await), "NOTDIR");
        assert_eq!(refusal(scene.ash.remove_path("none").await), "NOENT");
        // A name is bytes, and case matters.
        put(&scene.ash, "Füße", b"feet").await;
        assert_eq!(get(&scene.elm, "Füße").await, b"feet");
        assert_eq!(refusal(scene.elm.lookup_path("füße").await), "NOENT");
    })
    .await;
}
