//! The bundle of a job: description, log, trajectory, results, and the files in its output folder.
//!
//! - Links and what is not a regular file are left out, and stated as missing.
//! - A file that changes while the bundle is written makes it unsound, which the caller finds.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use watchkeeper_bundle::archive::is_name_byte;
use watchkeeper_bundle::write::Contents;
use watchkeeper_bundle::{JOB_LOG, MAX_FILES};
use watchkeeper_contract::bundle::JobBundle;
use watchkeeper_jobs::run::{INFO, JobFolder, JobFolderError, LOG, LogRecord, RESULTS};
use watchkeeper_pictures::folder::JOB_MARKER;

/// Deepest folder below the output folder.
const MAX_DEPTH: usize = 8;
/// Longest time by which a file may seem newer than the end of its step.
const CLOCK_SLACK: Duration = Duration::from_secs(2);
/// Most bytes of the original name in the name of a file.
const MAX_STEM: usize = 60;

/// Gathers what the bundle of a job holds. The runtime signs the result of [`describe`].
///
/// # Errors
/// When the log of the job can't be read.
pub fn collect(job: &JobFolder) -> Result<Contents, JobFolderError> {
    let mut contents = Contents::default();
    let folder = job.path();
    add(&mut contents, INFO, &folder.join(INFO), None);
    if folder.join(LOG).exists() {
        add(&mut contents, JOB_LOG, &folder.join(LOG), None);
    } else {
        contents.add_text(JOB_LOG, "");
        contents.add_missing("run", "the job was never run");
    }
    let log = job.log()?;
    let trajectory = job.trajectory(&log);
    let lines = trajectory.transitions.iter();
    let lines = lines.map(|step| serde_json::to_string(step).unwrap_or_default() + "\n");
    contents.add_text("trajectory.jsonl", lines.collect::<String>());
    for fault in &trajectory.faults {
        contents.add_missing("rewards", format!("the plan can't be read: {fault}"));
    }
    for line in &log {
        if let LogRecord::Finished { step, result } = &line.record {
            let name = format!("{RESULTS}/{step}.json");
            if !contents.has(&name) && !contents.is_missing(&name) {
                add(&mut contents, &name, &folder.join(&name), None);
            }
            for written in &result.files {
                let is_there = job.info().output.join(written).exists();
                if !is_there && !contents.is_missing(written) {
                    let why = format!("the step {step} wrote it, and it is no longer there");
                    contents.add_missing(written, why);
                } else if is_there {
                    compare_files(&mut contents, job, step, line.at_ms);
                }
            }
        }
    }
    add_output(&mut contents, &job.info().output);
    Ok(contents)
}

/// Description of the job that the runtime signs.
pub fn describe(job: &JobFolder, contents: &Contents) -> JobBundle {
    let (files, missing) = contents.describe();
    JobBundle {
        id: job.info().id.clone(),
        created_ms: job.info().created_ms,
        files,
        missing,
    }
}

fn add(contents: &mut Contents, name: &str, path: &Path, original: Option<String>) {
    if let Err(error) = contents.add_path(name, path, original) {
        contents.add_missing(name, error.to_string());
    }
}

/// States which files of a step that ended at this time are gone or were changed.
fn compare_files(contents: &mut Contents, job: &JobFolder, step: &str, at_ms: i64) {
    let ended = Duration::from_millis(u64::try_from(at_ms).unwrap_or_default());
    let ended = SystemTime::UNIX_EPOCH.checked_add(ended.saturating_add(CLOCK_SLACK));
    let Some(ended) = ended else {
        return;
    };
    for written in job.files_of(step) {
        let shown = written.display().to_string();
        let found = fs::symlink_metadata(job.info().output.join(&written));
        let why = match found.and_then(|found| found.modified()) {
            Ok(modified) if modified <= ended => continue,
            Ok(_) => format!("as the step {step} wrote it: the file there was changed later"),
            Err(_) => format!("the step {step} wrote it, and it is no longer there"),
        };
        if !contents.is_missing(&shown) {
            contents.add_missing(shown, why);
        }
    }
}

/// Adds the files of the output folder, in the order of their paths.
fn add_output(contents: &mut Contents, output: &Path) {
    let mut found = BTreeMap::new();
    walk(output, Path::new(""), MAX_DEPTH, &mut found);
    for (n, (original, kind)) in found.into_iter().enumerate() {
        let shown = original.display().to_string();
        if contents.count() >= MAX_FILES - 2 {
            let why = format!("a bundle has at most {MAX_FILES} files; this and later ones");
            return contents.add_missing(shown, why);
        }
        match (kind, original.to_str()) {
            (Collected::File, Some(text)) => {
                let name = format!("files/{:06}-{}", n + 1, allowed(text));
                add(
                    contents,
                    &name,
                    &output.join(&original),
                    Some(text.to_owned()),
                );
            }
            (Collected::File, None) => contents.add_missing(shown, "its name is not UTF-8"),
            (Collected::Skipped(why), _) => contents.add_missing(shown, why),
        }
    }
}

enum Collected {
    File,
    Skipped(String),
}

fn walk(output: &Path, below: &Path, depth: usize, found: &mut BTreeMap<PathBuf, Collected>) {
    let entries = match fs::read_dir(output.join(below)) {
        Ok(entries) => entries,
        Err(error) => {
            found.insert(below.to_owned(), Collected::Skipped(error.to_string()));
            return;
        }
    };
    for entry in entries.flatten() {
        let path = below.join(entry.file_name());
        if found.len() > MAX_FILES || path == Path::new(JOB_MARKER) {
            continue;
        }
        let skip = |why: &str| Collected::Skipped(why.to_owned());
        let kind = match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth > 0 => {
                walk(output, &path, depth - 1, found);
                continue;
            }
            Ok(kind) if kind.is_file() => Collected::File,
            Ok(kind) if kind.is_dir() => skip("the folder is too deep"),
            Ok(_) => skip("it is a link or a special file"),
            Err(error) => Collected::Skipped(error.to_string()),
        };
        found.insert(path, kind);
    }
}

/// The end of a path in the characters that a name in a bundle may have.
fn allowed(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    let bytes = name.bytes().map(|byte| match is_name_byte(byte) {
        true => char::from(byte),
        false => '_',
    });
    let name: Vec<char> = bytes.collect();
    name.iter()
        .skip(name.len().saturating_sub(MAX_STEM))
        .collect()
}
