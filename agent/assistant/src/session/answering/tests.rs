use std::fs;
use std::path::Path;
use std::sync::Mutex;

use watchkeeper_config::{ChangeKind, PermissionsConfig};
use watchkeeper_plain::answer::Answer;

use super::*;
use crate::operations::proposed_action::{ProposedAction, ProposedActions};
use crate::permissions::Entrypoint;
use crate::proposal::auto_approval::{ApprovalRules, Author};
use crate::proposal::snapshot::testing::{model, situation, status};
use crate::session::short_command::CommandResult;
use crate::session::testing::session;
use crate::session::user_session::ProposalStore;

const COUNT: &str = "count people on camera gate";
const CROSS: &str = "tell me when a person crosses the vertical line at 50% on camera gate";

#[test]
fn refused_class_names_command_that_adds_its_model() {
    let mut here = situation();
    let mut other = model("yolox-tiny", &["truck"]);
    other.state = ModelState::Absent;
    here.models.push(other);
    let said = |unseen: &str| {
        let unknown = Unknown {
            text: "It can't be watched for.".to_owned(),
            not_understood: vec!["lorry".to_owned()],
            unseen: vec![unseen.to_owned()],
        };
        Session::unknown_error(&unknown, &here).to_string()
    };
    let truck = said("truck");
    assert!(
        truck.contains("`watchkeeper models pull yolox-tiny`"),
        "{truck}"
    );
    let safe = said("safe");
    assert!(safe.contains("--like clip-vit-b-32`"), "{safe}");
}

#[derive(Default)]
struct Reported(Mutex<Vec<serde_json::Value>>);

impl ProgressSink for Reported {
    fn report(&self, event: ProgressEvent<'_>) {
        self.0.lock().unwrap().push(event.to_json());
    }
}

/// A session that stores its proposals in `folder`.
fn storing_session(folder: &Path, out: Arc<Reported>) -> Session {
    let store = ProposalStore {
        pending: PendingProposals::new(folder),
        requester: None,
        id: None,
    };
    session(folder, out).with_store(store)
}

/// Proposes and stores what the rules read from `text`.
async fn store_proposal(session: &mut Session, text: &str) -> ShownProposal {
    let here = situation();
    session.conversation.handle(text, &session.plain, &here);
    let shown = session.conversation.shown().cloned().unwrap();
    let now = here.now.timestamp();
    session.keep_pending(shown.clone(), now).await.unwrap();
    shown
}

/// Makes the stored proposals unreadable, and returns the folder to remove for a repair: no file
/// can be read or replaced where a folder is.
fn damage_store(folder: &Path) -> PathBuf {
    let file = folder.join("waiting.json");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    file
}

#[tokio::test]
async fn action_of_ask_is_stored_for_the_command_that_confirms_it() {
    let dir = tempfile::tempdir().unwrap();
    let out = Arc::new(Reported::default());
    let mut session = storing_session(dir.path(), out.clone());
    session.deps.entrypoint = Entrypoint::Ask;
    let request = "organise /srv/a by day".to_owned();
    let actions = vec![ProposedAction::Job { request }];
    session.offer_actions(actions.clone(), None).await.unwrap();
    let id = session.pending_id().unwrap().to_owned();
    let shown = out.0.lock().unwrap().pop().unwrap();
    assert_eq!(shown["id"], id, "{shown}");
    let pending = PendingProposals::new(dir.path());
    let stored = pending
        .take(&id, session.socket(), Timestamp::now())
        .unwrap();
    assert_eq!(stored.actions().map(|made| &made.actions), Some(&actions));
}

#[tokio::test]
async fn no_is_not_acknowledged_while_the_proposal_still_waits() {
    let dir = tempfile::tempdir().unwrap();
    let out = Arc::new(Reported::default());
    let mut session = storing_session(dir.path(), out.clone());
    let here = situation();
    let shown = store_proposal(&mut session, COUNT).await;
    let file = damage_store(dir.path());
    for is_damaged in [true, false] {
        let no = session.conversation.handle("no", &session.plain, &here);
        let delivered = session.deliver(Some(&shown), no, &here).await;
        assert_eq!(delivered.is_err(), is_damaged, "{delivered:?}");
        assert_eq!(session.pending_id().is_some(), is_damaged);
        assert_eq!(session.conversation.shown().is_some(), is_damaged);
        let is_dropped = |event: &serde_json::Value| event["type"] == "dropped";
        let events = out.0.lock().unwrap().clone();
        assert_eq!(events.iter().any(is_dropped), !is_damaged, "{events:?}");
        fs::remove_dir(&file).ok();
    }
}

#[tokio::test]
async fn undeletable_proposal_stays_and_auto_approval_does_not_apply() {
    let dir = tempfile::tempdir().unwrap();
    let out = Arc::new(Reported::default());
    let mut session = storing_session(dir.path(), out.clone());
    let config = PermissionsConfig {
        local: ChangeKind::ALL.to_vec(),
        ..PermissionsConfig::default()
    };
    session.deps.approval = ApprovalRules::for_entrypoint(&config, Entrypoint::Local);
    session.runs_trials = false;
    session.authors.proposal = Author::Model;
    let here = situation();
    let shown = store_proposal(&mut session, COUNT).await;
    damage_store(dir.path());
    let before = session.conversation.clone();
    let reply = session.conversation.handle(CROSS, &session.plain, &here);
    assert!(matches!(reply, Reply::Proposal(_)), "{reply:?}");
    let finished = session.finish_reply(CROSS, reply, before, here).await;
    assert!(finished.is_err());
    assert_eq!(session.conversation.shown(), Some(&shown));
    assert_eq!(session.authors.proposal, Author::Model);
    let events = out.0.lock().unwrap().clone();
    let claims_drop = events.iter().any(|event| event["type"] == "note");
    assert!(!claims_drop, "{events:?}");
}

