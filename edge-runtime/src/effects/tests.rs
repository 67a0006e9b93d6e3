//! What is taken over, kept and told.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::path::PathBuf;
use std::time::Instant;

use watchkeeper_config::HostRule;
use watchkeeper_contract::effect::{HttpBody, HttpCall, HttpMethod, Sealed};
use watchkeeper_contract::spool::SpooledEffect;

use super::*;

const FREE: Limits = Limits {
    most: 8,
    most_bytes: 1 << 20,
    queue: 8,
    queue_bytes: 1 << 20,
    one: 64 << 10,
    min_free_bytes: 0,
};

fn allowed() -> SinksConfig {
    SinksConfig {
        hosts: vec![HostRule::parse("hooks.example.org").unwrap()],
        ..SinksConfig::default()
    }
}

fn open(dir: &Path, limits: Limits) -> Effects {
    Effects::open(dir, &allowed(), limits).unwrap()
}

fn call(host: &str, text: &str) -> Effect {
    let authorization = Sealed::Text("Bearer hush".to_owned());
    Effect::Http(HttpCall {
        url: format!("https://{host}/in"),
        method: HttpMethod::Post,
        query: Vec::new(),
        headers: BTreeMap::from([("authorization".to_owned(), authorization)]),
        body: HttpBody::Json {
            document: text.into(),
        },
        timeout_s: 2.0,
    })
}

fn outlet(effects: &Effects) -> Outlet {
    effects.outlet(&PipelineId::new("gate").unwrap())
}

fn emit(effects: &Effects, text: &str) -> Result<(), String> {
    outlet(effects).emit("hook", &call("hooks.example.org", text))
}

/// Waits until so many are on disk.
fn on_disk(effects: &Effects, count: usize) -> Vec<WaitingEffect> {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let page = effects.page(EffectNumber(0), 100);
        if page.effects.len() >= count {
            return page.effects;
        }
        assert!(Instant::now() < end, "waited in vain for {count}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn numbers(effects: &[WaitingEffect]) -> Vec<u64> {
    effects.iter().map(|e| e.number.0).collect()
}

#[test]
fn what_was_taken_is_there_after_a_restart_and_gone_after_its_outcome() {
    let dir = tempfile::tempdir().unwrap();
    let effects = open(dir.path(), FREE);
    for text in ["one", "two"] {
        emit(&effects, text).unwrap();
    }
    let before = on_disk(&effects, 2);
    drop(effects);
    let effects = open(dir.path(), FREE);
    assert_eq!(on_disk(&effects, 2), before);
    let json = effects.read(before[1].number).unwrap().unwrap();
    let spooled: SpooledEffect = serde_json::from_slice(&json).unwrap();
    assert_eq!(spooled.effect, call("hooks.example.org", "two"));
    assert_eq!(
        (&*spooled.step, spooled.pipeline.as_str()),
        ("hook", "gate")
    );
    assert!(
        effects
            .settle(before[0].number, &EffectOutcome::Done)
            .unwrap()
    );
    assert!(
        !effects
            .settle(before[0].number, &EffectOutcome::Done)
            .unwrap(),
        "once"
    );
    assert_eq!(effects.counts().done, 1);
    drop(effects);
    let effects = open(dir.path(), FREE);
    assert_eq!(numbers(&on_disk(&effects, 1)), [before[1].number.0]);
}

#[test]
fn a_number_is_never_given_twice_also_where_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let mut last = 0;
    for _ in 0..3 {
        let effects = open(dir.path(), FREE);
        assert!(
            effects.page(EffectNumber(0), 9).last.0 >= last,
            "a cursor stays behind the end"
        );
        emit(&effects, "again").unwrap();
        let number = on_disk(&effects, 1)[0].number;
        assert!(number.0 > last, "{number} after {last}");
        last = number.0;
        effects.settle(number, &EffectOutcome::Done).unwrap();
    }
}

#[test]
fn what_the_configuration_does_not_allow_is_refused_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let effects = open(dir.path(), FREE);
    let why = outlet(&effects)
        .emit("hook", &call("evil.example", "x"))
        .unwrap_err();
    assert!(why.contains("sinks.hosts"), "{why}");
    let counts = effects.counts();
    assert_eq!((counts.taken, counts.refused, counts.waiting), (0, 1, 0));
    // It is a trouble until the step wants what is allowed, or nobody has that pipeline any more.
    let [trouble] = effects.troubles().try_into().unwrap();
    assert!(
        trouble.contains("step hook") && trouble.contains("evil.example"),
        "{trouble}"
    );
    emit(&effects, "allowed").unwrap();
    assert_eq!(effects.troubles(), [""; 0]);
    let barred = outlet(&effects).emit("hook", &call("evil.example", "x"));
    assert!(barred.is_err() && effects.troubles().len() == 1);
    effects.forget(&PipelineId::new("other").unwrap());
    assert_eq!(effects.troubles().len(), 1);
    effects.forget(&outlet(&effects).pipeline);
    assert_eq!(effects.troubles(), [""; 0]);
}

