//! Operations on the archive in a session: by words, by `/manual`, and after a yes.
//!
//! Invariants:
//! - What removes something for good, and what a model proposes, runs only after a yes to exactly
//!   what was shown, within an hour. The yes is in the audit log before anything is done.
//! - With a proposal store, actions are on disk before they are shown, and deleted there before
//!   they run. After a crash they wait still or were begun, and never run twice.
//! - Actions on a collection are of all entries that it has at the yes, not when they were shown.
//! - Any other text drops actions that wait, because they may remove something for good.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use watchkeeper_archive::query::Matches;
use watchkeeper_archive::{Answer, ArchiveError, Query, Retention, Selection, Verb};
use watchkeeper_jobs::run::Jobs;

use super::hint::hint;
use super::progress::ProgressEvent;
use super::secrets::hide_secrets;
use super::short_command::CommandResult;
use super::user_session::Session;
use crate::archive_access::{ArchiveAccess as _, RetrievedContent, has_collection};
use crate::failure::Error;
use crate::operations::operation::Operation;
use crate::operations::proposed_action::{ProposedAction, ProposedActions, describe_all};
use crate::operations::recorded_archive::RecordedArchive;
use crate::operations::trajectory::{SessionTrajectory, StepOutcome};
use crate::operations::{grammar, manual};
use crate::permissions::Entrypoint;
use crate::proposal::conversation::{Reply, ShownProposal, yes_or_no};
use crate::proposal::pending::PendingError;
use crate::proposal::snapshot::SystemSnapshot;
use crate::wording::{counted, printable};

/// Folder of jobs below the state folder.
const JOBS_FOLDER: &str = "jobs";
/// Longest name of a tool in the history, in characters.
const MAX_TOOL_NAME: usize = 40;
/// Largest text that a retrieval shows, in bytes.
const MAX_SHOWN_TEXT: usize = 2_000;

impl Session {
    /// Whether no proposal, action or question waits for an answer.
    pub fn is_idle(&self) -> bool {
        self.conversation.shown().is_none() && self.conversation.question().is_none()
    }

    /// Handles a text that answers waiting actions, or is an operation on the archive. `None` for
    /// any other text.
    ///
    /// # Errors
    /// If the operation is not understood or fails.
    pub async fn handle_operation(&mut self, text: &str) -> Result<Option<CommandResult>, Error> {
        if let Some(result) = self.answer_waiting_actions(text).await? {
            return Ok(Some(result));
        }
        if self.conversation.question().is_some() || !self.attached.is_empty() {
            return Ok(None);
        }
        let Some(read) = grammar::parse(text) else {
            return Ok(None);
        };
        let read = read.map_err(Error::input)?;
        if let Some(collection) = &read.requires
            && !self.has_collection(collection).await
        {
            return Ok(None);
        }
        let hidden = hide_secrets(text, &*self.deps.out);
        self.trace_event("request", || json!({"text": hidden}));
        self.start_operation(read.operation).await?;
        Ok(Some(CommandResult::Done))
    }

    /// Runs `/manual ACTION JSON`.
    ///
    /// # Errors
    /// If action or parameters are invalid, or the operation fails.
    pub(super) async fn run_manual(
        &mut self,
        action: &str,
        parameters: &str,
    ) -> Result<CommandResult, Error> {
        let operation = match manual::parse(action, parameters, &self.deps.job_tools) {
            Ok(operation) => operation,
            Err(why) => {
                if !action.is_empty() {
                    let given = serde_json::from_str(parameters).unwrap_or_default();
                    self.record_step(action, &given, StepOutcome::Failed, &why);
                }
                return Err(Error::input(why));
            }
        };
        self.trace_event(
            "manual",
            || json!({"action": action, "parameters": operation.parameters()}),
        );
        self.start_operation(operation).await?;
        Ok(CommandResult::Done)
    }

    /// Adds a step to the history that did not reach the archive: a refusal, or a tool of jobs.
    pub fn record_step(&self, tool: &str, parameters: &Value, outcome: StepOutcome, result: &str) {
        let tool: String = tool.chars().take(MAX_TOOL_NAME).collect();
        let at_ms = Timestamp::now().as_millisecond();
        self.with_trajectory(|steps| steps.add(at_ms, &tool, parameters, outcome, result));
    }

