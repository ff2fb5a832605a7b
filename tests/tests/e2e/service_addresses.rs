//! Service addresses, added and removed while real clients work.

use std::net::IpAddr;
use std::time::Duration;

use tests::{Client, Lab, Metaservers, Running};

const MINUTE: Duration = Duration::from_secs(60);
/// Time limit for a client without its address: it retries every 15 s at the latest after the address is
/// back.
const BACK_TIME_MAX: Duration = Duration::from_secs(120);

/// Creates, reads and removes a file repeatedly until /tmp/stop exists: prints the number of rounds, and
/// notes each in /tmp/beat.
fn works(client: &Client) -> Running {
    client.spawn(
        "n=0; until [ -e /tmp/stop ]; do n=$((n + 1)); f=/mnt/h/$(hostname).$n; echo $n >$f && [ $(cat $f) = $n ] && rm $f || \
         { echo \"failed at $n\"; exit 1; }; echo $n >/tmp/beat; done; echo worked",
    )
}

/// Waits for progress of `client`.
#[track_caller]
fn goes_on(client: &Client, within: Duration) {
    client.run_within(within, "was=$(cat /tmp/beat 2>/dev/null || true); while [ \"$(cat /tmp/beat 2>/dev/null || true)\" = \"$was\" ]; do sleep 0.05; done");
}

/// ```text
/// ash works over the first address, elm over the second
/// a third is added          oak mounts it; ash and elm continue
/// the second is removed     elm waits, ash and oak continue
/// the second is added       elm continues, without an error
/// ```
#[test]
fn an_address_that_is_added_can_be_mounted_and_one_that_is_removed_holds_up_its_own_clients_alone() {
    let lab = Lab::open();
    let mut cluster = Metaservers::start(&lab, 3, 1, 2);
    let (ash, elm, oak) = (lab.client("ash"), lab.client("elm"), lab.client("oak"));
    cluster.mount(&ash, 0, "vers=4.2");
    cluster.mount(&elm, 1, "vers=4.2");
    let [a, b, c, last] = match cluster.service(1) {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(_) => panic!("the lab has addresses of IPv4"),
    };
    let (second, third) = (cluster.service(1).to_string(), IpAddr::from([a, b, c, last + 1]));
    let (ash_works, elm_works) = (works(&ash), works(&elm));
    goes_on(&ash, MINUTE);
    goes_on(&elm, MINUTE);

    cluster.heorot(0, &["service-address", "add", &third.to_string()]);
    cluster.wait_until("the third address is held", |cluster| cluster.holder(third).is_some());
    cluster.mount_from(&oak, third, "vers=4.2");
    let oak_works = works(&oak);
    for client in [&ash, &elm, &oak] {
        goes_on(client, MINUTE);
    }

    let removed = cluster.service(1);
    cluster.heorot(1, &["service-address", "remove", &second]);
    cluster.wait_until("the second address is held by none", |cluster| cluster.holder(removed).is_none());
    let listed = cluster.heorot(2, &["service-address", "list"]);
    assert!(!listed.contains(&second) && listed.contains(&third.to_string()), "{listed}");
    let stopped_at = elm.run("cat /tmp/beat");
    for client in [&ash, &oak] {
        goes_on(client, MINUTE);
        goes_on(client, MINUTE);
    }
    // One operation may have been answered at the removal of the address.
    let now = elm.run("cat /tmp/beat");
    let number = |text: &str| text.trim().parse::<u64>().expect("a number");
    assert!(number(&now) <= number(&stopped_at) + 1, "elm has no address: {stopped_at} {now}");
    assert!(!elm_works.is_done(), "elm waits");

    cluster.heorot(0, &["service-address", "add", &second]);
    goes_on(&elm, BACK_TIME_MAX);
    for (client, running) in [(&ash, ash_works), (&elm, elm_works), (&oak, oak_works)] {
        client.run("touch /tmp/stop");
        assert_eq!(running.wait(MINUTE).must_succeed("the work"), "worked\n");
        client.run("umount /mnt/h; rm /tmp/stop /tmp/beat");
    }
}
