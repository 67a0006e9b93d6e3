//! Each kind of effect, executed against a real server on a loopback port: requests, messages,
//! e-mails, objects, MQTT.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use serde_json::json;
use watchkeeper_agent::connectors::Executor;
use watchkeeper_agent::connectors::fault::{Fault, Retry};
use watchkeeper_config::{HostRule, SecretSource, SinksConfig};
use watchkeeper_contract::effect::{
    Attachment, Effect, Email, EmailBody, HttpBody, HttpCall, HttpMethod, MqttMessage, MqttQos,
    S3Write, Sealed, SlackMessage, Sms,
};
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::spool::{EffectNumber, SpooledEffect};
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_store::MemoryStore;
use watchkeeper_tests::broker::{BrokerOptions, BrokerTls, Mosquitto};
use watchkeeper_tests::certificates::Authority;
use watchkeeper_tests::daemons::wait_for;
use watchkeeper_tests::hooks::{Answer, Hooks};
use watchkeeper_tests::smtp::MailServer;

const ID: &str = "01JABCDEFGHJKMNPQRSTVWXYZ0";
/// Value of every secret.
const SECRET: &str = "tok-5f1c2a9e-hush";

/// Allows effects on these hosts.
fn sinks(hosts: &[SocketAddr]) -> anyhow::Result<SinksConfig> {
    let hosts = hosts.iter().map(|host| {
        HostRule::parse(&host.to_string()).map_err(|why| anyhow::anyhow!("{host}: {why}"))
    });
    let secret = SecretSource::Value(SECRET.to_owned().into());
    Ok(SinksConfig {
        hosts: hosts.collect::<Result<_, _>>()?,
        secrets: BTreeMap::from([("TOKEN".to_owned(), secret)]),
        ..SinksConfig::default()
    })
}

fn token() -> Sealed {
    Sealed::Secret("TOKEN".to_owned())
}

fn spooled(number: u64, effect: Effect) -> anyhow::Result<SpooledEffect> {
    Ok(SpooledEffect {
        number: EffectNumber(number),
        id: ID.to_owned(),
        at: Wall {
            unix_ms: 1_798_761_600_000,
            quality: TimeQuality::Synced,
        },
        pipeline: PipelineId::new("gate")?,
        step: "tell".to_owned(),
        effect,
    })
}

/// Executes effects one after the other.
fn all(sinks: SinksConfig, effects: Vec<Effect>) -> anyhow::Result<Vec<Result<(), Fault>>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let executor = Executor::new(sinks, Arc::new(MemoryStore::new()));
    runtime.block_on(async {
        let mut done = Vec::new();
        for (number, effect) in (1..).zip(effects) {
            done.push(executor.execute(&spooled(number, effect)?).await);
        }
        Ok(done)
    })
}

fn one(sinks: SinksConfig, effect: Effect) -> anyhow::Result<Result<(), Fault>> {
    all(sinks, vec![effect])?.pop().context("one result")
}

/// Returns the error, which must not contain the secret.
fn fault(result: Result<(), Fault>) -> anyhow::Result<Fault> {
    let fault = result.err().context("it was done")?;
    ensure!(!fault.why.contains(SECRET), "{fault}");
    Ok(fault)
}

fn call(url: String, method: HttpMethod, body: HttpBody) -> HttpCall {
    HttpCall {
        url,
        method,
        query: vec![("where".to_owned(), "yard & gate".to_owned())],
        headers: BTreeMap::from([("x-token".to_owned(), token())]),
        body,
        timeout_s: 1.0,
    }
}

fn picture(name: &str) -> Attachment {
    Attachment {
        name: name.to_owned(),
        bytes: vec![0xff, 0xd8, 7, 7],
    }
}

