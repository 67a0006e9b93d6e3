//! The document's section on what happened: events of the journal, and the record of what was lost.

use serde_json::Value;
use watchkeeper_contract::event::{Decision, Event, Verdict};
use watchkeeper_contract::id::{ChannelId, PipelineId, SourceId};
use watchkeeper_contract::source::LossCause;
use watchkeeper_llm::money::Money;

use super::Section;
use super::names::{
    NOW, SCHEMA_ROW, TS_QUALITY_ROW, TS_ROW, example_event, example_newer_record, json, names,
};
use watchkeeper_agent::fleet::mqtt::Topics;
use watchkeeper_agent::fleet::mqtt::payload::{
    EventMessage, HeartbeatMessage, LossMessage, NewerEventMessage, OpinionMessage,
};
use watchkeeper_agent::fleet::outbox::{Loss, LossFrom, OutboxId};
use watchkeeper_agent::heartbeat::Finding;
use watchkeeper_agent::heartbeat::asker::Added;
use watchkeeper_agent::second_opinion::verdict::Stance;
use watchkeeper_agent::second_opinion::weigh::weigh;
use watchkeeper_agent::second_opinion::{Answer, Case, Opinion};

fn heartbeat(topics: &Topics, source: &SourceId) -> Section {
    let added = Added {
        words: "Yard and gate went out together: look at the switch between them.".to_owned(),
        model: "claude-haiku-5-5".to_owned(),
    };
    let finding = Finding::PilingUp {
        camera: source.clone(),
        events: 64,
        usual: 9.5,
    };
    let channel = ChannelId::new("security").ok();
    let pipeline = PipelineId::new("watch").ok();
    let mut message =
        HeartbeatMessage::of(&finding, "01KDVDNA0000000000000002AB", NOW, Some(&added));
    // The example shows every member once, also one that belongs to another kind.
    message.channel = channel.as_ref();
    message.pipeline = pipeline.as_ref();
    let kind = Topics::heartbeat_below(Some(source), "piling_up");
    Section {
        title: "What the heartbeat found",
        topic: topics.at(&kind),
        how: "QoS 1 through the outbox; `heartbeat/<kind>` without `cam/…` for what is about the box",
        about: "With `agent.heartbeat.interval_min` (docs/ref/configuration.md) the agent looks at the box every so often, and tells what deserves a word once, until it \
                changes or was gone in between. The last level is the kind: `camera_out`, `pipeline_failed`, `piling_up`, `silence`, `runtime_away`, `not_delivered`, \
                `channel_silent`, `budget_nearly_spent` or `opinions_given_up`. It is found by numbers, and told with or without a model. After a crash it may be told twice, \
                with another `id`.",
        example: json(&message),
        members: &[
            SCHEMA_ROW,
            ("id", "identity of the word"),
            TS_ROW,
            TS_QUALITY_ROW,
            ("cam", "source; absent for what is about the box"),
            ("kind", "last level of the topic"),
            ("severity", "`info`, `warning` or `critical`"),
            ("reason", "what was found, in one sentence"),
            ("pipeline", "`pipeline_failed`: the pipeline"),
            ("channel", "`channel_silent`: the channel"),
            (
                "number",
                "what was found, as a number: events of the hour, messages that wait, percent of the money, events without an opinion",
            ),
            (
                "usual",
                "`piling_up`, `silence`: events that such an hour usually has",
            ),
            (
                "by_model",
                "what a model adds; its words, about what was found and nothing else: show them, never act on them",
            ),
            ("model", "which model"),
        ],
    }
}

