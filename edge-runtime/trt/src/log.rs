//! TensorRT's log. A process has one, and its messages name no engine.
//!
//! - A message belongs to the engine whose call runs on its thread. TensorRT logs from its own
//!   threads too: such a message belongs to the only call that runs, and to none of several.
//! - The first error of a call is the cause of its failure.
//! - The last [`KEPT`] different messages are known. One that comes again is passed on once a
//!   minute at most, with the number of those that were not.

use std::sync::{Arc, OnceLock};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Status};

/// `WK_TRT_SENTENCE` of the header.
pub(crate) const SENTENCE: i32 = -1;

/// Longest text of a message in bytes.
const MAX_TEXT: usize = 1024;

/// Different messages that are known.
const KEPT: usize = 16;

/// Shortest time between two equal messages that are passed on.
const INTERVAL: Duration = Duration::from_secs(60);

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
    /// Name of the engine; absent if it is not known.
    pub engine: Option<&'a str>,
    pub text: &'a str,
}

/// Receives messages, from any thread.
pub type Receiver = fn(&Message<'_>);

static RECEIVER: OnceLock<Receiver> = OnceLock::new();

static LOG: Mutex<Log> = Mutex::new(Log {
    calls: Vec::new(),
    known: Vec::new(),
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
    let mut text = one_line(text);
    let (now, thread) = (Instant::now(), thread::current().id());
    let taken = LOG.lock().take(now, thread, level, &text);
    let Some(Taken {
        level,
        engine,
        suppressed,
    }) = taken
    else {
        return;
    };
    if suppressed > 0 {
        text += &format!(" ({suppressed} more since the last one in the log)");
    }
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
    /// At most [`KEPT`], the latest at the end.
    known: Vec<RecentMessage>,
}

/// A message that came before.
#[derive(Debug)]
struct RecentMessage {
    engine: Option<Arc<str>>,
    text: String,
    /// When it was passed on last.
    at: Instant,
    /// Equal ones since then.
    suppressed: u64,
}

/// A message to pass on.
#[derive(Debug, PartialEq, Eq)]
struct Taken {
    level: Level,
    engine: Option<Arc<str>>,
    suppressed: u64,
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

    /// Keeps what a failure needs; returns a message to pass on.
    fn take(&mut self, now: Instant, thread: ThreadId, level: i32, text: &str) -> Option<Taken> {
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
        let suppressed = self.repeated(now, engine.as_ref(), text)?;
        Some(Taken {
            level,
            engine,
            suppressed,
        })
    }

    /// Returns how many equal messages were suppressed; `None` if this one is too.
    fn repeated(&mut self, now: Instant, engine: Option<&Arc<str>>, text: &str) -> Option<u64> {
        let is_equal =
            |known: &RecentMessage| known.engine.as_ref() == engine && known.text == text;
        let new = || RecentMessage {
            engine: engine.cloned(),
            text: text.to_owned(),
            at: now,
            suppressed: 0,
        };
        let mut known = match self.known.iter().position(is_equal) {
            Some(at) => self.known.remove(at),
            None => {
                if self.known.len() == KEPT {
                    self.known.remove(0);
                }
                self.known.push(new());
                return Some(0);
            }
        };
        let passed = now.saturating_duration_since(known.at) >= INTERVAL;
        let suppressed = known.suppressed;
        if passed {
            known = new();
        } else {
            known.suppressed += 1;
        }
        self.known.push(known);
        passed.then_some(suppressed)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't set up has failed")]
mod tests {
    use super::*;

    /// Runs `body` on its own thread.
    fn elsewhere<T: Send>(body: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| scope.spawn(body).join().unwrap())
    }

    const EMPTY: Log = Log {
        calls: Vec::new(),
        known: Vec::new(),
    };

    fn engine(name: &str) -> Option<Arc<str>> {
        Some(name.into())
    }

    fn first(level: Level, engine: Option<Arc<str>>) -> Option<Taken> {
        Some(Taken {
            level,
            engine,
            suppressed: 0,
        })
    }

    #[test]
    fn message_belongs_to_the_engine_of_its_thread() {
        let [here, there] = [thread::current().id(), elsewhere(|| thread::current().id())];
        let (now, mut log) = (Instant::now(), EMPTY);
        log.begin(here, engine("a"));
        log.begin(there, engine("b"));
        let of_b = log.take(now, there, 1, "broken");
        assert_eq!(of_b, first(Level::Error, engine("b")));
        let of_a = log.take(now, here, 2, "slow");
        assert_eq!(of_a, first(Level::Warning, engine("a")));
        log.take(now, there, SENTENCE, "TensorRT can't run it");
        log.take(now, here, SENTENCE, "TensorRT can't run it");
        let failures = [here, there].map(|thread| log.end(thread).unwrap().into_failure(-2));
        let [a, b] = failures.map(|failure| failure.message);
        assert_eq!(a, "TensorRT can't run it");
        assert_eq!(b, "TensorRT can't run it: broken");
    }

    #[test]
    fn message_of_a_foreign_thread_belongs_to_the_only_call() {
        let [here, there] = [thread::current().id(), elsewhere(|| thread::current().id())];
        let foreign = elsewhere(|| thread::current().id());
        let (now, mut log) = (Instant::now(), EMPTY);
        let idle = log.take(now, foreign, 3, "idle");
        assert_eq!(idle, first(Level::Info, None));
        log.begin(here, engine("a"));
        let of_one = log.take(now, foreign, 3, "one");
        assert_eq!(of_one, first(Level::Info, engine("a")));
        log.begin(there, engine("b"));
        let of_two = log.take(now, foreign, 3, "two");
        assert_eq!(of_two, first(Level::Info, None));
    }

    #[test]
    fn alternating_messages_are_logged_once_a_minute_with_count() {
        let (here, start, mut log) = (thread::current().id(), Instant::now(), EMPTY);
        let mut numbers = |second, text| {
            let taken = log.take(start + Duration::from_secs(second), here, 1, text);
            taken.map(|taken| taken.suppressed)
        };
        assert_eq!([numbers(0, "a"), numbers(1, "b")], [Some(0), Some(0)]);
        for second in [2, 20, 59] {
            assert_eq!([numbers(second, "a"), numbers(second, "b")], [None, None]);
        }
        assert_eq!([numbers(60, "a"), numbers(60, "b")], [Some(3), None]);
        assert_eq!([numbers(61, "a"), numbers(61, "b")], [None, Some(4)]);
    }

    #[test]
    fn equal_texts_of_two_engines_are_two_messages() {
        let (here, now, mut log) = (thread::current().id(), Instant::now(), EMPTY);
        for name in ["a", "b"] {
            log.begin(here, engine(name));
            assert!(log.take(now, here, 1, "broken").is_some());
            log.end(here);
        }
    }

    #[test]
    fn number_of_known_messages_is_bounded() {
        let (here, now, mut log) = (thread::current().id(), Instant::now(), EMPTY);
        for n in 0..3 * KEPT {
            assert!(log.take(now, here, 1, &n.to_string()).is_some());
        }
        assert_eq!(log.known.len(), KEPT);
    }

    #[test]
    fn text_is_one_line_of_bounded_length() {
        assert_eq!(one_line(" a\n  b "), "a b");
        assert_eq!(one_line(&"é".repeat(MAX_TEXT)).len(), MAX_TEXT);
    }
}
