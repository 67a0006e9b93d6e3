//! A broker with TLS, a login or client certificates. Every mistake gives one sentence with the key
//! to fix, no event is lost meanwhile, and no password is written anywhere.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::ensure;
use watchkeeper_tests::broker::{BrokerOptions, BrokerTls, Mosquitto};
use watchkeeper_tests::certificates::{Authority, Identity};
use watchkeeper_tests::daemons::{Bench, Process, program, wait_for};
use watchkeeper_tests::scene;

/// Topics of all events of cameras.
const EVENTS: &str = "watchkeeper/v1/test/bench/cam/+/ev/#";
/// Message of the agent without a session.
const NO_SESSION: &str = "no session with the broker";
const PASSWORD: &str = "right-one-4711";
const WRONG_PASSWORD: &str = "wrong-one-0815";

/// A broker with its authority.
struct Site {
    bench: Bench,
    authority: Authority,
    ca_file: PathBuf,
    broker: Mosquitto,
}

/// Sets up a broker that requires a client certificate if `asks_clients`, else a login.
fn site(asks_clients: bool) -> anyhow::Result<Site> {
    let bench = Bench::new("")?;
    let folder = bench.path("broker");
    fs::create_dir_all(&folder)?;
    let authority = Authority::new("the site's")?;
    let ca_file = folder.join("ca.crt");
    authority.write(&ca_file)?;
    let identity = authority.issue(&folder, "broker", &["127.0.0.1"])?;
    let clients = asks_clients
        .then(|| authority.issue(&folder, "foreign", &["foreign"]))
        .transpose()?;
    let options = BrokerOptions {
        logins: match asks_clients {
            true => Vec::new(),
            false => vec![("gate".to_owned(), PASSWORD.to_owned())],
        },
        acl: None,
        tls: Some(BrokerTls {
            ca_file: ca_file.clone(),
            identity,
            clients,
        }),
    };
    let broker = Mosquitto::start_with(&folder, options)?;
    Ok(Site {
        bench,
        authority,
        ca_file,
        broker,
    })
}

impl Site {
    /// Writes `[mqtt]` with the broker's address and `keys`, and starts the agent on it.
    fn agent(&self, keys: &str) -> anyhow::Result<Agent> {
        self.agent_at("127.0.0.1", self.broker.port, keys)
    }

    fn agent_at(&self, host: &str, port: u16, keys: &str) -> anyhow::Result<Agent> {
        self.bench
            .configure(&format!("[mqtt]\nhost = {host:?}\nport = {port}\n{keys}"))?;
        let before = fs::read_to_string(self.bench.path("agent.log")).unwrap_or_default();
        Ok(Agent {
            process: self.bench.agent()?,
            said_before: before.len(),
        })
    }

    /// Issues an identity of the authority for the box.
    fn box_identity(&self) -> anyhow::Result<Identity> {
        self.authority
            .issue(&self.bench.path("broker"), "box", &["bench"])
    }

    /// Checks that no file holds a password but the one that a user wrote.
    fn check_passwords(&self) -> anyhow::Result<()> {
        let logs = ["agent.log", "runtime.log"].map(|name| self.bench.path(name));
        for log in logs {
            let text = fs::read_to_string(&log)?;
            for password in [PASSWORD, WRONG_PASSWORD] {
                ensure!(!text.contains(password), "{}: {text}", log.display());
            }
        }
        let text = self.broker.log_text();
        ensure!(!text.contains(PASSWORD) && !text.contains(WRONG_PASSWORD));
        Ok(())
    }
}

/// A running agent, and the length of its log before it started.
struct Agent {
    process: Process,
    said_before: usize,
}

impl Agent {
    fn said(&self) -> String {
        let log = self.process.log_text();
        log.get(self.said_before..).unwrap_or_default().to_owned()
    }

    /// Returns the messages about a missing session.
    fn complaints(&self) -> Vec<String> {
        let lines = |text: String| -> Vec<String> {
            text.lines()
                .filter(|line| line.contains(NO_SESSION))
                .map(str::to_owned)
                .collect()
        };
        lines(self.said())
    }

    /// Waits for the message that holds all of `parts`; it must occur once, however often the agent
    /// retries.
    fn complains_once(&self, parts: &[&str]) -> anyhow::Result<()> {
        let all = |line: &String| parts.iter().all(|part| line.contains(part));
        let heard = wait_for("the agent to complain", || {
            self.complaints().iter().any(all).then_some(())
        });
        ensure!(heard.is_ok(), "no {parts:?} in {}", self.said());
        let times = self.complaints().iter().filter(|line| all(line)).count();
        ensure!(times == 1, "{times} times {parts:?}: {}", self.said());
        Ok(())
    }
}

