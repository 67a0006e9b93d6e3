//! State of the archive: the commands `watchkeeper archive stats` and `verify`.

use serde_json::json;
use watchkeeper_archive::{EmbeddingStats, EntryName, Stats, TierStats, Verified};
use watchkeeper_assistant::wording::counted;

use super::super::agent_client::AgentClient;
use super::super::exit::Failure;
use super::super::output::Output;

/// Damaged entries that are named.
const MAX_NAMED: usize = 100;

/// Verifies the whole archive, a part in each request.
pub(super) async fn verify(client: &AgentClient, out: &Output) -> Result<(), Failure> {
    let mut all = Verified::default();
    out.busy("reading all contents of the archive");
    loop {
        let part: Verified = client
            .post("archive/verify", &json!({ "after": all.next }))
            .await?;
        all.contents += part.contents;
        all.bytes += part.bytes;
        all.damaged.extend(part.damaged);
        all.repaired.extend(part.repaired);
        all.unknown.extend(part.unknown);
        all.why = part.why.or(all.why);
        all.copied_again += part.copied_again;
        all.copies_unknown = part.copies_unknown.or(all.copies_unknown);
        all.next = part.next;
        if all.next.is_none() {
            break;
        }
    }
    out.both(&all, || {
        format!(
            "Read {} with {}",
            counted(all.contents, "content"),
            counted(all.bytes, "byte")
        )
    });
    for name in &all.repaired {
        out.note(format!(
            "{name} was damaged; a copy from another tier has replaced it"
        ));
    }
    if all.copied_again > 0 {
        out.note(format!(
            "s3 had lost its copies of {}; they are made again",
            counted(all.copied_again, "content")
        ));
    }
    if let Some(why) = &all.copies_unknown {
        out.note(format!(
            "it is not known whether each content has its copy: {why}"
        ));
    }
    failure_of(&all).map_or(Ok(()), Err)
}

/// Returns the failure of a verification that leaves damaged entries. Those that may have a copy
/// are named apart: to destroy one would destroy that copy too.
fn failure_of(found: &Verified) -> Option<Failure> {
    let mut lines = Vec::new();
    let named = |names: &[EntryName]| -> Vec<String> {
        let names = names.iter().take(MAX_NAMED);
        names.map(ToString::to_string).collect()
    };
    if !found.damaged.is_empty() {
        let damaged = counted(found.damaged.len() as u64, "entry");
        lines.push(format!(
            "{damaged} damaged or without content, and no tier has a copy; ingest again or destroy:"
        ));
        lines.extend(named(&found.damaged));
    }
    if !found.unknown.is_empty() {
        let unknown = counted(found.unknown.len() as u64, "entry");
        lines.push(format!(
            "{unknown} damaged or without content, and perhaps with a copy in another tier; \
             destroy none of them, and verify again when that tier answers:"
        ));
        lines.extend(named(&found.unknown));
        lines.extend(found.why.as_ref().map(|why| format!("the last one: {why}")));
    }
    let mut lines = lines.into_iter();
    let sentence = lines.next()?;
    Some(Failure::failed(sentence).with(lines))
}

pub(super) async fn stats(client: &AgentClient, out: &Output) -> Result<(), Failure> {
    let stats: Stats = client.get("archive/stats").await?;
    out.object(&stats);
    if out.is_json() {
        return Ok(());
    }
    out.line(format!(
        "{} and {}, {} with {} of {}",
        counted(stats.entries, "entry"),
        counted(stats.references, "reference"),
        counted(stats.contents, "content"),
        stats.bytes,
        counted(stats.max_bytes, "byte")
    ));
    if stats.evictions > 0 {
        let evicted = counted(stats.evictions, "entry");
        out.line(format!("deleted to make room since the start: {evicted}"));
    }
    out.line(format!(
        "records: {} for entries and {} for references, each of {}",
        counted(stats.record_bytes, "byte"),
        counted(stats.reference_bytes, "byte"),
        counted(stats.max_record_bytes, "byte")
    ));
    out.line(format!(
        "in memory: {} with {} of {}",
        counted(stats.cached_contents, "content"),
        stats.cached_bytes,
        counted(stats.max_cached_bytes, "byte")
    ));
    out.table(
        &["tier", "hits", "misses", "errors", "invalid", "down"],
        stats.tiers.iter().map(row_of),
    );
    if stats.orphans_kept > 0 {
        out.note(format!(
            "records were lost; archive/blobs of the state folder keeps {} without an entry. \
             Ingest them again, or move them away",
            counted(stats.orphans_kept, "content")
        ));
    }
    if let Some(embeddings) = &stats.embeddings {
        show_embeddings(embeddings, out);
    }
    if let Some(note) = objects_note(&stats) {
        out.note(note);
    }
    if stats.objects_too_large > 0 {
        let large = counted(stats.objects_too_large, "content");
        out.note(format!("{large} of more than 64 MiB without a copy in S3"));
    }
    Ok(())
}

