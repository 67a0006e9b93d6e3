//! Objects in an S3 store: one `PUT` of the whole object with a presigned URL (AWS Signature
//! Version 4 in the query).
//!
//! Invariants:
//! - A growing object keeps its key: the agent's store has the newest key of each step.
//! - A retry replaces the object by an identical one.
//! - The presigned URL is never shown, because it grants write access.

use std::sync::Arc;
use std::time::Duration;

use rusty_s3::{Bucket, Credentials, S3Action as _, UrlStyle};
use url::Url;
use watchkeeper_contract::effect::S3Write;
use watchkeeper_contract::spool::SpooledEffect;
use watchkeeper_store::{Batch, Keyspace, Store};

use super::context::ConnectorContext;
use super::fault::Fault;
use super::http::{API_TIMEOUT, check_response, connection_fault, read_start};
use super::naming::{stamped, step_key};
use super::secrets::EffectSecrets;
use crate::background::blocking;
use crate::stored_records::read_sound;

/// Key of the newest object of each step.
const LAST_OBJECTS: Keyspace = Keyspace::new("sink_objects");
/// Validity of a signature. A store refuses a box whose clock is off by more.
const SIGNATURE_VALIDITY: Duration = Duration::from_secs(300);
/// Region for a workflow that names none; self-hosted stores accept it.
const DEFAULT_REGION: &str = "us-east-1";

/// Writes the object of one effect and stores its key.
///
/// # Errors
/// [`Fault`] of the request, the store or the status, with the error code of S3.
pub async fn put(
    context: &ConnectorContext,
    spooled: &SpooledEffect,
    write: &S3Write,
    secrets: &EffectSecrets,
) -> Result<(), Fault> {
    let (Some(id), Some(key)) = (&write.access_key_id, &write.secret_access_key) else {
        return Err(Fault::permanent(
            "aws_access_key_id or aws_secret_access_key is missing in the step; set both",
        ));
    };
    let credentials = Credentials::new(secrets.text(id)?, secrets.text(key)?);
    let (store, step) = (Arc::clone(&context.store), step_key(spooled));
    let object = {
        let new = stamped(
            &write.prefix,
            spooled.at.unix_ms,
            spooled.number.0,
            &write.extension,
        );
        let (store, prefix) = (Arc::clone(&store), format!("{}_", write.prefix));
        match write.replace {
            true => blocking(move || last_object(&*store, step, &prefix))
                .await
                .map_err(Fault::transient)??
                .unwrap_or(new),
            false => new,
        }
    };
    let bucket = bucket(context, write)?;
    let url = bucket
        .put_object(Some(&credentials), &object)
        .sign(SIGNATURE_VALIDITY);
    context.config.admits_url(&url).map_err(Fault::permanent)?;
    let client = context.http.client().await?;
    let request = client.put(url.clone()).timeout(API_TIMEOUT);
    let response = request.body(write.content.clone()).send().await;
    let response = response.map_err(|error| connection_fault(&url, &error))?;
    let Err(mut fault) = check_response(&url, &response) else {
        let saved = blocking(move || save_key(&*store, step, &object));
        return saved.await.map_err(Fault::transient)?;
    };
    // Only the error code: the rest of the body repeats the signed request.
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
            let region = region.unwrap_or(DEFAULT_REGION);
            let url = Url::parse(&format!("https://s3.{region}.amazonaws.com/"));
            (url, UrlStyle::VirtualHost)
        }
    };
    let endpoint = endpoint.map_err(|_| Fault::permanent("aws_region is invalid"))?;
    let region = region.unwrap_or(DEFAULT_REGION).to_owned();
    Bucket::new(endpoint, style, write.bucket.clone(), region)
        .map_err(|error| Fault::permanent(format!("bucket {:?}: {error}", write.bucket)))
}

/// Key of the newest object of `step`, unless a changed prefix starts a new one.
fn last_object(store: &dyn Store, step: [u8; 16], prefix: &str) -> Result<Option<String>, Fault> {
    let stored = read_sound(store, LAST_OBJECTS, &step);
    let stored = stored.map_err(|error| Fault::transient(error.to_string()))?;
    let key = stored.and_then(|key| String::from_utf8(key).ok());
    Ok(key.filter(|key| key.starts_with(prefix)))
}

fn save_key(store: &dyn Store, step: [u8; 16], object: &str) -> Result<(), Fault> {
    let batch = Batch::new().put(LAST_OBJECTS, &step, object.as_bytes());
    store
        .commit(batch)
        .map_err(|error| Fault::transient(error.to_string()))
}
