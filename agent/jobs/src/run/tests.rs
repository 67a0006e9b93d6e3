//! Runs with tools that fail on demand, and the state machine alone.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::execution::{AfterFailure, Execution};
use super::*;
use crate::plan::{CheckedPlan, check, check_without_box, read};
use crate::tool::{Context, Kind, Output, Param, Tool, ToolError, ToolOutput, ToolSpec, Toolbox};

/// Notes its calls, and fails as often as the test says.
#[derive(Default)]
struct Note {
    calls: Mutex<Vec<String>>,
    failures: Mutex<HashMap<String, Vec<ToolError>>>,
}

const TEXT: Output = Output {
    key: "text",
    kind: Kind::Text,
    about: "",
};

impl Tool for Note {
    fn spec(&self) -> &'static ToolSpec {
        &ToolSpec {
            name: "note",
            about: "",
            params: &[Param {
                name: "text",
                kind: Kind::Text,
                required: true,
                about: "",
            }],
            outputs: &[TEXT],
        }
    }

    fn run(
        &self,
        params: Map<String, Value>,
        context: &Context<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let text = params["text"].as_str().unwrap().to_owned();
        self.calls.lock().unwrap().push(text.clone());
        if let Some(left) = self.failures.lock().unwrap().get_mut(context.step)
            && let Some(error) = left.pop()
        {
            return Err(error);
        }
        let name = format!("{}.txt", context.step);
        let target = context.target(&name)?;
        fs::write(target.part(), &text).unwrap();
        target.publish()?;
        Ok(ToolOutput {
            values: Map::from_iter([("text".to_owned(), json!(text))]),
            summary: format!("noted {text}"),
            files: vec![name],
        })
    }
}

/// Waits until it is cancelled or its time is over.
struct Wait;

impl Tool for Wait {
    fn spec(&self) -> &'static ToolSpec {
        &ToolSpec {
            name: "wait",
            about: "",
            params: &[],
            outputs: &[TEXT],
        }
    }

    fn run(&self, _: Map<String, Value>, context: &Context<'_>) -> Result<ToolOutput, ToolError> {
        loop {
            context.check_continue()?;
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Fails after it has written, with and without a name.
struct Half;

impl Tool for Half {
    fn spec(&self) -> &'static ToolSpec {
        &ToolSpec {
            name: "half",
            about: "",
            params: &[],
            outputs: &[TEXT],
        }
    }

    fn run(&self, _: Map<String, Value>, context: &Context<'_>) -> Result<ToolOutput, ToolError> {
        let whole = context.target("whole.txt")?;
        fs::write(whole.part(), "x").unwrap();
        whole.publish()?;
        let half = context.target("half")?;
        fs::create_dir(half.part()).unwrap();
        fs::write(half.part().join("x.txt"), "x").unwrap();
        Err(ToolError::Permanent("the rest is missing".to_owned()))
    }
}

/// Needs what this box lacks.
struct Lacking;

const LACKS: &str = "no detector is installed; install one";

impl Tool for Lacking {
    fn spec(&self) -> &'static ToolSpec {
        &ToolSpec {
            name: "lacking",
            about: "",
            params: &[],
            outputs: &[TEXT],
        }
    }

    fn missing(&self, _: &Map<String, Value>) -> Option<String> {
        Some(LACKS.to_owned())
    }

    fn run(&self, _: Map<String, Value>, _: &Context<'_>) -> Result<ToolOutput, ToolError> {
        Err(ToolError::Permanent(LACKS.to_owned()))
    }
}

struct Bench {
    dir: tempfile::TempDir,
    note: Arc<Note>,
    runner: Runner,
    tools: Toolbox,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let note = Arc::new(Note::default());
        let tools = Toolbox::new(vec![
            Arc::clone(&note) as Arc<dyn Tool>,
            Arc::new(Wait),
            Arc::new(Half),
            Arc::new(Lacking),
        ]);
        Self {
            runner: Runner::new(tools.clone(), Jobs::new(dir.path().join("jobs"))),
            dir,
            note,
            tools,
        }
    }

    fn jobs(&self) -> Jobs {
        Jobs::new(self.dir.path().join("jobs"))
    }

    fn plan(&self, steps: Value) -> CheckedPlan {
        let plan = read(&json!({"name": "x", "inputs": {"who": "you"}, "steps": steps})).unwrap();
        check(plan, &self.tools).unwrap()
    }

    fn create(&self, steps: Value) -> JobFolder {
        self.jobs().create(&self.plan(steps), "test", None).unwrap()
    }

    fn run(&self, job: &JobFolder) -> Ended {
        self.runner.run(job, &mut |_| {}, &|| false).unwrap()
    }

    fn calls(&self) -> Vec<String> {
        let mut calls = std::mem::take(&mut *self.note.calls.lock().unwrap());
        calls.sort();
        calls
    }

    fn fail(&self, step: &str, errors: &[ToolError]) {
        let mut failures = self.note.failures.lock().unwrap();
        failures.insert(step.to_owned(), errors.to_vec());
    }
}

