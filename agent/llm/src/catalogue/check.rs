//! Checks a model file. Each error is the field and one phrase.

use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer};
use url::Url;

use super::{Model, Provider};

/// A field, and what is wrong with it.
pub(super) type FieldError = (&'static str, &'static str);

pub(super) fn check_provider(provider: &Provider) -> Result<(), FieldError> {
    match provider.max_request_bytes < 1 << 20 {
        true => Err(("max_request_bytes", "must be at least 1048576")),
        false => Ok(()),
    }
}

pub(super) fn check_model(model: &Model) -> Result<(), FieldError> {
    if model.id.is_empty() {
        return Err(("id", "must not be empty"));
    }
    if u64::from(model.max_output) > model.context || model.max_output == 0 {
        return Err(("max_output", "must be 1 to `context`"));
    }
    if !(0.5..=10.0).contains(&model.bytes_per_token) {
        return Err(("bytes_per_token", "must be 0.5 to 10"));
    }
    if model.image_tier.is_some() != (model.max_images > 0) {
        let why = "must be 1 or more where `image_tier` is given, and only there";
        return Err(("max_images", why));
    }
    Ok(())
}

pub(super) fn read_base_url<'de, D: Deserializer<'de>>(from: D) -> Result<Url, D::Error> {
    base_url(&String::deserialize(from)?).map_err(D::Error::custom)
}

/// Parses the address of a provider. A path in it is kept before the protocol's own.
///
/// # Errors
/// One phrase, without the address: it may hold a credential.
pub fn base_url(text: &str) -> Result<Url, String> {
    let url =
        Url::parse(text).map_err(|e| format!("is not an address ({e}); write https://HOST"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err("must begin with https:// or http:// and name a host".to_owned());
    }
    if !url.username().is_empty()
        || url.password().is_some()
        || url.query().is_some()
        || url.fragment().is_some()
    {
        return Err(
            "must hold no credential, no `?` and no `#`; the key has a place of its own".to_owned(),
        );
    }
    Ok(url)
}
