//! The command `watchkeeper coverage`, and the check of a signed statement.
//!
//! - The text that was signed is checked as it is in the file: a field that this version does not
//!   know is signed too.
//! - A statement is sound if a known key signed it and the journal has the record that it names.
//! - Not here: what the coverage says about a question (`assistant`, `past`).

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::tz::TimeZone;
use ring::signature::{ED25519, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use watchkeeper_assistant::past::{self, Knowledge};
use watchkeeper_assistant::wording::{counted, local_time};
use watchkeeper_client::{CoverageRange, JournalRecord, RuntimeClient};
use watchkeeper_config::bounded;
use watchkeeper_contract::canonical::canonical;
use watchkeeper_contract::coverage::{CoverageReport, CoverageStatement, Watched};
use watchkeeper_contract::id::SourceId;
use watchkeeper_plain::answer::EventsWanted;

use super::args::CoverageArgs;
use super::exit::Failure;
use super::output::Output;
use super::user_file::{unread, write_file};

/// Longest statement that is read, in bytes.
const MAX_STATEMENT_BYTES: u64 = 64 << 20;

pub(super) async fn run(
    args: CoverageArgs,
    client: &RuntimeClient,
    out: &Output,
) -> Result<(), Failure> {
    let range = CoverageRange {
        from_ms: Some(args.since.as_millisecond()),
        to_ms: args.until.map(|at| at.as_millisecond()),
        source: args.camera.clone(),
    };
    if range.to_ms.is_some_and(|to| Some(to) <= range.from_ms) {
        return Err(Failure::input("--until must be after --since"));
    }
    if let Some(path) = &args.statement {
        return save_statement(path, &range, client, out).await;
    }
    let wanted = EventsWanted {
        camera: args.camera,
        labels: args.class,
        from: Some(args.since),
        to: args.until,
        ..EventsWanted::default()
    };
    let answer = past::answer_span(client, &wanted).await?;
    let zone = TimeZone::system();
    out.both(&object(&answer.report, &answer.knowledge, &zone), || {
        answer.knowledge.lines(&zone).join("\n")
    });
    Ok(())
}

fn object(report: &CoverageReport, knowledge: &Knowledge, zone: &TimeZone) -> Value {
    let mut object = knowledge.to_json(usize::MAX, zone);
    object["type"] = json!("coverage");
    object["spans"] = json!(report.spans);
    object
}

async fn save_statement(
    path: &Path,
    range: &CoverageRange,
    client: &RuntimeClient,
    out: &Output,
) -> Result<(), Failure> {
    let statement = client.coverage_statement(range).await?;
    let text = serde_json::to_string_pretty(&statement).unwrap_or_default();
    write_file(path, (text + "\n").as_bytes())?;
    let spans = statement.report.spans.len();
    out.both(
        &json!({"type": "statement", "file": path, "key": statement.key, "spans": spans}),
        || {
            format!(
                "Statement in {}, {}, signed with the key {}",
                path.display(),
                counted(spans as u64, "span"),
                statement.key
            )
        },
    );
    Ok(())
}

/// Verifies the signature of a statement by `key`, by default that of the box. Verifies also that
/// the journal has the record with the hash that it names.
pub(super) async fn verify(
    path: &Path,
    key: Option<&str>,
    client: &RuntimeClient,
) -> Result<Verified, Failure> {
    let (statement, signed) = read(path)?;
    let own = match key {
        Some(key) => key.to_owned(),
        None => client.box_key().await?.key,
    };
    check_signature(&statement, &signed, &own)
        .map_err(|why| Failure::failed(format!("{}: {why}", path.display())))?;
    let Some(head) = &statement.report.head else {
        return Ok(Verified {
            statement,
            is_in_journal: None,
        });
    };
    let found = client.record(head.seq).await?;
    let hash = found.as_ref().and_then(JournalRecord::hash);
    if hash.is_some_and(|hash| hash != head.hash) {
        let sentence = format!(
            "{}: event {} of the journal has another hash than the statement names",
            path.display(),
            head.seq
        );
        return Err(Failure::failed(sentence));
    }
    let is_in_journal = Some(hash.is_some());
    Ok(Verified {
        statement,
        is_in_journal,
    })
}

/// A statement with a valid signature.
#[derive(Debug)]
pub(super) struct Verified {
    statement: CoverageStatement,
    /// Whether the journal has the record that the statement names; `None` if it names none.
    is_in_journal: Option<bool>,
}

impl Verified {
    /// What was verified, and the spans of the statement, one a line.
    pub(super) fn text(&self) -> String {
        let spans = self.statement.report.spans.iter().map(|span| {
            let [from, to] = [span.from, span.to].map(|at| local_time(at.unix_ms));
            let Watched {
                source, pipeline, ..
            } = &span.watch;
            format!("  {from} – {to}  {source} watched by {pipeline}")
        });
        let lines: Vec<String> = std::iter::once(self.line()).chain(spans).collect();
        lines.join("\n")
    }

    fn line(&self) -> String {
        let report = &self.statement.report;
        let spans = counted(report.spans.len() as u64, "span");
        let camera = report
            .source
            .as_ref()
            .map_or("all cameras", SourceId::as_str);
        let [from, to, at] = [report.from_ms, report.to_ms, report.at.unix_ms].map(local_time);
        let head = match (&self.statement.report.head, self.is_in_journal) {
            (Some(head), Some(true)) => format!("event {} is in the journal", head.seq),
            (Some(head), _) => format!("event {} is no longer in the journal", head.seq),
            (None, _) => "the journal had no event".to_owned(),
        };
        format!(
            "statement about {camera} from {from} to {to}, made {at}: signature ok, {spans}, {head}"
        )
    }

    pub(super) fn object(&self) -> Value {
        json!({
            "type": "statement", "signature": "valid", "key": self.statement.key,
            "camera": self.statement.report.source, "from_ms": self.statement.report.from_ms,
            "to_ms": self.statement.report.to_ms, "at": self.statement.report.at,
            "spans": self.statement.report.spans.len(), "in_journal": self.is_in_journal,
        })
    }
}

/// A [`CoverageStatement`] in a file. A member that is repeated, or that is not signed, is an
/// error: another reader might take it for the statement.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StatementFile<'f> {
    #[serde(borrow)]
    report: &'f RawValue,
    key: String,
    signature: String,
}

