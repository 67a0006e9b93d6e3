//! The output folder of a job: whose it is, and what the job wrote there.
//!
//! - A marker, which only one process can create, names the job.
//! - The files of a step are listed in `results/STEP.files.json` before the step counts as done.
//! - Only listed files are removed: what others put beside them stays, also in folders of the job.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use watchkeeper_pictures::folder::JOB_MARKER;
use watchkeeper_store::durable;

use super::error::{JobFolderError, io_error};
use super::folder::{JobFolder, RESULTS, finished};
use super::log::{LogLine, LogRecord};
use super::marker::{own, require_empty};
use crate::target;
use crate::tool::is_name;

impl JobFolder {
    /// Whether the marker in the output folder names this job.
    pub(super) fn owns_output(&self) -> bool {
        let owner = fs::read_to_string(self.info().output.join(JOB_MARKER));
        owner.is_ok_and(|owner| owner == self.info().id)
    }

    /// Marks the output folder as the job's if a crash came before that.
    pub(super) fn require_output(&self) -> Result<(), JobFolderError> {
        let output = &self.info().output;
        if self.owns_output() {
            return Ok(());
        }
        if !self.log()?.is_empty() {
            return Err(JobFolderError::NotOwned(output.clone()));
        }
        let marker = output.join(JOB_MARKER);
        // The crash may have come before its content.
        if fs::metadata(&marker).is_ok_and(|found| found.len() == 0) {
            fs::remove_file(&marker).map_err(io_error(&marker))?;
        }
        require_empty(output)?;
        own(output, &self.info().id)
    }

    /// Returns the files that a done step wrote, below the output folder; none where that is not
    /// recorded.
    pub fn files_of(&self, step: &str) -> Vec<PathBuf> {
        let text = fs::read(self.list_of_files(step)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn list_of_files(&self, step: &str) -> PathBuf {
        self.path.join(RESULTS).join(format!("{step}.files.json"))
    }

    /// Lists all files below these names in the output folder; durable on return.
    pub(super) fn record_files(&self, step: &str, names: &[String]) -> Result<(), JobFolderError> {
        let output = &self.info().output;
        let mut files = Vec::new();
        for name in names.iter().filter(|name| is_name(name)) {
            files_below(output, Path::new(name), &mut files).map_err(io_error(output))?;
        }
        let path = self.list_of_files(step);
        let text = serde_json::to_vec(&files).map_err(|e| io_error(&path)(e.into()))?;
        durable::replace(&path, &text).map_err(io_error(&path))
    }

    /// Removes the files of done steps and unfinished files from the output folder, and each folder
    /// in which nothing else is.
    pub(super) fn remove_outputs(&self, log: &[LogLine]) -> Result<(), JobFolderError> {
        let output = &self.info().output;
        if !self.owns_output() {
            return Ok(());
        }
        for line in log {
            if let LogRecord::Claimed { name, .. } = &line.record
                && is_name(name)
            {
                let part = target::part(output, name);
                target::remove(&part).map_err(io_error(&part))?;
            }
        }
        for (step, _) in finished(log) {
            // Without a readable list the files stay.
            remove_files(output, &self.files_of(&step)).map_err(io_error(output))?;
        }
        // Last: until then the folder is the job's, and this can be repeated.
        let marker = output.join(JOB_MARKER);
        target::remove(&marker).map_err(io_error(&marker))?;
        // Files of others keep it.
        fs::remove_dir(output).ok();
        Ok(())
    }
}

/// Adds the files at `path` below `output`, which may be one itself. Links are not followed.
fn files_below(output: &Path, path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let whole = output.join(path);
    match fs::symlink_metadata(&whole) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => {
            files.push(path.to_owned());
            return Ok(());
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    for entry in fs::read_dir(whole)? {
        files_below(output, &path.join(entry?.file_name()), files)?;
    }
    Ok(())
}

/// Removes these files below `output`, and their folders if nothing else is in them.
fn remove_files(output: &Path, files: &[PathBuf]) -> io::Result<()> {
    let is_plain = |path: &Path| {
        let mut parts = path.components();
        parts.all(|part| matches!(part, Component::Normal(_)))
    };
    let above = files.iter().filter(|file| is_plain(file));
    let above: BTreeSet<&Path> = above
        .flat_map(|file| file.ancestors().skip(1))
        .filter(|folder| !folder.as_os_str().is_empty())
        .collect();
    // A folder comes before those in it. A link in place of a folder leads elsewhere.
    let mut folders = BTreeSet::from([Path::new("")]);
    for folder in above {
        let is_reached = folder.parent().is_some_and(|above| folders.contains(above));
        let found = fs::symlink_metadata(output.join(folder));
        if is_reached && found.is_ok_and(|found| found.is_dir()) {
            folders.insert(folder);
        }
    }
    for file in files.iter().filter(|file| is_plain(file)) {
        let path = output.join(file);
        let is_file = || fs::symlink_metadata(&path).is_ok_and(|found| !found.is_dir());
        if file.parent().is_some_and(|above| folders.contains(above)) && is_file() {
            fs::remove_file(&path)?;
        }
    }
    for folder in folders.iter().rev().filter(|f| !f.as_os_str().is_empty()) {
        fs::remove_dir(output.join(folder)).ok();
    }
    Ok(())
}
