//! `docs/ref/rules.md`, generated from the API's schemas and from examples that the engine accepts;
//! `UPDATE_DOCS=1` rewrites it.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::RuleSpec;
use watchkeeper_engine::deploy;
use watchkeeper_engine::rules::STAY_S;
use watchkeeper_runtime::server::document as openapi;

const HEAD: &str = "# Rules

<!-- Generated from the contract's types; UPDATE_DOCS=1 cargo nextest run -p watchkeeper-tests rules_document rewrites it. -->

A rule says when a pipeline makes an event. It never repeats geometry: it names a step of the
workflow (a line counter, a time-in-zone) or an output of one, so that a count on the screen, a
number in a result and an event have one source.

Rules are written in the configuration file as `[[pipelines.NAME.rules]]`, in the body of
`PUT /v1/pipelines/{id}` and of the MQTT command `deploy` as a list `rules`, in a file for
`watchkeeper run --rule`, or in the workflow as the property `rules` of a
`watchkeeper/event_sink@v1` step. The words are the same everywhere. `watchkeeper config check`
reports what is wrong with them and where.

## Without rules
";

/// Examples in TOML; the JSON beside each is generated from it.
const EXAMPLES: &[(&str, &str)] = &[
    (
        "appears",
        "name = \"somebody\"\nwhen = { kind = \"appears\", detections = \"$steps.tracker.tracked_detections\" }\nclasses = [\"person\"]\n",
    ),
    (
        "enters",
        "name = \"at-the-desk\"\nwhen = { kind = \"enters\", zone = \"desk\" }\n",
    ),
    (
        "leaves",
        "name = \"left-the-desk\"\nwhen = { kind = \"leaves\", zone = \"desk\" }\n",
    ),
    (
        "stays",
        "name = \"waits\"\nwhen = { kind = \"stays\", zone = \"desk\", for_s = 30.0 }\nseverity = \"warning\"\n",
    ),
    (
        "crosses",
        "name = \"goes-in\"\nwhen = { kind = \"crosses\", line = \"door\", direction = \"in\" }\n",
    ),
    (
        "count",
        "name = \"crowd\"\nwhen = { kind = \"count\", detections = \"$steps.desk.timed_detections\", bound = { over = 4 }, for_s = 10.0 }\ncooldown_s = 300.0\n",
    ),
    (
        "value",
        "name = \"many-came-in\"\nwhen = { kind = \"value\", value = \"$steps.door.count_in\", test = { over = 100.0 } }\n",
    ),
];

