//! Conversations without a runtime: every message fails, and all limits hold.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use watchkeeper_http::closed;

use super::app::{App, Shared};
use super::conversations::{
    Bounds, ConversationDeps, ConversationError, Conversations, Handle, Message,
};
use crate::archive::{ArchiveService, ArchiveSetup};
use crate::evidence::lookup_service::LookupService;
use crate::jobs::testing;
use crate::references::ReferenceService;
use watchkeeper_assistant::heartbeat_switch::HeartbeatSwitch;
use watchkeeper_assistant::notes::Notes;
use watchkeeper_assistant::permissions::Entrypoint;
use watchkeeper_assistant::proposal::conversation::{ShownChanges, ShownEffect, ShownProposal};
use watchkeeper_assistant::proposal::pending::Requester;
use watchkeeper_client::RuntimeClient;
use watchkeeper_config::{ArchiveConfig, ReferencesConfig};

pub(super) struct Here {
    pub(super) dir: tempfile::TempDir,
    pub(super) all: Arc<Conversations>,
    pub(super) close: watch::Sender<bool>,
}

pub(super) fn here(bounds: Bounds) -> Here {
    let dir = tempfile::tempdir().expect("a folder");
    let client = || RuntimeClient::new(dir.path().join("none.sock")).expect("a client");
    let archive = ArchiveSetup {
        state_dir: dir.path().join("state"),
        config: ArchiveConfig {
            max_bytes: 1 << 20,
            max_entry_bytes: 1 << 20,
            ..ArchiveConfig::default()
        },
        ca_file: None,
        credentials: None,
    };
    let references = ReferencesConfig::default();
    let deps = ConversationDeps {
        archive: ArchiveService::new(archive, client()),
        client: client(),
        preferred: None,
        model: None,
        second_opinion: false,
        provider: None,
        policy: Default::default(),
        home: dir.path().join("home"),
        audit: Default::default(),
        heartbeat: HeartbeatSwitch::new(&dir.path().join("home"), None),
        notes: Notes::new(&dir.path().join("home"), &Default::default()),
        jobs: testing::service(&dir.path().join("home")),
        lookups: LookupService::default(),
        references: ReferenceService::open(dir.path(), &references, client()),
    };
    let (close, closing) = watch::channel(false);
    let all = Conversations::new(deps, bounds, closing);
    Here { dir, all, close }
}

fn words(text: &str) -> Message {
    Message {
        text: text.to_owned(),
        think: false,
        blueprint: None,
        images: Vec::new(),
        about: None,
    }
}

/// Sends a message, waits for its end, and returns the types of its events.
async fn said(all: &Conversations, handle: &Handle, message: Message) -> Vec<String> {
    let mut advances = handle.feed.subscribe();
    let turn = all.send(handle, message).expect("accepted");
    loop {
        advances.borrow_and_update();
        let events = handle.feed.of_turn(turn.turn);
        if events.last().is_some_and(|event| event.is_end) {
            let types = events.iter().map(|event| {
                let event: Value = serde_json::from_str(&event.json).expect("an object");
                event["type"].as_str().unwrap_or_default().to_owned()
            });
            return types.collect();
        }
        advances.changed().await.expect("open feed");
    }
}

#[tokio::test]
async fn failed_message_leaves_the_conversation_open() {
    let here = here(Bounds::default());
    let handle = here.all.begin(Entrypoint::Local, false).expect("begun");
    for _ in 0..2 {
        let types = said(&here.all, &handle, words("list cameras")).await;
        assert_eq!(types, ["heard", "failure", "end"]);
    }
    assert!(!handle.status().working);
}

#[tokio::test]
async fn notes_need_no_runtime() {
    let here = here(Bounds::default());
    let handle = here.all.begin(Entrypoint::Local, false).expect("begun");
    let note = words("remember that the lawn belongs to the neighbours");
    let types = said(&here.all, &handle, note).await;
    assert_eq!(types, ["heard", "remembered", "end"]);
    let about = words("what did I tell you about the lawn");
    let types = said(&here.all, &handle, about).await;
    assert_eq!(types, ["heard", "notes", "end"]);
}

#[tokio::test]
async fn second_message_and_excess_messages_are_refused() {
    let here = here(Bounds {
        turns: 2,
        ..Bounds::default()
    });
    let handle = here.all.begin(Entrypoint::Local, false).expect("begun");
    let first = here.all.send(&handle, words("list cameras"));
    assert!(first.is_ok());
    let second = here.all.send(&handle, words("list cameras"));
    assert!(
        matches!(second, Err(ConversationError::Working { turn: 1, .. })),
        "{second:?}"
    );
    while handle.status().working {
        tokio::task::yield_now().await;
    }
    said(&here.all, &handle, words("list cameras")).await;
    let third = here.all.send(&handle, words("list cameras"));
    assert!(
        matches!(third, Err(ConversationError::Over { limit: 2 })),
        "{third:?}"
    );
}

#[tokio::test]
async fn remote_conversations_leave_room_for_local_ones() {
    let here = here(Bounds {
        open: 3,
        remote: 2,
        ..Bounds::default()
    });
    for _ in 0..2 {
        assert!(here.all.begin(Entrypoint::Remote, false).is_ok());
    }
    let more = here.all.begin(Entrypoint::Remote, false);
    assert!(matches!(
        more,
        Err(ConversationError::TooMany { limit: 2, .. })
    ));
    assert!(here.all.begin(Entrypoint::Local, false).is_ok());
    assert!(matches!(
        here.all.begin(Entrypoint::Local, false),
        Err(ConversationError::TooMany { limit: 3, .. })
    ));
    assert_eq!(here.all.list(Entrypoint::Remote).len(), 2);
    assert_eq!(here.all.list(Entrypoint::Local).len(), 3);
}

