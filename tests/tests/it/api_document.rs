//! `docs/ref/api.md` and `docs/ref/agent-api.md`, generated from the OpenAPI descriptions that the
//! daemons serve; `UPDATE_DOCS=1` rewrites them.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;
use watchkeeper_agent::api;
use watchkeeper_runtime::server;

const RUNTIME: &str = "# The HTTP API of the runtime

<!-- Generated from the runtime's OpenAPI description; UPDATE_DOCS=1 cargo nextest run -p watchkeeper-tests api_document rewrites it. -->

HTTP and JSON over a Unix socket. The permission of the socket file is the authority: who may open it may use everything.

```sh
curl --unix-socket /run/watchkeeper/runtime.sock http://runtime/v1/health
curl --unix-socket /run/watchkeeper/runtime.sock 'http://runtime/v1/events?after=0&limit=10'
curl --unix-socket /run/watchkeeper/runtime.sock --no-buffer http://runtime/v1/events/stream
curl --unix-socket /run/watchkeeper/runtime.sock -o event.jpg http://runtime/v1/media/ID
curl --unix-socket /run/watchkeeper/runtime.sock -X PUT -H 'content-type: application/json' \\
     -d '{\"id\": \"gate\", \"uri\": \"rtsp://192.168.1.20/stream\"}' http://runtime/v1/sources/gate
```

The host in the address is a placeholder. The whole description, for generators of clients, is at
`GET /v1/openapi.json`. A refusal is a `Problem` (below) with a status of 4xx or 5xx.
`watchkeeper --json` prints the same objects.

The head of a request has to arrive within 30 s, so an idle connection is closed 30 s after its last
request. Some of its body has to arrive every 10 s, and all of it within 135 s and 4 s for each
megabyte; else the answer is 408. At most 256 connections are open; the next one waits for one of
them to end.
";

const AGENT: &str = "# The HTTP API of the agent

<!-- Generated from the agent's OpenAPI description; UPDATE_DOCS=1 cargo nextest run -p watchkeeper-tests api_document rewrites it. -->

Requests in plain words, for programs: what `watchkeeper chat` is for users. HTTP and JSON over a
Unix socket, whose file permission is the authority. With `[agent.api] listen`
([configuration.md](configuration.md)) it is served over TCP too, to clients that send the token as
`Authorization: Bearer TOKEN`. The token travels unencrypted, so the address has to be one of this
machine; other machines come through a proxy with TLS.

```sh
agent() { curl -sS --unix-socket /run/watchkeeper/agent.sock \"$@\"; }
agent -X POST http://agent/v1/conversations                       # {\"id\": \"ID\", …}
agent -N -H 'accept: text/event-stream' http://agent/v1/conversations/ID/messages \\
      -d '{\"text\": \"tell me when somebody crosses the vertical line at 50%\"}'
agent http://agent/v1/proposals                                   # [{\"id\": \"k7m2q\", …}]
agent http://agent/v1/proposals/k7m2q                             # with the difference to what runs
agent -X POST http://agent/v1/proposals/k7m2q/confirm             # only now something changes
agent http://agent/v1/cost
```

Nothing changes what the box does but a yes: the message `yes` in the conversation, or `confirm`.
What `[agent.auto_approve]` names for `local` (this socket) or `remote` (TCP) needs none, if the
words are a user's own and no language model had a part in them: the proposal is followed by
`confirmed`, with the key in `by`. What was shown is compared with what runs at that moment; if the
result would be different, the proposal is shown again as it is now.

A proposal waits for an hour, also over a restart of the agent; its conversation is there again with
its next message. On the box every proposal may be confirmed, because everyone who can open this
socket can open the runtime's too. Over TCP only what was asked for over TCP can be seen and
confirmed: a stolen token neither confirms nor reveals what a user at the box is about to do. A
token does read what asking answers (cameras, pipelines, events), what the language model cost, the
trace without what was said on the box, and every note that the box keeps, those of users too
(`GET /v1/memory`). Give one only to people who may see all of that.

A message is worked on whether or not a client follows, one at a time in each conversation; a client
that went away resumes with the number of the last event that it has. Timeouts of connections and
bodies are those of the runtime ([api.md](api.md)). A refusal is a `Problem` (below) with a status
of 4xx or 5xx. The whole description, for generators of clients, is at `GET /v1/openapi.json`.
Cameras, pipelines and events are described in [api.md](api.md).
";

