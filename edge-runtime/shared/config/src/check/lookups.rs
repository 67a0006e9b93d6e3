//! Checks the sections `[agent.lookups.NAME]`.
//!
//! - A section with an error is left out and named; the others are used.
//! - A key of another kind of look-up is an error, because it would have no effect.
//! - Secrets of headers are paths of files; an address holds no login.
//! - Not here: whether a service answers or a table exists (the agent's evidence).

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use serde_json::{Map, Value};
use url::Url;

use super::values::{Values, is_spoilt, origin};
use crate::config::SkippedSections;
use crate::error::ConfigError;
use crate::lookups::{
    AnswerKind, Extraction, FieldsLookup, HeaderValue, HttpLookup, LookupConfig, LookupKind,
    LookupValue, MAX_LOOKUPS, RESERVED_NAMES, ReferencesConfig, TableLookup, fill_template,
    is_lookup_name,
};

const SECTION: &str = "agent.lookups";
/// Keys of each kind; a key of another kind has no effect, which is an error.
const HTTP: &[&str] = &[
    "only_below",
    "value",
    "url",
    "method",
    "body",
    "headers",
    "answer",
    "answer_type",
    "choices",
    "expect",
    "confidence",
    "confidence_at",
    "cache_s",
    "cache_entries",
    "per_minute",
    "tries",
    "timeout_s",
    "max_bytes",
    "private",
    "ca_file",
];
const TABLE: &[&str] = &[
    "only_below",
    "value",
    "path",
    "table",
    "key",
    "columns",
    "match",
    "alike",
];
const FIELDS: &[&str] = &["only_below", "schema", "question"];
/// Names that `value` and a placeholder may have.
const VALUES: &str = "read, code, text, label, fields.NAME, LOOKUP.COLUMN";
/// Ending of the name of a header whose value is the path of a file.
const FILE_ENDING: &str = "_file";
/// Most headers of a look-up.
const MAX_HEADERS: usize = 16;

/// Reads how reference pictures are compared.
pub(super) fn references(values: &Values<'_>) -> ReferencesConfig {
    ReferencesConfig {
        model: values.text("agent.references.model").unwrap_or_default(),
        min_likeness: values.number("agent.references.min_likeness"),
    }
}

/// Reads the look-ups, in the order of their names. One with an error is left out.
pub(super) fn lookups(
    values: &Values<'_>,
    errors: &mut Vec<ConfigError>,
    skipped: &mut SkippedSections,
) -> Vec<LookupConfig> {
    let names: Vec<&str> = values.names(SECTION).collect();
    let mut found = Vec::new();
    for name in &names {
        let mut section = Section {
            values,
            path: format!("{SECTION}.{name}"),
            errors,
        };
        let kind = section.read(name);
        let only_below = values.number(&section.key("only_below"));
        let name = (*name).to_owned();
        match kind {
            Some(kind) => found.push(LookupConfig {
                name,
                kind,
                only_below,
            }),
            None => {
                skipped.lookups.push(name);
                skipped.has_unread = true;
            }
        }
    }
    if let Some(over) = names.get(MAX_LOOKUPS) {
        let key = format!("{SECTION}.{over}");
        let problem = format!("is too many: there are {} look-ups", names.len());
        let error = ConfigError::new(key.clone(), problem, origin(values.read, &key));
        errors.push(error.allowed(format!("{MAX_LOOKUPS} look-ups at most")));
    }
    // One that was left out may have the value; its own error is enough.
    if skipped.lookups.is_empty() {
        refuse_unknown_values(&mut found, values, errors, skipped);
    }
    found
}

/// Leaves out look-ups of a field or column that no look-up has.
fn refuse_unknown_values(
    found: &mut Vec<LookupConfig>,
    values: &Values<'_>,
    errors: &mut Vec<ConfigError>,
    skipped: &mut SkippedSections,
) {
    let unknown = |lookup: &LookupConfig| {
        let mut looked_up = lookup.kind.values().into_iter();
        let value = looked_up.find(|value| !found.iter().any(|other| has(other, value)))?;
        Some((lookup.name.clone(), value.to_string()))
    };
    let unknown: Vec<(String, String)> = found.iter().filter_map(unknown).collect();
    for (name, value) in unknown {
        let key = format!("{SECTION}.{name}");
        let problem = format!("looks up {value}, which no look-up has");
        let error = ConfigError::new(key.clone(), problem, origin(values.read, &key));
        errors.push(error.allowed("a field of a schema, or a column of a table"));
        found.retain(|lookup| lookup.name != name);
        skipped.lookups.push(name);
        skipped.has_unread = true;
    }
}

