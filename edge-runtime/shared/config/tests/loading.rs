//! What users write into a configuration, and which errors they get.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use secrecy::ExposeSecret;
use watchkeeper_config::keys::{self, KEYS, Key};
use watchkeeper_config::{
    AuditConfig, BrokerLayers, ChannelKind, Config, ConfigError, Findings, LoadRequest, LookedAt,
    Origin, SecretSource, effective, load,
};
use watchkeeper_contract::pipeline::Priority;
use watchkeeper_contract::privacy::MaskFill;
use watchkeeper_contract::rule::Severity;

struct Case {
    dir: tempfile::TempDir,
    env: BTreeMap<String, String>,
    flags: Vec<(String, String)>,
}

impl Case {
    fn new(toml: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("wk.toml"), toml).unwrap();
        Self {
            dir,
            env: BTreeMap::new(),
            flags: Vec::new(),
        }
    }

    fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    fn flag(mut self, key: &str, value: &str) -> Self {
        self.flags.push((key.to_owned(), value.to_owned()));
        self
    }

    fn with_file(self, name: &str, text: &str) -> Self {
        std::fs::write(self.dir.path().join(name), text).unwrap();
        self
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("wk.toml")
    }

    fn load(&self) -> Result<Config, Vec<ConfigError>> {
        load(&self.request())
    }

    fn request(&self) -> LoadRequest {
        let mut request = LoadRequest {
            file: Some(self.file()),
            env: self.env.clone(),
            overrides: Vec::new(),
            hostname: "Test-Host".to_owned(),
            ..LoadRequest::default()
        };
        for (key, value) in &self.flags {
            request = request.with("--flag", key, Some(value));
        }
        request
    }
}

#[test]
fn an_empty_file_is_a_whole_configuration() {
    let config = Case::new("").load().unwrap();
    assert_eq!(config.box_id.as_str(), "test-host");
    assert_eq!(config.site.as_str(), "site");
    assert_eq!(
        config.runtime_socket,
        Path::new("/run/watchkeeper/runtime.sock")
    );
    assert_eq!(config.socket_mode, 0o660);
    assert!(config.mqtt.is_none());
    assert!(config.warnings.is_empty());
    assert_eq!(config.journal.max_events, 200_000);
}

#[test]
fn every_error_is_reported_with_key_value_and_place() {
    let case = Case::new("[runtime]\njournal_events = 5\nsokket = \"/x\"\n[runtime.inference]\nbackend = \"cuda\"\n[mtqq]\nhost = \"h\"\n")
        .env("WATCHKEEPER_MQTT__PORT", "99999")
        .env("WATCHKEEPER_MQTT__HOST", "broker");
    let errors = case.load().unwrap_err();
    let printed: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let file = case.file().display().to_string();
    let expected = [
        "mqtt.port = 99999: is not allowed; allowed: a whole number from 1 to 65535 (environment variable WATCHKEEPER_MQTT__PORT)".to_owned(),
        format!("runtime.journal_events = 5: is not allowed; allowed: a whole number from 1000 to 100000000 ({file}:2)"),
        format!("runtime.sokket: unknown key; allowed: socket, socket_mode, state_dir, media_bytes, history_bytes, dry_run_roots, journal_events, journal_bytes, recording_bytes, recording_days, crash_loop_limit, inference; did you mean socket? ({file}:3)"),
        format!("runtime.inference.backend = \"cuda\": is not allowed; allowed: auto, rten, ort, trt ({file}:5)"),
        format!("mtqq: unknown key; allowed: box, runtime, sources, pipelines, mqtt, agent, models, llm, sinks, channels; did you mean mqtt? ({file}:6)"),
    ];
    assert_eq!(printed, expected);
}

#[test]
fn key_of_a_section_below_is_reported_with_its_path() {
    let case = Case::new("[agent]\ningest_roots = [\"/srv\"]\n");
    let errors = case.load().unwrap_err();
    let nearest = errors.iter().map(|error| error.nearest.as_deref());
    assert_eq!(
        Vec::from_iter(nearest),
        [Some("agent.archive.ingest_roots")]
    );
}

#[test]
fn misspelt_word_is_reported_with_the_nearest_one() {
    let case = Case::new(
        "[runtime.inference]\nbackend = \"auot\"\n[channels.desk]\nkind = \"slak\"\nurl = \"https://h/x\"\n\
         [llm]\nprovider = \"cluade\"\n[agent.auto_approve]\nchat = [\"pause\", \"resmue\"]\n\
         [sources.gate]\nuri = \"demo:\"\n[pipelines.p]\nsource = \"gaet\"\nworkflow = {}\n\
         rules = [{ name = \"r\", when = { kind = \"crosses\", line = \"l\" }, notify = [\"dekss\"] }]\n",
    );
    let report = watchkeeper_config::check(&case.request(), &|_, _| Default::default());
    let nearest = |errors: &[ConfigError]| -> Vec<String> {
        errors.iter().filter_map(|e| e.nearest.clone()).collect()
    };
    assert_eq!(
        nearest(&report.errors),
        ["auto", "slack", "claude", "resume"]
    );
    assert_eq!(nearest(&report.warnings), ["gate", "desk"]);
}

#[test]
fn flag_wins_over_variable_and_variable_over_file() {
    let case = Case::new("[agent]\ntelemetry_s = 10\n").env("WATCHKEEPER_AGENT__TELEMETRY_S", "20");
    assert_eq!(case.load().unwrap().agent.telemetry.as_secs(), 20);
    let case = case.flag("agent.telemetry_s", "40.5");
    assert_eq!(case.load().unwrap().agent.telemetry.as_millis(), 40_500);
}

#[test]
fn the_agents_socket_stands_beside_the_runtimes() {
    let config = Case::new("[runtime]\nsocket = \"/run/box/runtime.sock\"\n");
    let socket = config.load().unwrap().agent_api.socket;
    assert_eq!(socket, std::path::Path::new("/run/box/agent.sock"));
    let error = Case::new("[runtime]\nsocket = \"/a\"\n[agent.api]\nsocket = \"/a\"\n")
        .load()
        .unwrap_err();
    assert!(error[0].to_string().contains("choose another path"));
}