/// Tasks that the object tier still has, or will have once it is configured again.
fn objects_note(stats: &Stats) -> Option<String> {
    let tasks = counted(stats.objects_waiting, "task");
    match stats.tiers.iter().any(|tier| tier.tier == "s3") {
        _ if stats.objects_waiting == 0 => None,
        true => Some(format!(
            "the object tier has {tasks} to do: copies and deletions"
        )),
        false => Some(format!(
            "S3 is not configured; until it is again, {tasks} of it wait: copies and deletions"
        )),
    }
}

/// Prints how many pictures wait for an embedding, and why.
fn show_embeddings(embeddings: &EmbeddingStats, out: &Output) {
    let why = embeddings.why.as_ref();
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    out.line(format!(
        "embeddings since the start: {} made, {} refused; waiting: {}{why}",
        embeddings.made,
        embeddings.refused,
        counted(embeddings.waiting, "picture")
    ));
}

/// Counts of a tier, and why its endpoints are down.
fn row_of(tier: &TierStats) -> Vec<String> {
    let down = tier.endpoints.iter().filter(|endpoint| !endpoint.is_up);
    let down = down.map(|endpoint| {
        let (name, why) = (&endpoint.endpoint, endpoint.error.as_deref());
        match why.unwrap_or("no answer") {
            why if why.starts_with(name) => why.to_owned(),
            why => format!("{name}: {why}"),
        }
    });
    let down: Vec<_> = down.collect();
    let counts = [tier.hits, tier.misses, tier.errors, tier.invalid];
    let mut row = vec![tier.tier.clone()];
    row.extend(counts.iter().map(u64::to_string));
    row.push(down.join(", "));
    row
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    #[test]
    fn tasks_of_a_tier_that_is_switched_off_wait_for_it() {
        let of = |tiers: &[&str], tasks: u64| {
            let tiers = tiers.iter().map(|tier| TierStats {
                tier: (*tier).to_owned(),
                ..TierStats::default()
            });
            objects_note(&Stats {
                tiers: tiers.collect(),
                objects_waiting: tasks,
                ..Stats::default()
            })
        };
        assert!(
            of(&["durable", "s3"], 2)
                .unwrap()
                .contains("has 2 tasks to do")
        );
        assert_eq!(of(&["durable", "s3"], 0), None);
        let note = of(&["durable"], 2).unwrap();
        assert!(
            note.contains("not configured") && note.contains("2 tasks"),
            "{note}"
        );
    }

    #[test]
    fn entry_that_may_have_a_copy_is_never_to_be_destroyed() {
        let name = |text: &str| text.parse::<EntryName>().unwrap();
        let mut found = Verified {
            unknown: vec![name("yard/a.jpg")],
            why: Some("connection refused".to_owned()),
            ..Verified::default()
        };
        let said = failure_of(&found).unwrap().to_string();
        assert!(
            said.contains("destroy none") && said.contains("yard/a.jpg"),
            "{said}"
        );
        assert!(said.contains("connection refused"), "{said}");
        assert!(!said.contains("no tier has a copy"), "{said}");
        found.damaged.push(name("yard/b.jpg"));
        let said = failure_of(&found).unwrap().to_string();
        let (lost, kept) = said.split_once("perhaps").unwrap();
        assert!(
            lost.contains("yard/b.jpg") && !lost.contains("yard/a.jpg"),
            "{said}"
        );
        assert!(
            kept.contains("yard/a.jpg") && !kept.contains("yard/b.jpg"),
            "{said}"
        );
        assert!(failure_of(&Verified::default()).is_none());
    }
}
