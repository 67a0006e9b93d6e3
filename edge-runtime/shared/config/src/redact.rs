//! Addresses and messages without their credentials.
//!
//! - A credential is the user information of an address, or the value of an option with a secret's
//!   name. The option is in the query or, as some recorders want it, in the path
//!   (`/user=admin&password=…`).
//! - In user texts ([`message`]) also the word after `password`, `token` and the like, and keys
//!   with a well-known prefix.
//! - When in doubt, more is hidden: everything up to the last `@` of an address, because a password
//!   may hold an unescaped `/`, `?` or `#`; and text before an `@` with a colon in it, because the
//!   scheme may be missing or misspelt.

use serde_json::Value;

/// Replaces a credential.
pub const MASK: &str = "***";

/// Parts of option names that mark their value as a credential.
const SECRET_KEYS: [&str; 13] = [
    "pass", "pw", "token", "secret", "key", "auth", "user", "usr", "login", "account", "cred",
    "sig", "session",
];

/// Replaces the credentials of an address by [`MASK`]; any text is accepted.
#[must_use]
pub fn uri(text: &str) -> String {
    match credential(text) {
        Some((Some(scheme), host)) => format!("{scheme}://{MASK}@{}", options(host)),
        Some((None, host)) => format!("{MASK}@{}", options(host)),
        None => options(text),
    }
}

/// Returns whether the text holds user information.
pub(crate) fn has_credential(text: &str) -> bool {
    credential(text).is_some()
}

/// Splits a text with user information, such as `rtsp://admin:secret@cam/live` or
/// `admin:secret@cam/live`: the scheme, where it has one, and the part after the last `@`.
fn credential(text: &str) -> Option<(Option<&str>, &str)> {
    let (head, host) = text.rsplit_once('@')?;
    let scheme = head.split_once("://").map(|(scheme, _)| scheme);
    match scheme.filter(|scheme| is_scheme(scheme)) {
        Some(scheme) => Some((Some(scheme), host)),
        // An absolute path is a file's, whatever its name.
        None => (head.contains(':') && !text.starts_with('/')).then_some((None, host)),
    }
}

/// Returns whether RFC 3986, section 3.1, allows this before the colon.
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

/// Returns the values of an address's secret options, as they are written.
pub(crate) fn secret_values(text: &str) -> impl Iterator<Item = &str> {
    each_option(text).filter_map(|(option, _)| secret_value(option))
}

/// Splits an address into possible options, each with the character that ends it. In the path a `/`
/// ends one; in the query it may be part of a value.
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

/// Returns the value of an option with a secret's name, up to the option's end:
/// `user=admin_password=1` is one option.
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

/// Removes the credentials of a JSON value from outside that stands at `name`, where it has one.
///
/// Every text in it is treated as an address, and one with a secret's name is hidden whole. An
/// address in the wrong field, or in a list, comes back without its password too.
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

/// Words before a secret: `password: …`, "the token is …".
const SECRET_WORDS: [&str; 20] = [
    "password",
    "passwd",
    "passwort",
    "kennwort",
    "passphrase",
    "passcode",
    "pin",
    "pincode",
    "pin-code",
    "pwd",
    "pw",
    "token",
    "secret",
    "key",
    "apikey",
    "api_key",
    "api-key",
    "access_key",
    "secret_key",
    "authorization",
];
/// Words that may be between such a word and its secret.
const BETWEEN: [&str; 6] = ["is", "ist", "are", "=", ":", ":="];
/// Well-known prefixes of keys.
const KEY_BEGINNINGS: [&str; 17] = [
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xapp-",
    "AKIA",
    "AIza",
    "eyJ",
];
/// Most words between the word for a secret and the `is` before it: "the password of the gate
/// camera is …".
const BETWEEN_WORDS: u8 = 6;
/// Least characters of such a key.
const KEY_CHARS: usize = 16;

