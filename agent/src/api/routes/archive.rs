//! Routes of the archive: the verbs, and contents as they are.
//!
//! - Contents are streamed in both directions; an upload is acknowledged once it is durable.
//! - A content is sent as a file to save, whatever its type says.
//! - What destroys or protects is in the audit log, also for a client that disconnects meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::body::Body as HttpBody;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::sync::Semaphore;
use watchkeeper_archive::name::EntryName;
use watchkeeper_archive::query::Matches;
use watchkeeper_archive::stats::Stats;
use watchkeeper_archive::verb::{
    Changed, Destroyed, Found, Ingest, IngestOptions, Ingested, Pruned,
};
use watchkeeper_archive::{
    Archive, ArchiveError, Body, Entry, NewEntry, Query, Selection, Verified,
};
use watchkeeper_contract::problem::ProblemCode;
use watchkeeper_http::body::Query as UrlQuery;
use watchkeeper_http::body::{self, Body as JsonBody};
use watchkeeper_http::{Refusal, refusal};
use watchkeeper_store::durable::is_disk_refusal;

use crate::api::app::{App, MAX_MESSAGE};
use crate::archive::ArchiveService;

/// Bytes that are read of a large content at a time.
const CHUNK: usize = 128 << 10;
/// Tier that had a content.
const TIER_HEADER: HeaderName = HeaderName::from_static("x-watchkeeper-tier");
/// SHA-256 of a content.
const HASH_HEADER: HeaderName = HeaderName::from_static("x-watchkeeper-sha256");

/// Query of a content.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct GetQuery {
    /// Read the disk, and fill the fast tiers again.
    #[serde(default)]
    skip_cache: bool,
}

/// Query of an upload.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct PutQuery {
    /// The members of `IngestOptions` as JSON.
    options: Option<String>,
}

/// The query in plain words.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FindWords {
    /// Such as "pictures of cars at the gate yesterday".
    words: String,
}

/// Where a verification begins.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct VerifyFrom {
    /// The member `next` of the answer before; absent at the start.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    after: Option<EntryName>,
}

fn service(app: &App) -> &ArchiveService {
    &app.shared.conversations.deps().archive
}

async fn archive(app: &App) -> Result<&Archive, Refusal> {
    service(app).archive().await.map_err(refused)
}

/// Converts an error into an HTTP problem.
fn refused(error: ArchiveError) -> Refusal {
    use ArchiveError as E;
    let (status, code) = match &error {
        E::Name(_) | E::Field { .. } | E::Reference(_) => {
            (StatusCode::BAD_REQUEST, ProblemCode::InvalidRequest)
        }
        E::NotFound(_) => (StatusCode::NOT_FOUND, ProblemCode::NotFound),
        E::Gone(_) => (StatusCode::GONE, ProblemCode::NotFound),
        E::Protected(_) => (StatusCode::CONFLICT, ProblemCode::Conflict),
        E::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, ProblemCode::Limit),
        E::Refused(_) | E::NoEmbedding(_) => (StatusCode::FORBIDDEN, ProblemCode::InvalidRequest),
        E::Recording(_) => (StatusCode::SERVICE_UNAVAILABLE, ProblemCode::NotReady),
        E::Source(_) => (StatusCode::BAD_GATEWAY, ProblemCode::NotReady),
        E::Store(error) if error.is_disk_refusal() => full_disk(),
        E::Io { source, .. } if is_disk_refusal(source) => full_disk(),
        E::Full { .. } | E::Disk { .. } => full_disk(),
        E::Damaged(_) | E::Store(_) | E::Io { .. } => {
            tracing::error!(%error, "api: the archive failed");
            (StatusCode::INTERNAL_SERVER_ERROR, ProblemCode::Storage)
        }
    };
    let refusal = Refusal::new(status, code, error.to_string());
    match error {
        E::Field { field, value, .. } => refusal.at(field, value),
        E::Name(invalid) => refusal.at(invalid.part, invalid.shown),
        _ => refusal,
    }
}

fn full_disk() -> (StatusCode, ProblemCode) {
    (StatusCode::INSUFFICIENT_STORAGE, ProblemCode::Storage)
}

/// Records a change in the audit log.
async fn audit(app: &App, what: &'static str, selection: &Selection, done: Value) {
    let trace = app.shared.conversations.deps().trace(app.entrypoint);
    let named = match selection {
        Selection::Entry(name) => name.to_string(),
        Selection::Collection(name) => format!("the collection {name}"),
    };
    let details = json!({
        "selection": selection, "result": done,
        "sentence": format!("{what} {named} in the archive"),
    });
    // A failure is logged; the change is made.
    trace.note_or_log_in_background("archive", details).await;
}