#[tokio::test]
async fn idle_conversation_ends_and_all_end_at_the_stop() {
    let bounds = Bounds {
        idle: Duration::from_millis(20),
        ..Bounds::default()
    };
    let idle = here(bounds);
    let handle = idle.all.begin(Entrypoint::Local, false).expect("begun");
    closed(handle.over()).await;
    assert!(idle.all.list(Entrypoint::Local).is_empty());
    let stopped = here(Bounds::default());
    for _ in 0..3 {
        stopped.all.begin(Entrypoint::Local, false).expect("begun");
    }
    stopped.close.send_replace(true);
    stopped.all.ended().await;
    assert!(matches!(
        stopped.all.begin(Entrypoint::Local, false),
        Err(ConversationError::Closing)
    ));
}

#[tokio::test]
async fn proposal_reopens_its_conversation_and_takes_only_its_answer() {
    let here = here(Bounds::default());
    let shown = ShownProposal {
        request: "count cars".to_owned(),
        at: jiff::Timestamp::now(),
        effect: ShownEffect::Changes(ShownChanges::default()),
    };
    let by = Requester {
        entrypoint: Entrypoint::Local,
        conversation: "c1".to_owned(),
    };
    let socket = here.dir.path().join("none.sock");
    let now = jiff::Timestamp::now();
    let kept = here
        .all
        .deps()
        .waiting()
        .keep(&socket, &shown, Some(by), now);
    let id = kept.expect("kept");
    assert!(matches!(
        here.all.find("c1", Entrypoint::Remote).await,
        Err(ConversationError::Unknown { .. })
    ));
    let handle = here
        .all
        .find("c1", Entrypoint::Local)
        .await
        .expect("reopened");
    assert_eq!(
        (handle.id.as_str(), handle.entrypoint),
        ("c1", Entrypoint::Local)
    );
    assert!(matches!(
        here.all.find("c1", Entrypoint::Remote).await,
        Err(ConversationError::Unknown { .. })
    ));
    let same = here
        .all
        .find("c1", Entrypoint::Local)
        .await
        .expect("it is open");
    assert!(Arc::ptr_eq(&handle, &same));
    let types = said(&here.all, &handle, Message::about("other", "yes")).await;
    assert_eq!(types, ["heard", "failure", "end"]);
    // An absent runtime does not cost the proposal.
    said(&here.all, &handle, Message::about(&id, "yes")).await;
    let waits = here.all.deps().waiting().list(now).expect("read");
    assert_eq!(waits.len(), 1);
    tokio::join!(here.all.end(&handle), async {
        closed(handle.over()).await;
        // Else the next message would reopen the conversation.
        let waits = here.all.deps().waiting().list(now).expect("read");
        assert!(waits.is_empty(), "the proposal is still pending");
    });
}

/// On a full disk, for instance, the record of the actions can't be deleted.
#[tokio::test]
async fn yes_to_actions_can_be_repeated_after_the_disk_refused_it() {
    let here = here(Bounds::default());
    let operation = json!({"operation": "verb", "parameters": {"verb": "destroy",
        "selection": {"collection": "research"}}});
    let actions = json!({"actions": [{"action": "archive", "operation": operation}]});
    let actions = serde_json::from_value(actions).expect("actions");
    let now = jiff::Timestamp::now();
    let shown = ShownProposal::from_actions(actions, now);
    let by = Requester {
        entrypoint: Entrypoint::Local,
        conversation: "c1".to_owned(),
    };
    let waiting = || here.all.deps().waiting();
    let socket = here.dir.path().join("none.sock");
    let kept = waiting().keep(&socket, &shown, Some(by), now);
    let id = kept.expect("kept");
    let handle = here
        .all
        .find("c1", Entrypoint::Local)
        .await
        .expect("reopened");
    // A folder in place of the lock lets nobody change the file.
    let lock = here.dir.path().join("home/waiting.lock");
    std::fs::remove_file(&lock).expect("a lock");
    std::fs::create_dir(&lock).expect("a folder");
    let types = said(&here.all, &handle, Message::about(&id, "yes")).await;
    assert_eq!(types, ["heard", "failure", "end"]);
    std::fs::remove_dir(&lock).expect("the folder");
    assert_eq!(waiting().list(now).expect("read").len(), 1);
    said(&here.all, &handle, Message::about(&id, "yes")).await;
    let left = waiting().list(now).expect("read");
    assert!(left.is_empty(), "the yes was not taken: {left:?}");
}

#[tokio::test]
async fn file_access_keeps_its_place_when_the_client_disconnects() {
    let here = here(Bounds::default());
    let (asks, closing) = (tokio::sync::mpsc::channel(1).0, here.close.subscribe());
    let app = App {
        entrypoint: Entrypoint::Local,
        shared: Shared::new(Arc::clone(&here.all), asks, closing),
    };
    let places = Arc::clone(&app.shared.file_accesses);
    let free = places.available_permits();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let (started, has_started) = tokio::sync::oneshot::channel();
    let access = move |_: &Shared| {
        started.send(()).expect("the test waits");
        ended.recv().ok();
    };
    let request = tokio::spawn(async move { app.shared.access_files(access).await.is_ok() });
    has_started.await.expect("the access runs");
    request.abort();
    assert!(request.await.is_err(), "the client went away");
    assert_eq!(places.available_permits(), free - 1);
    drop(end);
    let _all = places
        .acquire_many(u32::try_from(free).expect("a few"))
        .await;
}