/// Whether `value` is of the event itself, or of `lookup`. Columns of a table that names none are
/// known once it is read.
fn has(lookup: &LookupConfig, value: &LookupValue) -> bool {
    match (value, &lookup.kind) {
        (LookupValue::Field(field), kind) => kind.field_names().any(|name| name == field),
        (LookupValue::Column { lookup: of, column }, LookupKind::Table(table)) => {
            lookup.name == *of && (table.columns.is_empty() || table.columns.contains(column))
        }
        (LookupValue::Column { .. }, LookupKind::Http(_) | LookupKind::Fields(_)) => false,
        (LookupValue::Read | LookupValue::Code | LookupValue::Text | LookupValue::Label, _) => true,
    }
}

/// A template with `value` for each placeholder.
fn filled(template: &str, value: &str) -> String {
    let filled = fill_template(template, |_| Ok::<_, Infallible>(value.to_owned()));
    filled.unwrap_or_default()
}

/// One section with the errors that are found in it.
struct Section<'a, 'r> {
    values: &'a Values<'r>,
    path: String,
    errors: &'a mut Vec<ConfigError>,
}

impl Section<'_, '_> {
    fn key(&self, last: &str) -> String {
        format!("{}.{last}", self.path)
    }

    fn error(&mut self, last: &str, problem: &str, allowed: &str) {
        let key = match last {
            "" => self.path.clone(),
            last => self.key(last),
        };
        let error = ConfigError::new(key.clone(), problem, origin(self.values.read, &key));
        let shown = self
            .values
            .found(&key)
            .and_then(|found| found.value.as_str());
        let error = match shown {
            Some(text) => error.found(text.chars().take(120).collect::<String>()),
            None => error,
        };
        self.errors.push(error.allowed(allowed));
    }

    fn text(&self, last: &str) -> Option<String> {
        self.values.text(&self.key(last))
    }

    fn required(&mut self, last: &str, allowed: &str) -> Option<String> {
        let found = self.text(last);
        // A wrong value has its own error.
        if found.is_none() && !is_spoilt(&self.key(last), self.errors) {
            self.error(last, "is required and missing", allowed);
        }
        found
    }

    fn whole_or_zero<T: TryFrom<u64> + Default>(&self, last: &str) -> T {
        self.values.whole_or_zero(&self.key(last))
    }

    fn seconds(&self, last: &str) -> Duration {
        self.values.seconds(&self.key(last))
    }

    fn list(&mut self, last: &str) -> Vec<String> {
        let key = self.key(last);
        self.values
            .texts(&key, self.errors, |text| Ok(text.to_owned()))
    }

    fn read(&mut self, name: &str) -> Option<LookupKind> {
        let is_good = !is_spoilt(&self.path, self.errors);
        if !is_lookup_name(name) {
            self.error(
                "",
                "is not a valid name",
                "1 to 40 of a-z, 0-9, '-' and '_'",
            );
            return None;
        }
        if RESERVED_NAMES.contains(&name) {
            let allowed = format!("any name but {}", RESERVED_NAMES.join(", "));
            self.error("", "is the name of another source of chains", &allowed);
            return None;
        }
        let before = self.errors.len();
        let kind = match self.required("kind", "http, table, fields")?.as_str() {
            "http" => {
                self.refuse_others("http", HTTP);
                self.http().map(|http| LookupKind::Http(Box::new(http)))
            }
            "table" => {
                self.refuse_others("table", TABLE);
                self.table().map(LookupKind::Table)
            }
            _ => {
                self.refuse_others("fields", FIELDS);
                self.fields().map(LookupKind::Fields)
            }
        };
        kind.filter(|_| is_good && self.errors.len() == before)
    }

