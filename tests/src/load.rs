//! `heorot bench` on a client machine.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use bench::result::Results;

use crate::cluster::binary;
use crate::{Client, Lab};

/// The load generator, where clients see it.
pub struct Load {
    program: PathBuf,
}

impl Load {
    /// The binary under test, in the lab's folder: what is under /tmp or /mnt of this machine a client does not see.
    #[track_caller]
    pub fn new(lab: &Lab) -> Load {
        let program = lab.folder().join("heorot");
        fs::copy(binary(), &program).unwrap_or_else(|e| panic!("copy {}: {e}", binary().display()));
        Load { program }
    }

    /// `mdtest /mnt/h --files 10`, for example, which must succeed.
    #[track_caller]
    pub fn run(&self, client: &Client, timeout: Duration, run: &str) -> Results {
        let (program, file) = (self.program.display(), "/tmp/bench.json");
        let json = client.run_within(timeout, &format!("{program} bench {run} -o {file} >&2; cat {file}"));
        let start = json.find('{').unwrap_or_else(|| panic!("no results: {json}"));
        serde_json::from_str(&json[start..]).unwrap_or_else(|e| panic!("{e} in the results: {json}"))
    }
}
