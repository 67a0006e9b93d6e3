//! Catalogue of models: ids, limits, prices and capabilities, from a data file.
//!
//! Owns the format of that file, the built-in one, and how a user's file adds to it.
//! - No id, price or limit of a model is in code.
//! - What a model can't do is known before it is asked.

mod check;
mod model;
mod price;

use std::collections::BTreeMap;

use serde::Deserialize;

pub use model::{Capability, ImageTier, Model, Provider, ThinkingStyle, Tier, base_url};
pub use price::{Prices, Rate};

use check::{check_model, check_provider};

/// The built-in model file.
const BUILT_IN: &str = include_str!("models.toml");
/// Format of the file that this version reads.
const FORMAT: u32 = 1;
/// Id of the entry for any model of a provider.
const ANY: &str = "*";

/// A rejected model file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("model file {file}: {place}: {problem}")]
pub struct CatalogueError {
    pub file: String,
    /// Path of the value, or its line.
    pub place: String,
    /// The mistake, and what is allowed.
    pub problem: String,
}

/// A model or provider that is not in the catalogue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what} {name:?} is not in the model file; use one of {known}, or add it to a model file of your own (llm.models_file)"
)]
pub struct UnknownEntry {
    /// `provider` or `model`.
    pub what: &'static str,
    pub name: String,
    pub known: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: u32,
    /// Day of the figures, for readers of the file.
    #[serde(default, rename = "as_of")]
    _as_of: Option<String>,
    #[serde(default)]
    providers: BTreeMap<String, Provider>,
    #[serde(default)]
    models: Vec<Model>,
}

/// Providers and models, by name.
#[derive(Debug, Clone, PartialEq)]
pub struct Catalogue {
    providers: BTreeMap<String, Provider>,
    models: BTreeMap<(String, String), Model>,
}

impl Catalogue {
    /// Returns the built-in catalogue.
    ///
    /// # Errors
    /// Never in a build that passed its tests.
    pub fn built_in() -> Result<Self, CatalogueError> {
        let mut catalogue = Self {
            providers: BTreeMap::new(),
            models: BTreeMap::new(),
        };
        catalogue.add("(built in)", BUILT_IN)?;
        Ok(catalogue)
    }

    /// Adds the text of the model file `file`: its entries replace those of the same names. A wrong
    /// file changes nothing.
    ///
    /// # Errors
    /// The first problem, with its place.
    pub fn add(&mut self, file: &str, text: &str) -> Result<(), CatalogueError> {
        let wrong = |place: String, problem: String| CatalogueError {
            file: file.to_owned(),
            place,
            problem,
        };
        let read = toml::Deserializer::parse(text)
            .map_err(|e| wrong(line_of(text, e.span()), e.message().to_owned()))?;
        let read: File = serde_path_to_error::deserialize(read)
            .map_err(|e| wrong(e.path().to_string(), e.inner().message().to_owned()))?;
        if read.format != FORMAT {
            return Err(wrong(
                "format".to_owned(),
                format!("is {} and this version reads {FORMAT}", read.format),
            ));
        }
        let mut next = self.clone();
        for (name, mut provider) in read.providers {
            check_provider(&provider)
                .map_err(|(field, why)| wrong(format!("providers.{name}.{field}"), why.into()))?;
            provider.name.clone_from(&name);
            next.providers.insert(name, provider);
        }
        for (at, model) in read.models.into_iter().enumerate() {
            check_model(&model)
                .map_err(|(field, why)| wrong(format!("models[{at}].{field}"), why.into()))?;
            if !next.providers.contains_key(&model.provider) {
                let why = format!("{:?} is not a provider of the file", model.provider);
                return Err(wrong(format!("models[{at}].provider"), why));
            }
            let key = (model.provider.clone(), model.id.clone());
            next.models.insert(key, model);
        }
        for provider in next.providers.values() {
            for tier in [Tier::Small, Tier::Large] {
                let id = provider.model_id(tier);
                next.model(&provider.name, id)
                    .map_err(|e| wrong(format!("providers.{}", provider.name), e.to_string()))?;
            }
        }
        *self = next;
        Ok(())
    }

    /// Returns the provider `name`.
    ///
    /// # Errors
    /// When there is none; the error lists the known ones.
    pub fn provider(&self, name: &str) -> Result<&Provider, UnknownEntry> {
        self.providers.get(name).ok_or_else(|| UnknownEntry {
            what: "provider",
            name: name.to_owned(),
            known: self
                .providers
                .keys()
                .cloned()
                .collect::<Vec<_>>()
                .join(", "),
        })
    }

