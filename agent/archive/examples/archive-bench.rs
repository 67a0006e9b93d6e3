//! Benchmark of queries over many entries, against a scan in memory and SQLite with indices.
//!
//!     cargo run --release -p watchkeeper-archive --example archive-bench [ENTRIES [NUMBERS]]
//!
//! - It fills an archive in a temporary folder with ENTRIES (default 100,000, one a minute). Each
//!   entry has an embedding of NUMBERS (default 640) numbers. It asks each query ten times.
//! - The scan looks at the same entries in memory: the least that a search without an index does.
//! - SQLite has the same columns and records, with indices of name, of time, of event, and of
//!   class, camera and time. It has no likeness. All three return the records of the newest 100,
//!   and count what matches.
//! - It prints medians of processor time, which a busy machine does not change much. A query keeps
//!   one core busy.
//! - It prints the memory of the archive alone, before the others have their copies. This is
//!   resident memory after the fill and after the first query by likeness.
//! - At last it changes embeddings, alone and during queries by likeness: how long a change waits.
#![allow(clippy::print_stdout, reason = "a command's output")]

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp, Zoned};
use rusqlite::{Connection, params};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use watchkeeper_archive::query::Matches;
use watchkeeper_archive::words::CameraNames;
use watchkeeper_archive::{
    Archive, ContentHash, EmbeddingOutcome, Entry, EntryName, Limits, Metadata, NewEntry, Query,
    Settings,
};

type Done<T> = Result<T, Box<dyn Error>>;

const CAMERAS: [&str; 8] = [
    "gate", "yard", "dock-1", "dock-2", "lobby", "fence", "hall", "road",
];
const CLASSES: [&str; 5] = ["car", "truck", "person", "bicycle", "dog"];
const TIMES: usize = 10;
/// Embeddings that are changed, alone and during queries.
const CHANGES: usize = 200;
const PAGE: usize = 1_000;
/// Event of the first entry.
const EVENT: &str = "01J00000000000000000000000";
/// Entries of an answer.
const LIMIT: usize = 100;

