//! Common behaviour of sinks: a switch, a cool-down, and effects.
//!
//! - A sink never blocks. It emits an [`Effect`]; the host queues it or refuses, and the step's
//!   outputs report which.

use watchkeeper_contract::effect::{Attachment, Effect, Sealed};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::template::Template;
use crate::workflow::uql::named_operations;
use crate::workflow::values::codec;
use crate::workflow::values::stored_value::StoredValue;

/// Defaults of all sinks.
pub(crate) const BASE: Manifest = Manifest {
    role: Role::Sink,
    outputs: OUTPUTS,
    ..Manifest::of("sink")
};

pub(crate) const OUTPUTS: &[Output] = &[
    Output::new("error_status", &[Kind::Boolean]),
    Output::new("throttling_status", &[Kind::Boolean]),
    Output::new("message", &[Kind::Text]),
];
pub(crate) const FIRE_AND_FORGET: Property = Property::boolean("fire_and_forget", true)
    .without_effect("kept for compatibility: sending never blocks");
pub(crate) const DISABLE_SINK: Property =
    Property::boolean("disable_sink", false).about("whether the sink is switched off");
pub(crate) const COOLDOWN: Property =
    Property::value_or("cooldown_seconds", Shape::at_least(0), Or::Int(5))
        .about("minimum seconds between two messages");
/// [`COOLDOWN`] of sinks that may share it, up to 15 minutes.
pub(crate) const SHARED_COOLDOWN: Property = Property {
    shape: Shape::Integer(0, 15 * 60),
    ..COOLDOWN
};
pub(crate) const COOLDOWN_SESSION_KEY: Property =
    Property::literal("cooldown_session_key", Shape::Text)
        .about("steps with the same key share a cool-down");
/// Text of a message, with placeholders; see
/// [`template`](crate::workflow::blocks::common::template).
pub(crate) const MESSAGE: Property = Property::literal("message", Shape::Text)
    .about("text of the message; {{ $parameters.name }} inserts a parameter");
pub(crate) const MESSAGE_PARAMETERS: Property =
    Property::dict("message_parameters").about("the parameters, by name");
pub(crate) const MESSAGE_PARAMETERS_OPERATIONS: Property = named_operations(
    "message_parameters_operations",
    "operations to apply to parameters first",
);
/// Property with attachments of these kinds.
pub(crate) const fn attached(kinds: &[Kind]) -> Property {
    let about = "attachments by name";
    Property::value_or("attachments", Shape::Dict, Or::EmptyDict)
        .about(about)
        .kinds(kinds)
        .of_selectors()
}
pub(crate) const ATTACHMENTS: Property = attached(&[Kind::Text, Kind::Bytes]);

/// Properties of a sink that writes text files, wherever they are stored.
pub(crate) const CONTENT: Property =
    Property::data("content", &[Kind::Text]).about("what to write");
pub(crate) const FILE_TYPE: Property =
    Property::literal_one_of("file_type", &["csv", "json", "txt"]).about("type of the content");
pub(crate) const OUTPUT_MODE: Property = Property::literal(
    "output_mode",
    Shape::Choice(&["append_log", "separate_files"]),
)
.about("one file per content, or all contents in one file");
pub(crate) const FILE_NAME_PREFIX: Property =
    Property::text("file_name_prefix", "workflow_output").about("prefix of file names");
pub(crate) const MAX_ENTRIES: Property =
    Property::value_or("max_entries_per_file", COUNT, Or::Int(1024))
        .about("maximum contents per file")
        .kinds(&[Kind::Text]);
/// Outputs of a sink without cool-down.
pub(crate) const PLAIN_OUTPUTS: &[Output] = &[
    Output::new("error_status", &[Kind::Boolean]),
    Output::new("message", &[Kind::Text]),
];

/// The effect of a step, or why the sink refuses it.
pub(crate) type EffectOrRefusal = Result<Effect, String>;