#[test]
fn only_listed_changes_are_auto_approved() {
    use watchkeeper_config::ChangeKind::{Pause, Resume, Stop};
    assert_eq!(
        Case::new("").load().unwrap().permissions,
        Default::default()
    );
    let case = Case::new("[agent.auto_approve]\nchat = [\"resume\", \"pause\", \"resume\"]\n");
    let policy = case.load().unwrap().permissions;
    assert_eq!(policy.chat, [Pause, Resume]);
    assert!(policy.ask.is_empty() && policy.local.is_empty() && policy.remote.is_empty());
    let variable = Case::new("").env("WATCHKEEPER_AGENT__AUTO_APPROVE__LOCAL", "[\"stop\"]");
    assert_eq!(variable.load().unwrap().permissions.local, [Stop]);
    let words = "allowed: a list of pause, resume, deploy, replace, stop";
    for (line, value, problem) in [
        ("ask = [\"all\"]", "[\"all\"]", "contains an unknown word"),
        ("ask = \"pause\"", "\"pause\"", "must be a list"),
        (
            "ask = [\"Pause\"]",
            "[\"Pause\"]",
            "contains an unknown word",
        ),
    ] {
        let errors = Case::new(&format!("[agent.auto_approve]\n{line}\n"))
            .load()
            .unwrap_err();
        let told = errors[0].to_string();
        let expected = format!("agent.auto_approve.ask = {value}: {problem}; {words}");
        assert!(told.starts_with(&expected), "{told}");
    }
    let errors = Case::new("[agent.auto_approve]\nmqtt = [\"pause\"]\n")
        .load()
        .unwrap_err();
    assert!(
        errors[0]
            .to_string()
            .contains("unknown key; allowed: ask, chat, local, remote"),
        "{}",
        errors[0]
    );
}

#[test]
fn agent_api_over_tcp_needs_loopback_and_token() {
    let case = |keys: &str| Case::new(&format!("[agent.api]\n{keys}")).load();
    let token = "token_file = \"t\"\n";
    let good = case(&format!("listen = \"127.0.0.1:8088\"\n{token}")).unwrap();
    let tcp = good.agent_api.tcp.unwrap();
    assert_eq!(tcp.listen.to_string(), "127.0.0.1:8088");
    assert_eq!(tcp.public_url, None);
    let url = "public_url = \"https://box.example.com/wk/\"\n";
    let linked = case(&format!("listen = \"127.0.0.1:8088\"\n{token}{url}")).unwrap();
    let tcp = linked.agent_api.tcp.unwrap();
    assert_eq!(
        tcp.public_url.as_deref(),
        Some("https://box.example.com/wk")
    );
    assert_eq!(tcp.hosts, ["box.example.com"]);
    for (listen, keys, key, part) in [
        (
            "127.0.0.1:8088",
            "",
            "token_file",
            "token_credential too; set one",
        ),
        ("0.0.0.0:8088", token, "listen", "a proxy with TLS"),
        ("8088", token, "listen", "127.0.0.1:PORT"),
        ("", token, "token_file", "agent.api.listen is missing"),
        ("", url, "public_url", "agent.api.listen is missing"),
        (
            "127.0.0.1:8088",
            "token_file = \"t\"\npublic_url = \"box.example.com\"\n",
            "public_url",
            "such as https://box.example.com",
        ),
        (
            "[::1]:8088",
            "token_file = \"t\"\ntoken_credential = \"x\"\n",
            "token_credential",
            "keep one",
        ),
    ] {
        let listen = match listen {
            "" => String::new(),
            address => format!("listen = {address:?}\n"),
        };
        let errors = case(&format!("{listen}{keys}")).unwrap_err();
        assert_eq!(errors.len(), 1, "{errors:?}");
        let error = errors[0].to_string();
        let named = format!("agent.api.{key}");
        assert!(error.contains(&named) && error.contains(part), "{error}");
    }
}

#[test]
fn misspelt_variables_are_noted_with_the_nearest_name() {
    let case = Case::new("[sources.gate]\nuri = \"demo:\"\n[sinks.secrets.mail]\nenv = \"WATCHKEEPER_MQTT_PASSWORD\"\n")
        .env("WATCHKEEPER_BOX_ID", "gate-1")
        .env("WATCHKEEPER_MQTT_PASSWORD", "secret")
        .env("WATCHKEEPER_SOURCES__GTE__URI", "demo:")
        .env("WATCHKEEPER_SOURCES__YARD__URI", "demo:");
    let notes = watchkeeper_config::check(&case.request(), &|_, _| Findings::default()).notes;
    let about = |name: &str| notes.iter().filter(|note| note.contains(name)).count();
    let said = "variable WATCHKEEPER_BOX_ID is not read; did you mean WATCHKEEPER_BOX__ID?";
    assert!(notes.iter().any(|note| note.contains(said)), "{notes:?}");
    let said = "adds [sources.gte], which the file does not have; did you mean gate?";
    assert!(notes.iter().any(|note| note.contains(said)), "{notes:?}");
    assert_eq!((about("YARD"), about("MQTT_PASSWORD")), (0, 0), "{notes:?}");
}

#[test]
fn runtime_starts_with_an_error_in_a_section_of_the_agent() {
    let case = Case::new("[mqtt]\nhots = \"broker\"\n[agent]\ntelemetry_s = \"often\"\n");
    assert_eq!(case.load().unwrap_err().len(), 2);
    let of_runtime = LoadRequest {
        unused: LoadRequest::of_runtime(None).unused,
        ..case.request()
    };
    let warnings = load(&of_runtime).unwrap().warnings;
    let keys: Vec<&str> = warnings.iter().map(|warning| &*warning.key).collect();
    assert_eq!(keys, ["agent.telemetry_s", "mqtt.hots"]);
    assert!(warnings.iter().all(|warning| warning.line.is_some()));

    let wrong = Case::new("[runtime]\nsokket = \"/x\"\n");
    let of_runtime = LoadRequest {
        unused: of_runtime.unused,
        ..wrong.request()
    };
    assert_eq!(load(&of_runtime).unwrap_err().len(), 1);
}

#[test]
fn socket_path_that_the_system_refuses_is_an_error() {
    let path = |bytes: usize| format!("/{}", "s".repeat(bytes - 1));
    let load = |bytes| Case::new(&format!("[runtime]\nsocket = {:?}\n", path(bytes))).load();
    assert!(load(103).is_ok());
    let errors = load(104).unwrap_err();
    assert_eq!(errors[0].key, "runtime.socket");
    assert!(errors[0].problem.contains("104 bytes"), "{}", errors[0]);
}

#[test]
fn cameras_with_one_name_are_noted() {
    let case = Case::new(
        "[sources.a]\nuri = \"demo:\"\nname = \"Gate\"\n[sources.b]\nuri = \"demo:\"\nname = \"Gate\"\n\
         [sources.c]\nuri = \"demo:\"\nname = \"Yard\"\n",
    );
    let notes = watchkeeper_config::check(&case.request(), &|_, _| Findings::default()).notes;
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].starts_with("sources.b.name: camera a has the name \"Gate\" too"));
}

#[test]
fn section_that_is_written_twice_is_named() {
    let case = Case::new("[pipelines.gate]\nsource = \"a\"\n[pipelines.gate]\nsource = \"b\"\n");
    let error = case.load().unwrap_err().remove(0).to_string();
    assert!(
        error.contains("line 3 is not TOML: duplicate key [pipelines.gate];"),
        "{error}"
    );
    let case = Case::new("[mqtt]\npassword = \"x\"\npassword = \"secret\"\n");
    let error = case.load().unwrap_err().remove(0).to_string();
    assert!(
        error.contains("duplicate key password;") && !error.contains("secret"),
        "{error}"
    );
}

