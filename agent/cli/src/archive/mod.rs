//! The command `watchkeeper archive`: the archive of the agent, over its socket.
//!
//! - Files, folders and texts are read here, as the user of the command, and uploaded one by one.

mod get;
mod ingest;
mod status;

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, TryFutureExt as _};
use jiff::tz::TimeZone;
use reqwest::Method;
use serde_json::{Value, json};
use watchkeeper_archive::entry::{Content, Entry, Retention};
use watchkeeper_archive::query::{Matches, Order};
use watchkeeper_archive::verb::{Changed, Destroyed, Found, Pruned};
use watchkeeper_archive::{Answer, EntryName, Query, Selection, Stats, Verb};
use watchkeeper_assistant::archive_access::{ArchiveAccess, MAX_CONTENT, RetrievedContent};
use watchkeeper_assistant::wording::counted;
use watchkeeper_config::{Config, bounded};

use super::agent_client::{AgentClient, AgentSocket};
use super::args::{ArchiveAction, ArchiveQueryArgs, Like};
use super::exit::Failure;
use super::output::Output;
use super::user_file::unread;
use get::header;

/// Largest picture to compare with, in bytes.
const MAX_LIKE_FILE: u64 = 12 << 20;

impl ArchiveAccess for AgentSocket {
    fn run(&self, verb: Verb) -> BoxFuture<'_, Result<Answer, String>> {
        let answer = async move { run_verb(&AgentClient::new(&self.0)?, verb).await };
        answer.map_err(|failure| failure.sentence).boxed()
    }

    fn retrieve(
        &self,
        name: EntryName,
        skip_cache: bool,
    ) -> BoxFuture<'_, Result<RetrievedContent, String>> {
        async move {
            let client = AgentClient::new(&self.0).map_err(|failure| failure.sentence)?;
            let path = format!("archive/entries/{name}?skip_cache={skip_cache}");
            let answer = client.send(client.request(Method::GET, &path)).await;
            let mut answer = answer.map_err(|failure| failure.sentence)?;
            let bytes = answer.content_length().unwrap_or(MAX_CONTENT + 1);
            let mut content = Vec::new();
            while bytes <= MAX_CONTENT
                && let Some(chunk) = answer
                    .chunk()
                    .await
                    .map_err(|error| error.without_url().to_string())?
            {
                content.extend_from_slice(&chunk);
            }
            Ok(RetrievedContent {
                tier: header(&answer, "x-watchkeeper-tier"),
                content_type: header(&answer, "content-type"),
                bytes,
                content: (bytes <= MAX_CONTENT).then(|| Bytes::from(content)),
            })
        }
        .boxed()
    }
}

/// Runs a verb of a session by its route.
async fn run_verb(client: &AgentClient, verb: Verb) -> Result<Answer, Failure> {
    Ok(match verb {
        Verb::List => Answer::Collections {
            collections: client.get("archive").await?,
        },
        Verb::Query { query } => Answer::Matches(client.post("archive/query", &query).await?),
        Verb::Find { words } => Answer::Found(find(&words, client).await?),
        Verb::Ingest(ingest) => Answer::Ingested(ingest::from_source(&ingest, client).await?),
        Verb::Stat { name } => Answer::Entry {
            entry: client.get(&metadata_path(&name)).await?,
        },
        Verb::Stats => Answer::Stats(client.get("archive/stats").await?),
        Verb::Prune { selection } => {
            Answer::Pruned(client.post("archive/prune", &selection).await?)
        }
        Verb::Destroy { selection } => {
            Answer::Destroyed(client.post("archive/destroy", &selection).await?)
        }
        Verb::Protect { selection } => {
            Answer::Changed(client.post("archive/protect", &selection).await?)
        }
        Verb::Unprotect { selection } => {
            Answer::Changed(client.post("archive/unprotect", &selection).await?)
        }
    })
}

async fn find(words: &str, client: &AgentClient) -> Result<Box<Found>, Failure> {
    client
        .post("archive/find", &json!({ "words": words }))
        .await
}

fn metadata_path(name: &EntryName) -> String {
    format!("archive/entries/{name}/metadata")
}

