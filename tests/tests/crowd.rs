//! Crowd of hostile clients against the release binary: its memory stays bounded, and a legitimate client is
//! served.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use tests::Up;
use wire::nfs3::{self, Call, FileHandle, Procedure, Reply};
use wire::rpc::{AuthSys, CallHeader, Credential, FragmentHeader, ReplyHeader, frame};
use wire::xdr::{Decode, Decoder, Encode, Encoder};

const MIB: usize = 1 << 20;
/// Number of connections, unless this process may have fewer.
const CONNECTIONS: u64 = 10_000;
/// Time limit of an answer, long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Server, with connections of a crowd.
struct Heorot(Up);

impl Heorot {
    fn start() -> Heorot {
        Heorot(Up::start())
    }

    fn connect(&self) -> Peer {
        let stream = TcpStream::connect(self.0.nfs).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Peer { stream, xid: 0 }
    }

    /// Connection from another address than the crowd's: each address has its share.
    fn connect_from_elsewhere(&self) -> Peer {
        use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddr::from(([127, 0, 0, 2], 0))).unwrap();
        connect(&socket, &self.0.nfs).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Peer { stream, xid: 0 }
    }

    fn most_memory(&self) -> usize {
        self.0.most_memory()
    }
}

struct Peer {
    stream: TcpStream,
    xid: u32,
}

fn encoded(value: &impl Encode) -> Bytes {
    let mut e = Encoder::new();
    value.encode(&mut e);
    e.finish().into_bytes()
}

impl Peer {
    fn send(&mut self, program: (u32, u32), procedure: u32, arguments: &impl Encode) -> std::io::Result<()> {
        self.xid += 1;
        let credential = Credential::Sys(AuthSys::default());
        let (program, version) = program;
        let mut e = Encoder::new();
        CallHeader { xid: self.xid, program, version, procedure, credential }.encode(&mut e);
        arguments.encode(&mut e);
        self.stream.write_all(&frame(e.finish()).concat())
    }

    fn results(&mut self) -> Option<Decoder> {
        let mut header = [0; 4];
        self.stream.read_exact(&mut header).ok()?;
        let mut record = vec![0; FragmentHeader::from_bytes(header).len as usize];
        self.stream.read_exact(&mut record).ok()?;
        let mut d = Decoder::new(record.into());
        assert_eq!(ReplyHeader::decode(&mut d).unwrap().outcome, Ok(()));
        Some(d)
    }

    fn call3(&mut self, call: &Call) -> Reply {
        let procedure = call.procedure();
        self.send((nfs3::PROGRAM, nfs3::VERSION), procedure as u32, call).unwrap();
        Reply::decode(procedure, &mut self.results().expect("an answer")).unwrap()
    }

    fn root(&mut self) -> FileHandle {
        let path = wire::mount3::DirPath(Bytes::from_static(b"/"));
        self.send((100_005, 3), 1, &wire::mount3::mnt::Args { path }).unwrap();
        let mut d = self.results().expect("an answer");
        wire::mount3::mnt::Res::decode(&mut d).unwrap().unwrap().handle
    }
}

fn read(file: &FileHandle, count: usize) -> Call {
    Call::Read(nfs3::read::Args { file: file.clone(), offset: 0, count: count as u32 })
}

/// Creates a file of a megabyte.
fn megabyte(peer: &mut Peer) -> FileHandle {
    let at = nfs3::DirOpArgs { dir: peer.root(), name: Bytes::from_static(b"big") };
    let how = nfs3::create::CreateHow::Unchecked(nfs3::SetAttr { mode: Some(0o644), ..Default::default() });
    let Reply::Create(Ok(made)) = peer.call3(&Call::Create(nfs3::create::Args { at, how })) else {
        panic!("no file")
    };
    let file = made.obj.unwrap();
    let data = Bytes::from(vec![7; MIB]).into();
    let (stable, count) = (nfs3::StableHow::FileSync, MIB as u32);
    let write = nfs3::write::Args { file: file.clone(), offset: 0, count, stable, data };
    let written = peer.call3(&Call::Write(write));
    assert!(matches!(written, Reply::Write(Ok(_))), "{written:?}");
    file
}

fn reads_it(heorot: &Heorot, file: &FileHandle) {
    let mut good = heorot.connect_from_elsewhere();
    let Reply::Read(Ok(found)) = good.call3(&read(file, MIB)) else { panic!("not read") };
    assert_eq!(found.data.len(), MIB);
}

#[test]
fn ten_thousand_connections_leave_room_for_a_good_client_and_little_memory_is_theirs() {
    let heorot = Heorot::start();
    let file = megabyte(&mut heorot.connect());
    let before = heorot.most_memory();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    let count = CONNECTIONS.min(limit.saturating_sub(200));
    let mut crowd = Vec::new();
    for n in 0..count {
        let mut peer = heorot.connect();
        match n % 4 {
            // Half a record of a megabyte, and then nothing.
            0 => {
                let announced = FragmentHeader { last: true, len: MIB as u32 }.to_bytes();
                peer.stream.write_all(&[&announced[..], &[0; 1000]].concat()).unwrap();
            }
            // A complete call, like a normal client's.
            1 => {
                peer.send((nfs3::PROGRAM, nfs3::VERSION), Procedure::Null as u32, &()).unwrap();
            }
            _ => {}
        }
        crowd.push(peer);
    }
    reads_it(&heorot, &file);
    let more = heorot.most_memory() - before;
    println!("{count} connections: {} MiB more", more / MIB);
    // Half records use at most their budget of memory, and only for received bytes.
    assert!(more < 900 * MIB, "{} MiB", more / MIB);
    drop(crowd);
    reads_it(&heorot, &file);
}

#[test]
fn readers_that_never_read_hold_the_budget_at_most_and_a_good_client_is_served() {
    let heorot = Heorot::start();
    let file = megabyte(&mut heorot.connect());
    let before = heorot.most_memory();
    let mut crowd = Vec::new();
    let calls: Vec<u8> = {
        let call = encoded(&read(&file, MIB));
        (0..100u32)
            .flat_map(|xid| {
                let mut e = Encoder::new();
                let credential = Credential::Sys(AuthSys::default());
                let (program, version) = (nfs3::PROGRAM, nfs3::VERSION);
                let procedure = Procedure::Read as u32;
                CallHeader { xid, program, version, procedure, credential }.encode(&mut e);
                e.fixed(&call);
                frame(e.finish()).concat()
            })
            .collect()
    };
    // The requests are for six gigabytes.
    for _ in 0..60 {
        let mut peer = heorot.connect();
        peer.stream.write_all(&calls).unwrap();
        crowd.push(peer);
    }
    reads_it(&heorot, &file);
    let more = heorot.most_memory() - before;
    println!("60 readers: {} MiB more", more / MIB);
    assert!(more < 1200 * MIB, "{} MiB", more / MIB);
    drop(crowd);
    reads_it(&heorot, &file);
}
