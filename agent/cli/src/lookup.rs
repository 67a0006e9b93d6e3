//! `watchkeeper lookup`: tries a look-up of the configuration. Needs no daemon.
//!
//! The answer is that of a chain. For fields, the picture is only checked here; the agent asks the
//! model.

use std::path::Path;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use watchkeeper_assistant::lookup_access::{LookupAccess, unknown_lookup};
use watchkeeper_config::{Config, LookupConfig, LookupKind};
use watchkeeper_evidence::fields::Schema;
use watchkeeper_evidence::lookup::{LookupError, Lookups};
use watchkeeper_evidence::source::{SourceAnswer, in_unit};

use super::agent_client::{AgentClient, AgentSocket};
use super::args::Global;
use super::configuration;
use super::event_loop;
use super::exit::Failure;
use super::output::Output;
use super::user_file::read_picture;

impl LookupAccess for AgentSocket {
    fn look_up(&self, name: String, value: String) -> BoxFuture<'_, Result<Value, String>> {
        async move {
            // The name comes from a model, and becomes a part of a path.
            let name = utf8_percent_encode(&name, NON_ALPHANUMERIC);
            let client = AgentClient::new(&self.0);
            let found = async {
                client?
                    .post(&format!("lookups/{name}"), &json!({"value": value}))
                    .await
            };
            found.await.map_err(|failure: Failure| failure.sentence)
        }
        .boxed()
    }
}

pub(super) fn run(name: &str, value: &str, global: &Global, out: &Output) -> Result<(), Failure> {
    let config = configuration::read_without_broker(global)?;
    let Some(found) = config.lookups.iter().find(|lookup| lookup.name == name) else {
        let names: Vec<&str> = config.lookups.iter().map(|l| l.name.as_str()).collect();
        return Err(Failure::input(unknown_lookup(name, &names)));
    };
    let (answer, took_ms) = match &found.kind {
        LookupKind::Fields(fields) => {
            let checked = check_picture(&fields.schema, Path::new(value))?;
            needs_model(&config)?;
            (checked, 0)
        }
        LookupKind::Http(_) | LookupKind::Table(_) => ask(found, value)?,
    };
    out.both(&object(name, value, &answer, took_ms), || {
        format!("{} ({took_ms} ms)", describe(&answer))
    });
    exit_of(&answer)
}

/// A look-up that failed is another state than one without an answer.
fn exit_of(answer: &SourceAnswer) -> Result<(), Failure> {
    match answer {
        SourceAnswer::Answered { .. } => Ok(()),
        SourceAnswer::NoAnswer { .. } | SourceAnswer::Suspect { .. } => {
            Err(Failure::failed("the look-up has no answer"))
        }
        SourceAnswer::Failed { .. } => Err(Failure::failed("the look-up failed")),
    }
}

fn ask(config: &LookupConfig, value: &str) -> Result<(SourceAnswer, u64), Failure> {
    let lookups = Lookups::open(std::slice::from_ref(config));
    if let Some(error) = lookups.problems().first() {
        return Err(Failure::input(sentence(error)));
    }
    let runtime = event_loop::new()?;
    let started = std::time::Instant::now();
    let found = runtime.block_on(async {
        match lookups.get(&config.name) {
            Some(lookup) => lookup.look_up_one(value).await,
            None => SourceAnswer::failed("it is not open"),
        }
    });
    let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok((found, took_ms))
}

/// Refuses to show an answer that no model can give.
fn needs_model(config: &Config) -> Result<(), Failure> {
    let missing = match &config.llm {
        None => "no language model is configured; add a section [llm] with second_opinion = true",
        Some(llm) if !llm.second_opinion => {
            "no language model may see pictures; set llm.second_opinion = true"
        }
        Some(_) => return Ok(()),
    };
    let sentence = format!("the picture passes the checks, but {missing}");
    Err(Failure::failed(sentence))
}

fn check_picture(
    schema: &serde_json::Map<String, Value>,
    file: &Path,
) -> Result<SourceAnswer, Failure> {
    let schema = Schema::parse(schema).map_err(Failure::input)?;
    read_picture(file)?;
    Ok(SourceAnswer::Answered {
        confidence: 0.0,
        note: format!(
            "the picture passes the checks; in a chain the agent asks the model for {}",
            schema.names()
        ),
        data: schema.answer_schema(),
    })
}

fn object(name: &str, value: &str, answer: &SourceAnswer, took_ms: u64) -> Value {
    let (result, confidence, note, data) = match answer {
        SourceAnswer::Answered {
            confidence,
            note,
            data,
        } => ("answered", in_unit(*confidence), note, data.clone()),
        SourceAnswer::NoAnswer { note } | SourceAnswer::Suspect { note } => {
            ("no_answer", 0.0, note, Value::Null)
        }
        SourceAnswer::Failed { cause } => ("failed", 0.0, cause, Value::Null),
    };
    json!({
        "lookup": name, "value": value, "result": result, "confidence": confidence, "note": note,
        "data": data, "took_ms": took_ms,
    })
}

fn describe(answer: &SourceAnswer) -> String {
    match answer {
        SourceAnswer::Answered {
            confidence,
            note,
            data,
        } => format!("{confidence:.2}  {note}\n      {data}"),
        SourceAnswer::NoAnswer { note } | SourceAnswer::Suspect { note } => {
            format!("no answer: {note}")
        }
        SourceAnswer::Failed { cause } => format!("failed: {cause}"),
    }
}

fn sentence(error: &LookupError) -> String {
    format!("agent.lookups.{}: {}", error.name, error.problem)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use watchkeeper_config::{LoadRequest, load};

    use super::*;

    #[test]
    fn failure_is_not_reported_as_no_answer() {
        let said = |answer: SourceAnswer| {
            let failure = exit_of(&answer).unwrap_err();
            (describe(&answer), failure.sentence)
        };
        let (line, end) = said(SourceAnswer::failed("it answered 503"));
        assert_eq!(
            (&*line, &*end),
            ("failed: it answered 503", "the look-up failed")
        );
        let (line, end) = said(SourceAnswer::no_answer("no row"));
        assert_eq!(
            (&*line, &*end),
            ("no answer: no row", "the look-up has no answer")
        );
    }

    #[test]
    fn fields_without_a_model_that_may_see_pictures_fail() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("wk.toml");
        let tried = |text: &str| {
            std::fs::write(&file, text).unwrap();
            let request = LoadRequest {
                file: Some(file.clone()),
                hostname: "h".to_owned(),
                ..LoadRequest::default()
            };
            needs_model(&load(&request).unwrap()).map_err(|failure| failure.sentence)
        };
        let llm = "[llm]\nprovider = \"claude\"\nmodel = \"claude-haiku-4-5\"\n";
        let none = tried("").unwrap_err();
        assert!(none.contains("no language model is configured"), "{none}");
        let blind = tried(llm).unwrap_err();
        assert!(blind.contains("set llm.second_opinion = true"), "{blind}");
        assert_eq!(tried(&format!("{llm}second_opinion = true\n")), Ok(()));
    }
}