/// Returns the name at the end of a `$ref`.
fn referred(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.rsplit('/').next()
}

/// Formats a schema for one cell of a table.
fn short(schema: &Value) -> String {
    if let Some(name) = referred(schema) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(parts) = schema["allOf"].as_array() {
        let parts: Vec<String> = parts.iter().flat_map(part).collect();
        return parts.join(", ").replacen(", ", " with ", 1);
    }
    for key in ["oneOf", "anyOf"] {
        if let Some(ways) = schema[key].as_array() {
            let mut words: Vec<String> = ways.iter().map(short).collect();
            words.retain(|word| word != "null");
            return words.join(" or ");
        }
    }
    if let Some(choices) = schema["enum"].as_array() {
        let choices: Vec<String> = choices.iter().map(|c| format!("`{c}`")).collect();
        return choices.join(", ");
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    let named = types.iter().find(|t| **t != "null").or(types.first());
    match named.copied().unwrap_or("any") {
        "array" => format!("list of {}", short(&schema["items"])),
        "object" if schema["additionalProperties"].is_object() => {
            format!("map to {}", short(&schema["additionalProperties"]))
        }
        other => other.to_owned(),
    }
}

/// Formats a part of a combined schema: the type, or each of its further members.
fn part(schema: &Value) -> Vec<String> {
    match schema["properties"].as_object() {
        None => vec![short(schema)],
        Some(members) => members
            .iter()
            .map(|(name, member)| format!("`{name}` {}", short(member)))
            .collect(),
    }
}

/// Formats a description as one line of a table.
fn line(text: &Value) -> String {
    let text = text.as_str().unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace('|', "\\|")
}

fn operations(document: &Value, out: &mut String) -> Vec<String> {
    let mut known = Vec::new();
    let tags = document["tags"].as_array().cloned().unwrap_or_default();
    for tag in &tags {
        let name = tag["name"].as_str().unwrap_or_default();
        write(
            out,
            &format!("\n## {}\n\n{}.\n", name, line(&tag["description"])),
        );
        let paths = document["paths"].as_object().into_iter().flatten();
        for (path, methods) in paths {
            for (method, operation) in methods.as_object().into_iter().flatten() {
                if operation["tags"][0] == *name {
                    let called = format!("{} {path}", method.to_uppercase());
                    write(out, &format!("\n### `{called}`\n\n{}\n", prose(operation)));
                    known.push(called);
                    parameters(operation, out);
                    bodies(operation, out);
                }
            }
        }
    }
    known
}

fn prose(operation: &Value) -> String {
    let texts = [&operation["summary"], &operation["description"]];
    let texts: Vec<String> = texts
        .into_iter()
        .map(line)
        .filter(|t| !t.is_empty())
        .collect();
    texts.join(" ")
}

fn parameters(operation: &Value, out: &mut String) {
    let all = operation["parameters"].as_array().into_iter().flatten();
    let rows: Vec<String> = all
        .map(|p| {
            let place = p["in"].as_str().unwrap_or_default();
            let name = p["name"].as_str().unwrap_or_default();
            let (kind, about) = (short(&p["schema"]), line(&p["description"]));
            format!("| `{name}` | {place} | {kind} | {about} |\n")
        })
        .collect();
    if !rows.is_empty() {
        out.push_str("\n| Parameter | In | Value | Meaning |\n|---|---|---|---|\n");
        out.push_str(&rows.concat());
    }
}

fn bodies(operation: &Value, out: &mut String) {
    let contents = |body: &Value| -> String {
        let kinds = body["content"].as_object().into_iter().flatten();
        let kinds: Vec<String> = kinds
            .map(|(kind, content)| match kind.as_str() {
                "application/json" => short(&content["schema"]),
                other => format!("`{other}`"),
            })
            .collect();
        kinds.join(" or ")
    };
    let wants = contents(&operation["requestBody"]);
    if !wants.is_empty() {
        write(out, &format!("\nTakes {wants}.\n"));
    }
    let answers = operation["responses"].as_object().into_iter().flatten();
    for (status, answer) in answers.filter(|(status, _)| *status != "default") {
        let gives = contents(answer);
        let gives = if gives.is_empty() {
            "nothing".to_owned()
        } else {
            gives
        };
        write(out, &format!("\nAnswers {status} with {gives}.\n"));
    }
}

fn schemas(document: &Value, out: &mut String) {
    out.push_str("\n## Objects\n");
    let schemas = &document["components"]["schemas"];
    for (name, schema) in schemas.as_object().into_iter().flatten() {
        let schema = &merged(schema, schemas);
        write(out, &format!("\n### {name}\n"));
        let about = line(&schema["description"]);
        if !about.is_empty() {
            write(out, &format!("\n{about}\n"));
        }
        if schema["properties"].is_object() {
            members(schema, out);
        } else if let Some(ways) = schema["oneOf"].as_array() {
            for way in ways {
                if way["properties"].is_object() {
                    write(out, &format!("\n{}\n", line(&way["description"])));
                    members(way, out);
                } else {
                    let about = line(&way["description"]);
                    let about = Some(about).filter(|about| !about.is_empty());
                    let about = about.map_or_else(String::new, |about| format!(": {about}"));
                    write(out, &format!("\n- {}{about}\n", short(way)));
                }
            }
        } else {
            write(out, &format!("\n{}\n", short(schema)));
        }
    }
}

/// Merges the parts of a combined schema into one with all members.
fn merged(schema: &Value, schemas: &Value) -> Value {
    let Some(parts) = schema["allOf"].as_array() else {
        return schema.clone();
    };
    let mut whole = serde_json::json!({"description": schema["description"], "properties": {}});
    let mut required = Vec::new();
    for part in parts {
        let part = merged(referred(part).map_or(part, |name| &schemas[name]), schemas);
        for (name, member) in part["properties"].as_object().into_iter().flatten() {
            whole["properties"][name] = member.clone();
        }
        required.extend(part["required"].as_array().into_iter().flatten().cloned());
    }
    whole["required"] = required.into();
    whole
}

fn members(schema: &Value, out: &mut String) {
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    out.push_str("\n| Member | Value | Meaning |\n|---|---|---|\n");
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        let shown = if required.contains(&name.as_str()) {
            format!("**`{name}`**")
        } else {
            format!("`{name}`")
        };
        // An optional object is described within the choice between it and null.
        let about = match &member["description"] {
            Value::Null => &member["oneOf"][0]["description"],
            about => about,
        };
        let row = format!("| {shown} | {} | {} |\n", short(member), line(about));
        write(out, &row);
    }
}