    /// Runs an operation, or shows it if it needs a yes.
    async fn start_operation(&mut self, operation: Operation) -> Result<(), Error> {
        self.archive()?;
        self.drop_waiting().await?;
        if operation.needs_confirmation() {
            if let Err(refusal) = self.refuse_impossible(&operation).await {
                let (name, given) = (operation.name(), operation.parameters());
                self.record_step(name, &given, StepOutcome::Failed, &refusal.to_string());
                return Err(refusal);
            }
            let actions = vec![ProposedAction::Archive { operation }];
            return self.offer_actions(actions, None).await;
        }
        self.run_operation(&operation).await
    }

    /// Handles a text that is not an operation. A verb of the archive on a collection that it does
    /// not have is refused; a text that was not understood gets a hint.
    ///
    /// # Errors
    /// If the text fails, or the archive has no such collection.
    pub async fn handle_request(&mut self, text: &str) -> Result<(Reply, SystemSnapshot), Error> {
        let mut replied = self.handle_text(text).await?;
        if let Reply::Unknown(unknown) = &mut replied.0 {
            self.refuse_unknown_collection(text).await?;
            let takes_commands = self.deps.entrypoint != Entrypoint::Ask;
            let jobs = self.jobs().and_then(|jobs| jobs.ids().ok());
            let last_job = jobs.and_then(|mut ids| ids.pop());
            if let Some(hint) = hint(text, takes_commands, last_job.as_deref()) {
                unknown.text = format!("{hint} {}", unknown.text);
            }
        }
        Ok(replied)
    }

    /// Refuses `list NAME` and `delete the collection NAME` where the archive answers and has no
    /// such collection.
    async fn refuse_unknown_collection(&self, text: &str) -> Result<(), Error> {
        let (Some(Ok(read)), Some(archive)) = (grammar::parse(text), &self.deps.archive) else {
            return Ok(());
        };
        let (
            Operation::Verb(
                Verb::Query { .. }
                | Verb::Destroy {
                    selection: Selection::Collection(_),
                },
            ),
            Some(name),
        ) = (read.operation, read.requires)
        else {
            return Ok(());
        };
        match has_collection(&**archive, &name).await {
            Ok(false) => Err(Error::input(unknown_collection(&name))),
            _ => Ok(()),
        }
    }

