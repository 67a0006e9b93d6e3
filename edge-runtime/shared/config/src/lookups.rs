//! Look-ups that the chain of a rule may name: `[agent.lookups.NAME]`, checked.
//!
//! Not here: opening a table, sending a request, asking a model (`agent/evidence`, `agent`).

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};

/// Most look-ups of a box.
pub const MAX_LOOKUPS: usize = 32;
/// Names that a look-up can't have, because chains use them for other sources.
pub const RESERVED_NAMES: [&str; 7] = [
    "box",
    "code",
    "text",
    "model",
    "person",
    "reference",
    FIELDS,
];
/// Prefix of a [`LookupValue::Field`].
const FIELDS: &str = "fields";

#[derive(Debug, Clone, PartialEq)]
pub struct LookupConfig {
    /// Name by which chains call it.
    pub name: String,
    pub kind: LookupKind,
    /// Confidence from which on it is not asked, where a source before it that can decide has it.
    pub only_below: Option<f64>,
}

/// How pictures of events are compared with reference pictures: `[agent.references]`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReferencesConfig {
    /// Model that computes the vectors.
    pub model: String,
    /// Lowest likeness that is an answer; absent: as measured for the model.
    pub min_likeness: Option<f64>,
}

/// Kind of a look-up.
#[derive(Debug, Clone, PartialEq)]
pub enum LookupKind {
    Http(Box<HttpLookup>),
    Table(TableLookup),
    Fields(FieldsLookup),
}

impl LookupKind {
    /// Values of the event that it looks up; none where it reads a picture.
    pub fn values(&self) -> Vec<&LookupValue> {
        match self {
            Self::Http(http) => http.values.values().collect(),
            Self::Table(table) => vec![&table.value],
            Self::Fields(_) => Vec::new(),
        }
    }

    /// Names of the fields that it reads from a picture; none for other kinds.
    pub fn field_names(&self) -> impl Iterator<Item = &str> {
        let schema = match self {
            Self::Fields(fields) => Some(&fields.schema),
            Self::Http(_) | Self::Table(_) => None,
        };
        let properties = schema.and_then(|schema| schema.get("properties")?.as_object());
        let names = properties.into_iter().flat_map(Map::keys);
        names.map(String::as_str)
    }
}

/// Value of the event that is looked up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum LookupValue {
    /// The code where one was read, else the text.
    Read,
    Code,
    Text,
    /// Class of the object.
    Label,
    /// Field of the last look-up of the kind `fields` that answered.
    Field(String),
    /// Cell of the row that a look-up in a table found before.
    Column {
        lookup: String,
        column: String,
    },
}

impl LookupValue {
    /// Parses a value as the configuration names it; `None` for any other word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "read" => Some(Self::Read),
            "code" => Some(Self::Code),
            "text" => Some(Self::Text),
            "label" => Some(Self::Label),
            other => match other.split_once('.')? {
                (FIELDS, field) => is_field_name(field).then(|| Self::Field(field.to_owned())),
                (lookup, column) => is_lookup_name(lookup).then(|| Self::Column {
                    lookup: lookup.to_owned(),
                    column: column.to_owned(),
                }),
            },
        }
    }
}

impl fmt::Display for LookupValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read => f.write_str("read"),
            Self::Code => f.write_str("code"),
            Self::Text => f.write_str("text"),
            Self::Label => f.write_str("label"),
            Self::Field(field) => write!(f, "{FIELDS}.{field}"),
            Self::Column { lookup, column } => write!(f, "{lookup}.{column}"),
        }
    }
}

/// Whether `name` may name a look-up: 1 to 40 of `a-z`, `0-9`, `-`, `_`.
#[must_use]
pub(crate) fn is_lookup_name(name: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b);
    (1..=40).contains(&name.len()) && name.bytes().all(is_word)
}

/// Replaces each `{NAME}` of a template by what `fill` gives for it, in one pass: what is filled in
/// is not read again. A brace without a name after it, as in JSON, stays.
///
/// # Errors
/// The first error of `fill`.
pub fn fill_template<E>(
    template: &str,
    mut fill: impl FnMut(&str) -> Result<String, E>,
) -> Result<String, E> {
    let is_name = |name: &str| {
        let is_part = |c: char| c.is_alphanumeric() || "_-. ".contains(c);
        name.starts_with(char::is_alphabetic) && name.chars().all(is_part)
    };
    let (mut filled, mut rest) = (String::with_capacity(template.len()), template);
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        match after.split_once('}').filter(|(name, _)| is_name(name)) {
            Some((name, then)) => {
                filled.push_str(&fill(name)?);
                rest = then;
            }
            None => {
                filled.push('{');
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    Ok(filled)
}

/// Whether `name` may name a field: 1 to 40 of `a-z`, `0-9`, `_`.
#[must_use]
pub fn is_field_name(name: &str) -> bool {
    let is_part = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    (1..=40).contains(&name.len()) && name.bytes().all(is_part)
}

/// A look-up over HTTP.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpLookup {
    /// Values of the placeholders in address and body, by name; `value` is the key `value`.
    pub values: BTreeMap<String, LookupValue>,
    /// Address with placeholders, which are percent-encoded.
    pub url: String,
    pub is_post: bool,
    /// Body of a `POST`, with placeholders as JSON text without quotes.
    pub body: Option<String>,
    /// Headers by name.
    pub headers: BTreeMap<String, HeaderValue>,
    pub answer: Extraction,
    /// Confidence of an answer that states none.
    pub confidence: f64,
    /// JSON pointer of the confidence in the answer.
    pub confidence_at: Option<String>,
    /// Time that an answer is kept; zero: none is kept.
    pub cache_for: Duration,
    /// Most answers that are kept.
    pub cache_entries: usize,
    /// Most requests a minute, repeated ones included.
    pub per_minute: u32,
    /// Most tries of one look-up.
    pub tries: u32,
    /// Time limit of one try.
    pub timeout: Duration,
    /// Longest answer in bytes.
    pub max_bytes: usize,
    /// Whether private addresses may be called.
    pub may_be_private: bool,
    /// PEM file with the authorities to trust; absent: the system's.
    pub ca_file: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderValue {
    Text(String),
    /// First line of a file, read at each use and never printed.
    File(PathBuf),
}

/// Part of a response that is the answer, and its type.
#[derive(Debug, Clone, PartialEq)]
pub struct Extraction {
    /// JSON pointer, such as `/vehicle/status`.
    pub pointer: String,
    pub kind: AnswerKind,
    /// Answers that support the event; any other one speaks against it. Empty: each supports it.
    pub expect: Vec<String>,
}

/// Type of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerKind {
    Text,
    Number,
    /// `true` supports the event, `false` speaks against it.
    Bool,
    /// One of these texts.
    Choice(Vec<String>),
}

/// A look-up in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct TableLookup {
    pub value: LookupValue,
    /// CSV with a header line, or an SQLite database.
    pub path: PathBuf,
    /// Table or view of a database; absent for CSV.
    pub table: Option<String>,
    /// Column that is compared.
    pub key: String,
    /// Columns that become the data of the link; empty: all.
    pub columns: Vec<String>,
    /// Whether near keys count too, with less confidence.
    pub is_fuzzy: bool,
    /// Whether characters that readers confuse are alike: `O` and `0`, `I` and `1`, and so on.
    pub is_alike: bool,
}

/// Fields that a model reads from the picture of the event.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldsLookup {
    /// JSON Schema of the fields: an object of texts, numbers, booleans and choices.
    pub schema: Map<String, Value>,
    /// Addition to the instructions, such as what the picture shows.
    pub question: Option<String>,
}
