//! Claims of a request before its first byte is written: see [`crate::data::claim`].

use namespace::{Command, Inode, Reply, RequestId, read};

use super::Request;
use crate::Metaserver;
use crate::compound::{Step, request};
use crate::data::claim::Claim;
use crate::errors::FileError;

impl Request<'_> {
    /// Begins an attempt, and claims the request if another metaserver may have it, too. Returns the file as it is then.
    ///
    /// # Errors
    /// `Delay` if the request was answered by another metaserver.
    pub(crate) async fn claim(
        &mut self,
        server: &Metaserver,
        inode: Inode,
    ) -> Result<(Inode, Claim), FileError> {
        let Self::Compound(context) = self else { return Ok((inode, Claim { request: None, id: 0 })) };
        let of = |step| match request(context.position, step) {
            Some(RequestId::Compound(request)) => Some(request),
            _ => None,
        };
        let (claims, change) = (of(Step::Claim), of(Step::Change));
        let Some(change) = change.filter(|_| context.may_be_elsewhere && inode.columns().is_some()) else {
            return Ok((inode, Claim { request: claims, id: 0 }));
        };
        let id = server.machine.entropy.u64().max(1);
        let claim = Command::ClaimWrite { inode: inode.id, id, of: change };
        let reply = server.change_step(context, Step::Claim, |_| Ok::<_, FileError>(claim)).await;
        match reply {
            Ok(Reply::Claimed { .. }) => {}
            Ok(_) => return Err(FileError::Fault),
            // Of a request that is past, or whose file is gone.
            Err(FileError::Stale) => return Err(FileError::Stale),
            Err(_) => return Err(FileError::Delay),
        }
        let view = server.machine.view()?;
        let now = server.machine.inode(&*view, inode.id)?;
        // It would be done with the epoch of the claim, and cut off what is written.
        server.data.check_no_truncation(&*view, &now)?;
        Ok((now, Claim { request: claims, id }))
    }

    /// The file after the change that ends the request, if another metaserver has made it: the request is answered.
    ///
    /// # Errors
    /// The error with which it was refused.
    pub(crate) fn answered(&self, server: &Metaserver) -> Result<Option<Inode>, FileError> {
        let Self::Compound(context) = self else { return Ok(None) };
        let request = request(context.position, Step::Change).filter(|_| context.may_be_elsewhere);
        let Some(request) = request else { return Ok(None) };
        match read::recorded(&*server.machine.view()?, &request)? {
            Some(Reply::Attributes { inode, .. }) => Ok(Some(inode)),
            Some(Reply::Refused(error)) => Err(error.into()),
            Some(_) => Err(FileError::Fault),
            None => Ok(None),
        }
    }

    /// [`Request::claim`] for an operation that makes one attempt.
    ///
    /// # Errors
    /// `Delay` if another attempt has claimed the request.
    pub(crate) async fn claimed(&mut self, server: &Metaserver, inode: Inode) -> Result<Inode, FileError> {
        let (inode, claim) = self.claim(server, inode).await?;
        server.data.unless_claimed(&claim, inode)
    }
}
