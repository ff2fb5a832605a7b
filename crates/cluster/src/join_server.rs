//! Join server: a machine with a join token gets the cluster's secret, unless a check fails that is better
//! mended first.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use host::{Clock, Entropy, SystemClock};
use namespace::{Command, DataServer, Error, Proposal, Reply as Done, Stamp, Time, TokenChange, read};
use nfs::{Answer, Connection, ConnectionId, Program};
use parking_lot::Mutex;
use replica::{Member, Replica};
use wire::join::{
    self, Call, Nonce, OWN_ID, PROTOCOL, Refusal, Reply, Token, Word, client_proof, enter, hello, null,
    proof_matches, seal, server_proof,
};
use wire::rpc::CallHeader;
use wire::xdr::{Decoder, Encode, Encoder};

/// Largest accepted difference of two clocks. Clocks kept by NTP differ by milliseconds. No promise depends
/// on them (leases run by each machine's own monotonic clock), but a change gets its time from the metaserver
/// that received the request, and make(1) must not see which one that was. A clock that is seconds apart is
/// not kept by NTP.
pub(crate) const CLOCKS_DIFFER_MAX: Duration = Duration::from_secs(5);
/// Least interval of log lines about refused machines: a refused machine can ask as often as it likes.
const SAID_EVERY: Duration = Duration::from_secs(1);
/// Time for the group to agree on the use of a token; the joining machine waits for longer.
const AGREE_TIME_MAX: Duration = Duration::from_secs(7);
/// Longest name: names are for people, and this fits a table.
const NAME_BYTES_MAX: usize = 64;

/// The cluster, as the join server knows it.
pub struct JoinServer {
    /// The cluster's id.
    pub cluster: [u8; 16],
    /// The cluster's secret, which joining machines get.
    pub secret: [u8; 32],
    /// The key that the keys of tokens are derived from.
    pub tokens: [u8; 32],
    /// Version of this program, for people.
    pub version: &'static str,
}

/// The RPC program for joining machines.
pub(crate) struct JoinProgram {
    join_server: JoinServer,
    replica: Replica,
    entropy: Arc<dyn Entropy>,
    clock: SystemClock,
    /// Handshakes between HELLO and ENTER.
    handshakes: Arc<Mutex<HashMap<ConnectionId, Handshake>>>,
    refused: Mutex<LastRefused>,
}

/// The last logged refusal: its time, its address and its reason.
#[derive(Default)]
struct LastRefused(Option<(Instant, IpAddr, String)>);

impl LastRefused {
    /// True if a refusal must be logged: not the same as the last, and not within a second after another.
    fn is_news(&mut self, now: Instant, from: IpAddr, line: &str) -> bool {
        let said = self.0.as_ref().is_some_and(|(at, whom, why)| {
            now.duration_since(*at) < SAID_EVERY || (*whom, why.as_str()) == (from, line)
        });
        if !said {
            self.0 = Some((now, from, line.to_owned()));
        }
        !said
    }
}

#[derive(Clone)]
struct Handshake {
    token: Token,
    client: Nonce,
    server: Nonce,
}

impl Program for JoinProgram {
    fn number(&self) -> u32 {
        join::PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        join::VERSION..=join::VERSION
    }

    /// Its requests are short.
    fn trusts(&self, _: &CallHeader, _: Decoder, _: &Connection) -> bool {
        false
    }

    fn call(self: Arc<Self>, mut call: nfs::Call) -> Answer {
        Box::pin(async move {
            let arguments = Call::of_number(call.header.procedure, &mut call.arguments)?;
            let peer = call.connection.peer();
            let refused = |line: String| {
                let mut last = self.refused.lock();
                if last.is_news(Instant::now(), peer.ip(), &line) {
                    tracing::warn!(%peer, "a machine that wants to join is refused: {line}");
                }
                Refusal { line: line.into() }
            };
            let reply = match arguments {
                Call::Null(_) => Reply::Null(null::Res {}),
                Call::Hello(args) => Reply::Hello(match self.hello(&call.connection, &args) {
                    Ok(welcome) => hello::Res::Welcome(welcome),
                    Err(line) => hello::Res::Refused(refused(line)),
                }),
                Call::Enter(args) => Reply::Enter(match self.enter(call.connection.id(), &args).await {
                    Ok(entered) => enter::Res::Entered(entered),
                    Err(line) => enter::Res::Refused(refused(line)),
                }),
            };
            let mut encoder = Encoder::default();
            reply.encode(&mut encoder);
            Ok(encoder.finish())
        })
    }
}

