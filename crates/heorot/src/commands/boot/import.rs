//! `heorot boot image import` and `heorot boot loader add`: directories and files go as a tar to the metaserver.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use command_line::Failure;
use tokio::sync::mpsc;

use crate::admin::api::Done;
use crate::admin::client::AdminClient;
use crate::commands::boot::source::tar_of;

/// Bytes of one piece, and pieces that wait for the network.
const PIECE_BYTES: usize = 256 << 10;
const PIECES_WAITING_MAX: usize = 8;

/// Begins of compressed files, and what uncompresses them.
const COMPRESSED: [(&[u8], &str); 4] = [
    (b"\x1f\x8b", "gzip -dc"),
    (b"\xfd7zXZ\0", "xz -dc"),
    (b"\x28\xb5\x2f\xfd", "zstd -dc"),
    (b"BZh", "bzip2 -dc"),
];

/// Sends a body of any length from a thread of its own.
type Sends = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + Send>;

pub(super) fn image(
    client: &AdminClient,
    source: &Path,
    image: &str,
    whole: bool,
    force: bool,
) -> Result<(), Failure> {
    let query = [("name", image), ("whole", word(whole)), ("force", word(force))];
    let path = source.to_owned();
    let failed = |error: io::Error| Failure::new(format!("{}: {error}", source.display()));
    let sends: Sends = if source == Path::new("-") {
        Box::new(|out| io::copy(&mut io::stdin().lock(), out).map(drop))
    } else if source.metadata().map_err(failed)?.is_dir() {
        Box::new(move |out| tar_of(&path, out))
    } else {
        let mut file = File::open(source).map_err(failed)?;
        refuse_compressed(&mut file, source)?;
        Box::new(move |out| io::copy(&mut file, out).map(drop))
    };
    let _: Done = client.get("/boot/image", &query)?;
    sent(client, "/boot/image", &query, sends)
}

fn word(set: bool) -> &'static str {
    if set { "true" } else { "false" }
}

pub(super) fn loaders(client: &AdminClient, files: &[PathBuf]) -> Result<(), Failure> {
    let mut opened = Vec::new();
    for path in files {
        let failed = |error: io::Error| Failure::new(format!("{}: {error}", path.display()));
        let name = path.file_name().ok_or_else(|| Failure::new(format!("{} is no file", path.display())))?;
        let file = File::open(path).map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(Failure::new(format!("{} is no file", path.display())));
        }
        opened.push((name.to_owned(), file));
    }
    let sends: Sends = Box::new(move |out| {
        let mut tar = tar::Builder::new(out);
        for (name, mut file) in opened {
            tar.append_file(name, &mut file)?;
        }
        tar.finish()
    });
    sent(client, "/boot/loaders", &[], sends)
}

fn refuse_compressed(file: &mut File, path: &Path) -> Result<(), Failure> {
    let mut begin = Vec::new();
    (&*file).take(8).read_to_end(&mut begin)?;
    file.rewind()?;
    match COMPRESSED.iter().find(|(magic, _)| begin.starts_with(magic)) {
        Some((_, program)) => Err(Failure::new(format!(
            "{0} is compressed: {program} {0} | heorot boot image import - IMAGE@VERSION",
            path.display()
        ))),
        None => Ok(()),
    }
}

fn sent(client: &AdminClient, path: &str, query: &[(&str, &str)], sends: Sends) -> Result<(), Failure> {
    let (send, pieces) = mpsc::channel(PIECES_WAITING_MAX);
    let writer = std::thread::spawn(move || {
        let mut out = BufWriter::with_capacity(PIECE_BYTES, Pieces(send.clone()));
        let outcome = sends(&mut out).and_then(|()| out.flush());
        if let Err(error) = &outcome {
            // The body ends with an error: half of it is not taken for all.
            let _ = send.blocking_send(Err(io::Error::new(error.kind(), error.to_string())));
        }
        outcome
    });
    let answered: Result<Done, Failure> = client.upload(path, query, pieces);
    if answered.is_err() && !writer.is_finished() {
        // It may wait for a program that is still making the image.
        return answered.map(drop);
    }
    let written = writer.join().map_err(|_| Failure::new("the sending has failed"))?;
    match (answered, written) {
        // An end of the connection is a consequence.
        (_, Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("what is imported cannot be read: {error}")))
        }
        (answered, _) => {
            println!("{}", answered?.done);
            Ok(())
        }
    }
}

struct Pieces(mpsc::Sender<io::Result<Bytes>>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Ok(Bytes::copy_from_slice(bytes)));
        sent.map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
