//! The task of one conversation: it owns the session and handles one message at a time.
//!
//! - Invariants: the end of a conversation cancels a request, but no confirmed change. `working` is
//!   cleared with the event `end`.
//! - Not here: which conversations are open (the registry).

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use watchkeeper_assistant::failure::Error;
use watchkeeper_assistant::proposal::chat_command::ChatCommand;
use watchkeeper_assistant::proposal::pending::{PendingProposal, Requester};
use watchkeeper_assistant::session::progress::{ProgressEvent, ProgressSink};
use watchkeeper_assistant::session::short_command::CommandResult;
use watchkeeper_assistant::session::user_session::{ProposalStore, Session};
use watchkeeper_config::redact;
use watchkeeper_http::closed;

use super::deps::Shared;
use super::handle::{Awaiting, Handle, Message};
use super::organise::{Until, given_up, is_for_job, organise};
use crate::api::feed::END;

pub(super) async fn run_conversation(
    shared: Arc<Shared>,
    handle: Arc<Handle>,
    mut messages: mpsc::Receiver<Message>,
    kept: Option<PendingProposal>,
) {
    let out: Arc<dyn ProgressSink> = Arc::clone(&handle.feed) as _;
    let parts = shared.deps.parts(handle.entrypoint, out);
    let mut session = match Session::new(parts) {
        Ok(session) => session.with_store(ProposalStore {
            pending: shared.deps.waiting(),
            requester: Some(Requester {
                entrypoint: handle.entrypoint,
                conversation: handle.id.clone(),
            }),
            id: kept.as_ref().map(|kept| kept.id.clone()),
        }),
        Err(failure) => return handle.feed.report(ProgressEvent::Failure(&failure)),
    };
    if let Some(kept) = kept {
        session.conversation.wait_for(kept.shown);
    }
    loop {
        let message = tokio::select! {
            biased;
            () = closed(shared.closing.clone()) => break,
            () = closed(handle.ending.subscribe()) => break,
            message = messages.recv() => message,
            () = tokio::time::sleep(shared.bounds.idle) => {
                // A message that was accepted meanwhile is still handled.
                messages.close();
                continue;
            }
        };
        let Some(message) = message else {
            break;
        };
        // Followers see the text without the secrets that the assistant redacts.
        let text = redact::message(&message.text).unwrap_or_else(|| message.text.clone());
        handle.feed.push(json!({"type": "heard", "text": text}));
        let ended = handle_message(
            Arc::clone(&shared),
            Arc::clone(&handle),
            &mut session,
            message,
        )
        .await;
        if let Err(failure) = &ended {
            handle.feed.report(ProgressEvent::Failure(failure));
        }
        session.settle();
        let waits = waits(&session);
        let mut end = json!({"type": END, "failed": ended.is_err(), "waits": waits});
        // Only an answered message says whether the LLM or the rules answered it.
        if ended.is_ok() {
            end["by_model"] = Value::from(session.is_llm_reply);
        }
        {
            let mut state = handle.state.lock();
            state.waits = waits;
            state.working = false;
            handle.feed.push(end);
        }
    }
}

/// Handles a message. The end of the conversation cancels a request, but no confirmed change.
async fn handle_message(
    shared: Arc<Shared>,
    handle: Arc<Handle>,
    session: &mut Session,
    message: Message,
) -> Result<(), Error> {
    if message.about.is_some() && message.about.as_deref() != session.pending_id() {
        return Err(Error::input(
            "this proposal is no longer pending: it was confirmed or rejected; request it again",
        ));
    }
    // Who answers a proposal over its own route waits for the job to be stored, not for its end.
    let until = match message.about {
        Some(_) => Until::Stored,
        None => Until::Ended,
    };
    let before = session.conversation.shown().cloned();
    let heard = tokio::select! {
        biased;
        heard = run_message(Arc::clone(&shared), Arc::clone(&handle), session, message) => heard,
        why = ending(&shared, &handle) => Err(given_up(why)),
    };
    match heard? {
        CommandResult::Reply(reply, here) => session.deliver(before.as_ref(), *reply, &here).await,
        CommandResult::Organise(request) => {
            let (jobs, asks) = (shared.deps.jobs.clone(), handle.entrypoint);
            let ending = ending(&shared, &handle);
            organise(jobs, request, asks, until, &handle.feed, ending).await
        }
        CommandResult::Done => Ok(()),
    }
}

/// Runs the rules or the LLM on a message, once a slot is free.
async fn run_message(
    shared: Arc<Shared>,
    handle: Arc<Handle>,
    session: &mut Session,
    message: Message,
) -> Result<CommandResult, Error> {
    let is_plain = !message.think && message.images.is_empty() && message.about.is_none();
    if session.takes_jobs()
        && is_plain
        && is_for_job(
            shared.deps.jobs.clone(),
            message.text.clone(),
            handle.entrypoint,
        )
        .await?
    {
        session.drop_waiting().await?;
        // It waits in the pool of jobs, not for other messages.
        return Ok(CommandResult::Organise(message.text));
    }
    let in_progress = Arc::clone(&shared.in_progress);
    let mut place = in_progress.clone().try_acquire_owned().ok();
    if place.is_none() {
        let reason = "other conversations are in progress; this one waits for a free slot";
        handle.feed.report(ProgressEvent::Busy(reason));
        // The semaphore is never closed.
        place = in_progress.acquire_owned().await.ok();
    }
    for (name, picture) in message.images {
        session.attach(&name, picture)?;
    }
    let understood = if message.think {
        let command = ChatCommand::Think {
            blueprint: message.blueprint,
            text: message.text,
        };
        session.run_command(command).await
    } else {
        session.handle_input(&message.text).await
    };
    drop(place);
    understood
}

/// Returns why the conversation ends, once it does.
async fn ending(shared: &Shared, handle: &Handle) -> &'static str {
    tokio::select! {
        biased;
        () = closed(shared.closing.clone()) => "the agent stops",
        () = closed(handle.ending.subscribe()) => "the conversation was ended",
    }
}

fn waits(session: &Session) -> Awaiting {
    match (
        session.conversation.shown(),
        session.conversation.question(),
    ) {
        (Some(shown), _) => Awaiting::Yes {
            proposal: session.pending_id().map(str::to_owned),
            request: shown.full_request(),
        },
        (None, Some(question)) => Awaiting::Answer {
            question: question.text.clone(),
            choices: question.choices.clone(),
        },
        (None, None) => Awaiting::Nothing,
    }
}