impl JoinProgram {
    pub(crate) fn new(join_server: JoinServer, replica: Replica, entropy: Arc<dyn Entropy>) -> Self {
        Self {
            join_server,
            replica,
            entropy,
            clock: SystemClock::default(),
            handshakes: Arc::default(),
            refused: Mutex::default(),
        }
    }

    fn hello(&self, connection: &Arc<Connection>, args: &hello::Args) -> Result<hello::ResOk, String> {
        let wall = self.clock.wall();
        let now_ms = wall.seconds.unsigned_abs() * 1000 + u64::from(wall.nanoseconds) / 1_000_000;
        check_hello(args, &self.join_server.cluster, self.join_server.version, now_ms)?;
        let token = Token::new(self.join_server.cluster, &self.join_server.tokens, args.id, args.expires);
        let (client, server) = (args.nonce, self.entropy.bytes());
        let proof = server_proof(&token.proof_key(), &client, &server);
        self.greet(connection, Handshake { token, client, server });
        Ok(hello::ResOk { nonce: server, proof })
    }

    /// Notes the handshake, and forgets it with the end of the connection.
    fn greet(&self, connection: &Arc<Connection>, handshakes: Handshake) {
        let id = connection.id();
        let is_known = self.handshakes.lock().insert(id, handshakes).is_some();
        if !is_known {
            let (connection, all) = (Arc::clone(connection), Arc::clone(&self.handshakes));
            tokio::spawn(async move {
                connection.ended().await;
                all.lock().remove(&id);
            });
        }
    }

    async fn enter(&self, id: ConnectionId, args: &enter::Args) -> Result<enter::ResOk, String> {
        let handshakes = self.handshakes.lock().get(&id).cloned();
        let Handshake { token, client, server } = handshakes.ok_or("ENTER comes after HELLO")?;
        let key = token.proof_key();
        if !proof_matches(&client_proof(&key, &client, &server), &args.proof) {
            return Err("the join token is not one of this cluster".into());
        }
        let status = self.replica.status();
        if !status.members.iter().any(|(member, ..)| *member == status.id) {
            return Err("this metaserver is not one of its group yet; ask another one".into());
        }
        let members: Vec<Member> = status.members.into_iter().map(|(_, member, _)| member).collect();
        let servers: Vec<DataServer> = {
            let view = self.replica.view().map_err(|e| format!("the metaserver's store: {e}"))?;
            let map = read::cluster_map(&*view).map_err(|e| format!("the metaserver's store: {e}"))?;
            // A removed data server has no name and no address any more: its successor has them.
            map.present_data_servers().cloned().collect()
        };
        let wanted = Wanted::new(args)?;
        wanted.is_free(&members, &servers)?;
        // The last step, so that a refused machine can come again with its token.
        self.use_token(&token, &wanted.name, args.ticket).await?;
        let (sealed, tag) = seal::seal(&key, &client, &server, &self.join_server.secret);
        tracing::info!(name = ?wanted.name, consensus = ?wanted.consensus, data = ?wanted.data, "let in by a join token");
        let metaservers = members.into_iter().map(|member| Bytes::from(member.serves)).collect();
        Ok(enter::ResOk { sealed, tag, metaservers })
    }
}

impl JoinProgram {
    /// Makes the group note that the token was used. The group does so only once.
    async fn use_token(&self, token: &Token, name: &str, ticket: Nonce) -> Result<(), String> {
        if token.id == OWN_ID {
            return Err("what a member of this cluster proves itself with lets no machine in".into());
        }
        let wall = self.clock.wall();
        let time = Time { seconds: wall.seconds, nanoseconds: wall.nanoseconds };
        let stamp = Stamp { time, random: self.entropy.u64() };
        let used = TokenChange::Use { id: token.id, name: name.to_owned(), ticket };
        let proposal = Proposal::new(stamp, None, Command::JoinToken(used));
        let agreed = tokio::time::timeout(AGREE_TIME_MAX, self.replica.propose(proposal)).await;
        let agreed = agreed.map_err(|_| {
            "too few metaservers with a vote can be reached to note that the token is used: try again with another token when \
             heorot status shows a leader"
                .to_string()
        })?;
        match agreed.map_err(|e| e.to_string())? {
            Done::Done => Ok(()),
            Done::Refused(Error::NoEntry) => {
                Err("the join token was revoked, or has ended; `heorot token` on a node prints another one"
                    .into())
            }
            Done::Refused(Error::Exists) => Err(format!(
                "the join token has let {} in, and is good for one machine; `heorot token` on a node prints another one",
                self.user_of(token.id).map_or_else(|| "a machine".into(), |user| format!("{user:?}"))
            )),
            other => Err(format!("the metaserver could not note that the token is used: {other:?}")),
        }
    }

