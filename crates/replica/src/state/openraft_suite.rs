//! openraft's own tests of a log and a state machine, run on ours.

use std::sync::Arc;

use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use store::MemoryStore;
use tempfile::TempDir;

use crate::environment::{BlockingRunner, Environment};
use crate::log::{Log, StoreState};
use crate::state::integrity::Integrity;
use crate::state::machine::{Machine, MachineContext, Observer};
use crate::types::Types;
use host::watch;

struct Builder;

impl StoreBuilder<Types, Log, Machine, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, Log, Machine), StorageError<Types>> {
        let dir = tempfile::tempdir().expect("a folder");
        let log = Log::open(&Environment::default(), &dir.path().join("log"), StoreState::default())
            .expect("an empty log");
        let store = Arc::new(MemoryStore::new());
        let (progress, failed) = (watch::channel(0).0, Arc::new(watch::channel(None).0));
        let files = Arc::new(host::SystemFiles);
        let integrity = Arc::new(Integrity::new(files, dir.path().to_owned(), Arc::clone(&failed), None));
        let (observer, history, runner): (Arc<dyn Observer>, _, _) =
            (Arc::new(()), Arc::default(), BlockingRunner(None));
        let context =
            MachineContext { observer, progress, failed, runner, plan: namespace::plan, history, integrity };
        let machine = Machine::new(store, log.clone(), context).expect("an empty store");
        Ok((dir, log, machine))
    }
}

#[tokio::test]
async fn log_and_state_machine_keep_what_openraft_asks_of_them() {
    Suite::test_all(Builder).await.expect("every one of them");
}
