//! The object tier: a bucket that speaks S3, behind one or several endpoints.
//!
//! - The key of an object is a prefix and the SHA-256 of its content.
//! - Requests are presigned; an error names the host and the status, never the address.
//! - Endpoints serve the same bucket and take turns.
//! - An object is absent only if S3's code says so: any other 404 is a failed request.
//! - Client and secret are asked for at each request. Where one is missing, or an address is
//!   invalid, its endpoints are marked down with the reason. Nothing else fails.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use rusty_s3::{Bucket, Credentials, S3Action as _, UrlStyle};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::timeout;
use url::Url;
use watchkeeper_outgoing::{host_of, root_cause};

use crate::ContentHash;
use crate::endpoints::Endpoints;
use crate::tier::{EndpointHealth, Removal, Tier, TierError};

/// Largest object: it is in memory while it is copied.
const MAX_OBJECT: u64 = 64 << 20;
/// Longest description of an error that is read, in bytes.
const MAX_ERROR: u64 = 4 << 10;
/// Time for one request without its content, and the longest pause within an answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Slowest line over which a content is still carried, in bytes per second: 1 Mbit/s.
const MIN_BYTES_PER_S: u64 = 125_000;
/// Validity of a signature. A store refuses a box whose clock is off by more.
const SIGNATURE_VALIDITY: Duration = Duration::from_secs(300);

/// Credentials and connection of a request. An error is a sentence.
pub trait S3Access: fmt::Debug + Send + Sync {
    fn client(&self) -> BoxFuture<'_, Result<reqwest::Client, String>>;
    fn secret_key(&self) -> BoxFuture<'_, Result<SecretString, String>>;
}

/// Location of the object tier, and its access.
#[derive(Debug, Clone)]
pub struct S3Settings {
    /// Addresses of the store, without the bucket.
    pub endpoints: Vec<Url>,
    pub bucket: String,
    pub region: String,
    /// Text before the hash in the key of an object, such as `archive/`.
    pub prefix: String,
    pub access_key: SecretString,
}

/// A bucket as a tier.
#[derive(Debug)]
pub struct S3Tier {
    settings: S3Settings,
    names: Vec<String>,
    endpoints: Mutex<Endpoints>,
    access: Arc<dyn S3Access>,
}

impl S3Tier {
    /// Makes the tier. Nothing is connected yet.
    pub fn new(settings: S3Settings, access: Arc<dyn S3Access>) -> Self {
        Self {
            names: settings.endpoints.iter().map(host_of).collect(),
            endpoints: Mutex::new(Endpoints::new(settings.endpoints.len())),
            settings,
            access,
        }
    }

    fn bucket(&self, endpoint: &Url) -> Result<Bucket, String> {
        let (name, region) = (self.settings.bucket.clone(), self.settings.region.clone());
        let bucket = Bucket::new(endpoint.clone(), UrlStyle::Path, name, region);
        bucket.map_err(|error| {
            format!(
                "s3_bucket {}: {error}; check the name and s3_endpoints",
                self.settings.bucket
            )
        })
    }

    /// Addresses of the bucket at each endpoint, in order.
    fn addresses(&self) -> Vec<String> {
        let addresses = self.settings.endpoints.iter().map(|endpoint| {
            let bucket = self.bucket(endpoint);
            bucket.map_or_else(|_| endpoint.to_string(), |of| of.base_url().to_string())
        });
        let mut addresses: Vec<String> = addresses.collect();
        addresses.sort_unstable();
        addresses
    }

    fn health(&self) -> MutexGuard<'_, Endpoints> {
        self.endpoints.lock()
    }

    async fn sign(
        &self,
        endpoint: &Url,
        method: &Method,
        hash: &ContentHash,
    ) -> Result<Url, String> {
        let bucket = self.bucket(endpoint)?;
        let secret = self.access.secret_key().await?;
        let access = self.settings.access_key.expose_secret();
        let credentials = Credentials::new(access, secret.expose_secret());
        let credentials = Some(&credentials);
        let key = format!("{}{hash}", self.settings.prefix);
        Ok(match *method {
            Method::PUT => bucket
                .put_object(credentials, &key)
                .sign(SIGNATURE_VALIDITY),
            Method::DELETE => bucket
                .delete_object(credentials, &key)
                .sign(SIGNATURE_VALIDITY),
            Method::HEAD => bucket
                .head_object(credentials, &key)
                .sign(SIGNATURE_VALIDITY),
            _ => bucket
                .get_object(credentials, &key)
                .sign(SIGNATURE_VALIDITY),
        })
    }

    async fn prepare(
        &self,
        endpoint: &Url,
        method: &Method,
        hash: &ContentHash,
    ) -> Result<RequestBuilder, String> {
        let client = self.access.client().await?;
        let url = self.sign(endpoint, method, hash).await?;
        Ok(client.request(method.clone(), url))
    }

    /// Sends a request to the endpoints in turn. Returns the body of a success, `None` if there is
    /// no such object.
    async fn request(
        &self,
        method: Method,
        hash: &ContentHash,
        content: Option<Bytes>,
    ) -> Result<Option<Bytes>, TierError> {
        let candidates = self.health().candidates(Instant::now(), None);
        let mut last = TierError::Down;
        let carried = match (&content, &method) {
            (Some(content), _) => content.len() as u64,
            (None, &Method::GET) => MAX_OBJECT,
            _ => 0,
        };
        for at in candidates {
            let Some(endpoint) = self.settings.endpoints.get(at) else {
                continue;
            };
            let request = match self.prepare(endpoint, &method, hash).await {
                Ok(request) => request.timeout(time_for(carried)),
                Err(why) => {
                    last = self.mark_down(at, why);
                    continue;
                }
            };
            let request = match &content {
                Some(content) => request.body(content.clone()),
                None => request,
            };
            let name = self.names.get(at).map_or("the store", String::as_str);
            let head = match &content {
                Some(_) => time_for(carried),
                None => REQUEST_TIMEOUT,
            };
            let why = match timeout(head, request.send()).await {
                Ok(Ok(response)) => match read(response, &method).await {
                    Ok(found) => {
                        self.health().succeeded(at);
                        return Ok(found);
                    }
                    Err(why) => format!("{name}: {why}"),
                },
                Ok(Err(error)) if !error.is_timeout() => {
                    format!("{name}: {}", root_cause(&error))
                }
                Ok(Err(_)) | Err(_) => format!("{name}: no answer in time"),
            };
            last = self.mark_down(at, why);
        }
        Err(last)
    }

    fn mark_down(&self, at: usize, why: String) -> TierError {
        if self.health().failed(at, Instant::now(), &why) {
            tracing::warn!(
                why,
                "archive: an endpoint of the object tier is marked down"
            );
        }
        TierError::Failed(why)
    }
}

