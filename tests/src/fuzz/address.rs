//! Target `address`: addresses of sources, in up to four parts between NULs: before the password,
//! the password, after it, and a message about the source.
//!
//! - An address is accepted, or refused with a sentence.
//! - A password appears in no refusal, displayed address, debug output or repeated message.
//! - A valid address reaches the camera exactly as it was written.

use std::fmt::Write as _;

use watchkeeper_runtime::capture::address::Address;
use watchkeeper_runtime::capture::redact;

/// Part of every tested password, in lower case; occurs nowhere else.
const CANARY: &str = "qzxcanaryxzq";

pub(super) fn address(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    // libFuzzer learns the canary; outside the password it proves nothing.
    if text.to_ascii_lowercase().contains(CANARY) {
        return;
    }
    let mut parts = text.splitn(4, '\0');
    let mut part = || parts.next().unwrap_or_default();
    let (head, password, tail, message) = (part(), part(), part(), part());

    let plain = format!("{head}{tail}");
    if let Err(refused) = Address::parse(&plain) {
        assert!(!refused.to_string().trim().is_empty());
    }
    assert_eq!(redact::uri(&redact::uri(&plain)), redact::uri(&plain));

    // In the user part of an address, and of one whose scheme is missing or misspelt.
    let user = without(head, "/?#");
    for scheme in ["rtsp://", "HTTP://", "ftp://", "rtsp:/", "admin"] {
        hidden(&format!(
            "{scheme}{user}:{password}{CANARY}{message}@cam{tail}"
        ));
    }
    hidden(&format!("x{head}://admin:{CANARY}{password}@{tail}"));
    // In an option with a secret's name.
    let option = without(password, "&#?@=");
    hidden(&format!(
        "http://cam/live?{option}token={CANARY}{option}&fps=5"
    ));

    // The camera gets the password that was written.
    let escaped: String = password.bytes().fold(String::new(), |mut out, byte| {
        write!(out, "%{byte:02X}").expect("text grows");
        out
    });
    if let Ok(Address::Rtsp { credentials, .. }) =
        Address::parse(&format!("rtsp://admin:{escaped}x@cam/live"))
    {
        let credentials = credentials.expect("they were written");
        assert_eq!(credentials.password, format!("{password}x"));
    }
    let literal: String = password
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || "%+-._~".contains(*c))
        .collect();
    if let Ok(Address::Rtsp { credentials, .. }) =
        Address::parse(&format!("rtsp://admin:{literal}x@cam/live"))
    {
        let credentials = credentials.expect("they were written");
        let decoded = percent_encoding::percent_decode_str(&literal).decode_utf8_lossy();
        assert_eq!(credentials.password, format!("{decoded}x"));
    }
}

/// The text without some characters; empty if the rest would contain the canary.
fn without(text: &str, some: &str) -> String {
    let rest: String = text.chars().filter(|c| !some.contains(*c)).collect();
    if rest.to_ascii_lowercase().contains(CANARY) {
        return String::new();
    }
    rest
}

fn hidden(address: &str) {
    let clean = |what: &str, text: &str| {
        assert!(
            !text.to_ascii_lowercase().contains(CANARY),
            "{what} of {address:?} shows {text:?}"
        );
    };
    clean("the shown form", &redact::uri(address));
    let about = format!("can't open {address}: connection refused");
    match Address::parse(address) {
        Ok(parsed) => {
            clean("the debug print", &format!("{parsed:?}"));
            clean("a message", &parsed.redactor().text(&about));
        }
        Err(refused) => clean("the refusal", &refused.to_string()),
    }
}
