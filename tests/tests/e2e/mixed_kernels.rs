//! Clients of all installed kernels, on one cluster at the same time.

use std::time::Duration;

use tests::{Client, Cluster, Kernel, Lab, scripts};

/// Time limit for a busy machine, and for a kernel in QEMU without KVM.
const SLOW: Duration = Duration::from_secs(300);
const COUNTS_EACH: usize = 15;
const APPENDS_EACH: usize = 40;
/// Larger than inline data, so that appends go to data servers.
const RECORD_BYTES: usize = 8192;

#[test]
#[ignore = "make clients: needs kernels that make setup does not install"]
fn clients_of_all_kernels_agree() {
    let kernels = Kernel::installed();
    assert!(kernels.len() > 1, "only {kernels:?}: run scripts/setup-kernels.sh");
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, 4);
    let clients: Vec<Client> = kernels.iter().map(|kernel| lab.client_with(*kernel, kernel.name())).collect();
    for client in &clients {
        println!("{} runs Linux {}", client.name(), client.kernel());
        cluster.mount(client, "vers=4.2");
    }

    // All increment a number under flock.
    clients[0].run("echo 0 >/mnt/h/count");
    all(&clients, |_| scripts::count_under_lock("/mnt/h/count", u32::try_from(COUNTS_EACH).expect("few")));
    for client in &clients {
        assert_eq!(client.run("cat /mnt/h/count").trim(), (COUNTS_EACH * clients.len()).to_string());
    }

    // All append records to one file under a lock: none is lost, none is torn, all clients see the same.
    let file = "/mnt/h/appended";
    let letter = |number| char::from(b'a' + u8::try_from(number).expect("few kernels"));
    all(&clients, |number| scripts::append_records(file, letter(number), RECORD_BYTES, APPENDS_EACH));
    let expected: String = (0..clients.len()).map(|n| format!("{APPENDS_EACH} {}\n", letter(n))).collect();
    for client in &clients {
        let seen = client.run_within(SLOW, &scripts::count_records(file, RECORD_BYTES));
        assert_eq!(seen, expected, "records as {} sees them", client.name());
    }

    // Each in turn writes a file that all others then read; a delegation or layout has to be recalled first.
    for (turn, writer) in clients.iter().enumerate() {
        let bytes = [3_000_000, 10, 0, 1_500_001][turn % 4];
        let write = format!(
            "head -c {bytes} /dev/urandom >/tmp/new; cat /tmp/new >/mnt/h/shared; sha256sum </tmp/new"
        );
        let sum = writer.run_within(SLOW, &write);
        for reader in &clients {
            let read = reader.run_within(SLOW, "sha256sum </mnt/h/shared");
            assert_eq!(read, sum, "{} wrote, {} reads", writer.name(), reader.name());
        }
    }
    for client in &clients {
        client.run_within(SLOW, "umount /mnt/h");
    }
}

fn all(clients: &[Client], script: impl Fn(usize) -> String) {
    let begin = |(number, client): (usize, &Client)| {
        let script = script(number);
        (client.spawn(&script), script)
    };
    let running: Vec<_> = clients.iter().enumerate().map(begin).collect();
    for (running, script) in running {
        running.wait(SLOW).must_succeed(&script);
    }
}