#[test]
fn events_wait_through_tls_and_login_errors_and_arrive() -> anyhow::Result<()> {
    let site = site(false)?;
    let subscriber = site.broker.subscribe(EVENTS)?;
    let runtime = site.bench.runtime()?;
    scene::deploy(&site.bench)?;
    let trusted = site.bench.path("trusted.crt");
    Authority::new("somebody else's")?.write(&trusted)?;
    let login = |password: &str| {
        format!("tls = true\nca_file = {trusted:?}\nusername = \"gate\"\npassword = {password:?}\n")
    };

    // Plain TCP to a port that speaks TLS.
    let agent = site.agent(&format!(
        "username = \"gate\"\npassword = {WRONG_PASSWORD:?}\n"
    ))?;
    agent.complains_once(&["mqtt.tls"])?;
    agent.process.stop()?;

    // An authority that did not sign the broker's certificate. Then the file is replaced while the
    // agent runs, and the next mistake is reported.
    let agent = site.agent(&login(WRONG_PASSWORD))?;
    agent.complains_once(&["mqtt.ca_file", "trusted.crt"])?;
    fs::copy(&site.ca_file, &trusted)?;
    agent.complains_once(&["mqtt.username", "mqtt.password"])?;
    scene::more_events(&site.bench, 1)?;
    agent.process.stop()?;
    ensure!(subscriber.messages().is_empty(), "nothing can have arrived");

    let agent = site.agent(&login(PASSWORD))?;
    scene::more_events(&site.bench, 1)?;
    scene::wait_for_all_events(&site.bench, &subscriber)?;
    ensure!(agent.complaints().is_empty(), "{}", agent.said());
    agent.process.stop()?;
    runtime.stop()?;
    site.check_passwords()
}

#[test]
fn mqtt_configuration_error_names_its_key() -> anyhow::Result<()> {
    let site = site(false)?;
    let _runtime = site.bench.runtime()?;
    let plain = Mosquitto::start(&site.bench.path("plain"))?;
    let tls = format!("tls = true\nca_file = {:?}\n", site.ca_file);
    let agent = site.agent_at("127.0.0.1", plain.port, &tls)?;
    agent.complains_once(&["mqtt.port"])?;
    agent.process.stop()?;

    // The certificate is issued for the address, not for the host name.
    let agent = site.agent_at("localhost", site.broker.port, &tls)?;
    agent.complains_once(&["mqtt.host", "not valid for localhost"])?;
    agent.process.stop()?;

    let agent = site.agent(&tls)?;
    agent.complains_once(&["asks for a login", "mqtt.username"])?;
    agent.process.stop()?;

    let junk = site.bench.path("junk.crt");
    fs::write(&junk, "no certificate\n")?;
    let agent = site.agent(&format!("tls = true\nca_file = {junk:?}\n"))?;
    agent.complains_once(&["mqtt.ca_file", "junk.crt", "no certificate"])?;
    agent.process.stop()
}

#[test]
fn broker_that_requires_a_certificate_gets_one() -> anyhow::Result<()> {
    let site = site(true)?;
    let subscriber = site.broker.subscribe(EVENTS)?;
    let runtime = site.bench.runtime()?;
    scene::deploy(&site.bench)?;
    let tls = format!("tls = true\nca_file = {:?}\n", site.ca_file);
    let with = |identity: &Identity| {
        format!(
            "{tls}cert_file = {:?}\nkey_file = {:?}\n",
            identity.cert_file, identity.key_file
        )
    };

    let agent = site.agent(&tls)?;
    agent.complains_once(&["asks for a certificate", "mqtt.cert_file", "mqtt.key_file"])?;
    agent.process.stop()?;

    let own = site.box_identity()?;
    let stranger = Authority::new("somebody else's")?.issue(
        &site.bench.path("broker"),
        "stranger",
        &["bench"],
    )?;
    let agent = site.agent(&with(&stranger))?;
    agent.complains_once(&["refused the box's certificate", "mqtt.cert_file"])?;
    agent.process.stop()?;

    let mixed = Identity {
        cert_file: own.cert_file.clone(),
        key_file: stranger.key_file,
    };
    let agent = site.agent(&with(&mixed))?;
    agent.complains_once(&["mqtt.cert_file and mqtt.key_file"])?;
    agent.process.stop()?;

    let agent = site.agent(&with(&own))?;
    scene::more_events(&site.bench, 1)?;
    scene::wait_for_all_events(&site.bench, &subscriber)?;
    ensure!(agent.complaints().is_empty(), "{}", agent.said());
    agent.process.stop()?;
    runtime.stop()
}

