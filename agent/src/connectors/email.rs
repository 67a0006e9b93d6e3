//! E-mails by SMTP over TLS.
//!
//! TLS is implicit (RFC 8314), except at ports 25 and 587, where `STARTTLS` is required.
//! Invariant: login and message are only sent over TLS, to a server with a valid certificate.

use std::path::Path;
use std::time::Duration;

use lettre::Message;
use lettre::message::header::ContentType;
use lettre::message::{Attachment, Mailbox, MultiPart, SinglePart};
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{
    AsyncSmtpConnection, Certificate, CertificateStore, TlsParameters,
};
use lettre::transport::smtp::extension::ClientId;
use watchkeeper_contract::effect::{Attachment as File, Email, EmailBody};

use super::fault::Fault;
use super::secrets::EffectSecrets;
use crate::background::blocking;
use watchkeeper_client::error_chain::one_line;

/// Timeout of opening the connection, and of closing it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// Timeout of everything up to the login, and of the message after it.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(120);
/// Ports that use `STARTTLS`.
const STARTTLS_PORTS: [u16; 2] = [25, 587];

/// Sends one e-mail with `id` in its `Message-ID`.
///
/// # Errors
/// [`Fault`]; permanent for an invalid message and for a 5xx reply of the server.
pub async fn send(
    id: &str,
    email: &Email,
    ca_file: Option<&Path>,
    secrets: &EffectSecrets,
) -> Result<(), Fault> {
    let message = message(id, email)?;
    let (server, ca_file) = (email.server.clone(), ca_file.map(Path::to_path_buf));
    let tls = blocking(move || tls(server, ca_file.as_deref())).await;
    let tls = tls.map_err(Fault::transient)??;
    let login = Credentials::new(
        email.from.clone(),
        secrets.text(&email.password)?.to_owned(),
    );
    let connection = tokio::time::timeout(DELIVERY_TIMEOUT, connect(email, tls, &login)).await;
    let late = |_| {
        Fault::transient(format!(
            "{}:{} did not answer in time",
            email.server, email.port
        ))
    };
    let mut connection = connection
        .map_err(late)?
        .map_err(|error| fault(email, &error))?;
    let text = message.formatted();
    let sending = connection.send(message.envelope(), &text);
    let sent = tokio::time::timeout(DELIVERY_TIMEOUT, sending).await;
    let sent = sent.map_err(|passed| Fault::unanswered(late(passed)))?;
    let done = sent.map(drop).map_err(|error| match error.status() {
        Some(_) => fault(email, &error),
        // The reply to the message may be what is missing.
        None => Fault::unanswered(fault(email, &error)),
    });
    // The outcome is known: a server that does not confirm the end changes nothing.
    let closed = tokio::time::timeout(CONNECT_TIMEOUT, connection.abort()).await;
    closed.ok();
    done
}

/// Opens an encrypted connection and logs in.
async fn connect(
    email: &Email,
    tls: TlsParameters,
    login: &Credentials,
) -> Result<AsyncSmtpConnection, Error> {
    let (server, hello) = ((email.server.as_str(), email.port), ClientId::default());
    let (first, later) = match STARTTLS_PORTS.contains(&email.port) {
        true => (None, Some(tls)),
        false => (Some(tls), None),
    };
    let timeout = Some(CONNECT_TIMEOUT);
    let connection = AsyncSmtpConnection::connect_tokio1(server, timeout, &hello, first, None);
    let mut connection = connection.await?;
    if let Some(tls) = later {
        connection.starttls(tls, &hello).await?;
    }
    connection.auth(DEFAULT_MECHANISMS, login).await?;
    Ok(connection)
}

/// Fault of a delivery that the server refused, or that it certainly did not receive.
fn fault(email: &Email, error: &Error) -> Fault {
    let why = format!("{}:{}: {}", email.server, email.port, one_line(error));
    // Only a 5xx reply is permanent: a certificate may be replaced, a network return.
    match error.is_permanent() {
        true => Fault::permanent(why),
        false => Fault::transient(why),
    }
}

/// Returns parameters that trust the authorities in `ca_file`, or else those of the system.
fn tls(server: String, ca_file: Option<&Path>) -> Result<TlsParameters, Fault> {
    let mut tls = TlsParameters::builder(server);
    if let Some(path) = ca_file {
        let ca_fault =
            |why: String| Fault::transient(format!("sinks.ca_file {}: {why}", path.display()));
        let pem = std::fs::read(path).map_err(|error| ca_fault(error.to_string()))?;
        let certificate =
            Certificate::from_pem(&pem).map_err(|error| ca_fault(one_line(&error)))?;
        tls = tls
            .certificate_store(CertificateStore::None)
            .add_root_certificate(certificate);
    }
    tls.build_rustls()
        .map_err(|error| Fault::transient(format!("TLS can't be set up: {}", one_line(&error))))
}