#[test]
fn a_run_that_is_over_is_no_trouble_any_more_whatever_it_still_wants() {
    let dir = tempfile::tempdir().unwrap();
    let effects = open(dir.path(), FREE);
    let barred = |of: &Outlet| assert!(of.emit("hook", &call("evil.example", "x")).is_err());
    let old = outlet(&effects);
    barred(&old);
    effects.forget(&old.pipeline);
    barred(&old);
    assert_eq!(effects.troubles(), [""; 0]);
    let new = outlet(&effects);
    barred(&old);
    assert_eq!(effects.troubles(), [""; 0]);
    barred(&new);
    assert_eq!(effects.troubles().len(), 1);
}

#[test]
fn a_full_spool_refuses_the_newest_and_takes_again_when_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let effects = open(dir.path(), FREE);
    for n in 0..FREE.most {
        emit(&effects, &n.to_string()).unwrap();
    }
    let why = emit(&effects, "one too many").unwrap_err();
    assert!(why.contains("8 messages") && why.contains("agent"), "{why}");
    assert!(!effects.troubles().is_empty());
    let waiting = on_disk(&effects, FREE.most);
    effects
        .settle(waiting[0].number, &EffectOutcome::Done)
        .unwrap();
    emit(&effects, "room again").unwrap();
    assert!(
        emit(&effects, &"x".repeat(100 << 10))
            .unwrap_err()
            .contains("too many")
    );
}

#[test]
fn a_disk_without_room_makes_no_step_wait_and_nothing_is_lost_when_there_is_room_again() {
    let dir = tempfile::tempdir().unwrap();
    let full = Limits {
        min_free_bytes: u64::MAX,
        queue: 3,
        ..FREE
    };
    let effects = open(dir.path(), full);
    let mut refused = None;
    // One is in the thread's hand.
    for n in 0..5 {
        refused = refused.or(emit(&effects, &n.to_string()).err());
    }
    let why = refused.unwrap();
    assert!(why.contains("disk"), "{why}");
    assert!(effects.page(EffectNumber(0), 9).effects.is_empty());
}

#[test]
fn a_failure_outlasts_a_restart_and_is_counted_once() {
    let dir = tempfile::tempdir().unwrap();
    let effects = open(dir.path(), FREE);
    emit(&effects, "x").unwrap();
    let waiting = on_disk(&effects, 1).remove(0);
    let file = dir
        .path()
        .join(format!("effects/{:020}.effect", waiting.number.0));
    let bytes = std::fs::read(&file).unwrap();
    let failed = EffectOutcome::Failed {
        why: "the server said 404".to_owned(),
    };
    assert!(effects.settle(waiting.number, &failed).unwrap());
    drop(effects);
    // As after a power cut before the folder was synced.
    std::fs::write(&file, bytes).unwrap();
    let effects = open(dir.path(), FREE);
    assert!(effects.settle(waiting.number, &failed).unwrap());
    let counts = effects.counts();
    assert_eq!((counts.failed, counts.last_failed.len()), (1, 1));
    assert_eq!(counts.last_failed[0].why, "the server said 404");
}

#[test]
fn a_damaged_file_is_counted_and_gone_and_one_of_a_newer_version_stays() {
    let dir = tempfile::tempdir().unwrap();
    let effects = open(dir.path(), FREE);
    for text in ["one", "two", "three"] {
        emit(&effects, text).unwrap();
    }
    let waiting = on_disk(&effects, 3);
    drop(effects);
    let file = |n: usize| -> PathBuf {
        dir.path()
            .join(format!("effects/{:020}.effect", waiting[n].number.0))
    };
    let mut damaged = std::fs::read(file(0)).unwrap();
    *damaged.last_mut().unwrap() ^= 1;
    std::fs::write(file(0), damaged).unwrap();
    let mut newer = std::fs::read(file(1)).unwrap();
    newer["watchkeeper effect ".len()] = 2;
    std::fs::write(file(1), newer).unwrap();
    let effects = open(dir.path(), FREE);
    assert_eq!(numbers(&on_disk(&effects, 1)), [waiting[2].number.0]);
    assert_eq!(effects.counts().failed, 1);
    assert!(!file(0).exists() && file(1).exists());
}

#[test]
fn the_folder_is_nobody_elses() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let _effects = open(dir.path(), FREE);
    let mode = std::fs::metadata(dir.path().join("effects"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
}
