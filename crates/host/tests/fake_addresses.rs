//! Service addresses on a simulated network: their holders over time.

use std::future::ready;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use host::ManualClock;
use host::interface::{
    ANNOUNCEMENT_GAPS, EXPIRY_LATE_MAX, Error, FakeInterfaces, FakeNetwork, Interfaces, Patience, Result,
    announce_with_gaps, take,
};

const TIME: Duration = Duration::from_secs(6);
const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 1, 50));

struct Network {
    clock: Arc<ManualClock>,
    network: Arc<FakeNetwork>,
}

impl Network {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let network = FakeNetwork::new(Arc::clone(&clock) as _);
        Self { clock, network }
    }

    fn take(&self, interfaces: &FakeInterfaces) -> Result<String> {
        let sleep = async |gap| self.clock.advance(gap);
        run(take(interfaces, ADDRESS, None, TIME, Patience::default(), sleep))
    }

    fn announce(&self, interfaces: &FakeInterfaces) -> Result<()> {
        let second = Duration::from_secs(1);
        let sleep = async |gap| self.clock.advance(gap);
        run(announce_with_gaps(interfaces, ADDRESS, "eth0", &[second; 3], sleep))
    }
}

#[test]
fn an_address_has_one_holder_until_that_one_stops_renewing() {
    let test = Network::new();
    let [a, b] = ["a", "b"].map(|name| test.network.join(name));
    assert_eq!(test.take(&a).expect("free"), "eth0");
    assert_eq!(test.network.reached(ADDRESS).as_deref(), Some("a"));

    for _ in 0..10 {
        test.clock.advance(TIME / 3);
        a.hold(ADDRESS, "eth0", TIME).expect("renew");
        assert!(matches!(test.take(&b), Err(Error::InUse { .. })));
        assert_eq!(test.network.holders(ADDRESS), ["a"]);
    }
    a.hold(ADDRESS, "eth0", TIME).expect("renew");
    test.clock.advance(TIME);
    assert_eq!(test.network.holders(ADDRESS), ["a"], "Linux may be late");
    test.clock.advance(EXPIRY_LATE_MAX);
    assert!(test.network.holders(ADDRESS).is_empty());
    assert_eq!(test.network.reached(ADDRESS), None);
    test.take(&b).expect("free");
    assert_eq!(test.network.reached(ADDRESS).as_deref(), Some("b"));
}

#[test]
fn a_machine_that_is_cut_off_is_not_heard_so_that_only_time_tells_when_its_address_is_free() {
    let test = Network::new();
    let [a, b] = ["a", "b"].map(|name| test.network.join(name));
    test.take(&a).expect("free");
    a.set_cut_off(true);
    test.take(&b).expect("nobody answers");
    assert_eq!(test.network.holders(ADDRESS), ["a", "b"], "what an oracle must find");
    assert_eq!(test.network.reached(ADDRESS).as_deref(), Some("b"));
    test.clock.advance(TIME + EXPIRY_LATE_MAX - Duration::from_millis(300));
    assert_eq!(test.network.holders(ADDRESS), ["b"]);
}

#[test]
fn nobody_announces_an_address_that_has_moved_on() {
    let test = Network::new();
    let [a, b] = ["a", "b"].map(|name| test.network.join(name));
    test.take(&a).expect("free");
    a.release(ADDRESS).expect("release");
    test.take(&b).expect("free");
    test.announce(&a).expect("nothing to do");
    assert_eq!(test.network.reached(ADDRESS).as_deref(), Some("b"));
    // The true holder repairs the neighbours' caches by an announcement.
    a.announce(ADDRESS, "eth0").expect("a liar");
    assert_eq!(test.network.reached(ADDRESS), None);
    test.announce(&b).expect("announce");
    assert_eq!(test.network.reached(ADDRESS).as_deref(), Some("b"));
}

#[test]
fn a_restarted_server_finds_what_it_held() {
    let test = Network::new();
    let a = test.network.join("a");
    test.take(&a).expect("free");
    test.clock.advance(TIME / 2);
    assert_eq!(a.held().expect("held")[0].left, TIME / 2);
    test.take(&a).expect("ours");
    assert_eq!(a.held().expect("held")[0].left, TIME);
}

#[test]
fn refusals_are_those_of_real_interfaces() {
    let test = Network::new();
    let a = test.network.join("a");
    a.add_permanent(ADDRESS);
    assert!(matches!(a.hold(ADDRESS, "eth0", TIME), Err(Error::Administrators { .. })));
    a.release(ADDRESS).expect("nothing to do");
    assert_eq!(test.network.holders(ADDRESS), ["a"]);
    assert!(matches!(a.find(ADDRESS, Some("eth1")), Err(Error::NoInterface(_))));
    assert!(matches!(a.find("224.0.0.1".parse().expect("one"), None), Err(Error::NotUnicast(_))));
    a.set_forbidden(true);
    assert!(matches!(a.hold(ADDRESS, "eth0", TIME), Err(Error::NotAllowed)));
}

#[test]
fn taking_can_be_a_task_of_its_own() {
    let test = Network::new();
    let interfaces: Arc<dyn Interfaces> = Arc::new(test.network.join("a"));
    let task: Pin<Box<dyn Future<Output = Result<()>> + Send>> = Box::pin(async move {
        let interfaces = &*interfaces;
        let interface = take(interfaces, ADDRESS, None, TIME, Patience::default(), |_| ready(())).await?;
        announce_with_gaps(interfaces, ADDRESS, &interface, &ANNOUNCEMENT_GAPS, |_| ready(())).await
    });
    run(task).expect("taken");
    assert_eq!(test.network.reached(ADDRESS).as_deref(), Some("a"));
}

fn run<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("its sleep moves the clock"),
    }
}
