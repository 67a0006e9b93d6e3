//! Selects the events that a channel notifies of, and writes their texts.
//!
//! Invariants:
//! - Outside text (labels, names, reasons) is plain text in a message: no mention, no line break,
//!   and in Slack no link.
//! - The only link is that of a review, and it is never cut.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use watchkeeper_config::{ChannelConfig, ChannelKind};
use watchkeeper_contract::assessment::{Assessor, ChainResult};
use watchkeeper_contract::effect::{Attachment, HttpBody};
use watchkeeper_contract::event::{
    Clip, ClipState, Decision, Event, EventBody, MediaKind, Phase, Verdict, confidence_text,
};
use watchkeeper_contract::id::{EventSeq, SourceId};
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::time::{TimeQuality, Wall};

use crate::fleet::mqtt::payload::{event_draft, opinion_draft};
use crate::heartbeat::Finding;
use crate::heartbeat::asker::Added;
use crate::second_opinion::Outcome;
use crate::second_opinion::weigh::outcome_of;
use watchkeeper_assistant::wording::{self, cut, single_line, size};

/// Largest attached clip in bytes; the text names the id of a larger one.
const MAX_ATTACHMENT_BYTES: u64 = 8 << 20;

/// Longest text of one notification, in characters.
const MAX_TEXT: usize = 500;
/// Longest reason in it.
const MAX_REASON: usize = 200;
/// Longest text of a section block, in characters ("Section block" in Slack's documentation).
const SLACK_MAX_BLOCK_TEXT: usize = 3000;
/// Longest link that a block has room for after the longest escaped text.
const SLACK_MAX_LINK: usize = SLACK_MAX_BLOCK_TEXT - MAX_TEXT * "&amp;".len();

/// One notification of one channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notification {
    /// Number of the journal record; absent for a notice, which does not hold back the position.
    pub seq: Option<EventSeq>,
    /// Identity; equal for every retry.
    pub id: String,
    /// Time of the event.
    pub at: Wall,
    pub text: String,
    /// Page that answers the review of the event. Not part of `text`: it must not be cut.
    pub link: Option<String>,
    /// MQTT payload of the event; empty for a channel that sends only texts.
    pub event: Vec<u8>,
    /// Attached picture or clip.
    pub media: Option<MediaRef>,
}

impl Notification {
    /// The text with the link after it.
    fn line(&self) -> String {
        match &self.link {
            Some(link) => format!("{}, answer: {link}", self.text),
            None => self.text.clone(),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Names {
    /// Of the site and the box.
    of_box: String,
    /// Those that users gave cameras, with the ID where two have one name.
    pub cameras: BTreeMap<SourceId, String>,
}

impl Names {
    pub(crate) fn new(of_box: String) -> Self {
        let cameras = BTreeMap::new();
        Self { of_box, cameras }
    }

    /// The name of a camera in one line, or its ID.
    fn of_camera(&self, id: &SourceId) -> String {
        let name = self.cameras.get(id).map(|name| single_line(name));
        name.unwrap_or_else(|| id.to_string())
    }
}

/// A file to attach, kept by the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MediaRef {
    /// Field name in the request: `picture` or `clip`.
    pub name: &'static str,
    pub id: String,
}

/// A finding without journal record: of the heartbeat, or of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Notice {
    pub id: String,
    /// Time of the finding.
    pub at: Wall,
    pub severity: Severity,
    pub reason: String,
    pub camera: Option<SourceId>,
    /// Addition of an LLM.
    pub by_model: Option<String>,
    #[serde(with = "as_text")]
    pub payload: Vec<u8>,
}

/// Serializes bytes of JSON as a string.
mod as_text {
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&String::from_utf8_lossy(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
        String::deserialize(d).map(String::into_bytes)
    }
}

impl Notice {
    /// Notice of a finding of the heartbeat, with what a model added.
    pub(crate) fn of_finding(
        finding: &Finding,
        id: String,
        at: Wall,
        added: Option<&Added>,
        payload: Vec<u8>,
    ) -> Self {
        Self {
            id,
            at,
            severity: finding.severity(),
            reason: finding.sentence(),
            camera: finding.camera().cloned(),
            by_model: added.map(|added| added.words.clone()),
            payload,
        }
    }
}

/// Whether `channel` receives what has this severity.
fn is_severe_for(channel: &ChannelConfig, severity: Severity) -> bool {
    channel.min_severity.is_some_and(|min| severity >= min)
}

/// Whether `channel` receives `notice`.
pub(crate) fn is_wanted(channel: &ChannelConfig, notice: &Notice) -> bool {
    is_severe_for(channel, notice.severity)
}

/// Notification of `notice` for `channel`; `None` if it does not receive it.
pub(crate) fn notice_notification(
    channel: &ChannelConfig,
    names: &Names,
    notice: &Notice,
) -> Option<Notification> {
    is_wanted(channel, notice).then(|| {
        let mut text = format!(
            "{}{} ({}",
            severity_prefix(notice.severity),
            single_line(&notice.reason),
            names.of_box
        );
        if let Some(camera) = &notice.camera {
            text.push_str(&format!(", camera {}", names.of_camera(camera)));
        }
        if let Some(time) = local_time(notice.at) {
            text.push_str(&format!(", {time}"));
        }
        text.push(')');
        if let Some(words) = &notice.by_model {
            text.push_str(&format!(" A model adds: {}", single_line(words)));
        }
        Notification {
            seq: None,
            id: notice.id.clone(),
            at: notice.at,
            text: cut(text, MAX_TEXT),
            link: None,
            event: match channel.kind {
                ChannelKind::Webhook => notice.payload.clone(),
                ChannelKind::Slack => Vec::new(),
            },
            media: None,
        }
    })
}

const fn severity_prefix(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "",
        Severity::Warning => "Warning: ",
        Severity::Critical => "CRITICAL: ",
    }
}

