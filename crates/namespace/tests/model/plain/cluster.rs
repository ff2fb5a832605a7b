//! The model's cluster map.

use namespace::*;

use super::{Outcome, Plain};

impl Plain {
    pub(super) fn put_data_server(&mut self, server: DataServer) -> Outcome {
        let mut server = server;
        let listed = std::mem::take(&mut server.targets);
        for target in listed {
            if !server.targets.contains(&target) {
                server.targets.push(target);
            }
        }
        for other in self.servers.values_mut() {
            other.targets.retain(|target| !server.targets.contains(target));
        }
        self.servers.insert(server.id, server);
        Ok(Reply::Done)
    }

    pub(super) fn define_device(&mut self, targets: Vec<TargetId>) -> Outcome {
        if let Some(device) = self.devices.iter().find(|device| device.targets == targets) {
            return Ok(Reply::Device { id: device.id });
        }
        let known = |target| self.servers.values().any(|server| server.targets.contains(target));
        if targets.is_empty() || !targets.iter().all(known) {
            return Err(Error::NoDevice);
        }
        let id = DeviceId(self.devices.len() as u64 + 1);
        self.devices.push(Device { id, targets });
        Ok(Reply::Device { id })
    }
}
