//! The server: reads requests, plays the script, then takes answers from the exchange folder.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::claude::{self, Claude, Dialect, Form, Refusal};
use crate::exchange::{Exchange, NeutralRequest};
use crate::http::{self, Answer, End, Request};
use crate::recorded::Recording;
use crate::script::{Script, Step};

/// Interval of keep-alive bytes while an answer is awaited.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// The server to play.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub enum ServerKind {
    #[default]
    Claude,
    /// Serves `/v1/messages` as Ollama does.
    Ollama,
    /// Answers the requests of this recording, and no others.
    Recorded(PathBuf),
}

/// Start-up settings of a [`Server`].
#[derive(Debug, Default)]
pub struct Settings {
    /// Port on the loopback interface; 0: a free one.
    pub port: u16,
    /// Accepted API key; absent: any, but a missing key is refused as by the provider.
    pub key: Option<String>,
    /// Models to serve besides Claude's own. Ollama serves any model.
    pub models: Vec<String>,
    /// Steps to play first.
    pub script: Script,
    pub kind: ServerKind,
    /// Folder of answers after the script; absent: a further request is a violation.
    pub exchange: Option<PathBuf>,
}

/// A running model server on the loopback interface; stops when dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    key: Option<String>,
    steps: VecDeque<Step>,
    requests: Vec<Request>,
    violations: Vec<String>,
    claude: Claude,
    recording: Option<Recording>,
    answered: u64,
    log: Option<File>,
}

/// How a request is answered.
#[derive(Debug)]
enum Action {
    /// Send this answer at once.
    Answer(Answer),
    /// Wait for an answer in the exchange folder.
    Ask(Box<NeutralRequest>, Form),
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Starts a server on a free port. `key` is the accepted one; absent: any.
    ///
    /// # Errors
    /// Fails when no port can be opened.
    pub async fn start(key: Option<&str>, script: Script) -> anyhow::Result<Self> {
        let key = key.map(str::to_owned);
        Self::with(Settings {
            key,
            script,
            ..Settings::default()
        })
        .await
    }

    /// Starts a server with settings.
    ///
    /// # Errors
    /// Fails when the port cannot be opened or the exchange folder cannot be used.
    pub async fn with(settings: Settings) -> anyhow::Result<Self> {
        let exchange = match &settings.exchange {
            Some(folder) => Some(Arc::new(Exchange::open(folder)?)),
            None => None,
        };
        let (dialect, recording) = match &settings.kind {
            ServerKind::Claude => (Dialect::Anthropic, None),
            ServerKind::Ollama => (Dialect::Ollama, None),
            ServerKind::Recorded(path) => (Dialect::Anthropic, Some(Recording::read(path)?)),
        };
        let listener = TcpListener::bind(("127.0.0.1", settings.port)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Mutex::new(Shared {
            key: settings.key,
            steps: settings.script.steps.into(),
            requests: Vec::new(),
            violations: Vec::new(),
            claude: Claude::new(dialect, settings.models),
            recording,
            answered: 0,
            log: None,
        }));
        let served = shared.clone();
        let task = tokio::spawn(async move {
            // Dropping the set ends the connections together with the server.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let served = served.clone();
                let exchange = exchange.clone();
                connections.spawn(async move {
                    // A client that breaks its connection does not affect the script.
                    drop(serve(stream, &served, exchange.as_deref()).await);
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self {
            address,
            shared,
            task,
        })
    }

    /// Logs each further request to `file`, one JSON object a line, with status and usage.
    pub fn log_requests(&self, file: File) {
        self.shared.lock().log = Some(file);
    }

    /// Base URL to configure for the provider.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.lock().requests.clone()
    }

    /// Contract violations of the requests so far.
    pub fn violations(&self) -> Vec<String> {
        self.shared.lock().violations.clone()
    }

    /// Number of steps not played yet.
    pub fn steps_left(&self) -> usize {
        self.shared.lock().steps.len()
    }

    /// Appends steps to the script.
    pub fn add(&self, steps: impl IntoIterator<Item = Step>) {
        self.shared.lock().steps.extend(steps);
    }
}

/// Serves one connection until it ends.
async fn serve(
    mut stream: TcpStream,
    shared: &Mutex<Shared>,
    exchange: Option<&Exchange>,
) -> anyhow::Result<()> {
    let mut kept = Vec::new();
    while let Some(request) = http::read(&mut stream, &mut kept).await? {
        let action = shared.lock().decide(&request, exchange.is_some());
        let (answer, again) = match (action, exchange) {
            (Action::Answer(answer), _) => {
                shared.lock().log(&request, &answer);
                let again = http::write(&mut stream, &answer).await;
                (answer, again)
            }
            (Action::Ask(asked, form), Some(exchange)) => {
                let asking = Asking {
                    request: &request,
                    asked: &asked,
                    form,
                };
                let answered = asking.answer(&mut stream, &mut kept, shared, exchange);
                let Some((answer, again)) = answered.await? else {
                    return Ok(());
                };
                (answer, again)
            }
            (Action::Ask(..), None) => return Ok(()),
        };
        if answer.end == End::Reset {
            // Without lingering, closing the socket sends a reset.
            drop(stream.set_zero_linger());
        }
        if !again? {
            return Ok(());
        }
    }
    Ok(())
}

/// A request that waits for its answer in the exchange folder.
struct Asking<'r> {
    request: &'r Request,
    asked: &'r NeutralRequest,
    form: Form,
}

impl Asking<'_> {
    /// Waits for the answer and writes it; `None` when the client has disconnected.
    async fn answer(
        &self,
        stream: &mut TcpStream,
        kept: &mut Vec<u8>,
        shared: &Mutex<Shared>,
        exchange: &Exchange,
    ) -> anyhow::Result<Option<(Answer, anyhow::Result<bool>)>> {
        let put = exchange.put(self.asked);
        let number = put.inspect_err(|error| {
            let violation = format!("cannot write a request to the exchange folder: {error:#}");
            shared.lock().violations.push(violation);
        })?;
        let mut reply = std::pin::pin!(exchange.reply(number));
        let mut is_begun = false;
        let step = loop {
            tokio::select! {
                step = &mut reply => break step,
                read = stream.read_buf(kept) => {
                    if read.unwrap_or(0) == 0 {
                        exchange.abandon(number);
                        return Ok(None);
                    }
                }
                () = tokio::time::sleep(KEEP_ALIVE_INTERVAL) => {
                    if !is_begun {
                        let headers = [("content-type", self.form.content_type().to_owned())];
                        http::write_head(stream, 200, &headers).await?;
                        is_begun = true;
                    }
                    http::write_chunk(stream, self.form.idle()).await?;
                }
            }
        };
        let answer = shared.lock().play(self.request, &step);
        let again = if is_begun {
            http::write_body(stream, &answer).await
        } else {
            http::write(stream, &answer).await
        };
        Ok(Some((answer, again)))
    }
}

