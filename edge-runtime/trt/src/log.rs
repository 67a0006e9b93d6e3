//! TensorRT's log. A process has one, and its messages name no engine.
//!
//! - A message belongs to the engine whose call runs on its thread. TensorRT logs from threads of
//!   its own too: such a message belongs to the only call that runs, and to none of several.
//! - The first error of a call is the cause of its failure.
//! - Of equal messages in a row only the first is passed on.

use std::sync::{Arc, OnceLock};
use std::thread::{self, ThreadId};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Status};

/// `WK_TRT_SENTENCE` of the header.
pub(crate) const SENTENCE: i32 = -1;

/// Longest text of a message in bytes.
const MAX_TEXT: usize = 1024;

/// Severity of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    Error,
    Warning,
    Info,
}

/// A message of TensorRT in one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    pub level: Level,
    /// Name of the engine; absent where it is not known.
    pub engine: Option<&'a str>,
    pub text: &'a str,
}

/// Receives messages, from any thread.
pub type Receiver = fn(&Message<'_>);

static RECEIVER: OnceLock<Receiver> = OnceLock::new();

static LOG: Mutex<Log> = Mutex::new(Log {
    calls: Vec::new(),
    last: None,
});

/// Sets the receiver of the process, unless it has one.
pub(crate) fn set_receiver(receiver: Receiver) {
    RECEIVER.get_or_init(|| receiver);
}

/// Runs a call of the library, which returns its status, for an engine of this name.
pub(crate) fn call(engine: Option<&Arc<str>>, body: impl FnOnce() -> i32) -> Result<(), Failure> {
    let thread = thread::current().id();
    LOG.lock().begin(thread, engine.cloned());
    let code = body();
    let call = LOG.lock().end(thread);
    match code {
        0 => Ok(()),
        code => Err(call.unwrap_or_default().into_failure(code)),
    }
}

/// Takes a message of the library.
pub(crate) fn write(level: i32, text: &str) {
    let text = one_line(text);
    let taken = LOG.lock().take(thread::current().id(), level, &text);
    let Some((level, engine)) = taken else {
        return;
    };
    let engine = engine.as_deref();
    if let Some(receive) = RECEIVER.get() {
        let text = &text;
        receive(&Message {
            level,
            engine,
            text,
        });
    }
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut line = words.join(" ");
    line.truncate(line.floor_char_boundary(MAX_TEXT));
    line
}

/// The calls that run, one a thread at most.
#[derive(Debug)]
struct Log {
    calls: Vec<(ThreadId, Call)>,
    /// What was passed on last.
    last: Option<(Option<Arc<str>>, String)>,
}

#[derive(Debug, Default)]
struct Call {
    engine: Option<Arc<str>>,
    sentence: Option<String>,
    cause: Option<String>,
}

impl Call {
    /// A sentence with a colon has its cause already.
    fn into_failure(self, code: i32) -> Failure {
        let sentence = self.sentence.unwrap_or_else(|| format!("status {code}"));
        let message = match self.cause {
            Some(cause) if !sentence.contains(": ") => format!("{sentence}: {cause}"),
            _ => sentence,
        };
        Failure::new(Status::from_code(code), message)
    }
}

impl Log {
    fn begin(&mut self, thread: ThreadId, engine: Option<Arc<str>>) {
        let call = Call {
            engine,
            ..Call::default()
        };
        self.calls.push((thread, call));
    }

    fn end(&mut self, thread: ThreadId) -> Option<Call> {
        let index = self.calls.iter().position(|(of, _)| *of == thread)?;
        Some(self.calls.swap_remove(index).1)
    }

    /// Keeps what a failure needs; returns level and engine of a message to pass on.
    fn take(
        &mut self,
        thread: ThreadId,
        level: i32,
        text: &str,
    ) -> Option<(Level, Option<Arc<str>>)> {
        let own = self.calls.iter().position(|(of, _)| *of == thread);
        let index = own.or((self.calls.len() == 1).then_some(0));
        let mut call = index.and_then(|index| self.calls.get_mut(index));
        let level = match level {
            SENTENCE => {
                call?.1.sentence = Some(text.to_owned());
                return None;
            }
            ..=1 => Level::Error,
            2 => Level::Warning,
            _ => Level::Info,
        };
        if let Some((_, call)) = &mut call
            && level == Level::Error
        {
            call.cause.get_or_insert_with(|| text.to_owned());
        }
        let engine = call.and_then(|(_, call)| call.engine.clone());
        let this = (engine.clone(), text.to_owned());
        let is_repeated = self.last.as_ref() == Some(&this);
        self.last = Some(this);
        (!is_repeated).then_some((level, engine))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't set up has failed")]
mod tests {
    use super::*;

    /// Runs `body` on a thread of its own.
    fn elsewhere<T: Send>(body: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| scope.spawn(body).join().unwrap())
    }

    fn log() -> Log {
        Log {
            calls: Vec::new(),
            last: None,
        }
    }

    fn engine(name: &str) -> Option<Arc<str>> {
        Some(name.into())
    }

    #[test]
    fn message_belongs_to_the_engine_of_its_thread() {
        let [here, there] = [thread::current().id(), elsewhere(|| thread::current().id())];
        let mut log = log();
        log.begin(here, engine("a"));
        log.begin(there, engine("b"));
        assert_eq!(
            log.take(there, 1, "broken"),
            Some((Level::Error, engine("b")))
        );
        assert_eq!(
            log.take(here, 2, "slow"),
            Some((Level::Warning, engine("a")))
        );
        log.take(there, SENTENCE, "TensorRT can't run it");
        log.take(here, SENTENCE, "TensorRT can't run it");
        let failures = [here, there].map(|thread| log.end(thread).unwrap().into_failure(-2));
        let [a, b] = failures.map(|failure| failure.message);
        assert_eq!(a, "TensorRT can't run it");
        assert_eq!(b, "TensorRT can't run it: broken");
    }

    #[test]
    fn message_of_a_foreign_thread_belongs_to_the_only_call() {
        let [here, there] = [thread::current().id(), elsewhere(|| thread::current().id())];
        let foreign = elsewhere(|| thread::current().id());
        let mut log = log();
        assert_eq!(log.take(foreign, 3, "idle"), Some((Level::Info, None)));
        log.begin(here, engine("a"));
        assert_eq!(
            log.take(foreign, 3, "one"),
            Some((Level::Info, engine("a")))
        );
        log.begin(there, engine("b"));
        assert_eq!(log.take(foreign, 3, "two"), Some((Level::Info, None)));
    }

    #[test]
    fn equal_messages_in_a_row_are_passed_on_once() {
        let here = thread::current().id();
        let mut log = log();
        log.begin(here, engine("a"));
        assert!(log.take(here, 1, "broken").is_some());
        assert!(log.take(here, 1, "broken").is_none());
        assert!(log.take(here, 1, "other").is_some());
    }

    #[test]
    fn text_is_one_line_of_bounded_length() {
        assert_eq!(one_line(" a\n  b "), "a b");
        assert_eq!(one_line(&"é".repeat(MAX_TEXT)).len(), MAX_TEXT);
    }
}
