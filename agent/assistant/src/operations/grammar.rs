//! Operations in plain words, without a model. Sans-IO.
//!
//! ```text
//! ingest|assimilate|import|load SOURCE as COLLECTION
//! get|retrieve|fetch|read NAME from COLLECTION [skip cache]
//! prune|evict (NAME from COLLECTION | COLLECTION)
//! destroy (NAME from COLLECTION | COLLECTION)
//! delete|remove (NAME from COLLECTION | [the] collection COLLECTION)
//! list (archive | collections | COLLECTION)
//! query WORDS [for all [blobs|entries|files]]
//! find|search (WORDS in|from COLLECTION | COLLECTION [for all [blobs|entries|files]])
//! ```
//!
//! - Every word is consumed; a text with a further word is not an operation.
//! - Names are compared as they are written, verbs in any case.

use watchkeeper_archive::name::check_collection;
use watchkeeper_archive::query::Order;
use watchkeeper_archive::verb::{Ingest, IngestOptions};
use watchkeeper_archive::{EntryName, Query, Selection, Source, Verb};

use super::operation::Operation;

/// Longest text, in characters.
const MAX_CHARS: usize = 2_000;

#[derive(Debug, Clone, PartialEq)]
pub struct ReadOperation {
    pub operation: Operation,
    /// Collection that must exist for the operation to count: its words may mean something else.
    pub requires: Option<String>,
}

impl ReadOperation {
    fn sure(operation: Operation) -> Self {
        Self {
            operation,
            requires: None,
        }
    }
}

