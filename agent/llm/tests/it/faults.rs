//! Every fault of the real world, in a set-up (streamed, with tools) and in a second opinion (whole, without): the answer comes or a sentence says why not,
//! no call is given out twice, and every attempt is in the books.

use std::time::Duration;

use serde_json::json;
use watchkeeper_llm::catalogue::Tier;
use watchkeeper_llm::client::Progress;
use watchkeeper_llm::conversation::AssistantPart;
use watchkeeper_llm::fault::FaultKind;
use watchkeeper_llm::policy::RetryRules;
use watchkeeper_llm::{Ask, LlmError, Reply, Stop};
use watchkeeper_scripted_model::{Fault, Step};

use crate::support::{Bench, ask, results, setup_talk, verdict_talk};

static SETUP: Ask = Ask::new(2_000);

fn verdict() -> Ask {
    Ask::new(500).whole()
}

/// The model looks at the dock.
fn look() -> Step {
    Step::calls(&[(
        "get_snapshot",
        json!({"camera": "dock", "note": "Tor 3 – größer"}),
    )])
}

fn failed(result: Result<Reply, LlmError>) -> (FaultKind, u32) {
    match result {
        Err(LlmError::Failed { fault, attempts }) => (fault.kind, attempts),
        other => panic!("not failed: {other:?}"),
    }
}

fn is_called_once(reply: &Reply) {
    let calls: Vec<_> = reply.calls().map(|call| call.name.as_str()).collect();
    assert_eq!(calls, ["get_snapshot"]);
}

/// A set-up and a second opinion in which `faults` come first: both have their answer in the end, from requests that are the same to the byte.
async fn is_overcome(faults: &[Fault]) -> (Bench, Bench) {
    let steps = |last: Step| {
        faults
            .iter()
            .map(move |f| look().with(f.clone()))
            .chain([last])
    };
    let setup = Bench::new(steps(look())).await;
    let reply = ask(&mut setup.job(Tier::Medium), &setup_talk(), &SETUP)
        .await
        .expect("a call");
    is_called_once(&reply);
    let steps = faults.iter().map(|f| Step::text("yes").with(f.clone()));
    let opinion = Bench::new(steps.chain([Step::text("yes")])).await;
    let reply = ask(&mut opinion.job(Tier::Small), &verdict_talk(), &verdict())
        .await
        .expect("an answer");
    assert_eq!((reply.text().as_str(), &reply.stop), ("yes", &Stop::End));
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
async fn a_rate_limit_is_waited_for_as_long_as_the_server_says() {
    let retry_after = Some("7".to_owned());
    let (setup, opinion) = is_overcome(&[Fault::RateLimited { retry_after }]).await;
    for bench in [setup, opinion] {
        assert_eq!(bench.clock.pauses(), [Duration::from_millis(7_500)]);
    }
}

#[tokio::test]
async fn a_rate_limit_without_a_time_is_waited_for_longer_and_longer() {
    let limited = Fault::RateLimited { retry_after: None };
    let (setup, _) = is_overcome(&[limited.clone(), limited]).await;
    assert_eq!(
        setup.clock.pauses(),
        [Duration::from_millis(750), Duration::from_millis(1_500)]
    );
}

#[tokio::test]
async fn an_overloaded_provider_is_asked_four_times() {
    let overloaded = || Fault::Overloaded;
    is_overcome(&[overloaded(), overloaded(), overloaded()]).await;
    let bench = Bench::new((0..4).map(|_| Step::from(overloaded()))).await;
    let result = ask(&mut bench.job(Tier::Medium), &setup_talk(), &SETUP).await;
    assert_eq!(failed(result), (FaultKind::Overloaded, 4));
    assert_eq!(
        bench.client.report().day.0,
        0,
        "a refused call costs nothing"
    );
    bench.check();
}

#[tokio::test]
async fn after_five_failures_the_provider_is_left_alone_and_the_sixth_call_is_not_made() {
    let bench = Bench::new((0..5).map(|_| Step::from(Fault::Overloaded))).await;
    let talk = setup_talk();
    assert!(
        ask(&mut bench.job(Tier::Medium), &talk, &SETUP)
            .await
            .is_err()
    );
    let result = ask(&mut bench.job(Tier::Medium), &talk, &SETUP).await;
    let said = result.expect_err("resting").to_string();
    assert!(said.contains("left alone for 5 min more"), "{said}");
    assert_eq!(bench.server.requests().len(), 5);
    bench.clock.pass(Duration::from_secs(300));
    bench.server.add([look()]);
    is_called_once(
        &ask(&mut bench.job(Tier::Medium), &talk, &SETUP)
            .await
            .expect("again"),
    );
    bench.check();
}

#[tokio::test]
async fn a_connection_that_is_reset_after_the_headers_is_made_again() {
    is_overcome(&[Fault::ResetAfterHeaders]).await;
}

#[tokio::test]
async fn a_stream_without_its_last_event_is_no_answer() {
    let bench = Bench::new([look().with(Fault::NoMessageStop), look()]).await;
    let mut again = 0;
    let talk = setup_talk();
    let mut job = bench.job(Tier::Medium);
    let mut shown = |progress: Progress<'_>| {
        again += usize::from(matches!(progress, Progress::Again { .. }));
    };
    let reply = job.ask(&talk, &SETUP, &mut shown).await;
    is_called_once(&reply.expect("a call"));
    assert_eq!(again, 1);
    let report = bench.client.report();
    // A model that thinks may have thought all that it was allowed to, in front of nobody.
    let whole = u64::from(SETUP.max_output) * 10_000;
    assert!(
        report.calls[0].cost.0 > whole,
        "what broke in the middle is booked at its worst: {:?}",
        report.calls[0].cost
    );
    bench.check();
}

