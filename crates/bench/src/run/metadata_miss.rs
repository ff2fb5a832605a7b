//! `metadata-miss`: one client creates files through its metaserver, and clients of other metaservers read
//! them, so that these metaservers have them in no cache. The paper on replicated NFS metaservers shows the
//! time for each file against the number of metaservers: agent `i` is a client of metaserver `i`, so N agents
//! give N - 1 points.
//!
//! With one metaserver for all agents it shows the cost for another client of files that it has not seen.

use clap::Args;
use serde::Serialize;

use super::{Place, Plan};
use crate::phase::Phase;
use crate::task::{NameOperation, Names, Task};
use crate::trouble::Trouble;

#[derive(Debug, Args, Serialize)]
pub struct MetadataMiss {
    /// Empty files
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    files: u64,
}

impl Plan for MetadataMiss {
    fn phases(&self, place: &Place) -> Result<Vec<Phase>, Trouble> {
        if place.agents < 2 {
            return Err(Trouble(
                "metadata-miss needs at least two machines, one that makes files and one that reads them: start \
                 agents with --join"
                    .to_owned(),
            ));
        }
        let mut phases = Vec::new();
        // New files for each point: the readers have cached those of the previous one.
        for clients in 2..=place.agents {
            let dir = place.path(&format!("clients-{clients}"));
            let names = |operation| {
                Task::Names(Names {
                    operation,
                    dirs: vec![dir.clone()],
                    prefix: "file.".to_owned(),
                    first: 0,
                    count: self.files,
                    file_bytes: 0,
                    seed: 0,
                })
            };
            let at = [("clients", clients as u64)];
            let readers = (0..place.agents).map(|agent| match agent {
                0 => Task::Rest,
                _ if agent < clients => names(NameOperation::Read),
                _ => Task::Rest,
            });
            phases.push(place.aside(Task::Make(dir.clone())));
            phases.push(place.names_phase("create", &at, [names(NameOperation::Create)]));
            phases.push(place.names_phase("read", &at, readers));
            phases.push(place.aside(Task::Clear(dir.clone())));
        }
        Ok(phases)
    }
}
