//! Links by which a person answers a review, for notifications.
//!
//! - A link is for one event, and expires after [`LIFETIME`]. HMAC-SHA256 proves it, with a key of
//!   this box in `<state>/review-links.key`, mode 0600. Without the file all links are void.
//! - It answers an event that no person has answered, so once; the journal decides that.
//! - Not here: its page (`api::routes::review_link`).

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::{EventId, EventSeq};
use watchkeeper_store::chain::Hash;
use watchkeeper_store::durable::replace_private;

/// Time for which a link is valid.
pub(crate) const LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);
/// Path of the links; their token follows it.
pub(crate) const PATH: &str = "/review/";
const KEY_FILE: &str = "review-links.key";
/// Bytes of the key, as many as its digest has.
const KEY_BYTES: usize = 32;
/// Start of the signed text, so that nothing else signed with the key is a link.
const PURPOSE: &str = "watchkeeper review link v1";

/// Makes and checks links.
pub struct ReviewLinks {
    /// Address before [`PATH`].
    public_url: String,
    key: hmac::Key,
}

impl fmt::Debug for ReviewLinks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReviewLinks")
            .field("public_url", &self.public_url)
            .finish_non_exhaustive()
    }
}

/// Event and expiry of a valid link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkedReview {
    /// Number of a record of the event.
    pub seq: EventSeq,
    pub event: EventId,
}

/// Why a link is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidLink {
    #[error("This link is not of this box")]
    Unknown,
    #[error("This link has expired")]
    Expired,
}

impl ReviewLinks {
    /// Reads the key in the folder `state`, or makes one.
    ///
    /// # Errors
    /// When the file can't be read or written, or holds no key.
    pub(crate) fn open(state: &Path, public_url: &str) -> io::Result<Self> {
        let file = state.join(KEY_FILE);
        let secret = match fs::read(&file) {
            Ok(secret) => secret,
            Err(error) if error.kind() == io::ErrorKind::NotFound => new_key(&file)?,
            Err(error) => return Err(error),
        };
        if secret.len() != KEY_BYTES {
            let why = format!("{} holds no key; delete it", file.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(Self {
            public_url: public_url.to_owned(),
            key: hmac::Key::new(hmac::HMAC_SHA256, &secret),
        })
    }

    /// Makes the link for the event of a record; `now_ms` is the time in milliseconds since 1970.
    pub(crate) fn link(&self, event: &Event, now_ms: i64) -> String {
        let expires = now_ms / 1000 + i64::try_from(LIFETIME.as_secs()).unwrap_or(i64::MAX);
        let signed = signed(event.seq, event.id, expires);
        let tag = Hash::from_bytes(hmac::sign(&self.key, signed.as_bytes()).as_ref());
        // An HMAC of SHA-256 has the bytes of a hash.
        let tag = tag.map(|tag| tag.to_string()).unwrap_or_default();
        let (url, seq, id) = (&self.public_url, event.seq, event.id);
        format!("{url}{PATH}{seq}.{id}.{expires}.{tag}")
    }

    /// Checks the token of a link.
    ///
    /// # Errors
    /// [`InvalidLink`] when it is not one of this box, or has expired.
    pub(crate) fn check(&self, token: &str, now_ms: i64) -> Result<LinkedReview, InvalidLink> {
        let parts: Vec<&str> = token.split('.').collect();
        let [seq, event, expires, tag] = parts[..] else {
            return Err(InvalidLink::Unknown);
        };
        let unknown = |_| InvalidLink::Unknown;
        let seq = EventSeq(seq.parse().map_err(|_| InvalidLink::Unknown)?);
        let event = EventId(event.parse().map_err(|_| InvalidLink::Unknown)?);
        let expires: i64 = expires.parse().map_err(|_| InvalidLink::Unknown)?;
        let tag = Hash::parse(tag).ok_or(InvalidLink::Unknown)?;
        let signed = signed(seq, event, expires);
        hmac::verify(&self.key, signed.as_bytes(), &tag.0).map_err(unknown)?;
        if now_ms / 1000 >= expires {
            return Err(InvalidLink::Expired);
        }
        Ok(LinkedReview { seq, event })
    }
}

fn signed(seq: EventSeq, event: EventId, expires: i64) -> String {
    format!("{PURPOSE}\n{seq}\n{event}\n{expires}")
}

fn new_key(file: &Path) -> io::Result<Vec<u8>> {
    let mut secret = vec![0; KEY_BYTES];
    let random = SystemRandom::new();
    random
        .fill(&mut secret)
        .map_err(|_| io::Error::other("the system has no random numbers"))?;
    replace_private(file, &secret)?;
    Ok(secret)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::example;

    const NOW_MS: i64 = 1_700_000_000_000;

    fn token(links: &ReviewLinks, event: &Event) -> String {
        let link = links.link(event, NOW_MS);
        link.strip_prefix("https://box.example/review/")
            .unwrap()
            .to_owned()
    }

    fn links(state: &Path) -> ReviewLinks {
        ReviewLinks::open(state, "https://box.example").unwrap()
    }

    #[test]
    fn link_is_valid_until_expiry_also_after_restart() {
        let state = tempfile::tempdir().unwrap();
        let event = example::example_event();
        let token = token(&links(state.path()), &event);
        let restarted = links(state.path());
        let expected = LinkedReview {
            seq: event.seq,
            event: event.id,
        };
        assert_eq!(restarted.check(&token, NOW_MS), Ok(expected));
        let lifetime_ms = i64::try_from(LIFETIME.as_millis()).unwrap();
        let last_ms = NOW_MS + lifetime_ms - 1;
        assert_eq!(restarted.check(&token, last_ms), Ok(expected));
        assert_eq!(
            restarted.check(&token, last_ms + 1),
            Err(InvalidLink::Expired)
        );
        let other = tempfile::tempdir().unwrap();
        let of_other = links(other.path()).check(&token, NOW_MS);
        assert_eq!(of_other, Err(InvalidLink::Unknown));
    }

    #[test]
    fn changed_link_is_refused() {
        let state = tempfile::tempdir().unwrap();
        let links = links(state.path());
        let token = token(&links, &example::example_event());
        let parts: Vec<&str> = token.split('.').collect();
        let later = format!("{}.{}.9999999999.{}", parts[0], parts[1], parts[3]);
        let other = format!("{}9.{}.{}.{}", parts[0], parts[1], parts[2], parts[3]);
        let short = format!("{}.{}.{}.{}", parts[0], parts[1], parts[2], &parts[3][..8]);
        let unsigned = format!("{}.{}.{}.", parts[0], parts[1], parts[2]);
        for wrong in [later, other, short, unsigned, String::new()] {
            assert_eq!(
                links.check(&wrong, NOW_MS),
                Err(InvalidLink::Unknown),
                "{wrong}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_check_panic_or_is_a_link(text in ".{0,200}") {
            let state = tempfile::tempdir().unwrap();
            prop_assert_eq!(links(state.path()).check(&text, NOW_MS), Err(InvalidLink::Unknown));
        }
    }
}