/// The collections, with their numbers of entries.
#[utoipa::path(get, path = "/archive", tag = "archive",
    responses((status = 200, body = BTreeMap<String, u64>)))]
pub(super) async fn list(State(app): State<App>) -> Result<Json<BTreeMap<String, u64>>, Refusal> {
    let collections = archive(&app).await?.collections().await;
    collections.map(Json).map_err(refused)
}

/// Contents, bounds, and hits and misses by tier since the start.
#[utoipa::path(get, path = "/archive/stats", tag = "archive",
    responses((status = 200, body = Stats)))]
pub(super) async fn stats(State(app): State<App>) -> Result<Json<Stats>, Refusal> {
    service(&app).stats().await.map(Json).map_err(refused)
}

/// Largest query: one with a picture in it.
const MAX_QUERY_BODY: usize = 17 << 20;

/// Entries that match all conditions.
#[utoipa::path(post, path = "/archive/query", tag = "archive", request_body = Query,
    responses((status = 200, body = Matches)))]
pub(super) async fn query(
    State(app): State<App>,
    body: JsonBody,
) -> Result<Json<Matches>, Refusal> {
    let query = body::read(body::json_up_to(body, MAX_QUERY_BODY)?)?;
    service(&app).query(query).await.map(Json).map_err(refused)
}

/// Entries by a request in plain words, read by rules. The answer quotes the words that were not
/// understood.
#[utoipa::path(post, path = "/archive/find", tag = "archive", request_body = FindWords,
    responses((status = 200, body = Found)))]
pub(super) async fn find(State(app): State<App>, body: JsonBody) -> Result<Json<Found>, Refusal> {
    let FindWords { words } = body::read(body::json(body)?)?;
    service(&app).find(words).await.map(Json).map_err(refused)
}

/// Ingests a source that the agent reads. Files only below `agent.archive.ingest_roots`, hosts
/// only with public addresses or of `agent.archive.ingest_hosts`.
#[utoipa::path(post, path = "/archive/ingest", tag = "archive", request_body = Ingest,
    responses((status = 200, body = Ingested)))]
pub(super) async fn ingest(
    State(app): State<App>,
    body: JsonBody,
) -> Result<Json<Ingested>, Refusal> {
    let ingest = body::read(body::json_up_to(body, MAX_MESSAGE)?)?;
    let ingested = service(&app).ingest(ingest).await;
    ingested.map(Json).map_err(refused)
}

/// Removes copies from the fast tiers; the entries stay in the durable tier.
#[utoipa::path(post, path = "/archive/prune", tag = "archive", request_body = Selection,
    responses((status = 200, body = Pruned)))]
pub(super) async fn prune(State(app): State<App>, body: JsonBody) -> Result<Json<Pruned>, Refusal> {
    let selection = body::read(body::json(body)?)?;
    let pruned = archive(&app).await?.prune(selection).await;
    pruned.map(Json).map_err(refused)
}

/// Removes entries from all tiers, for good. Refused as a whole if one of them is protected.
#[utoipa::path(post, path = "/archive/destroy", tag = "archive", request_body = Selection,
    responses((status = 200, body = Destroyed)))]
pub(super) async fn destroy(
    State(app): State<App>,
    body: JsonBody,
) -> Result<Json<Destroyed>, Refusal> {
    let selection = body::read(body::json(body)?)?;
    let changes = Arc::clone(&app.shared.changes);
    uninterrupted(changes, destroy_selected(app, selection)).await
}

async fn destroy_selected(app: App, selection: Selection) -> Result<Destroyed, Refusal> {
    let destroyed = archive(&app).await?.destroy(selection.clone()).await;
    let destroyed = destroyed.map_err(refused)?;
    audit(&app, "destroyed", &selection, json!(destroyed)).await;
    Ok(destroyed)
}

/// Makes a change with its entry in the audit log, whether or not its client waits for it.
async fn uninterrupted<T: Send + 'static>(
    changes: Arc<Semaphore>,
    change: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) -> Result<Json<T>, Refusal> {
    // The semaphore is never closed.
    let place = changes.acquire_owned().await.ok();
    let change = async move {
        let _place = place;
        change.await
    };
    let changed = tokio::spawn(change).await.map_err(|error| {
        tracing::error!(%error, "api: a change of the archive panicked");
        refusal::internal()
    });
    changed?.map(Json)
}