#[test]
fn request_has_the_steps_content_and_an_idempotency_key() -> anyhow::Result<()> {
    let server = Hooks::start()?;
    let form = |files| HttpBody::Form {
        fields: vec![("who".to_owned(), "näbe & co".to_owned())],
        files,
    };
    let json = HttpBody::Json {
        document: json!({"seen": 3}),
    };
    let calls = vec![
        call(server.url("/in"), HttpMethod::Get, HttpBody::Empty),
        call(server.url("/in"), HttpMethod::Put, json),
        call(server.url("/in"), HttpMethod::Post, form(Vec::new())),
        call(
            server.url("/in"),
            HttpMethod::Post,
            form(vec![picture("frame")]),
        ),
    ];
    let calls = calls.into_iter().map(Effect::Http).collect();
    let done = all(sinks(&[server.address()])?, calls)?;
    assert!(done.iter().all(Result::is_ok), "{done:?}");
    let requests = server.requests();
    for request in &requests {
        assert_eq!(request.target, "/in?where=yard+%26+gate");
        assert_eq!(request.header("x-token"), SECRET);
        assert_eq!(request.header("idempotency-key"), ID);
    }
    let [get, put, post, multipart] = &requests[..] else {
        anyhow::bail!("{requests:?}");
    };
    assert_eq!((&*get.method, get.body.len()), ("GET", 0));
    assert_eq!((&*put.method, put.json()), ("PUT", json!({"seen": 3})));
    assert_eq!(post.text(), "who=n%C3%A4be+%26+co");
    assert!(
        multipart
            .header("content-type")
            .starts_with("multipart/form-data")
    );
    let body = multipart.text();
    assert!(
        body.contains("name=\"frame\"; filename=\"frame\"") && body.contains("näbe & co"),
        "{body}"
    );
    Ok(())
}

#[test]
fn redirect_is_followed_if_allowed_and_without_secrets() -> anyhow::Result<()> {
    let server = Hooks::start()?;
    let allowed = Hooks::start()?;
    let forbidden = Hooks::start()?;
    let both = || sinks(&[server.address(), allowed.address()]);
    let post = || {
        Effect::Http(call(
            server.url("/a"),
            HttpMethod::Post,
            HttpBody::Json { document: json!(1) },
        ))
    };
    server.script([Answer::Redirect(308, allowed.url("/b"))]);
    one(both()?, post())?.map_err(|fault| anyhow::anyhow!("{fault}"))?;
    let came = allowed.requests();
    assert_eq!((&*came[0].method, &*came[0].text()), ("POST", "1"));
    assert_eq!(
        came[0].header("x-token"),
        "",
        "the secret is for the host that was named"
    );
    assert_eq!(came[0].header("idempotency-key"), ID);

    // A GET without its body would be another message.
    server.script([Answer::Redirect(302, allowed.url("/b"))]);
    let moved = fault(one(both()?, post())?)?;
    assert!(
        moved.retry == Retry::Never && moved.why.contains("new address"),
        "{moved}"
    );
    // "See other": the message was accepted.
    server.script([Answer::Redirect(303, forbidden.url("/b"))]);
    assert_eq!(one(both()?, post())?, Ok(()));

    server.script([Answer::Redirect(307, forbidden.url("/b"))]);
    let led = fault(one(both()?, post())?)?;
    assert!(
        led.retry == Retry::Never && led.why.contains("sinks.hosts"),
        "{led}"
    );
    let round = vec![Answer::Redirect(307, server.url("/a")); 20];
    server.script(round);
    assert_eq!(fault(one(both()?, post())?)?.retry, Retry::Never);
    assert!(forbidden.requests().is_empty());
    Ok(())
}