    /// Returns the model `id` of `provider`; an unlisted one has the figures of `*`, where the
    /// provider has such an entry.
    ///
    /// # Errors
    /// When there is none; the error lists the known ones.
    pub fn model(&self, provider: &str, id: &str) -> Result<Model, UnknownEntry> {
        let find = |id: &str| self.models.get(&(provider.to_owned(), id.to_owned()));
        if let Some(model) = find(id).or_else(|| find(ANY)) {
            return Ok(Model {
                id: id.to_owned(),
                ..model.clone()
            });
        }
        let own = self.models.keys().filter(|(name, _)| name == provider);
        Err(UnknownEntry {
            what: "model",
            name: id.to_owned(),
            known: own
                .map(|(_, id)| id.as_str())
                .collect::<Vec<_>>()
                .join(", "),
        })
    }
}

/// Returns the line in which `span` starts.
fn line_of(text: &str, span: Option<std::ops::Range<usize>>) -> String {
    let before = span.and_then(|span| text.get(..span.start));
    match before {
        Some(before) => format!("line {}", before.matches('\n').count() + 1),
        None => "syntax".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::money::Money;
    use crate::usage::Usage;

    fn built_in() -> Catalogue {
        Catalogue::built_in().expect("the built-in file")
    }

    #[test]
    fn verdict_of_the_small_model_costs_a_twentieth_of_a_cent() {
        let model = built_in()
            .model("claude", "claude-haiku-5-5")
            .expect("model");
        // A cached prefix of 2,000 tokens, one picture of 1280x720, 500 of text, 600 of output.
        let usage = Usage {
            input: 1_196 + 500,
            cache_read: 2_000,
            output: 600,
            ..Usage::default()
        };
        assert_eq!(model.prices.cost(&usage), Money(489_600));
    }

    #[test]
    fn long_prompt_has_the_price_of_long_prompts() {
        let model = built_in()
            .model("claude", "claude-haiku-5-5")
            .expect("model");
        let prompt = |input| {
            model.prices.cost(&Usage {
                input,
                ..Usage::default()
            })
        };
        assert_eq!(prompt(100_000), Money(100 * 100_000));
        assert_eq!(prompt(100_001), Money(500 * 100_001));
    }

    #[test]
    fn local_provider_accepts_any_model_and_others_list_theirs() {
        let catalogue = built_in();
        let own = catalogue.model("local", "my-model:7b").expect("any");
        assert_eq!(own.id, "my-model:7b");
        let refused = catalogue.model("openai", "gpt-9").expect_err("unknown");
        assert_eq!(
            refused.to_string(),
            "model \"gpt-9\" is not in the model file; use one of gpt-5-mini, gpt-5.2, or add it to a model file of your own (llm.models_file)"
        );
    }

    #[test]
    fn user_file_replaces_whole_entries_and_invalid_one_none() {
        let mut catalogue = built_in();
        let text = r#"
            format = 1
            [[models]]
            provider = "claude"
            id = "claude-haiku-5-5"
            context = 200_000
            max_output = 1_000
            bytes_per_token = 3
            thinking = "none"
            price = [{ input = 7, output = 8 }]
        "#;
        catalogue.add("mine.toml", text).expect("add");
        let model = catalogue
            .model("claude", "claude-haiku-5-5")
            .expect("model");
        assert_eq!((model.max_output, model.image_tier), (1_000, None));
        let before = catalogue.clone();
        for (from, to, said) in [
            (
                "price = [{ input = 7",
                "price = [{ input = -7",
                "models[0].price[0]: -7 must be 0 to 10000",
            ),
            ("input = 7", "input = 0.0001", "in steps of 0.001"),
            (
                "thinking = \"none\"",
                "thinking = \"much\"",
                "models[0].thinking: unknown variant `much`, expected",
            ),
            (
                "max_output = 1_000",
                "max_output = 0",
                "models[0].max_output: must be 1 to `context`",
            ),
            (
                "max_output",
                "max_outputs",
                "unknown field `max_outputs`, expected one of",
            ),
            (
                "provider = \"claude\"",
                "provider = \"other\"",
                "models[0].provider: \"other\" is not a provider",
            ),
            (
                "format = 1",
                "format = 2",
                "format: is 2 and this version reads 1",
            ),
        ] {
            let refused = catalogue.add("mine.toml", &text.replacen(from, to, 1));
            let refused = refused.expect_err(to).to_string();
            assert!(refused.starts_with("model file mine.toml: "), "{refused}");
            assert!(refused.contains(said), "{refused} lacks {said}");
            assert_eq!(catalogue, before);
        }
    }

    #[test]
    fn address_with_a_credential_is_rejected_and_not_repeated() {
        let refused = base_url("https://me:secret@models.example").expect_err("refused");
        assert!(!refused.contains("secret"), "{refused}");
        for wrong in ["ftp://models.example", "models.example", "https://a/?key=1"] {
            assert!(base_url(wrong).is_err(), "{wrong}");
        }
    }
}