#[test]
fn all_digit_password_in_variable_stays_secret_text() {
    let config = Case::new("[mqtt]\nhost = \"b\"\nusername = \"u\"\n")
        .env("WATCHKEEPER_MQTT__PASSWORD", "0012345")
        .load()
        .unwrap();
    let mqtt = config.mqtt.clone().unwrap();
    assert_eq!(mqtt.password.unwrap().expose_secret(), "0012345");
    assert!(!format!("{config:?}").contains("0012345"));
}

#[test]
fn a_wrong_secret_is_not_shown_in_the_error() {
    let errors = Case::new("[mqtt]\nhost = \"b\"\npassword = 4711\n")
        .load()
        .unwrap_err();
    assert_eq!(errors.len(), 1);
    assert!(!errors[0].to_string().contains("4711"), "{}", errors[0]);
}

#[test]
fn bad_source_is_left_out_with_its_pipeline() {
    let case = Case::new(
        "[sources.bad]\nuri = \"rtsp://u:secret@x\"\npace = \"slow\"\n[sources.none]\npace = \"fast\"\n[sources.good]\nuri = \"clip.mp4\"\n\
         [pipelines.a]\nsource = \"bad\"\nworkflow = \"w.json\"\n[pipelines.b]\nsource = \"good\"\nworkflow = \"w.json\"\n",
    )
    .with_file("w.json", "{\"version\": \"1.0\"}");
    let config = case.load().unwrap();
    let sources: Vec<&str> = config.sources.iter().map(|s| s.id.as_str()).collect();
    assert_eq!(sources, ["good"]);
    assert_eq!(
        config.sources[0].uri,
        case.dir.path().join("clip.mp4").display().to_string()
    );
    let pipelines: Vec<&str> = config.pipelines.iter().map(|p| p.id.as_str()).collect();
    assert_eq!(pipelines, ["b"]);
    let keys: Vec<&str> = config.warnings.iter().map(|w| w.key.as_str()).collect();
    assert_eq!(
        keys,
        ["sources.bad.pace", "sources.none.uri", "pipelines.a.source"]
    );
}

#[test]
fn wrong_name_or_priority_leaves_the_camera_watched() {
    let case = Case::new(
        "[sources.s]\nuri = \"demo:\"\nname = \"\"\n[pipelines.p]\nsource = \"s\"\nworkflow = { version = \"1.0\" }\n\
         name = 7\npriority = \"urgent\"\n",
    );
    let config = case.load().unwrap();
    let keys: Vec<&str> = config.warnings.iter().map(|w| w.key.as_str()).collect();
    assert_eq!(
        keys,
        ["pipelines.p.name", "pipelines.p.priority", "sources.s.name"]
    );
    assert_eq!(config.sources[0].name, None);
    assert_eq!(config.pipelines[0].priority, Priority::Normal);
}

#[test]
fn a_rule_with_an_unknown_field_names_the_rule() {
    let case = Case::new(
        "[sources.s]\nuri = \"demo:\"\n[pipelines.p]\nsource = \"s\"\nworkflow = { version = \"1.0\" }\n\
         [[pipelines.p.rules]]\nname = \"r\"\nwhen = { kind = \"enters\", zone = \"z\" }\ncooldown = 3\n",
    );
    let config = case.load().unwrap();
    assert_eq!(config.warnings.len(), 1);
    let warning = config.warnings[0].to_string();
    assert!(warning.starts_with("pipelines.p.rules[0]"), "{warning}");
    assert!(warning.contains("cooldown"), "{warning}");
}

#[test]
fn a_file_that_is_not_toml_names_the_line() {
    let case = Case::new("[box]\nsite = \"a\"\nid = = 1\n");
    let errors = case.load().unwrap_err();
    assert_eq!(errors[0].origin, Origin::File(case.file()));
    assert!(
        errors[0].to_string().starts_with("line 3 is not TOML"),
        "{}",
        errors[0]
    );
}

#[test]
fn unreadable_broker_password_keeps_no_camera_from_running() {
    let file = "[sources.gate]\nuri = \"demo:\"\n\
                [mqtt]\nhost = \"b\"\nusername = \"u\"\npassword_file = \"/nonexistent\"\n";
    let config = Case::new(file).load().unwrap();
    assert_eq!(config.sources.len(), 1);
    assert_eq!(config.warnings[0].key, "mqtt.password_file");
    assert!(config.mqtt.unwrap().password_file.is_some());
}

#[test]
fn broker_layers_keep_the_box_password_from_commands() {
    let file = "[mqtt]\nhost = \"boxs\"\nusername = \"gate-1\"\npassword_file = \"/nonexistent\"\n";
    let case = Case::new(file).env("WATCHKEEPER_MQTT__PASSWORD", "mine");
    assert!(case.load().is_err());
    let with = |broker| {
        let request = LoadRequest {
            broker,
            ..case.request()
        };
        load(&request.with(
            "--mqtt",
            "mqtt.host",
            (broker == BrokerLayers::Asked).then_some("own"),
        ))
    };
    assert!(with(BrokerLayers::Nobody).unwrap().mqtt.is_none());
    // The password alone is an error; with a user name it takes the value of the variable.
    let errors = with(BrokerLayers::Asked).unwrap_err();
    assert!(
        errors[0].to_string().contains("mqtt.username is missing"),
        "{}",
        errors[0]
    );
    let case = case.env("WATCHKEEPER_MQTT__USERNAME", "me");
    let request = LoadRequest {
        broker: BrokerLayers::Asked,
        ..case.request()
    };
    let config = load(&request.with("--mqtt", "mqtt.host", Some("own"))).unwrap();
    let mqtt = config.mqtt.unwrap();
    assert_eq!(
        (mqtt.host.as_str(), mqtt.username.as_deref()),
        ("own", Some("me"))
    );
    assert_eq!(mqtt.password.unwrap().expose_secret(), "mine");
}

#[test]
fn model_folders_are_configured_or_own_then_box() {
    let folders = |toml: &str, data_home: Option<&str>| {
        let case = Case::new(toml);
        let request = LoadRequest {
            data_home: data_home.map(PathBuf::from),
            ..case.request()
        };
        load(&request).unwrap().models.folders()
    };
    let system = PathBuf::from("/var/lib/watchkeeper/models");
    let own = PathBuf::from("/home/me/.local/share/watchkeeper/models");
    assert_eq!(folders("", None), std::slice::from_ref(&system));
    assert_eq!(folders("", Some("/home/me/.local/share")), [own, system]);
    let named = "[models]\ndir = \"/srv/models\"\n";
    assert_eq!(
        folders(named, Some("/home/me")),
        [PathBuf::from("/srv/models")]
    );
}