/// One rule with every remaining field.
const WHOLE: &str = "name = \"night-visitor\"
when = { kind = \"stays\", zone = \"desk\", for_s = 10.0 }
classes = [\"person\"]
confidence = { min = 0.4 }
schedule = { days = [\"mon\", \"tue\", \"wed\", \"thu\", \"fri\"], from = \"22:00\", to = \"06:00\" }
cooldown_s = 600.0
severity = \"critical\"
gates = { act = 0.95, record = 0.85, review = 0.70, escalate = 0.50 }
notify = [\"security\"]
clip = { before_s = 5.0, after_s = 15.0 }
";

fn workflow() -> Value {
    json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [
            {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "detect", "images": "$inputs.image",
                "model_id": "motion"},
            {"type": "roboflow_core/byte_tracker@v3", "name": "tracker", "image": "$inputs.image",
                "detections": "$steps.detect.predictions"},
            {"type": "roboflow_core/line_counter@v2", "name": "door", "image": "$inputs.image",
                "detections": "$steps.tracker.tracked_detections", "line_segment": [[0, 200], [640, 200]]},
            {"type": "roboflow_core/time_in_zone@v3", "name": "desk", "image": "$inputs.image",
                "detections": "$steps.tracker.tracked_detections", "zone": [[0, 0], [100, 0], [100, 100]]},
        ],
        "outputs": [{"type": "JsonField", "name": "in", "selector": "$steps.door.count_in"}],
    })
}

fn parsed(example: &str) -> Value {
    toml::from_str(example).expect("an example is TOML")
}

/// Schemas of the API.
struct Schemas(Value);

impl Schemas {
    fn named(&self, name: &str) -> &Value {
        &self.0["components"]["schemas"][name]
    }

    fn followed<'s>(&'s self, schema: &'s Value) -> &'s Value {
        // A reference with a description or a default is wrapped.
        let direct = schema["allOf"][0]["$ref"]
            .as_str()
            .or(schema["$ref"].as_str())
            .or_else(|| {
                let choices = schema["oneOf"].as_array()?;
                choices.iter().find_map(|c| c["$ref"].as_str())
            });
        direct
            .and_then(|path| path.rsplit('/').next())
            .map_or(schema, |name| self.named(name))
    }

    /// Describes the allowed values of a schema.
    fn value(&self, schema: &Value) -> String {
        let schema = self.followed(schema);
        if let Some(words) = words(schema) {
            return words.join(", ");
        }
        if let Some(choices) = schema["oneOf"].as_array() {
            if choices.iter().any(|c| c["properties"]["kind"].is_object()) {
                return "a table, see below".to_owned();
            }
            let keys = choices.iter().filter_map(|choice| {
                let (key, inner) = choice["properties"].as_object()?.iter().next()?;
                Some(format!("`{{ {key} = … }}` with {}", self.value(inner)))
            });
            return keys.collect::<Vec<_>>().join(" or ");
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => kinds.first().and_then(Value::as_str),
            kind => kind.as_str(),
        };
        match kind {
            Some("array") => format!("a list: {}", self.value(&schema["items"])),
            Some("string") => "text".to_owned(),
            Some("integer") => "a whole number".to_owned(),
            Some("number") => "a number".to_owned(),
            Some("boolean") => "true or false".to_owned(),
            Some("object") if schema["additionalProperties"].is_object() => {
                let value = self.value(&schema["additionalProperties"]);
                format!("a table: name = {value}")
            }
            _ => "a table, see below".to_owned(),
        }
    }

    fn table(&self, out: &mut String, object: &Value, but: &[&str]) {
        out.push_str("| Field | Value | | What it is |\n|---|---|---|---|\n");
        let required: Vec<&str> = object["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        for (name, schema) in object["properties"].as_object().into_iter().flatten() {
            if but.contains(&name.as_str()) {
                continue;
            }
            let needed = if required.contains(&name.as_str()) {
                "required"
            } else {
                "optional"
            };
            let about = schema["description"]
                .as_str()
                .or(self.followed(schema)["description"].as_str())
                .unwrap_or_default();
            let line = format!(
                "| `{name}` | {} | {needed} | {} |\n",
                self.value(schema),
                one_line(about)
            );
            out.push_str(&line);
        }
    }
}

/// Returns the values of an enumeration.
fn words(schema: &Value) -> Option<Vec<String>> {
    let quoted = |v: &Value| v.as_str().map(|w| format!("`{w}`"));
    if let Some(list) = schema["enum"].as_array() {
        return list.iter().map(quoted).collect();
    }
    let word = |choice: &Value| quoted(&choice["const"]).or_else(|| quoted(&choice["enum"][0]));
    schema["oneOf"].as_array()?.iter().map(word).collect()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("text can grow");
}

fn example(out: &mut String, toml: &str) {
    let json = serde_json::to_string(&parsed(toml)).expect("JSON");
    put(
        out,
        format_args!("\n```toml\n[[pipelines.NAME.rules]]\n{toml}```\n\n```json\n{json}\n```\n"),
    );
}

fn document() -> String {
    let schemas = Schemas(openapi());
    let mut out = HEAD.to_owned();
    put(
        &mut out,
        format_args!(
            "
A pipeline that names no rules gets those that follow from its workflow, the same as `watchkeeper run` makes: for each line
counter `NAME` a rule `NAME` (`crosses`, either way), for each time-in-zone `NAME` the rules `NAME-enters` and `NAME-stays` ({STAY_S} s),
and where there is neither a rule `appears` for what the tracker sees. A workflow with event sinks has the rules these
declare. `rules = []` says that there shall be none: then the pipeline counts, but makes no events, and its status says so.

## What every rule holds

"
        ),
    );
    schemas.table(&mut out, schemas.named("RuleSpec"), &[]);
    for (title, name) in [
        ("schedule", "Schedule"),
        ("confidence", "Band"),
        ("gates", "Gates"),
        ("clip", "ClipSpec"),
        ("decide", "DecideSpec"),
    ] {
        put(
            &mut out,
            format_args!(
                "\n### {title}\n\n{}\n\n",
                one_line(
                    schemas.named(name)["description"]
                        .as_str()
                        .unwrap_or_default()
                )
            ),
        );
        schemas.table(&mut out, schemas.named(name), &[]);
    }
    out.push_str("\nAll of it at once (with `watchkeeper run --rule`, leave out `notify`: a run has no channels):\n");
    example(&mut out, WHOLE);
    out.push_str(
        "\n## What has to happen\n\nThe field `when` holds a `kind` and the fields of that kind. Times are seconds of the source.\n\nAn object that is out of sight for up to two seconds is still there, if its tracker knows it again\nor a new track continues the lost one in its place. It has entered a zone once it was there for\nhalf a second, so that a stray box enters nothing. Where looks are at least half a second apart, one\nlook is enough, and the visit lasts 0 s if no other follows. The visits of a zone in a pipeline's\nresults are decided in the same place: without a schedule, a cool-down, a filter or a gate that\nholds events back, there are as many `enters` events as visits, and as many `leaves` events as\nvisits that are over, with the same dwell times. Only the end of the source ends visits without\n`leaves`.\n\nA still object has neither moved nor changed since its first sight: a post, a shadow, a parked car.\nIt enters, leaves and appears nowhere until it moves or changes, because it may be none and was\nnever outside. `stays` reports it with evidence against it, `change`, so a person decides. Where\nlooks are at least half a second apart, in a backtest, and for boxes without contrast, no object is\nknown to be still. The limits of a backtest give the number of events of objects that never moved.\n[counting.md](counting.md#still-objects) has figures.\n",
    );
    let kinds = schemas.named("Condition")["oneOf"].as_array();
    for kind in kinds.into_iter().flatten() {
        let name = words(&kind["properties"]["kind"])
            .and_then(|w| w.into_iter().next())
            .unwrap_or_default();
        let about = one_line(kind["description"].as_str().unwrap_or_default());
        put(&mut out, format_args!("\n### {name}\n\n{about}\n\n"));
        schemas.table(&mut out, kind, &["kind"]);
        let wanted = name.trim_matches('`');
        let (_, toml) = EXAMPLES
            .iter()
            .find(|(kind, _)| *kind == wanted)
            .unwrap_or_else(|| panic!("no example for {wanted}"));
        example(&mut out, toml);
    }
    out.push_str(
        "\n## From a rule to a decision

Each event carries its evidence: what was observed, how much it supports the event (0 to 1), and its weight.
The confidence is the weighted mean of these observations; one without data is left out.

",
    );
    let links = include_str!("../../../edge-runtime/engine/src/rules/evidence.rs");
    for line in links
        .lines()
        .filter_map(|l| l.strip_prefix("//! |"))
        .map(|l| l.replace(" (see [`calibrate`])", ", so its root counts"))
    {
        put(&mut out, format_args!("|{line}\n"));
    }
    out.push_str(
        "
`damage` is in an event if a picture of the last two seconds was damaged, or most of those that show
the object. Smeared pictures look like perfect objects, so the box alone decides `review` at most.
With `decide`, and for an event that goes to a second opinion, its sources still decide. An event of
a `critical` rule keeps its verdict. Pictures count as damaged from an error of the decoder to the
next key frame, at most ten seconds. Hardware decoders report few errors. Of several recordings that
play at once, none is marked: libav does not say which one an error is of.

`crossing_depth` is only in events of `watchkeeper/line_counter@v1`, and not where an object comes
into the picture or goes out of it on the line. `recent_score` is in the events of all lines: the
running mean of the score by frame, where a frame without the object has 0, over its best score.

How well this separates true from wrong crossings: `tests/tools/evidence/run SEQUENCES` counts at 13
lines through each of 17 annotated sequences (MOT15, MOT17, KITTI; 2,127 true crossings) from their
published detections, labels each event, and plots the verdicts. Of the true events 91 % are
`record` or `act`, 76 % `act`; of the 147 wrong ones 41 % are `record` or `act`, 22 % `act`. The
area under the ROC curve is 0.85. By `motion_agreement` alone it is 0.69, by each other observation
0.51 to 0.67. Four limits:

- The weights were chosen on these events, and on crossings only. 13 lines through one picture are
  not independent.
- 41 of the wrong events are where nobody is annotated, and may be none. No observation that was
  tried moves the rest below: [counting.md](counting.md#evidence-of-crossings).
- Events of which the annotation can't tell are left out, such as those of objects whose annotation
  begins or ends on the line.
- An object that jumps over a line and back has a depth the second time.

The confidence is compared with the gates, the highest first. With the first four verdicts the event
is journaled with its pictures, published, and notified to the channels in `notify`. Channels in
`on_act` are notified only of a certain event: with `act`, or once a person approves it. Events with
`review` and `escalate` wait for a person's answer: `watchkeeper reviews`, `/approve` and `/reject`
in the chat, the API, or the MQTT command `review`
([how it works](../design/reviews.md)).

The pictures of an event show its object. An event may begin after its object left the picture, such
as `leaves` or a crossing on the way out. Its pictures are then of the latest frame that shows the
object well. `shown_frame` is the number of that frame, and the bounding box is of it too. The
runtime keeps up to 16 such frames of a pipeline, about 64 MiB, for 10 seconds. Without one the
pictures are of the moment of the event, and no bounding box is drawn.

| Verdict | Confidence by default | Meaning |
|---|---|---|
",
    );
    let gates = watchkeeper_contract::rule::Gates::default();
    for (word, from) in [
        ("act", Some(gates.act)),
        ("record", Some(gates.record)),
        ("review", Some(gates.review)),
        ("escalate", Some(gates.escalate)),
        ("discard", None),
    ] {
        let verdicts = schemas.named("Verdict")["oneOf"].as_array();
        let about = verdicts
            .into_iter()
            .flatten()
            .find(|v| words(&json!({"oneOf": [v]})).is_some_and(|w| w == [format!("`{word}`")]))
            .and_then(|v| v["description"].as_str())
            .unwrap_or(match word {
                "act" => "Certain enough to act upon: `on_act` is notified.",
                "record" => "Good enough to stand by itself; nobody needs to look.",
                "review" => "A person should look; `on_act` waits for the approval.",
                "escalate" => "Too weak to trust: a language model looks at the kept picture where `llm.second_opinion` is on, then as the verdict after it.",
                _ => "Too weak: counted in the pipeline's results as `discarded`, neither journaled nor published. With `below_gates = \"review\"` a person decides instead.",
            });
        let from = from.map_or_else(
            || format!("below {:.2}", gates.escalate),
            |g| format!("{g:.2} and more"),
        );
        put(
            &mut out,
            format_args!("| `{word}` | {from} | {} |\n", one_line(about)),
        );
    }
    out.push_str(
        "
With `decide` the sources of its chain decide instead: a code or text that was read, a table, a
service, a language model, a person. The event begins with `escalate`, and one assessment follows:
[evidence.md](../guide/evidence.md).

`severity` is something else: how much the matter matters, not how sure the box is. The journal
keeps `critical` events longest.

An event begins when its confidence is high enough, and describes that moment: `pts_s`, frame and
bounding box may be some while after somebody entered. The results say when a visit began
(`enter_s`).

Events of `crosses`, `enters` and `leaves` begin and end at once. The others begin (`new`) when
their condition holds and end (`end`) when it no longer does; the two records have the same id.
`cooldown_s` keeps a rule from beginning another event too soon; the next one says how many were
held back.

## Clips

A rule with `clip` keeps, beside the pictures of each event, what the camera showed around its
beginning. The record `new` names the clip by its id and says how much there is from before. A
record `clip` of the same event, which can come after its `end`, says that it is `kept` or `lost`,
and why. Then `GET /v1/media/{id}` or `watchkeeper media get ID -o FILE` has it: MP4 (WebM if the box
has no encoder for that), at most 640 pixels wide or high, with at most ten of the frames a second
that the pipeline took, and without sound.

What was before the event waits in memory as small JPEGs: at most 30 seconds and 16 MiB for each
pipeline with such a rule. When that is full the oldest are dropped, and the clip begins later. At
most 20 MiB more wait for each clip while it is written. On a box that is too slow for that, frames
of a live camera are left out, and the record `clip` says how many (`left_out`); a recording waits.
Nothing is kept in memory if no rule asks for clips, and what was seen before a pause is no part of
a clip after it.

With `clip = { before_s = 5, after_s = 15, made_of = \"stream\" }` a clip is the camera's own H.264 or
H.265, in full resolution and not encoded again. At most 32 MiB of the stream wait in memory for
each source with such a rule. The clip begins with a key frame, so it may begin seconds earlier than
asked for; `before_s` of the record says how much. A source without such a stream (the demo, V4L2,
MJPEG, pictures) or with a privacy mask has clips of pictures, and `note` of the record says why.

Events that follow each other closely share a clip, as long as it has all that each asks for and is
no longer than two minutes; at most four clips of a pipeline are written at the same time. A clip
ends early when its pipeline is paused or ends, when a camera shows nothing for ten seconds longer
than it should have, at 32 MiB, and on a full disk: then it is kept with what it has, and the next
event begins one of its own.

A clip is stored beside the pictures, and deleted like them: the oldest first, those of critical
events last unless they fill half of the limit (`runtime.media_bytes`). Over a channel it follows
its event as a message of its own: attached if the channel sends pictures and it has at most 8 MiB,
else by its id.
",
    );
    out
}

#[test]
fn every_example_is_an_accepted_rule() {
    for (kind, toml) in EXAMPLES.iter().chain(&[("whole", WHOLE)]) {
        let rule: RuleSpec = serde_json::from_value(parsed(toml))
            .unwrap_or_else(|e| panic!("the example of {kind}: {e}"));
        let spec: PipelineSpec = serde_json::from_value(json!({
            "id": "p", "source": "s", "workflow": workflow(), "rules": [rule],
        }))
        .expect("a pipeline");
        let plan = deploy::plan(&spec).unwrap_or_else(|e| panic!("the example of {kind}: {e:?}"));
        assert_eq!(plan.rule_names.len(), 1);
    }
}

#[test]
fn every_kind_of_condition_is_described_with_all_its_fields() {
    let document = document();
    let schemas = Schemas(openapi());
    let kinds = schemas.named("Condition")["oneOf"]
        .as_array()
        .expect("kinds");
    assert_eq!(kinds.len(), EXAMPLES.len());
    for kind in kinds {
        for field in kind["properties"].as_object().expect("fields").keys() {
            assert!(document.contains(&format!("| `{field}` |")) || field == "kind");
        }
    }
    assert!(!document.contains("|  |"), "something has no description");
}

#[test]
fn the_document_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/ref/rules.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, document()).expect("the document can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == document(),
        "docs/ref/rules.md is out of date; UPDATE_DOCS=1 cargo nextest run -p watchkeeper-tests rules_document"
    );
}
