//! Every fault, in a set-up (streamed, with tools) and in a second opinion (whole, without). The
//! answer comes or a sentence says why not. No call is returned twice, and every attempt is in the
//! ledger.

use std::time::Duration;

use serde_json::json;
use watchkeeper_llm::attempt_error::AttemptErrorKind;
use watchkeeper_llm::catalogue::Tier;
use watchkeeper_llm::conversation::AssistantPart;
use watchkeeper_llm::policy::RetryRules;
use watchkeeper_llm::{CallOptions, LlmError, Reply, StopReason};
use watchkeeper_scripted_model::{Fault, Step};

use crate::support::{Bench, Wire, ask, results, setup_talk, verdict_talk};

static SETUP: CallOptions = CallOptions::new(2_000);

fn verdict() -> CallOptions {
    CallOptions::new(500).whole()
}

/// The model looks at the dock.
fn look() -> Step {
    Step::calls(&[(
        "get_snapshot",
        json!({"camera": "dock", "note": "Tor 3 – größer"}),
    )])
}

fn failed(result: Result<Reply, LlmError>) -> (AttemptErrorKind, u32) {
    match result {
        Err(LlmError::Failed { error, attempts }) => (error.kind, attempts),
        other => panic!("not failed: {other:?}"),
    }
}

fn is_called_once(reply: &Reply) {
    let calls: Vec<_> = reply.calls().map(|call| call.name.as_str()).collect();
    assert_eq!(calls, ["get_snapshot"]);
}

/// A set-up and a second opinion that meet `faults` first: both get their answer in the end, from
/// requests with the same bytes.
async fn is_overcome(faults: &[Fault]) -> (Bench, Bench) {
    let steps = |last: Step| {
        faults
            .iter()
            .map(move |f| look().with(f.clone()))
            .chain([last])
    };
    let setup = Bench::new(steps(look())).await;
    let reply = ask(&mut setup.job(Tier::Large), &setup_talk(), &SETUP)
        .await
        .expect("a call");
    is_called_once(&reply);
    let steps = faults.iter().map(|f| Step::text("yes").with(f.clone()));
    let opinion = Bench::new(steps.chain([Step::text("yes")])).await;
    let reply = ask(&mut opinion.job(Tier::Small), &verdict_talk(), &verdict())
        .await
        .expect("an answer");
    assert_eq!(
        (reply.text().as_str(), &reply.stop),
        ("yes", &StopReason::End)
    );
    for bench in [&setup, &opinion] {
        let bodies: Vec<_> = bench
            .server
            .requests()
            .into_iter()
            .map(|r| r.body)
            .collect();
        assert_eq!(bodies.len(), faults.len() + 1);
        assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]));
        assert_eq!(bench.client.report().calls.len(), bodies.len());
        bench.check();
    }
    (setup, opinion)
}

#[tokio::test]
async fn rate_limit_waits_as_long_as_the_server_asks() {
    let retry_after = Some("7".to_owned());
    let (setup, opinion) = is_overcome(&[Fault::RateLimited { retry_after }]).await;
    for bench in [setup, opinion] {
        assert_eq!(bench.clock.pauses(), [Duration::from_millis(7_500)]);
    }
}

#[tokio::test]
async fn rate_limit_without_a_time_backs_off() {
    let limited = Fault::RateLimited { retry_after: None };
    let (setup, _) = is_overcome(&[limited.clone(), limited]).await;
    assert_eq!(
        setup.clock.pauses(),
        [Duration::from_millis(750), Duration::from_millis(1_500)]
    );
}

#[tokio::test]
async fn overloaded_provider_is_asked_four_times() {
    let overloaded = || Fault::Overloaded;
    is_overcome(&[overloaded(), overloaded(), overloaded()]).await;
    let bench = Bench::new((0..4).map(|_| Step::from(overloaded()))).await;
    let result = ask(&mut bench.job(Tier::Large), &setup_talk(), &SETUP).await;
    assert_eq!(failed(result), (AttemptErrorKind::Overloaded, 4));
    assert_eq!(
        bench.client.report().day.0,
        0,
        "a refused call costs nothing"
    );
    bench.check();
}

#[tokio::test]
async fn five_failures_suspend_the_provider() {
    let bench = Bench::new((0..5).map(|_| Step::from(Fault::Overloaded))).await;
    let talk = setup_talk();
    assert!(
        ask(&mut bench.job(Tier::Large), &talk, &SETUP)
            .await
            .is_err()
    );
    let result = ask(&mut bench.job(Tier::Large), &talk, &SETUP).await;
    let said = result.expect_err("suspended").to_string();
    assert!(
        said.contains("calls to it are suspended for 5 min more"),
        "{said}"
    );
    assert_eq!(bench.server.requests().len(), 5);
    bench.clock.pass(Duration::from_secs(300));
    bench.server.add([look()]);
    is_called_once(
        &ask(&mut bench.job(Tier::Large), &talk, &SETUP)
            .await
            .expect("again"),
    );
    bench.check();
}