#[test]
fn a_named_file_that_is_missing_is_an_error() {
    let request = LoadRequest {
        file: Some("/nonexistent/wk.toml".into()),
        ..LoadRequest::default()
    };
    let errors = load(&request).unwrap_err();
    assert!(
        errors[0].to_string().contains("/nonexistent/wk.toml"),
        "{}",
        errors[0]
    );
}

#[test]
fn broker_keys_without_effect_are_reported() {
    for (keys, key, problem) in [
        (
            "password = \"p\"",
            "mqtt.password",
            "mqtt.username is missing",
        ),
        ("ca_file = \"ca.crt\"", "mqtt.ca_file", "mqtt.tls is false"),
        (
            "tls = true\ncert_file = \"c\"",
            "mqtt.cert_file",
            "without mqtt.key_file",
        ),
        (
            "tls = true\nkey_file = \"k\"",
            "mqtt.key_file",
            "without mqtt.cert_file",
        ),
    ] {
        let errors = Case::new(&format!("[mqtt]\nhost = \"b\"\n{keys}\n")).load();
        let errors = errors.unwrap_err();
        assert_eq!(errors[0].key, key);
        assert!(errors[0].problem.contains(problem), "{}", errors[0]);
    }
}

#[test]
fn a_mirror_is_an_address_without_a_login() {
    let of = |address: &str| Case::new(&format!("[models]\nmirror = \"{address}\"\n")).load();
    let mirror = of("https://mirror.local/wk").unwrap().models.mirror;
    assert_eq!(mirror.as_deref(), Some("https://mirror.local/wk"));
    for bad in [
        "ftp://mirror",
        "mirror.local",
        "https://",
        "https://me:word@mirror",
    ] {
        let errors = of(bad).unwrap_err();
        assert_eq!(errors[0].key, "models.mirror");
        assert!(!errors[0].to_string().contains("word"), "{}", errors[0]);
    }
}

#[test]
fn llm_section_has_limits_and_hides_its_key() {
    let case = Case::new("[llm]\nprovider = \"claude\"\nkey_file = \"key\"\nday_usd = 0.25\n");
    let llm = case.load().unwrap().llm.unwrap();
    assert_eq!((llm.provider.as_str(), llm.calls_per_hour), ("claude", 60));
    assert!((llm.day_usd - 0.25).abs() < 1e-9 && (llm.month_usd - 20.0).abs() < 1e-9);
    assert!(!llm.second_opinion, "no picture leaves the box unasked");
    // Relative to the file, as any path.
    assert_eq!(llm.key_file, Some(case.file().with_file_name("key")));
    let config = Case::new("[llm]\nprovider = \"claude\"\n")
        .env("WATCHKEEPER_LLM__KEY", "sk-1234567890")
        .load()
        .unwrap();
    assert!(config.llm.as_ref().is_some_and(|llm| llm.key.is_some()));
    assert!(!format!("{config:?}").contains("sk-1234567890"));
}

#[test]
fn llm_keys_without_effect_are_reported() {
    for (text, key, problem) in [
        (
            "[llm]\nmodel = \"x\"\n",
            "llm.model",
            "llm.provider is missing",
        ),
        (
            "[llm]\nprovider = \"claude\"\nkey = \"k\"\nkey_file = \"f\"\n",
            "llm.key_file",
            "keep one",
        ),
        (
            "[llm]\nprovider = \"claud\"\n",
            "llm.provider",
            "is not allowed",
        ),
    ] {
        let errors = Case::new(text).load().unwrap_err();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert_eq!(errors[0].key, key);
        assert!(errors[0].to_string().contains(problem), "{}", errors[0]);
    }
}

#[test]
fn looks_at_frames_are_off_until_cameras_are_named() {
    let base = "[agent.heartbeat]\ninterval_min = 15\n[llm]\nprovider = \"claude\"\n";
    let config = Case::new(base).load().unwrap();
    assert_eq!(config.look, None);
    assert_eq!(config.agent.audit, AuditConfig::default());
    let with = |keys: &str| base.replace("15\n", &format!("15\n{keys}\n"));
    let look = Case::new(&with(
        "look_at = [\"gate\"]\nlook_from = \"22:00\"\nlook_to = \"06:00\"",
    ));
    let look = look.load().unwrap().look.unwrap();
    assert_eq!(look.frames, 2);
    assert_eq!(look.schedule.unwrap().to, "06:00");
    assert!(matches!(look.cameras, LookedAt::These(cameras) if cameras.len() == 1));
    let evening = with("look_at = [\"*\"]\nlook_from = \"20:00\"\nlook_to = \"24:00\"");
    let evening = Case::new(&evening).load().unwrap().look.unwrap();
    assert_eq!(evening.schedule.unwrap().to, "24:00");
    let all = Case::new(&with("look_at = [\"*\"]")).load().unwrap();
    assert_eq!(all.look.unwrap().cameras, LookedAt::All);
    for (keys, key, problem) in [
        ("look_frames = 3", "look_frames", "look_at is missing"),
        (
            "look_at = [\"A gate\"]",
            "look_at[0]",
            "not the name of a camera",
        ),
        (
            "look_at = [\"*\"]\nlook_from = \"25:00\"\nlook_to = \"06:00\"",
            "look_from",
            "write it as 22:00",
        ),
        (
            "look_at = [\"*\"]\nlook_to = \"06:00\"",
            "look_from",
            "both ends",
        ),
    ] {
        let errors = Case::new(&with(keys)).load().unwrap_err();
        assert_eq!(errors[0].key, format!("agent.heartbeat.{key}"));
        assert!(errors[0].to_string().contains(problem), "{}", errors[0]);
    }
    let alone = Case::new("[agent.heartbeat]\ninterval_min = 15\nlook_at = [\"*\"]\n");
    let errors = alone.load().unwrap_err();
    assert!(
        errors[0].to_string().contains("without llm.provider"),
        "{}",
        errors[0]
    );
}

#[test]
fn program_belongs_to_the_provider_claude_cli() {
    let case = Case::new("[llm]\nprovider = \"claude-cli\"\nprogram = \"/opt/claude\"\n");
    let llm = case.load().unwrap().llm.unwrap();
    assert_eq!(llm.program.as_deref(), Some(Path::new("/opt/claude")));
    for (provider, key) in [("claude", "program"), ("claude-cli", "base_url")] {
        let text = format!("[llm]\nprovider = \"{provider}\"\n{key} = \"/opt/x\"\n");
        let errors = Case::new(&text).load().unwrap_err();
        assert_eq!(errors[0].key, format!("llm.{key}"));
    }
}

