//! Checks the section `[agent.archive]`.

use super::outside::file_or_credential;
use super::values::{Values, without_effect};
use crate::archive::{ArchiveConfig, S3Config};
use crate::error::ConfigError;
use crate::sinks::{HostRule, http_url};

pub(super) fn archive(values: &Values<'_>, errors: &mut Vec<ConfigError>) -> ArchiveConfig {
    ArchiveConfig {
        max_bytes: values.whole_or_zero("agent.archive.max_bytes"),
        max_entry_bytes: values.whole_or_zero("agent.archive.max_entry_bytes"),
        memory_bytes: values.whole_or_zero("agent.archive.memory_bytes"),
        memcached: values.texts("agent.archive.memcached", errors, server),
        s3: s3(values, errors),
        ingest_roots: values.folders("agent.archive.ingest_roots", errors),
        ingest_hosts: values.texts("agent.archive.ingest_hosts", errors, HostRule::parse),
        index_events: values.switch("agent.archive.index_events"),
        embedding: values.text("agent.archive.embedding"),
    }
}

/// Accepts a server written `HOST:PORT`.
fn server(text: &str) -> Result<String, &'static str> {
    let is_good = HostRule::parse(text).is_ok() && text.rsplit_once(':').is_some();
    match is_good {
        true => Ok(text.to_owned()),
        false => Err("must be a host and a port, such as 127.0.0.1:11211"),
    }
}

fn s3(values: &Values<'_>, errors: &mut Vec<ConfigError>) -> Option<S3Config> {
    let key = "agent.archive.s3_endpoints";
    if values.found(key).is_none() {
        without_effect("agent.archive.s3_", key, values, errors);
        return None;
    }
    let endpoints = values.texts(key, errors, |text| {
        http_url(text).ok_or("must be an address such as https://s3.example.com")
    });
    let mut needed = |key: &str| {
        let text = values.text(key);
        if text.is_none() {
            let problem = "is missing; the object tier needs it";
            errors.push(values.error(key, problem));
        }
        text
    };
    let bucket = needed("agent.archive.s3_bucket");
    // Without a default: two boxes with one prefix delete each other's copies.
    let prefix = needed("agent.archive.s3_prefix");
    let access_key = needed("agent.archive.s3_access_key");
    let (file, credential) = (
        "agent.archive.s3_secret_key_file",
        "agent.archive.s3_secret_key_credential",
    );
    let secret_key = file_or_credential(values, file, credential, errors);
    Some(S3Config {
        endpoints,
        bucket: bucket?,
        region: values.text("agent.archive.s3_region").unwrap_or_default(),
        prefix: prefix?,
        access_key: access_key?,
        secret_key: secret_key?,
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use crate::{LoadRequest, load};

    fn errors(prefix: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("wk.toml");
        let text = format!(
            "[agent.archive]\ns3_endpoints = [\"https://s3.example.com\"]\ns3_bucket = \"boxes\"\n\
             s3_access_key = \"box\"\ns3_secret_key_file = \"/etc/s3.key\"\n{prefix}"
        );
        std::fs::write(&file, text).unwrap();
        let request = LoadRequest {
            file: Some(file),
            hostname: "box-7".to_owned(),
            ..LoadRequest::default()
        };
        let errors = load(&request).err().unwrap_or_default();
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn object_tier_needs_a_prefix_of_its_own() {
        assert_eq!(errors("s3_prefix = \"box-7/\"\n"), [""; 0]);
        let missing = errors("");
        assert_eq!(missing.len(), 1, "{missing:?}");
        assert!(
            missing[0].contains("agent.archive.s3_prefix"),
            "{missing:?}"
        );
    }
}
