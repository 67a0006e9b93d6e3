//! The marker that names the job of an output folder.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use watchkeeper_pictures::folder::JOB_MARKER;
use watchkeeper_store::durable;

use super::error::{JobFolderError, io_error};

/// Longest id of a job that a refusal names, in bytes.
const MAX_ID: usize = 64;

/// Refuses a folder with content: what is there is not of this job.
pub(super) fn require_empty(output: &Path) -> Result<(), JobFolderError> {
    match fs::read_dir(output) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(occupied(output)),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(io_error(output)(source)),
    }
}

/// The refusal of a folder with content; it names the job that the folder belongs to.
fn occupied(output: &Path) -> JobFolderError {
    let output = output.to_owned();
    let is_id = |id: &String| {
        id.len() <= MAX_ID && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    let marker = fs::read_to_string(output.join(JOB_MARKER));
    match marker.ok().filter(|id| !id.is_empty() && is_id(id)) {
        Some(job) => JobFolderError::OfJob { output, job },
        None => JobFolderError::NotEmpty(output),
    }
}

/// Creates the output folder and marks it as the job's, durably.
pub(super) fn own(output: &Path, id: &str) -> Result<(), JobFolderError> {
    fs::create_dir_all(output).map_err(io_error(output))?;
    let marker = output.join(JOB_MARKER);
    let mut file = match File::create_new(&marker) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(occupied(output));
        }
        Err(source) => return Err(io_error(&marker)(source)),
    };
    let written = file.write_all(id.as_bytes()).and_then(|()| file.sync_all());
    written.map_err(io_error(&marker))?;
    let above = output.parent().unwrap_or(Path::new("/"));
    let synced = durable::sync_folder(output).and_then(|()| durable::sync_folder(above));
    synced.map_err(io_error(output))
}
