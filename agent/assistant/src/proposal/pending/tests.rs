//! Proposals that wait on disk, and what is refused there.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::super::conversation::{CONFIRM_TIMEOUT_S, ShownChanges, ShownEffect};
use super::super::llm_proposal::LlmProposal;
use super::*;
use crate::operations::grammar;
use crate::operations::proposed_action::{ProposedAction, ProposedActions};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn later(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn shown(request: &str) -> ShownProposal {
    ShownProposal {
        request: request.to_owned(),
        at: NOW,
        effect: ShownEffect::Changes(changes()),
    }
}

fn changes() -> ShownChanges {
    ShownChanges {
        fingerprint: "m".to_owned(),
        ..ShownChanges::default()
    }
}

fn here() -> (tempfile::TempDir, PendingProposals) {
    let dir = tempfile::tempdir().unwrap();
    let waiting = PendingProposals::new(&dir.path().join("state/watchkeeper"));
    (dir, waiting)
}

#[test]
fn proposal_is_taken_once_by_another_process() {
    let (_dir, waiting) = here();
    let socket = Path::new("/run/a.sock");
    let id = waiting
        .keep(socket, &shown("count cars"), None, NOW)
        .unwrap();
    let other = PendingProposals::new(&waiting.folder);
    assert_eq!(
        other.take(&id.to_uppercase(), socket, later(10)).unwrap(),
        shown("count cars")
    );
    let again = other.take(&id, socket, later(10)).unwrap_err().to_string();
    assert!(again.contains("ask again"), "{again}");
}

#[test]
fn proposal_that_waits_for_the_disk_stops_no_other_task() {
    let (_dir, waiting) = here();
    let lock = waiting.lock().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.build().unwrap();
    runtime.block_on(async {
        let shown = shown("count cars");
        let keep = move |all: &PendingProposals| all.keep(Path::new("/a"), &shown, None, NOW);
        // The only thread runs this while the disk, here the lock, lets the writer wait.
        let other = async { lock.unlock().unwrap() };
        let (kept, ()) = tokio::join!(waiting.in_background(keep), other);
        assert_eq!(waiting.list(NOW).unwrap()[0].id, kept.unwrap());
    });
}

#[test]
fn request_time_is_stored_to_the_nanosecond() {
    let (_dir, waiting) = here();
    let shown = ShownProposal {
        at: Timestamp::new(1, 234_567_891).unwrap(),
        ..shown("pause gate for two hours")
    };
    let id = waiting
        .keep(Path::new("/a"), &shown, None, later(2))
        .unwrap();
    assert_eq!(waiting.take(&id, Path::new("/a"), later(3)).unwrap(), shown);
}

#[test]
fn llm_proposal_is_stored_whole() {
    let (_dir, waiting) = here();
    let llm_proposal = LlmProposal {
        model: "m".to_owned(),
        says: "Stops it.".to_owned(),
        evidence: vec!["tried on 10 s".to_owned()],
        changes: vec![crate::proposal::llm_proposal::ProposedChange::Stop {
            pipeline: watchkeeper_contract::id::PipelineId::new("p").unwrap(),
        }],
        ..LlmProposal::default()
    };
    let shown = ShownProposal {
        effect: ShownEffect::Changes(ShownChanges {
            llm_proposal: Some(llm_proposal),
            ..changes()
        }),
        ..shown("räum auf")
    };
    let id = waiting.keep(Path::new("/a"), &shown, None, NOW).unwrap();
    assert_eq!(waiting.take(&id, Path::new("/a"), NOW).unwrap(), shown);
}

#[test]
fn actions_are_stored_as_they_were_shown() {
    let (_dir, waiting) = here();
    let archive = |text: &str| ProposedAction::Archive {
        operation: grammar::parse(text).unwrap().unwrap().operation,
    };
    let request = "group the pictures in /a by day".to_owned();
    for action in [
        ProposedAction::Job { request },
        archive("destroy research"),
        archive("ingest mem::x as notes"),
        archive("retrieve a.txt from research skip cache"),
    ] {
        let actions = ProposedActions {
            actions: vec![action],
            model: Some("m".to_owned()),
        };
        let shown = ShownProposal::from_actions(actions, NOW);
        let id = waiting.keep(Path::new("/a"), &shown, None, NOW).unwrap();
        assert_eq!(waiting.take(&id, Path::new("/a"), NOW).unwrap(), shown);
    }
}

#[test]
fn proposals_of_one_entrypoint_evict_none_of_another() {
    let (_dir, waiting) = here();
    let keep = |entrypoint, request: &str| {
        let conversation = request.to_owned();
        let by = Requester {
            entrypoint,
            conversation,
        };
        let kept = waiting.keep(Path::new("/a"), &shown(request), Some(by), NOW);
        kept.unwrap()
    };
    let local = keep(Entrypoint::Local, "count cars");
    let first = keep(Entrypoint::Remote, "0");
    for nth in 1..=MAX_PENDING {
        keep(Entrypoint::Remote, &nth.to_string());
    }
    assert_eq!(waiting.list(NOW).unwrap().len(), 1 + MAX_PENDING);
    assert!(waiting.take(&local, Path::new("/a"), NOW).is_ok());
    let gone = waiting.take(&first, Path::new("/a"), NOW).unwrap_err();
    assert!(gone.to_string().contains("replaced by newer"), "{gone}");
}

#[test]
fn proposal_of_an_earlier_version_waits_without_its_trial() {
    let (_dir, waiting) = here();
    let trial = json!({"pipeline": "p", "camera": "yard", "price": {"processor_share": 0.1}});
    let offer = |id: &str, at: Value| {
        json!({"id": id, "socket": "/a", "request": "count cars", "at": at, "mark": "m",
                "tried": [trial]})
    };
    let offers = [offer("b2c3d", json!(7)), offer("w9zce", json!(NOW))];
    let text = json!({"format": FORMAT, "offers": offers}).to_string();
    make_private(&waiting.folder).unwrap();
    fs::write(waiting.path(), text).unwrap();
    let found = waiting.take("w9zce", Path::new("/a"), NOW).unwrap();
    assert_eq!(found, shown("count cars"));
    let left = waiting.list(NOW).unwrap();
    assert!(left.is_empty(), "the unreadable one is gone: {left:?}");
}

#[test]
fn proposal_for_another_runtime_is_refused_and_kept() {
    let (_dir, waiting) = here();
    let id = waiting
        .keep(Path::new("/a"), &shown("x"), None, NOW)
        .unwrap();
    let error = waiting
        .take(&id, Path::new("/b"), NOW)
        .unwrap_err()
        .to_string();
    assert!(error.contains("--socket /a"), "{error}");
    waiting.take(&id, Path::new("/a"), NOW).unwrap();
}

#[test]
fn proposals_are_evicted_by_number_and_age() {
    let (_dir, waiting) = here();
    let socket = Path::new("/a");
    let keep = |n: usize| {
        waiting
            .keep(socket, &shown(&n.to_string()), None, NOW)
            .unwrap()
    };
    let ids: Vec<String> = (0..=MAX_PENDING).map(keep).collect();
    assert!(
        waiting.take(&ids[0], socket, NOW).is_err(),
        "the oldest is evicted"
    );
    assert!(
        waiting
            .take(&ids[1], socket, later(CONFIRM_TIMEOUT_S))
            .is_ok()
    );
    assert!(
        waiting
            .take(&ids[2], socket, later(CONFIRM_TIMEOUT_S + 1))
            .is_err()
    );
}

#[test]
fn file_is_private_and_a_damaged_one_is_renamed() {
    let (_dir, waiting) = here();
    let id = waiting
        .keep(Path::new("/a"), &shown("x"), None, NOW)
        .unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(&waiting.folder), mode(&waiting.path())),
        (0o700, 0o600)
    );
    for text in ["{", "[]", r#"{"format": 4, "offers": []}"#, "\u{0}"] {
        fs::write(waiting.path(), text).unwrap();
        let error = waiting.take(&id, Path::new("/a"), NOW).unwrap_err();
        assert!(matches!(error, PendingError::Unknown { .. }), "{error}");
        assert_eq!(
            fs::read_to_string(waiting.folder.join(DAMAGED_NAME)).unwrap(),
            text
        );
        fs::write(waiting.path(), text).unwrap();
        let next = waiting
            .keep(Path::new("/a"), &shown("y"), None, NOW)
            .unwrap();
        assert!(waiting.take(&next, Path::new("/a"), NOW).is_ok(), "{text}");
    }
}
