//! The contents of an event's bundle, gathered from journal, media, coverage and pipelines.
//!
//! - Everything is read and hashed here: the box signs no statement of a client about an event.
//! - What belongs to the event and can't be added is stated with the reason. The clip comes before
//!   the pictures where there are too many.
//! - The pipeline is the one whose hash the record has, so the chain of records proves it.
//! - Records are held in memory up to [`MAX_RECORD_BYTES`] and [`MAX_CHAIN_BYTES`]; media stay
//!   files, which are open until they are sent.

use watchkeeper_bundle::archive::media_name;
use watchkeeper_bundle::write::{Bundle, Contents};
use watchkeeper_bundle::{CHAIN, RECORDS, record_line};
use watchkeeper_contract::bundle::{BundleSubject, EventSubject};
use watchkeeper_contract::canonical::canonical;
use watchkeeper_contract::coverage::JournalHead;
use watchkeeper_contract::event::{Event, Phase};
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::problem::Problem;
use watchkeeper_http::Refusal;

use crate::api::Api;
use crate::journal::media::{MediaError, MediaStore};
use crate::journal::{Hash, Journal, JournalError, MAX_PAGE, StoredEvent};

/// Most records of one event, the latest.
const MAX_RECORDS: usize = 10_000;
/// Most bytes of the records of one event.
const MAX_RECORD_BYTES: usize = 8 << 20;
/// Most bytes of the records that link them to the head.
const MAX_CHAIN_BYTES: usize = 8 << 20;
/// Most pictures and clips.
const MAX_MEDIA: usize = 64;
/// Name of the file with the pipeline.
const PIPELINE: &str = "pipeline.json";
/// Time before and after the event for which coverage is stated, in milliseconds.
const COVERAGE_MARGIN_MS: i64 = 60_000;

/// Gathers the bundle of the event that record `seq` belongs to. With `to_head`, its records are
/// linked to the newest one of the journal instead of the last one of the event.
pub(super) fn prepare(api: &Api, seq: EventSeq, to_head: bool) -> Result<Bundle, Refusal> {
    let journal = api.journal();
    let stored = records(journal, seq)?;
    let events = stored.iter().map(StoredEvent::event);
    let events: Vec<Event> = events.collect::<Result<_, _>>()?;
    let (Some(first), Some(last)) = (events.first(), events.last()) else {
        return Err(unknown(seq));
    };
    let mut contents = Contents::default();
    contents.add_text(RECORDS, record_lines(journal, &stored)?);
    state_absent_records(&events, &mut contents);
    let own = JournalHead {
        seq: last.seq,
        hash: last.hash.clone(),
    };
    let head = match to_head {
        true => journal.last_link()?.unwrap_or(own),
        false => own,
    };
    add_chain(journal, &stored, head.seq, &mut contents)?;
    add_media(api.media(), &events, &mut contents);
    add_coverage(api, [first, last], &mut contents);
    add_pipeline(journal, first, &mut contents);
    let subject = BundleSubject::Event(EventSubject {
        id: first.id,
        source: first.source.clone(),
        pipeline: first.pipeline.clone(),
        rule: first.body.rule().map(|rule| rule.rule.clone()),
        began: first.at,
        records: events.iter().map(|event| event.seq).collect(),
        head,
    });
    let signed = api.sign_bundle(subject, contents.describe())?;
    Ok(contents.sign(signed))
}

fn unknown(seq: EventSeq) -> Refusal {
    let detail = format!(
        "there is no record {seq} in the journal; retention may have deleted it, \
         `watchkeeper events` lists what is there"
    );
    let problem = Problem::not_found(detail).at("seq", seq.to_string());
    problem.into()
}

/// The records of the event that record `seq` belongs to.
fn records(journal: &Journal, seq: EventSeq) -> Result<Vec<StoredEvent>, Refusal> {
    let Some(before) = seq.0.checked_sub(1) else {
        return Err(unknown(seq));
    };
    let page = journal.read_after(EventSeq(before), 1)?;
    let record = page.events.first().filter(|record| record.seq == seq);
    let id = record.ok_or_else(|| unknown(seq))?.event()?.id;
    Ok(journal.records_of(id, MAX_RECORDS, MAX_RECORD_BYTES)?)
}