#[test]
fn second_provider_has_own_key_and_the_limits_of_the_first() {
    let with = |second: &str| {
        let first = "[llm]\nprovider = \"claude\"\nmodel = \"m\"\nday_usd = 0.25\n";
        Case::new(&format!("{first}[llm.second]\n{second}")).load()
    };
    let local = "provider = \"local\"\nbase_url = \"http://127.0.0.1:1\"\n";
    let llm = with(local).unwrap().llm.unwrap();
    assert_eq!((llm.provider.as_str(), &llm.base_url), ("claude", &None));
    let second = llm.second.unwrap();
    assert_eq!(second.provider, "local");
    assert_eq!(second.base_url.as_deref(), Some("http://127.0.0.1:1"));
    assert!((second.day_usd - 0.25).abs() < 1e-9 && second.model.is_none());
    for (text, key, problem) in [
        (
            "key = \"k\"\n",
            "llm.second.key",
            "llm.second.provider is missing",
        ),
        (
            "provider = \"claude\"\n",
            "llm.second.provider",
            "name another one",
        ),
        (
            "provider = \"local\"\nprogram = \"/x\"\n",
            "llm.second.program",
            "no effect",
        ),
        (
            "provider = \"openai\"\nkey = \"k\"\nkey_file = \"f\"\n",
            "llm.second.key_file",
            "keep",
        ),
    ] {
        let errors = with(text).unwrap_err();
        assert_eq!(
            (errors.len(), errors[0].key.as_str()),
            (1, key),
            "{errors:?}"
        );
        assert!(errors[0].to_string().contains(problem), "{}", errors[0]);
    }
}

#[test]
fn broker_that_is_no_host_is_refused() {
    for host in [
        "mqtt://10.0.0.2:1883",
        "10.0.0.2:1883",
        "broker/",
        "[::1]",
        "a b",
    ] {
        let errors = Case::new(&format!("[mqtt]\nhost = \"{host}\""))
            .load()
            .unwrap_err();
        let told = errors[0].to_string();
        assert!(told.contains("is not a host"), "{host}: {told}");
        assert!(told.contains("mqtt.port"), "{host}: {told}");
    }
    for host in [
        "broker.example",
        "box_1",
        "10.0.0.2",
        "::1",
        "fe80::1%eth0",
        "localhost",
    ] {
        assert!(
            Case::new(&format!("[mqtt]\nhost = \"{host}\""))
                .load()
                .is_ok(),
            "{host}"
        );
    }
}

#[test]
fn mqtt_keys_without_host_are_reported() {
    let errors = Case::new("[mqtt]\nport = 1884\n").load().unwrap_err();
    assert_eq!(errors[0].key, "mqtt.port");
}

/// The reference of the configuration.
fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/ref/configuration.md");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_example_of_the_document_loads_without_a_warning() {
    let document = document();
    let (_, example) = document.split_once("```toml\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let config = Case::new(example)
        .with_file(
            "people.json",
            "{\"version\": \"1.0\", \"inputs\": [], \"steps\": [], \"outputs\": []}",
        )
        .with_file("mqtt.password", "secret\n")
        .load()
        .unwrap();
    assert_eq!(config.warnings, []);
    assert_eq!(config.pipelines[0].rules.as_ref().map(Vec::len), Some(1));
    assert_eq!(config.mqtt.unwrap().port, 1883);
}

/// Paths and rows of the keys in the tables of the document.
fn rows(document: &str) -> Vec<(String, &str)> {
    let mut section = String::new();
    let mut rows = Vec::new();
    for line in document.lines() {
        if let Some(title) = line.strip_prefix("## [") {
            section = title.trim_end_matches(']').replace("NAME", "*");
        } else if let Some((name, _)) = line.strip_prefix("| `").and_then(|l| l.split_once('`')) {
            rows.push((format!("{section}.{name}"), line));
        }
    }
    rows
}

/// Suffixes of keys, and the units that their rows name.
const UNITS: [(&str, &str); 6] = [
    ("_s", "s"),
    ("_min", "min"),
    ("_days", "days"),
    ("_bytes", "bytes"),
    ("_fps", "frames/s"),
    ("_usd", "US$"),
];

/// Whether `row` has the value and the default of `key`, in between a unit, and then an effect.
fn describes(row: &str, key: &Key) -> bool {
    let (_, name) = key.path.rsplit_once('.').unwrap();
    let default = key.default.map_or("–".to_owned(), |d| format!("`{d}`"));
    let allowed = keys::allowed(key.kind).replace('|', "\\|");
    row.strip_prefix(&format!("| `{name}` | {allowed}"))
        .and_then(|rest| rest.split_once(&format!(" | {default} | ")))
        .is_some_and(|(unit, effect)| {
            let by_name = UNITS.iter().find(|(suffix, _)| name.ends_with(suffix));
            let fits_unit = match by_name {
                Some((_, wanted)) => unit == format!(" ({wanted})"),
                None => unit.is_empty() || unit.starts_with(" ("),
            };
            fits_unit && effect.ends_with(". |")
        })
}

#[test]
fn document_explains_each_section_before_its_keys() {
    let document = document();
    let mut sections = document.split("\n## [").skip(1);
    let unexplained = sections.find(|section| {
        let mut lines = section.lines().skip(1).filter(|line| !line.is_empty());
        lines
            .next()
            .is_none_or(|line| !line.starts_with(char::is_alphanumeric))
    });
    assert_eq!(unexplained, None);
}

#[test]
fn document_has_one_row_for_each_key() {
    let document = document();
    let rows = rows(&document);
    for key in KEYS {
        let of_key: Vec<_> = rows.iter().filter(|(path, _)| path == key.path).collect();
        assert_eq!(of_key.len(), 1, "rows of {} in docs/ref", key.path);
        assert!(
            describes(of_key[0].1, key),
            "{}: {} does not fit {key:?}",
            key.path,
            of_key[0].1
        );
    }
    let unknown = |(path, _): &&(String, &str)| KEYS.iter().all(|key| key.path != path);
    assert_eq!(rows.iter().find(unknown), None);
}

#[test]
fn sinks_allow_nothing_by_default() {
    let none = Case::new("").load().unwrap().sinks;
    assert!(none.hosts.is_empty() && none.folders.is_empty() && none.secrets.is_empty());
    let text = "[sinks]\nhosts = [\"hooks.example.org\", \"10.0.0.7:8080\"]\nfolders = [\"out\", \"/srv//logs/./\"]\n\
                s3_url = \"http://minio:9000\"\nmax_age_s = 600\n\
                [sinks.secrets]\nHOOK = { file = \"hook.txt\" }\nSLACK = { credential = \"slack\" }\nSMS = { env = \"SMS\" }\n\
                MAIL = { value = \"hunter2\" }\n";
    let case = Case::new(text);
    let config = case.load().unwrap();
    assert!(!format!("{config:?}").contains("hunter2"));
    let sinks = config.sinks;
    let hosts: Vec<_> = sinks.hosts.iter().map(ToString::to_string).collect();
    assert_eq!(hosts, ["hooks.example.org", "10.0.0.7:8080"]);
    let out = case.dir.path().join("out");
    assert_eq!(sinks.folders, [out, "/srv/logs".into()]);
    assert_eq!(sinks.s3_url.unwrap().as_str(), "http://minio:9000/");
    assert_eq!(sinks.max_age.as_secs(), 600);
    let file = case.dir.path().join("hook.txt");
    assert!(matches!(&sinks.secrets["HOOK"], SecretSource::File(path) if *path == file));
    assert_eq!(sinks.secrets.len(), 4);
}

