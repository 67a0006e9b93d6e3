//! The socket: takes requests, plays the script.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::claude::Claude;
use crate::http::{self, Answer, End, Request};
use crate::script::{Script, Step};

/// A model on a port of the loopback interface. It ends when it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    steps: VecDeque<Step>,
    requests: Vec<Request>,
    violations: Vec<String>,
    claude: Claude,
    notes: Option<File>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Starts one on a free port that accepts `key`; without a key it accepts any and none.
    ///
    /// # Errors
    /// When no port can be opened.
    pub async fn start(key: Option<&str>, script: Script) -> anyhow::Result<Self> {
        Self::on(0, key, script).await
    }

    /// Starts one on `port`.
    ///
    /// # Errors
    /// When the port can't be opened.
    pub async fn on(port: u16, key: Option<&str>, script: Script) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Mutex::new(Shared {
            steps: script.steps.into(),
            requests: Vec::new(),
            violations: Vec::new(),
            claude: Claude::new(key.map(str::to_owned)),
            notes: None,
        }));
        let served = shared.clone();
        let task = tokio::spawn(async move {
            // Connections end with the server, as those of a program that ends.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let served = served.clone();
                connections.spawn(async move { serve(stream, &served).await });
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

/// Serves one connection until it ends. A peer that breaks it is no concern of the script.
async fn serve(mut stream: TcpStream, shared: &Mutex<Shared>) {
    let mut kept = Vec::new();
    while let Ok(Some(request)) = http::read(&mut stream, &mut kept).await {
        let answer = shared.lock().answer(request);
        let again = http::write(&mut stream, &answer).await;
        if answer.end == End::Reset {
            // A reset and no orderly end.
            drop(stream.set_zero_linger());
        }
        if !again.unwrap_or(false) {
            return;
        }
    }
}

impl Shared {
    fn answer(&mut self, request: Request) -> Answer {
        self.requests.push(request.clone());
        let answer = self.answer_to(&request);
        if let Some(notes) = &mut self.notes
            && let Err(error) = writeln!(notes, "{}", noted(&request, &answer))
        {
            self.violations
                .push(format!("a request can't be noted: {error}"));
        }
        answer
    }

    fn answer_to(&mut self, request: &Request) -> Answer {
        if let Err(refused) = self.claude.check(request) {
            if refused.is_violation {
                self.violations.push(refused.message.clone());
            }
            return refused.answer();
        }
        match self.steps.pop_front() {
            Some(step) => self.claude.play(request, &step),
            None => {
                let message = "the script is at its end".to_owned();
                self.violations.push(message.clone());
                crate::claude::Refused::new(500, "api_error", message).answer()
            }
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
