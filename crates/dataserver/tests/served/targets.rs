//! Targets that go and come between two starts.

use std::sync::Arc;

use dataserver::TargetError;

use crate::open;

#[test]
fn a_target_that_is_gone_is_asked_for_and_not_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let (target, aside) = (dir.path().join("target"), dir.path().join("aside"));
    let start = |seed| open(dir.path(), &Arc::default(), &Arc::default(), seed);
    let id = |server: &dataserver::DataServer| server.space()[0].target;
    let first = id(&start(1).unwrap());

    // As when its disk is not mounted: nothing is there, or an empty directory.
    std::fs::rename(&target, &aside).unwrap();
    for mount_point_is_there in [false, true] {
        if mount_point_is_there {
            std::fs::create_dir(&target).unwrap();
        }
        let refused = start(2).err().expect("refused");
        assert!(matches!(refused, TargetError::Gone { id, .. } if id == first), "{refused}");
        assert!(refused.to_string().contains("is its disk mounted?"), "{refused}");
        assert_eq!(target.exists(), mount_point_is_there, "nothing was made in its place");
    }
    std::fs::remove_dir(&target).unwrap();
    std::fs::rename(&aside, &target).unwrap();
    assert_eq!(id(&start(3).unwrap()), first);

    // Who does not want it back takes its line away.
    std::fs::rename(&target, &aside).unwrap();
    let note = dir.path().join("server.targets");
    assert_eq!(std::fs::read_to_string(&note).unwrap(), format!("{first:016x} {}\n", target.display()));
    std::fs::write(&note, "").unwrap();
    assert_ne!(id(&start(4).unwrap()), first);
}