/// Builds a sink of messages with its own text. `make` makes the message of its template. Fails if
/// operations of the template do not parse.
pub(crate) fn messenger(
    setup: &Setup<'_>,
    service: &'static str,
    make: fn(&Template, &Call<'_>) -> Result<EffectOrRefusal, String>,
) -> Result<Box<dyn Instance>, String> {
    Ok(stateful_instance(Messenger {
        service,
        message: Template::of(setup, "message")?,
        make,
    }))
}

struct Messenger {
    service: &'static str,
    message: Template,
    make: fn(&Template, &Call<'_>) -> Result<EffectOrRefusal, String>,
}

impl Stateful for Messenger {
    type State = LastSent;

    fn run(&self, last: &mut Self::State, call: &mut Call<'_>) -> Result<(), String> {
        send(call, last, self.service, |call| {
            (self.make)(&self.message, call)
        })?
        .put(call)
    }
}

/// Sends one message unless the step is switched off or its cool-down is active. Only a message
/// that the host queues starts the cool-down; `last` is the state of the step. Fails if a property
/// is invalid, so that there is nothing to send.
pub(crate) fn send(
    call: &mut Call<'_>,
    last: &mut LastSent,
    service: &str,
    make: impl FnOnce(&Call<'_>) -> Result<EffectOrRefusal, String>,
) -> Result<Sent, String> {
    let mut cooldown = Cooldown::of(call, last, service);
    if call.boolean(call.named("disable_sink"))? {
        return Ok(Sent::Off);
    }
    if cooldown.is_active(call, call.bounded(call.named("cooldown_seconds"))?) {
        return Ok(Sent::CoolingDown);
    }
    let effect = match make(call)? {
        Ok(effect) => effect,
        Err(why) => return Ok(Sent::Refused(why)),
    };
    let sent = Sent::by(call, effect);
    if sent == Sent::Queued {
        cooldown.begin(call)?;
    }
    Ok(sent)
}

/// Time of the last message of a step, in seconds. It is part of the step's state. It is gone once
/// the settings of the step, of a step before it, or a parameter that they read change. A time
/// under a [`COOLDOWN_SESSION_KEY`] is not part of the state, and stays.
pub(crate) type LastSent = Option<f64>;

/// Location of the time of the last message.
#[derive(Debug)]
enum Cooldown<'s> {
    /// In the state that the steps of a service with one [`COOLDOWN_SESSION_KEY`] share.
    Session {
        place: Arc<str>,
        key: Arc<str>,
    },
    Step(&'s mut LastSent),
}

impl<'s> Cooldown<'s> {
    /// Returns the cool-down of the step that is called; `last` is its state.
    fn of(call: &Call<'_>, last: &'s mut LastSent, service: &str) -> Self {
        match call.arg(call.named("cooldown_session_key")).as_str() {
            Some(key) => Self::Session {
                place: format!("cooldown of {service}").into(),
                key: key.into(),
            },
            None => Self::Step(last),
        }
    }

    fn is_active(&self, call: &Call<'_>, cooldown_s: f64) -> bool {
        let last = match self {
            Self::Session { place, key } => call
                .shared
                .cooldowns
                .get(place, key)
                .and_then(Value::as_f64),
            Self::Step(last) => **last,
        };
        last.is_some_and(|last| (call.now.as_secs_f64() - last).max(0.0) < cooldown_s)
    }

    fn begin(&mut self, call: &mut Call<'_>) -> Result<(), String> {
        let now = call.now.as_secs_f64();
        match self {
            Self::Session { place, key } => {
                let now = StoredValue::copied(&Value::Float(now));
                let key = (Arc::clone(place), Arc::clone(key));
                call.shared.cooldowns.set(key, now)?;
            }
            Self::Step(last) => **last = Some(now),
        }
        Ok(())
    }
}

/// Result of sending.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The sink is switched off.
    Off,
    CoolingDown,
    /// The host refused the effect; why.
    Refused(String),
    /// The host queued the effect.
    Queued,
}

impl Sent {
    pub(crate) fn by(call: &mut Call<'_>, effect: Effect) -> Self {
        match call.host.emit(call.step, effect) {
            Ok(()) => Self::Queued,
            Err(why) => Self::Refused(why),
        }
    }

    /// Describes the result for the output.
    pub(crate) fn message(self) -> String {
        match self {
            Self::Off => "the sink is switched off".to_owned(),
            Self::CoolingDown => "not sent during the cooldown".to_owned(),
            Self::Refused(why) => why,
            Self::Queued => "queued for sending".to_owned(),
        }
    }

    /// Sets the outputs [`OUTPUTS`].
    pub(crate) fn put(self, call: &mut Call<'_>) -> Result<(), String> {
        let is_refused = matches!(self, Self::Refused(_));
        call.finish_all((is_refused, self == Self::CoolingDown, self.message()))
    }

    /// Sets the outputs [`PLAIN_OUTPUTS`].
    pub(crate) fn put_plainly(self, call: &mut Call<'_>) -> Result<(), String> {
        call.finish_all((matches!(self, Self::Refused(_)), self.message()))
    }
}

/// Refuses a provider other than `custom`, which needs all properties of `account`. A version
/// without the property `provider` knows only that one. The error says what to write instead.
pub(crate) fn check_provider(
    call: &Call<'_>,
    provider: Arg,
    custom: &str,
    account: &[&str; 3],
) -> Result<(), String> {
    let Some(given) = call.arg(provider).as_str() else {
        return Ok(());
    };
    let [first, second, third] = account;
    let needs = format!("{first}, {second} and {third}");
    if given != custom {
        return Err(format!(
            "{given:?} needs a Roboflow account; set {} to {custom:?} with {needs}",
            call.name(provider)
        ));
    }
    if account
        .iter()
        .any(|name| call.arg(call.named(name)).is_null())
    {
        return Err(format!("{custom:?} needs {needs}"));
    }
    Ok(())
}

/// Property that may be a secret. Fails if it is neither text nor a secret.
pub(crate) fn sealed(call: &Call<'_>, arg: Arg) -> Result<Sealed, String> {
    match call.arg(arg) {
        Value::Text(text) => Ok(Sealed::Text(text.to_string())),
        Value::Secret(name) => Ok(Sealed::Secret(name.to_string())),
        _ => Err(call.unfit(arg, "a string or a secret")),
    }
}

/// Property with one text or a list of texts; empty if null. Fails if it is something else.
pub(crate) fn texts(call: &Call<'_>, arg: Arg) -> Result<Vec<String>, String> {
    let text = |v: &Value| {
        let text = v.as_str().map(str::to_owned);
        text.ok_or_else(|| format!("{} has to be text, not {}", call.name(arg), v.what()))
    };
    match call.arg(arg) {
        Value::Null => Ok(Vec::new()),
        Value::List(items) => items.iter().map(text).collect(),
        one => text(one).map(|t| vec![t]),
    }
}

/// Makes an attachment of a value; a picture becomes a JPEG. Fails if a picture can't be encoded.
pub(crate) fn attachment(name: &str, value: &Value) -> Result<Attachment, String> {
    let bytes = match value {
        Value::Image(image) => codec::jpeg(&image.pixels.rgb(), codec::QUALITY)?,
        Value::Bytes(bytes) => bytes.to_vec(),
        other => other.python_str().into_bytes(),
    };
    let ends_well = [".jpg", ".jpeg"]
        .iter()
        .any(|end| name.to_ascii_lowercase().ends_with(end));
    let name = if matches!(value, Value::Image(_)) && !ends_well {
        format!("{name}.jpg")
    } else {
        name.to_owned()
    };
    Ok(Attachment { name, bytes })
}

/// Makes attachments of the entries of a dictionary. Fails if it is not a dictionary, or a picture
/// can't be encoded.
pub(crate) fn attachments(files: &Value) -> Result<Vec<Attachment>, String> {
    match files {
        Value::Dict(map) => map.iter().map(|(name, v)| attachment(name, v)).collect(),
        other => Err(format!(
            "files are a dictionary by name, not {}",
            other.what()
        )),
    }
}

/// Several contents in one file, and their number. Only a content that the host queues counts.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Log {
    entries: i64,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The text, ending in a line break.
    pub(crate) content: String,
    /// Whether it is appended to the latest file.
    pub(crate) append: bool,
    pub(crate) extension: &'static str,
}

impl Log {
    /// Makes the next entry of a step and sends it by `emit`. Within one file, JSON is written as
    /// lines, and the head of a CSV table only once. `is_full`: it begins a new file. Fails if a
    /// property is invalid.
    pub(crate) fn send(
        &mut self,
        call: &mut Call<'_>,
        is_full: bool,
        emit: impl FnOnce(&mut Call<'_>, Entry) -> Result<Sent, String>,
    ) -> Result<Sent, String> {
        let one_file = call.text(call.named("output_mode"))? == "append_log";
        let most = call.integer(call.named("max_entries_per_file"))?;
        let content = call.text(call.named("content"))?;
        let most = if is_full { 0 } else { most };
        let file_type = call.text(call.named("file_type"))?;
        let entry = match self.next(content, file_type, one_file, most) {
            Ok(entry) => entry,
            Err(why) => return Ok(Sent::Refused(why)),
        };
        let entries = if entry.append { self.entries + 1 } else { 1 };
        let sent = emit(call, entry)?;
        if sent == Sent::Queued {
            self.entries = entries;
        }
        Ok(sent)
    }

    fn next(
        &self,
        content: &str,
        file_type: &str,
        one_file: bool,
        most: i64,
    ) -> Result<Entry, String> {
        let mut content = content.to_owned();
        let extension = match (file_type, one_file) {
            ("json", true) => "jsonl",
            ("json", false) => "json",
            ("csv", _) => "csv",
            _ => "txt",
        };
        let append = one_file && self.entries > 0 && self.entries < most;
        if extension == "jsonl" {
            let document: serde_json::Value =
                serde_json::from_str(&content).map_err(|e| format!("content is not JSON: {e}"))?;
            content = document.to_string();
        }
        let headless = append && extension == "csv";
        if headless {
            content = without_head(&content).to_owned();
        }
        let is_ended = content.ends_with('\n') || headless && content.is_empty();
        if !is_ended {
            content.push('\n');
        }
        Ok(Entry {
            content,
            append,
            extension,
        })
    }
}

/// The rows of a CSV table. A quoted name of a column may have line breaks; a quote within a name
/// that is not quoted is a character.
fn without_head(table: &str) -> &str {
    let (mut is_quoted, mut before) = (false, ',');
    let end = table.find(|c| {
        if c == '"' && (is_quoted || matches!(before, ',' | '"')) {
            is_quoted = !is_quoted;
        }
        before = c;
        c == '\n' && !is_quoted
    });
    // A quote that never ends names no column.
    let end = end.or_else(|| table.find('\n'));
    end.and_then(|end| table.get(end + 1..)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::Log;

    #[test]
    fn log_writes_the_table_head_once_per_file() {
        let after = |entries: i64| {
            let entry = Log { entries }.next("a,b\n1,2", "csv", true, 2).unwrap();
            (entry.content, entry.append)
        };
        assert_eq!(after(0), ("a,b\n1,2\n".to_owned(), false));
        assert_eq!(after(1), ("1,2\n".to_owned(), true));
        assert_eq!(after(2), ("a,b\n1,2\n".to_owned(), false));
    }

    #[test]
    fn appended_table_has_its_rows_only() {
        let rows = |table| {
            Log { entries: 1 }
                .next(table, "csv", true, 2)
                .unwrap()
                .content
        };
        assert_eq!(rows("\"a\nb\",c\n1,2\n"), "1,2\n");
        assert_eq!(rows("\"a\"\"\nb\",c\n1,2\n"), "1,2\n");
        assert_eq!(rows("gap 5\",n\n1,2\n"), "1,2\n");
        assert_eq!(rows("a,b\n"), "", "no blank line");
        assert_eq!(rows("a,b"), "");
    }

    #[test]
    fn json_is_written_as_lines_only_within_one_file() {
        let log = Log::default();
        let entry = log.next("{\n \"a\": 1}", "json", true, 9).unwrap();
        assert_eq!((&*entry.content, entry.extension), ("{\"a\":1}\n", "jsonl"));
        assert!(log.next("hello", "json", true, 9).is_err());
        let entry = log.next("hello", "json", false, 9).unwrap();
        assert_eq!((&*entry.content, entry.extension), ("hello\n", "json"));
    }
}
