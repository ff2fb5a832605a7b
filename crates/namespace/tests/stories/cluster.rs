//! Data servers and devices.

use namespace::*;

use crate::world::*;

fn server(id: u64, targets: &[u64]) -> DataServer {
    DataServer {
        id: DataServerId(id),
        name: format!("ds{id}"),
        addresses: vec![format!("10.0.0.{id}:2050")],
        targets: targets.iter().copied().map(TargetId).collect(),
    }
}

fn define(w: &mut World, targets: &[u64]) -> Result<DeviceId, Error> {
    let targets = targets.iter().copied().map(TargetId).collect();
    match w.apply(Command::DefineDevice { targets })? {
        Reply::Device { id } => Ok(id),
        reply => panic!("{reply:?}"),
    }
}

#[test]
fn a_device_is_an_exact_list_of_known_targets() {
    let mut w = World::new();
    w.apply(Command::PutDataServer(server(1, &[11, 12]))).unwrap();
    w.apply(Command::PutDataServer(server(2, &[21]))).unwrap();
    assert_eq!(read::data_servers(&*w.view()).unwrap(), [server(1, &[11, 12]), server(2, &[21])]);
    let one = define(&mut w, &[11, 21]).unwrap();
    assert_eq!(define(&mut w, &[11, 21]), Ok(one));
    let other = define(&mut w, &[21, 11]).unwrap();
    assert_ne!(one, other, "the order counts");
    assert_eq!(define(&mut w, &[11, 99]), Err(Error::NoDevice));
    assert_eq!(define(&mut w, &[]), Err(Error::NoDevice));
    let device = read::device(&*w.view(), other).unwrap().unwrap();
    assert_eq!((device.id, device.targets), (other, vec![TargetId(21), TargetId(11)]));
    assert_eq!(read::devices(&*w.view()).unwrap().len(), 2);
}

#[test]
fn a_target_moves_with_its_disk() {
    let mut w = World::new();
    w.apply(Command::PutDataServer(server(1, &[11, 12]))).unwrap();
    w.apply(Command::PutDataServer(server(2, &[12, 21, 12]))).unwrap();
    assert_eq!(read::data_servers(&*w.view()).unwrap(), [server(1, &[11]), server(2, &[12, 21])]);
    assert_eq!(read::target_server(&*w.view(), TargetId(12)).unwrap(), Some(DataServerId(2)));
    w.apply(Command::PutDataServer(server(2, &[21]))).unwrap();
    assert_eq!(read::target_server(&*w.view(), TargetId(12)).unwrap(), None);
}
