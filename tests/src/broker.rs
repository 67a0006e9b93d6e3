//! A real MQTT broker on a loopback port, and a real foreign subscriber.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::daemons::{Process, wait_for};

/// A port of the loopback interface that nobody uses now.
///
/// # Errors
/// When there is none.
pub fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Mosquitto, which can be stopped and started again on its port; sessions persist over a stop.
#[derive(Debug)]
pub struct Mosquitto {
    /// Port on 127.0.0.1.
    pub port: u16,
    folder: PathBuf,
    process: Option<Process>,
}

impl Mosquitto {
    /// Starts it with its files in `folder`.
    ///
    /// # Errors
    /// When it is not installed or does not listen.
    pub fn start(folder: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(folder)?;
        let port = free_port()?;
        let config = format!(
            "user root\nlistener {port} 127.0.0.1\nallow_anonymous true\npersistence true\npersistence_location {}/\nautosave_interval 1\nmax_queued_messages 0\n",
            folder.display()
        );
        fs::write(folder.join("mosquitto.conf"), config)?;
        let mut broker = Self {
            port,
            folder: folder.to_path_buf(),
            process: None,
        };
        broker.up()?;
        Ok(broker)
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

    /// Kills it.
    ///
    /// # Errors
    /// When it can't be waited for.
    pub fn down(&mut self) -> anyhow::Result<()> {
        match self.process.take() {
            Some(process) => process.kill(),
            None => Ok(()),
        }
    }

    /// A foreign client that prints every message of `topic`, with its topic, into a file; its session persists.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn subscribe(&self, topic: &str) -> anyhow::Result<Subscriber> {
        let log = self.folder.join("subscriber.log");
        let mut command = Command::new("mosquitto_sub");
        command.args([
            "-h",
            "127.0.0.1",
            "-p",
            &self.port.to_string(),
            "-q",
            "1",
            "-c",
            "-i",
            "foreign",
            "-v",
            "-t",
            topic,
        ]);
        Ok(Subscriber {
            process: Process::start(command, &log)?,
        })
    }

    /// Publishes one message as a foreign client.
    ///
    /// # Errors
    /// When the broker does not take it.
    pub fn publish(&self, topic: &str, retain: bool, payload: &str) -> anyhow::Result<()> {
        let mut command = Command::new("mosquitto_pub");
        command.args([
            "-h",
            "127.0.0.1",
            "-p",
            &self.port.to_string(),
            "-q",
            "1",
            "-t",
            topic,
            "-m",
            payload,
        ]);
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
}
