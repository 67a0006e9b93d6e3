//! Allowed hosts, folders and secrets.

use proptest::prelude::*;
use watchkeeper_contract::effect::{
    FileBundle, FileWrite, HttpBody, HttpCall, HttpMethod, MqttMessage, MqttQos,
};

use super::*;

fn sinks(hosts: &[&str], folders: &[&str]) -> SinksConfig {
    SinksConfig {
        hosts: hosts
            .iter()
            .map(|h| HostRule::parse(h).expect("a host"))
            .collect(),
        folders: folders.iter().map(PathBuf::from).collect(),
        secrets: BTreeMap::from([("KNOWN".to_owned(), SecretSource::Variable("K".to_owned()))]),
        ..SinksConfig::default()
    }
}

fn call(url: &str) -> Effect {
    Effect::Http(HttpCall {
        url: url.to_owned(),
        method: HttpMethod::Post,
        query: Vec::new(),
        headers: BTreeMap::new(),
        body: HttpBody::Empty,
        timeout_s: 1.0,
    })
}

fn write(directory: &str, prefix: &str) -> Effect {
    Effect::File(FileWrite {
        directory: directory.to_owned(),
        prefix: prefix.to_owned(),
        extension: "csv".to_owned(),
        content: "a\n".to_owned(),
        append: false,
    })
}

#[test]
fn refusal_names_the_key_that_would_allow_it() {
    let none = sinks(&[], &[]);
    let why = none
        .admits(&call("https://hooks.example.org/T0KEN"))
        .expect_err("refused");
    assert!(
        why.contains("\"hooks.example.org\"") && why.contains("sinks.hosts"),
        "{why}"
    );
    assert!(!why.contains("T0KEN"), "{why}");
    let why = none.admits(&write("logs", "a")).expect_err("refused");
    assert!(why.contains("sinks.folders"), "{why}");
}

#[test]
fn host_is_allowed_at_usual_ports_others_are_named() {
    let some = sinks(&["Hooks.example.org", "127.0.0.1:8080", "[::1]"], &[]);
    for good in [
        "https://hooks.example.org/a",
        "http://HOOKS.example.org/",
        "http://127.0.0.1:8080/",
        "http://[::1]/",
    ] {
        assert_eq!(some.admits(&call(good)), Ok(()), "{good}");
    }
    for bad in [
        "https://hooks.example.org:8443/",
        "https://hooks.example.org.evil.example/",
        "https://evil.example/hooks.example.org",
        "https://hooks.example.org@evil.example/",
        "http://127.0.0.1/",
        "http://127.0.0.1:8081/",
        "http://2130706433/",
        "http://localhost:8080/",
        "file:///etc/passwd",
        "no address",
    ] {
        assert!(some.admits(&call(bad)).is_err(), "{bad}");
    }
    let why = some
        .admits(&call("http://127.0.0.1:8081/"))
        .expect_err("refused");
    assert!(why.contains("\"127.0.0.1:8081\""), "{why}");
}

#[test]
fn broker_is_allowed_at_mqtt_ports_only() {
    let publish = |host: &str, port| {
        Effect::Mqtt(MqttMessage {
            host: host.to_owned(),
            port,
            tls: false,
            username: None,
            password: None,
            topic: "yard/count".to_owned(),
            payload: "3".to_owned(),
            qos: MqttQos::AtLeastOnce,
            retain: false,
            timeout_s: 0.5,
        })
    };
    let some = sinks(&["broker.example", "127.0.0.1:11883"], &[]);
    for (host, port) in [
        ("broker.example", 1883),
        ("Broker.example", 8883),
        ("127.0.0.1", 11883),
    ] {
        assert_eq!(some.admits(&publish(host, port)), Ok(()), "{host}:{port}");
    }
    for (host, port) in [
        ("broker.example", 443),
        ("127.0.0.1", 1883),
        ("evil.example", 1883),
        ("broker.example/x", 1883),
        ("user@broker.example", 1883),
    ] {
        assert!(some.admits(&publish(host, port)).is_err(), "{host}:{port}");
    }
    let why = some.admits(&publish("127.0.0.1", 1884));
    let why = why.expect_err("refused");
    assert!(why.contains("\"127.0.0.1:1884\""), "{why}");
}

