//! Targets after errors of their disks.

use host::{SeededEntropy, SystemClock};
use nfs::TcpNetwork;
use wire::data::Status;

use super::*;

#[test]
fn a_target_whose_data_server_has_started_again_fails_no_longer() {
    let key = PeerKey { cluster: [1; 16], secret: [2; 32] };
    let (clock, entropy) = (Arc::new(SystemClock::default()), Arc::new(SeededEntropy::new(1)));
    let servers = DataServers::new(Arc::new(TcpNetwork), key, clock, entropy);
    let run = |process| DataServer {
        id: DataServerId(1),
        name: "ds".into(),
        addresses: vec!["127.0.0.1:2050".into()],
        service_address: None,
        zone: String::new(),
        targets: vec![TargetId(7), TargetId(8)],
        process,
    };
    let unfit = || [7, 8].map(|target| servers.is_unfit(TargetId(target)));
    servers.put(&run(1), None);
    servers.refused(TargetId(7), Status::Io);
    servers.refused(TargetId(8), Status::NoSpace);
    assert_eq!(unfit(), [true, true]);
    servers.put(&run(1), None);
    assert_eq!(unfit(), [true, true], "the same process");
    servers.put(&run(2), None);
    assert_eq!(unfit(), [false, false]);
}