fn chain() -> Value {
    json!([
        {"name": "a", "tool": "note", "params": {"text": "hello ${inputs.who}"},
         "retry": {"pauses_s": [0]}},
        {"name": "b", "tool": "note", "params": {"text": "${a.text}!"}, "retry": {"pauses_s": [0]}},
        {"name": "c", "tool": "note", "params": {"text": "alone"}, "retry": {"pauses_s": [0]}},
    ])
}

fn transient() -> ToolError {
    ToolError::Transient("busy".to_owned())
}

fn permanent() -> ToolError {
    ToolError::Permanent("no".to_owned())
}

#[test]
fn results_reach_the_steps_that_name_them() {
    let bench = Bench::new();
    let job = bench.create(chain());
    assert_eq!(bench.run(&job), Ended::Done);
    assert_eq!(bench.calls(), ["alone", "hello you", "hello you!"]);
    assert_eq!(job.result("b").unwrap()["text"], json!("hello you!"));
    let file = job.info().output.join("b.txt");
    assert_eq!(fs::read_to_string(file).unwrap(), "hello you!");
}

#[test]
fn result_of_an_earlier_job_is_used_by_its_address() {
    let bench = Bench::new();
    let first = bench.create(chain());
    bench.run(&first);
    bench.calls();
    let text = format!("job://{}/a/text", first.info().id);
    let second = bench.create(json!([{"name": "d", "tool": "note", "params": {"text": text}}]));
    assert_eq!(bench.run(&second), Ended::Done);
    assert_eq!(bench.calls(), ["hello you"]);
}

#[test]
fn address_of_an_unknown_job_is_answered_with_the_latest_ids() {
    let bench = Bench::new();
    let mut ids: Vec<JobId> = (0..5)
        .map(|_| bench.create(chain()).info().id.clone())
        .collect();
    ids.sort_unstable();
    let fault = |job: &str| {
        let text = format!("job://{job}/a/text");
        let plan = json!({"name": "x", "steps": [
            {"name": "d", "tool": "note", "params": {"text": text}}]});
        let faults = crate::check_addresses(&read(&plan).unwrap(), &bench.jobs());
        faults[0].to_string()
    };
    let latest = format!("there are {}, {}, {} and 2 more", ids[4], ids[3], ids[2]);
    let unknown = fault("nothing-like-it");
    assert!(unknown.ends_with(&latest), "{unknown}");
}

#[test]
fn transient_failure_is_tried_again_and_a_permanent_one_is_not() {
    let bench = Bench::new();
    bench.fail("a", &[transient(), transient()]);
    bench.fail("c", &[permanent()]);
    let job = bench.create(chain());
    assert_eq!(bench.run(&job), Ended::Failed);
    let calls = bench.calls();
    assert_eq!(calls.iter().filter(|call| *call == "hello you").count(), 3);
    assert_eq!(calls.iter().filter(|call| *call == "alone").count(), 1);
    // What does not need the failed step is done.
    assert!(job.result("b").is_ok() && job.result("c").is_err());
}

/// A job whose plan a box accepted that had what this one lacks.
fn of_an_equipped_box(bench: &Bench, steps: Value) -> JobFolder {
    let plan = read(&json!({"name": "x", "steps": steps})).unwrap();
    let plan = check_without_box(plan, &bench.tools).unwrap();
    bench.jobs().create(&plan, "test", None).unwrap()
}

#[test]
fn step_fails_if_box_lacks_tool_unless_step_is_done() {
    let bench = Bench::new();
    let steps = json!([
        {"name": "find", "tool": "lacking"},
        {"name": "after", "tool": "note", "params": {"text": "${find.text}"}},
    ]);
    let job = of_an_equipped_box(&bench, steps.clone());
    assert_eq!(bench.run(&job), Ended::Failed);
    assert_eq!(job.summary().unwrap().state, JobState::Failed);
    let log = serde_json::to_string(&job.log().unwrap()).unwrap();
    assert!(log.contains(LACKS), "{log}");
    let job = of_an_equipped_box(&bench, steps);
    let lock = job.lock().unwrap();
    let (log, _) = job.begin(&lock).unwrap();
    let values = Map::from_iter([("text".to_owned(), json!("found"))]);
    let result = StepResult {
        sha256: job.store("find", &values).unwrap(),
        summary: String::new(),
        files: Vec::new(),
    };
    let step = "find".to_owned();
    log.append(LogRecord::Finished { step, result }).unwrap();
    drop((lock, log));
    assert_eq!(bench.run(&job), Ended::Done);
    assert_eq!(bench.calls(), ["found"]);
}

#[test]
fn job_whose_plan_no_longer_fits_the_tools_has_failed() {
    let bench = Bench::new();
    let job = bench.create(chain());
    let fewer = Runner::new(Toolbox::new(Vec::new()), bench.jobs());
    let error = fewer.run(&job, &mut |_| {}, &|| false).unwrap_err();
    assert!(error.to_string().contains("no tool \"note\""), "{error}");
    let summary = job.summary().unwrap();
    assert_eq!(summary.state, JobState::Failed);
    assert_eq!(bench.run(&job), Ended::Done, "a person may resume it");
}