/// Reads a statement, and the text that was signed.
fn read(path: &Path) -> Result<(CoverageStatement, String), Failure> {
    let bad = |why: serde_json::Error| {
        Failure::input(format!(
            "{}: no statement of coverage: {why}",
            path.display()
        ))
    };
    let text = bounded::read_up_to(path, MAX_STATEMENT_BYTES).map_err(unread(path))?;
    let file: StatementFile<'_> = serde_json::from_slice(&text).map_err(bad)?;
    let statement = CoverageStatement {
        report: serde_json::from_str(file.report.get()).map_err(bad)?,
        key: file.key,
        signature: file.signature,
    };
    // As it is in the file: a field that this version does not know is signed too.
    let signed: Value = serde_json::from_str(file.report.get()).map_err(bad)?;
    Ok((statement, canonical(&signed)))
}

/// Checks that `key` signed the text of the statement.
fn check_signature(statement: &CoverageStatement, signed: &str, key: &str) -> Result<(), String> {
    if statement.key != key {
        return Err(format!(
            "signed with the key {}, not with {key}",
            statement.key
        ));
    }
    let decode = |text: &str| BASE64.decode(text);
    let (Ok(key), Ok(signature)) = (decode(key), decode(&statement.signature)) else {
        return Err("key or signature is not base64".to_owned());
    };
    UnparsedPublicKey::new(&ED25519, key)
        .verify(signed.as_bytes(), &signature)
        .map_err(|_| "the signature does not fit: the statement was changed".to_owned())
}
