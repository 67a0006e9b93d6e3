//! The folder of what a person's own commands keep between two calls: proposals that wait, the trace, notes, the history of the chat.
//!
//! After the XDG Base Directory Specification: `$XDG_STATE_HOME/watchkeeper` where that is absolute, else `~/.local/state/watchkeeper`. It is
//! the person's and not the box's: the state folder of the daemons belongs to their user, and what one person asked is no other's business.

use std::path::PathBuf;

use super::exit::{Exit, Failure};

/// The folder. It is made by whoever writes to it first.
///
/// # Errors
/// [`Exit::Failed`] for a user without a home.
pub(super) fn state_folder() -> Result<PathBuf, Failure> {
    let folder = |name| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")));
    state.map(|state| state.join("watchkeeper")).ok_or_else(|| {
        let sentence = "there is no folder for what is kept between two commands: set HOME, or XDG_STATE_HOME to a folder of yours";
        Failure::new(Exit::Failed, sentence)
    })
}