    /// Refuses before a yes what would be refused after it: no such entries, or protected ones.
    async fn refuse_impossible(&self, operation: &Operation) -> Result<(), Error> {
        let (
            Operation::Verb(Verb::Destroy { selection } | Verb::Unprotect { selection }),
            Some(archive),
        ) = (operation, &self.deps.archive)
        else {
            return Ok(());
        };
        let pattern = match selection {
            Selection::Entry(name) => {
                let stat = Verb::Stat { name: name.clone() };
                archive.run(stat).await.map_err(Error::failed)?;
                name.as_str()
            }
            Selection::Collection(name) => {
                let is_there = has_collection(&**archive, name).await;
                if !is_there.map_err(Error::failed)? {
                    return Err(Error::input(unknown_collection(name)));
                }
                name
            }
        };
        if matches!(operation, Operation::Verb(Verb::Unprotect { .. })) {
            return Ok(());
        }
        let query = Box::new(Query {
            pattern: Some(pattern.to_owned()),
            retention: Some(Retention::Protected),
            limit: Some(1),
            ..Query::default()
        });
        let found = archive.run(Verb::Query { query }).await;
        match found.map_err(Error::failed)? {
            Answer::Matches(Matches { entries, .. }) if !entries.is_empty() => {
                let name = entries.first().map(|entry| entry.name.to_string());
                let protected = ArchiveError::Protected(name.unwrap_or_default());
                Err(Error::input(protected.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// Shows actions, which then wait for a yes. `by`: the model that proposes them.
    pub(super) async fn offer_actions(
        &mut self,
        actions: Vec<ProposedAction>,
        by: Option<&str>,
    ) -> Result<(), Error> {
        self.drop_waiting().await?;
        self.trace_event(
            "actions",
            || json!({"sentence": describe_all(&actions), "actions": actions, "model": by}),
        );
        let now = Timestamp::now();
        let model = by.map(str::to_owned);
        let made = ProposedActions { actions, model };
        let shown = ShownProposal::from_actions(made.clone(), now);
        self.keep_pending(shown.clone(), now).await?;
        self.conversation.wait_for(shown);
        let out = Arc::clone(&self.deps.out);
        out.report(ProgressEvent::Actions(&made, self.pending_id()));
        Ok(())
    }

    /// Whether a request for a job is read as one, and not as the answer to a question.
    pub fn takes_jobs(&self) -> bool {
        self.conversation.question().is_none()
    }

    /// Drops the proposal or question that waits.
    ///
    /// # Errors
    /// If a stored proposal can't be deleted; it still waits.
    pub async fn drop_waiting(&mut self) -> Result<(), PendingError> {
        self.drop_pending().await?;
        if self.conversation.shown().is_some() {
            self.report_note("the previous proposal is dropped");
        }
        self.conversation.drop_waiting();
        Ok(())
    }

    /// Drops actions that wait: what follows may show something else that a yes would concern.
    /// Stored actions that can't be deleted wait on under their id, and stop no other request.
    pub(super) async fn drop_actions(&mut self) {
        let shown = self.conversation.shown();
        if shown.and_then(ShownProposal::actions).is_none() {
            return;
        }
        let note = match self.drop_pending().await {
            Ok(()) => "the previous proposal is dropped".to_owned(),
            Err(error) => {
                format!("a yes here no longer concerns the previous proposal, but {error}")
            }
        };
        self.conversation.drop_waiting();
        self.report_note(&note);
    }

    /// Handles a yes or no to actions that wait; another text drops them. `None` for that, or if
    /// none wait.
    async fn answer_waiting_actions(&mut self, text: &str) -> Result<Option<CommandResult>, Error> {
        let Some(is_yes) = yes_or_no(text) else {
            self.drop_actions().await;
            return Ok(None);
        };
        let Some(shown) = self.conversation.shown() else {
            return Ok(None);
        };
        let is_fresh = shown.is_fresh(Timestamp::now());
        let Some(waiting) = shown.actions().cloned() else {
            return Ok(None);
        };
        let taken = match is_yes && is_fresh {
            true => self.take_pending().await,
            false => self.drop_pending().await,
        };
        // What could not be deleted still waits, so that the answer can be repeated.
        if taken.is_ok() || self.pending_id().is_none() {
            self.conversation.drop_waiting();
        }
        taken?;
        match is_yes {
            true if !is_fresh => Err(Error::input(
                "this waited for more than an hour, so nothing was done; ask again",
            )),
            true => self.run_actions(waiting.actions).await.map(Some),
            false => {
                self.trace_event("dropped", || json!({}));
                self.deps.out.report(ProgressEvent::Dropped);
                Ok(Some(CommandResult::Done))
            }
        }
    }

    /// Records the yes, then runs the actions in order, and stops at the first failure.
    async fn run_actions(&self, actions: Vec<ProposedAction>) -> Result<CommandResult, Error> {
        self.record_confirmed(json!({
            "sentence": describe_all(&actions), "actions": actions,
        }))
        .await?;
        let mut result = CommandResult::Done;
        for action in actions {
            match action {
                ProposedAction::Archive { operation } => self.run_operation(&operation).await?,
                ProposedAction::Job { request } => result = CommandResult::Organise(request),
            }
        }
        Ok(result)
    }

    /// Runs an operation and reports its step.
    async fn run_operation(&self, operation: &Operation) -> Result<(), Error> {
        let archive = self.archive()?;
        let out = Arc::clone(&self.deps.out);
        out.report(ProgressEvent::Busy(&operation.describe()));
        let outcome = match operation.clone() {
            Operation::Verb(verb) => archive.run(verb).await.map(|_| None),
            Operation::Retrieve { name, skip_cache } => {
                let found = archive.retrieve(name, skip_cache).await;
                found.map(|found| shown_text(&found))
            }
        };
        out.report(ProgressEvent::Idle);
        let note = outcome.map_err(Error::failed)?;
        self.with_trajectory(|steps| {
            if let Some(step) = steps.last() {
                out.report(ProgressEvent::Operation(step));
                self.trace_event(
                    "operation",
                    || json!({"sentence": step.result, "tool": step.action.tool}),
                );
            }
        });
        if let Some(note) = note {
            self.report_note(&note);
        }
        Ok(())
    }

    pub(super) fn archive(&self) -> Result<&RecordedArchive, Error> {
        let archive = self.archive.as_deref();
        archive.ok_or_else(|| Error::input("no archive is reached here; start the agent"))
    }

    /// Whether the archive has a collection; without an answer it has none.
    async fn has_collection(&self, collection: &str) -> bool {
        let Some(archive) = &self.deps.archive else {
            return false;
        };
        let found = has_collection(&**archive, collection).await;
        found.unwrap_or_default()
    }

    fn with_trajectory<T>(&self, read: impl FnOnce(&mut SessionTrajectory) -> T) -> T {
        read(&mut self.trajectory.lock())
    }

    /// Reports the steps of this session, as text or as JSON lines.
    pub(super) fn report_history(&self, as_lines: bool) {
        let text = self.with_trajectory(|steps| match as_lines {
            false => steps.describe(),
            true => {
                let lines = steps.to_json_lines();
                let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
                lines.join("\n")
            }
        });
        let text = match text.is_empty() {
            true => "No steps yet.".to_owned(),
            false => printable(&text).into_owned(),
        };
        self.deps.out.report(ProgressEvent::Text(&text));
    }

    /// The stored jobs; `None` without a state folder.
    fn jobs(&self) -> Option<Jobs> {
        let home = self.deps.state_dir.as_ref().ok()?;
        Some(Jobs::new(home.join(JOBS_FOLDER)))
    }

    /// Reports archive, jobs and cameras in a few lines. What can't be reached is named.
    pub(super) async fn observe(&self) {
        let mut lines = vec![self.observe_archive().await];
        if let Some(jobs) = self.jobs() {
            lines.push(match jobs.ids() {
                Ok(ids) => format!("Jobs: {} stored", ids.len()),
                Err(error) => format!("Jobs: {error}"),
            });
        }
        lines.push(match self.fetch_snapshot().await {
            Ok(here) => format!(
                "Cameras: {}; {}",
                here.sources.len(),
                counted(here.pipelines.len() as u64, "pipeline")
            ),
            Err(error) => format!("Cameras: {}", error.in_full()),
        });
        lines.push(self.with_trajectory(|steps| steps.summary()));
        self.deps
            .out
            .report(ProgressEvent::Text(&printable(&lines.join("\n"))));
    }

    async fn observe_archive(&self) -> String {
        let Some(archive) = &self.deps.archive else {
            return "Archive: none is reached here".to_owned();
        };
        match archive.run(Verb::Stats).await {
            Ok(Answer::Stats(stats)) => format!(
                "Archive: {} and {} in {}, {} of {} bytes; in memory {}",
                counted(stats.entries, "stored content"),
                counted(stats.references, "reference"),
                counted(stats.collections.len() as u64, "collection"),
                stats.bytes,
                stats.max_bytes,
                counted(stats.cached_contents, "content"),
            ),
            Ok(_) => "Archive: its answer has no counts".to_owned(),
            Err(why) => format!("Archive: {why}"),
        }
    }
}

fn unknown_collection(name: &str) -> String {
    format!("the archive has no collection {name}; `list archive` shows those it has")
}

/// A short text of an entry, for the person; it is data.
fn shown_text(found: &RetrievedContent) -> Option<String> {
    let content = found.content.as_ref()?;
    let is_text = found.content_type.starts_with("text/") && content.len() <= MAX_SHOWN_TEXT;
    let text = std::str::from_utf8(content).ok().filter(|_| is_text)?;
    Some(format!("it says: {}", printable(text.trim_end())))
}
