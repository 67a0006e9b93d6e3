//! Checks the files and folders that `[agent.archive]` names.

use watchkeeper_agent::connectors::secrets;
use watchkeeper_config::{ArchiveConfig, ConfigError, SecretSource};

use super::finding::{error, missing_folders, shown};

/// Checks what the agent reads: the secret of the bucket, and the folders to ingest from.
pub(super) fn check(archive: &ArchiveConfig) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    if let Some(s3) = &archive.s3
        && let SecretSource::File(path) = &s3.secret_key
    {
        let key = "agent.archive.s3_secret_key_file";
        if let Err(problem) = secrets::read(key, &s3.secret_key, None) {
            errors.push(error(key, shown(path), problem));
        }
    }
    errors.extend(missing_folders(
        "agent.archive.ingest_roots",
        &archive.ingest_roots,
        "create it, readable by the agent's user",
    ));
    errors
}