#[test]
fn transient_failures_differ_from_permanent_ones() -> anyhow::Result<()> {
    let server = Hooks::start()?;
    let nobody = Hooks::closed_address()?;
    let get = |url| Effect::Http(call(url, HttpMethod::Get, HttpBody::Empty));
    server.script([Answer::Hang]);
    let late = fault(one(sinks(&[server.address()])?, get(server.url("/")))?)?;
    assert!(
        matches!(late.retry, Retry::After(_)) && late.why.contains("in time"),
        "{late}"
    );
    let away = fault(one(sinks(&[nobody])?, get(format!("http://{nobody}/t0k")))?)?;
    assert!(
        matches!(away.retry, Retry::After(_)) && !away.why.contains("t0k"),
        "{away}"
    );
    let refused = fault(one(sinks(&[])?, get(server.url("/t0k")))?)?;
    assert!(
        refused.retry == Retry::Never && !refused.why.contains("t0k"),
        "{refused}"
    );
    let mut unknown = sinks(&[server.address()])?;
    unknown.secrets.clear();
    let unknown = fault(one(unknown, get(server.url("/")))?)?;
    assert!(unknown.why.contains("sinks.secrets"), "{unknown}");
    Ok(())
}

fn slack(channel: &str, files: Vec<Attachment>) -> Effect {
    Effect::Slack(SlackMessage {
        token: token(),
        channel: channel.to_owned(),
        text: "somebody is here".to_owned(),
        files,
    })
}

fn slack_at(server: &Hooks) -> anyhow::Result<SinksConfig> {
    Ok(SinksConfig {
        slack_url: Some(server.url("/api/").parse()?),
        ..sinks(&[server.address()])?
    })
}

fn answers(bodies: &[serde_json::Value]) -> Vec<Answer> {
    let answer = |body: &serde_json::Value| Answer::Status(200, body.to_string());
    bodies.iter().map(answer).collect()
}

#[test]
fn slack_files_are_uploaded_before_the_message() -> anyhow::Result<()> {
    let server = Hooks::start()?;
    server.script(answers(&[json!({"ok": true, "channel": "C0123456789"})]));
    assert_eq!(one(slack_at(&server)?, slack("yard", Vec::new()))?, Ok(()));
    let posted = &server.requests()[0];
    assert_eq!(posted.target, "/api/chat.postMessage");
    assert_eq!(posted.header("authorization"), format!("Bearer {SECRET}"));
    assert_eq!(
        posted.json(),
        json!({"channel": "yard", "text": "somebody is here"})
    );

    for (channel, steps) in [
        (
            "yard",
            &[
                "files.getUploadURLExternal",
                "up",
                "chat.postMessage",
                "files.completeUploadExternal",
            ][..],
        ),
        (
            "C0123456789",
            &[
                "files.getUploadURLExternal",
                "up",
                "files.completeUploadExternal",
            ],
        ),
    ] {
        let server = Hooks::start()?;
        let place = json!({"ok": true, "upload_url": server.url("/api/up"), "file_id": "F1"});
        let yes = json!({"ok": true, "channel": "C0123456789"});
        server.script(answers(&[place, json!("taken"), yes.clone(), yes]));
        assert_eq!(
            one(
                slack_at(&server)?,
                slack(channel, vec![picture("frame.jpg")])
            )?,
            Ok(())
        );
        let requests = server.requests();
        let targets: Vec<_> = requests
            .iter()
            .map(|r| r.target.trim_start_matches("/api/"))
            .collect();
        assert_eq!(targets, steps);
        assert_eq!(requests[0].text(), "filename=frame.jpg&length=4");
        assert_eq!(requests[1].body, [0xff, 0xd8, 7, 7]);
        assert_eq!(
            requests[1].header("authorization"),
            "",
            "the address is the permission"
        );
        let last = requests.last().context("a request")?.json();
        assert_eq!(last["channel_id"], "C0123456789");
        assert_eq!(last["files"][0]["id"], "F1");
    }
    Ok(())
}