/// The time for a request that carries so many bytes, over the slowest line that is still served.
pub fn time_for(bytes: u64) -> Duration {
    REQUEST_TIMEOUT + Duration::from_secs(bytes / MIN_BYTES_PER_S)
}

/// Reads the body of a success; `None` if the store answers that it has no such object. An answer
/// to `HEAD` has no code, so there any 404 is `None`.
async fn read(response: Response, method: &Method) -> Result<Option<Bytes>, String> {
    let status = response.status();
    if status.is_success() {
        let body = read_body(response, MAX_OBJECT).await?;
        return match body.len() as u64 > MAX_OBJECT {
            true => Err(format!("answered more than {MAX_OBJECT} bytes")),
            false => Ok(Some(body)),
        };
    }
    if status == StatusCode::NOT_FOUND && *method == Method::HEAD {
        return Ok(None);
    }
    if status != StatusCode::NOT_FOUND {
        return Err(format!("answered {status}"));
    }
    // A longer answer is a page of a proxy.
    let answer = read_body(response, MAX_ERROR).await?;
    match error_code(&String::from_utf8_lossy(&answer)) {
        Some("NoSuchKey") => Ok(None),
        Some("NoSuchBucket") => {
            Err("has no such bucket; create it, or correct s3_bucket".to_owned())
        }
        _ => Err(format!(
            "answered {status} without S3's code NoSuchKey; check s3_endpoints and proxies"
        )),
    }
}

/// The code of an error in S3's XML.
fn error_code(answer: &str) -> Option<&str> {
    let (_, code) = answer.split_once("<Code>")?;
    Some(code.split_once("</Code>")?.0.trim())
}

/// Reads a body until its end, or until it has more than `max` bytes.
async fn read_body(mut response: Response, max: u64) -> Result<Bytes, String> {
    let mut body = BytesMut::new();
    loop {
        let chunk = timeout(REQUEST_TIMEOUT, response.chunk()).await;
        let chunk = chunk.map_err(|_| "stopped in its answer".to_owned())?;
        let Some(chunk) = chunk.map_err(|e| root_cause(&e))? else {
            return Ok(body.freeze());
        };
        body.extend_from_slice(&chunk);
        if body.len() as u64 > max {
            return Ok(body.freeze());
        }
    }
}

impl Tier for S3Tier {
    fn name(&self) -> &'static str {
        "s3"
    }

    fn max_bytes(&self) -> u64 {
        MAX_OBJECT
    }

    fn get<'a>(&'a self, hash: &'a ContentHash) -> BoxFuture<'a, Result<Option<Bytes>, TierError>> {
        self.request(Method::GET, hash, None).boxed()
    }

    fn has<'a>(&'a self, hash: &'a ContentHash) -> BoxFuture<'a, Result<bool, TierError>> {
        async move {
            let is_there = self.request(Method::HEAD, hash, None).await?.is_some();
            // Only the answer to a GET says whether it is the object that is missing.
            Ok(is_there || self.get(hash).await?.is_some())
        }
        .boxed()
    }

    fn put<'a>(
        &'a self,
        hash: &'a ContentHash,
        content: Bytes,
    ) -> BoxFuture<'a, Result<(), TierError>> {
        async move {
            let put = self.request(Method::PUT, hash, Some(content)).await?;
            put.map(drop)
                .ok_or_else(|| TierError::Failed("answered NoSuchKey to a copy".to_owned()))
        }
        .boxed()
    }

    fn remove<'a>(&'a self, hash: &'a ContentHash) -> BoxFuture<'a, Result<Removal, TierError>> {
        async move {
            let removed = self.request(Method::DELETE, hash, None).await;
            removed.map(|_| Removal::default())
        }
        .boxed()
    }

    fn place(&self) -> String {
        let addresses = self.addresses().join(" ");
        format!("{addresses} {}", self.settings.prefix)
    }

    fn has_copies_of(&self, place: &str) -> bool {
        let prefix = format!(" {}", self.settings.prefix);
        let known = place.strip_suffix(&prefix);
        let mut known = known.into_iter().flat_map(|known| known.split(' '));
        // All endpoints serve one bucket, so one in common is enough.
        known.any(|address| self.addresses().iter().any(|own| own == address))
    }

    fn endpoints(&self) -> Vec<EndpointHealth> {
        self.health().health(&self.names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_a_request_follows_its_bytes() {
        assert_eq!(time_for(0), REQUEST_TIMEOUT);
        // The largest object over 5 Mbit/s takes 107 s.
        assert!(time_for(MAX_OBJECT) > Duration::from_secs(107));
    }
}