/// Notification of one journal record for `channel`; `None` if it does not receive it. `link`
/// answers the review of the event. A channel in `on_act` receives the record that makes its event
/// certain.
pub(crate) fn event_notification(
    channel: &ChannelConfig,
    names: &Names,
    event: &Event,
    link: Option<&str>,
) -> Option<Notification> {
    let is_wanted = match event.phase {
        Phase::New => true,
        Phase::Update => false,
        Phase::Clip => event.clip.is_some(),
        Phase::End => channel.notify_end && has_lasted(event),
        Phase::Assessed => is_decided_by_chain(event) || is_changed_by_opinion(event),
    };
    let is_certain = is_certain_for(channel, event);
    let rule = event.body.rule();
    let is_named = rule.is_some_and(|rule| rule.notify.contains(&channel.id));
    let is_severe = is_severe_for(channel, event.severity);
    if !is_certain && !(is_wanted && (is_named || is_severe)) {
        return None;
    }
    let (payload, media) = match channel.kind {
        // Empty if the payload is too large even without its evidence; then only the text.
        ChannelKind::Webhook => (
            opinion_draft(event)
                .or_else(|| event_draft(event).ok())
                .map(|draft| draft.payload)
                .unwrap_or_default(),
            media_of(event).filter(|_| channel.pictures),
        ),
        ChannelKind::Slack => (Vec::new(), None),
    };
    Some(Notification {
        seq: Some(event.seq),
        id: format!("{}-{}", event.id, id_suffix(event)),
        at: event.at,
        text: event_text(names, event, link.is_some()),
        link: link.filter(|_| waits_for_answer(event)).map(str::to_owned),
        event: payload,
        media,
    })
}

/// Whether the rule notifies `channel` because this record makes the event certain.
fn is_certain_for(channel: &ChannelConfig, event: &Event) -> bool {
    let EventBody::Rule(rule) = &event.body else {
        return false;
    };
    let is_certain = event.decision.verdict == Verdict::Act && event.phase != Phase::Clip;
    is_certain && rule.on_act.contains(&channel.id)
}

/// Whether the record is of a chain that decided, which settles what channels reported as open.
fn is_decided_by_chain(event: &Event) -> bool {
    let by = event.assessment.as_ref().map(|given| &given.by);
    matches!(by, Some(Assessor::Chain(details)) if details.result == ChainResult::Decided)
}