#[test]
fn slack_text_is_posted_once_when_its_files_fail() -> anyhow::Result<()> {
    let posted = json!({"ok": true, "channel": "C0123456789"});
    let nowhere = json!({"ok": true});
    let later = json!({"ok": false, "error": "internal_error"});
    let never = json!({"ok": false, "error": "not_in_channel"});
    // What follows the upload, and how many calls share the file.
    for (answered, shares, is_done) in [
        (vec![&posted, &later, &posted], 2, true),
        (vec![&posted, &later, &never], 2, false),
        (vec![&posted, &later, &later, &later, &later], 4, false),
        (vec![&nowhere], 0, false),
    ] {
        let server = Hooks::start()?;
        let place = json!({"ok": true, "upload_url": server.url("/api/up"), "file_id": "F1"});
        let uploaded = [place, json!("taken")];
        let answered: Vec<_> = uploaded
            .into_iter()
            .chain(answered.into_iter().cloned())
            .collect();
        server.script(answers(&answered));
        let message = slack("yard", vec![picture("frame.jpg")]);
        let outcome = one(slack_at(&server)?, message)?;
        assert_eq!(outcome.is_ok(), is_done, "{outcome:?}");
        if !is_done {
            let fault = fault(outcome)?;
            assert!(
                fault.retry == Retry::Never && fault.why.contains("without its files"),
                "{fault}"
            );
        }
        let targets: Vec<_> = server.requests().into_iter().map(|r| r.target).collect();
        let calls = |end: &str| {
            targets
                .iter()
                .filter(|target| target.ends_with(end))
                .count()
        };
        assert_eq!(calls("chat.postMessage"), 1, "{targets:?}");
        assert_eq!(calls("files.completeUploadExternal"), shares, "{targets:?}");
    }
    Ok(())
}

#[test]
fn slack_error_is_quoted_and_files_go_to_no_other_host() -> anyhow::Result<()> {
    let server = Hooks::start()?;
    let said = |error: &str| json!({"ok": false, "error": error});
    server.script(answers(&[said("invalid_auth"), said("internal_error")]));
    let never = fault(one(slack_at(&server)?, slack("yard", Vec::new()))?)?;
    assert!(
        never.retry == Retry::Never && never.why.contains("invalid_auth"),
        "{never}"
    );
    let later = fault(one(slack_at(&server)?, slack("yard", Vec::new()))?)?;
    assert!(matches!(later.retry, Retry::After(_)), "{later}");
    server.script([Answer::Status(429, String::new())]);
    let busy = fault(one(slack_at(&server)?, slack("yard", Vec::new()))?)?;
    assert!(matches!(busy.retry, Retry::After(_)), "{busy}");
    let elsewhere = Hooks::start()?;
    let place = json!({"ok": true, "upload_url": elsewhere.url("/up"), "file_id": "F1"});
    server.script(answers(&[place]));
    let led = fault(one(slack_at(&server)?, slack("yard", vec![picture("a")]))?)?;
    assert!(
        led.why.contains("sinks.hosts") && elsewhere.requests().is_empty(),
        "{led}"
    );
    Ok(())
}

#[test]
fn twilio_message_is_a_form_with_the_account_as_login() -> anyhow::Result<()> {
    let server = Hooks::start()?;
    let at = || -> anyhow::Result<SinksConfig> {
        Ok(SinksConfig {
            twilio_url: Some(server.url("/").parse()?),
            ..sinks(&[server.address()])?
        })
    };
    let sms = || {
        Effect::Sms(Sms {
            account: Sealed::Text("AC1".to_owned()),
            token: token(),
            from: "+1".to_owned(),
            to: "+2".to_owned(),
            text: "somebody is here".to_owned(),
            media: vec!["https://host/a.jpg".to_owned()],
        })
    };
    server.script([Answer::Status(201, "{}".to_owned())]);
    assert_eq!(one(at()?, sms())?, Ok(()));
    let sent = &server.requests()[0];
    assert_eq!(sent.target, "/2010-04-01/Accounts/AC1/Messages.json");
    assert_eq!(
        sent.text(),
        "From=%2B1&To=%2B2&Body=somebody+is+here&MediaUrl=https%3A%2F%2Fhost%2Fa.jpg"
    );
    assert!(sent.header("authorization").starts_with("Basic "));
    let body = json!({"code": 21211, "message": format!("'+2' is no number ({SECRET})")});
    server.script([Answer::Status(400, body.to_string())]);
    let refused = fault(one(at()?, sms())?)?;
    assert!(
        refused.retry == Retry::Never && refused.why.contains("no number (***)"),
        "{refused}"
    );
    Ok(())
}

