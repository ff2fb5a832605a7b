//! What may name an entry of a directory.

use wire::nfs4::Status;

/// Bytes of a name: what Linux, and with it every client that matters, can express.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// The name, if a directory entry can have it. Bytes that are not UTF-8 are taken as they are, as Linux does
/// (RFC 8881, section 14.4, permits it).
///
/// # Errors
/// `Inval` for an empty name, `NameTooLong`, `BadChar` for a slash or NUL, `BadName` for `.` and `..`.
pub(crate) fn checked(name: &[u8]) -> Result<Vec<u8>, Status> {
    match name {
        [] => Err(Status::Inval),
        name if name.len() > NAME_BYTES_MAX => Err(Status::NameTooLong),
        name if name.iter().any(|b| matches!(b, b'/' | 0)) => Err(Status::BadChar),
        b"." | b".." => Err(Status::BadName),
        name => Ok(name.to_vec()),
    }
}

/// PATH_MAX of Linux without its NUL: a longer target no client could follow.
const TARGET_BYTES_MAX: usize = 4095;

/// The target, if a symbolic link can have it.
///
/// # Errors
/// `Inval` for an empty one or one with NUL, which no client could follow; `NameTooLong`.
pub(crate) fn checked_target(target: &[u8]) -> Result<Vec<u8>, Status> {
    match target {
        [] => Err(Status::Inval),
        target if target.contains(&0) => Err(Status::Inval),
        target if target.len() > TARGET_BYTES_MAX => Err(Status::NameTooLong),
        target => Ok(target.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_checked() {
        let long = [b'a'; NAME_BYTES_MAX + 1];
        let table: &[(&[u8], Result<(), Status>)] = &[
            (b"", Err(Status::Inval)),
            (&long, Err(Status::NameTooLong)),
            (&long[1..], Ok(())),
            (b"a/b", Err(Status::BadChar)),
            (b"a\0", Err(Status::BadChar)),
            (b".", Err(Status::BadName)),
            (b"..", Err(Status::BadName)),
            (b"...", Ok(())),
            (b".a", Ok(())),
            (b"caf\xe9", Ok(())),
        ];
        for (name, expected) in table {
            assert_eq!(checked(name), expected.map(|()| name.to_vec()), "{name:?}");
        }
    }
}
