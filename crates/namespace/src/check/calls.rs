//! Calls of NFSv3, and the sessions of metaservers.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use store::{StoreError, View};

use super::{Findings, table};
use crate::record::{CallOrder, CallRecord, ServerRecord, ServerSlot, decode};
use crate::{CALLS_MAX, CallId, SERVERS_MAX, keys};

pub(super) fn check(view: &dyn View, findings: &mut Findings) -> Result<(), StoreError> {
    let calls: BTreeMap<Vec<u8>, CallRecord> = table(view, keys::CALLS, findings)?;
    let mut order = CallOrder::default();
    let mut numbers = BTreeMap::new();
    view.scan(&[keys::CALL_ORDER], &keys::after(&[keys::CALL_ORDER]), &mut |key, value| {
        let read = match key.len() {
            1 => decode(key, value).map(|found| order = found),
            _ => decode(key, value).map(|call: CallId| {
                numbers.insert(keys::call(&call), keys::number(key, 1));
            }),
        };
        if let Err(error) = read {
            findings.add(format!("record {key:02x?}: {error}"));
        }
        ControlFlow::Continue(())
    })?;
    let known: BTreeMap<Vec<u8>, u64> = calls.into_iter().map(|(key, call)| (key, call.number)).collect();
    findings.expect(known == numbers, || format!("calls are {known:02x?}, in order are {numbers:02x?}"));
    let count = numbers.len() as u64;
    findings.expect(count <= CALLS_MAX && order.next - order.oldest == count, || {
        format!("{count} calls are in order, which says {order:?}")
    });

    let servers: BTreeMap<Vec<u8>, ServerRecord> = table(view, keys::SERVERS, findings)?;
    findings.expect(servers.len() <= SERVERS_MAX, || format!("{} metaservers have sessions", servers.len()));
    for key in table::<ServerSlot>(view, keys::SERVER_SLOTS, findings)?.into_keys() {
        let server = keys::server(keys::number(&key, 1));
        findings.expect(servers.contains_key(&server), || format!("slot {key:02x?} is of no metaserver"));
    }
    Ok(())
}
