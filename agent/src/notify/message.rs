//! Which events a channel tells, and in which words.
//!
//! Invariant: what came from outside (labels, names, reasons) stands in a text as it is and means nothing in it: no mention, no link, no line of its own.

use serde::{Deserialize, Serialize};
use serde_json::json;
use watchkeeper_config::{ChannelConfig, ChannelKind};
use watchkeeper_contract::effect::{Attachment, HttpBody};
use watchkeeper_contract::event::{Clip, ClipState, Event, EventBody, MediaKind, Phase, Verdict};
use watchkeeper_contract::id::{ChannelId, EventSeq, SourceId};
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::time::{TimeQuality, Wall};

use crate::fleet::mqtt::payload::event_draft;
use crate::second_opinion::Case;
use crate::second_opinion::weigh::Weighed;
use watchkeeper_assistant::wording::{cut, size};

/// Number of what has none: it holds back no mark.
pub const NO_SEQ: EventSeq = EventSeq(u64::MAX);

/// Largest clip that goes along, in bytes; of a larger one is told where it lies.
const MAX_ATTACHMENT_BYTES: u64 = 8 << 20;

/// Longest text about one event, in characters.
const MAX_TEXT: usize = 500;

/// What is told of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// Number of the record.
    pub seq: EventSeq,
    /// Identity of the message: the same whenever it is told again.
    pub id: String,
    /// When it happened.
    pub at: Wall,
    pub text: String,
    /// The message that MQTT has of it; empty where the channel tells only texts.
    pub event: Vec<u8>,
    /// What goes along.
    pub media: Option<MediaRef>,
}

/// A file that goes along with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaRef {
    /// What it is called in the message: `picture` or `clip`.
    pub name: &'static str,
    pub id: String,
}

/// Something of the box itself that the journal has no record of: what its heartbeat found, or what a second opinion makes of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    pub id: String,
    /// When it was so.
    pub at: Wall,
    /// How much it matters.
    pub severity: Severity,
    /// Channels that the rule names whose event it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<ChannelId>,
    pub reason: String,
    /// The camera that it is about.
    pub camera: Option<SourceId>,
    /// What a model adds.
    pub by_model: Option<String>,
    /// The message that MQTT has of it.
    #[serde(with = "as_text")]
    pub payload: Vec<u8>,
}

/// JSON in JSON, as text.
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
    /// What a second opinion makes of an event that was told before: more than the box was sure of, or less.
    #[must_use]
    pub fn of_opinion(case: &Case, weighed: &Weighed, at: Wall, payload: Vec<u8>) -> Self {
        let event = &case.event;
        let verdict = match weighed.decision.verdict {
            Verdict::Act | Verdict::Record => "good enough to stand by itself",
            Verdict::Review => "to be looked at",
            Verdict::Escalate => "not sure",
            Verdict::Discard => "most likely nothing",
        };
        let (reason, notify) = match &event.body {
            EventBody::Rule(rule) => (rule.reason.as_str(), rule.notify.clone()),
            EventBody::SourceOutage { message, .. }
            | EventBody::PipelineHeld { message }
            | EventBody::PipelineFailed { message, .. }
            | EventBody::StepFailing { message, .. }
            | EventBody::Loss { message, .. } => (message.as_str(), Vec::new()),
        };
        Self {
            id: format!("{}-opinion", event.id),
            at,
            severity: event.severity,
            notify,
            reason: format!(
                "{verdict} after a second opinion ({}): {reason}",
                weighed.decision.reason
            ),
            camera: event.source.clone(),
            // What it saw, as the model says it.
            by_model: weighed.evidence.as_ref().map(|link| link.note.clone()),
            payload,
        }
    }
}

/// Whether `channel` tells this of the box itself: it is grave enough for it, or the rule whose event it is about names it.
#[must_use]
pub fn is_wanted(channel: &ChannelConfig, notice: &Notice) -> bool {
    notice.notify.contains(&channel.id)
        || channel
            .min_severity
            .is_some_and(|least| notice.severity >= least)
}

/// What `channel` of the box called `name` tells of it, if anything.
#[must_use]
pub fn notice_notification(
    channel: &ChannelConfig,
    name: &str,
    notice: &Notice,
) -> Option<Notification> {
    is_wanted(channel, notice).then(|| {
        let mut text = format!(
            "{}{} ({name}",
            weight(notice.severity),
            plain(&notice.reason)
        );
        if let Some(camera) = &notice.camera {
            text.push_str(&format!(", camera {camera}"));
        }
        if let Some(moment) = moment(notice.at) {
            text.push_str(&format!(", {moment}"));
        }
        text.push(')');
        if let Some(words) = &notice.by_model {
            text.push_str(&format!(" A model adds: {}", plain(words)));
        }
        Notification {
            seq: NO_SEQ,
            id: notice.id.clone(),
            at: notice.at,
            text: cut(text, MAX_TEXT),
            event: match channel.kind {
                ChannelKind::Webhook => notice.payload.clone(),
                ChannelKind::Slack => Vec::new(),
            },
            media: None,
        }
    })
}