#[test]
fn run_logs_in_over_tls_and_writes_no_password() -> anyhow::Result<()> {
    let site = site(false)?;
    let subscriber = site.broker.subscribe("watchkeeper/v1/run/+/cam/+/ev/#")?;
    fs::write(site.bench.path("login"), format!("{PASSWORD}\n"))?;
    let state = site.bench.path("kept");
    let run =
        |address: &str, password_file: &str| -> anyhow::Result<(Option<i32>, String, String)> {
            let out = Command::new(program("watchkeeper")?)
                .args([
                    "run", "demo:", "--model", "motion", "--for", "9", "--json", "-v",
                ])
                .args([
                    "--line",
                    "all:320,0,320,360",
                    "--mqtt",
                    address,
                    "--keep-state",
                ])
                .arg(&state)
                // Base of the relative paths.
                .current_dir(site.bench.path(""))
                .env("WATCHKEEPER_MQTT__CA_FILE", "broker/ca.crt")
                .env("WATCHKEEPER_MQTT__PASSWORD_FILE", password_file)
                .output()?;
            let said = String::from_utf8(out.stdout)?;
            Ok((out.status.code(), said, String::from_utf8(out.stderr)?))
        };
    let address = format!("mqtts://gate@127.0.0.1:{}", site.broker.port);
    let (code, said, errors) = run(&address, "login")?;
    ensure!(code == Some(0), "{code:?}: {said}{errors}");
    let events = said
        .lines()
        .filter(|line| line.contains("\"type\":\"event\""))
        .count();
    ensure!(events > 0, "a scene in which nothing happens: {said}");
    wait_for("every event at the subscriber", || {
        (subscriber.messages().len() == events).then_some(())
    })?;
    ensure!(!said.contains(PASSWORD) && !errors.contains(PASSWORD));
    // A later subscriber finds that the run has stopped, and no retained message of a live run.
    let later = site.broker.subscribe("watchkeeper/v1/run/#")?;
    let marker = "watchkeeper/v1/run/marker";
    let found = wait_for("what the broker kept of the run", || {
        site.broker.publish(marker, false, "all of it").ok()?;
        let found = later.messages();
        let is_all = found.iter().any(|(topic, _)| topic == marker);
        is_all.then_some(found)
    })?;
    // Events are for the session of a subscriber, which the broker keeps.
    let is_kept = |topic: &str| topic != marker && !topic.contains("/ev/");
    let kept: Vec<_> = found.iter().filter(|(topic, _)| is_kept(topic)).collect();
    let [(topic, shown)] = kept.as_slice() else {
        anyhow::bail!("{kept:?}");
    };
    ensure!(
        topic.ends_with("/state") && shown.contains("stopped"),
        "{kept:?}"
    );
    let holds_password = Command::new("grep")
        .args(["-r", "-l", PASSWORD])
        .arg(&state)
        .output()?;
    ensure!(
        holds_password.stdout.is_empty(),
        "{}",
        String::from_utf8_lossy(&holds_password.stdout)
    );

    // A login in the address is refused, and not repeated.
    let address = format!("mqtts://gate:{PASSWORD}@127.0.0.1:{}", site.broker.port);
    let (code, said, errors) = run(&address, "login")?;
    ensure!(
        code == Some(2) && !said.contains(PASSWORD),
        "{code:?}: {said}{errors}"
    );
    ensure!(
        errors.contains("WATCHKEEPER_MQTT__PASSWORD_FILE") && !errors.contains(PASSWORD),
        "{errors}"
    );

    // A wrong login is reported without user and password.
    fs::write(site.bench.path("login"), WRONG_PASSWORD)?;
    let (code, said, errors) = run(
        &format!("mqtts://gate@127.0.0.1:{}", site.broker.port),
        "login",
    )?;
    ensure!(code == Some(5), "{code:?}: {said}{errors}");
    ensure!(said.contains("refused the login"), "{said}");
    ensure!(
        !said.contains(WRONG_PASSWORD) && !errors.contains(WRONG_PASSWORD),
        "{errors}"
    );
    Ok(())
}
