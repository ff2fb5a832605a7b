//! Whether everything happened: a model test whose commands are all refused shows nothing.

use std::collections::BTreeMap;

use namespace::{Command, Open, Reply, Share};

use crate::is_done;

/// How often each command was done, and each refusal given.
#[derive(Debug, Default)]
pub struct Coverage {
    done: BTreeMap<String, u32>,
    refused: BTreeMap<String, u32>,
}

const COMMANDS: [&str; 64] = [
    "Create",
    "Link",
    "Remove",
    "Rename",
    "SetAttributes",
    "Wrote",
    "WriteInline",
    "Migrate",
    "Migrated",
    "PlaceAs",
    "Relocate",
    "RaiseEpoch",
    "ClaimWrite",
    "SetStripe",
    "SetXattr",
    "RemoveXattr",
    "ExchangeId",
    "CreateSession",
    "DestroySession",
    "DestroyClient",
    "ReclaimComplete",
    "ExpireClient",
    "LapseLease",
    "RenewLease",
    "BackchannelCtl",
    "Open",
    "WriteDelegation",
    "Close",
    "OpenDowngrade",
    "Lock",
    "Unlock",
    "FreeState",
    "DelegationReturn",
    "DelegationRevoke",
    "LayoutGet",
    "LayoutCommit",
    "LayoutRecall",
    "LayoutReturn",
    "PutDataServer",
    "DefineDevice",
    "MakeChains",
    "OpenChains",
    "ChangeChains",
    "DeferredDone",
    "Format",
    "Map",
    "JoinToken",
    "Boot",
    "KeepOpen",
    "OpenOrDelegate",
    "DelegationsReturn",
    "Observe",
    "SpaceUsed",
    "MakeVolume",
    "RemoveVolume",
    "SetLimits",
    "MakeSnapshot",
    "SetSchedule",
    "RollBack",
    "MakeClone",
    "Promote",
    "CopyObjects",
    "CopiedObjects",
    "RemoveSnapshot",
];

/// All but `TooManyLinks`, which takes 65,000 of them, `TooManyStates`, which takes a million, `NoXattrRoom`, which
/// takes 256 KiB, `TooManyVolumes`, `TooManyInodes`, `ClonesTooDeep` and
/// `TooManySnapshots`; `ReadOnly` and `Promotes` have stories of their own.
const REFUSALS: [&str; 43] = [
    "NoEntry",
    "Exists",
    "Stale",
    "NotDirectory",
    "IsDirectory",
    "WrongType",
    "IsSymlink",
    "NotEmpty",
    "Invalid",
    "TooLarge",
    "NotSync",
    "Delay",
    "StaleClient",
    "ClientInUse",
    "ClientBusy",
    "NotConfirmed",
    "NotSame",
    "Permission",
    "Misordered",
    "BadSession",
    "CompleteAlready",
    "BadStateid",
    "OldStateid",
    "ShareDenied",
    "OpenMode",
    "BadRange",
    "LocksHeld",
    "NoDevice",
    "NoXattr",
    "XattrTooBig",
    "DelegationRevoked",
    "Denied",
    "Delegated",
    "OtherVolume",
    "VolumeRoot",
    "NotVolume",
    "HoldsVolumes",
    "FilesOpen",
    "Quota",
    "HoldsSnapshots",
    "NewerSnapshots",
    "HoldsClones",
    "NotClone",
];

impl Coverage {
    pub fn note(&mut self, command: &Command, reply: &Reply) {
        let table = if is_done(reply) { &mut self.done } else { &mut self.refused };
        let what = match reply {
            Reply::Refused(error) => format!("{error:?}"),
            Reply::Denied(_) => "Denied".to_string(),
            Reply::Delegated { .. } => "Delegated".to_string(),
            _ => format!("{command:?}").split([' ', '(', '{']).next().unwrap_or_default().to_string(),
        };
        *table.entry(what).or_default() += 1;
        if let (Command::Open(Open { access, .. }), Reply::Opened { delegation: Some(_), .. }) =
            (command, reply)
            && access.contains(Share::WRITE)
        {
            *self.done.entry("WriteDelegation".into()).or_default() += 1;
        }
    }

    pub fn assert_everything_happened(&self) {
        println!("done: {:?}\nrefused: {:?}", self.done, self.refused);
        for (table, all) in [(&self.done, &COMMANDS[..]), (&self.refused, &REFUSALS[..])] {
            for what in all {
                assert!(
                    table.get(*what).is_some_and(|times| *times >= 5),
                    "{what} happened too seldom: {self:?}"
                );
            }
        }
    }
}
