//! Generates `docs/ref/mqtt.md` from topics and serialized examples of the payload types.
//!
//! Map: this file has the introduction and the layout. `presence`, `events`, `measurements` and
//! `commands` have the sections; `names` and `example` have what the examples are about.
//!
//! Invariant: every member of an example has exactly one row that describes it. A test compares the
//! file in the repository; `UPDATE_DOCS=1` rewrites it.

mod commands;
mod events;
mod example;
mod measurements;
mod names;
mod presence;

use std::fmt::Write as _;

use serde_json::Value;

use names::names;
use watchkeeper_agent::fleet::mqtt::payload::MAX_PAYLOAD;
use watchkeeper_agent::fleet::outbox::Limits;

/// Section of the document about one kind of message.
struct Section {
    title: &'static str,
    topic: String,
    how: &'static str,
    about: &'static str,
    example: Value,
    members: &'static [(&'static str, &'static str)],
}

fn render() -> String {
    let limits = Limits::default();
    let root = names().0.root().to_owned();
    let mut out = format!(
        "# MQTT\n\n\
         <!-- Generated from agent/tests/it/mqtt_document; rewrite it by UPDATE_DOCS=1 cargo nextest run -p watchkeeper-agent. -->\n\n\
         A box uses MQTT 3.1.1 below `watchkeeper/v1/<site>/<box>/` and subscribes to nothing outside of it; one ACL pattern \
         per box is enough. The examples are of box `box-7` at site `north`, so all topics start with `{root}/`.\n\n\
         ## Guarantees\n\n\
         - **At least once, no silent loss.** Events and command reports are stored on the box before they are \
         published, and deleted only after the broker's PUBACK. After a broken session everything unacknowledged is \
         published again: the same `seq` may come twice. Use `seq` (`id` of a loss record) to detect repetitions. \
         A box restored from a backup gives the numbers after the copy again, to other events: after a restore only \
         `id` tells them apart.\n\
         - **`seq` rises by one** over all events of a box, over restarts too. A message on `ev/loss` explains a gap and \
         covers the missing numbers. Messages of severity `critical`, outages, loss records and command reports overtake \
         other events, which come in the order of `seq`.\n\
         - **Bounds.** Without a broker the box keeps up to {} events ({} MiB, see `agent.outbox_events` and \
         `agent.outbox_bytes`). Above that it drops the oldest of the lowest severity and counts each in a loss record. \
         Of the assured kinds it keeps {} ({} MiB) separately. Telemetry is thinned to one message per topic in five minutes.\n\
         - **A second opinion** comes after its event, on its own topic and without `seq`; its `id` is the event's.\n\
         - **`late`** is `true` on a message queued before the current session.\n\
         - **No pictures.** Media are named by id and checksum and fetched over the box's API. A payload has at most \
         {} KiB, in both directions.\n\
         - **Retained topics are published again on every connect**: `state`, `birth`, `cap/…`, `svc/…`, `cam/…/state`, open \
         alarms, the status of open commands. The broker needs no persistence. After a change of `box.site` or `box.id` the \
         box publishes below its new name; clear what it left retained below the old one.\n\n\
         ## Topics\n\n| Topic | How | What |\n|---|---|---|\n",
        limits.events.entries,
        limits.events.bytes >> 20,
        limits.assured.entries,
        limits.assured.bytes >> 20,
        MAX_PAYLOAD >> 10,
    );
    let sections = sections();
    for section in &sections {
        let topic = section.topic.trim_start_matches(&format!("{root}/"));
        // Writing to a String can't fail.
        let _ok = writeln!(out, "| `{topic}` | {} | {} |", section.how, section.title);
    }
    for section in &sections {
        out.push_str(&render_section(section));
    }
    out.push_str(&commands::note());
    out
}

fn render_section(section: &Section) -> String {
    let order: Vec<&str> = section.members.iter().map(|(name, _)| *name).collect();
    let json = pretty(&section.example, &order, 0);
    let mut out = format!(
        "\n## {}\n\n`{}` – {}\n\n{}\n\n```json\n{json}\n```\n\n",
        section.title, section.topic, section.how, section.about
    );
    out.push_str("| Member | Meaning |\n|---|---|\n");
    for (name, meaning) in section.members {
        let _ok = writeln!(out, "| `{name}` | {meaning} |");
    }
    out
}

/// Indented JSON: outermost members in `order`, all others by name.
fn pretty(value: &Value, order: &[&str], depth: usize) -> String {
    let Value::Object(object) = value else {
        return match value {
            Value::Array(items) if items.iter().any(Value::is_object) => {
                let items: Vec<String> = items.iter().map(|v| pretty(v, &[], depth)).collect();
                format!("[{}]", items.join(", "))
            }
            other => other.to_string(),
        };
    };
    if object.is_empty() {
        return "{}".to_owned();
    }
    let mut members: Vec<(&String, &Value)> = object.iter().collect();
    let rank = |name: &str| order.iter().position(|n| *n == name).unwrap_or(usize::MAX);
    members.sort_by(|a, b| (rank(a.0), a.0).cmp(&(rank(b.0), b.0)));
    let pad = "  ".repeat(depth + 1);
    let lines: Vec<String> = members
        .into_iter()
        .map(|(name, value)| format!("{pad}\"{name}\": {}", pretty(value, &[], depth + 1)))
        .collect();
    format!("{{\n{}\n{}}}", lines.join(",\n"), "  ".repeat(depth))
}

/// All sections, in the order of the document.
fn sections() -> Vec<Section> {
    let mut all = presence::sections();
    all.extend(events::sections());
    all.extend(measurements::sections());
    all.extend(commands::sections());
    all
}

/// Members of an example without a row, and rows without a member.
#[cfg(test)]
fn mismatch(section: &Section) -> (Vec<String>, Vec<String>) {
    let have: std::collections::BTreeSet<String> = section
        .example
        .as_object()
        .map(|o| o.keys().cloned().collect())
        .unwrap_or_default();
    let described: std::collections::BTreeSet<String> = section
        .members
        .iter()
        .map(|(n, _)| (*n).to_owned())
        .collect();
    (
        have.difference(&described).cloned().collect(),
        described.difference(&have).cloned().collect(),
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_member_of_every_message_is_explained() {
        for section in sections() {
            assert_eq!(mismatch(&section), (vec![], vec![]), "{}", section.title);
        }
    }

    #[test]
    fn every_printed_example_is_valid_json() {
        for section in sections() {
            let printed: Value =
                serde_json::from_str(&pretty(&section.example, &[], 0)).expect("json");
            assert_eq!(printed, section.example, "{}", section.title);
        }
    }

    #[test]
    fn document_in_the_repository_is_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/ref/mqtt.md");
        let want = render();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("docs");
            std::fs::write(&path, &want).expect("write docs/ref/mqtt.md");
        }
        let have = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            have == want,
            "docs/ref/mqtt.md is out of date; rewrite it by UPDATE_DOCS=1 cargo nextest run -p watchkeeper-agent"
        );
    }
}
