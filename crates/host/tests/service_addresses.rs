//! Service addresses on real interfaces, in network namespaces of this machine's kernel. Needs root.

mod lan;

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread::sleep;
use std::time::{Duration, Instant};

use host::interface::{
    EXPIRY_LATE_MAX, Error, Interfaces, Patience, Result, SystemInterfaces, owner_elsewhere, take,
};
use lan::{Lan, wait_until};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

const TIME: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_secs(600);
/// Tolerance for a check on a busy machine.
const LOOKED_LATE: Duration = Duration::from_millis(700);

fn both() -> [IpAddr; 2] {
    ["10.77.1.50".parse().expect("an address"), "fd77::50".parse().expect("an address")]
}

#[test]
fn an_address_stays_while_it_is_renewed_and_goes_when_its_holder_is_killed_or_hangs() {
    let lan = Lan::new(1);
    let holders = [
        ("10.77.1.50", Signal::KILL),
        ("10.77.1.51", Signal::STOP),
        ("fd77::50", Signal::KILL),
        ("fd77::51", Signal::STOP),
    ]
    .map(|(address, signal)| {
        let address = address.parse().expect("an address");
        (address, signal, lan.start_holder(1, address, TIME.as_secs()))
    });
    let began = Instant::now();
    while began.elapsed() < TIME * 2 + EXPIRY_LATE_MAX {
        for (address, ..) in &holders {
            assert!(lan.has(1, *address), "{address} went after {:?}", began.elapsed());
        }
        sleep(Duration::from_millis(100));
    }
    for (_, signal, holder) in &holders {
        kill_process(Pid::from_child(&holder.0), *signal).expect("it runs");
    }
    let signalled = Instant::now();
    for (address, ..) in &holders {
        assert!(lan.has(1, *address), "{address} went at once: that is not the kernel's doing");
    }
    for (address, signal, _) in &holders {
        wait_until("the kernel removes it", || !lan.has(1, *address));
        let took = signalled.elapsed();
        assert!(took < TIME + EXPIRY_LATE_MAX + LOOKED_LATE, "{address} went {took:?} after {signal:?}");
    }
}

#[test]
fn an_address_of_a_killed_process_is_gone_before_anybody_is_refused() {
    let lan = Lan::new(2);
    let address = both()[0];
    let service = SocketAddr::new(address, 2049);
    for _ in 0..5 {
        let holder = lan.start_listening_holder(1, address, LONG.as_secs());
        let connected = lan.on(2, || TcpStream::connect(service)).expect("the neighbour answers for it");
        let killer = Pid::from_child(&holder.0);
        lan.on(2, || {
            kill_process(killer, Signal::KILL).expect("it runs");
            while lan.has(1, address) {
                // The connection may still be accepted, and then gets no answer.
                let tried = TcpStream::connect_timeout(&service, Duration::from_millis(20));
                let refused = tried.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused);
                assert!(!refused, "the listener went before the address");
            }
        });
        drop((connected, holder));
    }
}

