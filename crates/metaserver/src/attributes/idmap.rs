//! Id mapping (idmap): users and groups of NFSv4 as numbers, or names with a domain (RFC 8881, section 5.9).
//!
//! Numbers in digits are always accepted; names are accepted if a domain is set. Replies have numbers, or
//! names if the configuration asks for names; ids without a name stay numbers.

use std::collections::HashMap;

use bytes::Bytes;

use crate::errors::FileError;

/// Names and numbers of users and groups, and the domain of the names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Idmap {
    domain: Option<String>,
    users: Names,
    groups: Names,
}

/// Numbers by name, and names for replies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Names {
    ids: HashMap<Box<[u8]>, u32>,
    /// Names with the domain, for replies; empty if replies have numbers.
    given: HashMap<u32, Bytes>,
}

impl Names {
    /// Reads lines as in passwd(5) and group(5): the name first, the number third. The first line of a name
    /// or a number counts, as in the C library; other lines are skipped.
    fn new(text: &str, domain: &str, give_names: bool) -> Self {
        let mut names = Self::default();
        for line in text.lines() {
            let mut fields = line.split(':');
            let (name, id) = (fields.next().unwrap_or_default(), fields.nth(1).and_then(number));
            let Some(id) = id.filter(|_| !name.is_empty() && !name.starts_with(['+', '-', '#'])) else {
                continue;
            };
            let first = *names.ids.entry(name.as_bytes().into()).or_insert(id) == id;
            // A name in a reply must map back to the same number.
            if give_names && first {
                names.given.entry(id).or_insert_with(|| Bytes::from(format!("{name}@{domain}")));
            }
        }
        names
    }
}

/// Parses digits without leading zeros; not the number that means "no change" in chown(2).
fn number(digits: &str) -> Option<u32> {
    let canonical = digits.bytes().all(|b| b.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    digits.parse().ok().filter(|id| canonical && *id != u32::MAX)
}

impl Idmap {
    /// Names of `domain`, from the texts of passwd(5) and group(5). `give_names`: replies have names, too.
    #[must_use]
    pub fn new(domain: &str, give_names: bool, passwd: &str, group: &str) -> Self {
        Self {
            domain: Some(domain.to_owned()),
            users: Names::new(passwd, domain, give_names),
            groups: Names::new(group, domain, give_names),
        }
    }

    /// Returns the user with this name or number.
    ///
    /// # Errors
    /// `BadOwner` if there is none.
    pub(crate) fn user(&self, owner: &[u8]) -> Result<u32, FileError> {
        self.id(&self.users, owner)
    }

    /// Returns the group with this name or number.
    ///
    /// # Errors
    /// `BadOwner` if there is none.
    pub(crate) fn group(&self, owner: &[u8]) -> Result<u32, FileError> {
        self.id(&self.groups, owner)
    }

    fn id(&self, names: &Names, owner: &[u8]) -> Result<u32, FileError> {
        let text = std::str::from_utf8(owner).map_err(|_| FileError::BadOwner)?;
        if let Some(id) = number(text) {
            return Ok(id);
        }
        let (name, domain) = text.rsplit_once('@').ok_or(FileError::BadOwner)?;
        // Domains are DNS names, so case does not matter.
        let ours = self.domain.as_ref().is_some_and(|ours| ours.eq_ignore_ascii_case(domain));
        names.ids.get(name.as_bytes()).copied().filter(|_| ours).ok_or(FileError::BadOwner)
    }

    /// User with this name, without a domain, or with this number.
    pub(crate) fn user_here(&self, name: &str) -> Option<u32> {
        number(name).or_else(|| self.users.ids.get(name.as_bytes()).copied())
    }

    /// Group with this name, without a domain, or with this number.
    pub(crate) fn group_here(&self, name: &str) -> Option<u32> {
        number(name).or_else(|| self.groups.ids.get(name.as_bytes()).copied())
    }

    /// Name of a user in replies.
    pub(crate) fn user_name(&self, id: u32) -> Bytes {
        name(&self.users, id)
    }

    /// Name of a group in replies.
    pub(crate) fn group_name(&self, id: u32) -> Bytes {
        name(&self.groups, id)
    }
}

fn name(names: &Names, id: u32) -> Bytes {
    names.given.get(&id).cloned().unwrap_or_else(|| Bytes::from(id.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n\
                          bob:x:1001:100::/:/bin/sh\ntoor:x:0:0::/:/bin/sh\nann:x:7:7::/:\n\n+::::::\nhalf:x\nbad:x:-5:1\n";
    const GROUP: &str = "root:x:0:\nusers:x:100:ann,bob\n";

    #[test]
    fn numbers_are_always_understood() {
        for idmap in [Idmap::default(), Idmap::new("example.org", true, PASSWD, GROUP)] {
            for (text, id) in [("0", Some(0)), ("65534", Some(65534)), ("4294967294", Some(4_294_967_294))] {
                assert_eq!(idmap.user(text.as_bytes()).ok(), id, "{text}");
                assert_eq!(idmap.group(text.as_bytes()).ok(), id, "{text}");
            }
            for text in
                ["", "+5", "-1", "007", "4294967295", "4294967296", "5 ", "0x5", "5@", "@", "5@example.org"]
            {
                assert_eq!(idmap.user(text.as_bytes()), Err(FileError::BadOwner), "{text}");
            }
            assert_eq!(idmap.user(b"\xff@example.org"), Err(FileError::BadOwner));
        }
    }

    #[test]
    fn names_of_the_domain_are_understood() {
        let idmap = Idmap::new("example.org", false, PASSWD, GROUP);
        for (text, id) in [
            ("root@example.org", Some(0)),
            ("toor@example.org", Some(0)),
            ("ann@EXAMPLE.org", Some(1000)),
            ("ann@example.com", None),
            ("ann", None),
            ("eve@example.org", None),
            ("users@example.org", None),
            ("half@example.org", None),
            ("bad@example.org", None),
            ("+@example.org", None),
        ] {
            assert_eq!(idmap.user(text.as_bytes()).ok(), id, "{text}");
        }
        assert_eq!(idmap.group(b"users@example.org"), Ok(100));
        assert_eq!(idmap.group(b"ann@example.org"), Err(FileError::BadOwner));
        assert_eq!((idmap.user_name(1000), idmap.group_name(100)), ("1000".into(), "100".into()));
        assert_eq!(Idmap::default().user(b"root@example.org"), Err(FileError::BadOwner));
    }

    #[test]
    fn names_are_given_out_when_asked_for_and_numbers_for_the_rest() {
        let idmap = Idmap::new("example.org", true, PASSWD, GROUP);
        assert_eq!(idmap.user_name(0), "root@example.org", "the first of two names");
        assert_eq!(idmap.user_name(1001), "bob@example.org");
        assert_eq!(idmap.user_name(7), "7", "its only name means another number");
        assert_eq!(idmap.user_name(2000), "2000");
        assert_eq!(idmap.group_name(100), "users@example.org");
        assert_eq!(idmap.group_name(1000), "1000");
    }
}