#[test]
fn job_stays_locked_while_revised_and_cancellation_ends_it() {
    let bench = Bench::new();
    bench.fail("c", &[permanent()]);
    let mut job = bench.create(chain());
    let mut revise = |job: &JobFolder, is_cancelled: &dyn Fn() -> bool| {
        assert_eq!(job.summary().unwrap().state, JobState::Running);
        let is_end = |line: &LogLine| matches!(line.record, LogRecord::Ended { .. });
        assert!(!job.log().unwrap().iter().any(is_end));
        assert!(!is_cancelled());
        assert!(job.cancel().unwrap(), "another process may cancel it");
        assert!(is_cancelled());
        None
    };
    let ended = (bench.runner).run_revised(&mut job, &mut |_| {}, &|| false, &mut revise);
    assert_eq!(ended.unwrap(), Ended::Cancelled);
    assert_eq!(job.summary().unwrap().state, JobState::Cancelled);
}

#[test]
fn revised_plan_is_run_until_there_is_none() {
    let bench = Bench::new();
    bench.fail("b", &[permanent(), permanent()]);
    let mut job = bench.create(chain());
    let mut revised = 0;
    let mut revise = |_: &JobFolder, _: &dyn Fn() -> bool| {
        revised += 1;
        let mut plan = chain();
        plan[1]["params"]["text"] = json!(format!("revision {revised}"));
        Some(bench.plan(plan))
    };
    let ended = (bench.runner).run_revised(&mut job, &mut |_| {}, &|| false, &mut revise);
    assert_eq!(ended.unwrap(), Ended::Done);
    assert_eq!(revised, 2);
    assert_eq!(job.summary().unwrap().state, JobState::Done);
}

#[test]
fn name_of_a_failed_step_is_free_once_nothing_of_it_is_left() {
    let bench = Bench::new();
    let steps = |name: &str| json!([{"name": name, "tool": "half"}]);
    let mut job = bench.create(steps("old"));
    assert_eq!(bench.run(&job), Ended::Failed);
    let output = job.info().output.clone();
    assert!(!output.join("whole.txt").exists());
    job.revise(&bench.plan(steps("new")), &bench.tools).unwrap();
    assert_eq!(bench.run(&job), Ended::Failed);
    let claims = |job: &JobFolder| {
        let log = job.log().unwrap().into_iter();
        let claims = log.filter_map(|line| match line.record {
            LogRecord::Claimed { step, name } => Some((step, name)),
            _ => None,
        });
        claims.filter(|(step, _)| step == "new").count()
    };
    assert_eq!(claims(&job), 2, "both names are of the new step");
    // What an interrupted step has left is its own.
    let lock = job.lock().unwrap();
    let (log, _) = job.begin(&lock).unwrap();
    let (step, name) = ("gone".to_owned(), "whole.txt".to_owned());
    log.append(LogRecord::Claimed { step, name }).unwrap();
    drop((lock, log));
    fs::write(output.join("whole.txt"), "x").unwrap();
    assert_eq!(bench.run(&job), Ended::Failed);
    let why = serde_json::to_string(job.log().unwrap().last_chunk::<2>().unwrap()).unwrap();
    assert!(why.contains("step gone writes whole.txt too"), "{why}");
}

#[test]
fn failed_step_leaves_no_files_and_those_of_others_stay() {
    let bench = Bench::new();
    let other = json!({"name": "other", "tool": "note", "params": {"text": "y"}});
    let plan =
        bench.plan(json!([other, {"name": "half", "tool": "half", "depends_on": ["other"]}]));
    let output = bench.dir.path().join("out");
    let job = bench.jobs().create(&plan, "test", Some(&output)).unwrap();
    assert_eq!(bench.run(&job), Ended::Failed);
    let left = fs::read_dir(&output)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let mut left: Vec<_> = left.map(|name| name.into_string().unwrap()).collect();
    left.sort();
    assert_eq!(left, [".watchkeeper-job", "other.txt"]);
}

#[test]
fn step_after_a_failed_one_is_skipped_and_says_why() {
    let bench = Bench::new();
    bench.fail("a", &[permanent()]);
    let job = bench.create(chain());
    assert_eq!(bench.run(&job), Ended::Failed);
    let log = job.log().unwrap();
    let skipped = log.iter().find_map(|line| match &line.record {
        LogRecord::Skipped { step, because } => Some((step.clone(), because.clone())),
        _ => None,
    });
    assert_eq!(skipped, Some(("b".to_owned(), "a".to_owned())));
}

#[test]
fn alternative_replaces_a_failed_call() {
    let bench = Bench::new();
    bench.fail("a", &[permanent()]);
    let job = bench.create(json!([
        {"name": "a", "tool": "note", "params": {"text": "first"},
         "alternatives": [{"tool": "note", "params": {"text": "second"}}]},
    ]));
    assert_eq!(bench.run(&job), Ended::Done);
    assert_eq!(job.result("a").unwrap()["text"], json!("second"));
}

