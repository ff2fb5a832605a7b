//! LISTXATTRS (RFC 8276, section 8.4.3). The cookie of a page is the cookie of its last name: a name that is
//! added or removed between two pages changes no other cookie.

use namespace::read;
use wire::nfs4::Status;
use wire::nfs4::listxattrs::{Args, ResOk};

use crate::Metaserver;
use crate::attributes::xattrs;
use crate::compound::Context;
use crate::errors::store_failed;

/// Bytes of cookie, count of names and end mark.
const OVERHEAD_BYTES: usize = 16;
/// Bytes of operation and status, before the result.
const HEADER_BYTES: usize = 8;

pub(crate) fn listxattrs(server: &Metaserver, context: &Context, args: Args) -> Result<ResOk, Status> {
    let view = server.machine.view()?;
    let inode = server.current(&*view, context)?;
    xattrs::check_read(&server.caller(context)?, &inode)?;
    let all = read::xattrs(&*view, inode.id).map_err(store_failed)?;
    page(all, args.cookie, (args.maxcount as usize).min(context.room_bytes.saturating_sub(HEADER_BYTES)))
}

/// Returns the names after `cookie` that fit into `bytes`.
fn page(all: Vec<(u64, Vec<u8>)>, cookie: u64, bytes: usize) -> Result<ResOk, Status> {
    let mut left = bytes.checked_sub(OVERHEAD_BYTES).ok_or(Status::TooSmall)?;
    let mut page = ResOk { cookie, names: Vec::new(), eof: true };
    for (cookie, name) in all.into_iter().filter(|(at, _)| *at > cookie) {
        let taken = 4 + name.len().next_multiple_of(4);
        if taken > left {
            page.eof = false;
            break;
        }
        left -= taken;
        page.cookie = cookie;
        page.names.push(name.into());
    }
    if page.names.is_empty() && !page.eof { Err(Status::TooSmall) } else { Ok(page) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_in_pages_that_fit() {
        let all: Vec<_> = [(5, "abcd"), (7, "a"), (9, "abcde")].map(|(c, n)| (c, n.into())).into();
        let told = |cookie, bytes| {
            page(all.clone(), cookie, bytes).map(|page| {
                let names: Vec<_> =
                    page.names.iter().map(|n| String::from_utf8_lossy(n).into_owned()).collect();
                (names.join(" "), page.cookie, page.eof)
            })
        };
        assert_eq!(told(0, 1000), Ok(("abcd a abcde".into(), 9, true)));
        assert_eq!(told(0, 16 + 16), Ok(("abcd a".into(), 7, false)));
        assert_eq!(told(7, 16 + 12), Ok(("abcde".into(), 9, true)));
        assert_eq!(told(7, 16 + 11), Err(Status::TooSmall));
        assert_eq!(told(9, 16), Ok((String::new(), 9, true)));
        assert_eq!(told(0, 15), Err(Status::TooSmall));
    }
}