#[test]
fn growing_s3_object_keeps_its_key_and_is_signed() -> anyhow::Result<()> {
    let server = Hooks::start()?;
    let at = SinksConfig {
        s3_url: Some(server.url("/").parse()?),
        ..sinks(&[server.address()])?
    };
    let write = |content: &str, replace| {
        Effect::S3(S3Write {
            bucket: "yard".to_owned(),
            prefix: "logs/counts".to_owned(),
            extension: "csv".to_owned(),
            content: content.to_owned(),
            replace,
            region: Some("eu-central-1".to_owned()),
            access_key_id: Some(Sealed::Text("AKIDEXAMPLE".to_owned())),
            secret_access_key: Some(token()),
        })
    };
    let refusal = "<Error><Code>AccessDenied</Code><StringToSign>x</StringToSign></Error>";
    let good = || Answer::Status(200, String::new());
    server.script([
        good(),
        good(),
        good(),
        Answer::Status(403, refusal.to_owned()),
    ]);
    let done = all(
        at,
        vec![
            write("a\n", false),
            write("a\nb\n", true),
            write("c\n", false),
            write("d\n", false),
        ],
    )?;
    let [Ok(()), Ok(()), Ok(()), Err(denied)] = &done[..] else {
        anyhow::bail!("{done:?}");
    };
    assert!(
        denied.why.contains("AccessDenied") && !denied.why.contains("StringToSign"),
        "{denied}"
    );
    let requests = server.requests();
    let keys: Vec<_> = requests
        .iter()
        .filter_map(|r| r.target.split_once('?'))
        .collect();
    assert_eq!(keys[0].0, "/yard/logs/counts_2027_01_01_00_00_00_1.csv");
    assert_eq!(keys[1].0, keys[0].0);
    assert_eq!(requests[1].text(), "a\nb\n");
    assert_ne!(keys[2].0, keys[0].0);
    let query = keys[0].1;
    assert!(
        query.contains("X-Amz-Signature=") && query.contains("eu-central-1%2Fs3%2Faws4_request"),
        "{query}"
    );
    assert!(!query.contains(SECRET));
    Ok(())
}

fn email(server: &MailServer, to: &str) -> Effect {
    Effect::Email(Email {
        server: "localhost".to_owned(),
        port: server.port(),
        from: "box@yard.example".to_owned(),
        password: token(),
        to: vec![to.to_owned()],
        cc: Vec::new(),
        bcc: vec!["chief@yard.example".to_owned()],
        subject: "Somebody is here".to_owned(),
        body: EmailBody::Html {
            html: "3 <img src=\"cid:image_frame\">".to_owned(),
            images: vec![picture("image_frame")],
        },
        attachments: vec![picture("frame.jpg")],
    })
}

fn mail_sinks(server: &MailServer, folder: &Path) -> anyhow::Result<SinksConfig> {
    let host = format!("localhost:{}", server.port());
    let host = HostRule::parse(&host).map_err(|why| anyhow::anyhow!(why))?;
    Ok(SinksConfig {
        hosts: vec![host],
        ca_file: Some(folder.join("ca.pem")),
        ..sinks(&[])?
    })
}

#[test]
fn email_goes_over_tls_with_pictures_to_every_recipient() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let authority = Authority::new("yard")?;
    authority.write(&folder.path().join("ca.pem"))?;
    let identity = authority.issue(folder.path(), "mail", &["localhost"])?;
    let server = MailServer::start(&identity, SECRET)?;
    let sent = one(
        mail_sinks(&server, folder.path())?,
        email(&server, "guard@yard.example"),
    )?;
    assert_eq!(sent, Ok(()));
    let [mail] = &server.mails()[..] else {
        anyhow::bail!("{:?}", server.mails());
    };
    assert_eq!(
        mail.login,
        ["box@yard.example".to_owned(), SECRET.to_owned()]
    );
    assert_eq!(mail.from, "box@yard.example");
    assert_eq!(mail.to, ["guard@yard.example", "chief@yard.example"]);
    assert!(
        !mail.text.contains("chief@") && mail.text.contains("Content-ID: <image_frame>"),
        "{}",
        mail.text
    );
    assert!(
        mail.text
            .contains(&format!("Message-ID: <{ID}@yard.example>")),
        "{}",
        mail.text
    );
    Ok(())
}