/// Hash of the record before `seq`, if that is still stored.
fn hash_before(journal: &Journal, seq: EventSeq) -> Result<Option<Hash>, JournalError> {
    let before = seq.0.saturating_sub(1);
    let Some(earlier) = before.checked_sub(1) else {
        return Ok(Some(Hash::ZERO));
    };
    let page = journal.read_after(EventSeq(earlier), 1)?;
    let record = page.events.first().filter(|record| record.seq.0 == before);
    Ok(record.map(StoredEvent::hash))
}

fn record_lines(journal: &Journal, stored: &[StoredEvent]) -> Result<String, JournalError> {
    let mut lines = String::new();
    for record in stored {
        let previous = hash_before(journal, record.seq)?;
        lines += &record_line::line(record.hash(), previous, record.canonical());
    }
    Ok(lines)
}

/// States the parts of the event that its records do not have.
fn state_absent_records(events: &[Event], contents: &mut Contents) {
    if events
        .first()
        .is_some_and(|event| event.phase != Phase::New)
    {
        contents.add_missing(
            "first records",
            "the journal no longer has them, or too many",
        );
    }
    if !events.iter().any(|event| event.phase == Phase::End) {
        contents.add_missing("end", "the event had not ended when the bundle was made");
    }
}

/// Adds the other records from the first one of the event up to `head`, or why they are missing.
fn add_chain(
    journal: &Journal,
    stored: &[StoredEvent],
    head: EventSeq,
    contents: &mut Contents,
) -> Result<(), JournalError> {
    let own: Vec<EventSeq> = stored.iter().map(|record| record.seq).collect();
    let Some(first) = own.first() else {
        return Ok(());
    };
    let mut lines = String::new();
    let (mut at, mut previous) = (EventSeq(first.0.saturating_sub(1)), None);
    while at < head {
        let page = journal.read_after(at, MAX_PAGE)?;
        if page.events.is_empty() {
            break;
        }
        for record in page.events.iter().take_while(|record| record.seq <= head) {
            if record.seq.0 != at.0 + 1 {
                let why = format!("the journal no longer has record {}", at.0 + 1);
                contents.add_missing(CHAIN, why);
                return Ok(());
            }
            if own.binary_search(&record.seq).is_err() {
                lines += &record_line::line(record.hash(), previous, record.canonical());
            }
            if lines.len() > MAX_CHAIN_BYTES {
                let why =
                    format!("the records up to {head} have more than {MAX_CHAIN_BYTES} bytes");
                contents.add_missing(CHAIN, why);
                return Ok(());
            }
            (at, previous) = (record.seq, Some(record.hash()));
        }
        if page.next_after >= head {
            break;
        }
    }
    if at != head {
        contents.add_missing(CHAIN, format!("the journal no longer has record {head}"));
    } else if !lines.is_empty() {
        contents.add_text(CHAIN, lines);
    }
    Ok(())
}

/// Adds the clip, and pictures as long as there is space, as the records name them.
fn add_media(store: &MediaStore, events: &[Event], contents: &mut Contents) {
    add_clip(store, events, contents);
    for media in events.iter().flat_map(|event| &event.media) {
        add_one(
            store,
            contents,
            &media.id,
            &media.content_type,
            &media.sha256,
        );
    }
}

fn add_clip(store: &MediaStore, events: &[Event], contents: &mut Contents) {
    let mut clips = events.iter().filter_map(|event| event.clip.as_ref());
    let Some(clip) = clips.next_back() else {
        return;
    };
    match clip.state.file() {
        Ok((content_type, sha256)) => {
            add_one(store, contents, &clip.id, content_type, sha256);
        }
        Err(why) => contents.add_missing("clip", why),
    }
}