const fn weight(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "",
        Severity::Warning => "Warning: ",
        Severity::Critical => "CRITICAL: ",
    }
}

/// What `channel` of the box called `name` tells of this record, if anything.
#[must_use]
pub fn event_notification(
    channel: &ChannelConfig,
    name: &str,
    event: &Event,
) -> Option<Notification> {
    let is_wanted = match event.phase {
        Phase::New => true,
        Phase::Update => false,
        // Who was told that it began is told what there is to see of it.
        Phase::Clip => event.clip.is_some(),
        Phase::End => channel.notify_end && has_lasted(event),
    };
    let is_named = match &event.body {
        EventBody::Rule(rule) => rule.notify.contains(&channel.id),
        EventBody::SourceOutage { .. }
        | EventBody::PipelineHeld { .. }
        | EventBody::PipelineFailed { .. }
        | EventBody::StepFailing { .. }
        | EventBody::Loss { .. } => false,
    };
    let is_grave = channel
        .min_severity
        .is_some_and(|least| event.severity >= least);
    if !is_wanted || !(is_named || is_grave) {
        return None;
    }
    let (payload, media) = match channel.kind {
        // One that is too large even without its evidence is told by its text.
        ChannelKind::Webhook => (
            event_draft(event)
                .map(|draft| draft.payload)
                .unwrap_or_default(),
            media_of(event).filter(|_| channel.pictures),
        ),
        ChannelKind::Slack => (Vec::new(), None),
    };
    Some(Notification {
        seq: event.seq,
        id: format!("{}-{}", event.id, word(event.phase)),
        at: event.at,
        text: text(name, event),
        event: payload,
        media,
    })
}

/// Whether the end of an event is news: one without duration ends with its begin.
fn has_lasted(event: &Event) -> bool {
    match &event.body {
        EventBody::Rule(rule) => ["appears", "stays", "count", "value"].contains(&&*rule.condition),
        EventBody::SourceOutage { .. }
        | EventBody::PipelineHeld { .. }
        | EventBody::PipelineFailed { .. }
        | EventBody::StepFailing { .. } => true,
        EventBody::Loss { .. } => false,
    }
}

fn word(phase: Phase) -> &'static str {
    match phase {
        Phase::New => "new",
        Phase::Update => "update",
        Phase::End => "end",
        Phase::Clip => "clip",
    }
}

/// The clip of a record that is about one, where it is not too large; else the picture with what was drawn on it, or the plain one.
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

/// What a record about a clip says of it.
fn of_clip(clip: &Clip) -> String {
    match &clip.state {
        ClipState::Filming => String::new(),
        ClipState::Kept { bytes, .. } => format!(
            "clip of {:.0} s, {}, on the box as {} (watchkeeper media {} -o FILE): ",
            clip.before_s + clip.after_s,
            size(*bytes),
            clip.id,
            clip.id
        ),
        ClipState::Lost { message } => format!("its clip is lost, {}: ", plain(message)),
    }
}

/// An event as one sentence for a person: how grave, where, what, how sure, when.
fn text(name: &str, event: &Event) -> String {
    let mut text = String::new();
    text.push_str(weight(event.severity));
    if event.phase == Phase::End {
        text.push_str("over: ");
    }
    if let (Phase::Clip, Some(clip)) = (event.phase, &event.clip) {
        text.push_str(&of_clip(clip));
    }
    let reason = match &event.body {
        EventBody::Rule(rule) => &rule.reason,
        EventBody::SourceOutage { message, .. }
        | EventBody::PipelineHeld { message }
        | EventBody::PipelineFailed { message, .. }
        | EventBody::StepFailing { message, .. }
        | EventBody::Loss { message, .. } => message,
    };
    text.push_str(&plain(reason));
    text.push_str(&format!(" ({name}"));
    if let Some(source) = &event.source {
        text.push_str(&format!(", camera {source}"));
    }
    if let EventBody::Rule(rule) = &event.body {
        text.push_str(&format!(", rule {}", plain(&rule.rule)));
        let doubt = match event.decision.verdict {
            Verdict::Act | Verdict::Record => "",
            Verdict::Review => ", to be looked at",
            Verdict::Escalate | Verdict::Discard => ", not sure",
        };
        text.push_str(&format!(
            ", confidence {:.2}{doubt}",
            event.decision.confidence
        ));
    }
    if let Some(moment) = moment(event.at) {
        text.push_str(&format!(", {moment}"));
    }
    text.push(')');
    cut(text, MAX_TEXT)
}