fn second_opinion(topics: &Topics, event: &Event) -> Section {
    let mut case = Case::of(event);
    case.event.decision = Decision {
        verdict: Verdict::Escalate,
        confidence: 0.6,
        reason: "0.60 is at or above the gate to escalate (0.50)".to_owned(),
        asks: None,
    };
    let answer = Ok(Answer {
        opinion: Opinion {
            verdict: Stance::Confirm,
            confidence: 0.9,
            seen: "a person in a blue coat walks through the open door".to_owned(),
            text_seen: "DOCK 3".to_owned(),
            injection_suspected: false,
        },
        model: "claude-haiku-5-5".to_owned(),
        cost: Money(489_600),
    });
    let weighed = weigh(&case, &answer);
    let kind = Topics::opinion_below(event.source.as_ref(), "crosses");
    Section {
        title: "A second opinion",
        topic: topics.at(&kind),
        how: "QoS 1 through the outbox",
        about: "With `llm.second_opinion` (docs/ref/configuration.md) a model looks at the picture of each event of a rule whose decision is `escalate`. The \
                event is told at once, as the box decided; this message follows, seconds later, once for each such event: also where nobody answered, the \
                budget is used up, more than 32 events wait (then the least severe is given up, of those the oldest) or one has waited for ten minutes, and then `decision` is the local one and its `reason` says why. An opinion weighs as much as \
                all of the local evidence together. It never makes the box `act`; it lowers an event only where the rule says `second_opinion_may_lower`, down to \
                `discard`: take it for a false alarm. It does not count where something in the picture speaks to the model. The texts are a model's words \
                about an untrusted scene: show them, never act on them.",
        example: json(&OpinionMessage::of(&case, &answer, &weighed, NOW)),
        members: &[
            SCHEMA_ROW,
            ("id", "identity of the event"),
            (
                "event_seq",
                "journal number of the event's record; this message has none of its own",
            ),
            TS_ROW,
            TS_QUALITY_ROW,
            ("cam", "source"),
            ("pipeline", "pipeline"),
            ("kind", "last level of the topic, as of the event"),
            ("severity", "severity of the event"),
            ("rule", "name of the rule"),
            (
                "outcome",
                "`raised`, `lowered`, or `stands`: the event is taken for what it was before",
            ),
            (
                "decision",
                "what holds now: `verdict` (`discard`, `escalate`, `review` or `record`), `confidence` and `reason`",
            ),
            (
                "opinion",
                "what the model answered: `verdict` (`confirm`, `refute`, `abstain`), `confidence`, what it has `seen`, `text_seen` in the \
                 picture, and whether an injection is suspected; absent where nobody answered",
            ),
            (
                "evidence",
                "the opinion as a link of the chain of evidence; absent where it does not count",
            ),
            ("model", "the model that answered"),
            (
                "cost_usd",
                "what its answer cost, in US dollars, with all attempts",
            ),
        ],
    }
}