/// Reads an operation; `None` for any other text.
///
/// # Errors
/// A sentence, if the verb belongs to the archive only, and the rest is not understood.
pub fn parse(text: &str) -> Option<Result<ReadOperation, String>> {
    let text = text.trim();
    if text.chars().count() > MAX_CHARS {
        return None;
    }
    let (verb, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    let words: Vec<&str> = rest.split_whitespace().collect();
    match verb.to_lowercase().as_str() {
        verb @ ("ingest" | "assimilate") => Some(ingest(verb, rest).map(ReadOperation::sure)),
        // "load" and "import" are read only with a source.
        "import" | "load" => ingest(verb, rest)
            .ok()
            .map(|read| Ok(ReadOperation::sure(read))),
        "retrieve" => Some(retrieve("retrieve", &words)),
        "get" | "fetch" | "read" => retrieve("get", &words).ok().map(Ok),
        verb @ ("prune" | "evict") => {
            let read = selection(verb, &words);
            let prune = |selection| Operation::Verb(Verb::Prune { selection });
            Some(read.map(prune).map(ReadOperation::sure))
        }
        "destroy" => {
            let destroy = |selection| Operation::Verb(Verb::Destroy { selection });
            let read = selection("destroy", &words);
            Some(read.map(destroy).map(ReadOperation::sure))
        }
        "delete" | "remove" => remove(&words).map(Ok),
        "list" => list(&words).map(Ok),
        "query" if rest.is_empty() => Some(Err(
            "query needs words, such as query cars at gate yesterday".to_owned(),
        )),
        "query" => {
            let words =
                without_for_all(&words).map_or_else(|| rest.to_owned(), |rest| rest.join(" "));
            let operation = Operation::Verb(Verb::Find { words });
            Some(Ok(ReadOperation::sure(operation)))
        }
        "find" | "search" => find(&words).map(Ok),
        _ => None,
    }
}

fn ingest(verb: &str, rest: &str) -> Result<Operation, String> {
    let form = || format!("{verb} needs a source and a collection: {verb} folder::PATH as NAME");
    let (source, collection) = rest.rsplit_once(" as ").ok_or_else(form)?;
    let (source, collection) = (source.trim(), collection.trim());
    check_collection(collection).map_err(|error| error.to_string())?;
    let _: Source = source
        .parse()
        .map_err(|error: watchkeeper_archive::ArchiveError| error.to_string())?;
    Ok(Operation::Verb(Verb::Ingest(Box::new(Ingest {
        source: source.to_owned(),
        collection: collection.to_owned(),
        name: None,
        options: IngestOptions::default(),
    }))))
}

fn retrieve(verb: &str, words: &[&str]) -> Result<ReadOperation, String> {
    let (words, skip_cache) = match words {
        [words @ .., "skip", "cache"] => (words, true),
        words => (words, false),
    };
    let form = || format!("{verb} needs an entry: {verb} NAME from COLLECTION");
    let name = entry(words).ok_or_else(form)??;
    // "get people from gate" may be another request; a name with a dot is one of a file.
    let requires = (verb != "retrieve" && !name.name().contains('.') && words.len() > 1)
        .then(|| name.collection().to_owned());
    let operation = Operation::Retrieve { name, skip_cache };
    Ok(ReadOperation {
        operation,
        requires,
    })
}

/// `NAME from COLLECTION`, or `COLLECTION/NAME`.
fn entry(words: &[&str]) -> Option<Result<EntryName, String>> {
    let name = match words {
        [name, "from", collection] => EntryName::new(collection, name),
        [name] if name.contains('/') => name.parse(),
        _ => return None,
    };
    Some(name.map_err(|error| error.to_string()))
}

fn selection(verb: &str, words: &[&str]) -> Result<Selection, String> {
    match (entry(words), words) {
        (Some(name), _) => Ok(Selection::Entry(name?)),
        (None, [collection]) => {
            check_collection(collection).map_err(|error| error.to_string())?;
            Ok(Selection::Collection((*collection).to_owned()))
        }
        (None, _) => Err(format!(
            "{verb} needs an entry or a collection: {verb} NAME from COLLECTION, or {verb} \
             COLLECTION"
        )),
    }
}

fn remove(words: &[&str]) -> Option<ReadOperation> {
    let (selection, collection) = match words {
        ["collection", name] | ["the", "collection", name] => {
            check_collection(name).ok()?;
            (
                Selection::Collection((*name).to_owned()),
                (*name).to_owned(),
            )
        }
        words => {
            let name = entry(words)?.ok()?;
            let collection = name.collection().to_owned();
            (Selection::Entry(name), collection)
        }
    };
    Some(ReadOperation {
        requires: Some(collection),
        operation: Operation::Verb(Verb::Destroy { selection }),
    })
}

fn list(words: &[&str]) -> Option<ReadOperation> {
    match words {
        ["archive" | "collections"] | ["the", "archive" | "collections"] => {
            Some(ReadOperation::sure(Operation::Verb(Verb::List)))
        }
        // The look-up of events is not that of their pictures.
        ["events"] => None,
        [collection] => {
            check_collection(collection).ok()?;
            let query = Query {
                pattern: Some((*collection).to_owned()),
                order: Order::Name,
                ..Query::default()
            };
            Some(ReadOperation {
                operation: Operation::Verb(Verb::Query {
                    query: Box::new(query),
                }),
                requires: Some((*collection).to_owned()),
            })
        }
        _ => None,
    }
}

fn find(words: &[&str]) -> Option<ReadOperation> {
    let words = without_for_all(words).unwrap_or(words);
    let collection = match words {
        [collection] | [_, .., "in" | "from", collection] => collection,
        _ => return None,
    };
    check_collection(collection).ok()?;
    Some(ReadOperation {
        operation: Operation::Verb(Verb::Find {
            words: words.join(" "),
        }),
        requires: Some((*collection).to_owned()),
    })
}

/// The words before `for all`, `for all blobs`, `for all entries` or `for all files`.
fn without_for_all<'w>(words: &'w [&'w str]) -> Option<&'w [&'w str]> {
    match words {
        [words @ .., "for", "all"] | [words @ .., "for", "all", "blobs" | "entries" | "files"]
            if !words.is_empty() =>
        {
            Some(words)
        }
        _ => None,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> ReadOperation {
        parse(text).unwrap().unwrap()
    }

    #[test]
    fn commands_of_the_archive_are_read() {
        for (text, name, parameters) in [
            (
                "ingest folder::./data as research",
                "ingest",
                r#"{"source":"folder::./data","collection":"research"}"#,
            ),
            (
                "Assimilate file::/a/b c.txt as research",
                "ingest",
                r#"{"source":"file::/a/b c.txt","collection":"research"}"#,
            ),
            (
                "get alpha.txt from research",
                "retrieve",
                r#"{"name":"research/alpha.txt","skip_cache":false}"#,
            ),
            (
                "retrieve research/alpha skip cache",
                "retrieve",
                r#"{"name":"research/alpha","skip_cache":true}"#,
            ),
            (
                "prune alpha.txt from research",
                "prune",
                r#"{"selection":{"entry":"research/alpha.txt"}}"#,
            ),
            (
                "destroy research",
                "destroy",
                r#"{"selection":{"collection":"research"}}"#,
            ),
            ("list archive", "list", "{}"),
            ("query cars at gate", "find", r#"{"words":"cars at gate"}"#),
            (
                "query research for all blobs",
                "find",
                r#"{"words":"research"}"#,
            ),
        ] {
            let read = read(text);
            assert_eq!(read.requires, None, "{text}");
            assert_eq!(read.operation.name(), name, "{text}");
            let found = read.operation.parameters();
            let wanted: serde_json::Value = serde_json::from_str(parameters).unwrap();
            for (key, value) in wanted.as_object().unwrap() {
                assert_eq!(&found[key], value, "{text}");
            }
        }
    }

    #[test]
    fn ambiguous_words_need_a_known_collection() {
        for text in [
            "list research",
            "get people from gate",
            "remove alpha.txt from research",
            "find cars in research",
            "search research",
            "find research for all files",
            "delete the collection research",
        ] {
            assert!(read(text).requires.is_some(), "{text}");
        }
        let words = Operation::Verb(Verb::Find {
            words: "research".to_owned(),
        });
        assert_eq!(read("find research for all").operation, words);
    }

    #[test]
    fn a_further_word_is_no_operation() {
        for text in [
            "list events",
            "list cameras on gate",
            "get me the people from gate",
            "delete gate",
            "remove the watch",
            "load balancing",
            "count people",
            "find the cat",
            "find for all blobs",
            "import",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        for (text, part) in [
            ("destroy alpha.txt from research now", "destroy needs"),
            ("prune", "prune needs"),
            ("ingest ./data", "ingest needs"),
            ("ingest ./data as research", "source"),
            ("ingest folder::x as ../etc", "not accepted"),
            ("retrieve alpha.txt", "retrieve needs"),
            ("query", "query needs"),
        ] {
            let why = parse(text).unwrap().unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    proptest! {
        #[test]
        fn no_text_fails_and_no_name_is_a_path(text in "(ingest|get|destroy|list|prune) .{0,60}") {
            if let Some(Ok(read)) = parse(&text)
                && let Operation::Retrieve { name, .. } = read.operation
            {
                prop_assert!(!name.name().contains('/') && !name.name().starts_with('.'));
            }
        }
    }
}
