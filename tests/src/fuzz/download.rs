//! Target `download`: a server's answers to a pull, from the headers to the last byte, over several
//! attempts.
//!
//! - An answer continues a file only from the requested byte.
//! - Never more is written than was announced.
//! - A file gets its name only with the bytes of its checksum.
//! - An interrupted transfer can be resumed.

use std::fs;

use reqwest::StatusCode;
use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, HeaderMap, HeaderValue};
use watchkeeper_cli::fuzzing::begin;
use watchkeeper_models::{Download, PullPlan, Start, Trust};

use super::hostile::{Choices, text_and_choices};

/// Content of the served file.
const BODY: &[u8] = b"weights";
const SUM: &str = "9a129038d9a00aed0cf6a7ea059ca50a813449061ab87848cf1a13eafdf33b2c";

pub(super) fn download(input: &[u8]) {
    // Header lines first, one attempt each; then the choices.
    let (headers, mut choices) = text_and_choices(input);
    let headers = String::from_utf8_lossy(headers);
    let folder = tempfile::tempdir().expect("a folder for the part");
    let plan = PullPlan {
        name: "m".to_owned(),
        url: "https://example.org/m.onnx".to_owned(),
        sha256: Some(SUM.parse().expect("a sum")),
        bytes: choices.pick(&[None, Some(BODY.len() as u64), Some(0), Some(u64::MAX)]),
        trust: Trust::KnownOnly,
        target: folder.path().join("m.onnx"),
        package: None,
    };
    for line in headers.lines().take(4) {
        attempt(&plan, line, &mut choices);
        if let Ok(placed) = fs::read(&plan.target) {
            assert_eq!(placed, BODY, "a wrong file is in place");
        }
    }
}

fn attempt(plan: &PullPlan, line: &str, choices: &mut Choices<'_>) {
    let Ok(mut download) = Download::open(plan.clone()) else {
        return;
    };
    let offset = download.offset();
    let (range, length) = line.split_once('|').unwrap_or((line, ""));
    let mut headers = HeaderMap::new();
    for (name, value) in [(CONTENT_RANGE, range), (CONTENT_LENGTH, length)] {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
    let status = choices.pick(&[
        StatusCode::PARTIAL_CONTENT,
        StatusCode::OK,
        StatusCode::RANGE_NOT_SATISFIABLE,
        StatusCode::NOT_FOUND,
    ]);
    let start = match begin(status, &headers, offset) {
        Ok(start) => start,
        Err(reason) => {
            assert!(!reason.trim().is_empty());
            return;
        }
    };
    if let Start::Rest { .. } = start {
        let first = range.trim_start_matches("bytes ").split('-').next();
        let first = first.map(|f| f.trim_start_matches('0').to_owned());
        assert_eq!(
            first.as_deref(),
            Some(offset.to_string().trim_start_matches('0'))
        );
    }
    if download.start(start).is_err() {
        return;
    }
    let limit = download.expected().or(plan.bytes);
    for _ in 0..choices.below(4) {
        let right = BODY.get(usize::try_from(download.offset()).unwrap_or(0)..);
        let chunk = match (choices.flag(), right) {
            (true, Some(right)) => &right[..choices.below(right.len() + 1)],
            _ => choices.take(8),
        };
        if download.accept(chunk).is_err() {
            break;
        }
        assert!(limit.is_none_or(|limit| download.offset() <= limit));
    }
    let (received, expected) = (download.offset(), download.expected());
    if let Ok(done) = download.finish() {
        assert_eq!(done.bytes, received);
        assert!(expected.is_none_or(|expected| received >= expected));
    }
}
