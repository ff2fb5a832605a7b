//! Space that files take, as the data servers tell.

use namespace::*;

use crate::world::*;

fn untold(w: &World) -> Vec<InodeId> {
    read::space_untold(&*w.view(), InodeId(0), 10).unwrap()
}

fn told(w: &mut World, file: &Inode, bytes: u64) {
    let files = vec![SpaceUsed { inode: file.id, epoch: file.epoch, change: file.change, bytes }];
    assert_eq!(w.apply(Command::SpaceUsed { files }), Ok(Reply::Done));
}

/// Space, and whether it is told.
fn space(w: &World, path: &str) -> (u64, bool) {
    let file = w.stat(path);
    (file.space_used, file.space_is_told)
}

#[test]
fn a_write_through_a_metaserver_is_asked_about_once_it_is_told() {
    let mut w = World::new();
    let file = w.file("/f");
    assert_eq!((space(&w, "/f"), untold(&w)), ((0, true), vec![]));
    w.wrote("/f", 5000).unwrap();
    assert_eq!((space(&w, "/f"), untold(&w)), ((5000, false), vec![file]), "as far as is known");
    let before = w.stat("/f");
    w.wrote("/f", 9000).unwrap();
    told(&mut w, &before, 8192);
    assert_eq!((space(&w, "/f"), untold(&w)), ((9000, false), vec![file]), "it has changed since");
    let now = w.stat("/f");
    told(&mut w, &now, 12_288);
    assert_eq!((space(&w, "/f"), untold(&w)), ((12_288, true), vec![]));
    assert_eq!(w.stat("/f").change, now.change, "its data are the same");
    told(&mut w, &now, 4096);
    assert_eq!(space(&w, "/f"), (12_288, true), "late");
    // A write within what is there.
    w.wrote("/f", 100).unwrap();
    assert_eq!((space(&w, "/f"), untold(&w)), ((12_288, false), vec![file]));
    w.remove("/f").unwrap();
    assert_eq!(untold(&w), []);
    told(&mut w, &now, 4096);
}

#[test]
fn a_truncation_is_asked_about() {
    let mut w = World::new();
    let file = w.file("/f");
    w.wrote("/f", 1 << 30).unwrap();
    let now = w.stat("/f");
    told(&mut w, &now, 1 << 30);
    w.set("/f", SetAttributes { size: Some(100), ..SetAttributes::default() }).unwrap();
    assert_eq!((space(&w, "/f"), untold(&w)), ((100, false), vec![file]));
}

#[test]
fn observations_say_the_space() {
    let mut w = World::new();
    let client = w.client("a");
    let file = w.file("/f");
    let open = w.open(client, "/f", BOTH).unwrap();
    w.layout(client, "/f", open, IoMode::ReadWrite).unwrap();
    let seen = |w: &World, version, space_used| {
        let (epoch, grant) = (w.stat("/f").epoch, read::unsettled(&*w.view(), file).unwrap().unwrap().grant);
        let durable = version == 0;
        Observation { inode: file, grant, epoch, end: 1 << 20, modified: at(1), version, durable, space_used }
    };
    for (version, observed, expected) in [(7, Some(4096), (4096, true)), (8, None, (4096, false))] {
        let observed = seen(&w, version, observed);
        w.apply(Command::Observe { files: vec![observed] }).unwrap();
        assert_eq!(space(&w, "/f"), expected);
    }
    // No news, but for the space: the data have come to the disk.
    let again = Observation { version: 8, ..seen(&w, 8, Some(8192)) };
    let change = w.stat("/f").change;
    w.apply(Command::Observe { files: vec![again] }).unwrap();
    assert_eq!((space(&w, "/f"), w.stat("/f").change), ((8192, false), change));
    assert_eq!(untold(&w), [file]);
}
