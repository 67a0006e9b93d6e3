//! `kill -9` in the middle of ingests: what was acknowledged is there, once, and nothing else.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use jiff::Timestamp;
use watchkeeper_archive::durable::{Durable, Limits};
use watchkeeper_archive::{ContentHash, Selection};

use crate::support::{ingest, name, open, read, settings};

/// Names the folder for the child of this test.
const FOLDER: &str = "WATCHKEEPER_ARCHIVE_KILL_TEST";
/// Kills without `WATCHKEEPER_SOAK=1`.
const KILLS: u32 = 8;
const SOAK_KILLS: u32 = 100;

/// The content that a name has after its `round`-th ingest; every third is shared by names.
fn content(number: u32, round: u32) -> Vec<u8> {
    match round % 3 {
        0 => format!("shared {round}").into_bytes(),
        _ => vec![u8::try_from(round % 251).unwrap(); 5_000 + number as usize],
    }
}

/// Ingests and destroys until it is killed; reports on standard output what was acknowledged.
#[expect(clippy::print_stdout, reason = "the parent reads it")]
#[tokio::test]
#[ignore = "the process that another test kills"]
async fn child_ingests_until_it_is_killed() {
    let folder = std::env::var_os(FOLDER).unwrap();
    let archive = open(settings(folder.as_ref()));
    let first: u32 = fastrand::u32(..1_000);
    for round in first.. {
        let number = fastrand::u32(..12);
        let text = format!("yard/{number}");
        if fastrand::u32(..5) == 0 {
            println!("\nbegin {text} destroy");
            let destroyed = archive.destroy(Selection::Entry(name(&text))).await;
            if destroyed.is_ok() {
                println!("\ndone {text} destroy");
            }
            continue;
        }
        let content = content(number, round);
        let hash = ContentHash::of(&content);
        println!("\nbegin {text} {hash}");
        ingest(&archive, &text, &content).await;
        println!("\ndone {text} {hash}");
    }
}

/// States in which each name may be stored: the acknowledged one, and that of a change under way.
#[derive(Debug, Default)]
struct Known {
    acknowledged: BTreeMap<String, String>,
    under_way: Option<(String, String)>,
}

impl Known {
    fn take(&mut self, line: &str) {
        let mut words = line.split(' ');
        match (words.next(), words.next(), words.next()) {
            (Some("begin"), Some(name), Some(state)) => {
                self.under_way = Some((name.to_owned(), state.to_owned()));
            }
            (Some("done"), Some(name), Some(state)) => {
                self.under_way = None;
                self.acknowledged.insert(name.to_owned(), state.to_owned());
            }
            _ => {}
        }
    }
}

fn run_and_kill(folder: &std::path::Path, known: &mut Known) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "kill::child_ingests_until_it_is_killed",
            "--nocapture",
        ])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let reader =
        std::thread::spawn(move || output.lines().map_while(Result::ok).collect::<Vec<_>>());
    std::thread::sleep(Duration::from_millis(300 + fastrand::u64(..500)));
    child.kill().unwrap();
    child.wait().unwrap();
    reader
        .join()
        .unwrap()
        .iter()
        .for_each(|line| known.take(line));
}

/// Compares the archive with what was acknowledged, and adopts what was under way.
async fn check(folder: &std::path::Path, known: &mut Known) {
    let archive = open(settings(folder));
    let under_way = known.under_way.take();
    for number in 0..12 {
        let text = format!("yard/{number}");
        let mut expected = vec![known.acknowledged.get(&text).cloned()];
        if let Some((name, state)) = &under_way
            && *name == text
        {
            expected.push(Some(state.clone()));
        }
        let found = archive.stat(&name(&text)).await.ok();
        let state = match &found {
            Some(entry) => {
                let (_, content) = read(&archive, &text).await;
                assert_eq!(ContentHash::of(&content), entry.sha256, "{text}");
                entry.sha256.to_string()
            }
            None => "destroy".to_owned(),
        };
        let matches = |expected: &Option<String>| match expected {
            Some(expected) => *expected == state,
            None => state == "destroy",
        };
        assert!(
            expected.iter().any(matches),
            "{text}: {state}, not {expected:?}"
        );
        known.acknowledged.insert(text, state);
    }
    drop(archive);
    let (durable, found) = Durable::open(folder, Limits::default(), false).unwrap();
    // The first opening after the kill deleted what had no entry.
    assert_eq!(
        (found.orphans_deleted, found.missing, found.unreadable),
        (0, 0, 0)
    );
    let mut contents = std::collections::BTreeSet::new();
    let visit = |entry: watchkeeper_archive::Entry| {
        contents.insert(entry.sha256);
    };
    durable.scan(Timestamp::now(), visit).unwrap();
    let files = std::fs::read_dir(folder.join("blobs")).unwrap().count();
    assert_eq!(files, contents.len());
    assert_eq!(
        std::fs::read_dir(folder.join("staging")).unwrap().count(),
        0
    );
}

#[tokio::test]
async fn killed_archive_has_all_it_acknowledged_and_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let mut known = Known::default();
    let kills = match std::env::var_os("WATCHKEEPER_SOAK") {
        Some(_) => SOAK_KILLS,
        None => KILLS,
    };
    for _ in 0..kills {
        run_and_kill(folder.path(), &mut known);
        check(folder.path(), &mut known).await;
    }
    assert!(known.acknowledged.values().any(|state| state != "destroy"));
}