#[test]
fn channel_address_is_never_shown() {
    let text = "[channels.security]\nkind = \"slack\"\nurl = \"https://hooks.example.org/T0K3N\"\n\
                [channels.yard]\nurl_file = \"yard.txt\"\nmin_severity = \"warning\"\nnotify_end = true\npictures = false\n";
    let case = Case::new(text);
    let config = case.load().unwrap();
    assert!(!format!("{config:?}").contains("T0K3N"));
    let [security, yard] = config.channels.as_slice() else {
        panic!("{:?}", config.channels);
    };
    assert_eq!(
        (security.kind, security.min_severity),
        (ChannelKind::Slack, None)
    );
    assert!(security.pictures && !security.notify_end);
    assert_eq!(
        (yard.kind, yard.min_severity),
        (ChannelKind::Webhook, Some(Severity::Warning))
    );
    assert!(yard.notify_end && !yard.pictures);
    let file = case.dir.path().join("yard.txt");
    assert!(matches!(&yard.url, SecretSource::File(path) if *path == file));
}

#[test]
fn channel_without_exactly_one_address_is_reported() {
    let text = "[channels.none]\nkind = \"slack\"\n\
                [channels.two]\nurl = \"https://a.example/\"\nurl_env = \"A\"\n\
                [channels.ftp]\nurl = \"ftp://a.example/T0K3N\"\n\
                [channels.\"Bad Name\"]\nurl = \"https://a.example/\"\n";
    let errors = Case::new(text).load().unwrap_err();
    let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
    for wanted in [
        "channels.none: does not say",
        "channels.two: says more than once",
        "channels.ftp.url: is not a web address",
        "Bad Name",
    ] {
        assert!(
            told.iter().any(|t| t.contains(wanted)),
            "{wanted}: {told:?}"
        );
    }
    assert!(!told.concat().contains("T0K3N"), "{told:?}");
}

#[test]
fn rule_with_unknown_channel_is_reported_and_pipeline_runs() {
    let text = "[sources.gate]\nuri = \"demo:\"\n[channels.yard]\nurl = \"https://a.example/\"\n\
                [pipelines.people]\nsource = \"gate\"\nworkflow = {}\n\
                [[pipelines.people.rules]]\nname = \"a\"\nwhen = { kind = \"enters\", zone = \"z\" }\nnotify = [\"yard\", \"securty\"]\n";
    let config = Case::new(text).load().unwrap();
    assert_eq!(config.pipelines.len(), 1);
    let [warning] = config.warnings.as_slice() else {
        panic!("{:?}", config.warnings);
    };
    let told = warning.to_string();
    assert!(
        told.contains("rules[0].notify") && told.contains("securty") && told.contains("yard"),
        "{told}"
    );
}

#[test]
fn a_list_of_hosts_can_be_a_variable() {
    let case = Case::new("").env(
        "WATCHKEEPER_SINKS__HOSTS",
        "[\"a.example\", \"b.example:1\"]",
    );
    assert_eq!(case.load().unwrap().sinks.hosts.len(), 2);
}