impl Shared {
    /// Stores a request and decides how it is answered.
    fn decide(&mut self, request: &Request, has_exchange: bool) -> Action {
        self.requests.push(request.clone());
        if let Some(recording) = &self.recording {
            let (answer, is_played) = match recording.answer(request, self.steps.front()) {
                Ok(answered) => answered,
                Err(error) => return self.refuse(Refusal::bad(format!("{error:#}"))),
            };
            if is_played {
                self.steps.pop_front();
            }
            return Action::Answer(answer);
        }
        if let Err(refused) = self.claude.check(request, self.key.as_deref()) {
            return self.refuse(refused);
        }
        if let Some(step) = self.next_step(request) {
            return Action::Answer(self.played(request, &step));
        }
        if has_exchange {
            let asked = self.claude.asked(request);
            return Action::Ask(Box::new(asked), self.claude.form(request));
        }
        let message = "the script has no step left";
        self.refuse(Refusal::new(500, "api_error", message))
    }

    /// Refuses a request, and keeps a violation.
    fn refuse(&mut self, refused: Refusal) -> Action {
        let answer = claude::answer_to(&refused);
        if refused.is_violation {
            self.violations.push(refused.message);
        }
        Action::Answer(answer)
    }

    /// Takes the next step that the prompt does not leave out.
    fn next_step(&mut self, request: &Request) -> Option<Step> {
        let body = String::from_utf8_lossy(&request.body);
        let is_left_out = |step: &Step| {
            let text = step.unless_prompt_has.as_deref();
            text.is_some_and(|text| body.contains(text))
        };
        while self.steps.front().is_some_and(is_left_out) {
            self.steps.pop_front();
        }
        self.steps.pop_front()
    }

    /// Plays a step from the exchange folder, and logs the request.
    fn play(&mut self, request: &Request, step: &Step) -> Answer {
        let answer = self.played(request, step);
        self.log(request, &answer);
        answer
    }

    fn played(&mut self, request: &Request, step: &Step) -> Answer {
        self.answered += 1;
        self.claude.play(request, step, self.answered)
    }

    fn log(&mut self, request: &Request, answer: &Answer) {
        if let Some(log) = &mut self.log
            && let Err(error) = writeln!(log, "{}", log_entry(request, answer))
        {
            self.violations
                .push(format!("cannot log a request: {error}"));
        }
    }
}

/// One line of the request log.
fn log_entry(request: &Request, answer: &Answer) -> Value {
    let headers = request.headers.iter();
    let headers: Value = headers
        .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
        .collect();
    json!({
        "method": request.method, "path": request.path, "headers": headers, "body": request.json(),
        "status": answer.status, "usage": answer.usage,
    })
}
