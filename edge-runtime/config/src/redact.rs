//! Addresses and messages without their credentials.
//!
//! Owns what counts as a credential: the user information of an address, and the values of options whose name says so,
//! behind the `?` or, as some recorders want it, in the path (`/user=admin&password=…`). Invariant: when in doubt, more is hidden: everything up to the last `@` of an address goes, because a
//! password may hold an unescaped `/`, `?` or `#`; so does what stands before an `@` behind a colon, because the scheme of
//! an address may be forgotten or misspelt.

use serde_json::Value;

/// What stands in a credential's place.
pub const MASK: &str = "***";

/// Parts of option names that mark their value as a credential.
const SECRET_KEYS: [&str; 13] = [
    "pass", "pw", "token", "secret", "key", "auth", "user", "usr", "login", "account", "cred",
    "sig", "session",
];

/// The address with credentials replaced by [`MASK`]; any text is accepted.
#[must_use]
pub fn uri(text: &str) -> String {
    match credential(text) {
        Some((Some(scheme), host)) => format!("{scheme}://{MASK}@{}", options(host)),
        Some((None, host)) => format!("{MASK}@{}", options(host)),
        None => options(text),
    }
}

/// Whether the text holds user information.
pub(crate) fn has_credential(text: &str) -> bool {
    credential(text).is_some()
}

/// Of a text with user information, such as `rtsp://admin:secret@cam/live` or `admin:secret@cam/live`: the scheme, where
/// it begins with one, and what follows the last `@`.
fn credential(text: &str) -> Option<(Option<&str>, &str)> {
    let (head, host) = text.rsplit_once('@')?;
    let scheme = head.split_once("://").map(|(scheme, _)| scheme);
    match scheme.filter(|scheme| is_scheme(scheme)) {
        Some(scheme) => Some((Some(scheme), host)),
        // An absolute path is a file's, whatever its name.
        None => (head.contains(':') && !text.starts_with('/')).then_some((None, host)),
    }
}

/// Whether this is what RFC 3986, section 3.1, allows before the colon.
pub(crate) fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

/// Hides the values of secret options.
fn options(text: &str) -> String {
    each_option(text)
        .map(|(option, end)| match secret_value(option) {
            Some(value) => {
                let shown = option.len() - value.len();
                format!("{}{MASK}{end}", option.get(..shown).unwrap_or_default())
            }
            None => format!("{option}{end}"),
        })
        .collect()
}

/// The values of the secret options of an address, as they are written.
pub(crate) fn secret_values(text: &str) -> impl Iterator<Item = &str> {
    each_option(text).filter_map(|(option, _)| secret_value(option))
}

/// What may be an option, each with the character that ends it. In the path a `/` ends one, behind the `?` it may be part of a value.
fn each_option(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let path = text.find('?').map_or(text.len(), |at| at + 1);
    let (path, query) = text.split_at_checked(path).unwrap_or((text, ""));
    let parts = path
        .split_inclusive(['/', '?', '&'])
        .chain(query.split_inclusive('&'));
    parts.map(|part| {
        let option = part.strip_suffix(['/', '?', '&']).unwrap_or(part);
        part.split_at_checked(option.len()).unwrap_or((part, ""))
    })
}

/// The value of an option whose name is a secret's, up to the option's end: `user=admin_password=1` is one option.
fn secret_value(option: &str) -> Option<&str> {
    let named = |(at, _): (usize, &str)| {
        let (name, value) = option.split_at_checked(at)?;
        let value = value.strip_prefix('=')?;
        (!value.is_empty() && is_secret(name)).then_some(value)
    };
    option.match_indices('=').find_map(named)
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_KEYS.iter().any(|key| name.contains(key))
}