    fn refuse_others(&mut self, kind: &str, own: &[&str]) {
        for last in HTTP.iter().chain(TABLE).chain(FIELDS) {
            if !own.contains(last) && self.values.found(&self.key(last)).is_some() {
                let problem = format!("has no effect with kind = \"{kind}\"; remove it");
                self.error(last, &problem, &own.join(", "));
            }
        }
    }

    fn value(&mut self) -> Option<LookupValue> {
        let text = self.text("value")?;
        let value = LookupValue::parse(&text);
        if value.is_none() {
            self.error("value", "names nothing that an event has", VALUES);
        }
        value
    }

    fn http(&mut self) -> Option<HttpLookup> {
        let value = self.value();
        let url = self.url();
        let answer = self.extraction();
        let confidence_at = self.text("confidence_at");
        if confidence_at.as_deref().is_some_and(|at| !is_pointer(at)) {
            self.error("confidence_at", "is no JSON pointer", "/NAME/NAME");
        }
        let is_post = self.text("method").as_deref() == Some("POST");
        let body = self.text("body");
        if body.is_some() && !is_post {
            self.error("body", "has no effect without method = \"POST\"", "POST");
        }
        if let Some(body) = &body
            && serde_json::from_str::<Value>(&filled(body, "x")).is_err()
        {
            let allowed = "JSON with {value} inside a text, such as {\"plate\": \"{value}\"}";
            self.error("body", "is not JSON", allowed);
        }
        let headers = self.headers();
        let mut values = BTreeMap::new();
        for (key, template) in [("url", &url), ("body", &body)] {
            let template = template.as_deref().unwrap_or_default();
            self.placeholders(key, template, value.as_ref(), &mut values);
        }
        Some(HttpLookup {
            values,
            url: url?,
            is_post,
            body,
            headers,
            answer: answer?,
            confidence: self
                .values
                .number(&self.key("confidence"))
                .unwrap_or_default(),
            confidence_at,
            cache_for: self.seconds("cache_s"),
            cache_entries: self.whole_or_zero("cache_entries"),
            per_minute: self.whole_or_zero("per_minute"),
            tries: self.whole_or_zero("tries"),
            timeout: self.seconds("timeout_s"),
            max_bytes: self.whole_or_zero("max_bytes"),
            may_be_private: self.values.switch(&self.key("private")),
            ca_file: self.values.path(&self.key("ca_file")),
        })
    }

    /// Adds the values of the placeholders in a template. `{value}` is `value`.
    fn placeholders(
        &mut self,
        key: &str,
        template: &str,
        value: Option<&LookupValue>,
        values: &mut BTreeMap<String, LookupValue>,
    ) {
        let filled = fill_template(template, |name| {
            let found = match name {
                "value" => value.cloned().ok_or_else(String::new)?,
                other => LookupValue::parse(other).ok_or_else(|| other.to_owned())?,
            };
            values.insert(name.to_owned(), found);
            Ok::<_, String>(String::new())
        });
        // An unknown `value` has its own error.
        if let Err(name) = filled
            && !name.is_empty()
        {
            let problem = format!("has the unknown placeholder {{{name}}}");
            self.error(
                key,
                &problem,
                &format!("{{value}}, or one of {VALUES} in braces"),
            );
        }
    }

    /// Reads the template of the address: placeholders in path or query, and no login.
    fn url(&mut self) -> Option<String> {
        let allowed = "https://HOST/PATH/{value} or http://…, without a login";
        let text = self.required("url", allowed)?;
        let parse = |value: &str| Url::parse(&filled(&text, value)).ok();
        let [first, second] = ["x", "y"].map(parse);
        let (Some(first), Some(second)) = (first, second) else {
            self.error("url", "is no address", allowed);
            return None;
        };
        let is_web = ["http", "https"].contains(&first.scheme()) && first.has_host();
        let has_login = !first.username().is_empty() || first.password().is_some();
        let braces = filled(&text, "");
        let problem = match () {
            () if !is_web => "is not an address of the web",
            () if has_login => "holds a login; write it as a header with _file",
            () if braces.contains(['{', '}']) => "has a brace that is no placeholder",
            () if first.origin() != second.origin() => "has a placeholder in its host",
            () if first == second && self.text("body").is_none() => "has no {value}",
            () => return Some(text),
        };
        self.error("url", problem, allowed);
        None
    }