/// Replaces each credential in a user's text by [`MASK`]; `None` if there is none.
///
/// Hides the login of an address, and the value of an option with a secret's name (`password=…`).
/// Hides keys with a well-known prefix, and the text after `Bearer`. Hides the text after the word
/// for a secret, where it is written as one (`password: …`, `token "…"`) or looks like one. It
/// looks like one with a digit, a sign, or capitals inside. Everything else stays unchanged, and
/// hidden text is not changed again.
#[must_use]
pub fn message(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut before = Before::Other;
    for part in text.split_inclusive(char::is_whitespace) {
        let word = part.trim_end_matches(char::is_whitespace);
        let space = part.get(word.len()..).unwrap_or_default();
        if word.is_empty() {
            out.push_str(space);
            continue;
        }
        let (shown, next) = redact_word(word, before);
        before = next;
        out.push_str(&shown);
        out.push_str(space);
    }
    (out != text).then_some(out)
}

/// Meaning of a word for the next one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Other,
    /// A secret was named, and may follow an `is` within this many words.
    Named(u8),
    /// The next word is a secret if it looks like one.
    Perhaps,
    /// The next word is a secret.
    Surely,
    /// The next words are a secret, up to this quote.
    Within(char),
}

const QUOTES: [char; 4] = ['"', '\'', '`', '”'];

/// Masks what is secret in a word; returns what that means for the next one.
fn redact_word(word: &str, before: Before) -> (String, Before) {
    if let Before::Within(quote) = before {
        return match word.find(quote) {
            Some(at) => {
                let rest = word.get(at..).unwrap_or_default();
                (format!("{MASK}{rest}"), Before::Other)
            }
            None => (MASK.to_owned(), before),
        };
    }
    let bare = word.trim_matches(|c: char| QUOTES.contains(&c) || ",;.!?()[]{}<>“„".contains(c));
    if before != Before::Other && BETWEEN.contains(&word) {
        let is_written = word.starts_with([':', '=']) || before == Before::Surely;
        let next = if is_written {
            Before::Surely
        } else {
            Before::Perhaps
        };
        return (word.to_owned(), next);
    }
    let redacted = redact_expected(word, bare, before).or_else(|| redact_pair(word));
    if let Some(redacted) = redacted {
        return redacted;
    }
    if word.contains("://") || has_credential(word) {
        return (uri(word), Before::Other);
    }
    if is_key(bare) {
        return (word.replace(bare, MASK), Before::Other);
    }
    (word.to_owned(), after_word(word, bare, before))
}

/// Masks a word where the words before make a secret likely; `None` if it is none.
fn redact_expected(word: &str, bare: &str, before: Before) -> Option<(String, Before)> {
    if !matches!(before, Before::Perhaps | Before::Surely) {
        return None;
    }
    if bare.to_lowercase() == "bearer" {
        return Some((word.to_owned(), Before::Surely));
    }
    if bare == MASK {
        return Some((word.to_owned(), Before::Other));
    }
    // Quoted text is taken literally.
    let quoted = word.starts_with(QUOTES) || word.starts_with(['“', '„']);
    // Another word for it comes first: "password token: …".
    let is_label = word.ends_with([':', '='])
        && is_secret_word(word.trim_matches(|c: char| !c.is_alphanumeric()));
    let is_secret = !is_label && (before == Before::Surely || quoted || looks_secret(bare));
    is_secret.then(|| mask_value(word))
}