/// A query in three forms.
struct Question {
    name: &'static str,
    query: Query,
    /// Asked in place of `query`.
    words: Option<&'static str>,
    matches: Box<dyn Fn(&Entry) -> bool>,
    /// Condition and its parameters.
    sql: Option<(&'static str, Vec<String>)>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done<()> {
    let mut arguments = std::env::args().skip(1);
    let entries = arguments.next().map_or(Ok(100_000), |n| n.parse())?;
    let numbers = arguments.next().map_or(Ok(640), |n| n.parse())?;
    let folder = tempfile::tempdir()?;
    let began = Instant::now();
    let before = memory()?;
    let (archive, vectors) = fill(folder.path(), entries, numbers).await?;
    let own = before + vectors.capacity() as u64;
    let filled = memory()?.saturating_sub(own);
    let first = Query {
        like: Some(EntryName::new("events", "000000-clean.jpg")?),
        ..Query::default()
    };
    archive.query(first).await?;
    let compared = memory()?.saturating_sub(own);
    let per_entry = |bytes: u64| bytes / entries.max(1) as u64;
    println!(
        "memory: {} bytes an entry, {} with the embeddings",
        per_entry(filled),
        per_entry(compared)
    );
    let everything = all(&archive).await?;
    let sqlite = table(&folder.path().join("peer"), &everything)?;
    let (filled, count) = (began.elapsed(), everything.len());
    println!("{count} entries with {numbers} numbers each, filled in {filled:.0?}");
    println!("| query | matched | archive, ms | scan in memory, ms | SQLite, ms |");
    println!("|---|---|---|---|---|");
    for question in questions(&everything)? {
        let found = question.ask(&archive).await?;
        let (mut ours, mut scan, mut peer) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..TIMES {
            let began = processor_time();
            let again = question.ask(&archive).await?;
            ours.push(processor_time() - began);
            assert_eq!(again.matched, found.matched);
            let began = processor_time();
            let names = match &question.query.like {
                Some(_) => alike(&everything, &vectors, numbers, &question.matches),
                None => newest(&everything, &question.matches),
            };
            scan.push(processor_time() - began);
            let of_archive = found.entries.iter().map(|entry| &entry.name);
            assert!(of_archive.eq(names.iter()), "{}", question.name);
            if let Some((condition, values)) = &question.sql {
                let began = processor_time();
                let matched = ask(&sqlite, condition, values)?;
                peer.push(processor_time() - began);
                assert_eq!(matched, found.matched, "{}", question.name);
            }
        }
        println!(
            "| {} | {} | {} | {} | {} |",
            question.name,
            found.matched,
            line(ours),
            line(scan),
            line(peer)
        );
    }
    let alone = changes(&archive, numbers).await?;
    let like = questions(&everything)?
        .into_iter()
        .find(|q| q.query.like.is_some());
    let like = like.ok_or("no query by likeness")?;
    let queries = async {
        loop {
            if let Err(error) = like.ask(&archive).await {
                return error;
            }
        }
    };
    let beside = tokio::select! {
        waits = changes(&archive, numbers) => waits?,
        error = queries => return Err(error),
    };
    let longest = |waits: &[Duration]| line(waits.iter().max().copied().into_iter().collect());
    println!("| {CHANGES} changes of an embedding, ms | median | longest |");
    println!("|---|---|---|");
    println!("| alone | {} | {} |", line(alone.clone()), longest(&alone));
    println!(
        "| beside queries | {} | {} |",
        line(beside.clone()),
        longest(&beside)
    );
    Ok(())
}

/// Replaces embeddings; returns the time that each change took.
async fn changes(archive: &Archive, numbers: usize) -> Done<Vec<Duration>> {
    let mut waits = Vec::new();
    for n in 1..=CHANGES {
        let vector = (0..numbers).map(|at| (at % (n + 1)) as f32).collect();
        let made = EmbeddingOutcome::Vector(vector);
        let made = (hash(n), "digest".to_owned(), made);
        let began = Instant::now();
        archive.settle_embedding(n as u64 + 1, Some(made)).await?;
        waits.push(began.elapsed());
    }
    Ok(waits)
}

impl Question {
    async fn ask(&self, archive: &Archive) -> Done<Matches> {
        Ok(match self.words {
            Some(words) => {
                archive
                    .find(words.to_owned(), Zoned::now(), CameraNames::new())
                    .await?
                    .matches
            }
            None => archive.query(self.query.clone()).await?,
        })
    }
}

fn questions(all: &[Entry]) -> Done<Vec<Question>> {
    let middle = all.get(all.len() / 2).ok_or("no entry")?.moment();
    let until = middle + SignedDuration::from_hours(24);
    let first = all.first().ok_or("no entry")?;
    let query = |json| serde_json::from_value::<Query>(json);
    let of_day = move |entry: &Entry| (middle..until).contains(&entry.moment());
    let day = vec![middle.to_string(), until.to_string()];
    let trucks = vec!["truck".to_owned(), "gate".to_owned()];
    Ok(vec![
        Question {
            name: "all",
            query: Query::default(),
            words: None,
            matches: Box::new(|_| true),
            sql: Some(("1", Vec::new())),
        },
        Question {
            name: "pattern `events/*7-clean.jpg`",
            query: query(json!({"pattern": "events/*7-clean.jpg"}))?,
            words: None,
            matches: Box::new(|entry| entry.name.as_str().ends_with("7-clean.jpg")),
            sql: Some(("name GLOB ?1", vec!["events/*7-clean.jpg".to_owned()])),
        },
        Question {
            name: "one day",
            query: query(json!({"since": middle, "until": until}))?,
            words: None,
            matches: Box::new(of_day),
            sql: Some(("time >= ?1 AND time < ?2", day.clone())),
        },
        Question {
            name: "class and camera",
            query: query(json!({"class": "truck", "camera": "gate"}))?,
            words: None,
            matches: Box::new(is_truck_at_gate),
            sql: Some(("class = ?1 AND camera = ?2", trucks.clone())),
        },
        Question {
            name: "the words `trucks at the gate`",
            query: Query::default(),
            words: Some("trucks at the gate"),
            matches: Box::new(is_truck_at_gate),
            sql: Some(("class = ?1 AND camera = ?2", trucks.clone())),
        },
        Question {
            name: "class, camera and one day",
            query: query(json!({"class": "truck", "camera": "gate",
                "since": middle, "until": until}))?,
            words: None,
            matches: Box::new(move |entry| is_truck_at_gate(entry) && of_day(entry)),
            sql: Some((
                "class = ?1 AND camera = ?2 AND time >= ?3 AND time < ?4",
                [trucks, day].concat(),
            )),
        },
        Question {
            name: "event",
            query: query(json!({"event": first.metadata.event}))?,
            words: None,
            matches: Box::new(|entry| entry.metadata.event.as_deref() == Some(EVENT)),
            sql: Some(("event = ?1", vec![EVENT.to_owned()])),
        },
        Question {
            name: "text `ab 421`",
            query: query(json!({"text": "ab 421"}))?,
            words: None,
            matches: Box::new(has_text),
            sql: Some(("text LIKE ?1", vec!["%ab 421%".to_owned()])),
        },
        Question {
            name: "text `ab 421`, class and camera",
            query: query(json!({"text": "ab 421", "class": "truck", "camera": "gate"}))?,
            words: None,
            matches: Box::new(|entry| is_truck_at_gate(entry) && has_text(entry)),
            sql: Some((
                "text LIKE ?1 AND class = ?2 AND camera = ?3",
                ["%ab 421%", "truck", "gate"].map(str::to_owned).to_vec(),
            )),
        },
        Question {
            name: "likeness",
            query: query(json!({"like": first.name}))?,
            words: None,
            matches: Box::new(|_| true),
            sql: None,
        },
        Question {
            name: "likeness, class and camera",
            query: query(json!({"like": first.name, "class": "truck", "camera": "gate"}))?,
            words: None,
            matches: Box::new(is_truck_at_gate),
            sql: None,
        },
    ])
}

fn is_truck_at_gate(entry: &Entry) -> bool {
    let known = &entry.metadata;
    known.class.as_deref() == Some("truck") && known.camera.as_deref() == Some("gate")
}

fn has_text(entry: &Entry) -> bool {
    let text = entry.metadata.text.as_deref().unwrap_or_default();
    text.to_lowercase().contains("ab 421")
}

/// Opens an archive and fills it with references to pictures. Returns their embeddings too.
async fn fill(folder: &Path, entries: usize, numbers: usize) -> Done<(Archive, Vec<i8>)> {
    let (archive, _) = Archive::open(Settings {
        folder: folder.join("archive"),
        limits: Limits::default(),
        memory_bytes: 0,
        shared: None,
        objects: None,
    })?;
    let mut random = fastrand::Rng::with_seed(1);
    let mut vectors = Vec::with_capacity(entries * numbers);
    let start: Timestamp = "2026-01-01T00:00:00Z".parse()?;
    for from in (0..entries).step_by(PAGE) {
        let mut page = Vec::new();
        for n in from..entries.min(from + PAGE) {
            let mut new = NewEntry::named(EntryName::new("events", &format!("{n:06}-clean.jpg"))?);
            new.metadata = metadata(n, start, &mut random)?;
            page.push((new, hash(n), 80_000, format!("media-{n}")));
        }
        archive.add_references(page, from as u64).await?;
        for n in from..entries.min(from + PAGE) {
            // Whole numbers, the largest 127: kept as they are.
            let mut vector: Vec<i8> = (0..numbers).map(|_| random.i8(-126..127)).collect();
            vector.first_mut().into_iter().for_each(|x| *x = 127);
            let made = EmbeddingOutcome::Vector(vector.iter().map(|x| f32::from(*x)).collect());
            vectors.extend(vector);
            let made = (hash(n), "digest".to_owned(), made);
            archive.settle_embedding(n as u64 + 1, Some(made)).await?;
        }
    }
    Ok((archive, vectors))
}

fn hash(n: usize) -> ContentHash {
    ContentHash::of(&n.to_be_bytes())
}

fn metadata(n: usize, start: Timestamp, random: &mut fastrand::Rng) -> Done<Metadata> {
    let some = |from: &[&str], at: usize| from.get(at % from.len()).map(|&text| text.to_owned());
    let minutes = i64::try_from(n)?;
    Ok(Metadata {
        camera: some(&CAMERAS, random.usize(..)),
        class: some(&CLASSES, random.usize(..)),
        zone: some(&["bay 1", "bay 2", "lane"], random.usize(..)),
        time: Some(start + SignedDuration::from_mins(minutes)),
        tracks: vec![minutes],
        event: Some(format!("01J{n:023}")),
        text: Some(format!("HH AB {}", n * 7_919 % 10_000)),
        ..Metadata::default()
    })
}

async fn all(archive: &Archive) -> Done<Vec<Entry>> {
    let mut query: Query = serde_json::from_str(r#"{"order": "name", "limit": 1000}"#)?;
    let mut all = Vec::new();
    loop {
        let found = archive.query(query.clone()).await?;
        all.extend(found.entries);
        query.after = found.next;
        if query.after.is_none() {
            return Ok(all);
        }
    }
}

fn table(path: &Path, all: &[Entry]) -> Done<Connection> {
    let mut sqlite = Connection::open(path)?;
    sqlite.execute_batch(
        "CREATE TABLE entries (name TEXT PRIMARY KEY, class TEXT, camera TEXT, time TEXT,
             event TEXT, text TEXT, record TEXT);
         CREATE INDEX times ON entries (time);
         CREATE INDEX events ON entries (event);
         CREATE INDEX seen ON entries (class, camera, time);",
    )?;
    let batch = sqlite.transaction()?;
    for entry in all {
        let known = &entry.metadata;
        let (time, record) = (entry.moment().to_string(), serde_json::to_string(entry)?);
        batch.execute(
            "INSERT INTO entries VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                entry.name.as_str(),
                known.class,
                known.camera,
                time,
                known.event,
                known.text,
                record
            ],
        )?;
    }
    batch.commit()?;
    Ok(sqlite)
}