#[tokio::test]
async fn a_provider_that_falls_silent_is_given_up() {
    let stalls = [look().with(Fault::Stall), look().with(Fault::Stall)];
    let bench = Bench::with(crate::support::limits(), stalls, |settings| {
        settings.silence = Duration::from_millis(100);
        settings.retry = RetryRules {
            attempts: 2,
            ..RetryRules::default()
        };
    })
    .await;
    let result = ask(&mut bench.job(Tier::Medium), &setup_talk(), &SETUP).await;
    assert_eq!(failed(result), (FaultKind::Silent, 2));
    bench.check();
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_call_s_input_gives_no_call() {
    let bench = Bench::new([look().with(Fault::ErrorInToolInput), look()]).await;
    let reply = ask(&mut bench.job(Tier::Medium), &setup_talk(), &SETUP).await;
    is_called_once(&reply.expect("a call"));
    assert_eq!(bench.server.requests().len(), 2);
    bench.check();
}

#[tokio::test]
async fn arguments_that_are_no_json_are_asked_for_once_more() {
    let bad = || look().with(Fault::InvalidArguments);
    let bench = Bench::new([bad(), look()]).await;
    is_called_once(
        &ask(&mut bench.job(Tier::Medium), &setup_talk(), &SETUP)
            .await
            .expect("a call"),
    );
    bench.check();
    let bench = Bench::new([bad(), bad()]).await;
    let result = ask(&mut bench.job(Tier::Medium), &setup_talk(), &SETUP).await;
    assert_eq!(failed(result), (FaultKind::Malformed, 2));
    bench.check();
}

#[tokio::test]
async fn a_refusal_is_not_argued_with_and_nothing_of_it_is_used() {
    let category = || "general_harms".to_owned();
    let refused = |step: Step| {
        step.with(Fault::Refusal {
            category: category(),
        })
    };
    let setup = Bench::new([refused(look())]).await;
    let result = ask(&mut setup.job(Tier::Medium), &setup_talk(), &SETUP).await;
    assert_eq!(failed(result), (FaultKind::Refused, 1));
    let opinion = Bench::new([refused(Step::text("no"))]).await;
    let result = ask(&mut opinion.job(Tier::Small), &verdict_talk(), &verdict()).await;
    let said = result.expect_err("refused").to_string();
    assert!(said.contains("general_harms: It may do harm."), "{said}");
    setup.check();
    opinion.check();
}

#[tokio::test]
async fn a_call_that_is_cut_off_is_not_given_out_and_gets_more_room_once() {
    let cut = || look().with(Fault::TruncatedCall);
    let bench = Bench::new([cut(), look()]).await;
    is_called_once(
        &ask(&mut bench.job(Tier::Medium), &setup_talk(), &SETUP)
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
    let result = ask(&mut bench.job(Tier::Medium), &setup_talk(), &SETUP).await;
    assert_eq!(failed(result), (FaultKind::TruncatedCall, 2));
    bench.check();
}

#[tokio::test]
async fn a_whole_call_behind_which_the_limit_came_is_not_given_out_either() {
    let mut step = look();
    step.reply.stop = Some("max_tokens".to_owned());
    let bench = Bench::new([step, look()]).await;
    let reply = ask(&mut bench.job(Tier::Medium), &setup_talk(), &verdict())
        .await
        .expect("a call");
    is_called_once(&reply);
    assert_eq!(bench.server.requests().len(), 2);
    bench.check();
}

#[tokio::test]
async fn what_nobody_knows_yet_is_passed_over_and_still_sent_back() {
    let bench = Bench::new([
        look().thinking("hm").with(Fault::UnknownEvents),
        Step::text("done"),
    ])
    .await;
    let mut job = bench.job(Tier::Medium);
    let mut talk = setup_talk();
    let reply = ask(&mut job, &talk, &SETUP).await.expect("a call");
    is_called_once(&reply);
    let thought = &reply.turn.parts[0];
    assert_eq!(thought, &AssistantPart::Thinking("hm".to_owned()));
    talk.hear(&reply).expect("hear");
    talk.answer(results(&talk, &["seen".into()]))
        .expect("answer");
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
async fn an_unknown_reason_to_stop_is_taken_for_a_cut() {
    let stopped = |mut step: Step| {
        step.reply.stop = Some("tired".to_owned());
        step
    };
    let bench = Bench::new([stopped(Step::text("half")), stopped(look()), look()]).await;
    let reply = ask(&mut bench.job(Tier::Small), &verdict_talk(), &SETUP)
        .await
        .expect("text");
    assert_eq!(reply.stop, Stop::Other("tired".to_owned()));
    is_called_once(
        &ask(&mut bench.job(Tier::Medium), &setup_talk(), &SETUP)
            .await
            .expect("a call"),
    );
    bench.check();
}

#[tokio::test]
async fn refusals_of_a_proxy_are_told_apart_by_their_status() {
    for (status, kind) in [
        (302, FaultKind::NotFound),
        (402, FaultKind::Billing),
        (403, FaultKind::Forbidden),
        (404, FaultKind::NotFound),
        (413, FaultKind::TooLarge),
        (418, FaultKind::BadRequest),
    ] {
        let fault = Fault::Status {
            status,
            content_type: "text/html".to_owned(),
            body: "<html>\n<h1>No</h1>".to_owned(),
        };
        let bench = Bench::new([Step::from(fault)]).await;
        let result = ask(&mut bench.job(Tier::Medium), &setup_talk(), &SETUP).await;
        let said = result.as_ref().expect_err("refused").to_string();
        assert!(said.contains("<h1>No</h1>"), "{said}");
        assert_eq!(failed(result), (kind, 1), "{status}");
        bench.check();
    }
}

#[tokio::test]
async fn the_login_page_of_a_hotel_is_no_answer() {
    let portal = Fault::Status {
        status: 200,
        content_type: "text/html".to_owned(),
        body: "<html>Welcome".to_owned(),
    };
    for ask_as in [SETUP.clone(), verdict()] {
        let bench = Bench::new([Step::from(portal.clone()), Step::from(portal.clone())]).await;
        let result = ask(&mut bench.job(Tier::Medium), &setup_talk(), &ask_as).await;
        assert_eq!(failed(result).0, FaultKind::Malformed);
        bench.check();
    }
}

#[tokio::test]
async fn a_network_that_is_gone_costs_nothing_and_says_what_to_check() {
    let bench = Bench::new([]).await;
    let Bench {
        server,
        client,
        clock,
        ..
    } = bench;
    drop(server);
    // The socket closes when the server's task is gone.
    tokio::task::yield_now().await;
    let mut job = client.begin(watchkeeper_llm::JobSpec {
        name: "gone".to_owned(),
        tier: Tier::Small,
        detail: watchkeeper_llm::picture::Detail::Glance,
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
async fn a_pause_that_lasts_longer_than_the_job_ends_it_at_once() {
    let retry_after = Some("121".to_owned());
    let bench = Bench::new([Step::from(Fault::RateLimited { retry_after })]).await;
    let result = ask(&mut bench.job(Tier::Medium), &setup_talk(), &SETUP).await;
    let said = result.expect_err("too late").to_string();
    assert!(
        said.starts_with("the model gave no answer within the 120 s that the job has"),
        "{said}"
    );
    assert!(bench.clock.pauses().is_empty());
    bench.check();
}
