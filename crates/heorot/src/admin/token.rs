//! Admin token: authenticates an administrator over TCP. Both sides read the token from a file; the admin
//! socket does not need it.

use std::path::Path;

use host::{Entropy, SystemEntropy, SystemFiles, private};

use command_line::Failure;

/// Minimal length in bytes, against guessing.
const BYTES_MIN: usize = 32;
/// Maximal length in bytes, for a header.
const BYTES_MAX: usize = 1024;
const SCHEME: &str = "Bearer ";

/// Admin token.
#[derive(Clone)]
pub(crate) struct AdminToken(String);

impl std::fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminToken(…)")
    }
}

impl AdminToken {
    /// Reads the token from a file, and closes the file to other users; makes a new token if there is no
    /// file.
    pub(crate) fn read_or_create(file: &Path) -> Result<Self, Failure> {
        if !file.exists() {
            let token = format!("{}\n", hex::encode(SystemEntropy.bytes()));
            let written = host::replace(&SystemFiles, file, token.as_bytes());
            written.map_err(|e| Failure::new(format!("{}: cannot be written: {e}", file.display())))?;
        }
        private::close_file(file).map_err(|e| {
            Failure::new(format!("{}: others can read it: {e}; run chmod 600 on it", file.display()))
        })?;
        Self::read(file)
    }

    /// Reads the token from a file.
    pub(crate) fn read(file: &Path) -> Result<Self, Failure> {
        let shown = file.display();
        let text = std::fs::read_to_string(file).map_err(|e| Failure::new(format!("{shown}: {e}")))?;
        let text = text.trim();
        let fits =
            (BYTES_MIN..=BYTES_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        if !fits {
            return Err(Failure::new(format!(
                "{shown}: an admin token has {BYTES_MIN} to {BYTES_MAX} letters and digits; remove the file for a new one"
            )));
        }
        Ok(Self(text.into()))
    }

    /// Authorization header with the token.
    pub(crate) fn header(&self) -> String {
        format!("{SCHEME}{}", self.0)
    }

    /// Whether a header has the token. Constant time.
    pub(crate) fn is_shown_in(&self, header: &[u8]) -> bool {
        blake3::hash(header) == blake3::hash(self.header().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_made_once_and_shown_whole() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        let token = AdminToken::read_or_create(&file).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let again = AdminToken::read_or_create(&file).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let header = token.header();
        assert!(again.is_shown_in(header.as_bytes()));
        for wrong in ["", "Bearer ", &header[..header.len() - 1], &header.replace("Bearer", "Basic")] {
            assert!(!token.is_shown_in(wrong.as_bytes()), "{wrong}");
        }
        std::fs::write(&file, "short").unwrap();
        assert!(AdminToken::read_or_create(&file).unwrap_err().to_string().contains("32 to 1024"));
        assert_eq!(format!("{token:?}"), "AdminToken(…)");
    }
}
