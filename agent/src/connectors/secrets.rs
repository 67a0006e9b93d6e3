//! Secrets of one effect, read while it is executed.
//!
//! Invariants:
//! - A secret is read when it is used, so a replaced secret takes effect at once.
//! - [`EffectSecrets::redactor`] hides every secret that was read, and plain texts of a workflow in
//!   fields that accept a secret.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};
use watchkeeper_config::redact::Redactor;
use watchkeeper_config::sinks::no_secret;
use watchkeeper_config::{SecretSource, SinksConfig, bounded};
use watchkeeper_contract::effect::{Effect, Sealed};
use watchkeeper_llm::key::CREDENTIALS_VARIABLE;

use super::fault::Fault;
use crate::background::blocking;

/// Folder of this service's systemd credentials, if the service has any.
pub fn credentials_folder() -> Option<PathBuf> {
    std::env::var_os(CREDENTIALS_VARIABLE).map(PathBuf::from)
}

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
    /// Empty set, for requests without secrets.
    pub(crate) fn empty() -> Self {
        Self {
            by_name: BTreeMap::new(),
            redactor: Redactor::new([]),
        }
    }

    /// Reads the secrets that `effect` names.
    ///
    /// # Errors
    /// Permanent if the configuration has no secret of that name. Transient if its file, variable
    /// or credential is missing, because the operator may add it.
    pub(crate) async fn read(
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
                    let source = source.ok_or_else(|| Fault::permanent(no_secret(name)))?;
                    let secret = read_in_background(name, source, credentials).await?;
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

    /// Plain text of a field.
    ///
    /// # Errors
    /// Never for a field of the effect that [`Self::read`] was called with.
    pub(crate) fn text<'s>(&'s self, sealed: &'s Sealed) -> Result<&'s str, Fault> {
        match sealed {
            Sealed::Text(text) => Ok(text),
            Sealed::Secret(name) => match self.by_name.get(name) {
                Some(secret) => Ok(secret.expose_secret()),
                None => Err(Fault::permanent(no_secret(name))),
            },
        }
    }

    pub(crate) fn redactor(&self) -> &Redactor {
        &self.redactor
    }
}

/// Reads a secret as [`read`] does, on a thread that may wait for a disk.
///
/// # Errors
/// Transient: the operator may add what is missing.
pub(crate) async fn read_in_background(
    name: &str,
    source: &SecretSource,
    credentials: Option<&Path>,
) -> Result<SecretString, Fault> {
    let (name, source) = (name.to_owned(), source.clone());
    let credentials = credentials.map(Path::to_path_buf);
    let reading = move || read(&name, &source, credentials.as_deref()).map_err(Fault::transient);
    blocking(reading).await.map_err(Fault::transient)?
}

/// Reads the secret `name` from its source; of a file, the first line.
///
/// # Errors
/// One sentence without the secret.
pub fn read(
    name: &str,
    source: &SecretSource,
    credentials: Option<&Path>,
) -> Result<SecretString, String> {
    let text = match source {
        SecretSource::Value(value) => value.expose_secret().to_owned(),
        SecretSource::File(path) => first_line(name, path)?,
        SecretSource::Variable(variable) => std::env::var(variable).map_err(|_| {
            format!(
                "secret {name}: the agent's environment has no variable {variable}; set it there"
            )
        })?,
        SecretSource::Credential(credential) => {
            let is_plain = !credential.contains('/') && credential != "..";
            let folder = credentials.filter(|_| is_plain).ok_or_else(|| {
                format!(
                    "secret {name}: the agent's service has no credential {credential}; \
                     add LoadCredential={credential}:FILE to its unit"
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
    let text = bounded::read(path)
        .map_err(|why| format!("secret {name} can't be read from {}: {why}", path.display()))?;
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

    #[tokio::test]
    async fn replaced_secret_takes_effect_at_once_and_is_redacted() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        let config = config(SecretSource::File(file.clone()));
        let sealed = Sealed::Secret("SLACK".to_owned());
        let effect = message(sealed.clone());
        let missing = EffectSecrets::read(&effect, &config, None)
            .await
            .unwrap_err();
        assert!(
            matches!(missing.retry, Retry::After(_)) && missing.why.contains("token"),
            "{missing}"
        );
        for token in ["xoxb-first", "xoxb-second"] {
            std::fs::write(&file, format!("  {token} \nmore\n")).unwrap();
            let secrets = EffectSecrets::read(&effect, &config, None).await.unwrap();
            assert_eq!(secrets.text(&sealed).unwrap(), token);
            assert!(!format!("{secrets:?}").contains(token));
            let shown = secrets.redactor().text(&format!("bad token {token}."));
            assert_eq!(shown, "bad token ***.");
        }
    }

    #[tokio::test]
    async fn plain_text_token_is_redacted() {
        let effect = message(Sealed::Text("xoxb-plain".to_owned()));
        let secrets = EffectSecrets::read(&effect, &SinksConfig::default(), None)
            .await
            .unwrap();
        assert_eq!(secrets.redactor().text("not xoxb-plain"), "not ***");
    }

    #[test]
    fn credential_is_read_only_from_the_services_folder() {
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