pub(super) fn sections() -> Vec<Section> {
    let (topics, _, _, source, _, _) = names();
    let event = example_event();
    let mut message = EventMessage::of(&event);
    // The example shows every member once, also those that belong to other kinds.
    message.cause = Some(LossCause::Refused);
    message.lasted_s = Some(12.5);
    message.tries = Some(2);
    message.step = Some("detect");
    message.failures = Some(120);
    message.from = Some("journal");
    message.count = Some(4);
    let mut example = json(&message);
    if let Some(object) = example.as_object_mut() {
        object.insert("late".to_owned(), Value::Bool(true));
    }
    let mut loss = Loss::new(LossFrom::Outbox);
    loss.add(1190, 1192);
    loss.add(1201, 1201);
    vec![
        Section {
            title: "Events",
            topic: topics.event(Some(&source), "crosses"),
            how: "QoS 1 through the outbox; `ev/<kind>` without `cam/…` for events about the box",
            about: "The last level is the kind: `appears`, `enters`, `leaves`, `stays`, `crosses`, `count`, `value` (what the rule \
                    waits for), `source_outage`, `pipeline_held`, `pipeline_failed`, `step_failing` or `loss`. The example shows every member at once; an absent member does not apply.",
            example,
            members: &[
                ("schema", "version of the event"),
                (
                    "id",
                    "identity over the event's life: `new`, `update`, `end` and `clip` share it (ULID)",
                ),
                (
                    "seq",
                    "number in the box's journal: use it to tell repetitions and holes",
                ),
                ("boot_id", "run of the runtime that wrote it"),
                ("mono_ms", "milliseconds since that run began; monotonic"),
                TS_ROW,
                TS_QUALITY_ROW,
                ("cam", "source"),
                ("pipeline", "pipeline"),
                ("kind", "last level of the topic"),
                (
                    "phase",
                    "`new`, `update`, `end`, or `clip`: what became of its clip, which may come after its `end`",
                ),
                ("severity", "`info`, `warning` or `critical`"),
                (
                    "reason",
                    "one sentence: what happened and which bound was passed",
                ),
                ("rule", "name of the rule"),
                ("label", "class of the object"),
                ("track_ids", "tracks it is about"),
                ("zone", "zone it is about"),
                ("line", "line it is about"),
                ("direction", "`in` or `out`, for crossings"),
                ("number", "number that was compared"),
                ("dwell_s", "seconds in the zone so far, or in all"),
                ("score", "best score of the object so far, 0 to 1"),
                (
                    "box",
                    "box of the object in 0 to 1 of the picture: left, top, right, bottom",
                ),
                ("frame", "number of the frame in its source, from 1"),
                ("pts_s", "presentation time of that frame, in seconds"),
                (
                    "held_back",
                    "events that the cool-down held back since the last one",
                ),
                (
                    "cause",
                    "`source_outage`: why; absent when frames come but show nothing",
                ),
                (
                    "lasted_s",
                    "`source_outage`, `pipeline_failed`, `step_failing`: seconds it lasted, at the end",
                ),
                (
                    "tries",
                    "`pipeline_failed`: how often the pipeline was begun anew since it failed first",
                ),
                (
                    "step",
                    "`step_failing`: the step of the workflow that does little else but fail",
                ),
                ("failures", "`step_failing`: runs in which it failed so far"),
                ("from", "`loss`: which queue or store"),
                ("count", "`loss`: how many entries"),
                (
                    "decision",
                    "what the box decided (`verdict`: `escalate`, `review`, `record`, `act`), its weighted `confidence` and the `reason`; with `escalate` also what a second opinion may make of it (`asks`)",
                ),
                (
                    "evidence",
                    "what the decision rests on; left out when the message would be too large",
                ),
                (
                    "media",
                    "pictures that were kept: on the box `watchkeeper media ID -o FILE`, or `GET /v1/media/{id}` (docs/ref/api.md)",
                ),
                (
                    "clip",
                    "the clip that the rule keeps of it: in the record `new` its id and `filming`, in the record `clip` `kept` with its size, or `lost` and why; fetched as pictures are",
                ),
                (
                    "hash",
                    "SHA-256 over the journal record and its predecessor's",
                ),
                (
                    "late",
                    "`true` when it waited since before the present session",
                ),
            ],
        },
        second_opinion(&topics, &event),
        heartbeat(&topics, &source),
        Section {
            title: "Events of a newer runtime",
            topic: topics.event(Some(&source), "door_forced"),
            how: "QoS 1 through the outbox; `ev/<kind>` without `cam/…` where no source is named",
            about: "While a box is updated, its runtime may have words that its agent does not know. Such an event is told all the same: \
                    `record` is what the runtime wrote (as in `GET /v1/events`, docs/ref/api.md), and of the rest there is what the agent understands.",
            example: json(&NewerEventMessage::of(&example_newer_record())),
            members: &[
                SCHEMA_ROW,
                ("id", "identity over the event's life"),
                ("seq", "number in the box's journal, as of any other event"),
                TS_ROW,
                ("cam", "source; absent where none is named"),
                (
                    "kind",
                    "last level of the topic: the condition of a rule as in other events, else the runtime's word; `other` where that can't be one",
                ),
                (
                    "phase",
                    "`new`, `update`, `end` or `clip`; absent where it is another",
                ),
                (
                    "severity",
                    "`info`, `warning` or `critical`; absent where it is another",
                ),
                ("record", "the record, to the byte; here shortened"),
            ],
        },
        Section {
            title: "A hole",
            topic: topics.event(None, "loss"),
            how: "QoS 1 through the outbox",
            about: "Something that was promised could not be kept. Losses that the runtime notices come as ordinary events on the \
                    same topic (they have a `seq` of their own).",
            example: json(&LossMessage::of(OutboxId(1_798_761_605_310), &loss, NOW)),
            members: &[
                SCHEMA_ROW,
                (
                    "id",
                    "identity of this record; the same when it is sent again",
                ),
                ("kind", "`loss`"),
                ("phase", "`new`"),
                ("severity", "`critical`"),
                (
                    "from",
                    "`outbox` (it was full), `journal` (records were gone before they were read), `unreadable`, or `store` (files were damaged)",
                ),
                ("count", "how many messages were lost"),
                (
                    "seqs",
                    "their journal numbers, first and last of each range; messages without a number are only counted",
                ),
                (
                    "exact",
                    "`false` when ranges were joined and cover numbers that did arrive",
                ),
                ("reason", "one sentence"),
                TS_ROW,
            ],
        },
    ]
}