#[tokio::test]
async fn each_provider_is_suspended_by_its_own_failures() {
    let second = Bench::on(Wire::Local, (0..5).map(|_| Step::from(Fault::Overloaded))).await;
    let first = Bench::new([look()]).await;
    let both = first.client.clone().with_second(second.client.clone());
    for _ in 0..2 {
        let asked = ask(&mut second.job(Tier::Large), &setup_talk(), &SETUP).await;
        assert!(asked.is_err());
    }
    let open: Vec<(&str, bool)> = both
        .providers()
        .map(|(name, open)| (name, open.is_some()))
        .collect();
    assert_eq!(open, [("claude", false), ("local", true)]);
    let reply = ask(&mut first.job(Tier::Large), &setup_talk(), &SETUP).await;
    is_called_once(&reply.expect("the first answers"));
}

#[tokio::test]
async fn connection_reset_after_the_headers_is_retried() {
    is_overcome(&[Fault::ResetAfterHeaders]).await;
}

#[tokio::test]
async fn stream_without_its_last_event_is_retried() {
    let bench = Bench::new([look().with(Fault::NoMessageStop), look()]).await;
    let mut again = 0;
    let talk = setup_talk();
    let mut job = bench.job(Tier::Large);
    let reply = job.ask(&talk, &SETUP, &mut |_, _| again += 1).await;
    is_called_once(&reply.expect("a call"));
    assert_eq!(again, 1);
    let report = bench.client.report();
    // A model that thinks may have used its whole budget of thinking, unread.
    let whole = u64::from(SETUP.max_output) * 10_000;
    assert!(
        report.calls[0].cost.0 > whole,
        "a broken attempt costs the highest: {:?}",
        report.calls[0].cost
    );
    bench.check();
}

#[tokio::test]
async fn silent_provider_times_out() {
    let stalls = [look().with(Fault::Stall), look().with(Fault::Stall)];
    let bench = Bench::with(crate::support::limits(), stalls, |settings| {
        settings.idle_timeout = Duration::from_millis(100);
        settings.retry = RetryRules {
            attempts: 2,
            ..RetryRules::default()
        };
    })
    .await;
    let result = ask(&mut bench.job(Tier::Large), &setup_talk(), &SETUP).await;
    assert_eq!(failed(result), (AttemptErrorKind::Silent, 2));
    bench.check();
}

#[tokio::test]
async fn error_within_a_call_s_input_gives_no_call() {
    let bench = Bench::new([look().with(Fault::ErrorInToolInput), look()]).await;
    let reply = ask(&mut bench.job(Tier::Large), &setup_talk(), &SETUP).await;
    is_called_once(&reply.expect("a call"));
    assert_eq!(bench.server.requests().len(), 2);
    bench.check();
}

#[tokio::test]
async fn invalid_arguments_are_asked_for_once_more() {
    let bad = || look().with(Fault::InvalidArguments);
    let bench = Bench::new([bad(), look()]).await;
    is_called_once(
        &ask(&mut bench.job(Tier::Large), &setup_talk(), &SETUP)
            .await
            .expect("a call"),
    );
    bench.check();
    let bench = Bench::new([bad(), bad()]).await;
    let result = ask(&mut bench.job(Tier::Large), &setup_talk(), &SETUP).await;
    assert_eq!(failed(result), (AttemptErrorKind::Malformed, 2));
    bench.check();
}

#[tokio::test]
async fn refusal_is_final_and_not_used() {
    let category = || "general_harms".to_owned();
    let refused = |step: Step| {
        step.with(Fault::Refusal {
            category: category(),
        })
    };
    let setup = Bench::new([refused(look())]).await;
    let result = ask(&mut setup.job(Tier::Large), &setup_talk(), &SETUP).await;
    assert_eq!(failed(result), (AttemptErrorKind::Refused, 1));
    let opinion = Bench::new([refused(Step::text("no"))]).await;
    let result = ask(&mut opinion.job(Tier::Small), &verdict_talk(), &verdict()).await;
    let said = result.expect_err("refused").to_string();
    assert!(said.contains("general_harms: It may do harm."), "{said}");
    setup.check();
    opinion.check();
}

#[tokio::test]
async fn truncated_call_gets_more_output_once() {
    let cut = || look().with(Fault::TruncatedCall);
    let bench = Bench::new([cut(), look()]).await;
    is_called_once(
        &ask(&mut bench.job(Tier::Large), &setup_talk(), &SETUP)
            .await
            .expect("a call"),
    );
    let room: Vec<_> = bench
        .server
        .requests()
        .iter()
        .map(|r| r.json()["max_tokens"].clone())
        .collect();
    assert_eq!(room, [json!(2_000), json!(4_000)]);
    bench.check();
    let bench = Bench::new([cut(), cut()]).await;
    let result = ask(&mut bench.job(Tier::Large), &setup_talk(), &SETUP).await;
    assert_eq!(failed(result), (AttemptErrorKind::TruncatedCall, 2));
    bench.check();
}