/// A JSON value of outside, that stands at `name` where it has one, without its credentials: every text in it is treated as
/// an address, and one whose name says so is hidden whole. Whoever writes an address into the wrong field, or wraps it into a
/// list, gets it back without its password.
#[must_use]
pub fn json(name: Option<&str>, value: &Value) -> Value {
    match value {
        Value::String(_) if name.is_some_and(is_secret) => Value::from(MASK),
        Value::String(text) => Value::from(uri(text)),
        Value::Array(items) => items.iter().map(|item| json(name, item)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            fields
                .map(|(name, value)| (uri(name), json(Some(name), value)))
                .collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Filters messages of one source: knows the source's own credentials besides the general shape of addresses.
#[derive(Clone, Default)]
pub struct Redactor {
    secrets: Vec<String>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

impl Redactor {
    /// A filter that also hides these texts wherever they stand. Ones of fewer than three bytes are left out: they
    /// would tear holes into every sentence and hide nothing.
    #[must_use]
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut secrets: Vec<String> = secrets.into_iter().filter(|s| s.len() >= 3).collect();
        secrets.sort_by_key(|s| std::cmp::Reverse(s.len()));
        Self { secrets }
    }

    /// The message without credentials.
    #[must_use]
    pub fn text(&self, message: &str) -> String {
        let mut out = String::with_capacity(message.len());
        for (i, word) in message.split(' ').enumerate() {
            if i > 0 {
                out.push(' ');
            }
            if word.contains("://") || has_credential(word) {
                out.push_str(&uri(word));
            } else {
                out.push_str(word);
            }
        }
        for secret in &self.secrets {
            out = out.replace(secret.as_str(), MASK);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_password_in_the_path_is_hidden() {
        assert_eq!(
            uri("rtsp://10.0.0.9:554/user=admin&password=pa55&channel=1&stream=0.sdp?real_stream"),
            "rtsp://10.0.0.9:554/user=***&password=***&channel=1&stream=0.sdp?real_stream"
        );
        assert_eq!(
            uri("rtsp://cam/user=admin_password=pa55_channel=1/live"),
            "rtsp://cam/user=***/live"
        );
        assert_eq!(
            uri("http://cam/live?token=a/b&x=1"),
            "http://cam/live?token=***&x=1"
        );
    }

    #[test]
    fn user_and_password_become_stars() {
        assert_eq!(
            uri("rtsp://admin:pa55@10.0.0.7:554/h264"),
            "rtsp://***@10.0.0.7:554/h264"
        );
    }

    #[test]
    fn a_password_with_reserved_characters_does_not_leak_its_tail() {
        assert_eq!(uri("rtsp://admin:a/b?c#d@cam/live"), "rtsp://***@cam/live");
    }

    #[test]
    fn a_password_is_hidden_although_the_scheme_was_forgotten_or_misspelt() {
        assert_eq!(uri("admin:pa55@10.0.0.7/live"), "***@10.0.0.7/live");
        assert_eq!(uri("rtsp:/admin:pa55@cam/live"), "***@cam/live");
        assert_eq!(uri("admin:pa://55@cam/live"), "***@cam/live");
        assert_eq!(
            uri("admin:pa55@cam/?next=http://a"),
            "***@cam/?next=http://a"
        );
    }

    #[test]
    fn a_value_keeps_its_shape_and_loses_its_credentials() {
        let value = json!({
            "uri": ["rtsp://admin:pa55@cam/live", 5, null],
            "password": "pa55",
            "login": {"name": "me", "pins": [4]},
            "type": "roboflow_core/byte_tracker@v3",
            "admin:pa55@cam": true,
        });
        let hidden = json!({
            "uri": ["rtsp://***@cam/live", 5, null],
            "password": "***",
            "login": {"name": "me", "pins": [4]},
            "type": "roboflow_core/byte_tracker@v3",
            "***@cam": true,
        });
        assert_eq!(super::json(None, &value), hidden);
        assert_eq!(super::json(Some("token"), &json!(["pa55"])), json!(["***"]));
    }

    #[test]
    fn secret_options_are_hidden_and_the_others_kept() {
        assert_eq!(
            uri("http://cam/mjpg?channel=1&Password=x&access_token=y&fps=5"),
            "http://cam/mjpg?channel=1&Password=***&access_token=***&fps=5"
        );
    }

    #[test]
    fn an_address_without_credentials_is_left_alone() {
        for plain in [
            "/srv/clips/a@b.mp4",
            "/srv/clips/12:30@gate.mp4",
            "demo:?seed=7&seconds=20",
            "rtsp://cam/live",
            "/dev/video0",
            "",
        ] {
            assert_eq!(uri(plain), plain);
        }
    }

    #[test]
    fn a_message_loses_addresses_and_bare_secrets() {
        let redactor = Redactor::new(["hunter2".to_owned()]);
        assert_eq!(
            redactor.text("can't open rtsp://me:hunter2@cam/live (tried hunter2)"),
            "can't open rtsp://***@cam/live (tried ***)"
        );
    }

    proptest! {
        #[test]
        fn no_password_survives(user in "[a-z]{1,8}", password in "[A-Z0-9/?#:@&=]{4,12}XQ") {
            let address = format!("rtsp://{user}:{password}@cam.local:554/live?a=1");
            prop_assert!(!uri(&address).contains(&password));
            prop_assert!(!uri(&address).contains("XQ"));
        }
    }
}
