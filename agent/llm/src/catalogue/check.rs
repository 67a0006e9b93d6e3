//! Checks a model file. Each error is the field and one phrase.

use url::Url;

use super::raw;
use super::{Model, Prices, Provider, Rate};
use crate::money::Money;

/// A field, and what is wrong with it.
pub(super) type FieldError = (&'static str, String);

pub(super) fn checked_provider(name: &str, read: raw::Provider) -> Result<Provider, FieldError> {
    let base_url = base_url(&read.base_url).map_err(|why| ("base_url", why))?;
    if read.max_request_bytes < 1 << 20 {
        return Err(("max_request_bytes", "must be at least 1048576".to_owned()));
    }
    Ok(Provider {
        name: name.to_owned(),
        protocol: read.protocol,
        base_url,
        program: read.program,
        needs_key: read.needs_key,
        max_request_bytes: read.max_request_bytes,
        small: read.small,
        medium: read.medium,
        large: read.large,
    })
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

pub(super) fn checked_model(read: raw::Model) -> Result<Model, FieldError> {
    if read.id.is_empty() {
        return Err(("id", "must not be empty".to_owned()));
    }
    if u64::from(read.max_output) > read.context || read.max_output == 0 {
        return Err(("max_output", "must be 1 to `context`".to_owned()));
    }
    if !(0.5..=10.0).contains(&read.bytes_per_token) {
        return Err(("bytes_per_token", "must be 0.5 to 10".to_owned()));
    }
    if read.image_tier.is_some() != (read.max_images > 0) {
        let why = "must be 1 or more where `image_tier` is given, and only there";
        return Err(("max_images", why.to_owned()));
    }
    let rates: Result<Vec<Rate>, String> = read.price.iter().map(rate).collect();
    let prices = rates.and_then(|rates| Prices::new(rates).map_err(str::to_owned));
    Ok(Model {
        id: read.id,
        provider: read.provider,
        context: read.context,
        max_output: read.max_output,
        bytes_per_token: read.bytes_per_token,
        image_tier: read.image_tier,
        max_images: read.max_images,
        cache_min: read.cache_min,
        thinking: read.thinking,
        prices: prices.map_err(|why| ("price", why))?,
        capabilities: read.capabilities.into_iter().collect(),
    })
}

fn rate(read: &raw::Rate) -> Result<Rate, String> {
    let input = nano(read.input)?;
    // Without prices for its cache a provider charges the price of input.
    let or_input = |price: Option<f64>| price.map_or(Ok(input), nano);
    Ok(Rate {
        prompt_to: read.prompt_to,
        input,
        output: nano(read.output)?,
        cache_read: or_input(read.cache_read)?,
        cache_write: or_input(read.cache_write)?,
        cache_write_long: or_input(read.cache_write_long)?,
    })
}

/// Converts dollars a million tokens to nanodollars a token.
fn nano(dollars: f64) -> Result<Money, String> {
    let nano = dollars * 1000.0;
    let is_whole = (nano - nano.round()).abs() < 1e-6;
    if !(0.0..=1e7).contains(&nano) || !is_whole {
        return Err(format!(
            "{dollars} must be 0 to 10000 dollars a million tokens, in steps of 0.001"
        ));
    }
    Ok(Money(nano.round() as u64))
}
