//! ATTACH and COPY of columns without copies; `chain::calls` has those of others.

use wire::data::{Status, attach, copy};

use super::DataProgram;
use crate::found::Found;
use crate::list::name;

impl DataProgram {
    pub(super) async fn attach(&self, args: attach::Args) -> attach::Res {
        let Found { target, object, .. } = self.find(&args.handle)?;
        // A copy takes no time there, and leaves nothing to be done.
        if target.reflinks() {
            return Err(Status::NotSupported);
        }
        let base = name(&args.base);
        target.run(move |o| o.attach(object, base)).await.map_err(|e| self.refusal(&target, &object.name, e))
    }

    pub(super) async fn copy(&self, args: copy::Args) -> copy::Res {
        let Found { target, object, .. } = self.find(&args.handle)?;
        let copy::Args { source, address, pieces, stable, .. } = args;
        // Before the first byte is written: as with a write.
        let verifier = target.objects().verifier();
        match self.find(&source) {
            Ok(Found { target: from_target, object: from, .. }) => {
                let work = target.run(move |o| o.copy(object, from_target.objects(), from, &pieces));
                work.await.map_err(|e| self.refusal(&target, &object.name, e))?;
            }
            Err(Status::NotFound) => {
                self.chains.pull().pull(&target, object, &address, source, &pieces).await?
            }
            Err(status) => return Err(status),
        }
        if stable {
            target
                .run(move |o| o.commit(object))
                .await
                .map_err(|e| self.refusal(&target, &object.name, e))?;
            if target.objects().verifier() != verifier {
                return Err(Status::NoSpace);
            }
        }
        Ok(copy::ResOk { verifier })
    }
}