#[test]
fn bundle_needs_plain_name_below_allowed_folder() {
    let some = sinks(&[], &["/srv/out"]);
    let pack = |directory: &str, name: &str| {
        some.admits(&Effect::Bundle(FileBundle {
            directory: directory.to_owned(),
            name: name.to_owned(),
            members: Vec::new(),
        }))
    };
    assert_eq!(pack("events", "event_1.tar.gz"), Ok(()));
    for (directory, name) in [
        ("/etc", "a"),
        ("events", "../a"),
        ("events", ".a"),
        ("events", ""),
    ] {
        assert!(pack(directory, name).is_err(), "{directory} {name}");
    }
}

#[test]
fn a_rule_that_is_no_host_is_refused() {
    for bad in [
        "",
        "https://a.example",
        "a.example/x",
        "*.example",
        "a:0",
        "a:70000",
        "a b",
    ] {
        assert!(HostRule::parse(bad).is_err(), "{bad}");
    }
    for (good, shown) in [("A.example:25", "a.example:25"), ("[::1]:80", "[::1]:80")] {
        let rule = HostRule::parse(good).map(|rule| rule.to_string());
        assert_eq!(rule.as_deref(), Ok(shown));
    }
}

#[test]
fn folder_is_written_only_below_allowed_one() {
    let some = sinks(&[], &["/srv/out", "/srv/out/deep", "/mnt/usb"]);
    let place = |folder: &str, below: &[&str]| {
        Ok(Place {
            folder: folder.into(),
            below: below.iter().map(|&b| b.to_owned()).collect(),
        })
    };
    assert_eq!(some.place("logs/./a"), place("/srv/out", &["logs", "a"]));
    assert_eq!(
        some.place("/srv/out/deep/x"),
        place("/srv/out/deep", &["x"])
    );
    assert_eq!(some.place("/mnt/usb"), place("/mnt/usb", &[]));
    for bad in [
        "/etc",
        "/srv/output",
        "..",
        "a/../b",
        "/srv/out/../../etc",
        "a\0b",
    ] {
        assert!(some.place(bad).is_err(), "{bad}");
    }
    for bad in ["", "../a", "a/b", ".hidden", "a\nb", &"x".repeat(200)] {
        assert!(some.admits(&write("logs", bad)).is_err(), "{bad}");
    }
}

#[test]
fn a_secret_has_to_be_one_of_the_configuration() {
    let some = sinks(&["a.example"], &[]);
    let with = |name: &str| {
        let Effect::Http(mut http) = call("https://a.example/") else {
            return call("");
        };
        let secret = Sealed::Secret(name.to_owned());
        http.headers.insert("authorization".to_owned(), secret);
        Effect::Http(http)
    };
    assert_eq!(some.admits(&with("KNOWN")), Ok(()));
    let why = some.admits(&with("OTHER")).expect_err("refused");
    assert!(
        why.contains("sinks.secrets") && why.contains("OTHER"),
        "{why}"
    );
}

#[test]
fn a_bucket_of_amazon_is_a_host_of_its_own() {
    let write = |bucket: &str| {
        Effect::S3(S3Write {
            bucket: bucket.to_owned(),
            prefix: "a".to_owned(),
            extension: "csv".to_owned(),
            content: "a\n".to_owned(),
            replace: false,
            region: Some("eu-central-1".to_owned()),
            access_key_id: None,
            secret_access_key: None,
        })
    };
    let some = sinks(&["mine.s3.eu-central-1.amazonaws.com"], &[]);
    assert_eq!(some.admits(&write("mine")), Ok(()));
    for bad in [
        "theirs",
        "evil.example/",
        "mine.s3.eu-central-1.amazonaws.com/x",
        "",
    ] {
        assert!(some.admits(&write(bad)).is_err(), "{bad}");
    }
}

proptest! {
    #[test]
    fn files_stay_below_allowed_folders(directory in "[a./\\\\ ~]{0,20}") {
        let some = sinks(&[], &["/srv/out", "/mnt/usb"]);
        if let Ok(place) = some.place(&directory) {
            prop_assert!(some.folders.contains(&place.folder));
            for name in &place.below {
                prop_assert!(!name.contains('/') && name != ".." && name != "." && !name.is_empty());
            }
        }
    }

    #[test]
    fn calls_reach_only_named_hosts(url in "https?://[a-z.@:/#?\\\\]{0,12}ok\\.example[a-z.@:/0-9#?\\\\]{0,12}") {
        let some = sinks(&["ok.example"], &[]);
        if some.admits(&call(&url)).is_ok() {
            let url = Url::parse(&url).expect("it was admitted");
            prop_assert_eq!(url.host_str(), Some("ok.example"));
            prop_assert!(WEB_PORTS.contains(&url.port_or_known_default().unwrap_or(0)));
        }
    }
}
