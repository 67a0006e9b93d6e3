//! The user's state folder: pending proposals, trace, notes and chat history.
//!
//! By the XDG Base Directory Specification `$XDG_STATE_HOME/watchkeeper` if that is absolute, else
//! `~/.local/state/watchkeeper`. It is private to the user; the daemons have their own folder.

use std::path::PathBuf;

use super::exit::Failure;

/// Returns the path of the folder; the first writer creates it.
///
/// # Errors
/// [`Exit::Failed`](crate::exit::Exit) if neither variable is set.
pub(super) fn state_folder() -> Result<PathBuf, Failure> {
    let folder = |name| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")));
    state.map(|state| state.join("watchkeeper")).ok_or_else(|| {
        let sentence = "no folder for your state: set HOME or XDG_STATE_HOME to an absolute path";
        Failure::failed(sentence)
    })
}
