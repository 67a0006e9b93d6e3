//! Look-ups by name, ready to be asked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    /// Prepares the look-ups. A table is read when it is asked; an invalid look-up fails then.
    #[must_use]
    pub fn open(configs: &[LookupConfig]) -> Self {
        let mut lookups = Self::default();
        for config in configs {
            let lookup = open_one(&config.kind).unwrap_or_else(Lookup::Broken);
            lookups.by_name.insert(config.name.clone(), lookup);
            lookups.configs.insert(config.name.clone(), config.clone());
        }
        lookups
    }

    /// Names the look-ups that can't be used now: invalid ones, and tables that can't be read. It
    /// reads tables that have changed: call it on a blocking thread.
    #[must_use]
    pub fn problems(&self) -> Vec<LookupError> {
        let all = self.by_name.iter();
        let problems = all.filter_map(|(name, lookup)| {
            let problem = match lookup {
                Lookup::Broken(problem) => problem.clone(),
                Lookup::Table(table, _) => lock(table).check().err()?.to_string(),
                Lookup::Http(..) | Lookup::Fields(..) => return None,
            };
            let name = name.clone();
            Some(LookupError { name, problem })
        });
        problems.collect()
    }

    pub fn get(&self, name: &str) -> Option<&Lookup> {
        self.by_name.get(name)
    }

    pub fn configs(&self) -> &BTreeMap<String, LookupConfig> {
        &self.configs
    }
}

/// Ignores poisoning: a table is read again where a reader panicked.
fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open_one(kind: &LookupKind) -> Result<Lookup, String> {
    Ok(match kind {
        LookupKind::Http(http) => {
            let source = HttpSource::new((**http).clone())?;
            Lookup::Http(Arc::new(source), http.value.clone())
        }
        LookupKind::Table(config) => {
            let table = Arc::new(Mutex::new(Table::new(config.clone())));
            Lookup::Table(table, config.value.clone())
        }
        LookupKind::Fields(fields) => {
            let schema = Schema::parse(&fields.schema)?;
            Lookup::Fields(Arc::new(schema), fields.question.clone())
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
                let found = tokio::task::spawn_blocking(move || lock(&table).look_up(&value));
                let died = |error| {
                    SourceAnswer::failed(format!("the look-up ended early: {error}; ask again"))
                };
                found.await.unwrap_or_else(died)
            }
            Self::Fields(..) => SourceAnswer::failed("it reads pictures, not values"),
            Self::Broken(problem) => SourceAnswer::failed(problem.clone()),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use watchkeeper_config::lookups::TableLookup;

    use super::*;

    #[test]
    fn table_that_comes_late_is_no_problem_any_more() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plates.csv");
        let table = TableLookup {
            value: LookupValue::Read,
            path: path.clone(),
            table: None,
            key: "plate".to_owned(),
            columns: Vec::new(),
            is_fuzzy: false,
            is_alike: false,
        };
        let lookups = Lookups::open(&[LookupConfig {
            name: "plates".to_owned(),
            kind: LookupKind::Table(table),
        }]);
        let problems = lookups.problems();
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].name, "plates");
        std::fs::write(&path, "plate,owner\nAB 1,Ada\n").unwrap();
        assert_eq!(lookups.problems(), []);
        std::fs::write(&path, "number\n1\n").unwrap();
        assert_eq!(lookups.problems().len(), 1);
    }
}
