//! The HTTP transfer of downloads.
//!
//! - An interrupted transfer resumes, [`MAX_ATTEMPTS`] times at most.
//! - Not here: which bytes are missing, size limits, checksums and renaming, which are sans-IO in
//!   `watchkeeper-models`.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, IF_RANGE, RANGE};
use watchkeeper_models::{
    Checked, Download, DownloadError, Downloaded, PullPlan, Start, place_all,
};
use watchkeeper_outgoing::root_cause;

use super::exit::Failure;
use super::output::Output;
use super::user_file::unread;

/// Timeout of the connection and of each read.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Attempts without a new byte of a file; each resumes the one before.
const MAX_ATTEMPTS: u32 = 4;

/// Downloads files, and shows their progress.
#[derive(Debug)]
pub(super) struct Fetcher<'a> {
    client: reqwest::Client,
    out: &'a Output,
    /// Remedy if the network fails every time, a clause.
    offline: &'a str,
}

impl<'a> Fetcher<'a> {
    /// # Errors
    /// [`Exit::Failed`](crate::exit::Exit) if no client can be made.
    pub(super) fn new(out: &'a Output, offline: &'a str) -> Result<Self, Failure> {
        let client = watchkeeper_outgoing::builder()
            .read_timeout(IDLE_TIMEOUT)
            .connect_timeout(IDLE_TIMEOUT)
            .build()
            .map_err(|e| Failure::failed(e.to_string()))?;
        Ok(Self {
            client,
            out,
            offline,
        })
    }

    /// Downloads one file, resuming after interruptions.
    ///
    /// # Errors
    /// [`Exit::Failed`](crate::exit::Exit), one sentence.
    pub(super) async fn fetch(&self, plan: PullPlan) -> Result<Checked, Failure> {
        let failed = |e: DownloadError| refused(&e);
        let mut attempt = 1;
        loop {
            let mut download = Download::open(plan.clone()).map_err(failed)?;
            let bar = self.out.byte_bar(download.expected());
            let file = plan.target.file_name().unwrap_or_default();
            bar.set_message(file.to_string_lossy().into_owned());
            let before = download.offset();
            bar.set_position(before);
            let transferred = if download.is_complete() {
                Ok(())
            } else {
                transfer(&self.client, &plan.url, &mut download, &bar).await
            };
            self.out.end_live_line();
            if download.offset() > before {
                attempt = 1;
            }
            match transferred {
                Ok(()) => return download.check().map_err(failed),
                Err(Interrupted::Permanent(failure)) => {
                    download.give_up().map_err(failed)?;
                    return Err(failure);
                }
                Err(Interrupted::Temporary(why)) if attempt < MAX_ATTEMPTS => {
                    self.out.note(format!("{why}; resuming"));
                    tokio::time::sleep(Duration::from_secs(1) * attempt).await;
                    attempt += 1;
                }
                Err(Interrupted::Temporary(why)) => {
                    download.give_up().map_err(failed)?;
                    let sentence = format!(
                        "can't download {}: {why}; run the command again to resume, or {}",
                        plan.url, self.offline
                    );
                    return Err(Failure::failed(sentence));
                }
            }
        }
    }
}

/// Has `fetch` bring the files of `plans` that are missing, and renames them once all of them are
/// verified. Returns all files in the order of `plans`; the last one is renamed last.
///
/// # Errors
/// Those of `fetch`, and [`Exit::Failed`](crate::exit::Exit) where a file can't be put in place.
pub(super) async fn install(
    plans: Vec<PullPlan>,
    fetch: impl AsyncFnOnce(Vec<PullPlan>) -> Result<Vec<Checked>, Failure>,
    out: &Output,
) -> Result<Vec<Downloaded>, Failure> {
    let targets: Vec<PathBuf> = plans.iter().map(|plan| plan.target.clone()).collect();
    let (mut done, mut missing) = (Vec::new(), Vec::new());
    for plan in plans {
        match Download::already(&plan).map_err(|e| refused(&e))? {
            Some(file) => done.push(file),
            None => missing.push(plan),
        }
    }
    let Some(last) = targets.last() else {
        return Ok(done);
    };
    let checked = fetch(missing).await?;
    if checked.is_empty() {
        let name = last.file_name().unwrap_or_default().to_string_lossy();
        out.note(format!(
            "{name} is already installed; nothing was downloaded"
        ));
    }
    done.extend(place_all(checked, last).map_err(|e| refused(&e))?);
    done.sort_by_key(|file| targets.iter().position(|target| *target == file.path));
    Ok(done)
}

/// The failure of a download; a full disk has its remedy.
pub(super) fn refused(error: &DownloadError) -> Failure {
    let sentence = match error {
        DownloadError::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
            format!("{error}; free some space there, then run the command again")
        }
        _ => error.to_string(),
    };
    Failure::failed(sentence)
}

/// Copies a file of this machine in the place of a download.
///
/// # Errors
/// [`Exit::Failed`](crate::exit::Exit): it can't be read, or is another file.
pub(super) fn copy(plan: PullPlan, file: &Path) -> Result<Checked, Failure> {
    let unread = unread::<io::Error>(file);
    let mut opened = File::open(file).map_err(unread)?;
    let length = opened.metadata().map_err(unread)?.len();
    let mut download = Download::open(plan).map_err(|e| refused(&e))?;
    let start = Start::Whole {
        length: Some(length),
        validator: None,
    };
    download.start(start).map_err(|e| refused(&e))?;
    let mut piece = vec![0; 1 << 16];
    loop {
        match opened.read(&mut piece).map_err(unread)? {
            0 => return download.check().map_err(|e| refused(&e)),
            n => {
                let bytes = piece.get(..n).unwrap_or_default();
                download.accept(bytes).map_err(|e| refused(&e))?;
            }
        }
    }
}

/// Has packages fetched from another registry than their descriptions name.
///
/// # Errors
/// [`Exit::BadInput`](crate::exit::Exit) for text that is not an address.
pub(super) fn ask_registry(registry: &str, plans: &mut [PullPlan]) -> Result<(), Failure> {
    reqwest::Url::parse(registry)
        .map_err(|e| Failure::input(format!("--registry {registry}: {e}; name an address")))?;
    for package in plans.iter_mut().filter_map(|plan| plan.package.as_mut()) {
        registry.clone_into(&mut package.registry);
    }
    Ok(())
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
    let stop = |e: DownloadError| Interrupted::Permanent(refused(&e));
    let broken = |e: reqwest::Error| {
        // After redirects the failed host is not that of `url`.
        let host = e.url().and_then(|url| url.host_str()).map(str::to_owned);
        let why = match host {
            Some(host) => format!("{host}: {}", root_cause(&e)),
            None => root_cause(&e),
        };
        if e.is_redirect() || e.is_builder() {
            let sentence = format!("can't download {url}: {why}");
            Interrupted::Permanent(Failure::failed(sentence))
        } else {
            Interrupted::Temporary(why)
        }
    };
    let mut request = client.get(url);
    let rest = download.range_request();
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
            return Err(Interrupted::Permanent(Failure::failed(sentence)));
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