#[test]
fn step_beyond_its_time_limit_fails() {
    let bench = Bench::new();
    let job = bench.create(json!([
        {"name": "w", "tool": "wait", "timeout_s": 1, "retry": {"tries": 1}},
    ]));
    assert_eq!(bench.run(&job), Ended::Failed);
    let log = serde_json::to_string(&job.log().unwrap()).unwrap();
    assert!(
        log.contains("not done within the step's timeout_s"),
        "{log}"
    );
}

#[test]
fn cancelled_job_ends_and_can_be_resumed() {
    let bench = Bench::new();
    let mut steps = chain();
    steps
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "w", "tool": "wait", "depends_on": ["c"]}));
    let job = bench.create(steps);
    let is_waiting = || {
        let log = job.log().unwrap();
        log.iter()
            .any(|line| matches!(&line.record, LogRecord::Started { step, .. } if step == "w"))
    };
    let ended = bench.runner.run(&job, &mut |_| {}, &is_waiting).unwrap();
    assert_eq!(ended, Ended::Cancelled);
    bench.calls();
    // The other way to cancel, from another process.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // A run that could not begin must not be waited for.
            for _ in 0..12_000 {
                if job.cancel().unwrap() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        assert_eq!(bench.run(&job), Ended::Cancelled);
    });
    assert!(bench.calls().len() < 3, "done steps were run again");
}

#[test]
fn done_steps_are_not_run_again_and_others_are() {
    let bench = Bench::new();
    bench.fail("b", &[permanent()]);
    let job = bench.create(chain());
    assert_eq!(bench.run(&job), Ended::Failed);
    bench.calls();
    assert_eq!(bench.run(&job), Ended::Done);
    assert_eq!(bench.calls(), ["hello you!"]);
}

#[test]
fn log_cut_at_any_byte_is_resumed_without_repeating_done_steps() {
    let bench = Bench::new();
    let job = bench.create(chain());
    bench.run(&job);
    let path = bench
        .dir
        .path()
        .join("jobs")
        .join(&job.info().id)
        .join("log.jsonl");
    let whole = fs::read(&path).unwrap();
    bench.calls();
    for cut in (0..whole.len()).step_by(7) {
        fs::write(&path, &whole[..cut]).unwrap();
        let log = job.log().unwrap();
        let done = log
            .iter()
            .filter(|line| matches!(line.record, LogRecord::Finished { .. }));
        let done = done.count();
        // A file is written after its name is claimed.
        for file in ["a.txt", "b.txt", "c.txt"] {
            let is_claimed = log.iter().any(
                |line| matches!(&line.record, LogRecord::Claimed { name, .. } if name == file),
            );
            if !is_claimed {
                fs::remove_file(job.info().output.join(file)).unwrap();
            }
        }
        assert_eq!(bench.run(&job), Ended::Done, "cut at {cut}");
        assert_eq!(bench.calls().len(), 3 - done, "cut at {cut}");
        assert_eq!(job.result("b").unwrap()["text"], json!("hello you!"));
    }
}

#[test]
fn log_is_read_from_where_a_reader_was() {
    let bench = Bench::new();
    let job = bench.create(chain());
    assert_eq!(job.log_from(0).unwrap(), (Vec::new(), 0));
    let lock = job.lock().unwrap();
    let (log, _) = job.begin(&lock).unwrap();
    log.append(LogRecord::Opened).unwrap();
    let (first, end) = job.log_from(0).unwrap();
    assert_eq!(first.len(), 1);
    assert_eq!(job.log_from(end).unwrap(), (Vec::new(), end));
    drop((lock, log));
    bench.run(&job);
    let (rest, _) = job.log_from(end).unwrap();
    assert_eq!([first, rest].concat(), job.log().unwrap());
}

#[test]
fn damage_is_reported_and_nothing_is_run() {
    let bench = Bench::new();
    let job = bench.create(chain());
    bench.run(&job);
    bench.calls();
    let folder = bench.dir.path().join("jobs").join(&job.info().id);
    fs::write(folder.join("results/a.json"), b"{\"text\":\"other\"}").unwrap();
    assert!(job.result("a").unwrap_err().to_string().contains("SHA-256"));
    let mut log = fs::OpenOptions::new()
        .append(true)
        .open(folder.join("log.jsonl"))
        .unwrap();
    log.write_all(b"nonsense\n").unwrap();
    let error = bench.runner.run(&job, &mut |_| {}, &|| false).unwrap_err();
    assert!(error.to_string().contains("is damaged: line "), "{error}");
    assert_eq!(bench.calls(), [""; 0]);
}

