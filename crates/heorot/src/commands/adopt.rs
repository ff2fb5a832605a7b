//! `heorot ds adopt`: after a restore, a data server obeys the restored group only after this command. A
//! trial restore beside the live cluster must not change the cluster's objects.

use crate::admin::api::Adopted;
use crate::admin::client::AdminClient;
use crate::admin::place::AdminArgs;
use command_line::Failure;

/// `heorot ds adopt`.
pub(crate) fn adopt(args: &AdminArgs) -> Result<(), Failure> {
    let answer: Adopted = AdminClient::find_data_server(args)?.post("/adopt")?;
    match answer.epochs.as_slice() {
        [] => Err(Failure::new(
            "nothing to adopt: no restored metaserver has answered this data server, or it keeps the metadata of another \
             name space; heorot status, and the log of the data server, say which metaservers it knows"
                .to_owned(),
        )),
        [epoch, ..] => {
            println!(
                "this data server obeys incarnation {epoch} of its metaservers from now on; metaservers of the group before \
                 the restore are refused"
            );
            Ok(())
        }
    }
}
