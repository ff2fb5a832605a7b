//! Members file: the other voters, for a member whose store cannot be opened and that rebuilds from them.
//!
//! ```text
//! members    "heorot members 1\n"
//!            id, 16 hexadecimal digits │ ' ' │ address │ ' ' │ name │ '\n'      a line for each voter, this member too
//!            "crc32c " │ of all before this line, 8 hexadecimal digits │ '\n'
//! ```
//!
//! The file is beside the log, and is replaced when the voters change. It may be outdated: its reader asks
//! these members for the current state, and decides nothing by the file alone.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use host::{Files, Opened};

use crate::types::{Member, Membership, NodeId};

const FILE: &str = "members";
const HEAD: &str = "heorot members 1\n";
const SUM: &str = "crc32c ";
/// Largest file that is read: voters are few, and their names short.
const BYTES_MAX: u64 = 64 << 10;

/// Members file in a member's directory.
#[derive(Clone)]
pub(crate) struct MembersFile {
    files: Arc<dyn Files>,
    dir: PathBuf,
}

impl MembersFile {
    pub(crate) fn new(files: Arc<dyn Files>, dir: PathBuf) -> Self {
        Self { files, dir }
    }

    /// Writes the voters; returns when they are on disk.
    pub(crate) fn write(&self, members: &Membership) -> io::Result<()> {
        let text = text(members);
        if matches!(self.text(), Ok(Some(there)) if there == text) {
            return Ok(());
        }
        host::replace(&*self.files, &self.dir.join(FILE), text.as_bytes())
    }

    /// The other voters in the file; None: the file is missing or damaged.
    pub(crate) fn others(&self, own: NodeId) -> Option<Vec<Member>> {
        match self.text() {
            Ok(None) => None,
            Ok(Some(text)) => {
                let members = parse(&text);
                if members.is_none() {
                    let path = self.dir.join(FILE);
                    tracing::warn!(path = %path.display(), "the file of the other metaservers is damaged, ignoring it");
                }
                Some(members?.into_iter().filter(|(id, _)| *id != own).map(|(_, member)| member).collect())
            }
            Err(error) => {
                let path = self.dir.join(FILE);
                tracing::warn!(path = %path.display(), %error, "cannot read the file of the other metaservers, ignoring it");
                None
            }
        }
    }

    fn text(&self) -> io::Result<Option<String>> {
        let file = match self.files.open(&self.dir.join(FILE), Opened::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = vec![0; file.bytes()?.min(BYTES_MAX) as usize];
        file.read_at(&mut bytes, 0)?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }
}

/// The other voters of member `own`, from the file in its directory.
#[must_use]
pub fn noted_voters(dir: &Path, own: NodeId) -> Vec<Member> {
    let file = MembersFile::new(Arc::new(host::SystemFiles), dir.to_owned());
    file.others(own).unwrap_or_default()
}

fn text(members: &Membership) -> String {
    let mut text = HEAD.to_owned();
    for id in members.voter_ids() {
        let Some(member) = members.get_node(&id) else { continue };
        // A control character would end the line; the name is only for operators.
        let name: String = member.name.chars().filter(|c| !c.is_control()).collect();
        text += &format!("{id:016x} {} {name}\n", member.address);
    }
    let sum = crc32c::crc32c(text.as_bytes());
    text + &format!("{SUM}{sum:08x}\n")
}

fn parse(text: &str) -> Option<Vec<(NodeId, Member)>> {
    let (summed, sum) = text.strip_suffix('\n')?.rsplit_once(SUM)?;
    if u32::from_str_radix(sum, 16).ok()? != crc32c::crc32c(summed.as_bytes()) {
        return None;
    }
    let line = |line: &str| {
        let (id, rest) = line.split_once(' ')?;
        let (address, name) = rest.split_once(' ')?;
        let id = NodeId::from_str_radix(id, 16).ok()?;
        Some((id, Member { name: name.to_owned(), address: address.to_owned(), serves: String::new() }))
    };
    summed.strip_prefix(HEAD)?.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn members(ids: &[u64]) -> Membership {
        let member = |id: &u64| {
            let (name, address) = (format!("mds{id}"), format!("10.0.0.{id}:2052"));
            (*id, Member { name, address, serves: "10.0.0.9:2049".into() })
        };
        let all: BTreeMap<u64, Member> = ids.iter().chain(&[99]).map(member).collect();
        Membership::new(vec![BTreeSet::from_iter(ids.iter().copied())], all).unwrap()
    }

    #[test]
    fn the_other_voters_are_known_until_they_change_and_a_damaged_file_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = MembersFile::new(Arc::new(host::SystemFiles), dir.path().to_owned());
        assert_eq!(file.others(2), None);
        file.write(&members(&[1, 2, 3])).unwrap();
        let addresses = |own| {
            let others = file.others(own).unwrap_or_default();
            others.into_iter().map(|member| member.address).collect::<Vec<_>>()
        };
        assert_eq!(addresses(2), ["10.0.0.1:2052", "10.0.0.3:2052"], "a learner is not one");
        file.write(&members(&[2, 7])).unwrap();
        assert_eq!(addresses(2), ["10.0.0.7:2052"]);
        let path = dir.path().join(FILE);
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, &damaged).unwrap();
            assert_eq!(file.others(2), None, "byte {at}");
            std::fs::write(&path, &whole[..at]).unwrap();
            assert_eq!(file.others(2), None, "cut to {at} bytes");
        }
    }
}