#[test]
fn sinks_errors_are_reported_with_place() {
    let text = "[sinks]\nhosts = [\"ok.example\", \"https://a.example/\", \"*.example\"]\nfolders = [\"/srv/../etc\"]\nslack_url = \"slack\"\n\
                [sinks.secrets]\nNONE = {}\nTWO = { file = \"a\", value = \"hunter2\" }\nTEXT = \"hunter2\"\n";
    let errors = Case::new(text).load().unwrap_err();
    let keys: Vec<_> = errors.iter().map(|e| e.key.as_str()).collect();
    for key in [
        "sinks.hosts[1]",
        "sinks.hosts[2]",
        "sinks.folders[0]",
        "sinks.slack_url",
        "sinks.secrets.NONE",
        "sinks.secrets.TWO",
        "sinks.secrets.TEXT",
    ] {
        assert!(keys.contains(&key), "{key} is not among {keys:?}");
    }
    for error in &errors {
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
    let errors = Case::new("[sinks]\nhosts = \"a.example\"\n")
        .load()
        .unwrap_err();
    assert!(
        errors[0].to_string().contains("list of texts"),
        "{}",
        errors[0]
    );
}

fn masked(privacy: &str) -> Config {
    let toml = format!("[sources.gate]\nuri = \"clip.mp4\"\n[sources.gate.privacy]\n{privacy}");
    Case::new(&toml).load().unwrap()
}

#[test]
fn controls_of_a_source_are_read() {
    let config = Case::new(
        "[sources.gate]\nuri = \"/dev/video0\"\n\
         [sources.gate.controls]\nauto_exposure = 1\nhue = -5\n",
    );
    let config = config.load().unwrap();
    let expected = [("auto_exposure".to_owned(), 1), ("hue".to_owned(), -5)];
    assert_eq!(config.sources[0].controls, BTreeMap::from(expected));

    let wrong =
        Case::new("[sources.gate]\nuri = \"/dev/video0\"\ncontrols = { auto_exposure = \"on\" }\n");
    let config = wrong.load().unwrap();
    assert_eq!(config.sources, []);
    assert_eq!(
        config.warnings[0].key,
        "sources.gate.controls.auto_exposure"
    );
}

#[test]
fn each_wrong_value_of_a_source_is_named_with_its_key() {
    let config = Case::new(
        "[sources.gate]\nuri = \"/dev/video0\"\nscale = [1280]\nmax_fps = -1\n\
         controls = { gain = \"high\", hue = 1.5, focus = 3 }\n\
         [sources.yard]\nscale = [0, 720]\n",
    );
    let config = config.load().unwrap();
    let mut keys: Vec<&str> = config.warnings.iter().map(|w| w.key.as_str()).collect();
    keys.sort_unstable();
    let wanted = [
        "sources.gate.controls.gain",
        "sources.gate.controls.hue",
        "sources.gate.max_fps",
        "sources.gate.scale",
        "sources.yard.scale",
        "sources.yard.uri",
    ];
    assert_eq!(keys, wanted);
    let said = |key: &str| {
        let found = config.warnings.iter().find(|warning| warning.key == key);
        found.map(ToString::to_string).unwrap_or_default()
    };
    let gain = said("sources.gate.controls.gain");
    assert!(
        gain.contains("= \"high\"") && gain.contains("a whole number"),
        "{gain}"
    );
    let scale = said("sources.gate.scale");
    assert!(
        scale.contains("= [1280]") && scale.contains("[WIDTH, HEIGHT]"),
        "{scale}"
    );
}

#[test]
fn controls_of_a_network_camera_are_refused() {
    for uri in ["rtsp://cam/live", "clip.mp4", "demo:", "csi://0"] {
        let text = format!("[sources.gate]\nuri = \"{uri}\"\ncontrols = {{ gain = 1 }}\n");
        let config = Case::new(&text).load().unwrap();
        let said: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
        let [said] = said.as_slice() else {
            panic!("{uri}: {said:?}");
        };
        assert!(
            said.starts_with("sources.gate.controls = {\"gain\":1}: only a V4L2"),
            "{said}"
        );
    }
}

#[test]
fn privacy_mask_of_a_source_is_read() {
    let config = masked(
        "regions = [[[0, 0], [0.5, 0], [0.5, 1.0]], [[0.9, 0.9], [1, 0.9], [1, 1]]]\nfill = \"pixelate\"\n",
    );
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    let [mask] = &config.privacy[..] else {
        panic!("{:?}", config.privacy)
    };
    assert_eq!(mask.source.as_str(), "gate");
    assert_eq!(mask.uri, config.sources[0].uri);
    assert_eq!(mask.regions.len(), 2);
    assert_eq!(mask.regions[0][2], [0.5, 1.0]);
    assert_eq!(mask.fill, MaskFill::Pixelate);
}

#[test]
fn invalid_privacy_mask_hides_all_and_names_the_remedy() {
    let corners = |n: usize| vec!["[0.1, 0.2]"; n].join(", ");
    let regions = vec!["[[0, 0], [1, 0], [0, 1]]"; 33].join(", ");
    for (written, key, part) in [
        (
            "regions = [[[0, 0], [640, 0], [0, 480]]]",
            "regions[0] = [[0,0],[640,0],[0,480]]",
            "divide pixels by the size",
        ),
        (
            "regions = [[[0, 0], [1, 0], [0, 1]], [[0, 0], [1, 1]]]",
            "regions[1] = [[0,0],[1,1]]",
            "3 to 64 corners",
        ),
        (
            "regions = [[[0, 0], [0.5, 0.5], [1, 1]]]",
            "regions[0] = [[0,0],[0.5,0.5],[1,1]]",
            "encloses no area",
        ),
        ("regions = [[[nan, 0], [1, 0], [1, 1]]]", "regions[0]", ""),
        (
            &format!("regions = [[{}]]", corners(65)),
            "regions[0]",
            "3 to 64 corners",
        ),
        (
            &format!("regions = [{regions}]"),
            "regions",
            "at most 32 regions",
        ),
        (
            "regions = \"all\"",
            "regions = \"all\"",
            "a list of regions, [[[x, y]",
        ),
        ("regions = {}", "regions", "a list of at most 32"),
        ("fill = \"blur\"", "fill = \"blur\"", "black, pixelate"),
        (
            "region = [[[0, 0], [1, 0], [0, 1]]]",
            "region",
            "did you mean regions?",
        ),
    ] {
        let config = masked(&format!("{written}\n"));
        assert!(config.sources.is_empty(), "{written}");
        let told = config.warnings[0].to_string();
        let key = format!("sources.gate.privacy.{key}");
        assert!(told.starts_with(&key) && told.contains(part), "{told}");
        // A source of this name that was deployed by hand must not show more.
        let regions = &config.privacy[0].regions;
        assert_eq!(regions[0][2], [1.0, 1.0], "{written}");
    }
}

#[test]
fn mask_without_regions_is_refused_and_hides_everything() {
    for written in ["", "fill = \"black\"\n"] {
        let config = masked(written);
        assert!(config.sources.is_empty());
        let told = config.warnings[0].to_string();
        assert!(told.contains("regions and classes are missing"), "{told}");
        assert_eq!(config.privacy[0].regions[0].len(), 4);
    }
}

#[test]
fn too_many_masked_classes_are_refused() {
    let classes = |n: usize| format!("classes = [{}]\n", vec!["\"person\""; n].join(", "));
    assert_eq!(masked(&classes(32)).privacy[0].classes.len(), 32);
    let config = masked(&classes(33));
    assert!(config.sources.is_empty());
    let told = config.warnings[0].to_string();
    assert!(told.contains("at most 32 classes"), "{told}");
}

#[test]
fn misspelt_privacy_section_hides_everything() {
    let toml = "[sources.gate]\nuri = \"clip.mp4\"\n[sources.gate.privcy]\nfill = \"black\"\n";
    let config = Case::new(toml).load().unwrap();
    assert!(config.sources.is_empty());
    let told = config.warnings[0].to_string();
    assert!(told.contains("did you mean privacy?"), "{told}");
    assert_eq!(config.privacy[0].regions[0].len(), 4);
}

/// Every error of a section at once: correcting one never uncovers another of its kind.
#[test]
fn all_errors_of_a_section_are_reported_at_once() {
    let text = r#"
[sources.gate]
uri = "demo:"
[pipelines.gate]
source = "gate"
workflow = { version = "1.0", inputs = [], steps = [], outputs = [] }
[[pipelines.gate.rules]]
name = "door"
when = { kind = "enters", zone = "z" }
clip = { made_of = "streem", before_s = "five" }
severty = "info"
cooldown_s = "three"
schedule = "Mo-Fr 22:00-06:00"
[[pipelines.gate.rules]]
name = "full"
when = { kind = "count", detections = "$steps.a.b", bound = { over = 1 }, for_s = "3" }
[[pipelines.gate.rules]]
name = "long"
when = { kind = "count", detections = "9", bound = { over = 1 }, for_s = "9" }
[[pipelines.gate.rules]]
name = "without"
when = { kind = "appears" }
[agent.lookups.plates]
kind = "table"
match = "fuzy"
value = "plate"
[agent.jobs.weekly]
plan = 7
catch_up = "yes"
keep_last = -1
"#;
    let request = Case::new(text);
    let report = watchkeeper_config::check(&request.request(), &|_, _| Findings::default());
    let shown: Vec<String> = report
        .errors
        .iter()
        .chain(&report.warnings)
        .map(ToString::to_string)
        .collect();
    let all = shown.join("\n");
    for part in [
        "rules[0].clip.made_of = \"streem\": is not allowed; allowed: pictures, stream; did you \
         mean stream?",
        "rules[0].clip.before_s = \"five\": must be a number",
        "rules[0].severty: unknown key",
        "rules[0].cooldown_s = \"three\": must be a number of seconds",
        "rules[0].schedule = \"Mo-Fr 22:00-06:00\": must be a table, such as { days =",
        "rules[1].when.for_s = \"3\": must be a number of seconds",
        "rules[2].when: a value in it, string \"9\", must be a number",
        "rules[3].when.detections: is required and missing",
        "agent.lookups.plates.match = \"fuzy\"",
        "agent.lookups.plates.value = plate: names nothing that an event has",
        "agent.lookups.plates.path: is required and missing",
        "agent.lookups.plates.key: is required and missing",
        "agent.jobs.weekly.plan = 7",
        "agent.jobs.weekly.catch_up",
        "agent.jobs.weekly.keep_last",
        "agent.jobs.weekly: needs cron, or on",
    ] {
        assert!(all.contains(part), "{part}\n\n{all}");
    }
    assert!(!all.contains("needs a plan or a request"), "{all}");
    assert!(report.notes.concat().contains("checked further"));
}

#[test]
fn look_up_of_a_value_that_no_look_up_has_is_refused() {
    let errors = |url: &str| {
        let text = format!(
            "[agent.lookups.members]\nkind = \"table\"\npath = \"m.csv\"\nkey = \"plate\"\n\
             columns = [\"owner\"]\n\
             [agent.lookups.cover]\nkind = \"fields\"\n\
             schema = {{ properties = {{ artist = {{ type = \"string\" }} }} }}\n\
             [agent.lookups.web]\nkind = \"http\"\nanswer = \"/a\"\nonly_below = 0.75\n\
             url = \"{url}\"\n"
        );
        let request = Case::new(&text);
        let report = watchkeeper_config::check(&request.request(), &|_, _| Findings::default());
        let errors = report.errors.iter().map(ToString::to_string);
        errors.collect::<Vec<_>>().join("\n")
    };
    let good = "https://h/{value}?q={fields.artist}+{members.owner}";
    assert_eq!(errors(good), "");
    for (url, why) in [
        (
            "https://h/{fields.title}",
            "looks up fields.title, which no look-up has",
        ),
        (
            "https://h/{members.phone}",
            "looks up members.phone, which no look-up has",
        ),
        (
            "https://h/{cover.artist}",
            "looks up cover.artist, which no look-up has",
        ),
        ("https://h/{plate}", "has the unknown placeholder {plate}"),
        ("https://{fields.artist}/", "has a placeholder in its host"),
        ("https://h/{value", "has a brace that is no placeholder"),
    ] {
        let found = errors(url);
        assert!(found.contains(why), "{url}: {found}");
    }
}

#[test]
fn effective_configuration_has_no_secret_and_loads_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("wk.toml");
    let text = "[agent.heartbeat]\ninterval_min = 20\n[agent.memory]\nmodel = \"/srv/sentences\"\n[mqtt]\nhost = \"b\"\nusername = \"u\"\npassword = \"hunter2\"\n[sources.gate]\nuri = \"rtsp://me:hunter2@cam/1\"\n[sources.yard]\nuri = \"http://cam/mjpg?user=me&pwd=hunter2\"\n[models]\nmirror = \"https://mirror/?token=hunter2\"\n[sinks]\nhosts = [\"hooks.example.org:8443\"]\nfolders = [\"/srv/out\"]\nsecrets = { A = { value = \"hunter2\" }, B = { file = \"b.txt\" } }\n[channels.office]\nurl_env = \"HOOK\"\nmin_severity = \"warning\"\n[channels.phone]\nkind = \"slack\"\nurl_file = \"/run/hook\"\n[agent.tools]\nremote = [\"read\"]\n[agent.auto_approve]\nchat = [\"pause\"]\n";
    std::fs::write(&file, text).unwrap();
    let request = LoadRequest {
        file: Some(file.clone()),
        hostname: "h".to_owned(),
        ..LoadRequest::default()
    };
    let shown = toml::to_string_pretty(&effective(&request, &load(&request).unwrap())).unwrap();
    assert!(!shown.contains("hunter2"), "{shown}");
    std::fs::write(&file, &shown).unwrap();
    let again = load(&request).unwrap();
    assert_eq!(again.sources.len(), 2);
    assert_eq!(again.warnings, []);
    assert_eq!(
        again.agent.heartbeat,
        Some(std::time::Duration::from_secs(1200))
    );
    assert_eq!(again.memory.model, Some("/srv/sentences".into()));
    assert_eq!(again.sinks.hosts.len(), 1);
    assert_eq!(again.sinks.secrets.len(), 2);
    let [office, phone] = again.channels.as_slice() else {
        panic!("{:?}", again.channels);
    };
    assert!(office.min_severity.is_some() && matches!(office.url, SecretSource::Variable(_)));
    assert_eq!(phone.kind, ChannelKind::Slack);
    assert_eq!(again.permissions.tools.lists().count(), 1);
}