fn add_one(
    store: &MediaStore,
    contents: &mut Contents,
    id: &str,
    content_type: &str,
    sha256: &str,
) {
    let Some(name) = media_name(id, content_type) else {
        contents.add_missing(
            id,
            format!("{content_type:?} is no type of a picture or clip"),
        );
        return;
    };
    if contents.has(&name) || contents.is_missing(&name) {
        return;
    }
    if contents.count() >= MAX_MEDIA {
        contents.add_missing(name, format!("a bundle has at most {MAX_MEDIA} files"));
        return;
    }
    let added = store.open_file(id).and_then(|opened| {
        let added = contents.add_file(&name, opened.file, opened.bytes);
        added.map_err(|source| MediaError::Io {
            path: name.clone().into(),
            source,
        })
    });
    match added {
        Ok(found) if found == sha256 => {}
        Ok(_) => {
            contents.remove(&name);
            contents.add_missing(
                name,
                "the stored file is damaged: it has not the hash of its record",
            );
        }
        Err(error) => contents.add_missing(name, error.to_string()),
    }
}

/// Adds when its camera was watched around the event.
fn add_coverage(api: &Api, [first, last]: [&Event; 2], contents: &mut Contents) {
    const NAME: &str = "coverage.json";
    let from = first.at.unix_ms.saturating_sub(COVERAGE_MARGIN_MS);
    let to = last
        .at
        .unix_ms
        .max(first.at.unix_ms)
        .saturating_add(COVERAGE_MARGIN_MS);
    match api.coverage(from..to, first.source.as_ref()) {
        Ok(report) => match serde_json::to_value(&report) {
            Ok(report) => contents.add_text(NAME, canonical(&report) + "\n"),
            Err(error) => contents.add_missing(NAME, error.to_string()),
        },
        Err(problem) => contents.add_missing(NAME, problem.detail),
    }
}

/// Adds the pipeline as it was when it made the event.
fn add_pipeline(journal: &Journal, first: &Event, contents: &mut Contents) {
    let Some(id) = &first.pipeline else {
        return;
    };
    let hash = first.definition.as_deref();
    match hash.map_or(Ok(None), |hash| journal.definitions.get(hash)) {
        Ok(Some(text)) => contents.add_text(PIPELINE, text),
        Ok(None) => contents.add_missing(
            PIPELINE,
            format!(
                "the box does not have pipeline {id} as it was when it made the event; \
                 coverage.json has the rules and classes of the time"
            ),
        ),
        Err(error) => contents.add_missing(PIPELINE, error.to_string()),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use serde_json::{Value, json};
    use watchkeeper_contract::event::{Media, MediaKind};

    use super::*;
    use crate::journal::RetentionRank;
    use crate::journal::media::MediaLimits;

    fn event(media: &[Media], clip: Value) -> Event {
        let event = json!({
            "schema": 1, "id": "01MB78QN00000000000000001A", "seq": 1, "boot_id": "now",
            "mono_ms": 5000, "at": {"unix_ms": 0, "quality": "synced"}, "phase": "new",
            "severity": "info", "body": {"kind": "loss", "from": "t", "count": 1, "message": "m"},
            "decision": {"verdict": "record", "confidence": 1.0, "reason": "r"}, "evidence": [],
            "media": media, "clip": clip, "hash": "",
        });
        serde_json::from_value(event).unwrap()
    }

    #[test]
    fn clip_is_in_the_bundle_however_many_pictures_there_are() {
        let folder = tempfile::tempdir().unwrap();
        let store = MediaStore::open(folder.path(), MediaLimits::default()).unwrap();
        let put = |n: i64| {
            store
                .put(MediaKind::Clean, RetentionRank::Normal, n, &n.to_be_bytes())
                .unwrap()
        };
        let pictures: Vec<Media> = (0..70).map(put).collect();
        let film = put(1000);
        let clip = json!({
            "id": film.id, "start": {"unix_ms": 0, "quality": "synced"}, "before_s": 1.0,
            "after_s": 1.0, "state": {"kept": {
                "content_type": "video/mp4", "bytes": film.bytes, "sha256": film.sha256,
            }},
        });
        let mut contents = Contents::default();
        add_media(&store, &[event(&pictures, clip)], &mut contents);
        assert!(contents.has(&media_name(&film.id, "video/mp4").unwrap()));
        let (files, missing) = contents.describe();
        assert_eq!((files.len(), missing.len()), (MAX_MEDIA, 71 - MAX_MEDIA));
        assert!(missing.iter().all(|part| part.name.ends_with(".jpg")));
    }
}