#[tokio::test]
async fn yes_concerns_no_proposal_that_could_not_be_shown() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = storing_session(dir.path(), Arc::default());
    let here = situation();
    store_proposal(&mut session, COUNT).await;
    damage_store(dir.path());
    // Nothing waits in the conversation, but the stored proposal could not be deleted.
    session.conversation.drop_waiting();
    let reply = session.conversation.handle(CROSS, &session.plain, &here);
    assert!(session.deliver(None, reply, &here).await.is_err());
    let yes = session.conversation.handle("yes", &session.plain, &here);
    assert_eq!(yes, Reply::NothingPending);
}

/// Shows actions, which are stored and wait for a yes.
async fn store_actions(session: &mut Session) {
    let request = "group the pictures in /a by day".to_owned();
    let actions = ProposedActions {
        actions: vec![ProposedAction::Job { request }],
        model: None,
    };
    let now = Timestamp::now();
    let shown = ShownProposal::from_actions(actions, now);
    session.keep_pending(shown.clone(), now).await.unwrap();
    session.conversation.wait_for(shown);
}

#[tokio::test]
async fn undeletable_actions_stop_only_what_needs_a_yes() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = storing_session(dir.path(), Arc::default());
    store_actions(&mut session).await;
    let shown = session.conversation.shown().cloned();
    damage_store(dir.path());
    assert!(session.handle_operation("no").await.is_err());
    assert!(session.conversation.shown().is_some());
    let other = session.handle_operation("what can you do?").await;
    assert!(matches!(other, Ok(None)), "{other:?}");
    assert!(session.conversation.shown().is_none());
    assert!(matches!(session.handle_operation("yes").await, Ok(None)));
    let here = situation();
    let looked = session
        .conversation
        .handle("list cameras", &session.plain, &here);
    assert!(session.deliver(shown.as_ref(), looked, &here).await.is_ok());
    assert!(session.offer_actions(Vec::new(), None).await.is_err());
}

#[tokio::test]
async fn actions_run_after_a_yes_and_other_words_drop_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = storing_session(dir.path(), Arc::default());
    store_actions(&mut session).await;
    // A yes that does not come through the operations runs nothing.
    let here = situation();
    let reply = session.conversation.handle("yes", &session.plain, &here);
    assert_eq!(reply, Reply::NothingPending);
    let done = session.handle_operation("yes").await.unwrap();
    assert!(matches!(done, Some(CommandResult::Organise(_))), "{done:?}");
    assert!(matches!(session.handle_operation("yes").await, Ok(None)));
    for text in ["what will that do", "list cameras", COUNT] {
        store_actions(&mut session).await;
        let other = session.handle_operation(text).await;
        assert!(matches!(other, Ok(None)), "{text}: {other:?}");
        assert!(session.conversation.shown().is_none(), "{text}");
        assert_eq!(session.pending_id(), None, "{text}");
        assert!(matches!(session.handle_operation("yes").await, Ok(None)));
    }
}

#[tokio::test]
async fn job_ends_what_waits_for_a_yes() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = storing_session(dir.path(), Arc::new(Reported::default()));
    store_actions(&mut session).await;
    assert!(session.takes_jobs());
    session.drop_waiting().await.unwrap();
    assert_eq!((session.is_idle(), session.pending_id()), (true, None));
}

#[tokio::test]
async fn answer_about_one_watch_is_reported_before_the_table() {
    let dir = tempfile::tempdir().unwrap();
    let out = Arc::new(Reported::default());
    let session = session(dir.path(), out.clone());
    let mut here = situation();
    let spec = serde_json::json!({
        "id": "gate-watch", "source": "gate", "workflow": {"steps": []}, "paused": true,
    });
    let mut paused = status(&serde_json::from_value(spec).unwrap());
    paused.paused_until = Some("2026-11-22T12:00:00Z".parse().unwrap());
    here.pipelines.push(paused);
    for (text, answer) in [
        ("is the gate watch paused", "Yes: paused."),
        ("until when is the gate watch paused", "12:00"),
    ] {
        let understood = session.plain.understand(text, &here.scene(&here.now));
        let Ok(Answer::Look(looked)) = understood else {
            panic!("{understood:?}");
        };
        out.0.lock().unwrap().clear();
        session.answer_look(&looked, &here).await.unwrap();
        let reported = out.0.lock().unwrap().clone();
        let [said, table] = reported.as_slice() else {
            panic!("{reported:?}");
        };
        assert!(said["text"].as_str().unwrap().contains(answer), "{said}");
        assert_eq!(table["type"], "pipelines");
    }
}

#[test]
fn status_of_box_and_camera_names_what_counts_leave_out() {
    let here = situation();
    let gate = SourceId::new("gate").unwrap();
    for camera in [None, Some(&gate)] {
        let out = Reported::default();
        report_status(&out, camera, "Every person counts.", &here);
        let reported = out.0.into_inner().unwrap();
        let [status, note] = reported.as_slice() else {
            panic!("{reported:?}");
        };
        assert_eq!(status["type"], "status");
        assert_eq!(
            *note,
            serde_json::json!({"type": "note", "message": "Every person counts."})
        );
    }
}
