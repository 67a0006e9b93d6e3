//! One attempt by the program `claude` of this machine.
//!
//! - The program gets a search path and a home folder, where its login is, and no other variable.
//! - Its time and its output are bounded; a program that is not awaited any more is killed.
//! - Its working folder is the root, so that it reads no project's instructions.

use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::time::timeout;

use super::transport::{Attempt, Spent};
use crate::attempt_error::{AttemptError, AttemptErrorKind};
use crate::catalogue::Model;
use crate::wire::claude_program::{ProgramCall, decode};

/// Maximum bytes of the answer.
const MAX_OUTPUT: u64 = 8 << 20;
/// Maximum bytes of standard error that are read.
const MAX_ERRORS: u64 = 64 << 10;
/// Variables that the program gets, where this process has them.
const KEPT_VARIABLES: [&str; 2] = ["PATH", "HOME"];

struct Output {
    text: Vec<u8>,
    errors: Vec<u8>,
    status: ExitStatus,
}

impl Output {
    /// The outcome of a run that failed without an answer. One that ended by itself and said why
    /// refused its flags or its installation, and asked no model. A killed one may have asked.
    fn refusal(&self) -> Attempt {
        let said = String::from_utf8_lossy(&self.errors).trim().to_owned();
        let is_refusal = self.status.code().is_some() && !said.is_empty();
        let spent = if is_refusal {
            Spent::Nothing
        } else {
            Spent::Unknown
        };
        let why = if said.is_empty() {
            format!("the program ended without a word: {}", self.status)
        } else {
            said
        };
        let error = AttemptError::new(AttemptErrorKind::BadRequest, why);
        Attempt::failed(error, spent)
    }
}

#[derive(Debug)]
pub(super) struct Program {
    path: PathBuf,
}

impl Program {
    pub(super) const fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Makes one attempt, which ends within `remaining`.
    pub(super) async fn attempt(
        &self,
        call: ProgramCall,
        model: &Model,
        remaining: Duration,
    ) -> Attempt {
        let run = match timeout(remaining, self.run(call)).await {
            Ok(run) => run,
            Err(_) => {
                let error = AttemptError::new(AttemptErrorKind::Silent, "the program was stopped");
                return Attempt::failed(error, Spent::Unknown);
            }
        };
        let output = match run {
            Ok(output) => output,
            Err(error) => {
                let why = format!("{}: {error}", self.path.display());
                let error = AttemptError::new(AttemptErrorKind::Unreachable, why);
                return Attempt::failed(error, Spent::Nothing);
            }
        };
        if output.text.len() as u64 > MAX_OUTPUT {
            let error = AttemptError::new(AttemptErrorKind::AnswerTooLarge, "over 8 MiB");
            return Attempt::failed(error, Spent::Unknown);
        }
        if output.text.is_empty() && !output.status.success() {
            return output.refusal();
        }
        let answer = decode(model, &output.text);
        Attempt {
            spent: match answer.cost {
                Some(cost) => Spent::Priced {
                    usage: answer.usage,
                    cost,
                },
                None => Spent::Unknown,
            },
            result: answer.result,
        }
    }

    async fn run(&self, call: ProgramCall) -> io::Result<Output> {
        let kept = KEPT_VARIABLES.into_iter();
        let kept = kept.filter_map(|name| Some((name, std::env::var_os(name)?)));
        let mut child = Command::new(&self.path)
            .args(&call.arguments)
            .env_clear()
            .envs(kept)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut input), Some(output), Some(errors)) = pipes else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let write = async move {
            // A program that ends early does not read all; its output says why.
            input.write_all(call.input.as_bytes()).await.ok();
        };
        let ((), text, errors) = tokio::join!(
            write,
            read_up_to(output, MAX_OUTPUT + 1),
            read_up_to(errors, MAX_ERRORS)
        );
        let (text, errors) = (text?, errors?);
        if text.len() as u64 > MAX_OUTPUT {
            child.start_kill().ok();
        }
        let status = child.wait().await?;
        Ok(Output {
            text,
            errors,
            status,
        })
    }
}

async fn read_up_to(pipe: impl AsyncRead + Unpin, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    pipe.take(max).read_to_end(&mut bytes).await?;
    Ok(bytes)
}
