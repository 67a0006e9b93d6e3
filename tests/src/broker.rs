//! A real MQTT broker on a loopback port, and a real foreign subscriber.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::certificates::Identity;
use crate::daemons::{Process, wait_for};

/// A port of the loopback interface that nobody uses now.
///
/// # Errors
/// When there is none.
pub fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Whom a broker lets in, and how.
#[derive(Debug, Clone, Default)]
pub struct BrokerOptions {
    /// User name and password that clients must give; absent: nobody is asked.
    pub login: Option<(String, String)>,
    /// TLS on its port; absent: plain TCP.
    pub tls: Option<BrokerTls>,
}

/// How a broker speaks TLS.
#[derive(Debug, Clone)]
pub struct BrokerTls {
    /// PEM file with the authority that signed everybody's certificates.
    pub ca_file: PathBuf,
    /// The broker's own certificate.
    pub identity: Identity,
    /// The certificate that foreign clients show; present: clients must have one.
    pub clients: Option<Identity>,
}

/// Mosquitto, which can be stopped and started again on its port; sessions persist over a stop.
#[derive(Debug)]
pub struct Mosquitto {
    /// Port on 127.0.0.1.
    pub port: u16,
    options: BrokerOptions,
    folder: PathBuf,
    process: Option<Process>,
}

impl Mosquitto {
    /// Starts it with its files in `folder`, for everybody.
    ///
    /// # Errors
    /// When it is not installed or does not listen.
    pub fn start(folder: &Path) -> anyhow::Result<Self> {
        Self::start_with(folder, BrokerOptions::default())
    }

    /// Starts it with its files in `folder`.
    ///
    /// # Errors
    /// When it is not installed or does not listen.
    pub fn start_with(folder: &Path, options: BrokerOptions) -> anyhow::Result<Self> {
        fs::create_dir_all(folder)?;
        let port = free_port()?;
        let mut config = format!(
            "user root\nlistener {port} 127.0.0.1\npersistence true\npersistence_location {}/\nautosave_interval 1\nmax_queued_messages 0\n",
            folder.display()
        );
        match &options.login {
            None => config.push_str("allow_anonymous true\n"),
            Some((user, password)) => {
                let file = folder.join("passwords");
                let made = Command::new("mosquitto_passwd")
                    .args(["-b", "-c"])
                    .arg(&file)
                    .args([user, password])
                    .status()?;
                ensure!(made.success(), "mosquitto_passwd: {made}");
                config.push_str(&format!(
                    "allow_anonymous false\npassword_file {}\n",
                    file.display()
                ));
            }
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

    /// Everything it logged.
    #[must_use]
    pub fn log_text(&self) -> String {
        self.process
            .as_ref()
            .map(Process::log_text)
            .unwrap_or_default()
    }

    /// A foreign client's command line up to what is its own.
    fn foreign(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-q", "1"]);
        if let Some((user, password)) = &self.options.login {
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

    /// Starts it again.
    ///
    /// # Errors
    /// When it does not listen.
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

    /// Ends it by SIGTERM: it saves its sessions first. Killed, it would forget a subscriber of the last second, who then misses what is
    /// published before it is back.
    ///
    /// # Errors
    /// When it does not end.
    pub fn down(&mut self) -> anyhow::Result<()> {
        let Some(process) = self.process.take() else {
            return Ok(());
        };
        process.terminate()?;
        process.end().map(drop)
    }

    /// A foreign client that prints every message of `topic`, with its topic, into a file; its session persists.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn subscribe(&self, topic: &str) -> anyhow::Result<Subscriber> {
        self.subscribe_as("foreign", topic)
    }

    /// The same under another name than the first one's.
    ///
    /// # Errors
    /// When it can't be started.
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
    /// When the broker does not take it.
    pub fn publish(&self, topic: &str, retain: bool, payload: &str) -> anyhow::Result<()> {
        let mut command = self.foreign("mosquitto_pub");
        command.args(["-t", topic, "-m", payload]);
        if retain {
            command.arg("-r");
        }
        let status = command.status()?;
        anyhow::ensure!(status.success(), "mosquitto_pub: {status}");
        Ok(())
    }
}

/// A foreign subscriber.
#[derive(Debug)]
pub struct Subscriber {
    process: Process,
}

impl Subscriber {
    /// What came so far: topic and payload of every message.
    #[must_use]
    pub fn messages(&self) -> Vec<(String, String)> {
        self.process
            .log_text()
            .lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(topic, payload)| (topic.to_owned(), payload.to_owned()))
            .collect()
    }

    /// The JSON that came so far on topics with this part.
    #[must_use]
    pub fn bodies(&self, part: &str) -> Vec<Value> {
        let mut messages = self.messages();
        messages.retain(|(topic, _)| topic.contains(part));
        let bodies = messages.iter().map(|(_, text)| serde_json::from_str(text));
        bodies.filter_map(Result::ok).collect()
    }
}