/// Whether the record is of a second opinion that raised or lowered the event, which channels
/// reported as uncertain.
fn is_changed_by_opinion(event: &Event) -> bool {
    is_of_opinion(event) && outcome_of(event) != Outcome::Stands
}

fn is_of_opinion(event: &Event) -> bool {
    let by = event.assessment.as_ref().map(|given| &given.by);
    matches!(by, Some(Assessor::SecondOpinion(_)))
}

/// Whether the event has a duration; other events end when they start.
fn has_lasted(event: &Event) -> bool {
    match &event.body {
        EventBody::Rule(rule) => ["appears", "stays", "count", "value"].contains(&&*rule.condition),
        EventBody::SourceOutage { .. }
        | EventBody::PipelineHeld { .. }
        | EventBody::PipelineFailed { .. }
        | EventBody::StepFailing { .. }
        | EventBody::BackendChange { .. }
        | EventBody::LoadShed { .. }
        | EventBody::BoardThrottled { .. } => true,
        EventBody::StorageWorn { .. }
        | EventBody::DecoderFallback { .. }
        | EventBody::FrameKept { .. }
        | EventBody::Loss { .. } => false,
    }
}

/// Suffix that distinguishes a record from the others of its event that a channel receives.
fn id_suffix(event: &Event) -> &'static str {
    match event.phase {
        Phase::New => "new",
        Phase::Update => "update",
        Phase::End => "end",
        Phase::Clip => "clip",
        Phase::Assessed if is_of_opinion(event) => "opinion",
        Phase::Assessed => "assessed",
    }
}

/// Text prefix of the record of a second opinion.
fn opinion_text(decision: &Decision) -> String {
    let verdict = match decision.verdict {
        Verdict::Act | Verdict::Record => "confirmed",
        Verdict::Review => "needs review",
        Verdict::Escalate => "uncertain",
        Verdict::Discard => "probably a false alarm",
    };
    let reason = cut(single_line(&decision.reason), MAX_REASON);
    format!("{verdict} after a second opinion ({reason}): ")
}

/// Attachment of a record: its clip if it is small enough, else the annotated or clean picture.
fn media_of(event: &Event) -> Option<MediaRef> {
    if event.phase == Phase::Clip {
        let clip = event.clip.as_ref()?;
        let is_small =
            matches!(clip.state, ClipState::Kept { bytes, .. } if bytes <= MAX_ATTACHMENT_BYTES);
        return is_small.then(|| MediaRef {
            name: "clip",
            id: clip.id.clone(),
        });
    }
    let drawn = event.media.iter().find(|m| m.kind == MediaKind::Annotated);
    drawn.or(event.media.first()).map(|m| MediaRef {
        name: "picture",
        id: m.id.clone(),
    })
}

/// Text prefix of a `clip` record.
fn clip_text(clip: &Clip) -> String {
    match &clip.state {
        ClipState::Filming => String::new(),
        ClipState::Kept { bytes, .. } => format!(
            "clip of {:.0} s, {}, on the box as {} (watchkeeper media get {} -o FILE): ",
            clip.before_s + clip.after_s,
            size(*bytes),
            clip.id,
            clip.id
        ),
        ClipState::Lost { message } => format!("clip lost ({}): ", single_line(message)),
    }
}

/// Text of an event in one line: severity, reason, box, camera, rule, confidence, local time;
/// without a link also the command that answers its review.
fn event_text(names: &Names, event: &Event, has_link: bool) -> String {
    let mut text = String::new();
    text.push_str(severity_prefix(event.severity));
    match event.phase {
        Phase::End => text.push_str("ended: "),
        Phase::Assessed if is_decided_by_chain(event) => {
            text.push_str("confirmed by its sources: ");
        }
        Phase::Assessed if is_of_opinion(event) => text.push_str(&opinion_text(&event.decision)),
        Phase::Assessed => text.push_str("approved by a person: "),
        Phase::New | Phase::Update | Phase::Clip => {}
    }
    if let (Phase::Clip, Some(clip)) = (event.phase, &event.clip) {
        text.push_str(&clip_text(clip));
    }
    // What follows must fit too.
    let reason = event.body.text();
    text.push_str(&cut(single_line(reason), MAX_REASON));
    text.push_str(&format!(" ({}", names.of_box));
    if let Some(source) = &event.source {
        text.push_str(&format!(", camera {}", names.of_camera(source)));
    }
    text.push_str(&rule_text(event, has_link));
    if let Some(time) = local_time(event.at) {
        text.push_str(&format!(", {time}"));
    }
    text.push(')');
    let seen = event.assessment.as_ref().filter(|_| is_of_opinion(event));
    if let Some(words) = seen.and_then(|given| given.note.as_deref()) {
        text.push_str(&format!(" A model adds: {}", single_line(words)));
    }
    cut(text, MAX_TEXT)
}