pub(super) async fn run(
    action: ArchiveAction,
    config: &Config,
    out: &Output,
) -> Result<(), Failure> {
    let client = AgentClient::new(&config.agent_api.socket)?;
    match action {
        ArchiveAction::Ingest(args) => ingest::run(*args, &client, out).await,
        ArchiveAction::Query(args) => query(*args, &client, out).await,
        ArchiveAction::List {
            pattern,
            after,
            limit,
        } => list(pattern, after, limit, &client, out).await,
        ArchiveAction::Get {
            name,
            output,
            skip_cache,
        } => get::run(&name, output, skip_cache, &client, out).await,
        ArchiveAction::Stat { name } => stat(&name, &client, out).await,
        ArchiveAction::Prune { what } => {
            let pruned: Pruned = client.post("archive/prune", &what).await?;
            out.both(&pruned, || {
                let copies = pruned.removed.iter();
                let copies = copies.map(|(tier, count)| format!("{count} from {tier}"));
                let copies = copies.collect::<Vec<_>>().join(", ");
                let copies = match copies.as_str() {
                    "" => "nothing",
                    copies => copies,
                };
                match pruned.entries {
                    1 => format!("Pruned {copies}; the entry stays on disk"),
                    entries => format!("Pruned {copies}; {entries} entries stay on disk"),
                }
            });
            note_unreachable(&pruned.unreachable, out);
            Ok(())
        }
        ArchiveAction::Destroy { what, all } => destroy(&what, all, &client, out).await,
        ArchiveAction::Protect { what } => {
            change("protect", "Protected", &what, &client, out).await
        }
        ArchiveAction::Unprotect { what } => {
            change("unprotect", "Lifted the protection of", &what, &client, out).await
        }
        ArchiveAction::Stats => status::stats(&client, out).await,
        ArchiveAction::Verify => status::verify(&client, out).await,
    }
}

async fn query(args: ArchiveQueryArgs, client: &AgentClient, out: &Output) -> Result<(), Failure> {
    match args.words.is_empty() {
        true => query_by_conditions(args, client, out).await,
        false => query_by_words(args, client, out).await,
    }
}

async fn query_by_conditions(
    args: ArchiveQueryArgs,
    client: &AgentClient,
    out: &Output,
) -> Result<(), Failure> {
    let picture = match &args.like {
        Some(Like::File(file)) => Some(encoded(file)?),
        _ => None,
    };
    let file = match &args.like {
        Some(Like::Entry(name)) if Path::new(name.as_str()).is_file() => Some(name.to_string()),
        _ => None,
    };
    let query = Query {
        like_picture: picture,
        ..args.into_query()
    };
    let answer = client.post("archive/query", &query).await;
    let matches = answer.map_err(|failure| match file {
        Some(file) => failure.with([format!("{file} is a file here: --like ./{file}")]),
        None => failure,
    })?;
    print(&matches, out);
    if query.like.is_some() || query.needs_model() {
        note_waiting(client, out).await?;
    }
    Ok(())
}

async fn query_by_words(
    args: ArchiveQueryArgs,
    client: &AgentClient,
    out: &Output,
) -> Result<(), Failure> {
    let Found { query, matches } = *find(&args.words.join(" "), client).await?;
    // Plain data with string keys: serde_json can't fail on it.
    let written = serde_json::to_value(&query).unwrap_or_default();
    let conditions = written.as_object().into_iter().flatten();
    let conditions = conditions.filter(|(key, _)| *key != "order");
    let mut read: Vec<String> = conditions
        .map(|(key, value)| format!("{key} {value}"))
        .collect();
    // By likeness the most alike come first.
    if query.like.is_none() {
        let order = written["order"].as_str().unwrap_or_default();
        read.push(format!("{order} first"));
    }
    out.note(format!("read as: {}", read.join(", ")));
    let matches = match continued(&query, args.after, args.limit) {
        Some(query) => client.post("archive/query", &query).await?,
        None => matches,
    };
    print(&matches, out);
    if query.like.is_some() {
        note_waiting(client, out).await?;
    }
    Ok(())
}

/// Words, read as conditions, with the options of the command, which override their number.
fn continued(query: &Query, after: Option<EntryName>, limit: Option<usize>) -> Option<Query> {
    (after.is_some() || limit.is_some()).then(|| Query {
        after,
        limit: limit.or(query.limit),
        ..query.clone()
    })
}

/// Notes how many pictures an answer by likeness leaves out, because they still wait.
async fn note_waiting(client: &AgentClient, out: &Output) -> Result<(), Failure> {
    let stats: Stats = client.get("archive/stats").await?;
    match stats.embeddings.map_or(0, |embeddings| embeddings.waiting) {
        0 => {}
        1 => out.note("1 picture still waits for its embedding and is left out"),
        waiting => out.note(format!(
            "{waiting} pictures still wait for their embeddings and are left out"
        )),
    }
    Ok(())
}

/// Reads a picture to compare with, in base64.
fn encoded(file: &Path) -> Result<String, Failure> {
    let read = bounded::read_up_to(file, MAX_LIKE_FILE);
    Ok(BASE64.encode(read.map_err(unread(file))?))
}

async fn list(
    pattern: Option<String>,
    after: Option<EntryName>,
    limit: usize,
    client: &AgentClient,
    out: &Output,
) -> Result<(), Failure> {
    if pattern.is_some() {
        let query = Query {
            pattern,
            order: Order::Name,
            after,
            limit: Some(limit),
            ..Query::default()
        };
        print(&client.post("archive/query", &query).await?, out);
        return Ok(());
    }
    let collections: BTreeMap<String, u64> = client.get("archive").await?;
    out.object(&collections);
    if collections.is_empty() {
        out.line("the archive is empty");
        return Ok(());
    }
    let rows = collections
        .iter()
        .map(|(name, count)| vec![name.clone(), count.to_string()]);
    out.table(&["collection", "entries"], rows);
    Ok(())
}

