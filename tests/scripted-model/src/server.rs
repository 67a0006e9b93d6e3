//! The socket: takes requests, plays the script, and asks in the folder of exchange for what the script does not say.

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

use crate::claude::{Claude, Dialect};
use crate::exchange::{Exchange, NeutralRequest};
use crate::gemini::Gemini;
use crate::http::{self, Answer, End, Request};
use crate::ollama::Ollama;
use crate::openai::Openai;
use crate::provider::{Form, Provider, Refusal};
use crate::script::{Script, Step};

/// Silence after which whoever asked is shown that its connection lives.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// Whose server it is, where a path alone does not say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guise {
    /// Ollama: `/v1/messages` is answered as it answers there, and nothing but that and `/api/chat` is served.
    Ollama,
}

/// What a server is started with.
#[derive(Debug, Default)]
pub struct Settings {
    /// Port of the loopback interface; 0: a free one.
    pub port: u16,
    /// The key that it accepts; absent: any, but where the provider asks for one there has to be one.
    pub key: Option<String>,
    /// Models that Claude's server has besides the provider's own; any is there where Ollama's is played.
    pub models: Vec<String>,
    /// What it says first.
    pub script: Script,
    /// Whose server it is; absent: whose protocol the path of a request belongs to.
    pub guise: Option<Guise>,
    /// Where what the script does not say is asked for; absent: nowhere, and a request after its end breaks the contract.
    pub exchange: Option<PathBuf>,
}

/// A model on a port of the loopback interface. It ends when it is dropped.
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
    guise: Option<Guise>,
    claude: Claude,
    openai: Openai,
    gemini: Gemini,
    ollama: Ollama,
    answered: u64,
    notes: Option<File>,
}

/// What becomes of a request.
#[derive(Debug)]
enum Turn {
    /// This, at once.
    Answer(Answer),
    /// What somebody puts into the folder of exchange.
    Ask(Box<NeutralRequest>, Form),
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Starts one on a free port that accepts `key`; without a key it accepts any.
    ///
    /// # Errors
    /// When no port can be opened.
    pub async fn start(key: Option<&str>, script: Script) -> anyhow::Result<Self> {
        let key = key.map(str::to_owned);
        Self::with(Settings {
            key,
            script,
            ..Settings::default()
        })
        .await
    }