fn write(out: &mut String, text: &str) {
    out.write_str(text).expect("a String takes everything");
}

/// A document and the description that it is generated from.
struct Document {
    name: &'static str,
    head: &'static str,
    description: Value,
}

fn documents() -> [Document; 2] {
    [
        Document {
            name: "api.md",
            head: RUNTIME,
            description: server::document(),
        },
        Document {
            name: "agent-api.md",
            head: AGENT,
            description: api::document(),
        },
    ]
}

impl Document {
    fn render(&self) -> (String, Vec<String>) {
        let mut out = self.head.to_owned();
        let known = operations(&self.description, &mut out);
        schemas(&self.description, &mut out);
        (out.replace("|  |", "| |"), known)
    }
}

#[test]
fn every_route_is_in_the_document_of_its_api() {
    for document in documents() {
        let (_, known) = document.render();
        let paths = document.description["paths"].as_object();
        for (path, methods) in paths.into_iter().flatten() {
            for method in methods.as_object().into_iter().flatten().map(|(m, _)| m) {
                let called = format!("{} {path}", method.to_uppercase());
                assert!(known.contains(&called), "{}: {called}", document.name);
            }
        }
    }
}

#[test]
fn every_api_operation_has_a_summary_and_a_problem() {
    for document in documents() {
        let schemas = &document.description["components"]["schemas"];
        assert!(schemas["Problem"].is_object(), "{}", document.name);
        let paths = document.description["paths"].as_object();
        for (path, methods) in paths.into_iter().flatten() {
            for (method, operation) in methods.as_object().into_iter().flatten() {
                let problem =
                    &operation["responses"]["default"]["content"]["application/problem+json"];
                assert!(problem.is_object(), "{method} {path}");
                assert!(!prose(operation).is_empty(), "{method} {path}");
            }
        }
    }
}

#[test]
fn the_documents_of_the_apis_are_current() -> anyhow::Result<()> {
    for document in documents() {
        let name = document.name;
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../docs/ref")
            .join(name);
        let (want, _) = document.render();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &want)?;
        }
        let have = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            have == want,
            "docs/ref/{name} is out of date; UPDATE_DOCS=1 cargo nextest run -p watchkeeper-tests api_document rewrites it"
        );
    }
    Ok(())
}