#[test]
fn effective_configuration_loads_to_the_same_from_elsewhere() {
    let case = Case::new(
        "[runtime]\ndry_run_roots = [\"clips\"]\n[runtime.inference]\nengine_dir = \"engines\"\n\
         [sources.gate]\nuri = \"street.mp4\"\nscale = [640, 360]\nstall_s = 5\n\
         [pipelines.p]\nsource = \"gate\"\nworkflow = \"wf.json\"\nrules = [{ name = \"r\", when = { kind = \"crosses\", line = \"l\" } }]\n\
         [agent.archive]\nmax_bytes = 10000000\ns3_endpoints = [\"https://s3.example.com\"]\ns3_bucket = \"b\"\n\
         s3_prefix = \"p/\"\ns3_access_key = \"k\"\ns3_secret_key_file = \"s3.key\"\n[agent.job_tools]\nfaces = true\n\
         [agent.jobs.weekly]\nplan = \"plan.yaml\"\ncron = \"0 6 * * MON\"\n\
         [agent.jobs.seen]\nrequest = \"an album\"\non = { camera = \"gate\" }\n\
         [agent.lookups.members]\nkind = \"http\"\nurl = \"https://h/{value}\"\nanswer = \"/a\"\n\
         headers = { accept = \"text/plain\", key_file = \"h.key\" }\n\
         [agent.lookups.plates]\nkind = \"table\"\npath = \"plates.csv\"\nkey = \"plate\"\n\
         [llm]\nprovider = \"claude\"\n[mqtt]\nhost = \"b\"\ntls = true\n",
    )
    .with_file("wf.json", "{}")
    .with_file("plan.yaml", "");
    let first = case.load().unwrap();
    assert_eq!(first.warnings, []);
    let shown = effective(&case.request(), &first);
    let elsewhere = Case::new(&toml::to_string(&shown).unwrap());
    let again = elsewhere.load().unwrap();
    let [first, again] = [first, again].map(|config| Config {
        file: None,
        ..config
    });
    assert_eq!(format!("{first:#?}"), format!("{again:#?}"));
}