/// The local time of an event; none where the clock was never set.
fn moment(at: Wall) -> Option<String> {
    if at.quality == TimeQuality::Unsynced {
        return None;
    }
    let at = jiff::Timestamp::from_millisecond(at.unix_ms).ok()?;
    let local = at.to_zoned(jiff::tz::TimeZone::system());
    Some(local.strftime("%F %T").to_string())
}

/// On one line.
fn plain(text: &str) -> String {
    let char = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(char).collect()
}

/// What is sent of these, and the file that goes along where there is one, with its name.
#[must_use]
pub fn body(
    kind: ChannelKind,
    notifications: &[Notification],
    attached: Option<(&'static str, Vec<u8>)>,
) -> HttpBody {
    let texts: Vec<&str> = notifications.iter().map(|t| t.text.as_str()).collect();
    let text = texts.join("\n");
    match kind {
        ChannelKind::Slack => HttpBody::Json {
            document: json!({"text": escaped(&text)}),
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

/// The three characters that mean something in a text of Slack's, as its documentation of `mrkdwn` has it ("Escaping text"); what makes a text
/// bold or a name in it is then plain, too.
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use secrecy::SecretString;
    use watchkeeper_config::SecretSource;
    use watchkeeper_contract::id::ChannelId;

    use super::*;
    use crate::example::example_event;

    fn channel(
        kind: ChannelKind,
        min_severity: Option<Severity>,
        notify_end: bool,
    ) -> ChannelConfig {
        ChannelConfig {
            id: ChannelId::new("security").unwrap(),
            kind,
            url: SecretSource::Value(SecretString::from("https://a.example/T0K3N")),
            min_severity,
            notify_end,
            pictures: true,
        }
    }

    fn event(phase: Phase, severity: Severity, notify: &[&str]) -> Event {
        let mut event = example_event();
        event.phase = phase;
        event.severity = severity;
        if let EventBody::Rule(rule) = &mut event.body {
            rule.condition = "stays".to_owned();
            rule.notify = notify.iter().map(|n| ChannelId::new(*n).unwrap()).collect();
        }
        event
    }

    #[test]
    fn a_channel_tells_what_a_rule_sends_there_and_what_is_grave_enough() {
        let named = channel(ChannelKind::Slack, None, false);
        let grave = channel(ChannelKind::Slack, Some(Severity::Warning), false);
        for (severity, notify, by_name, by_weight) in [
            (Severity::Info, &["security"][..], true, true),
            (Severity::Info, &["yard"], false, false),
            (Severity::Warning, &[], false, true),
            (Severity::Critical, &["yard", "security"], true, true),
        ] {
            let event = event(Phase::New, severity, notify);
            assert_eq!(
                event_notification(&named, "box", &event).is_some(),
                by_name,
                "{notify:?}"
            );
            assert_eq!(
                event_notification(&grave, "box", &event).is_some(),
                by_weight,
                "{notify:?}"
            );
        }
    }

    #[test]
    fn the_end_of_an_event_is_told_where_it_is_wanted_and_lasted() {
        let end = event(Phase::End, Severity::Info, &["security"]);
        let silent = channel(ChannelKind::Slack, None, false);
        let talking = channel(ChannelKind::Slack, None, true);
        assert_eq!(event_notification(&silent, "box", &end), None);
        assert!(
            event_notification(&talking, "box", &end)
                .unwrap()
                .text
                .starts_with("over: ")
        );
        let mut crossed = end.clone();
        if let EventBody::Rule(rule) = &mut crossed.body {
            rule.condition = "crosses".to_owned();
        }
        assert_eq!(event_notification(&talking, "box", &crossed), None);
        let update = event(Phase::Update, Severity::Critical, &["security"]);
        assert_eq!(event_notification(&talking, "box", &update), None);
    }

    #[test]
    fn begin_and_end_have_identities_of_their_own_that_never_change() {
        let channel = channel(ChannelKind::Webhook, None, true);
        let begin = event(Phase::New, Severity::Info, &["security"]);
        let end = event(Phase::End, Severity::Info, &["security"]);
        let id = |event| event_notification(&channel, "box", event).unwrap().id;
        let again = begin.clone();
        assert_eq!(id(&begin), id(&again));
        assert_ne!(id(&begin), id(&end));
    }

    #[test]
    fn what_a_camera_saw_can_call_nobody_and_begin_no_line() {
        let mut hostile = event(Phase::New, Severity::Info, &["security"]);
        if let EventBody::Rule(rule) = &mut hostile.body {
            rule.reason = "<!channel> & <https://evil.example|click>\nCRITICAL: fire".to_owned();
        }
        let channel = channel(ChannelKind::Slack, None, false);
        let notification = event_notification(&channel, "box", &hostile).unwrap();
        assert!(!notification.text.contains('\n'), "{}", notification.text);
        let HttpBody::Json { document } = body(ChannelKind::Slack, &[notification], None) else {
            panic!("JSON");
        };
        let text = document["text"].as_str().unwrap();
        assert!(!text.contains(['<', '>']), "{text}");
        assert!(text.contains("&lt;!channel&gt; &amp;"), "{text}");
    }

    #[test]
    fn what_the_box_finds_by_itself_is_told_where_it_is_grave_enough() {
        let notice = Notice {
            id: "01J".to_owned(),
            at: example_event().at,
            severity: Severity::Warning,
            notify: Vec::new(),
            reason: "camera gate is out (refused)".to_owned(),
            camera: SourceId::new("gate").ok(),
            by_model: Some("Look at\nthe switch.".to_owned()),
            payload: b"{}".to_vec(),
        };
        let named = channel(ChannelKind::Slack, None, false);
        let grave = channel(ChannelKind::Slack, Some(Severity::Critical), false);
        assert_eq!(notice_notification(&named, "box", &notice), None);
        assert_eq!(notice_notification(&grave, "box", &notice), None);
        let hook = channel(ChannelKind::Webhook, Some(Severity::Warning), false);
        let notification = notice_notification(&hook, "box", &notice).unwrap();
        assert!(
            notification
                .text
                .starts_with("Warning: camera gate is out (refused) (box, camera gate")
        );
        assert!(
            notification
                .text
                .ends_with("A model adds: Look at the switch."),
            "{}",
            notification.text
        );
        assert_eq!(notification.event, notice.payload);
    }

    #[test]
    fn a_webhook_gets_the_message_of_mqtt_and_the_picture() {
        let channel = channel(ChannelKind::Webhook, None, false);
        let event = event(Phase::New, Severity::Info, &["security"]);
        let notification = event_notification(&channel, "box", &event).unwrap();
        assert_eq!(notification.media, media_of(&event));
        let file = Some(("picture", vec![0xff]));
        let sent = body(ChannelKind::Webhook, &[notification], file);
        let HttpBody::Form { fields, files } = sent else {
            panic!("a form");
        };
        let message: serde_json::Value = serde_json::from_str(&fields[1].1).unwrap();
        assert_eq!(message["id"], event.id.to_string());
        assert_eq!(files[0].name, "picture");
    }

    #[test]
    fn a_clip_is_told_to_whom_its_event_was_and_goes_along_where_it_is_small() {
        let webhook = channel(ChannelKind::Webhook, None, false);
        let slack = channel(ChannelKind::Slack, None, false);
        let record = |state| {
            let mut event = event(Phase::Clip, Severity::Info, &["security"]);
            if let Some(clip) = &mut event.clip {
                clip.state = state;
            }
            event
        };
        let kept = |bytes| {
            record(ClipState::Kept {
                content_type: "video/mp4".to_owned(),
                bytes,
                sha256: "00".to_owned(),
            })
        };
        let small = event_notification(&webhook, "box", &kept(1_200_000)).unwrap();
        assert!(small.id.ends_with("-clip"), "{}", small.id);
        let attached = small.media.as_ref().unwrap();
        assert_eq!(attached.name, "clip");
        for text in [
            &small.text,
            &event_notification(&slack, "box", &kept(1)).unwrap().text,
        ] {
            assert!(
                text.contains("clip of 15 s") && text.contains(&attached.id),
                "{text}"
            );
        }
        let large = event_notification(&webhook, "box", &kept(MAX_ATTACHMENT_BYTES + 1)).unwrap();
        assert_eq!(large.media, None);
        let message = "the disk is full".to_owned();
        let lost = event_notification(&slack, "box", &record(ClipState::Lost { message })).unwrap();
        assert!(
            lost.text.contains("its clip is lost, the disk is full"),
            "{}",
            lost.text
        );
        let nobody = event(Phase::Clip, Severity::Info, &[]);
        assert_eq!(event_notification(&slack, "box", &nobody), None);
    }
}
