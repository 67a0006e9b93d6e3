//! A real MQTT broker on a loopback port, and a real foreign subscriber.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::certificates::Identity;
use crate::daemons::{Process, wait_for};

/// Ports below those that Linux gives to outgoing connections: one of them would take the port of
/// a stopped broker.
const FIRST_PORT: u32 = 20_000;
const PORTS: u32 = 12_000;
/// Ports of one test process; others begin elsewhere.
const PORTS_PER_PROCESS: u32 = 8;

/// Returns a port of the loopback interface that is free now, another one at each call.
///
/// # Errors
/// If there is none.
pub fn free_port() -> anyhow::Result<u16> {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let first = std::process::id() * PORTS_PER_PROCESS + call;
    let mut ports =
        (first..first + PORTS).filter_map(|n| u16::try_from(FIRST_PORT + n % PORTS).ok());
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    ports.find(is_free).context("no free port")
}

/// Authentication and encryption of a broker.
#[derive(Debug, Clone, Default)]
pub struct BrokerOptions {
    /// User names and passwords of clients; the first is the foreign client's. Empty: anonymous
    /// access.
    pub logins: Vec<(String, String)>,
    /// Access list, in the broker's format; absent: everyone may read and write everything.
    pub acl: Option<String>,
    /// TLS on its port; absent: plain TCP.
    pub tls: Option<BrokerTls>,
}

/// TLS settings of a broker.
#[derive(Debug, Clone)]
pub struct BrokerTls {
    /// PEM file with the authority that signed the certificates of broker and clients.
    pub ca_file: PathBuf,
    /// Certificate of the broker itself.
    pub identity: Identity,
    /// Certificate of the foreign clients; if present, every client must have one.
    pub clients: Option<Identity>,
}

/// Mosquitto, which can be stopped and restarted on its port; sessions persist.
#[derive(Debug)]
pub struct Mosquitto {
    pub port: u16,
    options: BrokerOptions,
    folder: PathBuf,
    process: Option<Process>,
}

impl Mosquitto {
    /// Returns the beginning of the section `[mqtt]` of a box at this broker.
    pub fn section(&self) -> String {
        format!("[mqtt]\nhost = \"127.0.0.1\"\nport = {}\n", self.port)
    }

    /// Starts a broker for anonymous clients, with its files in `folder`.
    ///
    /// # Errors
    /// If Mosquitto is not installed or does not listen.
    pub fn start(folder: &Path) -> anyhow::Result<Self> {
        Self::start_with(folder, BrokerOptions::default())
    }

    /// Starts a broker with these options, with its files in `folder`.
    ///
    /// # Errors
    /// If Mosquitto is not installed or does not listen.
    pub fn start_with(folder: &Path, options: BrokerOptions) -> anyhow::Result<Self> {
        fs::create_dir_all(folder)?;
        let port = free_port()?;
        let mut config = format!(
            "user root\nlistener {port} 127.0.0.1\npersistence true\npersistence_location {}/\nautosave_interval 1\nmax_queued_messages 0\n",
            folder.display()
        );
        let is_anonymous = options.logins.is_empty();
        config.push_str(&format!("allow_anonymous {is_anonymous}\n"));
        if !is_anonymous {
            let file = folder.join("passwords");
            fs::write(&file, "")?;
            for (user, password) in &options.logins {
                let made = Command::new("mosquitto_passwd")
                    .arg("-b")
                    .arg(&file)
                    .args([user, password])
                    .status()?;
                ensure!(made.success(), "mosquitto_passwd: {made}");
            }
            config.push_str(&format!("password_file {}\n", file.display()));
        }
        if let Some(acl) = &options.acl {
            let file = folder.join("acl");
            fs::write(&file, acl)?;
            config.push_str(&format!("acl_file {}\n", file.display()));
        }
        if let Some(tls) = &options.tls {
            config.push_str(&format!(
                "cafile {}\ncertfile {}\nkeyfile {}\nrequire_certificate {}\n",
                tls.ca_file.display(),
                tls.identity.cert_file.display(),
                tls.identity.key_file.display(),
                tls.clients.is_some()
            ));
        }
        fs::write(folder.join("mosquitto.conf"), config)?;
        let mut broker = Self {
            port,
            options,
            folder: folder.to_path_buf(),
            process: None,
        };
        broker.up()?;
        Ok(broker)
    }

    /// Returns everything that the broker logged.
    pub fn log_text(&self) -> String {
        self.process
            .as_ref()
            .map(Process::log_text)
            .unwrap_or_default()
    }

