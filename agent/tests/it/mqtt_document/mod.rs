//! `docs/ref/mqtt.md`, generated: topics from [`Topics`](watchkeeper_agent::fleet::mqtt::Topics), payloads by serialising examples of the real types.
//!
//! Map: here the frame and how a section is printed; `names` what the examples are about; the sections by what they tell:
//! `presence`, `events`, `measurements`, `commands`.
//!
//! Invariant: every member of every example has a line that says what it is, and no line is left over. The test at the
//! bottom compares the file in the repository; `UPDATE_DOCS=1` rewrites it.

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

/// One kind of message as the document shows it.
struct Section {
    title: &'static str,
    topic: String,
    how: &'static str,
    about: &'static str,
    example: Value,
    members: &'static [(&'static str, &'static str)],
}

#[must_use]
fn render() -> String {
    let limits = Limits::default();
    let root = names().0.root().to_owned();
    let mut out = format!(
        "# MQTT\n\n\
         <!-- Generated from agent/tests/it/mqtt_document; UPDATE_DOCS=1 cargo test -p watchkeeper-agent rewrites it. -->\n\n\
         A box speaks MQTT 3.1.1 below `watchkeeper/v1/<site>/<box>/` and subscribes to nothing outside of it; one ACL pattern \
         per box is enough. The examples are box `box-7` at site `north`, so everything begins with `{root}/`.\n\n\
         ## What you can rely on\n\n\
         - **At least once, and no silent hole.** Events and command reports are stored on the box before they are \
         published and forgotten only on the broker's PUBACK. After a lost session everything that was not acknowledged is \
         sent again: the same `seq` may come twice, so use `seq` (and `id` of a loss record) to tell.\n\
         - **`seq` rises by one** over all events of a box, over restarts too. A jump is explained by a message on `ev/loss` \
         that covers the missing numbers. Messages of severity `critical`, outages, loss records and command reports overtake \
         ordinary events; apart from that the order is that of `seq`.\n\
         - **Bounds.** Without a broker the box keeps up to {} events ({} MiB, see `agent.outbox_events` and \
         `agent.outbox_bytes`); beyond that the least severe go first, of those the oldest, each counted in a loss record. \
         Of the assured kinds it keeps {} ({} MiB) apart. Telemetry is thinned to one message per topic in five minutes.\n\
         - **A second opinion** comes after its event, on a topic of its own and without a `seq`; its `id` is the event's.\n\
         - **`late`** is `true` on a message that waited since before the present session.\n\
         - **No pictures.** Media is named by id and checksum and fetched over the box's API. A payload is at most \
         {} KiB, both ways.\n\
         - **Retained state is written again on every connect**: `state`, `birth`, `cap/…`, `svc/…`, `cam/…/state`, open alarms, \
         the status of open commands. A broker without persistence is fine. After a change of `box.site` or `box.id` the box says \
         what it has to say below its new name; what it left retained below the old one is for you to clear.\n\n\
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

/// Indented JSON whose outermost members stand in `order` and all others by name, whatever order the parser keeps.
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

/// Every kind of message, in the order of the document.
fn sections() -> Vec<Section> {
    let mut all = presence::sections();
    all.extend(events::sections());
    all.extend(measurements::sections());
    all.extend(commands::sections());
    all
}

/// Members of an example that have no line, and lines that have no member.
#[cfg(test)]
fn mismatch(section: &Section) -> (Vec<String>, Vec<String>) {
    let have: std::collections::BTreeSet<String> = section
        .example
        .as_object()
        .map(|o| o.keys().cloned().collect())
        .unwrap_or_default();
    let told: std::collections::BTreeSet<String> = section
        .members
        .iter()
        .map(|(n, _)| (*n).to_owned())
        .collect();
    (
        have.difference(&told).cloned().collect(),
        told.difference(&have).cloned().collect(),
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
    fn every_example_is_printed_as_the_json_it_is() {
        for section in sections() {
            let printed: Value =
                serde_json::from_str(&pretty(&section.example, &[], 0)).expect("json");
            assert_eq!(printed, section.example, "{}", section.title);
        }
    }

    #[test]
    fn the_document_in_the_repository_is_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/ref/mqtt.md");
        let want = render();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("docs");
            std::fs::write(&path, &want).expect("write docs/ref/mqtt.md");
        }
        let have = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            have == want,
            "docs/ref/mqtt.md is out of date; UPDATE_DOCS=1 cargo test -p watchkeeper-agent rewrites it"
        );
    }
}
