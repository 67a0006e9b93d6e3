//! Look-ups for `config check`, `config show` and `doctor`.
//!
//! Not here: asking one ([`lookup`](super::lookup)).

use serde_json::{Value, json};
use watchkeeper_config::lookups::{AnswerKind, HeaderValue, HttpLookup, LookupValue, TableLookup};
use watchkeeper_config::{Config, LookupKind};
use watchkeeper_evidence::lookup::Lookups;

/// What is wrong with the look-ups of a configuration: key and problem.
pub(super) fn problems(config: &Config) -> Vec<(String, String)> {
    let (_, errors) = Lookups::open(&config.lookups);
    let errors = errors.into_iter();
    errors
        .map(|error| (format!("agent.lookups.{}", error.name), error.problem))
        .collect()
}

/// The section of a look-up as the file has it; the values of secret headers are files.
pub(super) fn section(kind: &LookupKind) -> Value {
    match kind {
        LookupKind::Http(http) => http_section(http),
        LookupKind::Table(table) => table_section(table),
        LookupKind::Fields(fields) => {
            let mut section = json!({"kind": "fields", "schema": fields.schema});
            put(
                &mut section,
                "question",
                fields.question.as_ref().map(|q| json!(q)),
            );
            section
        }
    }
}

fn http_section(http: &HttpLookup) -> Value {
    let headers = http.headers.iter().map(|(name, value)| match value {
        HeaderValue::Text(text) => (name.clone(), json!(text)),
        HeaderValue::File(path) => (format!("{name}_file"), json!(path)),
    });
    let headers: serde_json::Map<String, Value> = headers.collect();
    let (answer_type, choices) = match &http.answer.kind {
        AnswerKind::Text => ("text", None),
        AnswerKind::Number => ("number", None),
        AnswerKind::Bool => ("bool", None),
        AnswerKind::Choice(choices) => ("choice", Some(json!(choices))),
    };
    let mut section = json!({
        "kind": "http", "value": value_name(&http.value), "url": http.url,
        "method": if http.is_post { "POST" } else { "GET" },
        "answer": http.answer.pointer, "answer_type": answer_type,
        "confidence": http.confidence, "cache_s": http.cache_for.as_secs_f64(),
        "cache_entries": http.cache_entries, "per_minute": http.per_minute, "tries": http.tries,
        "timeout_s": http.timeout.as_secs_f64(), "max_bytes": http.max_bytes,
        "private": http.may_be_private,
    });
    put(
        &mut section,
        "body",
        http.body.as_ref().map(|body| json!(body)),
    );
    put(&mut section, "choices", choices);
    put(
        &mut section,
        "headers",
        (!headers.is_empty()).then(|| json!(headers)),
    );
    let expect = &http.answer.expect;
    put(
        &mut section,
        "expect",
        (!expect.is_empty()).then(|| json!(expect)),
    );
    put(
        &mut section,
        "confidence_at",
        http.confidence_at.as_ref().map(|at| json!(at)),
    );
    put(
        &mut section,
        "ca_file",
        http.ca_file.as_ref().map(|file| json!(file)),
    );
    section
}

fn table_section(table: &TableLookup) -> Value {
    let mut section = json!({
        "kind": "table", "value": value_name(&table.value), "path": table.path, "key": table.key,
        "match": if table.is_fuzzy { "fuzzy" } else { "exact" }, "alike": table.is_alike,
    });
    put(
        &mut section,
        "table",
        table.table.as_ref().map(|name| json!(name)),
    );
    let columns = &table.columns;
    put(
        &mut section,
        "columns",
        (!columns.is_empty()).then(|| json!(columns)),
    );
    section
}

fn value_name(value: &LookupValue) -> String {
    match value {
        LookupValue::Read => "read".to_owned(),
        LookupValue::Code => "code".to_owned(),
        LookupValue::Text => "text".to_owned(),
        LookupValue::Label => "label".to_owned(),
        LookupValue::Field(name) => format!("fields.{name}"),
    }
}

fn put(section: &mut Value, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        section[key] = value;
    }
}