    /// Builds the command of a foreign client with address, first login and TLS options.
    fn foreign(&self, program: &str) -> Command {
        self.client(program, self.options.logins.first())
    }

    fn client(&self, program: &str, login: Option<&(String, String)>) -> Command {
        let mut command = Command::new(program);
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-q", "1"]);
        if let Some((user, password)) = login {
            command.args(["-u", user, "-P", password]);
        }
        if let Some(tls) = &self.options.tls {
            command.arg("--cafile").arg(&tls.ca_file);
            if let Some(identity) = &tls.clients {
                command.arg("--cert").arg(&identity.cert_file);
                command.arg("--key").arg(&identity.key_file);
            }
        }
        command
    }

    /// Starts the broker again.
    ///
    /// # Errors
    /// If it does not listen.
    pub fn up(&mut self) -> anyhow::Result<()> {
        let program = ["/usr/sbin/mosquitto", "/usr/bin/mosquitto"]
            .into_iter()
            .find(|p| Path::new(p).exists())
            .context("mosquitto is not installed; run ./test, which installs it")?;
        let mut command = Command::new(program);
        command
            .arg("-c")
            .arg(self.folder.join("mosquitto.conf"))
            .env("HOME", &self.folder);
        self.process = Some(Process::start(command, &self.folder.join("mosquitto.log"))?);
        let port = self.port;
        wait_for("the broker to listen", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).ok()
        })?;
        Ok(())
    }

    /// Stops the broker by SIGTERM, so that it saves its sessions. After a SIGKILL it would forget
    /// a subscriber of the last second, who would miss what is published before it is back.
    ///
    /// # Errors
    /// If it does not exit.
    pub fn down(&mut self) -> anyhow::Result<()> {
        let Some(process) = self.process.take() else {
            return Ok(());
        };
        process.terminate()?;
        process.end().map(drop)
    }

    /// Starts a foreign client that writes every message of `topic` to a file. Its session
    /// persists.
    ///
    /// # Errors
    /// If the client can't be started.
    pub fn subscribe(&self, topic: &str) -> anyhow::Result<Subscriber> {
        self.subscribe_as("foreign", topic)
    }

    /// Starts a foreign client with the client id `name`.
    ///
    /// # Errors
    /// If the client can't be started.
    pub fn subscribe_as(&self, name: &str, topic: &str) -> anyhow::Result<Subscriber> {
        let log = self.folder.join(format!("subscriber-{name}.log"));
        let mut command = self.foreign("mosquitto_sub");
        command.args(["-c", "-i", name, "-v", "-t", topic]);
        Ok(Subscriber {
            process: Process::start(command, &log)?,
        })
    }

    /// Publishes one message as a foreign client.
    ///
    /// # Errors
    /// If the broker does not accept it.
    pub fn publish(&self, topic: &str, retain: bool, payload: &str) -> anyhow::Result<()> {
        send(self.foreign("mosquitto_pub"), topic, retain, payload)
    }

    /// Publishes one message with the login of `user`. An access list may drop it.
    ///
    /// # Errors
    /// If the user has no login, or the broker does not accept it.
    pub fn publish_as(
        &self,
        user: &str,
        topic: &str,
        retain: bool,
        payload: &str,
    ) -> anyhow::Result<()> {
        let login = self.options.logins.iter().find(|(name, _)| name == user);
        let login = login.with_context(|| format!("{user} has no login"))?;
        let command = self.client("mosquitto_pub", Some(login));
        send(command, topic, retain, payload)
    }
}

/// Publishes one message by `command`, which has the address and the login.
fn send(mut command: Command, topic: &str, retain: bool, payload: &str) -> anyhow::Result<()> {
    command.args(["-t", topic, "-m", payload]);
    if retain {
        command.arg("-r");
    }
    let status = command.status()?;
    ensure!(status.success(), "mosquitto_pub: {status}");
    Ok(())
}

/// Foreign subscriber that collects messages.
#[derive(Debug)]
pub struct Subscriber {
    process: Process,
}

impl Subscriber {
    /// Returns topic and payload of every message so far.
    pub fn messages(&self) -> Vec<(String, String)> {
        self.process
            .log_text()
            .lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(topic, payload)| (topic.to_owned(), payload.to_owned()))
            .collect()
    }

    /// Returns the JSON payloads so far on topics that contain `part`.
    pub fn bodies(&self, part: &str) -> Vec<Value> {
        let mut messages = self.messages();
        messages.retain(|(topic, _)| topic.contains(part));
        let bodies = messages.iter().map(|(_, text)| serde_json::from_str(text));
        bodies.filter_map(Result::ok).collect()
    }
}