#[test]
fn a_client_that_waits_is_told_by_the_next_holder() {
    let lan = Lan::new(3);
    let address = both()[0];
    let service = SocketAddr::new(address, 2049);
    for number in [1, 2] {
        let listener = lan.on(number, || TcpListener::bind("0.0.0.0:2049").expect("listen"));
        std::mem::forget(listener); // lets everybody in, and says nothing, until this process ends
    }
    lan.on(1, || take_now(address, None)).expect("it is free");
    let mut waiting = lan.on(3, || TcpStream::connect(service)).expect("connect");
    lan.on(1, || system().release(address)).expect("release");
    lan.on(2, || {
        take_now(address, None).expect("it is free");
        for sequence in [7, 0x8000_0007] {
            system().tickle(service, waiting.local_addr().expect("it has one"), sequence).expect("tickle");
        }
    });
    waiting.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
    let told = waiting.read(&mut [0]).expect_err("nobody says anything there");
    assert_eq!(told.kind(), std::io::ErrorKind::ConnectionReset);

    // A client that is connected to the present holder is not affected.
    let mut good = lan.on(3, || TcpStream::connect(service)).expect("connect");
    lan.on(2, || system().tickle(service, good.local_addr().expect("it has one"), 7)).expect("tickle");
    good.set_read_timeout(Some(Duration::from_millis(300))).expect("a time-out");
    let waited = good.read(&mut [0]).expect_err("nobody says anything there");
    assert_eq!(waited.kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn an_address_leaves_within_the_time_that_the_next_holder_waits() {
    let lan = Lan::new(1);
    lan.on(1, || {
        let interfaces = system();
        // Expiry times within one second: the kernel prefers to check at whole seconds, at most once in each.
        let mut held = Vec::new();
        for number in 50..58 {
            for address in [format!("10.77.1.{number}"), format!("fd77::{number}")] {
                let address: IpAddr = address.parse().expect("an address");
                interfaces.hold(address, "eth0", TIME).expect("hold");
                held.push((address, Instant::now()));
            }
            sleep(Duration::from_millis(130));
        }
        for (address, since) in held {
            wait_until("it goes", || !interfaces.holds(address).expect("held"));
            let late = since.elapsed().saturating_sub(TIME);
            assert!(late < EXPIRY_LATE_MAX + LOOKED_LATE, "{address}: {late:?} late");
        }
    });
}

#[test]
fn an_announcement_corrects_what_a_neighbour_had_cached() {
    let lan = Lan::new(2);
    for address in both() {
        lan.ip(2, &format!("neigh replace {address} lladdr 02:00:00:00:00:99 nud reachable dev eth0"));
        lan.on(1, || {
            let interfaces = system();
            interfaces.hold(address, "eth0", LONG).expect("hold");
            assert_eq!(
                lan.neighbour(2, address).as_deref(),
                Some("02:00:00:00:00:99"),
                "holding tells nobody"
            );
            interfaces.announce(address, "eth0").expect("announce");
        });
        wait_until("the neighbour knows", || lan.neighbour(2, address) == Some(lan.mac(1)));
    }
}

#[test]
fn an_address_in_use_elsewhere_is_refused_with_the_mac_of_who_has_it() {
    let lan = Lan::new(2);
    for address in both() {
        let (prefix, nodad) = if address.is_ipv4() { (24, "") } else { (64, "nodad") };
        lan.ip(2, &format!("addr add {address}/{prefix} dev eth0 {nodad}"));
        let error = lan.on(1, || take_now(address, None)).expect_err("it is in use").to_string();
        assert!(
            error.contains(&format!("{address} is in use on eth0")) && error.contains(&lan.mac(2)),
            "{error}"
        );
        assert!(!lan.has(1, address));

        // The owner dies. An entry in the kernel's neighbour table is no owner.
        assert_eq!(lan.neighbour(1, address), Some(lan.mac(2)));
        lan.ip(2, &format!("addr del {address}/{prefix} dev eth0"));
        lan.on(1, || take_now(address, None)).expect("it is free");
        assert!(lan.has(1, address));
        // Now the other machine must not take the address.
        let error = lan.on(2, || take_now(address, None)).expect_err("it is in use").to_string();
        assert!(error.contains(&lan.mac(1)), "{error}");
    }
}

#[test]
fn a_search_for_an_owner_ends_when_it_should() {
    let lan = Lan::new(1);
    for address in both() {
        let patience = Patience { solicitations: 3, gap: Duration::from_millis(50) };
        let slept = Mutex::new(Vec::new());
        let found = lan.on(1, || {
            run(owner_elsewhere(&system(), address, "eth0", patience, async |gap| {
                slept.lock().push(gap);
                sleep(gap);
            }))
        });
        assert!(found.expect("asked").is_none());
        assert_eq!(*slept.lock(), [patience.gap; 3]);
    }
}

#[test]
fn clients_reach_the_next_holder_of_a_dead_ones_address() {
    let lan = Lan::new(3);
    for number in [1, 2] {
        let listener = lan.on(number, || TcpListener::bind("[::]:2049").expect("listen"));
        std::thread::spawn(move || answer_with(number, &listener)); // until this process ends
    }
    for address in both() {
        let service = SocketAddr::new(address, 2049);
        let answered_by = || lan.on(3, || ask(service));
        let holder = lan.start_holder(1, address, 1);
        assert_eq!(answered_by(), Some(1));
        assert_eq!(lan.neighbour(3, address), Some(lan.mac(1)));

        kill_process(Pid::from_child(&holder.0), Signal::KILL).expect("it runs");
        wait_until("the second machine may have it", || lan.on(2, || take_now(address, None)).is_ok());
        assert!(!lan.has(1, address), "two machines have {address}");
        wait_until("the client reaches it", || answered_by() == Some(2));
        assert_eq!(lan.neighbour(3, address), Some(lan.mac(2)));
    }
}

#[test]
fn the_interface_is_the_one_with_the_smallest_network_that_has_the_address() {
    let lan = Lan::new(1);
    lan.ip(1, "link add wide type veth peer name wide2");
    lan.ip(1, "addr add 10.77.0.1/16 dev wide");
    lan.ip(1, "addr add fd77::1:0:0:1/48 dev wide nodad");
    lan.on(1, || {
        let interfaces = system();
        let find = |address: &str, named| interfaces.find(address.parse().expect("an address"), named);
        assert_eq!(find("10.77.1.50", None).expect("found"), "eth0");
        assert_eq!(find("10.77.2.50", None).expect("found"), "wide");
        assert_eq!(find("fd77::50", None).expect("found"), "eth0");
        assert_eq!(find("fd77:0:0:2::50", None).expect("found"), "wide");
        assert_eq!(find("127.0.0.9", None).expect("found"), "lo");
        assert_eq!(find("10.77.1.50", Some("wide")).expect("found"), "wide");
        assert!(matches!(find("10.78.0.1", None), Err(Error::NoNetwork(_))));
        assert!(matches!(find("fd78::1", None), Err(Error::NoNetwork(_))));
        assert!(matches!(find("10.77.1.50", Some("eth7")), Err(Error::NoInterface(_))));
        for no_machines in ["0.0.0.0", "224.0.0.1", "255.255.255.255", "::", "ff02::1", "fe80::1"] {
            assert!(matches!(find(no_machines, None), Err(Error::NotUnicast(_))), "{no_machines}");
        }
        // A service address is no network: for the next address the administrator's network is used.
        interfaces.hold("10.77.2.50".parse().expect("one"), "eth0", LONG).expect("hold");
        assert_eq!(find("10.77.2.50", None).expect("found"), "wide");
    });
}

#[test]
fn what_an_earlier_life_left_is_taken_over_and_the_administrators_is_left_alone() {
    let lan = Lan::new(1);
    for (address, own) in both().into_iter().zip(["10.77.1.60", "fd77::60"]) {
        let (prefix, own) = if address.is_ipv4() { (24, own) } else { (64, own) };
        lan.ip(1, &format!("addr add {own}/{prefix} dev eth0"));
        let own: IpAddr = own.parse().expect("an address");
        lan.on(1, || {
            system().hold(address, "eth0", TIME).expect("hold");
            let interfaces = system();
            let left = |interfaces: &SystemInterfaces| {
                let held = interfaces.held().expect("held");
                held.into_iter().map(|h| (h.address, h.interface, h.left)).collect::<Vec<_>>()
            };
            assert_eq!(left(&interfaces), [(address, "eth0".to_owned(), TIME)]);
            assert_eq!(take_now(address, None).expect("ours"), "eth0");
            assert_eq!(left(&interfaces), [(address, "eth0".to_owned(), LONG)]);

            let error = take_now(own, None).expect_err("the administrator's");
            assert!(matches!(error, Error::Administrators { .. }), "{error}");
            interfaces.release(own).expect("nothing to do");
            assert!(lan.has(1, own));

            // The address moves to another interface and leaves the first.
            interfaces.hold(address, "lo", LONG).expect("hold");
            assert_eq!(left(&interfaces), [(address, "lo".to_owned(), LONG)]);
            interfaces.announce(address, "lo").expect("nobody to tell");
            interfaces.release(address).expect("release");
            interfaces.release(address).expect("nothing to do");
            assert!(!lan.has(1, address) && left(&interfaces).is_empty());
        });
    }
    let addresses = lan.ip(1, "-o addr show eth0");
    assert!(addresses.contains("10.77.1.1/24") && addresses.contains("fd77::1/64"), "{addresses}");
}

#[test]
fn an_address_of_ipv6_serves_but_is_no_source() {
    let lan = Lan::new(2);
    let address = both()[1];
    lan.on(1, || system().hold(address, "eth0", LONG)).expect("hold");
    let listener = lan.on(1, || TcpListener::bind((address, 2049)).expect("it is not tentative"));
    lan.on(2, || TcpStream::connect((address, 2049)).expect("connect"));
    drop(listener);
    let route = lan.ip(1, "route get fd77::2");
    assert!(route.contains("src fd77::1 "), "{route}");
}

#[test]
fn who_may_not_change_addresses_is_told_what_to_do() {
    let lan = Lan::new(1);
    for missing in [CapabilitySet::NET_ADMIN, CapabilitySet::NET_RAW] {
        lan.on(1, || {
            let mut sets = capabilities(None).expect("capabilities");
            sets.effective.remove(missing);
            set_capabilities(None, sets).expect("fewer");
            let error = SystemInterfaces::open().expect_err("not allowed");
            assert!(matches!(error, Error::NotAllowed), "{error}");
            assert!(error.to_string().contains("leave service_addresses out"), "{error}");
        });
    }
    // And a process that loses the permission later.
    lan.on(1, || {
        let interfaces = system();
        set_capabilities(
            None,
            rustix::thread::CapabilitySets {
                effective: CapabilitySet::empty(),
                permitted: CapabilitySet::empty(),
                inheritable: CapabilitySet::empty(),
            },
        )
        .expect("none");
        let error = interfaces.hold(both()[0], "eth0", LONG).expect_err("not allowed");
        assert!(matches!(error, Error::NotAllowed), "{error}");
    });
}

#[test]
fn a_link_that_cannot_ask_says_so() {
    let lan = Lan::new(1);
    let [v4, v6] = both();
    lan.on(1, || {
        let interfaces = system();
        lan.ip(1, "addr flush dev eth0 scope link");
        assert!(matches!(interfaces.solicit(v6, "eth0"), Err(Error::NoLinkLocal(_))));
        lan.ip(1, "link set eth0 down");
        let error = interfaces.announce(v4, "eth0").expect_err("the link is down").to_string();
        assert!(error.contains("send a frame on eth0"), "{error}");
        lan.ip(1, "link del eth0");
        assert!(matches!(interfaces.hold(v4, "eth0", LONG), Err(Error::NoInterface(_))));
        assert!(matches!(interfaces.announce(v4, "eth0"), Err(Error::NoInterface(_))));
    });
}

fn system() -> SystemInterfaces {
    SystemInterfaces::open().unwrap_or_else(|e| panic!("{e}"))
}

fn take_now(address: IpAddr, named: Option<&str>) -> Result<String> {
    run(take(&system(), address, named, LONG, Patience::default(), |gap| async move { sleep(gap) }))
}

fn answer_with(number: u8, listener: &TcpListener) {
    for stream in listener.incoming() {
        // The client may be gone.
        let _ = stream.and_then(|mut stream| stream.write_all(&[number]));
    }
}

/// Number of the machine that answers.
fn ask(service: SocketAddr) -> Option<u8> {
    let mut stream = TcpStream::connect_timeout(&service, Duration::from_millis(500)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let mut answer = [0];
    stream.read_exact(&mut answer).ok()?;
    Some(answer[0])
}

/// Polls a future that sleeps in place and so is never pending.
fn run<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("it sleeps in place"),
    }
}