    fn user_of(&self, id: u64) -> Option<String> {
        let tokens = read::join_tokens(&*self.replica.view().ok()?).ok()?;
        tokens.into_iter().find(|token| token.id == id)?.used.map(|used| used.name)
    }
}

/// Checks before the machine has proved anything. Errors contain nothing secret.
fn check_hello(args: &hello::Args, cluster: &[u8; 16], version: &str, now_ms: u64) -> Result<(), String> {
    if args.cluster != *cluster {
        return Err(
            "the join token is of another cluster; `heorot token` on a node of this one prints its".into()
        );
    }
    if args.protocol != PROTOCOL {
        let theirs = String::from_utf8_lossy(&args.version.0);
        let theirs = theirs.escape_debug();
        return Err(format!(
            "heorot {theirs} on this machine speaks protocol {}, and heorot {version} of the cluster protocol \
             {PROTOCOL}; install the cluster's version",
            args.protocol
        ));
    }
    // Before the token's expiry, which a wrong clock would misjudge.
    if args.clock_ms.abs_diff(now_ms) > CLOCKS_DIFFER_MAX.as_millis() as u64 {
        let which = if args.clock_ms > now_ms { "ahead of" } else { "behind" };
        let seconds = args.clock_ms.abs_diff(now_ms) / 1000;
        return Err(format!(
            "the clock of this machine is {} {which} the cluster's; set it (chronyd or systemd-timesyncd keep it right)",
            host::time::show_rounded(Duration::from_secs(seconds))
        ));
    }
    if args.expires.saturating_mul(1000) < now_ms {
        let ago = host::time::show_rounded(Duration::from_secs(now_ms / 1000 - args.expires));
        return Err(format!("the join token expired {ago} ago; `heorot token` on a node prints another one"));
    }
    Ok(())
}

/// Name and addresses that a machine requests.
struct Wanted {
    name: String,
    consensus: Option<SocketAddr>,
    data: Option<SocketAddr>,
}

impl Wanted {
    fn new(args: &enter::Args) -> Result<Self, String> {
        let text = |word: &Word| String::from_utf8(word.0.to_vec()).map_err(|_| "not UTF-8".to_string());
        let address = |word: &Word| match text(word)?.as_str() {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| format!("{text:?} is no address")),
        };
        let name = text(&args.name)?;
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(format!("a name has from 1 to {NAME_BYTES_MAX} bytes"));
        }
        Ok(Self { name, consensus: address(&args.consensus)?, data: address(&args.data)? })
    }

    /// Checks that no server has the name or an address. Two machines that join at the same moment both pass:
    /// the group refuses the second one when it starts.
    fn is_free(&self, members: &[Member], servers: &[DataServer]) -> Result<(), String> {
        let name = &self.name;
        if let Some(consensus) = self.consensus.map(|address| address.to_string()) {
            if let Some(other) = members.iter().find(|other| other.address == consensus) {
                return Err(format!(
                    "{consensus} is the address of metaserver {:?}; {OTHER_ADDRESS}",
                    other.name
                ));
            }
            if let Some(other) = members.iter().find(|other| other.name == *name) {
                return Err(format!(
                    "there is a metaserver {name:?} already, at {}; {OTHER_NAME}",
                    other.address
                ));
            }
        }
        if let Some(data) = self.data.map(|address| address.to_string()) {
            if let Some(other) = servers.iter().find(|other| other.addresses.contains(&data)) {
                return Err(format!(
                    "{data} is the address of data server {0:?}; choose another one with --address, or, if that one is gone \
                     for good, remove it: heorot node remove {0} --force",
                    other.name
                ));
            }
            if let Some(other) = servers.iter().find(|other| other.name == *name) {
                let at = other.addresses.first().cloned().unwrap_or_default();
                return Err(format!(
                    "there is a data server {name:?} already, at {at}; choose another name with --name, or, if that one is \
                     gone for good, remove it: heorot node remove {name} --force"
                ));
            }
        }
        Ok(())
    }
}

const OTHER_NAME: &str = "choose another one with --name, or remove that one first if it is gone for good";
const OTHER_ADDRESS: &str =
    "choose another one with --address, or remove that one first if it is gone for good";

#[cfg(test)]
mod tests {
    use namespace::DataServerId;

    use super::*;

    const NOW_MS: u64 = 1_900_000_000_000;

    fn args() -> hello::Args {
        hello::Args {
            protocol: PROTOCOL,
            version: Word(Bytes::from_static(b"0.0.9")),
            cluster: [1; 16],
            id: 7,
            expires: NOW_MS / 1000 + 60,
            clock_ms: NOW_MS,
            nonce: [2; 32],
        }
    }