#[test]
fn untrusted_mail_server_and_wrong_password_leak_nothing() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let authority = Authority::new("yard")?;
    authority.write(&folder.path().join("ca.pem"))?;
    let other = Authority::new("other")?.issue(folder.path(), "other", &["localhost"])?;
    let stranger = MailServer::start(&other, SECRET)?;
    let fault_of = |server: &MailServer| -> anyhow::Result<Fault> {
        fault(one(
            mail_sinks(server, folder.path())?,
            email(server, "guard@yard.example"),
        )?)
    };
    let refused = fault_of(&stranger)?;
    assert!(matches!(refused.retry, Retry::After(_)), "{refused}");
    assert!(stranger.mails().is_empty());
    let identity = authority.issue(folder.path(), "mail", &["localhost"])?;
    let strict = MailServer::start(&identity, "another password")?;
    let denied = fault_of(&strict)?;
    assert!(
        denied.retry == Retry::Never && denied.why.contains("535"),
        "{denied}"
    );
    fs::remove_file(folder.path().join("ca.pem"))?;
    let without = fault_of(&strict)?;
    assert!(without.why.contains("sinks.ca_file"), "{without}");
    Ok(())
}

/// Makes a message for a broker on this machine, from the user `gate` whose password is the secret.
fn publication(port: u16, tls: bool, topic: &str, qos: MqttQos) -> MqttMessage {
    MqttMessage {
        host: "localhost".to_owned(),
        port,
        tls,
        username: Some("gate".to_owned()),
        password: Some(token()),
        topic: topic.to_owned(),
        payload: "three in the yard".to_owned(),
        qos,
        retain: false,
        timeout_s: 0.5,
    }
}

/// Allows effects on a broker on this machine, and trusts the authority in `folder`.
fn broker_sinks(port: u16, folder: &Path) -> anyhow::Result<SinksConfig> {
    let host = HostRule::parse(&format!("localhost:{port}"));
    Ok(SinksConfig {
        hosts: vec![host.map_err(|why| anyhow::anyhow!(why))?],
        ca_file: Some(folder.join("ca.pem")),
        ..sinks(&[])?
    })
}

fn with_login() -> Vec<(String, String)> {
    vec![("gate".to_owned(), SECRET.to_owned())]
}

