//! Rules for names of directory entries.

use crate::errors::FileError;

/// Maximum length of a name in bytes: the limit of Linux.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// Returns the name if it is valid for a directory entry. Bytes that are not UTF-8 are accepted, as in Linux
/// (permitted by RFC 8881, section 14.4).
///
/// # Errors
/// `Invalid` for an empty name, `NameTooLong`, `BadCharacter` for a slash or NUL, `BadName` for `.` and `..`.
pub(crate) fn checked(name: &[u8]) -> Result<Vec<u8>, FileError> {
    match name {
        [] => Err(FileError::Invalid),
        name if name.len() > NAME_BYTES_MAX => Err(FileError::NameTooLong),
        name if name.iter().any(|b| matches!(b, b'/' | 0)) => Err(FileError::BadCharacter),
        b"." | b".." => Err(FileError::BadName),
        name => Ok(name.to_vec()),
    }
}

/// PATH_MAX of Linux without its NUL: clients cannot follow a longer target.
const TARGET_BYTES_MAX: usize = 4095;

/// Returns the target if it is valid for a symbolic link.
///
/// # Errors
/// `Invalid` for an empty target or a target with NUL, which clients cannot follow; `NameTooLong`.
pub(crate) fn checked_target(target: &[u8]) -> Result<Vec<u8>, FileError> {
    match target {
        [] => Err(FileError::Invalid),
        target if target.contains(&0) => Err(FileError::Invalid),
        target if target.len() > TARGET_BYTES_MAX => Err(FileError::NameTooLong),
        target => Ok(target.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_checked() {
        let long = [b'a'; NAME_BYTES_MAX + 1];
        let table: &[(&[u8], Result<(), FileError>)] = &[
            (b"", Err(FileError::Invalid)),
            (&long, Err(FileError::NameTooLong)),
            (&long[1..], Ok(())),
            (b"a/b", Err(FileError::BadCharacter)),
            (b"a\0", Err(FileError::BadCharacter)),
            (b".", Err(FileError::BadName)),
            (b"..", Err(FileError::BadName)),
            (b"...", Ok(())),
            (b".a", Ok(())),
            (b"caf\xe9", Ok(())),
        ];
        for (name, expected) in table {
            assert_eq!(checked(name), expected.map(|()| name.to_vec()), "{name:?}");
        }
    }
}
