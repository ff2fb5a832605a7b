//! `heorot clean`.

use crate::admin::api::Clean;
use crate::admin::client::AdminClient;
use crate::cli::CleanArgs;
use command_line::Failure;

/// `heorot clean`.
pub(crate) fn clean(args: &CleanArgs) -> Result<(), Failure> {
    let path = if args.after_restore { "/clean?after_restore=true" } else { "/clean" };
    let answer: Clean = AdminClient::find(&args.admin)?.post(path)?;
    if answer.targets_cleaned == 0 && !answer.not_cleaned.is_empty() {
        return Err(Failure::new(format!("not cleaned: {}", answer.not_cleaned.join(", "))));
    }
    println!("{} objects seen, {} without a file removed", answer.objects_seen, answer.objects_removed);
    for target in &answer.not_cleaned {
        eprintln!("heorot: target {target}: not cleaned");
    }
    Ok(())
}