/// MIME message: inline images in `multipart/related`, attachments in `multipart/mixed`.
fn message(id: &str, email: &Email) -> Result<Message, Fault> {
    let from = mailbox(&email.from)?;
    let domain = from.email.domain().to_owned();
    let mut builder = Message::builder()
        .from(from)
        .subject(&email.subject)
        .message_id(Some(format!("<{id}@{domain}>")));
    for to in &email.to {
        builder = builder.to(mailbox(to)?);
    }
    for cc in &email.cc {
        builder = builder.cc(mailbox(cc)?);
    }
    for bcc in &email.bcc {
        builder = builder.bcc(mailbox(bcc)?);
    }
    let mut parts = match &email.body {
        EmailBody::Plain { text } => MultiPart::mixed().singlepart(SinglePart::plain(text.clone())),
        EmailBody::Html { html, images } => {
            let mut related = MultiPart::related().singlepart(SinglePart::html(html.clone()));
            for image in images {
                let part = Attachment::new_inline(image.name.clone());
                related = related.singlepart(part.body(image.bytes.clone(), content_type(image)?));
            }
            MultiPart::mixed().multipart(related)
        }
    };
    for file in &email.attachments {
        let part = Attachment::new(file.name.clone());
        parts = parts.singlepart(part.body(file.bytes.clone(), content_type(file)?));
    }
    builder.multipart(parts).map_err(|error| {
        Fault::permanent(format!("the e-mail can't be built: {}", one_line(&error)))
    })
}

fn mailbox(address: &str) -> Result<Mailbox, Fault> {
    address.parse().map_err(|error| {
        Fault::permanent(format!("e-mail address {address:?} is invalid: {error}"))
    })
}

/// Content type of a file, from its bytes.
fn content_type(file: &File) -> Result<ContentType, Fault> {
    let name = if file.bytes.starts_with(&[0xff, 0xd8]) {
        "image/jpeg"
    } else if std::str::from_utf8(&file.bytes).is_ok() {
        "text/plain; charset=utf-8"
    } else {
        "application/octet-stream"
    };
    ContentType::parse(name).map_err(|error| Fault::permanent(error.to_string()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use watchkeeper_contract::effect::Sealed;

    use super::*;

    fn email(body: EmailBody) -> Email {
        Email {
            server: "mail.example".to_owned(),
            port: 465,
            from: "box@yard.example".to_owned(),
            password: Sealed::Text("hush".to_owned()),
            to: vec!["guard@yard.example".to_owned()],
            cc: Vec::new(),
            bcc: vec!["chief@yard.example".to_owned()],
            subject: "Somebody \u{e9} is here".to_owned(),
            body,
            attachments: vec![File {
                name: "frame.jpg".to_owned(),
                bytes: vec![0xff, 0xd8, 1],
            }],
        }
    }

    #[test]
    fn email_has_inline_images_and_hides_its_bcc() {
        let html = EmailBody::Html {
            html: "<img src=\"cid:image_frame\">".to_owned(),
            images: vec![File {
                name: "image_frame".to_owned(),
                bytes: vec![0xff, 0xd8],
            }],
        };
        let message = message("01J", &email(html)).unwrap();
        let to: Vec<String> = message
            .envelope()
            .to()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(to, ["guard@yard.example", "chief@yard.example"]);
        let text = String::from_utf8(message.formatted()).unwrap();
        assert!(!text.contains("chief@"), "{text}");
        for part in [
            "Message-ID: <01J@yard.example>",
            "multipart/related",
            "Content-ID: <image_frame>",
            "filename=\"frame.jpg\"",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn line_break_in_subject_or_address_adds_no_header() {
        let mut email = email(EmailBody::Plain {
            text: "x".to_owned(),
        });
        email.subject = "a\r\nBcc: evil@evil.example".to_owned();
        if let Ok(message) = message("01J", &email) {
            let text = String::from_utf8(message.formatted()).unwrap();
            assert!(!text.contains("\nBcc: evil"), "{text}");
        }
        email.subject = "a".to_owned();
        email.to = vec!["guard@yard.example\r\nBcc: evil@evil.example".to_owned()];
        assert!(message("01J", &email).is_err());
    }
}