/// Protects entries from eviction, expiry and destruction. Media of events are copied first; where
/// they are gone, the entry is dropped and counted.
#[utoipa::path(post, path = "/archive/protect", tag = "archive", request_body = Selection,
    responses((status = 200, body = Changed)))]
pub(super) async fn protect(
    State(app): State<App>,
    body: JsonBody,
) -> Result<Json<Changed>, Refusal> {
    let selection: Selection = body::read(body::json(body)?)?;
    let changes = Arc::clone(&app.shared.changes);
    let protecting = async move {
        let (done, ended) = service(&app).protect(selection.clone()).await;
        if ended.is_ok() || done != Changed::default() {
            let failed = ended.as_ref().err().map(ToString::to_string);
            let result = json!({ "entries": done.entries, "gone": done.gone, "failed": failed });
            audit(&app, "protected", &selection, result).await;
        }
        ended.map(|()| done).map_err(refused)
    };
    uninterrupted(changes, protecting).await
}

/// Reads contents whole and compares their SHA-256, in the order of names, up to 512 MiB or 1,000
/// entries a request. A damaged content is replaced by its copy from any other tier.
#[utoipa::path(post, path = "/archive/verify", tag = "archive", request_body = VerifyFrom,
    responses((status = 200, body = Verified)))]
pub(super) async fn verify(
    State(app): State<App>,
    body: JsonBody,
) -> Result<Json<Verified>, Refusal> {
    let VerifyFrom { after } = body::read(body::json(body)?)?;
    let verified = archive(&app).await?.verify(after).await;
    verified.map(Json).map_err(refused)
}

/// Lifts the protection of entries.
#[utoipa::path(post, path = "/archive/unprotect", tag = "archive", request_body = Selection,
    responses((status = 200, body = Changed)))]
pub(super) async fn unprotect(
    State(app): State<App>,
    body: JsonBody,
) -> Result<Json<Changed>, Refusal> {
    let selection: Selection = body::read(body::json(body)?)?;
    let changes = Arc::clone(&app.shared.changes);
    let lifting = async move {
        let changed = service(&app).unprotect(selection.clone()).await;
        let changed = changed.map_err(refused)?;
        let entries = json!(changed.entries);
        audit(&app, "lifted the protection of", &selection, entries).await;
        Ok(changed)
    };
    uninterrupted(changes, lifting).await
}

/// Reads the name of an entry in a path.
fn entry_name(collection: &str, name: &str) -> Result<EntryName, Refusal> {
    EntryName::new(collection, name).map_err(|error| refused(error.into()))
}

/// An entry with its metadata.
#[utoipa::path(get, path = "/archive/entries/{collection}/{name}/metadata", tag = "archive",
    params(("collection" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = Entry)))]
pub(super) async fn stat(
    State(app): State<App>,
    Path((collection, name)): Path<(String, String)>,
) -> Result<Json<Entry>, Refusal> {
    let name = entry_name(&collection, &name)?;
    let entry = archive(&app).await?.stat(&name).await;
    entry.map(Json).map_err(refused)
}

/// The content of an entry. The headers name the tier that had it, and its SHA-256. Status 410:
/// the runtime's retention has removed the media, and the entry is dropped.
#[utoipa::path(get, path = "/archive/entries/{collection}/{name}", tag = "archive",
    params(("collection" = String, Path), ("name" = String, Path), GetQuery),
    responses((status = 200, content_type = "application/octet-stream", body = Vec<u8>)))]
pub(super) async fn get(
    State(app): State<App>,
    Path((collection, name)): Path<(String, String)>,
    UrlQuery(query): UrlQuery<GetQuery>,
) -> Result<Response, Refusal> {
    let name = entry_name(&collection, &name)?;
    let found = service(&app).retrieve(&name, query.skip_cache).await;
    let found = found.map_err(refused)?;
    let (body, bytes) = match found.body {
        Body::Bytes(content) => {
            let bytes = content.len() as u64;
            (HttpBody::from(content), bytes)
        }
        Body::File(file) => (HttpBody::from_stream(chunks(file)), found.entry.bytes),
        // The service has resolved it.
        Body::Media(_) => return Err(refusal::internal()),
    };
    let headers = [
        (CONTENT_TYPE, found.entry.content_type),
        (CONTENT_LENGTH, bytes.to_string()),
        (
            CONTENT_DISPOSITION,
            format!("attachment; filename=\"{}\"", name.name()),
        ),
        (
            HeaderName::from_static("x-content-type-options"),
            "nosniff".to_owned(),
        ),
        (TIER_HEADER, found.tier.to_owned()),
        (HASH_HEADER, found.entry.sha256.to_string()),
    ];
    let mut map = HeaderMap::new();
    for (key, value) in headers {
        let value = value.parse().map_err(|_| refusal::internal())?;
        map.insert(key, value);
    }
    Ok((map, body).into_response())
}