#[test]
fn mqtt_effect_uses_tls_every_qos_and_retain() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let authority = Authority::new("yard")?;
    let ca_file = folder.path().join("ca.pem");
    authority.write(&ca_file)?;
    let identity = authority.issue(folder.path(), "broker", &["localhost", "127.0.0.1"])?;
    let options = BrokerOptions {
        logins: with_login(),
        acl: None,
        tls: Some(BrokerTls {
            ca_file,
            identity,
            clients: None,
        }),
    };
    let broker = Mosquitto::start_with(&folder.path().join("broker"), options)?;
    let subscriber = broker.subscribe("yard/#")?;
    // A later subscriber gets only retained messages; this one must be subscribed before.
    wait_for("the subscriber", || {
        broker.publish("yard/ready", false, "yes").ok()?;
        (!subscriber.messages().is_empty()).then_some(())
    })?;
    let at = || broker_sinks(broker.port, folder.path());
    let publish = |topic: &str, qos| publication(broker.port, true, topic, qos);
    let mut kept = publish("yard/kept", MqttQos::AtLeastOnce);
    kept.retain = true;
    let messages = [
        publish("yard/0", MqttQos::AtMostOnce),
        publish("yard/1", MqttQos::AtLeastOnce),
        publish("yard/2", MqttQos::ExactlyOnce),
        kept,
    ];
    let done = all(at()?, messages.map(Effect::Mqtt).into())?;
    assert!(done.iter().all(Result::is_ok), "{done:?}");
    let came = wait_for("all four", || {
        let mut came = subscriber.messages();
        came.retain(|(topic, _)| topic != "yard/ready");
        (came.len() == 4).then_some(came)
    })?;
    let topics: Vec<_> = came.iter().map(|(topic, _)| topic.as_str()).collect();
    assert_eq!(
        topics,
        ["yard/0", "yard/1", "yard/2", "yard/kept"],
        "in order"
    );
    assert!(came.iter().all(|(_, text)| text == "three in the yard"));
    // One session for all four, with a client id that is not the box's own.
    let logins = broker.log_text().matches("as watchkeeper-").count();
    assert_eq!(logins, 1, "{}", broker.log_text());
    let later = broker.subscribe_as("later", "yard/#")?;
    wait_for("what the broker kept", || {
        let found = later.messages();
        (found.len() == 1 && found[0].0 == "yard/kept").then_some(())
    })?;

    // A broker of an unknown authority, another port or an unlisted host receives nothing.
    Authority::new("other")?.write(&folder.path().join("ca.pem"))?;
    let stranger = fault(one(
        at()?,
        Effect::Mqtt(publish("yard/1", MqttQos::AtLeastOnce)),
    )?)?;
    assert!(
        matches!(stranger.retry, Retry::After(_)) && stranger.why.contains("sinks.ca_file"),
        "{stranger}"
    );
    let plain = publication(broker.port, false, "yard/1", MqttQos::AtLeastOnce);
    let plain = fault(one(at()?, Effect::Mqtt(plain))?)?;
    assert!(plain.why.contains("the step's tls"), "{plain}");
    let other = fault(one(
        sinks(&[])?,
        Effect::Mqtt(publish("yard/1", MqttQos::AtLeastOnce)),
    )?)?;
    assert!(
        other.retry == Retry::Never && other.why.contains("sinks.hosts"),
        "{other}"
    );
    Ok(())
}

#[test]
fn mqtt_effect_reconnects_but_not_after_a_refused_login() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let options = BrokerOptions {
        logins: with_login(),
        ..BrokerOptions::default()
    };
    let mut broker = Mosquitto::start_with(&folder.path().join("broker"), options)?;
    let port = broker.port;
    let at = SinksConfig {
        ca_file: None,
        ..broker_sinks(port, folder.path())?
    };
    let publish = |qos| Effect::Mqtt(publication(port, false, "yard/1", qos));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let executor = Executor::new(at.clone(), Arc::new(MemoryStore::new()));
    let send = |effect| {
        runtime
            .block_on(executor.execute(&spooled(1, effect)?))
            .map_or_else(|fault| Ok(Err(fault)), |()| anyhow::Ok(Ok(())))
    };
    assert_eq!(send(publish(MqttQos::AtLeastOnce))?, Ok(()));
    broker.down()?;
    for qos in [MqttQos::AtLeastOnce, MqttQos::AtMostOnce] {
        let away = fault(send(publish(qos))?)?;
        assert!(matches!(away.retry, Retry::After(_)), "{away}");
        assert!(away.why.contains(&format!("localhost:{port}")), "{away}");
    }
    broker.up()?;
    assert_eq!(send(publish(MqttQos::ExactlyOnce))?, Ok(()));

    // The login belongs to the message: another password opens another session, and a refusal ends
    // no other.
    let mut wrong = publication(port, false, "yard/1", MqttQos::AtLeastOnce);
    wrong.password = Some(Sealed::Text("wrong-0815".to_owned()));
    let refused = fault(send(Effect::Mqtt(wrong))?)?;
    assert!(
        refused.retry == Retry::Never
            && refused.why.contains("the step's username and password")
            && !refused.why.contains("wrong-0815"),
        "{refused}"
    );
    assert_eq!(send(publish(MqttQos::AtLeastOnce))?, Ok(()));
    Ok(())
}
