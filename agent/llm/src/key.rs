//! The key to a provider: where it is read, and that it is never shown.
//!
//! Invariant: the key leaves this type only as the value of one header that is marked as secret. `Debug` shows nothing of it, and text that a
//! server sends back goes through [`Key::scrub`] before anybody sees it.

use std::fmt;
use std::path::{Path, PathBuf};

use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

/// Variable by which systemd names the folder of a service's credentials (systemd.exec(5)).
pub const CREDENTIALS_VARIABLE: &str = "CREDENTIALS_DIRECTORY";

/// Longest key, in bytes; longer ones are no keys but files that were named by mistake.
const MAX_BYTES: u64 = 4_096;
/// Shortest part of a key that is hidden in what a server says. Some servers repeat a key's end.
const PART: usize = 12;

/// A key.
#[derive(Clone)]
pub struct Key(SecretString);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(***)")
    }
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// Nowhere.
    #[error(
        "there is no key for the model provider {provider}; put it into the credential {credential} \
         (`systemd-creds encrypt`, `LoadCredential={credential}:FILE`) or name a file with it in `llm.key_file`"
    )]
    None {
        /// The provider.
        provider: String,
        /// The credential that would be read.
        credential: String,
    },
    /// It can't be read.
    #[error("the key can't be read from {}: {source}; make it a file that this user may read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is none.
    #[error("the key from {from} is not one: {why}; it must be one line of visible ASCII")]
    NoKey {
        /// Where it came from.
        from: String,
        /// What is wrong, without the key.
        why: &'static str,
    },
}

/// Where a key may be. The first that is there counts: the text, the file, the credential.
#[derive(Debug, Clone, Default)]
pub struct KeySource {
    /// The key itself, as the configuration has it.
    pub text: Option<SecretString>,
    /// A file with the key.
    pub file: Option<PathBuf>,
    /// Folder of the service's credentials, as [`CREDENTIALS_VARIABLE`] names it.
    pub credentials: Option<PathBuf>,
}

impl Key {
    /// Checks a key that came `from` somewhere. White space around it is no part of it.
    ///
    /// # Errors
    /// When it can't be one.
    pub fn new(text: &str, from: &str) -> Result<Self, KeyError> {
        let no_key = |why| KeyError::NoKey {
            from: from.to_owned(),
            why,
        };
        let text = text.trim();
        if text.is_empty() {
            return Err(no_key("it is empty"));
        }
        if text.len() as u64 > MAX_BYTES {
            return Err(no_key("it is too long"));
        }
        if !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(no_key(
                "it holds a space, a line break or a character that is not ASCII",
            ));
        }
        Ok(Self(text.to_owned().into()))
    }

    /// Reads the key of `provider`. Its credential is called `watchkeeper-PROVIDER-key`.
    ///
    /// # Errors
    /// When there is none, it can't be read or it is none.
    pub fn load(provider: &str, source: &KeySource) -> Result<Self, KeyError> {
        if let Some(text) = &source.text {
            return Self::new(text.expose_secret(), "the configuration");
        }
        if let Some(file) = &source.file {
            return Self::read(file);
        }
        let credential = format!("watchkeeper-{provider}-key");
        if let Some(file) = source.credentials.as_ref().map(|dir| dir.join(&credential))
            && file.exists()
        {
            return Self::read(&file);
        }
        let provider = provider.to_owned();
        Err(KeyError::None {
            provider,
            credential,
        })
    }

    fn read(path: &Path) -> Result<Self, KeyError> {
        use std::io::Read as _;
        let unreadable = |source| KeyError::Unreadable {
            path: path.to_owned(),
            source,
        };
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(unreadable)?;
        file.take(MAX_BYTES + 64)
            .read_to_string(&mut text)
            .map_err(unreadable)?;
        Self::new(&text, &path.display().to_string())
    }

    /// The value of a header with the key behind `prefix`.
    pub(crate) fn header(&self, prefix: &str) -> HeaderValue {
        let text = format!("{prefix}{}", self.0.expose_secret());
        // Visible ASCII by construction.
        let mut value = HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""));
        value.set_sensitive(true);
        value
    }

    /// `text` with the key, and longer parts of it, hidden.
    #[must_use]
    pub fn scrub(&self, text: &str) -> String {
        let key = self.0.expose_secret();
        let mut out = text.replace(key, "***");
        // A server that shows the beginning or the end shows enough of it.
        for part in [key.get(..PART), key.get(key.len().saturating_sub(PART)..)] {
            if let Some(part) = part.filter(|part| part.len() == PART) {
                out = out.replace(part, "***");
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_shown() {
        let key = Key::new("sk-ant-0123456789abcdef", "a test").expect("key");
        assert_eq!(
            format!("{key:?} {:?}", key.header("Bearer ")),
            "Key(***) Sensitive"
        );
        let scrubbed = key.scrub("key sk-ant-0123456789abcdef, sk-ant-01234…, …456789abcdef");
        assert_eq!(scrubbed, "key ***, ***…, …***");
    }

    #[test]
    fn text_goes_before_file_and_file_before_credential_and_none_says_where_to_put_one() {
        let dir = tempfile::tempdir().expect("dir");
        let file = dir.path().join("key");
        std::fs::write(&file, "from-file\n").expect("write");
        std::fs::write(dir.path().join("watchkeeper-claude-key"), "from-credential")
            .expect("write");
        let mut source = KeySource {
            text: Some("from-text".to_owned().into()),
            file: Some(file),
            credentials: Some(dir.path().to_owned()),
        };
        let load = |source: &KeySource| {
            Key::load("claude", source).map(|k| k.0.expose_secret().to_owned())
        };
        assert_eq!(load(&source).expect("text"), "from-text");
        source.text = None;
        assert_eq!(load(&source).expect("file"), "from-file");
        source.file = None;
        assert_eq!(load(&source).expect("credential"), "from-credential");
        source.credentials = None;
        let said = load(&source).expect_err("none").to_string();
        assert!(
            said.contains("LoadCredential=watchkeeper-claude-key"),
            "{said}"
        );
    }

    #[test]
    fn what_is_no_key_is_refused_without_being_shown() {
        for wrong in ["", " \n", "two words", "schlüssel", &"x".repeat(5_000)] {
            let said = Key::new(wrong, "the file")
                .expect_err("refused")
                .to_string();
            assert!(wrong.trim().is_empty() || !said.contains(wrong), "{said}");
        }
    }
}
