//! `watchkeeper evidence`: signed bundles of events and jobs.
//!
//! - A bundle gets its name when it is complete, verified and on stable storage. An existing file
//!   is never replaced.
//! - The runtime makes the bundle of an event. That of a job is made here, or by the agent for its
//!   own, and the runtime signs its hashes.

mod describe;

use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use watchkeeper_agent::jobs::bundle;
use watchkeeper_bundle::BundleFault;
use watchkeeper_bundle::verify::{ExpectedKey, Verified, verify};
use watchkeeper_client::{JournalRecord, RuntimeClient};
use watchkeeper_config::Config;
use watchkeeper_contract::event::MAX_PAGE;
use watchkeeper_contract::id::{EventId, EventSeq};
use watchkeeper_jobs::run::{JobFolderError, JobId};

use super::agent_client::AgentClient;
use super::args::{EvidenceAction, EvidenceExportArgs, EvidenceVerifyArgs};
use super::exit::Failure;
use super::jobs::jobs_of_user;
use super::output::Output;
use super::user_file::{exists, new_file, place_new, read_text, unwritten};

/// Length of an Ed25519 public key in bytes.
const KEY_BYTES: usize = 32;
/// Digits with which the ID of a job begins.
const DATE_DIGITS: usize = 8;
/// Longest file of a key that is read, in bytes.
const MAX_KEY_FILE: usize = 1024;

pub(super) async fn run(
    action: EvidenceAction,
    client: &RuntimeClient,
    config: &Config,
    out: &Output,
) -> Result<(), Failure> {
    match action {
        EvidenceAction::Export(args) => export(&args, client, config, out).await,
        EvidenceAction::Verify(args) => check(&args, out),
        EvidenceAction::Key => {
            let key = client.box_key().await?;
            out.both(&key, || {
                format!("key          {}\nfingerprint  {}", key.key, key.fingerprint)
            });
            Ok(())
        }
    }
}

async fn export(
    args: &EvidenceExportArgs,
    client: &RuntimeClient,
    config: &Config,
    out: &Output,
) -> Result<(), Failure> {
    let output = &args.output;
    if output.symlink_metadata().is_ok() {
        return Err(exists(output, "file"));
    }
    let unwritten = unwritten::<std::io::Error>(output);
    let mut new = new_file(output).map_err(unwritten)?;
    out.busy("collecting the evidence");
    match find(args, client, out).await? {
        Subject::Event(seq) => {
            let file = new.reopen().map_err(unwritten)?;
            let mut file = tokio::fs::File::from_std(file);
            client.event_bundle(seq, args.to_head, &mut file).await?;
        }
        Subject::Job => write_job(&args.what, client, new.as_file_mut()).await?,
        Subject::JobOfAgent => {
            let agent = AgentClient::new(&config.agent_api.socket)?;
            let id = utf8_percent_encode(&args.what, NON_ALPHANUMERIC);
            let request = agent.request(Method::GET, &format!("jobs/{id}/bundle"));
            let mut answer = agent.send(request).await?;
            let broken =
                |_: reqwest::Error| Failure::failed("the agent broke off its answer; try again");
            while let Some(piece) = answer.chunk().await.map_err(broken)? {
                new.as_file_mut().write_all(&piece).map_err(unwritten)?;
            }
        }
    }
    let mut written = BufReader::new(new.reopen().map_err(unwritten)?);
    let verified = verify(&mut written, None).map_err(|fault| {
        let sentence = format!("the bundle is not sound, try again: {fault}");
        Failure::failed(sentence)
    })?;
    let placed = place_new(new, output).map_err(unwritten)?;
    placed.map_err(|_| exists(output, "file"))?;
    out.both(&describe::object(&verified, output, false), || {
        describe::exported(&verified, output)
    });
    Ok(())
}

enum Subject {
    Event(EventSeq),
    Job,
    JobOfAgent,
}

/// Writes the bundle of the user's job with the ID `id`, or the first characters of it.
async fn write_job(id: &str, client: &RuntimeClient, out: &mut File) -> Result<(), Failure> {
    let job = jobs_of_user()?.open(id).map_err(not_opened)?;
    if job.is_running()? {
        let sentence = format!("job {} is running; wait for it or cancel it", job.info().id);
        return Err(Failure::failed(sentence));
    }
    let contents = bundle::collect(&job)?;
    let signed = client.sign_job(&bundle::describe(&job, &contents)).await?;
    let mut out = BufWriter::new(out);
    let written = contents.sign(signed).write(&mut out);
    written
        .and_then(|()| out.flush())
        .map_err(|error| Failure::failed(format!("can't write the bundle: {error}")))
}

/// An unknown ID may be that of a job of the agent.
fn not_opened(error: JobFolderError) -> Failure {
    let is_unknown = matches!(error, JobFolderError::Unknown(_));
    let hint = is_unknown.then(|| "is it a job of the agent? Then add --agent".to_owned());
    Failure::from(error).with(hint)
}

/// Whether digits are a date with which the ID of a job begins. Other ones are a record's number,
/// and so are all where the user has no folder of jobs.
fn is_date_of_job(what: &str, jobs: impl FnOnce() -> Result<Vec<JobId>, Failure>) -> bool {
    let begins = |jobs: Vec<JobId>| jobs.iter().any(|id| id.starts_with(what));
    what.len() == DATE_DIGITS && jobs().is_ok_and(begins)
}

