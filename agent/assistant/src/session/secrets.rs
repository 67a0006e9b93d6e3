//! Logins, passwords and keys in what a person says: they go no further than here.
//!
//! Invariant: whatever is heard is heard without them, so no rule, model, note, trace, history and no answer of the box has one. What counts as one is said by
//! [`watchkeeper_config::redact::said`]; what was hidden once is not changed again, so it does no harm to ask twice.

use std::borrow::Cow;

use watchkeeper_config::redact;

use super::progress::{ProgressEvent, ProgressSink};

/// What the person is told where something was left out, and where it belongs.
pub const LEFT_OUT: &str = "a password or key in your words was left out (***): it is kept nowhere and sent to nobody. The address of a camera with its login belongs in [sources.NAME] of the configuration, another secret in [sinks.secrets.NAME]";

/// A person's words without secrets; that some were left out is told.
pub fn without_secrets<'t>(text: &'t str, out: &dyn ProgressSink) -> Cow<'t, str> {
    match redact::said(text) {
        None => Cow::Borrowed(text),
        Some(hidden) => {
            out.tell(ProgressEvent::Note(LEFT_OUT));
            Cow::Owned(hidden)
        }
    }
}