/// The part of a text that only an event of a rule has.
fn rule_text(event: &Event, has_link: bool) -> String {
    let Some(rule) = event.body.rule() else {
        return String::new();
    };
    let doubt = match event.decision.verdict {
        // The text begins with what it is.
        _ if is_of_opinion(event) => "",
        Verdict::Act | Verdict::Record => "",
        Verdict::Review => ", needs review",
        Verdict::Escalate | Verdict::Discard => ", uncertain",
    };
    let name = single_line(&rule.rule);
    let confidence = confidence_text(event.decision.confidence);
    let mut text = format!(", rule {name}, confidence {confidence}{doubt}");
    if waits_for_answer(event) && !has_link {
        text.push_str(&format!(
            ", answer with `watchkeeper reviews approve {0}` or `reject {0}`",
            event.seq
        ));
    }
    text
}

/// Whether a person should answer the event of this record.
pub(super) fn waits_for_answer(event: &Event) -> bool {
    let is_doubtful = !matches!(event.decision.verdict, Verdict::Act | Verdict::Record);
    let is_of_rule = matches!(event.body, EventBody::Rule(_));
    is_of_rule && is_doubtful && event.phase == Phase::New
}

/// Local time of an event; `None` if the clock was never set.
fn local_time(at: Wall) -> Option<String> {
    (at.quality != TimeQuality::Unsynced).then(|| wording::local_time(at.unix_ms))
}

/// Request body of `notifications`, with the attached file and its field name.
pub(crate) fn body(
    kind: ChannelKind,
    notifications: &[Notification],
    attached: Option<(&'static str, Vec<u8>)>,
) -> HttpBody {
    let texts: Vec<String> = notifications.iter().map(Notification::line).collect();
    let text = texts.join("\n");
    match kind {
        ChannelKind::Slack => HttpBody::Json {
            document: json!({
                "text": escaped(&text),
                "blocks": notifications.iter().map(slack_block).collect::<Vec<_>>(),
            }),
        },
        ChannelKind::Webhook => {
            let mut fields = vec![("text".to_owned(), text)];
            fields.extend(
                notifications
                    .iter()
                    .filter(|t| !t.event.is_empty())
                    .map(|t| {
                        let event = String::from_utf8_lossy(&t.event).into_owned();
                        ("event".to_owned(), event)
                    }),
            );
            let file = |(name, bytes): (&str, _)| Attachment {
                name: name.to_owned(),
                bytes,
            };
            HttpBody::Form {
                fields,
                files: attached.into_iter().map(file).collect(),
            }
        }
    }
}

/// Block that Slack shows of a notification; `text` of the message is for its previews and for
/// compatible services. With `verbatim`, an address in a text from outside stays text; an incoming
/// webhook has that for text objects only ("Text object" in Slack's documentation).
fn slack_block(notification: &Notification) -> Value {
    let link = notification.link.iter();
    let link = link.map(|url| format!(", answer: <{}>", escaped(url)));
    // Slack refuses the whole message for one block that is too long.
    let link: String = link.filter(|link| link.len() <= SLACK_MAX_LINK).collect();
    let text = format!("{}{link}", escaped(&notification.text));
    json!({"type": "section", "text": {"type": "mrkdwn", "verbatim": true, "text": text}})
}

/// Escapes the three control characters of Slack's `mrkdwn` ("Escaping text" in its documentation).
/// So a text contains no mention and hides no address behind a name.
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
