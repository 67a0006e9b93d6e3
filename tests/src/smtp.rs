//! Mail server: SMTP after RFC 5321 with `AUTH PLAIN` and `AUTH LOGIN` (RFC 4954), over implicit
//! TLS (RFC 8314).
//!
//! - A message is recorded when its final dot has arrived.
//! - Nothing listens once the server is dropped.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::certificates::Identity;
use crate::listener::Listener;

/// Message that the server received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// User name and password.
    pub login: [String; 2],
    /// Address of the sender.
    pub from: String,
    /// Addresses of the recipients.
    pub to: Vec<String>,
    /// Headers and body.
    pub text: String,
}

/// Mail server that runs until it is dropped.
#[derive(Debug)]
pub struct MailServer {
    mails: Arc<Mutex<Vec<Mail>>>,
    listener: Listener,
}

impl MailServer {
    /// Starts on a free port of 127.0.0.1; accepts only logins with this password.
    ///
    /// # Errors
    /// If no port is free or the certificate is invalid.
    pub fn start(identity: &Identity, password: &str) -> anyhow::Result<Self> {
        let certificate = CertificateDer::from_pem_file(&identity.cert_file);
        let key = PrivateKeyDer::from_pem_file(&identity.key_file);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.map_err(|e| anyhow::anyhow!("{e:?}"))?],
                key.map_err(|e| anyhow::anyhow!("{e:?}"))?,
            )?;
        let (config, password) = (Arc::new(config), password.to_owned());
        let mails = Arc::<Mutex<Vec<Mail>>>::default();
        let noted = Arc::clone(&mails);
        let listener = Listener::start(move |stream: TcpStream, _| {
            stream.set_read_timeout(Some(Duration::from_secs(10)))?;
            let session = ServerConnection::new(Arc::clone(&config))?;
            talk(StreamOwned::new(session, stream), &password, &noted)
        })?;
        Ok(Self { mails, listener })
    }

    pub fn port(&self) -> u16 {
        self.listener.address().port()
    }

    /// Returns every message so far.
    pub fn mails(&self) -> Vec<Mail> {
        let mails = self.mails.lock();
        mails.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn talk(stream: impl Read + Write, password: &str, noted: &Mutex<Vec<Mail>>) -> anyhow::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut login = None;
    let mut from = String::new();
    let mut to = Vec::new();
    say(&mut stream, "220 mail.test ready")?;
    loop {
        let line = line(&mut stream)?;
        let (verb, rest) = line.split_once([' ', ':']).unwrap_or((&line, ""));
        match verb.to_ascii_uppercase().as_str() {
            "EHLO" => say(&mut stream, "250-mail.test\r\n250 AUTH PLAIN LOGIN")?,
            "AUTH" => {
                let found = credentials(&mut stream, rest)?;
                if found[1] == password {
                    login = Some(found);
                    say(&mut stream, "235 2.7.0 welcome")?;
                } else {
                    say(&mut stream, "535 5.7.8 no such login")?;
                }
            }
            "MAIL" | "RCPT" if login.is_none() => say(&mut stream, "530 5.7.0 who are you?")?,
            "MAIL" => {
                from = address(rest)?;
                say(&mut stream, "250 2.1.0 yes")?;
            }
            "RCPT" => {
                to.push(address(rest)?);
                say(&mut stream, "250 2.1.5 yes")?;
            }
            "DATA" => {
                say(&mut stream, "354 go on")?;
                let mut text = String::new();
                loop {
                    let line = self::line(&mut stream)?;
                    if line == "." {
                        break;
                    }
                    text.push_str(line.strip_prefix('.').unwrap_or(&line));
                    text.push('\n');
                }
                let mail = Mail {
                    login: login.clone().context("no login")?,
                    from: from.clone(),
                    to: std::mem::take(&mut to),
                    text,
                };
                noted
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(mail);
                say(&mut stream, "250 2.0.0 taken")?;
            }
            "RSET" | "NOOP" => say(&mut stream, "250 2.0.0 yes")?,
            "QUIT" => return say(&mut stream, "221 2.0.0 bye"),
            _ => say(&mut stream, "502 5.5.1 what?")?,
        }
    }
}

/// Decodes user name and password of both mechanisms.
fn credentials(
    stream: &mut BufReader<impl Read + Write>,
    rest: &str,
) -> anyhow::Result<[String; 2]> {
    let decode = |text: &str| -> anyhow::Result<String> {
        Ok(String::from_utf8(STANDARD.decode(text.trim())?)?)
    };
    match rest.split_once(' ') {
        Some((way, initial)) if way.eq_ignore_ascii_case("PLAIN") => {
            let text = decode(initial)?;
            let mut parts = text.split('\0').skip(1).map(str::to_owned);
            Ok([
                parts.next().context("no user")?,
                parts.next().context("no password")?,
            ])
        }
        None if rest.eq_ignore_ascii_case("LOGIN") => {
            say(stream, "334 VXNlcm5hbWU6")?;
            let user = decode(&line(stream)?)?;
            say(stream, "334 UGFzc3dvcmQ6")?;
            Ok([user, decode(&line(stream)?)?])
        }
        _ => bail!("AUTH {rest}"),
    }
}

/// Returns the text between `<` and `>`.
fn address(rest: &str) -> anyhow::Result<String> {
    let (_, rest) = rest.split_once('<').context("no <")?;
    let (address, _) = rest.split_once('>').context("no >")?;
    Ok(address.to_owned())
}

fn line(stream: &mut BufReader<impl Read>) -> anyhow::Result<String> {
    let mut line = String::new();
    let read = stream.read_line(&mut line)?;
    anyhow::ensure!(
        read > 0 && line.ends_with("\r\n"),
        "the client left or ends no lines"
    );
    Ok(line.trim_end_matches("\r\n").to_owned())
}

fn say(stream: &mut BufReader<impl Read + Write>, text: &str) -> anyhow::Result<()> {
    let stream = stream.get_mut();
    stream.write_all(format!("{text}\r\n").as_bytes())?;
    Ok(stream.flush()?)
}
