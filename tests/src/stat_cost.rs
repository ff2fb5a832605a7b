//! Scripts that measure the cost of a GETATTR of a file that another client may write.

use super::scripts::python;

/// Writes a file of `bytes` through a layout and keeps it open. With `every_ms` it continues with writes of 4
/// KiB at this interval, each followed by fdatasync.
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

/// Stats a file `looks` times on a mount without attribute cache; prints the seconds.
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
