//! Accepting, storing and settling effects.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use watchkeeper_config::HostRule;
use watchkeeper_contract::effect::{HttpBody, HttpCall, HttpMethod, Sealed};
use watchkeeper_contract::spool::SpooledEffect;

use super::state::BROKEN;
use super::*;

const FREE: Limits = Limits {
    max_effects: 8,
    max_bytes: 1 << 20,
    max_queued: 8,
    max_queued_bytes: 1 << 20,
    max_effect_bytes: 64 << 10,
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

fn sender(effects: &Effects) -> EffectSender {
    effects.sender(&PipelineId::new("gate").unwrap())
}

fn emit(effects: &Effects, text: &str) -> Result<(), String> {
    sender(effects).emit("hook", &call("hooks.example.org", text))
}

/// Waits until so many effects are on disk.
fn on_disk(effects: &Effects, count: usize) -> Vec<WaitingEffect> {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let page = effects.page(EffectNumber(0), 100);
        if page.effects.len() >= count {
            return page.effects;
        }
        assert!(Instant::now() < end, "timed out waiting for {count}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn numbers(effects: &[WaitingEffect]) -> Vec<u64> {
    effects.iter().map(|e| e.number.0).collect()
}

#[test]
fn effect_survives_restart_until_it_is_settled() {
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
fn number_is_never_given_twice() {
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
fn disallowed_effect_is_refused_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let effects = open(dir.path(), FREE);
    let why = sender(&effects)
        .emit("hook", &call("evil.example", "x"))
        .unwrap_err();
    assert!(why.contains("sinks.hosts"), "{why}");
    let counts = effects.counts();
    assert_eq!((counts.taken, counts.refused, counts.waiting), (0, 1, 0));
    // It is reported until the step's effect is allowed, or the pipeline is gone.
    let [problem] = effects.problems().try_into().unwrap();
    assert!(
        problem.contains("step hook") && problem.contains("evil.example"),
        "{problem}"
    );
    emit(&effects, "allowed").unwrap();
    assert_eq!(effects.problems(), [""; 0]);
    let refused_by = sender(&effects).emit("hook", &call("evil.example", "x"));
    assert!(refused_by.is_err() && effects.problems().len() == 1);
    effects.forget(&PipelineId::new("other").unwrap());
    assert_eq!(effects.problems().len(), 1);
    effects.forget(&sender(&effects).pipeline);
    assert_eq!(effects.problems(), [""; 0]);
}

#[test]
fn sender_of_an_ended_run_reports_no_problem() {
    let dir = tempfile::tempdir().unwrap();
    let effects = open(dir.path(), FREE);
    let refused_by =
        |of: &EffectSender| assert!(of.emit("hook", &call("evil.example", "x")).is_err());
    let old = sender(&effects);
    refused_by(&old);
    effects.forget(&old.pipeline);
    refused_by(&old);
    assert_eq!(effects.problems(), [""; 0]);
    let new = sender(&effects);
    refused_by(&old);
    assert_eq!(effects.problems(), [""; 0]);
    refused_by(&new);
    assert_eq!(effects.problems().len(), 1);
}

#[test]
fn full_spool_refuses_until_an_effect_is_settled() {
    let dir = tempfile::tempdir().unwrap();
    let effects = open(dir.path(), FREE);
    for n in 0..FREE.max_effects {
        emit(&effects, &n.to_string()).unwrap();
    }
    let why = emit(&effects, "one too many").unwrap_err();
    assert!(why.contains("8 effects") && why.contains("agent"), "{why}");
    assert!(!effects.problems().is_empty());
    let waiting = on_disk(&effects, FREE.max_effects);
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
fn full_disk_refuses_effects_without_blocking() {
    let dir = tempfile::tempdir().unwrap();
    let full = Limits {
        min_free_bytes: u64::MAX,
        ..FREE
    };
    let effects = open(dir.path(), full);
    emit(&effects, "before the disk is known to be full").unwrap();
    let problem = wait_for_problem(&effects);
    assert!(problem.contains("reserved for events"), "{problem}");
    let why = emit(&effects, "after").unwrap_err();
    assert!(why.contains("the disk refuses effects"), "{why}");
    effects.shut_down(Duration::from_secs(60));
    drop(effects);
    // What was accepted is on disk or counted as failed.
    let counts = open(dir.path(), FREE).counts();
    assert_eq!((counts.waiting, counts.failed), (0, 1));
}

fn wait_for_problem(effects: &Effects) -> String {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(problem) = effects.problems().pop() {
            return problem;
        }
        assert!(Instant::now() < end, "timed out waiting for a problem");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn disk_error_refuses_effects_until_one_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let effects = open(dir.path(), FREE);
    // In the way of the first effect.
    let name = format!("effects/.{:020}.effect.tmp", 1);
    std::fs::create_dir(dir.path().join(&name)).unwrap();
    emit(&effects, "one").unwrap();
    wait_for_problem(&effects);
    emit(&effects, "two").unwrap_err();
    std::fs::remove_dir(dir.path().join(name)).unwrap();
    on_disk(&effects, 1);
    emit(&effects, "three").unwrap();
    on_disk(&effects, 2);
    assert_eq!(effects.problems(), [""; 0]);
}

#[test]
fn failure_survives_restart_and_counts_once() {
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
fn damaged_file_is_removed_and_others_stay() {
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
    // Neither can be read or removed.
    let unreadable = dir.path().join(format!("effects/{:020}.effect", 99));
    std::fs::create_dir(&unreadable).unwrap();
    std::fs::create_dir(dir.path().join("effects/.left.tmp")).unwrap();
    let effects = open(dir.path(), FREE);
    assert_eq!(numbers(&on_disk(&effects, 1)), [waiting[2].number.0]);
    assert_eq!(effects.counts().failed, 2);
    assert!(!file(0).exists() && file(1).exists() && unreadable.exists());
}

#[test]
fn folder_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let _effects = open(dir.path(), FREE);
    let mode = std::fs::metadata(dir.path().join("effects"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn counts_do_not_wait_for_a_disk_that_takes_an_outcome() {
    let dir = tempfile::tempdir().unwrap();
    let effects = open(dir.path(), FREE);
    emit(&effects, "one").unwrap();
    let number = on_disk(&effects, 1)[0].number;
    // As during a write of `settle`.
    let writing = effects.shared.failures.lock();
    let (counted, counts) = std::sync::mpsc::channel();
    std::thread::scope(|threads| {
        threads.spawn(|| counted.send(effects.counts()).unwrap());
        let counts = counts.recv_timeout(Duration::from_secs(60));
        drop(writing);
        assert_eq!(counts.unwrap().waiting, 1);
    });
    let why = "404".to_owned();
    assert!(
        effects
            .settle(number, &EffectOutcome::Failed { why })
            .unwrap()
    );
    let counts = effects.counts();
    assert_eq!(
        (counts.failed, counts.last_failed[0].why.as_str()),
        (1, "404")
    );
    drop(effects);
    assert_eq!(open(dir.path(), FREE).counts().failed, 1);
}

#[test]
fn panic_of_writer_fails_queued_and_refuses_further_effects() {
    let dir = tempfile::tempdir().unwrap();
    let (panic, panics) = std::sync::mpsc::channel::<()>();
    let writer = move |_: &Shared, _| {
        panics.recv().unwrap();
        panic!("on purpose");
    };
    let effects = Effects::open_with_writer(dir.path(), &allowed(), FREE, writer).unwrap();
    emit(&effects, "one").unwrap();
    emit(&effects, "two").unwrap();
    panic.send(()).unwrap();
    effects.thread.join(Duration::from_secs(60));
    let counts = effects.counts();
    assert_eq!((counts.failed, counts.waiting), (2, 0));
    assert_eq!(emit(&effects, "late").unwrap_err(), BROKEN);
    assert_eq!(effects.problems(), [format!("sinks: {BROKEN}")]);
    drop(effects);
    assert_eq!(open(dir.path(), FREE).counts().failed, 2);
}
