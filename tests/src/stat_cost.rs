//! Scripts that show what it costs to look at a file that another client may write to.

use super::scripts::python;

/// Writes a file of `bytes` through a layout and keeps it open. With `every_ms` it goes on and writes 4 KiB
/// so often, each followed by fdatasync.
#[must_use]
pub fn hold(file: &str, bytes: u64, every_ms: Option<u32>) -> String {
    let pause = every_ms.map_or("None".to_owned(), |ms| format!("{}", f64::from(ms) / 1000.0));
    python(&format!(
        r#"
import os, time
f = os.open("{file}", os.O_RDWR | os.O_CREAT)
os.pwrite(f, b"x" * {bytes}, 0)
os.fdatasync(f)
open("/tmp/holds", "w").close()
pause = {pause}
while True:
    time.sleep(pause or 60)
    if pause:
        os.pwrite(f, b"y" * 4096, 0)
        os.fdatasync(f)
"#
    ))
}

/// Looks at a file `looks` times from a mount without a cache of attributes; prints the seconds that it took.
#[must_use]
pub fn look(file: &str, looks: u32) -> String {
    python(&format!(
        r#"
import os, time
start = time.monotonic()
for _ in range({looks}):
    os.stat("{file}")
print(time.monotonic() - start)
"#
    ))
}