    /// Starts one.
    ///
    /// # Errors
    /// When the port can't be opened, or the folder of exchange can't be used.
    pub async fn with(settings: Settings) -> anyhow::Result<Self> {
        let exchange = match &settings.exchange {
            Some(folder) => Some(Arc::new(Exchange::open(folder)?)),
            None => None,
        };
        let listener = TcpListener::bind(("127.0.0.1", settings.port)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Mutex::new(Shared {
            key: settings.key,
            steps: settings.script.steps.into(),
            requests: Vec::new(),
            violations: Vec::new(),
            guise: settings.guise,
            claude: {
                let dialect = match settings.guise {
                    Some(Guise::Ollama) => Dialect::Ollama,
                    None => Dialect::Anthropic,
                };
                Claude::new(dialect, settings.models)
            },
            openai: Openai::default(),
            gemini: Gemini::default(),
            ollama: Ollama,
            answered: 0,
            notes: None,
        }));
        let served = shared.clone();
        let task = tokio::spawn(async move {
            // Connections end with the server, as those of a program that ends.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let served = served.clone();
                let exchange = exchange.clone();
                connections.spawn(async move {
                    // A peer that breaks its connection is no concern of the script.
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

    /// Notes each request from now on in `file`, one JSON object a line: what came, the status it was answered with, what it was charged.
    pub fn note_in(&self, file: File) {
        self.shared.lock().notes = Some(file);
    }

    /// Address to be configured as the provider's.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.shared.lock().requests.clone()
    }

    /// What in them broke the contract.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        self.shared.lock().violations.clone()
    }

    /// Steps that nobody asked for yet.
    #[must_use]
    pub fn steps_left(&self) -> usize {
        self.shared.lock().steps.len()
    }

    /// Adds steps behind those that are left.
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
        let turn = shared.lock().turn(&request, exchange.is_some());
        let (answer, again) = match (turn, exchange) {
            (Turn::Answer(answer), _) => {
                shared.lock().note(&request, &answer);
                let again = http::write(&mut stream, &answer).await;
                (answer, again)
            }
            (Turn::Ask(asked, form), Some(exchange)) => {
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
            (Turn::Ask(..), None) => return Ok(()),
        };
        if answer.end == End::Reset {
            // A reset and no orderly end.
            drop(stream.set_zero_linger());
        }
        if !again? {
            return Ok(());
        }
    }
    Ok(())
}

/// A request that waits for somebody's answer.
struct Asking<'r> {
    request: &'r Request,
    asked: &'r NeutralRequest,
    form: Form,
}

impl Asking<'_> {
    /// Waits for the answer and writes it; `None` when whoever asked has gone.
    async fn answer(
        &self,
        stream: &mut TcpStream,
        kept: &mut Vec<u8>,
        shared: &Mutex<Shared>,
        exchange: &Exchange,
    ) -> anyhow::Result<Option<(Answer, anyhow::Result<bool>)>> {
        let put = exchange.put(self.asked);
        let number = put.inspect_err(|error| {
            let told = format!("a request can't be put into the folder: {error:#}");
            shared.lock().violations.push(told);
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
    /// What becomes of a request; it is remembered.
    fn turn(&mut self, request: &Request, can_ask: bool) -> Turn {
        self.requests.push(request.clone());
        let key = self.key.clone();
        let provider = self.provider(request);
        if let Err(refused) = provider.check(request, key.as_deref()) {
            let answer = provider.refusal(&refused);
            if refused.is_violation {
                self.violations.push(refused.message);
            }
            return Turn::Answer(answer);
        }
        if let Some(step) = self.steps.pop_front() {
            return Turn::Answer(self.played(request, &step));
        }
        let provider = self.provider(request);
        if can_ask {
            return Turn::Ask(Box::new(provider.asked(request)), provider.form(request));
        }
        let message = "the script is at its end";
        let answer = provider.refusal(&Refusal::new(500, "api_error", message));
        self.violations.push(message.to_owned());
        Turn::Answer(answer)
    }

    /// Plays what somebody answered, and notes it.
    fn play(&mut self, request: &Request, step: &Step) -> Answer {
        let answer = self.played(request, step);
        self.note(request, &answer);
        answer
    }

    fn played(&mut self, request: &Request, step: &Step) -> Answer {
        self.answered += 1;
        let number = self.answered;
        self.provider(request).play(request, step, number)
    }

    /// Whose protocol a request is in.
    fn provider(&mut self, request: &Request) -> &mut dyn Provider {
        let path = request.path.as_str();
        match self.guise {
            _ if path.starts_with("/api/") => &mut self.ollama,
            Some(Guise::Ollama) => &mut self.claude,
            None if path.starts_with("/v1/responses") => &mut self.openai,
            None if path.starts_with("/v1beta/") => &mut self.gemini,
            None => &mut self.claude,
        }
    }

    fn note(&mut self, request: &Request, answer: &Answer) {
        if let Some(notes) = &mut self.notes
            && let Err(error) = writeln!(notes, "{}", noted(request, answer))
        {
            self.violations
                .push(format!("a request can't be noted: {error}"));
        }
    }
}

/// A request as it is noted, with what came of it.
fn noted(request: &Request, answer: &Answer) -> Value {
    let headers = request.headers.iter();
    let headers: Value = headers
        .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
        .collect();
    json!({
        "method": request.method, "path": request.path, "headers": headers, "body": request.json(),
        "status": answer.status, "usage": answer.usage,
    })
}
