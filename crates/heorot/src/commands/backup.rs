//! `heorot backup`: writes a snapshot of all metadata to a file.

use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Read, Write};
use std::path::Path;

use host::{SystemFiles, size};
use replica::BackupReader;

use crate::admin::client::AdminClient;
use crate::cli::BackupArgs;
use command_line::Failure;

/// Value of FILE for standard output.
const STANDARD_OUTPUT: &str = "-";

/// `heorot backup`.
pub(crate) fn backup(args: &BackupArgs) -> Result<(), Failure> {
    if args.file == Path::new(STANDARD_OUTPUT) {
        return pass_on(&AdminClient::find(&args.admin)?);
    }
    let shown = args.file.display();
    let new = host::temporary(&args.file);
    let outcome = AdminClient::find(&args.admin).and_then(|client| fetch(&client, &new)).and_then(|pairs| {
        host::put_in_place(&SystemFiles, &new, &args.file)?;
        Ok(pairs)
    });
    let pairs = outcome.map_err(|failure| {
        let _ = std::fs::remove_file(&new);
        Failure::new(format!("{shown}: no backup: {failure}"))
    })?;
    let bytes = std::fs::metadata(&args.file)?.len();
    println!(
        "{shown}: {pairs} records, {}; it needs the cluster's secret, which is not in it: keep a copy of that, too",
        size::show(bytes)
    );
    Ok(())
}

/// Copies to standard output and checks the backup on the way: the next program in a pipe sees an error only
/// by the exit status.
fn pass_on(client: &AdminClient) -> Result<(), Failure> {
    let no_backup = |why: &dyn std::fmt::Display| Failure::new(format!("no backup: {why}"));
    let out = io::stdout();
    if out.is_terminal() {
        return Err(no_backup(&"standard output is a terminal; name a file, or lead it into a program"));
    }
    let from = client.stream("/backup").map_err(|failure| no_backup(&failure))?;
    let (reader, _) = BackupReader::open(Copied { from, to: out.lock() }).map_err(|e| no_backup(&e))?;
    reader.check().map_err(|e| no_backup(&e))?;
    io::stdout().flush()?;
    Ok(())
}

/// Reader that copies all bytes read to a writer.
struct Copied<R, W> {
    from: R,
    to: W,
}

impl<R: Read, W: Write> Read for Copied<R, W> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.from.read(buffer)?;
        self.to.write_all(&buffer[..bytes])?;
        Ok(bytes)
    }
}

/// Downloads the backup to the disk, then reads and checks it.
fn fetch(client: &AdminClient, new: &Path) -> Result<u64, Failure> {
    let mut from = client.stream("/backup")?;
    // Private mode: the backup has the names of all files.
    let mut file = host::private::create(new)?;
    io::copy(&mut from, &mut file)?;
    file.flush()?;
    file.sync_all()?;
    let (reader, _) = BackupReader::open(BufReader::new(File::open(new)?))?;
    Ok(reader.check()?)
}
