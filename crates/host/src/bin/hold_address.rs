//! `hold_address ADDRESS SECONDS [listen]`: holds a service address until a signal kills the process, as a
//! metaserver does; the kernel removes the address at most SECONDS and a little later. With `listen` it
//! listens on port 2049; an IPv4 address then goes away before the listener. For tests, and to try a machine
//! and its network.

use std::net::{IpAddr, TcpListener};
use std::pin::pin;
use std::process::ExitCode;
use std::task::{Context, Poll, Waker};
use std::thread::sleep;
use std::time::Duration;

use host::interface::{ANNOUNCEMENT_GAPS, Interfaces, Patience, SystemInterfaces, announce_with_gaps, take};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (Some(Ok(address)), Some(Ok(seconds @ 1..))) =
        (words.first().map(|word| word.parse()), words.get(1).map(|word| word.parse()))
    else {
        eprintln!("usage: hold_address ADDRESS SECONDS [listen]");
        return ExitCode::from(2);
    };
    let Err(error) =
        hold(address, Duration::from_secs(seconds), words.get(2).is_some_and(|word| word == "listen"));
    eprintln!("hold_address: {error}");
    ExitCode::FAILURE
}

enum Never {}

fn hold(address: IpAddr, time: Duration, listens: bool) -> host::interface::Result<Never> {
    let mut interfaces = SystemInterfaces::open()?;
    let listener = listens.then(|| TcpListener::bind("0.0.0.0:2049"));
    if let Some(listener) = &listener {
        listener.as_ref().unwrap_or_else(|e| panic!("listen: {e}"));
        interfaces.go_with_process()?;
    }
    let interface =
        run(take(&interfaces, address, None, time, Patience::default(), |gap| async move { sleep(gap) }))?;
    println!("holds {address} on {interface}");
    std::thread::scope(|scope| {
        // Ignore errors: a lost announcement delays clients, but does not lose the address.
        scope.spawn(|| {
            run(announce_with_gaps(&interfaces, address, &interface, &ANNOUNCEMENT_GAPS, async |gap| {
                sleep(gap)
            }))
        });
        loop {
            sleep(time / 3);
            interfaces.hold(address, &interface, time)?;
        }
    })
}

/// Polls a future that sleeps in place and so is never pending.
fn run<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("it sleeps in place"),
    }
}