#[test]
fn output_folder_with_content_is_refused() {
    let bench = Bench::new();
    let full = bench.dir.path().join("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("mine"), b"").unwrap();
    let error = bench
        .jobs()
        .create(&bench.plan(chain()), "", Some(&full))
        .unwrap_err();
    assert!(error.to_string().contains("is not empty"), "{error}");
}

#[test]
fn output_folder_belongs_to_one_job() {
    let bench = Bench::new();
    let shared = bench.dir.path().join("shared");
    let plan = bench.plan(chain());
    let first = bench.jobs().create(&plan, "", Some(&shared)).unwrap();
    let second = bench.jobs().create(&plan, "", Some(&shared)).unwrap_err();
    let resume = format!("`watchkeeper job resume {}`", first.info().id);
    assert!(second.to_string().contains(&resume), "{second}");
    fs::write(shared.join("a.txt"), "mine").unwrap();
    assert_eq!(bench.run(&first), Ended::Failed);
    assert_eq!(fs::read_to_string(shared.join("a.txt")).unwrap(), "mine");
    let log = serde_json::to_string(&first.log().unwrap()).unwrap();
    assert!(log.contains("is not of this job; move it away"), "{log}");
    fs::remove_file(shared.join("a.txt")).unwrap();
    assert_eq!(bench.run(&first), Ended::Done);
    fs::remove_file(shared.join(".watchkeeper-job")).unwrap();
    let error = bench
        .runner
        .run(&first, &mut |_| {}, &|| false)
        .unwrap_err();
    assert!(
        error.to_string().contains("no longer that of this job"),
        "{error}"
    );
}

#[test]
fn deleted_job_is_gone_and_a_running_one_stays() {
    let bench = Bench::new();
    let job = bench.create(chain());
    let id = job.info().id.clone();
    let held = job.lock().unwrap();
    let error = bench.jobs().delete(&id).unwrap_err();
    assert!(
        error.to_string().contains("running in another process"),
        "{error}"
    );
    drop(held);
    bench.jobs().delete(&id).unwrap();
    assert_eq!(bench.jobs().ids().unwrap(), [""; 0]);
}

#[test]
fn cancellation_holds_until_it_is_withdrawn() {
    let bench = Bench::new();
    let job = bench.create(chain());
    assert!(!job.cancel().unwrap(), "nothing runs");
    assert!(!job.is_cancel_recorded());
    job.record_cancel().unwrap();
    assert_eq!(bench.run(&job), Ended::Cancelled);
    job.withdraw_cancel().unwrap();
    assert_eq!(bench.run(&job), Ended::Done);
}

#[test]
fn job_is_run_by_one_process_and_found_by_the_begin_of_its_id() {
    let bench = Bench::new();
    let job = bench.create(chain());
    let held = job.lock().unwrap();
    let error = bench.runner.run(&job, &mut |_| {}, &|| false).unwrap_err();
    assert!(
        error.to_string().contains("running in another process"),
        "{error}"
    );
    drop(held);
    let id = &job.info().id;
    assert_eq!(
        bench.jobs().open(&id[..id.len() - 1]).unwrap().info(),
        job.info()
    );
    for unknown in ["", "zzz", "../jobs", "."] {
        assert!(bench.jobs().open(unknown).is_err(), "{unknown}");
    }
}

#[test]
fn trajectory_has_the_attempt_that_a_crash_cut_off() {
    let started = |step: &str| LogRecord::Started {
        step: step.to_owned(),
        tool: "list".to_owned(),
        params: Map::new(),
        attempt: 1,
    };
    let records = [
        LogRecord::Opened,
        started("a"),
        LogRecord::Opened,
        started("a"),
    ];
    let lines = (0..).zip(records);
    let log: Vec<LogLine> = lines
        .map(|(at_ms, record)| LogLine { at_ms, record })
        .collect();
    let rewards = crate::plan::Rewards {
        success: 0.1,
        failure: -0.5,
    };
    let all = super::trajectory::transitions(&log, Some(rewards), None);
    assert_eq!(all.len(), 1);
    let cut_off = &all[0];
    assert_eq!(
        (cut_off.at_ms, cut_off.succeeded, cut_off.reward),
        (2, false, None)
    );
}

#[test]
fn trajectory_has_each_attempt_with_state_action_and_reward() {
    let bench = Bench::new();
    bench.fail("a", &[transient()]);
    let job = bench.create(chain());
    bench.run(&job);
    let rewards = crate::plan::Rewards {
        success: 0.1,
        failure: -0.5,
    };
    let log = job.log().unwrap();
    let all = super::trajectory::transitions(&log, Some(rewards), None);
    let of = |step: &str| -> Vec<_> {
        let some = all.iter().filter(|t| t.action.step == step);
        some.map(|t| (t.action.attempt, t.succeeded, t.reward.unwrap()))
            .collect()
    };
    assert_eq!(of("a"), [(1, false, -0.5), (2, true, 0.1)]);
    let b = all.iter().find(|t| t.action.step == "b").unwrap();
    assert!(b.state.done.contains(&"a".to_owned()));
    assert_eq!(b.action.params["text"], json!("${a.text}!"));
}

#[test]
fn trajectory_names_the_job_that_it_refines() {
    let bench = Bench::new();
    let earlier = "20261128-141502-kxq".to_owned();
    let from = Provenance {
        planned: Some(Planned {
            by: PlannedBy::Edited,
            request: String::new(),
            refinements: Vec::new(),
            refined_at_ms: Vec::new(),
            at_ms: 0,
            predecessor: Some(earlier.clone()),
            revisions: 0,
        }),
        ..Provenance::default()
    };
    let plan = bench.plan(chain());
    let job = bench.jobs().create_from(&plan, "", None, from).unwrap();
    bench.run(&job);
    let steps = job.trajectory(&job.log().unwrap()).transitions;
    assert!(!steps.is_empty());
    let of = |step: &Transition| step.state.predecessor.clone();
    assert!(steps.iter().all(|step| of(step).as_ref() == Some(&earlier)));
}

#[test]
fn trajectory_of_an_unreadable_plan_has_its_faults() {
    let bench = Bench::new();
    let job = bench.create(chain());
    bench.run(&job);
    let file = job.path().join(INFO);
    let mut info: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    info["plan"]["steps"] = json!("none");
    fs::write(&file, info.to_string()).unwrap();
    let job = bench.jobs().open(&job.info().id).unwrap();
    let found = job.trajectory(&job.log().unwrap());
    assert!(!found.transitions.is_empty());
    assert!(!found.faults.is_empty());
}

/// Plays a run: each start fails or succeeds as `outcomes` says, time passes as needed.
fn play(plan: &CheckedPlan, outcomes: &[u8], free: usize) -> (Ended, Vec<usize>) {
    let mut execution = Execution::new(plan);
    let mut now = Duration::ZERO;
    let mut running: Vec<usize> = Vec::new();
    let mut starts = Vec::new();
    let mut outcome = outcomes.iter().cycle();
    while execution.ended().is_none() {
        for start in execution.start(now, free - running.len()) {
            starts.push(start.step);
            running.push(start.step);
        }
        let Some(step) = running.pop() else {
            assert_eq!(execution.wakes_at(0), None);
            now = execution.wakes_at(free).unwrap();
            continue;
        };
        match outcome.next().unwrap() {
            0 => {
                let next = execution.failed(step, &permanent(), now);
                assert!(!matches!(next, AfterFailure::Again { .. }));
            }
            1 => {
                execution.failed(step, &transient(), now);
            }
            2 => {
                execution.failed(step, &ToolError::Cancelled, now);
            }
            _ => execution.succeeded(step),
        }
    }
    (execution.ended().unwrap(), starts)
}

proptest! {
    #[test]
    fn every_run_ends_and_starts_steps_after_what_they_need(
        edges in prop::collection::vec((0_usize..8, 0_usize..8), 0..16),
        outcomes in prop::collection::vec(0_u8..7, 1..20),
        free in 1_usize..4,
    ) {
        let bench = Bench::new();
        let steps: Vec<Value> = (0..8_usize).map(|n| {
            let needs = edges.iter().filter(|(a, b)| *a.max(b) == n && a != b);
            let needs: Vec<String> = needs.map(|(a, b)| format!("s{}", a.min(b))).collect();
            json!({"name": format!("s{n}"), "tool": "wait", "depends_on": needs})
        }).collect();
        let plan = bench.plan(json!(steps));
        let (ended, starts) = play(&plan, &outcomes, free);
        for (at, step) in starts.iter().enumerate() {
            for needed in plan.waits_for(*step) {
                prop_assert!(starts[..at].contains(&needed));
            }
            prop_assert!(starts.iter().filter(|other| *other == step).count() <= 3);
        }
        if outcomes.iter().all(|outcome| *outcome > 2) {
            prop_assert_eq!(ended, Ended::Done);
            prop_assert_eq!(starts.len(), 8);
        }
    }
}

#[test]
fn pictures_of_a_folder_become_an_album() {
    let dir = tempfile::tempdir().unwrap();
    let photos = dir.path().join("photos");
    fs::create_dir(&photos).unwrap();
    for (name, step) in [("fine.png", 2), ("coarse.png", 16)] {
        let picture = image::GrayImage::from_fn(128, 128, |x, y| {
            image::Luma([if (x / step + y / step) % 2 == 0 {
                60
            } else {
                190
            }])
        });
        picture.save(photos.join(name)).unwrap();
    }
    // Cut in the middle, and few bytes of too many pixels.
    for name in ["half.png", "half.jpg"] {
        let file = photos.join(name);
        let shades =
            image::GrayImage::from_fn(128, 128, |x, y| image::Luma([u8::try_from(x ^ y).unwrap()]));
        shades.save(&file).unwrap();
        let whole = fs::read(&file).unwrap();
        fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    }
    image::GrayImage::new(8_000, 7_000)
        .save(photos.join("bomb.png"))
        .unwrap();
    let tools = crate::tools::picture_tools();
    let plan = crate::planner::plan(
        &format!("the 1 best photos in {}", photos.display()),
        "2026-11-28T12:00:00".parse().unwrap(),
        &tools.names().unwrap_or_default(),
    );
    let plan = check(plan.unwrap(), &tools).unwrap();
    let jobs = Jobs::new(dir.path().join("jobs"));
    let out = dir.path().join("out");
    let job = jobs.create(&plan, "test", Some(&out)).unwrap();
    let ended = Runner::new(tools, jobs.clone())
        .run(&job, &mut |_| {}, &|| false)
        .unwrap();
    assert_eq!(ended, Ended::Done, "{:?}", job.log());
    assert!(Path::new(&out.join("album/index.html")).is_file());
    let log = serde_json::to_string(&job.log().unwrap()).unwrap();
    assert!(log.contains("3 can't be read"), "{log}");
    for (name, why) in [
        (
            "bomb.png",
            "a picture of 8000x7000 has more than 50000000 pixels",
        ),
        ("half.jpg", "the picture file ends early"),
        ("half.png", "the picture file ends early"),
    ] {
        assert!(log.contains(&format!("{name}: {why}")), "{log}");
    }
    // What others put beside its pictures stays.
    let mine = out.join("album/mine.jpg");
    fs::write(&mine, b"mine").unwrap();
    jobs.delete_with_outputs(&job).unwrap();
    assert!(mine.is_file());
    assert!(!out.join("album/index.html").exists());
    let left: Vec<_> = fs::read_dir(out.join("album")).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn pictures_without_scores_are_measured_where_they_are_needed() {
    let dir = tempfile::tempdir().unwrap();
    let photos = dir.path().join("photos");
    fs::create_dir(&photos).unwrap();
    let flat = image::GrayImage::from_pixel(64, 64, image::Luma([120]));
    let sharp = image::GrayImage::from_fn(64, 64, |x, y| {
        image::Luma([if (x / 8 + y / 8) % 2 == 0 { 40 } else { 210 }])
    });
    flat.save(photos.join("a.png")).unwrap();
    sharp.save(photos.join("b.png")).unwrap();
    let tools = crate::tools::picture_tools();
    let listed = "${list.pictures}";
    let plan = json!({"name": "x", "steps": [
        {"name": "list", "tool": "list_pictures", "params": {"folder": photos}},
        {"name": "known", "tool": "filter",
            "params": {"pictures": listed, "where": ["sharpness is known"]}},
        {"name": "best", "tool": "select_best",
            "params": {"from": listed, "count": 1, "by": "sharpness"}},
        {"name": "parts", "tool": "group", "params": {"pictures": listed, "by": "sharpness"}},
    ]});
    let plan = check(read(&plan).unwrap(), &tools).unwrap();
    let jobs = Jobs::new(dir.path().join("jobs"));
    let job = jobs.create(&plan, "test", None).unwrap();
    let runner = Runner::new(tools, jobs);
    let ended = runner.run(&job, &mut |_| {}, &|| false).unwrap();
    assert_eq!(ended, Ended::Done, "{:?}", job.log());
    assert_eq!(job.result("known").unwrap()["count"], 2);
    let best = job.result("best").unwrap();
    let file = best["pictures"][0]["file"].as_str().unwrap();
    assert!(file.ends_with("b.png"), "{file}");
    assert_eq!(
        job.result("parts").unwrap()["groups"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn job_without_a_picture_is_done_unless_a_model_may_revise_it() {
    let dir = tempfile::tempdir().unwrap();
    let tools = crate::tools::picture_tools();
    let request = format!("the 1 best photos in {}", dir.path().display());
    let now = "2026-11-28T12:00:00".parse().unwrap();
    let plan = crate::planner::plan(&request, now, &tools.names().unwrap_or_default()).unwrap();
    let plan = check(plan, &tools).unwrap();
    let jobs = Jobs::new(dir.path().join("jobs"));
    for (by, expected) in [
        (PlannedBy::Rules, Ended::Done),
        (PlannedBy::Model, Ended::Failed),
    ] {
        let planned = Planned {
            by,
            request: request.clone(),
            refinements: Vec::new(),
            refined_at_ms: Vec::new(),
            at_ms: 0,
            predecessor: None,
            revisions: 0,
        };
        let from = Provenance {
            planned: Some(planned),
            ..Provenance::default()
        };
        let job = jobs.create_from(&plan, "", None, from).unwrap();
        let runner = Runner::new(tools.clone(), jobs.clone());
        let ended = runner.run(&job, &mut |_| {}, &|| false).unwrap();
        assert_eq!(ended, expected, "{:?}", job.log());
        let log = serde_json::to_string(&job.log().unwrap()).unwrap();
        assert!(log.contains("no picture matched"), "{log}");
    }
}

#[test]
fn claimed_name_that_nothing_was_written_to_is_not_removed() {
    let bench = Bench::new();
    let out = bench.dir.path().join("out");
    let plan = bench.plan(chain());
    let job = bench.jobs().create(&plan, "", Some(&out)).unwrap();
    let lock = job.lock().unwrap();
    let (log, _) = job.begin(&lock).unwrap();
    let record = LogRecord::Claimed {
        step: "a".to_owned(),
        name: "a.txt".to_owned(),
    };
    log.append(record).unwrap();
    drop((lock, log));
    fs::write(out.join("a.txt"), "mine").unwrap();
    bench.jobs().delete_with_outputs(&job).unwrap();
    assert_eq!(fs::read_to_string(out.join("a.txt")).unwrap(), "mine");
    assert!(!out.join(".watchkeeper-job").exists());
}

#[test]
fn crash_in_creation_or_deletion_leaves_nothing_for_ever() {
    let bench = Bench::new();
    let root = bench.dir.path().join("jobs");
    let out = bench.dir.path().join("out");
    let plan = bench.plan(chain());
    let job = bench.jobs().create(&plan, "", Some(&out)).unwrap();
    // As if the machine had stopped before the marker was written.
    fs::remove_file(out.join(".watchkeeper-job")).unwrap();
    assert_eq!(bench.run(&job), Ended::Done);
    // As if it had stopped while the job was deleted.
    let deleted = root.join(format!(".deleted-{}", job.info().id));
    fs::rename(root.join(&job.info().id), &deleted).unwrap();
    assert_eq!(bench.jobs().ids().unwrap(), [""; 0]);
    bench.jobs().prune(&JobLimits::default(), 0).unwrap();
    assert!(!deleted.exists());
    // A refused folder leaves no job.
    bench.jobs().create(&plan, "", Some(&out)).unwrap_err();
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
}

#[test]
fn waiting_job_is_not_pruned() {
    let bench = Bench::new();
    let limits = JobLimits {
        max_jobs: 1,
        ..JobLimits::default()
    };
    let jobs: Vec<String> = (0..4)
        .map(|_| bench.create(chain()).info().id.clone())
        .collect();
    assert!(jobs.is_sorted(), "{jobs:?}");
    let waits = jobs[0].clone();
    let is_active = |id: &str| id == waits;
    let removed = bench.jobs().prune_idle(&limits, 0, &is_active).unwrap();
    assert_eq!(removed, [jobs[1].clone(), jobs[2].clone()]);
}

#[test]
fn running_job_keeps_its_files() {
    let bench = Bench::new();
    let out = bench.dir.path().join("out");
    let plan = bench.plan(chain());
    let job = bench.jobs().create(&plan, "", Some(&out)).unwrap();
    assert_eq!(bench.run(&job), Ended::Done);
    let run = job.lock().unwrap();
    let refused = bench.jobs().delete_with_outputs(&job).unwrap_err();
    assert!(matches!(refused, JobFolderError::Running(_)), "{refused}");
    assert!(out.join("a.txt").is_file());
    drop(run);
    bench.jobs().delete_with_outputs(&job).unwrap();
    assert!(!out.exists());
}

#[test]
fn damaged_jobs_count_and_are_pruned() {
    let bench = Bench::new();
    let jobs: Vec<_> = (0..4).map(|_| bench.create(chain())).collect();
    fs::write(jobs[0].path().join(INFO), "{").unwrap();
    fs::write(jobs[1].path().join(LOG), "{}\n").unwrap();
    let id = |at: usize| jobs[at].info().id.clone();
    for at in [2, 3] {
        jobs[at].end_unrun(Ended::Done).unwrap();
    }
    let limits = JobLimits {
        max_jobs: 2,
        ..JobLimits::default()
    };
    let removed = bench.jobs().prune(&limits, 0).unwrap();
    assert_eq!(removed.len(), 2, "{removed:?}");
    assert!(
        removed
            .iter()
            .all(|removed| [id(0), id(1)].contains(removed))
    );
    assert_eq!(bench.jobs().ids().unwrap(), [id(2), id(3)]);
}

#[test]
fn starts_count_from_the_last_finished_step() {
    let bench = Bench::new();
    let job = bench.create(chain());
    for _ in 0..3 {
        let (log, _) = job.begin(&job.lock().unwrap()).unwrap();
        log.append(LogRecord::Opened).unwrap();
    }
    assert_eq!(job.summary().unwrap().starts, 3);
    let (log, _) = job.begin(&job.lock().unwrap()).unwrap();
    let result = StepResult {
        sha256: String::new(),
        summary: String::new(),
        files: Vec::new(),
    };
    let step = "a".to_owned();
    log.append(LogRecord::Finished { step, result }).unwrap();
    log.append(LogRecord::Opened).unwrap();
    assert_eq!(job.summary().unwrap().starts, 1);
}

#[test]
fn revised_plan_keeps_done_steps_and_survives_a_restart() {
    let bench = Bench::new();
    bench.fail("b", &[permanent()]);
    let mut job = bench.create(chain());
    assert_eq!(bench.run(&job), Ended::Failed);
    bench.calls();
    let mut changed = chain();
    changed[0]["params"]["text"] = json!("other");
    let refused = job.revise(&bench.plan(changed), &bench.tools).unwrap_err();
    assert_eq!(refused.to_string(), "step a is done; leave it unchanged");
    let mut dropped = chain();
    dropped.as_array_mut().unwrap().remove(2);
    assert!(job.revise(&bench.plan(dropped), &bench.tools).is_err());
    let mut revised = chain();
    revised[1]["params"]["text"] = json!("instead of ${a.text}");
    job.revise(&bench.plan(revised), &bench.tools).unwrap();
    let again = bench.jobs().open(&job.info().id).unwrap();
    assert_eq!(again.info(), job.info());
    assert_eq!(bench.run(&again), Ended::Done);
    assert_eq!(bench.calls(), ["instead of hello you"]);
}
