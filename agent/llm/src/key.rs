//! The key of a provider: where it is read, and that it is never shown.
//!
//! - The key leaves this type only as the value of one header, marked sensitive.
//! - `Debug` shows nothing of it; texts of a server pass [`Key::scrub`] before anyone sees them.

use std::fmt;
use std::path::{Path, PathBuf};

use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

/// Variable in which systemd names the folder of a service's credentials (systemd.exec(5)).
pub const CREDENTIALS_VARIABLE: &str = "CREDENTIALS_DIRECTORY";

/// Maximum bytes of a key; a longer text is a file that was named by mistake.
const MAX_BYTES: u64 = 4_096;
/// Minimum part of a key that [`Key::scrub`] removes: some servers repeat a key's start or end.
const PART: usize = 12;

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
    #[error(
        "there is no key for the model provider {provider}; put it into the credential {credential} \
         (`systemd-creds encrypt`, `LoadCredential={credential}:FILE`) or name a file with it in `llm.key_file`"
    )]
    None {
        provider: String,
        credential: String,
    },
    #[error("the key can't be read from {}: {source}; make it a file that this user may read", path.display())]
    Unreadable {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("the key from {from} is invalid: {why}; it must be one line of visible ASCII")]
    Invalid { from: String, why: &'static str },
}

/// Possible locations of a key. The first that exists is used: text, file, credential.
#[derive(Debug, Clone, Default)]
pub struct KeySource {
    /// The key itself, from the configuration.
    pub text: Option<SecretString>,
    pub file: Option<PathBuf>,
    /// Folder of the service's credentials, as [`CREDENTIALS_VARIABLE`] names it.
    pub credentials: Option<PathBuf>,
}

impl Key {
    /// Checks a key that was read `from` somewhere; white space around it is removed.
    ///
    /// # Errors
    /// When the text can't be a key.
    pub fn new(text: &str, from: &str) -> Result<Self, KeyError> {
        let invalid = |why| KeyError::Invalid {
            from: from.to_owned(),
            why,
        };
        let text = text.trim();
        if text.is_empty() {
            return Err(invalid("it is empty"));
        }
        if text.len() as u64 > MAX_BYTES {
            return Err(invalid("it is too long"));
        }
        if !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(invalid(
                "it holds a space, a line break or a character that is not ASCII",
            ));
        }
        Ok(Self(text.to_owned().into()))
    }

    /// Reads the key of `provider`, whose credential is named `watchkeeper-PROVIDER-key`.
    ///
    /// # Errors
    /// When there is no key, or it is unreadable or invalid.
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

    /// Returns a header value: `prefix` and the key.
    pub(crate) fn header(&self, prefix: &str) -> HeaderValue {
        let text = format!("{prefix}{}", self.0.expose_secret());
        // Visible ASCII by construction.
        let mut value = HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""));
        value.set_sensitive(true);
        value
    }

    /// Returns `text` without the key and without longer parts of it.
    pub(crate) fn scrub(&self, text: &str) -> String {
        let key = self.0.expose_secret();
        let mut out = text.replace(key, "***");
        // The start or the end of a key is secret too.
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
    fn key_is_never_shown() {
        let key = Key::new("sk-ant-0123456789abcdef", "a test").expect("key");
        assert_eq!(
            format!("{key:?} {:?}", key.header("Bearer ")),
            "Key(***) Sensitive"
        );
        let scrubbed = key.scrub("key sk-ant-0123456789abcdef, sk-ant-01234…, …456789abcdef");
        assert_eq!(scrubbed, "key ***, ***…, …***");
    }

    #[test]
    fn key_is_taken_from_text_then_file_then_credential() {
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
    fn invalid_key_is_rejected_without_being_shown() {
        for wrong in ["", " \n", "two words", "schlüssel", &"x".repeat(5_000)] {
            let said = Key::new(wrong, "the file")
                .expect_err("refused")
                .to_string();
            assert!(wrong.trim().is_empty() || !said.contains(wrong), "{said}");
        }
    }
}