/// Counts what matches in SQLite, and reads the newest of it.
fn ask(sqlite: &Connection, condition: &str, values: &[String]) -> Done<u64> {
    let values = rusqlite::params_from_iter(values);
    let count = format!("SELECT count(*) FROM entries WHERE {condition}");
    let matched: i64 = sqlite.query_row(&count, values.clone(), |row| row.get(0))?;
    let newest = format!(
        "SELECT record FROM entries WHERE {condition} ORDER BY time DESC, name LIMIT {LIMIT}"
    );
    let mut newest = sqlite.prepare(&newest)?;
    let records = newest.query_map(values, |row| row.get::<_, String>(0))?;
    for record in records {
        std::hint::black_box(serde_json::from_str::<Entry>(&record?)?);
    }
    Ok(u64::try_from(matched)?)
}

fn newest(all: &[Entry], matches: &dyn Fn(&Entry) -> bool) -> Vec<EntryName> {
    let mut found: Vec<&Entry> = all.iter().filter(|entry| matches(entry)).collect();
    found.sort_by(|a, b| {
        b.moment()
            .cmp(&a.moment())
            .then_with(|| a.name.cmp(&b.name))
    });
    let found = found.into_iter().take(LIMIT);
    found.map(|entry| entry.name.clone()).collect()
}