    #[test]
    fn a_stranger_is_told_what_is_wrong_before_anything_is_done() {
        let greet = |args: hello::Args| check_hello(&args, &[1; 16], "0.1.0", NOW_MS);
        assert_eq!(greet(args()), Ok(()));
        let near = NOW_MS - 4000;
        assert_eq!(greet(hello::Args { clock_ms: near, ..args() }), Ok(()), "as clocks are");
        let hour = 3600 * 1000;
        let cases = [
            (
                hello::Args { cluster: [9; 16], ..args() },
                "the join token is of another cluster; `heorot token`",
            ),
            (
                hello::Args { protocol: PROTOCOL - 1, ..args() },
                "heorot 0.0.9 on this machine speaks protocol 2, and heorot 0.1.0 of the cluster protocol 3; install",
            ),
            (
                hello::Args { protocol: 4, version: Word(Bytes::from_static(b"9\n\x1b[2J")), ..args() },
                "heorot 9\\n\\u{1b}[2J on this machine speaks protocol 4",
            ),
            (
                hello::Args { clock_ms: NOW_MS - hour, ..args() },
                "the clock of this machine is 1 h 0 min behind the cluster's; set it",
            ),
            (
                hello::Args { clock_ms: NOW_MS + hour, expires: 0, ..args() },
                "the clock of this machine is 1 h 0 min ahead of the cluster's; set it",
            ),
            (
                hello::Args { expires: NOW_MS / 1000 - 7200, ..args() },
                "the join token expired 2 h 0 min ago; `heorot token` on a node prints another",
            ),
        ];
        for (args, line) in cases {
            let found = greet(args).unwrap_err();
            assert!(found.starts_with(line) && !found.contains('\n'), "{found}");
        }
    }

    #[test]
    fn a_machine_that_is_refused_again_and_again_is_said_once_and_many_are_said_seldom() {
        let (mut last, began) = (LastRefused::default(), Instant::now());
        let [ash, elm] = [1, 2].map(|n| IpAddr::from([10, 0, 0, n]));
        let mut is_news = |at_ms, from, line| last.is_news(began + Duration::from_millis(at_ms), from, line);
        assert!(is_news(0, ash, "expired"));
        assert!(!is_news(10, ash, "another clock"), "too soon");
        assert!(!is_news(5000, ash, "expired"), "known");
        assert!(is_news(5000, elm, "expired"));
        assert!(is_news(6000, ash, "expired"));
    }

    #[test]
    fn names_and_addresses_are_given_once() {
        let text = |text: &'static str| Word(Bytes::from_static(text.as_bytes()));
        let member =
            Member { name: "ash".into(), address: "10.0.0.1:2052".into(), serves: "10.0.0.1:2049".into() };
        let server = DataServer {
            id: DataServerId(7),
            name: "oak".into(),
            addresses: vec!["10.0.0.2:2050".into()],
            service_address: None,
            zone: String::new(),
            targets: vec![],
            process: 1,
        };
        let ask = |name, consensus, data| {
            let args = enter::Args { proof: [0; 32], ticket: [0; 32], name, consensus, data };
            Wanted::new(&args)?.is_free(std::slice::from_ref(&member), std::slice::from_ref(&server))
        };
        let free = ask(text("ash"), text(""), text("10.0.0.1:2050"));
        assert_eq!(free, Ok(()), "a metaserver and a data server of one name are one machine");
        let taken = ask(text("ash"), text("10.0.0.3:2052"), text("")).unwrap_err();
        assert!(
            taken.starts_with("there is a metaserver \"ash\" already, at 10.0.0.1:2052; choose"),
            "{taken}"
        );
        let taken = ask(text("elm"), text("10.0.0.1:2052"), text("")).unwrap_err();
        assert!(taken.starts_with("10.0.0.1:2052 is the address of metaserver \"ash\"; choose"), "{taken}");
        let taken = ask(text("oak"), text(""), text("10.0.0.3:2050")).unwrap_err();
        assert!(
            taken.starts_with("there is a data server \"oak\" already, at 10.0.0.2:2050; choose"),
            "{taken}"
        );
        let taken = ask(text("elm"), text(""), text("10.0.0.2:2050")).unwrap_err();
        assert!(taken.starts_with("10.0.0.2:2050 is the address of data server \"oak\"; choose"), "{taken}");
        assert!(ask(text(""), text(""), text("10.0.0.3:2050")).is_err(), "no name");
        assert!(ask(text("elm"), text("everywhere"), text("")).is_err());
    }
}