/// Reads a number of a record, an ID of an event, or anything else as an ID of a job.
async fn find(
    args: &EvidenceExportArgs,
    client: &RuntimeClient,
    out: &Output,
) -> Result<Subject, Failure> {
    if args.agent {
        return Ok(Subject::JobOfAgent);
    }
    let what = args.what.as_str();
    if let Ok(seq) = what.parse() {
        if is_date_of_job(what, || Ok(jobs_of_user()?.ids()?)) {
            out.note(format!(
                "{what} is the date of a job: its bundle is made, not that of an event"
            ));
            return Ok(Subject::Job);
        }
        return Ok(Subject::Event(seq));
    }
    let Ok(id) = what.parse::<EventId>() else {
        return Ok(Subject::Job);
    };
    let mut after = EventSeq(0);
    loop {
        let page = client.events(after, MAX_PAGE).await?;
        let Some(last) = page.last() else {
            let sentence = format!("there is no event {what} in the journal");
            let hint = "`watchkeeper events` lists what is there".to_owned();
            return Err(Failure::input(sentence).with([hint]));
        };
        after = last.seq();
        let is_wanted =
            |record: &&JournalRecord| matches!(record, JournalRecord::Known(e) if e.id == id);
        if let Some(found) = page.iter().find(is_wanted) {
            return Ok(Subject::Event(found.seq()));
        }
    }
}

fn check(args: &EvidenceVerifyArgs, out: &Output) -> Result<(), Failure> {
    let name = args.file.display();
    let key = expected_key(args)?;
    let file = File::open(&args.file)
        .map_err(|error| Failure::input(format!("can't read {name}: {error}")))?;
    out.busy("verifying the bundle");
    let verified: Verified = verify(&mut BufReader::new(file), key.as_ref()).map_err(|fault| {
        let sentence = format!("{name}: NOT SOUND: {fault}");
        let failure = Failure::failed(sentence);
        match fault {
            BundleFault::Io(_) | BundleFault::Newer(_) => Failure::input(failure.sentence),
            BundleFault::Form(_) | BundleFault::Changed(_) => failure,
        }
    })?;
    let is_pinned = key.is_some();
    out.both(&describe::object(&verified, &args.file, is_pinned), || {
        describe::lines(&verified, &args.file, is_pinned).join("\n")
    });
    Ok(())
}

fn expected_key(args: &EvidenceVerifyArgs) -> Result<Option<ExpectedKey>, Failure> {
    if let Some(hex) = &args.fingerprint {
        let key = ExpectedKey::by_fingerprint(hex);
        let wrong = || Failure::input(format!("--fingerprint {hex:?}: not 64 hex digits"));
        return key.map(Some).ok_or_else(wrong);
    }
    let Some(text) = &args.key else {
        return Ok(None);
    };
    let wrong = |why: String| Failure::input(format!("--key {text}: {why}"));
    if let Some(key) = parse_key(text) {
        return Ok(Some(ExpectedKey::by_key(&key)));
    }
    let content = read_text(Path::new(text), MAX_KEY_FILE)
        .map_err(|error| wrong(format!("neither a public key nor a file with one: {error}")))?;
    if content.len() > MAX_KEY_FILE {
        return Err(wrong(format!(
            "the file has more than {MAX_KEY_FILE} bytes, so it is no file with a public key"
        )));
    }
    let mut words = content.split_whitespace();
    let key = words.find_map(parse_key);
    let key = key.ok_or_else(|| wrong("the file has no public key of 32 bytes".to_owned()))?;
    Ok(Some(ExpectedKey::by_key(&key)))
}

fn parse_key(text: &str) -> Option<Vec<u8>> {
    let key = BASE64.decode(text.trim()).ok()?;
    (key.len() == KEY_BYTES).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    fn args(key: Option<&str>, fingerprint: Option<&str>) -> EvidenceVerifyArgs {
        EvidenceVerifyArgs {
            file: "x".into(),
            key: key.map(str::to_owned),
            fingerprint: fingerprint.map(str::to_owned),
        }
    }

    #[test]
    fn date_of_a_job_is_no_number_of_a_record() {
        let jobs = || Ok(vec!["20261128-141502-kxq".to_owned()]);
        assert!(is_date_of_job("20261128", jobs));
        for number in ["20261129", "2026", "2"] {
            assert!(!is_date_of_job(number, jobs), "{number}");
        }
        let unavailable = || Err(Failure::input("HOME is not set".to_owned()));
        assert!(!is_date_of_job("20261128", unavailable));
    }

    #[test]
    fn unknown_job_may_be_one_of_the_agent() {
        let failure = not_opened(JobFolderError::Unknown("20261128".to_owned()));
        assert_eq!(failure.exit, Exit::BadInput);
        assert!(failure.details.iter().any(|hint| hint.contains("--agent")));
    }

    #[test]
    fn key_file_and_fingerprint_name_the_same_key() -> Result<(), Box<dyn std::error::Error>> {
        let key = BASE64.encode([7; KEY_BYTES]);
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("key.txt");
        std::fs::write(&file, format!("key          {key}\nfingerprint  ab\n"))?;
        let read = |args| expected_key(&args).map_err(|failure| failure.to_string());
        let by_key = read(args(Some(&key), None))?;
        assert_eq!(read(args(file.to_str(), None))?, by_key);
        let hex = watchkeeper_bundle::signature::fingerprint(&[7; KEY_BYTES]);
        assert_eq!(read(args(None, Some(&hex)))?, by_key);
        assert!(read(args(Some("nothing.txt"), None)).is_err());
        std::fs::write(&file, format!("{key} {}", " ".repeat(MAX_KEY_FILE)))?;
        let long = read(args(file.to_str(), None)).expect_err("too long for a key");
        assert!(long.contains("more than 1024 bytes"), "{long}");
        assert!(read(args(None, Some("ab"))).is_err());
        Ok(())
    }
}
