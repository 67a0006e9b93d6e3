//! Look-ups by name, ready to be asked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use watchkeeper_config::{LookupConfig, LookupKind, LookupValue};

use crate::fields::Schema;
use crate::http::HttpSource;
use crate::source::SourceAnswer;
use crate::table::Table;

/// A look-up that can be asked.
#[derive(Debug, Clone)]
pub enum Lookup {
    Http(Arc<HttpSource>, LookupValue),
    Table(Arc<Mutex<Table>>, LookupValue),
    /// Asked by the agent, which has the picture and the model.
    Fields(Arc<Schema>, Option<String>),
    /// One that can't be used as configured; each question fails with the cause.
    Broken(String),
}

/// All look-ups of a configuration.
#[derive(Debug, Clone, Default)]
pub struct Lookups {
    by_name: BTreeMap<String, Lookup>,
    configs: BTreeMap<String, LookupConfig>,
}

/// A look-up that can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookupError {
    /// Name of the look-up.
    pub name: String,
    /// Field, value and remedy in one sentence.
    pub problem: String,
}

impl Lookups {
    /// Prepares the look-ups. One that can't be used is among the errors, and fails when asked.
    /// It reads tables: call it on a blocking thread.
    #[must_use]
    pub fn open(configs: &[LookupConfig]) -> (Self, Vec<LookupError>) {
        let (mut lookups, mut errors) = (Self::default(), Vec::new());
        for config in configs {
            let lookup = match open_one(&config.kind) {
                Ok((lookup, None)) => lookup,
                Ok((lookup, Some(problem))) => {
                    let name = config.name.clone();
                    errors.push(LookupError { name, problem });
                    lookup
                }
                Err(problem) => {
                    let name = config.name.clone();
                    errors.push(LookupError {
                        name,
                        problem: problem.clone(),
                    });
                    Lookup::Broken(problem)
                }
            };
            lookups.by_name.insert(config.name.clone(), lookup);
            lookups.configs.insert(config.name.clone(), config.clone());
        }
        (lookups, errors)
    }

    pub fn get(&self, name: &str) -> Option<&Lookup> {
        self.by_name.get(name)
    }

    pub fn configs(&self) -> &BTreeMap<String, LookupConfig> {
        &self.configs
    }
}

/// Opens a look-up; with a problem that may pass, such as a table that can't be read now.
fn open_one(kind: &LookupKind) -> Result<(Lookup, Option<String>), String> {
    Ok(match kind {
        LookupKind::Http(http) => {
            let source = HttpSource::new((**http).clone())?;
            (Lookup::Http(Arc::new(source), http.value.clone()), None)
        }
        LookupKind::Table(config) => {
            let mut table = Table::new(config.clone());
            let problem = table.check().err().map(|error| error.to_string());
            let table = Arc::new(Mutex::new(table));
            (Lookup::Table(table, config.value.clone()), problem)
        }
        LookupKind::Fields(fields) => {
            let schema = Schema::parse(&fields.schema)?;
            (
                Lookup::Fields(Arc::new(schema), fields.question.clone()),
                None,
            )
        }
    })
}

impl Lookup {
    /// Value of the event that it reads; absent where it reads the picture.
    pub fn value(&self) -> Option<&LookupValue> {
        match self {
            Self::Http(_, value) | Self::Table(_, value) => Some(value),
            Self::Fields(..) | Self::Broken(_) => None,
        }
    }

    /// Looks `value` up in a service or table.
    pub async fn look_up(&self, value: &str) -> SourceAnswer {
        match self {
            Self::Http(source, _) => source.look_up(value).await,
            Self::Table(table, _) => {
                let (table, value) = (Arc::clone(table), value.to_owned());
                let found = tokio::task::spawn_blocking(move || {
                    let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
                    table.look_up(&value)
                });
                let died = |error| {
                    SourceAnswer::failed(format!("the thread that looks it up died: {error}"))
                };
                found.await.unwrap_or_else(died)
            }
            Self::Fields(..) => SourceAnswer::failed("it reads pictures, not values"),
            Self::Broken(problem) => SourceAnswer::failed(problem.clone()),
        }
    }
}
