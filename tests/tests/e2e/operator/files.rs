//! Files of two clients, checked after each step: every file has its bytes, or is lost and reported as lost.

use std::net::IpAddr;
use std::time::Duration;

use tests::Client;

const MINUTES: Duration = Duration::from_secs(240);

/// Writes files with inline data, on one target, and on several. Adds their checksums to the expected ones.
const WRITE: &str = r#"
mkdir -p /mnt/h/DIR; cd /mnt/h
for n in $(seq 6); do
    head -c 3000 /dev/urandom >DIR/small$n; head -c 900000 /dev/urandom >DIR/middle$n; done
for n in $(seq 3); do head -c 5000000 /dev/urandom >DIR/big$n; done
sync; sha256sum DIR/* >>/tmp/sums
"#;

/// Reads all files from the servers. Those in /tmp/lost must give EIO, all others have their bytes.
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

/// Removes lost files; the restore of file data then writes them again, as new files.
const GIVE_UP: &str = r#"
cd /mnt/h; : >/tmp/sums.left
while read -r sum file; do
    if grep -qxF "/$file" /tmp/lost; then rm "$file"; else echo "$sum  $file" >>/tmp/sums.left; fi
done </tmp/sums
mv /tmp/sums.left /tmp/sums
"#;

/// Client with a directory of its own.
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

    /// Unmounts without waiting, since its servers are gone.
    pub fn unmount(&self) {
        self.client.run("umount -f -l /mnt/h");
    }

    /// Writes more files, in a directory below its own.
    pub fn write(&self, step: &str) {
        let dir = self.dir(step);
        self.client.run_within(MINUTES, &WRITE.replace("DIR", &dir));
    }

    pub fn dir(&self, step: &str) -> String {
        format!("{}-{step}", self.client.name())
    }

    /// Checks that all written files are there, except those in `lost`, the output of `heorot files`.
    pub fn check(&self, lost: &str) {
        self.client.run(&format!("cat >/tmp/lost <<'LOST'\n{}\nLOST\n", lost.trim_end()));
        self.client.run_within(MINUTES, CHECK);
    }

    /// Removes lost files.
    pub fn give_up(&self, lost: &str) {
        self.check(lost);
        self.client.run_within(MINUTES, GIVE_UP);
        self.check("");
    }
}
