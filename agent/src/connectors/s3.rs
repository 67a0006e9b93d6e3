//! Objects in a store that speaks S3: one `PUT` of the whole object, signed for a short time (AWS Signature Version 4, in the query).
//!
//! Invariant: an object that grows keeps its key: which one its step began last is kept in the agent's store. Doing it again replaces it by the
//! same. The signed address is never shown: whoever has it may write.

use std::time::Duration;

use rusty_s3::{Bucket, Credentials, S3Action as _, UrlStyle};
use url::Url;
use watchkeeper_contract::effect::S3Write;
use watchkeeper_contract::spool::SpooledEffect;
use watchkeeper_store::{Batch, Keyspace, Store, StoreError};

use super::context::ConnectorContext;
use super::fault::Fault;
use super::http::{API_TIMEOUT, connection_fault, host_of, outcome, read_start};
use super::naming::{stamped, step_key};
use super::secrets::EffectSecrets;

/// Key of the object that each step began last.
const BEGUN: Keyspace = Keyspace::new("sink_objects");
/// How long a signature holds. A clock that is so much off is refused by the store.
const SIGNED_FOR: Duration = Duration::from_secs(300);
/// Region that stores of one's own answer to.
const ANY_REGION: &str = "us-east-1";

/// Writes it.
///
/// # Errors
/// [`Fault`].
pub async fn put(
    context: &ConnectorContext,
    spooled: &SpooledEffect,
    write: &S3Write,
    secrets: &EffectSecrets,
) -> Result<(), Fault> {
    let (Some(id), Some(key)) = (&write.access_key_id, &write.secret_access_key) else {
        return Err(Fault::never(
            "aws_access_key_id and aws_secret_access_key have to be given",
        ));
    };
    let credentials = Credentials::new(secrets.text(id)?, secrets.text(key)?);
    let object = object(&*context.store, spooled, write)?;
    let bucket = bucket(context, write)?;
    let url = bucket
        .put_object(Some(&credentials), &object)
        .sign(SIGNED_FOR);
    context.config.admits_url(&url).map_err(Fault::never)?;
    let client = context.http.client().await?;
    let request = client.put(url.clone()).timeout(API_TIMEOUT);
    let response = request.body(write.content.clone()).send().await;
    let response = response.map_err(|error| connection_fault(&url, &error))?;
    let Err(mut fault) = outcome(&host_of(&url), response.status(), None) else {
        return remember(&*context.store, spooled, &object);
    };
    // The code of the error, which is all of the answer that may be shown: it repeats what was signed.
    let body = String::from_utf8_lossy(&read_start(response).await).into_owned();
    let code = body
        .split_once("<Code>")
        .and_then(|(_, rest)| rest.split_once("</Code>"));
    if let Some((code, _)) = code {
        fault.why = format!("{}: {code}", fault.why);
    }
    Err(fault)
}

fn bucket(context: &ConnectorContext, write: &S3Write) -> Result<Bucket, Fault> {
    let region = write.region.as_deref();
    let (endpoint, style) = match &context.config.s3_url {
        Some(url) => (Ok(url.clone()), UrlStyle::Path),
        None => {
            let region = region.unwrap_or(ANY_REGION);
            let url = Url::parse(&format!("https://s3.{region}.amazonaws.com/"));
            (url, UrlStyle::VirtualHost)
        }
    };
    let endpoint = endpoint.map_err(|_| Fault::never("aws_region makes no address"))?;
    let region = region.unwrap_or(ANY_REGION).to_owned();
    Bucket::new(endpoint, style, write.bucket.clone(), region)
        .map_err(|error| Fault::never(format!("bucket {:?}: {error}", write.bucket)))
}

/// Key of the object: a new one, or the one that the step began last.
fn object(store: &dyn Store, spooled: &SpooledEffect, write: &S3Write) -> Result<String, Fault> {
    let fresh = || {
        stamped(
            &write.prefix,
            spooled.at.unix_ms,
            spooled.number.0,
            &write.extension,
        )
    };
    if !write.replace {
        return Ok(fresh());
    }
    match store.get(BEGUN, &step_key(spooled)) {
        Ok(begun) => {
            let begun = begun.and_then(|key| String::from_utf8(key).ok());
            // Another prefix is another object.
            let same = begun.filter(|key| key.starts_with(&format!("{}_", write.prefix)));
            Ok(same.unwrap_or_else(fresh))
        }
        Err(StoreError::Corrupt { .. }) => Ok(fresh()),
        Err(error) => Err(Fault::later(error.to_string())),
    }
}

fn remember(store: &dyn Store, spooled: &SpooledEffect, object: &str) -> Result<(), Fault> {
    let batch = Batch::new().put(BEGUN, &step_key(spooled), object.as_bytes());
    store
        .commit(batch)
        .map_err(|error| Fault::later(error.to_string()))
}
