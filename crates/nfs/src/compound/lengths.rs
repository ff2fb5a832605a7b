//! What can be told of an operation before it is carried out: lengths of its results, and what the next one returns.

use wire::nfs4::{ArgOp, OpNum, Stateid};
use wire::xdr::{Decode, Decoder};

/// Result of GETDEVICEINFO: 64 data servers with 16 addresses each.
const DEVICE_BYTES_MAX: u32 = 64 << 10;
/// Largest value of an extended attribute in Linux.
const XATTR_BYTES_MAX: u32 = 64 << 10;

/// Stateid of the next operation, if that is DELEGRETURN.
pub(super) fn delegation_returned(ops: &Decoder, minor_version: u32) -> Option<Stateid> {
    let mut ahead = ops.clone();
    if u32::decode(&mut ahead).ok()? != OpNum::DelegReturn as u32 {
        return None;
    }
    match ArgOp::decode(&mut ops.clone(), minor_version) {
        Ok(ArgOp::DelegReturn(args)) => Some(args.stateid),
        _ => None,
    }
}

/// Upper bound of the successful result of a modifying operation, in bytes, for operations whose result has a
/// nearly fixed length. 8 for all others.
pub(super) fn changing_result_bytes(op: &ArgOp) -> usize {
    const STATUS: usize = 8; // and the operation's number
    const STATEID: usize = 16;
    const CHANGE_INFO: usize = 20;
    const BITMAP: usize = 16;
    STATUS
        + match op {
            ArgOp::Close(_) | ArgOp::OpenDowngrade(_) | ArgOp::Lock(_) | ArgOp::LockU(_) => STATEID,
            ArgOp::Create(_) => CHANGE_INFO + BITMAP,
            ArgOp::Link(_) | ArgOp::Remove(_) => CHANGE_INFO,
            ArgOp::Rename(_) => 2 * CHANGE_INFO,
            ArgOp::SetAttr(_) => BITMAP,
            ArgOp::Write(_) => 16,
            // Without a delegation: a server grants one only if the reply has room.
            ArgOp::Open(_) => STATEID + CHANGE_INFO + 4 + BITMAP + 12,
            _ => 0,
        }
}

/// Upper bound of an operation's payload in bytes, for operations that can have a large payload.
pub(super) fn payload_bytes(op: &ArgOp) -> usize {
    let asked = match op {
        ArgOp::Read(args) => args.count,
        ArgOp::ReadPlus(args) => args.count,
        ArgOp::ReadDir(args) => args.maxcount,
        ArgOp::ListXattrs(args) => args.maxcount,
        // A count of 0 means no limit; the device address itself is short.
        ArgOp::GetDeviceInfo(args) if args.maxcount > 0 => args.maxcount.min(DEVICE_BYTES_MAX),
        ArgOp::GetDeviceInfo(_) => DEVICE_BYTES_MAX,
        ArgOp::GetXattr(_) => XATTR_BYTES_MAX,
        _ => 0,
    };
    asked as usize
}
