//! A verified bundle in words: what is proven, what is not, and what is missing.

use std::path::Path;

use serde_json::{Value, json};
use watchkeeper_assistant::wording::{counted, local_time, size};
use watchkeeper_bundle::verify::{Proof, Verified};
use watchkeeper_contract::bundle::{BundleManifest, BundleSubject};
use watchkeeper_contract::time::TimeQuality;

pub(super) fn object(verified: &Verified, file: &Path, is_pinned: bool) -> Value {
    let manifest = &verified.manifest;
    let proof = match verified.proof {
        Proof::Event {
            proven,
            unproven,
            is_linked,
        } => json!({"records": proven, "unproven_records": unproven, "linked": is_linked}),
        Proof::Job { results } => json!({"results": results}),
    };
    json!({
        "type": "bundle", "sound": true, "file": file, "subject": manifest.subject,
        "at": manifest.at, "box": manifest.signer, "key_is_expected": is_pinned,
        "files": manifest.files.len(), "bytes": verified.bytes, "proof": proof,
        "missing": manifest.missing,
    })
}

/// The exported bundle, as lines.
pub(super) fn exported(verified: &Verified, file: &Path) -> String {
    let manifest = &verified.manifest;
    let mut lines = vec![format!(
        "Saved {}: {}, {}",
        file.display(),
        counted(manifest.files.len() as u64, "file"),
        size(verified.bytes)
    )];
    lines.extend(missing(manifest));
    lines.push(format!(
        "  key fingerprint: {}",
        manifest.signer.fingerprint
    ));
    lines.join("\n")
}

pub(super) fn lines(verified: &Verified, file: &Path, is_pinned: bool) -> Vec<String> {
    let manifest = &verified.manifest;
    let mut lines = vec![
        format!("{}: sound; {}", file.display(), subject(manifest)),
        format!(
            "  proven: {}, {}, unchanged since they were signed as box {} {}",
            counted(manifest.files.len() as u64, "file"),
            size(verified.bytes),
            manifest.signer.name,
            local_time(manifest.at.unix_ms)
        ),
    ];
    lines.extend(proof(verified));
    let fingerprint = &manifest.signer.fingerprint;
    lines.push(match is_pinned {
        true => format!("  proven: signed with the key that you named, {fingerprint}"),
        false => format!(
            "  NOT proven: whose key signed it. Its fingerprint must be that of \
             `watchkeeper evidence key` on the box: {fingerprint}"
        ),
    });
    if manifest.at.quality != TimeQuality::Synced {
        let why = "the clock of the box was not synchronised";
        lines.push(format!("  NOT proven: the time of the signature; {why}"));
    }
    lines.extend(missing(manifest));
    lines
}

fn subject(manifest: &BundleManifest) -> String {
    match &manifest.subject {
        BundleSubject::Event(event) => {
            let words = [
                event.rule.as_ref().map(|rule| format!(", rule {rule}")),
                event
                    .source
                    .as_ref()
                    .map(|source| format!(", camera {source}")),
            ];
            let words: String = words.into_iter().flatten().collect();
            format!(
                "event {}{words}, {}",
                event.id,
                local_time(event.began.unix_ms)
            )
        }
        BundleSubject::Job(job) => format!("job {}, {}", job.id, local_time(job.created_ms)),
    }
}

fn proof(verified: &Verified) -> Vec<String> {
    match (&verified.proof, &verified.manifest.subject) {
        (
            Proof::Event {
                proven,
                unproven,
                is_linked,
            },
            BundleSubject::Event(event),
        ) => {
            let records = counted(*proven as u64, "record");
            let linked = match is_linked {
                true => format!("; no record is missing up to {}", event.head.seq),
                false => String::new(),
            };
            let mut lines = vec![format!(
                "  proven: the contents of {records} by their hash in the journal{linked}"
            )];
            if *unproven > 0 {
                let records = counted(*unproven as u64, "record");
                lines.push(format!(
                    "  NOT proven: the place of {records} in the journal; the record before is gone"
                ));
            }
            lines
        }
        (Proof::Job { results }, _) => vec![
            format!(
                "  proven: {} of steps as the log names them",
                counted(*results as u64, "result")
            ),
            "  NOT proven: how the files came about. The box signed their hashes for the user who \
             exported the job"
                .to_owned(),
        ],
        (Proof::Event { .. }, BundleSubject::Job(_)) => Vec::new(),
    }
}

fn missing(manifest: &BundleManifest) -> impl Iterator<Item = String> {
    let parts = manifest.missing.iter();
    parts.map(|part| format!("  missing: {}: {}", part.name, part.why))
}