    fn extraction(&mut self) -> Option<Extraction> {
        let pointer = self.required("answer", "a JSON pointer, such as /status")?;
        if !is_pointer(&pointer) {
            self.error("answer", "is no JSON pointer", "/NAME/NAME");
        }
        let choices = self.list("choices");
        let expect = self.list("expect");
        let word = self.text("answer_type").unwrap_or_default();
        let kind = match (word.as_str(), choices.is_empty()) {
            ("choice", false) => AnswerKind::Choice(choices),
            ("choice", true) => {
                if !is_spoilt(&self.key("choices"), self.errors) {
                    let problem = "is required with answer_type = \"choice\"";
                    self.error("choices", problem, "a list");
                }
                return None;
            }
            (_, false) => {
                let problem = "has no effect without answer_type = \"choice\"";
                self.error("choices", problem, "choice");
                return None;
            }
            ("number", true) => AnswerKind::Number,
            ("bool", true) => AnswerKind::Bool,
            (_, true) => AnswerKind::Text,
        };
        if let AnswerKind::Choice(choices) = &kind
            && expect.iter().any(|text| !choices.contains(text))
        {
            let allowed = choices.join(", ");
            self.error("expect", "names an answer that is not in choices", &allowed);
        }
        if matches!(kind, AnswerKind::Number | AnswerKind::Bool) && !expect.is_empty() {
            self.error(
                "expect",
                "is for texts and choices; remove it",
                "text, choice",
            );
        }
        Some(Extraction {
            pointer,
            kind,
            expect,
        })
    }

    /// Reads the headers; `NAME_file` names the file of a value.
    fn headers(&mut self) -> BTreeMap<String, HeaderValue> {
        let key = self.key("headers");
        let allowed = "a table of texts; NAME_file = \"PATH\" for a secret";
        let Some(found) = self.values.found(&key) else {
            return BTreeMap::new();
        };
        let table = found
            .value
            .as_object()
            .filter(|table| table.len() <= MAX_HEADERS);
        let Some(table) = table else {
            self.error("headers", "is no table of at most 16 headers", allowed);
            return BTreeMap::new();
        };
        let mut headers = BTreeMap::new();
        for (name, value) in table {
            let bare = name.strip_suffix(FILE_ENDING);
            let is_token = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
            let is_name = bare.unwrap_or(name).bytes().all(is_token);
            let value = value
                .as_str()
                .filter(|text| !text.chars().any(char::is_control));
            match (value, bare) {
                (Some(path), Some(bare)) if is_name => {
                    let path = self.values.base.join(path);
                    headers.insert(bare.to_owned(), HeaderValue::File(path));
                }
                (Some(text), None) if is_name => {
                    headers.insert(name.clone(), HeaderValue::Text(text.to_owned()));
                }
                _ => self.error("headers", "holds a wrong name or value", allowed),
            }
        }
        headers
    }

    fn table(&mut self) -> Option<TableLookup> {
        let value = self.value();
        let key = self.required("key", "the name of a column");
        self.required("path", "a path of a CSV file or database");
        Some(TableLookup {
            value: value?,
            path: self.values.path(&self.key("path"))?,
            table: self.text("table"),
            key: key?,
            columns: self.list("columns"),
            is_fuzzy: self.text("match").as_deref() == Some("fuzzy"),
            is_alike: self.values.switch(&self.key("alike")),
        })
    }

    fn fields(&mut self) -> Option<FieldsLookup> {
        let allowed = "{ type = \"object\", properties = { NAME = { type = \"string\" } } }";
        let schema = self.values.found(&self.key("schema"));
        let schema: Option<Map<String, Value>> =
            schema.and_then(|found| found.value.as_object().cloned());
        if schema.is_none() && !is_spoilt(&self.key("schema"), self.errors) {
            self.error("schema", "is required: a table with a JSON Schema", allowed);
        }
        Some(FieldsLookup {
            schema: schema?,
            question: self.text("question"),
        })
    }
}

/// Whether a text is a JSON pointer (RFC 6901) to a member.
fn is_pointer(text: &str) -> bool {
    text.starts_with('/') && text.len() <= 200
}
