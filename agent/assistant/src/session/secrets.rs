//! Removes logins, passwords and keys from a user's text.
//!
//! - No rule, LLM, note, trace, history or reply sees them.
//! - [`watchkeeper_config::redact::message`] decides what a secret is.
//! - Hiding twice changes nothing.

use std::borrow::Cow;

use watchkeeper_config::redact;

use super::progress::{ProgressEvent, ProgressSink};

/// Note for the user: what was hidden, and where secrets belong.
pub(crate) const SECRET_HIDDEN_NOTE: &str = "a password or key in your text was removed (***); it is neither stored nor sent. A camera address with its login belongs in [sources.NAME] of the configuration, another secret in [sinks.secrets.NAME]";

/// Hides the secrets of a text and informs the user.
pub(crate) fn hide_secrets<'t>(text: &'t str, out: &dyn ProgressSink) -> Cow<'t, str> {
    match redact::message(text) {
        None => Cow::Borrowed(text),
        Some(hidden) => {
            out.report(ProgressEvent::Note(SECRET_HIDDEN_NOTE));
            Cow::Owned(hidden)
        }
    }
}
