//! What stands behind the names of secrets, for as long as an effect is being done.
//!
//! Invariants: a secret is read when it is used, so one that was exchanged counts at once; what is revealed is hidden again in every sentence
//! ([`EffectSecrets::redactor`]), also what a workflow has as plain text where a secret may stand.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};
use watchkeeper_config::redact::Redactor;
use watchkeeper_config::sinks::no_secret;
use watchkeeper_config::{SecretSource, SinksConfig};
use watchkeeper_contract::effect::{Effect, Sealed};
use watchkeeper_llm::key::CREDENTIALS_VARIABLE;

use super::fault::Fault;

/// Longest secret, in bytes; longer ones are files that were named by mistake.
const MAX_BYTES: u64 = 16_384;

/// Folder of this service's credentials, where the service manager made one.
#[must_use]
pub fn credentials_folder() -> Option<PathBuf> {
    std::env::var_os(CREDENTIALS_VARIABLE).map(PathBuf::from)
}

/// The secrets of one effect.
pub struct EffectSecrets {
    by_name: BTreeMap<String, SecretString>,
    redactor: Redactor,
}

impl fmt::Debug for EffectSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EffectSecrets").finish_non_exhaustive()
    }
}

impl EffectSecrets {
    /// Those of something in which there is none.
    #[must_use]
    pub fn none() -> Self {
        Self {
            by_name: BTreeMap::new(),
            redactor: Redactor::new([]),
        }
    }

    /// Reads the secrets that `effect` names.
    ///
    /// # Errors
    /// When one is not there. It may be put in its place, so trying again may help.
    pub fn read(
        effect: &Effect,
        config: &SinksConfig,
        credentials: Option<&Path>,
    ) -> Result<Self, Fault> {
        let mut by_name = BTreeMap::new();
        let mut hidden = Vec::new();
        for sealed in effect.sealed() {
            match sealed {
                Sealed::Text(text) => hidden.push(text.clone()),
                Sealed::Secret(name) => {
                    let source = config.secrets.get(name);
                    let source = source.ok_or_else(|| Fault::never(no_secret(name)))?;
                    let secret = read(name, source, credentials).map_err(Fault::later)?;
                    hidden.push(secret.expose_secret().to_owned());
                    by_name.insert(name.clone(), secret);
                }
            }
        }
        Ok(Self {
            by_name,
            redactor: Redactor::new(hidden),
        })
    }

    /// What is to be sent.
    ///
    /// # Errors
    /// Never for what is in the effect.
    pub fn text<'s>(&'s self, sealed: &'s Sealed) -> Result<&'s str, Fault> {
        match sealed {
            Sealed::Text(text) => Ok(text),
            Sealed::Secret(name) => match self.by_name.get(name) {
                Some(secret) => Ok(secret.expose_secret()),
                None => Err(Fault::never(no_secret(name))),
            },
        }
    }

    #[must_use]
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }
}

/// Reads a secret where it is.
///
/// # Errors
/// One sentence without it.
pub fn read(
    name: &str,
    source: &SecretSource,
    credentials: Option<&Path>,
) -> Result<SecretString, String> {
    let text = match source {
        SecretSource::Value(value) => value.expose_secret().to_owned(),
        SecretSource::File(path) => first_line(name, path)?,
        SecretSource::Variable(variable) => std::env::var(variable).map_err(|_| {
            format!("secret {name}: the agent's environment has no variable {variable}")
        })?,
        SecretSource::Credential(credential) => {
            let is_plain = !credential.contains('/') && credential != "..";
            let folder = credentials.filter(|_| is_plain).ok_or_else(|| {
                format!(
                    "secret {name}: the agent's service has no credential {credential}; give it one by LoadCredential={credential}:FILE"
                )
            })?;
            first_line(name, &folder.join(credential))?
        }
    };
    match text.trim() {
        "" => Err(format!("secret {name} is empty")),
        text => Ok(text.to_owned().into()),
    }
}

fn first_line(name: &str, path: &Path) -> Result<String, String> {
    let unreadable = |why: &dyn fmt::Display| {
        format!("secret {name} can't be read from {}: {why}", path.display())
    };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| unreadable(&error))?;
    file.take(MAX_BYTES)
        .read_to_string(&mut text)
        .map_err(|error| unreadable(&error))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use watchkeeper_contract::effect::SlackMessage;

    use super::super::fault::Retry;
    use super::*;

    fn message(token: Sealed) -> Effect {
        Effect::Slack(SlackMessage {
            token,
            channel: "yard".to_owned(),
            text: "somebody is here".to_owned(),
            files: Vec::new(),
        })
    }

    fn config(source: SecretSource) -> SinksConfig {
        SinksConfig {
            secrets: BTreeMap::from([("SLACK".to_owned(), source)]),
            ..SinksConfig::default()
        }
    }

    #[test]
    fn a_secret_that_was_exchanged_counts_at_once_and_is_hidden_where_it_shows() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        let config = config(SecretSource::File(file.clone()));
        let sealed = Sealed::Secret("SLACK".to_owned());
        let effect = message(sealed.clone());
        let missing = EffectSecrets::read(&effect, &config, None).unwrap_err();
        assert!(
            matches!(missing.retry, Retry::After(_)) && missing.why.contains("token"),
            "{missing}"
        );
        for token in ["xoxb-first", "xoxb-second"] {
            std::fs::write(&file, format!("  {token} \nmore\n")).unwrap();
            let secrets = EffectSecrets::read(&effect, &config, None).unwrap();
            assert_eq!(secrets.text(&sealed).unwrap(), token);
            assert!(!format!("{secrets:?}").contains(token));
            let said = secrets.redactor().text(&format!("bad token {token}."));
            assert_eq!(said, "bad token ***.");
        }
    }

    #[test]
    fn a_token_in_plain_text_is_hidden_too() {
        let effect = message(Sealed::Text("xoxb-plain".to_owned()));
        let secrets = EffectSecrets::read(&effect, &SinksConfig::default(), None).unwrap();
        assert_eq!(secrets.redactor().text("not xoxb-plain"), "not ***");
    }

    #[test]
    fn a_credential_is_read_from_the_services_folder_and_from_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("slack"), "xoxb-1\n").unwrap();
        let source = |name: &str| SecretSource::Credential(name.to_owned());
        let secret = read("S", &source("slack"), Some(dir.path())).unwrap();
        assert_eq!(secret.expose_secret(), "xoxb-1");
        for (name, folder) in [
            ("slack", None),
            ("../slack", Some(dir.path())),
            ("other", Some(dir.path())),
        ] {
            assert!(read("S", &source(name), folder).is_err(), "{name}");
        }
    }
}