/// Prints an answer, and how it continues.
fn print(found: &Matches, out: &Output) {
    found.entries.iter().for_each(|entry| out.object(entry));
    if found.entries.is_empty() {
        match &found.hint {
            Some(hint) => out.note(hint),
            None => out.line("no such entries"),
        }
        return;
    }
    let rows = found.entries.iter().enumerate().map(|(nth, entry)| {
        let known = &entry.metadata;
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let likeness = found.likeness.get(nth);
        let mut remarks: Vec<String> = likeness
            .map(|likeness| format!("likeness {likeness:.3}"))
            .into_iter()
            .collect();
        if entry.retention == Retention::Protected {
            remarks.push("protected".to_owned());
        }
        if matches!(entry.content, Content::Media(_)) {
            remarks.push("reference".to_owned());
        }
        vec![
            entry.name.to_string(),
            local(entry),
            text(&known.camera),
            text(&known.class),
            text(&known.zone),
            entry.bytes.to_string(),
            remarks.join(", "),
        ]
    });
    out.table(
        &["name", "seen", "camera", "class", "zone", "bytes", ""],
        rows,
    );
    let shown = found.entries.len() as u64;
    if found.matched > shown {
        let more = found.matched - shown;
        let last = found.next.as_ref().map_or("", EntryName::as_str);
        out.note(format!("{more} more match; continue with --after {last}"));
    }
}

/// When it was seen, or else when it was archived, and the output says so.
fn local(entry: &Entry) -> String {
    let at = entry.moment().to_zoned(TimeZone::system());
    let known = match entry.metadata.time {
        Some(_) => "",
        None => " archived",
    };
    format!("{}{known}", at.strftime("%Y-%m-%d %H:%M:%S"))
}

async fn stat(name: &EntryName, client: &AgentClient, out: &Output) -> Result<(), Failure> {
    let entry: Value = client.get(&metadata_path(name)).await?;
    out.both(&entry, || {
        serde_json::to_string_pretty(&entry).unwrap_or_default()
    });
    Ok(())
}

async fn destroy(
    what: &Selection,
    all: bool,
    client: &AgentClient,
    out: &Output,
) -> Result<(), Failure> {
    if let Selection::Collection(name) = what
        && !all
    {
        let sentence = format!(
            "{name:?} without a slash is a whole collection; name one entry as {name}/NAME, or add \
             --all to destroy all entries of it for good"
        );
        return Err(Failure::input(sentence));
    }
    let destroyed: Destroyed = client.post("archive/destroy", what).await?;
    out.both(&destroyed, || {
        let note = match destroyed.references {
            0 => String::new(),
            1 => "; 1 was a reference, its media stay with the runtime".to_owned(),
            count => format!("; {count} were references, their media stay with the runtime"),
        };
        let entries = counted(destroyed.entries, "entry");
        format!("Destroyed {entries} for good{note}")
    });
    note_unreachable(&destroyed.unreachable, out);
    Ok(())
}

/// Names the fast tiers that did not answer.
fn note_unreachable(tiers: &[String], out: &Output) {
    for tier in tiers {
        out.note(format!(
            "{tier} did not answer; what it holds expires there"
        ));
    }
}

async fn change(
    route: &str,
    done: &str,
    what: &Selection,
    client: &AgentClient,
    out: &Output,
) -> Result<(), Failure> {
    let changed: Changed = client.post(&format!("archive/{route}"), what).await?;
    out.both(&changed, || {
        format!("{done} {}", counted(changed.entries, "entry"))
    });
    let why = "the runtime's retention had removed";
    match changed.gone {
        0 => {}
        1 => out.note(format!("1 reference was dropped: {why} its media")),
        gone => out.note(format!("{gone} references were dropped: {why} their media")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_in_words_stays_unless_an_option_overrides_it() {
        let words = Query {
            limit: Some(5),
            ..Query::default()
        };
        let after: Option<EntryName> = "yard/a.jpg".parse().ok();
        let limit = |query: &Query, limit| continued(query, after.clone(), limit)?.limit;
        assert_eq!(limit(&words, None), Some(5));
        assert_eq!(limit(&words, Some(100)), Some(100));
        assert_eq!(limit(&Query::default(), None), None);
        let page = continued(&words, after.clone(), None);
        assert_eq!(page.and_then(|query| query.after), after);
        // The answer to the words alone serves.
        assert!(continued(&words, None, None).is_none());
        let longer = continued(&words, None, Some(100));
        assert_eq!(longer.and_then(|query| query.limit), Some(100));
    }
}
