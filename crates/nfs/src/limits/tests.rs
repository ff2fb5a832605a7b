use super::*;

fn gate(connection: usize, server: usize) -> Arc<ReplyGate> {
    let limits = Limits {
        connection_reply_bytes_max: connection,
        server_reply_bytes_max: server * ADDRESS_PARTS,
        ..Limits::default()
    };
    reply_gate(&limits, &Budgets::new(&limits), "10.0.0.1")
}

fn reply_gate(limits: &Limits, budgets: &Budgets, address: &str) -> Arc<ReplyGate> {
    let address = address.parse().unwrap();
    ReplyGate::new(limits, budgets, address, Standing::default(), Arc::default())
}

#[tokio::test]
async fn one_payload_larger_than_the_whole_budget_goes_when_it_is_alone() {
    let gate = gate(10_000, 10_000);
    let (large, small) = (ReplyRoom::new(&gate), ReplyRoom::new(&gate));
    large.take(1 << 20).await.unwrap();
    let waiting = tokio::spawn(async move { small.take(1).await });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    drop(large);
    assert_eq!(waiting.await.unwrap(), Ok(()));
    assert_eq!(gate.metrics.reply_room.get(), 0);
}

#[tokio::test]
async fn a_second_payload_of_a_call_is_taken_at_once_or_not_at_all() {
    let gate = gate(100_000, 100_000);
    let (a, b) = (ReplyRoom::new(&gate), ReplyRoom::new(&gate));
    a.take(50_000).await.unwrap();
    b.take(40_000).await.unwrap();
    // Waiting here would be a deadlock.
    assert_eq!(a.take(50_000).await, Err(NoRoom));
    assert_eq!(b.take(50_000).await, Err(NoRoom));
    drop(b);
    assert_eq!(a.take(40_000).await, Ok(()));
    drop(a);
    assert_eq!(gate.address.replies.bytes.available_permits(), 98);
}

#[tokio::test]
async fn who_waits_for_room_stops_when_the_connection_ends() {
    let gate = gate(1000, 1000);
    let (holder, waiting) = (ReplyRoom::new(&gate), ReplyRoom::new(&gate));
    holder.take(1000).await.unwrap();
    let waiting = tokio::spawn(async move { waiting.take(1000).await });
    tokio::task::yield_now().await;
    gate.closing.close();
    assert_eq!(waiting.await.unwrap(), Err(NoRoom));
    assert!(!gate.is_pressed());
}

/// ```text
/// 10.0.0.1 takes its whole share       -> its next call waits
/// 10.0.0.2, and a member, take some    -> at once
/// ```
#[tokio::test]
async fn one_address_holds_its_share_and_no_other_waits_for_it() {
    let limits = Limits {
        connection_bytes_max: 1 << 30,
        server_bytes_max: 64 << 20,
        members_bytes_max: 4 << 20,
        ..Limits::default()
    };
    let budgets = Budgets::new(&limits);
    let gate = |address: &str| Gate::new(&limits, &budgets, address.parse().unwrap(), Standing::default());
    let bad = gate("10.0.0.1");
    let mut held = Vec::new();
    let mut all = async || loop {
        held.push(bad.admit(Length::Large(1 << 20)).await);
    };
    let waits = tokio::time::timeout(Duration::from_millis(1), all()).await;
    assert!(waits.is_err() && held.len() < 17, "{} megabytes", held.len());
    gate("10.0.0.1").admit(Length::Small(100)).await.expect("small ones have a budget of their own");
    gate("10.0.0.2").admit(Length::Large(1 << 20)).await.expect("another address");
    let member = gate("10.0.0.1");
    member.standing.set_member();
    member.admit(Length::Large(1 << 20)).await.expect("a server of ours");
}

#[test]
fn addresses_of_one_network_of_ipv6_are_one() {
    let network = |text: &str| network_of(text.parse().unwrap());
    assert_eq!(network("fd00::1:2:3:4:5"), network("fd00::1:9:9:9:9"));
    assert_ne!(network("fd00:0:0:1::5"), network("fd00:0:0:2::5"));
    assert_eq!(network("::ffff:10.0.0.1"), network("10.0.0.1"));
    assert_ne!(network("10.0.0.1"), network("10.0.0.2"));
}
