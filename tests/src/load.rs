//! `heorot bench` on a client machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bench::result::Results;

use crate::cluster::binary;
use crate::{Client, Lab};

/// Load generator, at a path that clients see.
pub struct Load {
    program: PathBuf,
}

impl Load {
    /// Copies the programs under test to the lab's folder: a client does not see /tmp and /mnt of this
    /// machine.
    #[track_caller]
    pub fn new(lab: &Lab) -> Load {
        for name in ["heorot", "heorot-bench"] {
            let program = binary().with_file_name(name);
            fs::copy(&program, lab.folder().join(name))
                .unwrap_or_else(|e| panic!("copy {}: {e}", program.display()));
        }
        Load { program: lab.folder().join("heorot") }
    }

    /// Path of `heorot` on a client; heorot-bench is beside it.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Runs `heorot bench` with arguments such as `mdtest /mnt/h --files 10`; it must succeed.
    #[track_caller]
    pub fn run(&self, client: &Client, timeout: Duration, run: &str) -> Results {
        let (program, file) = (self.program.display(), "/tmp/bench.json");
        let json = client.run_within(timeout, &format!("{program} bench {run} -o {file} >&2; cat {file}"));
        let start = json.find('{').unwrap_or_else(|| panic!("no results: {json}"));
        serde_json::from_str(&json[start..]).unwrap_or_else(|e| panic!("{e} in the results: {json}"))
    }
}