/// Masks a secret after its own word, with or without quotes around that: `password=x`,
/// `"token":"x"`.
fn redact_pair(word: &str) -> Option<(String, Before)> {
    for (at, sign) in word.match_indices(['=', ':']) {
        let (name, value) = word.split_at_checked(at).unwrap_or((word, ""));
        let value = value.strip_prefix(sign).unwrap_or_default();
        let name = name
            .rsplit(|c: char| !c.is_alphanumeric() && !"_-".contains(c))
            .find(|name| !name.is_empty())
            .unwrap_or_default();
        let is_name = match sign {
            "=" => is_secret(name) || is_secret_word(name),
            _ => is_secret_word(name) && !value.starts_with("//"),
        };
        if !is_name {
            continue;
        }
        let value = value.trim_start_matches('=');
        let head = word.get(..word.len() - value.len()).unwrap_or_default();
        // Options of an address end where the next one begins.
        if head.contains("://") {
            return None;
        }
        if value.is_empty() || value.eq_ignore_ascii_case("bearer") {
            return Some((word.to_owned(), Before::Surely));
        }
        let (shown, next) = mask_value(value);
        return Some((format!("{head}{shown}"), next));
    }
    None
}

/// Returns what a word without a secret means for the next one.
fn after_word(word: &str, bare: &str, before: Before) -> Before {
    match bare.to_lowercase().as_str() {
        "bearer" if bare == "Bearer" => Before::Surely,
        "bearer" => Before::Perhaps,
        lower if is_secret_word(lower) => match word.ends_with([':', '=']) {
            true => Before::Surely,
            false => Before::Perhaps,
        },
        _ if word.ends_with(['.', ';', '!', '?']) => Before::Other,
        _ => match before {
            Before::Perhaps => Before::Named(BETWEEN_WORDS),
            Before::Named(left @ 1..) => Before::Named(left - 1),
            _ => Before::Other,
        },
    }
}

/// Masks a value, without the quotes and punctuation around it.
fn mask_value(value: &str) -> (String, Before) {
    let inside = value.trim_start_matches(['"', '\'', '`', '“', '„', '(']);
    let head = value.get(..value.len() - inside.len()).unwrap_or_default();
    let quote = match head.chars().last() {
        Some(quote @ ('"' | '\'' | '`')) => Some(quote),
        Some('“') => Some('”'),
        Some('„') => Some('“'),
        _ => None,
    };
    if let Some(quote) = quote {
        return match inside.find(quote) {
            Some(at) => {
                let rest = inside.get(at..).unwrap_or_default();
                (format!("{head}{MASK}{rest}"), Before::Other)
            }
            None => (format!("{head}{MASK}"), Before::Within(quote)),
        };
    }
    let core = inside.trim_end_matches([',', ';', '.', '!', '?', ')', '}', ']']);
    let tail = inside.get(core.len()..).unwrap_or_default();
    (format!("{head}{MASK}{tail}"), Before::Other)
}

fn is_secret_word(name: &str) -> bool {
    let name = name.to_lowercase();
    SECRET_WORDS.contains(&name.as_str())
}

/// Returns whether this looks like a secret rather than a word: a digit, a sign or a capital
/// inside.
fn looks_secret(word: &str) -> bool {
    let is_sign = |c: char| !c.is_alphanumeric() && !"-'’".contains(c);
    let mut inside = word.chars();
    inside.next();
    word.chars().count() >= 4
        && word != MASK
        && (word.chars().any(|c| c.is_ascii_digit() || is_sign(c))
            || inside.any(char::is_uppercase))
}

fn is_key(word: &str) -> bool {
    let is_long = word.chars().count() >= KEY_CHARS;
    let is_of_key = |c: char| c.is_ascii_alphanumeric() || "-_.+/=".contains(c);
    is_long
        && word.chars().all(is_of_key)
        && KEY_BEGINNINGS
            .iter()
            .any(|beginning| word.starts_with(beginning))
}

/// Filters messages of one source. It knows the source's own credentials and the general shape of
/// addresses.
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
    /// Makes a filter that also hides `secrets` anywhere.
    ///
    /// Secrets of fewer than three bytes are ignored: they would cut every sentence and hide
    /// nothing.
    #[must_use]
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut secrets: Vec<String> = secrets.into_iter().filter(|s| s.len() >= 3).collect();
        secrets.sort_by_key(|s| std::cmp::Reverse(s.len()));
        Self { secrets }
    }

    /// Returns the message without credentials.
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
mod tests;
