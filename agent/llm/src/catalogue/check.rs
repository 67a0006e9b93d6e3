//! Checks a model file. Each error is the field and one phrase.

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
