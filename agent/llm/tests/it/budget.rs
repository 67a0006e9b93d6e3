//! The budget, or a ledger that can't be written, stops calls before they are made.

use std::path::Path;
use std::time::Duration;

use watchkeeper_llm::budget::{Limits, Refusal};
use watchkeeper_llm::catalogue::Tier;
use watchkeeper_llm::client::Clock as _;
use watchkeeper_llm::ledger::Ledger;
use watchkeeper_llm::money::Money;
use watchkeeper_llm::picture::Detail;
use watchkeeper_llm::{CallOptions, LlmError};
use watchkeeper_scripted_model::{Fault, Step};

use crate::support::{Bench, ask, limits, setup_talk, verdict_talk};

static ASK: CallOptions = CallOptions::new(1_000);

#[tokio::test]
async fn cost_is_reported_usage_at_the_catalogue_s_price() {
    let mut step = Step::text("yes");
    step.reply.output_tokens = Some(600);
    let bench = Bench::new([step]).await;
    let mut job = bench.job(Tier::Small);
    let reply = ask(&mut job, &verdict_talk(), &ASK).await.expect("answer");
    assert_eq!(reply.usage.output, 600);
    let want = Money(reply.usage.input * 100 + 600 * 500);
    assert_eq!(job.spent(), (reply.usage, want));
    assert_eq!(bench.client.report().day, want);
    bench.check();
}

#[tokio::test]
async fn spent_day_refuses_calls_until_the_next_day() {
    // One call may cost up to $0.01 on the large model.
    let day = Money(15_000_000);
    let steps = (0..9).map(|_| {
        let mut step = Step::text("yes");
        step.reply.output_tokens = Some(1_000);
        step
    });
    let bench = Bench::with(
        Limits {
            day,
            soft_percent: 100,
            ..limits()
        },
        steps,
        |_| {},
    )
    .await;
    let mut job = bench.job(Tier::Large);
    ask(&mut job, &verdict_talk(), &ASK)
        .await
        .expect("the first");
    let refused = ask(&mut job, &verdict_talk(), &ASK).await;
    assert!(
        matches!(refused, Err(LlmError::Budget(Refusal::Money { .. }))),
        "{refused:?}"
    );
    assert_eq!(bench.server.requests().len(), 1);
    assert!(bench.client.report().day <= day);
    bench.clock.pass(Duration::from_secs(24 * 3600));
    ask(&mut bench.job(Tier::Large), &verdict_talk(), &ASK)
        .await
        .expect("a new day");
    bench.check();
}

#[tokio::test]
async fn budget_is_checked_before_every_attempt() {
    let limits = Limits {
        calls_per_hour: 2,
        ..limits()
    };
    let bench = Bench::with(
        limits,
        (0..4).map(|_| Step::from(Fault::Overloaded)),
        |_| {},
    )
    .await;
    let refused = ask(&mut bench.job(Tier::Large), &setup_talk(), &ASK).await;
    assert!(
        matches!(
            refused,
            Err(LlmError::Budget(Refusal::Calls { limit: 2, .. }))
        ),
        "{refused:?}"
    );
    assert_eq!(bench.server.requests().len(), 2);
    bench.check();
}

#[tokio::test]
async fn call_with_too_many_tokens_is_not_sent() {
    let limits = Limits {
        tokens_per_call: 1_000,
        ..limits()
    };
    let bench = Bench::with(limits, [Step::text("yes")], |_| {}).await;
    let refused = ask(&mut bench.job(Tier::Small), &verdict_talk(), &ASK).await;
    assert!(
        matches!(refused, Err(LlmError::Budget(Refusal::Tokens { .. }))),
        "{refused:?}"
    );
    ask(
        &mut bench.job(Tier::Small),
        &verdict_talk(),
        &CallOptions::new(500),
    )
    .await
    .expect("a small one");
    assert_eq!(bench.server.requests().len(), 1);
    bench.check();
}

#[tokio::test]
async fn job_above_the_soft_limit_gets_a_smaller_model() {
    let limits = Limits {
        soft_percent: 0,
        ..limits()
    };
    let bench = Bench::with(limits, [Step::text("yes")], |_| {}).await;
    let mut job = bench.job(Tier::Large);
    assert_eq!(job.detail(), Detail::Low);
    ask(&mut job, &verdict_talk(), &ASK).await.expect("answer");
    assert_eq!(
        bench.server.requests()[0].json()["model"],
        "claude-haiku-5-5"
    );
    bench.check();
}

#[tokio::test]
async fn unwritable_ledger_sends_nothing_and_keeps_a_paid_answer() {
    let bench = Bench::new([Step::text("yes")]).await;
    let mut job = bench.job(Tier::Small);
    bench.store.syncs.blow_at(1);
    let result = ask(&mut job, &verdict_talk(), &ASK).await;
    assert!(matches!(result, Err(LlmError::Ledger(_))), "{result:?}");
    assert_eq!(bench.server.requests().len(), 0);
    // Reserved, sent, answered; then the true cost can't be written.
    bench.store.syncs.repair();
    bench.store.writes.blow_at(2);
    let reply = ask(&mut job, &verdict_talk(), &ASK).await.expect("answer");
    assert_eq!(reply.text(), "yes");
    assert_eq!(bench.server.requests().len(), 1);
    let spent = bench.client.report().day;
    bench.store.writes.repair();
    let ledger = Ledger::open(bench.store.clone(), Path::new("/state"), limits()).expect("open");
    let stored = ledger.report(bench.clock.now(), bench.clock.wall()).day;
    assert!(stored > spent, "the disk keeps the highest cost");
}

#[tokio::test]
async fn dropped_attempt_counts_in_full() {
    let bench = Bench::new([Step::text("yes").with(Fault::Stall)]).await;
    let mut job = bench.job(Tier::Large);
    let talk = verdict_talk();
    {
        let asked = ask(&mut job, &talk, &ASK);
        tokio::pin!(asked);
        // Until the server has the request.
        while bench.server.requests().is_empty() {
            tokio::select! {
                _ = &mut asked => panic!("a stalled answer came"),
                () = tokio::time::sleep(Duration::from_millis(1)) => {}
            }
        }
    }
    let report = bench.client.report();
    assert!(report.day >= Money(10_000).times(1_000), "{:?}", report.day);
}