#[tokio::test]
async fn whole_call_at_the_output_limit_is_not_run() {
    let mut step = look();
    step.reply.stop = Some("max_tokens".to_owned());
    let bench = Bench::new([step, look()]).await;
    let reply = ask(&mut bench.job(Tier::Large), &setup_talk(), &verdict())
        .await
        .expect("a call");
    is_called_once(&reply);
    assert_eq!(bench.server.requests().len(), 2);
    bench.check();
}

#[tokio::test]
async fn unknown_events_are_skipped_and_sent_back() {
    let bench = Bench::new([
        look().thinking("hm").with(Fault::UnknownEvents),
        Step::text("done"),
    ])
    .await;
    let mut job = bench.job(Tier::Large);
    let mut talk = setup_talk();
    let reply = ask(&mut job, &talk, &SETUP).await.expect("a call");
    is_called_once(&reply);
    let thought = &reply.turn.parts[0];
    assert_eq!(thought, &AssistantPart::Thinking("hm".to_owned()));
    talk.push_turn(&reply.turn).expect("reply");
    talk.push_results(results(&talk, &["seen".into()]))
        .expect("results");
    assert_eq!(
        ask(&mut job, &talk, &SETUP).await.expect("an end").text(),
        "done"
    );
    let sent = bench.server.requests()[1].json();
    assert_eq!(
        sent["messages"][1]["content"][1],
        json!({"type": "future_block", "value": [1.5, "x"]})
    );
    bench.check();
}

#[tokio::test]
async fn unknown_stop_reason_counts_as_truncated() {
    let stopped = |mut step: Step| {
        step.reply.stop = Some("tired".to_owned());
        step
    };
    let bench = Bench::new([stopped(Step::text("half")), stopped(look()), look()]).await;
    let reply = ask(&mut bench.job(Tier::Small), &verdict_talk(), &SETUP)
        .await
        .expect("text");
    assert_eq!(reply.stop, StopReason::Other("tired".to_owned()));
    is_called_once(
        &ask(&mut bench.job(Tier::Large), &setup_talk(), &SETUP)
            .await
            .expect("a call"),
    );
    bench.check();
}

#[tokio::test]
async fn refusals_of_a_proxy_are_classified_by_status() {
    for (status, kind) in [
        (302, AttemptErrorKind::NotFound),
        (402, AttemptErrorKind::Billing),
        (403, AttemptErrorKind::Forbidden),
        (404, AttemptErrorKind::NotFound),
        (413, AttemptErrorKind::TooLarge),
        (418, AttemptErrorKind::BadRequest),
    ] {
        let fault = Fault::Status {
            status,
            content_type: "text/html".to_owned(),
            body: "<html>\n<h1>No</h1>".to_owned(),
        };
        let bench = Bench::new([Step::from(fault)]).await;
        let result = ask(&mut bench.job(Tier::Large), &setup_talk(), &SETUP).await;
        let error = result.as_ref().expect_err("refused");
        assert!(error.in_full().contains("<h1>No</h1>"), "{error:?}");
        assert!(!error.to_string().contains("<h1>"), "{error}");
        assert_eq!(failed(result), (kind, 1), "{status}");
        bench.check();
    }
}

#[tokio::test]
async fn login_page_is_not_an_answer() {
    let portal = Fault::Status {
        status: 200,
        content_type: "text/html".to_owned(),
        body: "<html>Welcome".to_owned(),
    };
    for ask_as in [SETUP.clone(), verdict()] {
        let bench = Bench::new([Step::from(portal.clone()), Step::from(portal.clone())]).await;
        let result = ask(&mut bench.job(Tier::Large), &setup_talk(), &ask_as).await;
        assert_eq!(failed(result).0, AttemptErrorKind::Malformed);
        bench.check();
    }
}

#[tokio::test]
async fn lost_network_costs_nothing_and_names_the_remedy() {
    let bench = Bench::new([]).await;
    let Bench {
        server,
        client,
        clock,
        ..
    } = bench;
    drop(server);
    // The socket closes when the server's task ends.
    tokio::task::yield_now().await;
    let mut job = client.start_job(watchkeeper_llm::JobSpec {
        name: "gone".to_owned(),
        class: watchkeeper_llm::budget::CallClass::Person,
        rule: None,
        tier: Tier::Small,
        detail: watchkeeper_llm::picture::Detail::Low,
        time: Duration::from_secs(120),
    });
    let said = ask(&mut job, &verdict_talk(), &verdict())
        .await
        .expect_err("gone")
        .to_string();
    assert!(
        said.contains("check the network, the proxy and the base URL"),
        "{said}"
    );
    assert_eq!(client.report().day.0, 0);
    assert_eq!(clock.pauses().len(), 3);
}

#[tokio::test]
async fn pause_longer_than_the_job_ends_it() {
    let retry_after = Some("121".to_owned());
    let bench = Bench::new([Step::from(Fault::RateLimited { retry_after })]).await;
    let result = ask(&mut bench.job(Tier::Large), &setup_talk(), &SETUP).await;
    let said = result.expect_err("too late").to_string();
    assert!(
        said.starts_with("the model gave no answer within the job's 120 s"),
        "{said}"
    );
    assert!(bench.clock.pauses().is_empty());
    bench.check();
}
