//! What two clients keep, and look at after each step: every file has the bytes that were written, or is lost
//! and said to be.

use std::net::IpAddr;
use std::time::Duration;

use tests::Client;

const MINUTES: Duration = Duration::from_secs(240);

/// Files with their inode, on one target, and on several. Adds their sums to what must be there.
const WRITE: &str = r#"
mkdir -p /mnt/h/DIR; cd /mnt/h
for n in $(seq 6); do
    head -c 3000 /dev/urandom >DIR/small$n; head -c 900000 /dev/urandom >DIR/middle$n; done
for n in $(seq 3); do head -c 5000000 /dev/urandom >DIR/big$n; done
sync; sha256sum DIR/* >>/tmp/sums
"#;

/// Reads all from the servers. Those in /tmp/lost must answer EIO, all others have their bytes.
const CHECK: &str = r#"
echo 3 >/proc/sys/vm/drop_caches; cd /mnt/h
while read -r sum file; do
    if grep -qxF "/$file" /tmp/lost; then
        if cat "$file" >/dev/null 2>/tmp/why; then echo "$file is said to be lost, and can be read"; exit 1; fi
        grep -q 'Input/output error' /tmp/why || { cat /tmp/why; exit 1; }
    else
        echo "$sum  $file" | sha256sum --quiet -c
    fi
done </tmp/sums
"#;

/// Removes those that are lost: what a backup of file data has is then written again, as new files.
const GIVE_UP: &str = r#"
cd /mnt/h; : >/tmp/sums.left
while read -r sum file; do
    if grep -qxF "/$file" /tmp/lost; then rm "$file"; else echo "$sum  $file" >>/tmp/sums.left; fi
done </tmp/sums
mv /tmp/sums.left /tmp/sums
"#;

/// A client with a directory of its own.
pub struct Keeper {
    pub client: Client,
    version: &'static str,
    service: IpAddr,
}

impl Keeper {
    pub fn new(client: Client, version: &'static str, service: IpAddr) -> Keeper {
        client.run(": >/tmp/sums");
        Keeper { client, version, service }
    }

    pub fn mount(&self) {
        self.client.run(&lab::heorot::mount_script((self.service, 2049).into(), self.version, "/mnt/h"));
    }

    /// Its servers are gone: without waiting for them.
    pub fn unmount(&self) {
        self.client.run("umount -f -l /mnt/h");
    }

    /// More files, in a directory below its own.
    pub fn write(&self, step: &str) {
        let dir = self.dir(step);
        self.client.run_within(MINUTES, &WRITE.replace("DIR", &dir));
    }

    pub fn dir(&self, step: &str) -> String {
        format!("{}-{step}", self.client.name())
    }

    /// All that was written is there, but for what is `lost`, as `heorot files` lists it.
    pub fn check(&self, lost: &str) {
        self.client.run(&format!("cat >/tmp/lost <<'LOST'\n{}\nLOST\n", lost.trim_end()));
        self.client.run_within(MINUTES, CHECK);
    }

    /// Removes what is lost.
    pub fn give_up(&self, lost: &str) {
        self.check(lost);
        self.client.run_within(MINUTES, GIVE_UP);
        self.check("");
    }
}
