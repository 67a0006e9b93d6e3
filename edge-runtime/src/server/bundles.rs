//! Evidence bundles over HTTP: the bundle of an event, the signature of a job's, the public key.
//!
//! - A bundle of an event is made by the runtime alone. It is sent as a stream: only the records
//!   and a few pieces are in memory.
//! - For a job the box signs names and hashes of a user, as a statement that says so.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use watchkeeper_bundle::archive::is_name;
use watchkeeper_bundle::{MANIFEST, MAX_FILES, SIGNATURE};
use watchkeeper_contract::bundle::{BoxKey, BundleSubject, JobBundle, JobSubject, SignedManifest};
use watchkeeper_contract::id::EventSeq;
use watchkeeper_http::body::Query;
use watchkeeper_http::body::{self, Named};
use watchkeeper_http::{Refusal, pieces, refusal};

use super::app::App;
use super::event_bundle;
use super::limits::{MAX_BUNDLES, MAX_JOB_BUNDLE_BODY};
use crate::api::Api;

/// MIME type of a bundle.
const TAR: &str = "application/x-tar";
/// Longest ID of a job in bytes.
const MAX_JOB_ID: usize = 64;
/// Longest text of a file or missing part in bytes.
const MAX_WORDS: usize = 4096;

/// How far the hash chain is linked.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct BundleQuery {
    /// Link the records of the event to the newest one of the journal; default: to its own last
    /// one. The bundle then has all records in between.
    #[serde(default)]
    to_head: bool,
}

fn permit(app: &App) -> Result<OwnedSemaphorePermit, Refusal> {
    app.bundles.clone().try_acquire_owned().map_err(|_| {
        refusal::full(format!(
            "{MAX_BUNDLES} bundles are being made; try again in a moment"
        ))
    })
}

/// Returns the signed evidence bundle of the event of this record: a tar file with its records,
/// pictures, clip, pipeline and coverage. `watchkeeper evidence verify` checks it.
#[utoipa::path(get, path = "/events/{seq}/bundle", tag = "events",
    params(("seq" = EventSeq, Path, description = "Number of a record of the event"), BundleQuery),
    responses((status = 200, content_type = "application/x-tar", body = [u8])))]
pub(super) async fn event(
    State(app): State<App>,
    Named(seq): Named<EventSeq>,
    Query(query): Query<BundleQuery>,
) -> Result<Response, Refusal> {
    let permit = permit(&app)?;
    let to_head = query.to_head;
    let bundle = app.try_call(move |r| event_bundle::prepare(r, seq, to_head));
    let bundle = bundle.await?;
    let length = bundle.length();
    Ok(pieces::respond(TAR, length, permit, |out| {
        bundle.write(out)
    }))
}

/// Signs the names and hashes of the files of a job. The statement says that the box has not seen
/// the files.
#[utoipa::path(post, path = "/evidence/jobs", tag = "events", request_body = JobBundle,
    responses((status = 200, body = SignedManifest)))]
pub(super) async fn job(
    State(app): State<App>,
    body: body::Body,
) -> Result<Json<SignedManifest>, Refusal> {
    let _permit = permit(&app)?;
    let work = move |r: &Api| {
        let bundle: JobBundle = body::read(body::json_up_to(body, MAX_JOB_BUNDLE_BODY)?)?;
        check_job(&bundle)?;
        let subject = BundleSubject::Job(JobSubject {
            id: bundle.id,
            created_ms: bundle.created_ms,
        });
        let contents = (bundle.files, bundle.missing);
        r.sign_bundle(subject, contents).map_err(Refusal::from)
    };
    Ok(Json(app.try_call(work).await?))
}

/// Returns the public key of the box. A bundle proves its origin to those who knew the key before.
#[utoipa::path(get, path = "/evidence/key", tag = "events",
    responses((status = 200, body = BoxKey)))]
pub(super) async fn key(State(app): State<App>) -> Result<Json<BoxKey>, Refusal> {
    Ok(Json(app.try_call(|r| r.box_key()).await?))
}

/// Refuses a description that no bundle can have, so that only descriptions are signed.
fn check_job(bundle: &JobBundle) -> Result<(), Refusal> {
    let refuse = |field: &str, value: &str, why: &str| {
        let shown: String = value.chars().take(100).collect();
        Err(Refusal::invalid(format!("{field} {why}")).at(field, shown))
    };
    if bundle.id.len() > MAX_JOB_ID || !is_name(&bundle.id) {
        return refuse("id", &bundle.id, "is no ID of a job");
    }
    if bundle.files.len() + bundle.missing.len() > MAX_FILES {
        let number = bundle.files.len().to_string();
        return refuse("files", &number, &format!("are more than {MAX_FILES}"));
    }
    let mut names = BTreeSet::from([MANIFEST, SIGNATURE]);
    for file in &bundle.files {
        let is_hash = file.sha256.len() == 64
            && file
                .sha256
                .bytes()
                .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if !is_name(&file.name) || !names.insert(&file.name) {
            return refuse(
                "files.name",
                &file.name,
                "is not the name of a file, or is there twice",
            );
        }
        if !is_hash {
            return refuse("files.sha256", &file.sha256, "is not 64 hex digits");
        }
    }
    let originals = bundle
        .files
        .iter()
        .filter_map(|file| file.original.as_ref());
    let missing = bundle
        .missing
        .iter()
        .flat_map(|part| [&part.name, &part.why]);
    match originals.chain(missing).find(|text| text.len() > MAX_WORDS) {
        Some(text) => refuse(
            "files",
            text,
            &format!("has a text of over {MAX_WORDS} bytes"),
        ),
        None => Ok(()),
    }
}