/// The most alike to the first entry; names and vectors are in one order.
fn alike(
    all: &[Entry],
    vectors: &[i8],
    numbers: usize,
    matches: &dyn Fn(&Entry) -> bool,
) -> Vec<EntryName> {
    let first = vectors.get(..numbers).unwrap_or_default();
    let dot = |a: &[i8], b: &[i8]| -> f64 {
        let pairs = a.iter().zip(b);
        f64::from(
            pairs
                .map(|(a, b)| i32::from(*a) * i32::from(*b))
                .sum::<i32>(),
        )
    };
    let own = dot(first, first);
    let likeness = |other: &[i8]| dot(first, other) / (own * dot(other, other)).sqrt();
    let pairs = vectors.chunks_exact(numbers).zip(all);
    let mut ranked: Vec<(f64, &Entry)> = pairs
        .filter(|(_, entry)| matches(entry))
        .map(|(vector, entry)| (likeness(vector), entry))
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let best = ranked.into_iter().take(LIMIT);
    best.map(|(_, entry)| entry.name.clone()).collect()
}

/// Resident memory of this process, in bytes.
fn memory() -> Done<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    let kibibytes: u64 = number.ok_or("no VmRSS in /proc/self/status")?.parse()?;
    Ok(kibibytes << 10)
}

/// Processor time of this process so far.
fn processor_time() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(spent.tv_sec).unwrap_or_default(),
        u32::try_from(spent.tv_nsec).unwrap_or_default(),
    )
}

/// Median in milliseconds.
fn line(mut times: Vec<Duration>) -> String {
    times.sort();
    let median = times.get(times.len() / 2);
    median.map_or("–".to_owned(), |time| {
        format!("{:.1}", time.as_secs_f64() * 1e3)
    })
}
