//! Look-ups by name, ready to be asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use watchkeeper_config::{LookupConfig, LookupKind, LookupValue};

use crate::chain::Chain;
use crate::fields::Schema;
use crate::http::HttpSource;
use crate::source::SourceAnswer;
use crate::table::Table;
use crate::value::LookupValues;

/// Placeholder of the key `value`, and the only value of a table.
const VALUE: &str = "value";

/// A look-up that can be asked.
#[derive(Debug, Clone)]
pub enum Lookup {
    Http(Arc<HttpSource>),
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

    /// Names the look-ups that can't be used now: invalid ones, tables that can't be read, and
    /// those of a column that its table lacks. It reads tables that have changed: call it on a
    /// blocking thread.
    #[must_use]
    pub fn problems(&self) -> Vec<LookupError> {
        let all = self.by_name.iter();
        let problems = all.filter_map(|(name, lookup)| {
            let own = match lookup {
                Lookup::Broken(problem) => Some(problem.clone()),
                Lookup::Table(table, _) => table.lock().columns().err().map(|e| e.to_string()),
                Lookup::Http(_) | Lookup::Fields(..) => None,
            };
            let problem = own.or_else(|| self.missing_column(name))?;
            let name = name.clone();
            Some(LookupError { name, problem })
        });
        problems.collect()
    }

    /// Names the column that a look-up reads and its table lacks. A table that can't be read has
    /// its own problem.
    fn missing_column(&self, name: &str) -> Option<String> {
        let values = self.configs.get(name)?.kind.values();
        values.into_iter().find_map(|value| {
            let LookupValue::Column { lookup, column } = value else {
                return None;
            };
            let Some(Lookup::Table(table, _)) = self.by_name.get(lookup) else {
                return None;
            };
            let mut table = table.lock();
            let columns = table.columns().ok()?;
            let known = columns.join(", ");
            let problem = format!("looks up {value}, but the table {lookup} has only {known}");
            (!columns.contains(column)).then_some(problem)
        })
    }

    pub fn get(&self, name: &str) -> Option<&Lookup> {
        self.by_name.get(name)
    }

    pub fn configs(&self) -> &BTreeMap<String, LookupConfig> {
        &self.configs
    }
}

fn open_one(kind: &LookupKind) -> Result<Lookup, String> {
    Ok(match kind {
        LookupKind::Http(http) => Lookup::Http(Arc::new(HttpSource::new((**http).clone())?)),
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
    /// Asks about what `chain` knows. Where a value is missing there is no answer, and no request.
    pub async fn ask(&self, chain: &Chain) -> SourceAnswer {
        let wanted: Vec<(&str, &LookupValue)> = match self {
            Self::Http(source) => source.values().collect(),
            Self::Table(_, value) => vec![(VALUE, value)],
            Self::Fields(..) | Self::Broken(_) => Vec::new(),
        };
        let found = wanted.into_iter().map(|(name, value)| {
            let text = chain.value(value)?;
            Ok((name.to_owned(), text))
        });
        match found.collect::<Result<LookupValues, String>>() {
            Ok(values) => self.look_up(&values).await,
            Err(why) => SourceAnswer::no_answer(why),
        }
    }

    /// Asks about one value outside a chain.
    pub async fn look_up_one(&self, value: &str) -> SourceAnswer {
        let values = [(VALUE.to_owned(), value.to_owned())];
        self.look_up(&LookupValues::from(values)).await
    }

    async fn look_up(&self, values: &LookupValues) -> SourceAnswer {
        match self {
            Self::Http(source) => source.look_up(values).await,
            Self::Table(table, _) => {
                let table = Arc::clone(table);
                let value = values.get(VALUE).cloned().unwrap_or_default();
                let found = tokio::task::spawn_blocking(move || table.lock().look_up(&value));
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
    use std::path::Path;

    use watchkeeper_config::lookups::TableLookup;

    use super::*;

    /// The look-up `name` in a table of plates that uses all its columns.
    fn in_table(name: &str, path: &Path, value: LookupValue) -> LookupConfig {
        let table = TableLookup {
            value,
            path: path.to_owned(),
            table: None,
            key: "plate".to_owned(),
            columns: Vec::new(),
            is_fuzzy: false,
            is_alike: false,
        };
        LookupConfig {
            name: name.to_owned(),
            kind: LookupKind::Table(table),
            only_below: None,
        }
    }

    #[test]
    fn column_that_a_table_lacks_is_a_problem_of_its_reader() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plates.csv");
        std::fs::write(&path, "plate,owner\nAB 1,Ada\n").unwrap();
        let problems = |column: &str| {
            let value = LookupValue::Column {
                lookup: "plates".to_owned(),
                column: column.to_owned(),
            };
            let plates = in_table("plates", &path, LookupValue::Read);
            Lookups::open(&[plates, in_table("owners", &path, value)]).problems()
        };
        assert_eq!(problems("owner"), []);
        let found = problems("ownr");
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].name.as_str(), found[0].problem.as_str()),
            (
                "owners",
                "looks up plates.ownr, but the table plates has only plate, owner"
            )
        );
    }

    #[test]
    fn table_that_comes_late_is_no_problem_any_more() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plates.csv");
        let lookups = Lookups::open(&[in_table("plates", &path, LookupValue::Read)]);
        let problems = lookups.problems();
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].name, "plates");
        std::fs::write(&path, "plate,owner\nAB 1,Ada\n").unwrap();
        assert_eq!(lookups.problems(), []);
        std::fs::write(&path, "number\n1\n").unwrap();
        assert_eq!(lookups.problems().len(), 1);
    }
}