/// A file in chunks.
fn chunks(
    file: std::fs::File,
) -> impl futures_util::Stream<Item = std::io::Result<Bytes>> + Send + 'static {
    stream::try_unfold(tokio::fs::File::from_std(file), |mut file| async move {
        let mut chunk = Vec::with_capacity(CHUNK);
        let read = (&mut file)
            .take(CHUNK as u64)
            .read_to_end(&mut chunk)
            .await?;
        Ok((read > 0).then(|| (Bytes::from(chunk), file)))
    })
}

/// Makes the body an entry. Status 200 says that it is durable.
#[utoipa::path(put, path = "/archive/entries/{collection}/{name}", tag = "archive",
    params(("collection" = String, Path), ("name" = String, Path), PutQuery),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, body = Entry)))]
pub(super) async fn put(
    State(app): State<App>,
    Path((collection, name)): Path<(String, String)>,
    UrlQuery(query): UrlQuery<PutQuery>,
    body: HttpBody,
) -> Result<Json<Entry>, Refusal> {
    let name = entry_name(&collection, &name)?;
    let options: IngestOptions = match query.options.as_deref() {
        Some(text) => {
            let value = serde_json::from_str(text);
            let value =
                value.map_err(|error| Refusal::invalid(format!("options is not JSON: {error}")))?;
            body::read(value)?
        }
        None => IngestOptions::default(),
    };
    let new = NewEntry {
        name,
        content_type: options.content_type,
        retention: options.retention,
        ttl_s: options.ttl_s,
        metadata: options.metadata,
    };
    new.check().map_err(refused)?;
    let archive = archive(&app).await?;
    let _place = service(&app).upload_place().await;
    let chunks = body.into_data_stream().map(|chunk| {
        chunk.map_err(|error| {
            ArchiveError::Source(format!(
                "the body did not come whole: {error}; send it again"
            ))
        })
    });
    let sealed = archive.stage_stream(chunks).await.map_err(refused)?;
    let entry = archive.ingest(sealed, new).await.map_err(refused)?;
    Ok(Json(entry))
}

/// Removes an entry from all tiers, for good.
#[utoipa::path(delete, path = "/archive/entries/{collection}/{name}", tag = "archive",
    params(("collection" = String, Path), ("name" = String, Path)),
    responses((status = 200, body = Destroyed)))]
pub(super) async fn delete(
    State(app): State<App>,
    Path((collection, name)): Path<(String, String)>,
) -> Result<Json<Destroyed>, Refusal> {
    let name = entry_name(&collection, &name)?;
    let changes = Arc::clone(&app.shared.changes);
    uninterrupted(changes, destroy_selected(app, Selection::Entry(name))).await
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use std::time::Duration;

    use tokio::sync::mpsc;
    use watchkeeper_assistant::permissions::Entrypoint;

    use super::*;
    use crate::api::app::Shared;
    use crate::api::conversations::Bounds;
    use crate::api::tests::here;

    #[tokio::test]
    async fn destruction_is_audited_also_if_its_client_disconnects() {
        let here = here(Bounds::default());
        let (asks, close) = (mpsc::channel(1).0, here.close.subscribe());
        let shared = Shared::new(Arc::clone(&here.all), asks, close);
        let entrypoint = Entrypoint::Local;
        let app = App { entrypoint, shared };
        let new = NewEntry::named("yard/a.txt".parse().unwrap());
        let archive = archive(&app).await.unwrap();
        let content = Bytes::from_static(b"alpha");
        archive.ingest_bytes(content, new).await.unwrap();
        let name = Path(("yard".to_owned(), "a.txt".to_owned()));
        let request = delete(State(app.clone()), name);
        assert!(futures_util::poll!(std::pin::pin!(request)).is_pending());
        let trace = here.all.deps().trace(entrypoint);
        let audited = async {
            let is_it = |entry: &Value| entry["of"]["result"]["entries"] == 1;
            while !trace.latest(1).unwrap().iter().any(is_it) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let audited = tokio::time::timeout(Duration::from_secs(60), audited);
        assert!(audited.await.is_ok(), "no entry in the trace");
    }
}
