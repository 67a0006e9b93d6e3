//! The shared fast tier: one or several memcached servers.
//!
//! - A content belongs to one server by its hash; while that is down, to the next one.
//! - One connection a server. A request that fails or times out closes it; one that finds it busy
//!   ends with [`TierError::Busy`], and is not a failure of the server.
//! - A removal asks every server, and names those that did not answer.
//! - A value may come from any client of the server: the caller checks its hash.

use std::fmt;
use std::time::{Duration, Instant};

use async_memcached::{AsciiProtocol as _, Client, Error, Status};
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::timeout;

use crate::ContentHash;
use crate::endpoints::Endpoints;
use crate::tier::{EndpointHealth, Removal, Tier, TierError};

/// Time for one request, with the connection.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(250);
/// Longest wait of a read or write for the connection.
const BUSY_WAIT: Duration = Duration::from_millis(25);
/// Seconds until a server drops a content by itself.
const TTL_S: i64 = 86_400;
/// Largest value: a server takes 1 MiB with its overhead, if it was not started with more.
const MAX_VALUE: u64 = 1_000_000;

/// memcached servers as one tier.
pub struct MemcachedTier {
    servers: Vec<Server>,
    names: Vec<String>,
    endpoints: Mutex<Endpoints>,
}

struct Server {
    address: String,
    client: tokio::sync::Mutex<Option<Client>>,
}

impl fmt::Debug for MemcachedTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemcachedTier")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

/// A request to a server.
enum Request<'a> {
    Get(&'a str),
    Set(&'a str, &'a [u8]),
    Delete(&'a str),
}

impl MemcachedTier {
    /// Makes a tier of servers at `HOST:PORT`. Nothing is connected yet.
    pub fn new(addresses: Vec<String>) -> Self {
        let server = |address: &String| Server {
            address: format!("tcp://{address}"),
            client: tokio::sync::Mutex::new(None),
        };
        Self {
            servers: addresses.iter().map(server).collect(),
            endpoints: Mutex::new(Endpoints::new(addresses.len())),
            names: addresses,
        }
    }

    fn health(&self) -> MutexGuard<'_, Endpoints> {
        self.endpoints.lock()
    }

    /// Sends a request to the server of a content, or to the next one while that is down.
    async fn request(
        &self,
        hash: &ContentHash,
        request: Request<'_>,
    ) -> Result<Option<Bytes>, TierError> {
        let key = hash.0.first_chunk().map(|head| u64::from_be_bytes(*head));
        let candidates = self.health().candidates(Instant::now(), key);
        let mut last = TierError::Down;
        for at in candidates {
            match self.ask(at, &request, BUSY_WAIT).await {
                // The disk is faster than a queue at the server.
                RequestOutcome::Busy => return Err(TierError::Busy),
                RequestOutcome::Answered(answer) => return answer,
                RequestOutcome::Failed(why) => last = TierError::Failed(why),
            }
        }
        Err(last)
    }

    /// Removes a content from every server: each may have it from a time when another was down.
    async fn remove_everywhere(&self, hash: &ContentHash) -> Removal {
        let key = key(hash);
        let up = self.health().up(Instant::now());
        let mut removal = Removal::default();
        for (at, name) in self.names.iter().enumerate() {
            let asked = match up.contains(&at) {
                true => self.ask(at, &Request::Delete(&key), REQUEST_TIMEOUT).await,
                false => RequestOutcome::Failed("is marked down".to_owned()),
            };
            match asked {
                RequestOutcome::Answered(Ok(found)) => removal.was_there |= found.is_some(),
                RequestOutcome::Answered(Err(_))
                | RequestOutcome::Busy
                | RequestOutcome::Failed(_) => {
                    removal.unreachable.push(name.clone());
                }
            }
        }
        removal
    }

    /// Sends a request to one server, once its connection is free; waits for that at most `wait`.
    async fn ask(&self, at: usize, request: &Request<'_>, wait: Duration) -> RequestOutcome {
        let Some(server) = self.servers.get(at) else {
            return RequestOutcome::Failed("is not configured".to_owned());
        };
        // The wait says nothing of the server: its time is not part of the request's.
        let Ok(place) = timeout(wait, server.client.lock()).await else {
            return RequestOutcome::Busy;
        };
        let answer = timeout(REQUEST_TIMEOUT, server.request(place, request)).await;
        let why = match answer {
            Ok(Ok(found)) => {
                self.health().succeeded(at);
                return RequestOutcome::Answered(Ok(found));
            }
            // The server works, and refuses this value.
            Ok(Err(Error::Protocol(status))) => {
                self.health().succeeded(at);
                return RequestOutcome::Answered(Err(TierError::Failed(status.to_string())));
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        if self.health().failed(at, Instant::now(), &why) {
            tracing::warn!(
                server = server.address,
                why,
                "archive: memcached is marked down"
            );
        }
        RequestOutcome::Failed(why)
    }
}

/// Outcome of a request at one server.
enum RequestOutcome {
    /// The server's connection was not free in time; the server was not asked.
    Busy,
    Answered(Result<Option<Bytes>, TierError>),
    Failed(String),
}

impl Server {
    async fn request(
        &self,
        mut place: tokio::sync::MutexGuard<'_, Option<Client>>,
        request: &Request<'_>,
    ) -> Result<Option<Bytes>, Error> {
        // Taken: a request that is cut off drops its connection.
        let open = place.take().filter(|client| !client.is_closed());
        let mut client = match open {
            Some(client) => client,
            None => Client::new(&self.address).await?,
        };
        let answer = match request {
            Request::Get(key) => client.get(key).await.map(|found| {
                let data = found.and_then(|value| value.data);
                data.map(Bytes::from)
            }),
            Request::Set(key, content) => {
                let stored = client.set(key, *content, Some(TTL_S), None).await;
                stored.map(|()| None)
            }
            Request::Delete(key) => match client.delete(key).await {
                Ok(()) => Ok(Some(Bytes::new())),
                Err(Error::Protocol(Status::NotFound)) => Ok(None),
                Err(error) => Err(error),
            },
        };
        if answer.is_ok() {
            *place = Some(client);
        }
        answer
    }
}

/// The key of a content; the number is the version of what is stored under it.
fn key(hash: &ContentHash) -> String {
    format!("watchkeeper:1:{hash}")
}

impl Tier for MemcachedTier {
    fn name(&self) -> &'static str {
        "memcached"
    }

    fn max_bytes(&self) -> u64 {
        MAX_VALUE
    }

    fn get<'a>(&'a self, hash: &'a ContentHash) -> BoxFuture<'a, Result<Option<Bytes>, TierError>> {
        async move { self.request(hash, Request::Get(&key(hash))).await }.boxed()
    }

    fn put<'a>(
        &'a self,
        hash: &'a ContentHash,
        content: Bytes,
    ) -> BoxFuture<'a, Result<(), TierError>> {
        async move {
            let stored = self.request(hash, Request::Set(&key(hash), &content)).await;
            stored.map(drop)
        }
        .boxed()
    }

    fn remove<'a>(&'a self, hash: &'a ContentHash) -> BoxFuture<'a, Result<Removal, TierError>> {
        async move { Ok(self.remove_everywhere(hash).await) }.boxed()
    }

    fn endpoints(&self) -> Vec<EndpointHealth> {
        self.health().health(&self.names)
    }
}
