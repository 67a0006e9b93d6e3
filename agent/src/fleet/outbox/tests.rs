//! Single properties of the outbox, each in a few steps.

use std::time::Instant;

use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::rule::Severity;

use super::sim::draft;
use super::*;

fn publish_ids(outbox: &mut Outbox) -> Vec<(u64, bool)> {
    std::iter::from_fn(|| outbox.poll())
        .filter_map(|o| match o {
            Output::Publish { id, late, .. } => Some((id.0, late)),
            Output::Persist(_) | Output::LinkStuck { .. } => None,
        })
        .collect()
}

fn stored(outbox: &mut Outbox, now: Instant) {
    while let Some(output) = outbox.poll() {
        if let Output::Persist(change) = output {
            outbox.handle(
                now,
                Input::Stored {
                    batch: change.batch,
                },
            );
        }
    }
}

fn record(seq: u64) -> Input {
    Input::Record {
        seq: EventSeq(seq),
        draft: draft(Class::Event, Severity::Info, Some(seq), 4),
    }
}

#[test]
fn nothing_is_published_while_the_disk_is_busy() {
    let now = Instant::now();
    let mut outbox = Outbox::new(Limits::default(), Restored::default());
    outbox.handle(now, Input::LinkUp { session: 1 });
    outbox.handle(now, record(1));
    let Some(Output::Persist(change)) = outbox.poll() else {
        panic!("persist first");
    };
    assert_eq!(outbox.poll(), None);
    outbox.handle(
        now,
        Input::Stored {
            batch: change.batch,
        },
    );
    assert_eq!(publish_ids(&mut outbox), [(0, false)]);
}

#[test]
fn only_entries_that_waited_for_the_link_are_late() {
    let now = Instant::now();
    let mut outbox = Outbox::new(Limits::default(), Restored::default());
    outbox.handle(now, record(1));
    stored(&mut outbox, now);
    outbox.handle(now, Input::LinkUp { session: 1 });
    assert_eq!(publish_ids(&mut outbox), [(0, true)]);
    outbox.handle(now, record(2));
    let Some(Output::Persist(change)) = outbox.poll() else {
        panic!("persist first");
    };
    outbox.handle(
        now,
        Input::Stored {
            batch: change.batch,
        },
    );
    assert_eq!(publish_ids(&mut outbox), [(1, false)]);
}

#[test]
fn new_session_repeats_unacknowledged_entries() {
    let now = Instant::now();
    let mut outbox = Outbox::new(Limits::default(), Restored::default());
    outbox.handle(now, record(1));
    outbox.handle(now, record(2));
    stored(&mut outbox, now);
    outbox.handle(now, Input::LinkUp { session: 1 });
    assert_eq!(publish_ids(&mut outbox).len(), 2);
    outbox.handle(
        now,
        Input::Acked {
            session: 1,
            id: OutboxId(0),
        },
    );
    outbox.handle(now, Input::LinkDown);
    outbox.handle(now, Input::LinkUp { session: 2 });
    assert_eq!(publish_ids(&mut outbox), [(1, true)]);
    outbox.handle(
        now,
        Input::Acked {
            session: 1,
            id: OutboxId(1),
        },
    );
    assert_eq!(
        outbox.stats().in_flight,
        1,
        "an acknowledgement of an ended session has no effect"
    );
}

#[test]
fn full_outbox_drops_the_least_severe_and_records_it() {
    let now = Instant::now();
    let mut outbox = Outbox::new(
        Limits {
            events: ClassLimits {
                entries: 2,
                bytes: 1 << 20,
            },
            ..Limits::default()
        },
        Restored::default(),
    );
    for (seq, severity) in [
        (1, Severity::Warning),
        (2, Severity::Info),
        (3, Severity::Warning),
    ] {
        let draft = draft(Class::Event, severity, Some(seq), 4);
        outbox.handle(
            now,
            Input::Record {
                seq: EventSeq(seq),
                draft,
            },
        );
        stored(&mut outbox, now);
    }
    outbox.handle(now, Input::LinkUp { session: 1 });
    let ids: Vec<u64> = publish_ids(&mut outbox)
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    assert_eq!(ids, [3, 0, 2], "the loss record is assured and goes first");
    let loss = outbox.loss(OutboxId(3)).expect("a loss");
    assert_eq!((loss.count, loss.ranges.as_slice()), (1, &[[2, 2]][..]));
    assert_eq!(outbox.unreported_drops(), 1);
    let (session, id) = (1, OutboxId(3));
    outbox.handle(now, Input::Acked { session, id });
    assert_eq!(outbox.unreported_drops(), 0, "the broker knows");
    assert_eq!(outbox.stats().events.dropped, 1);
}

#[test]
fn gap_in_the_journal_becomes_a_loss_record() {
    let now = Instant::now();
    let mut outbox = Outbox::new(Limits::default(), Restored::default());
    outbox.handle(now, record(5));
    outbox.handle(now, record(9));
    let loss = outbox.losses.values().next().expect("a loss");
    assert_eq!((loss.count, loss.ranges.as_slice()), (3, &[[6, 8]][..]));
}

#[test]
fn record_processed_before_is_ignored() {
    let now = Instant::now();
    let mut outbox = Outbox::new(Limits::default(), Restored::default());
    outbox.handle(now, record(5));
    outbox.handle(now, record(5));
    outbox.handle(now, record(4));
    assert_eq!(outbox.stats().events.entries, 1);
}

#[test]
fn missing_acknowledgement_is_reported_once_a_session() {
    let now = Instant::now();
    let mut outbox = Outbox::new(Limits::default(), Restored::default());
    outbox.handle(now, record(1));
    stored(&mut outbox, now);
    outbox.handle(now, Input::LinkUp { session: 1 });
    publish_ids(&mut outbox);
    let deadline = outbox.deadline().expect("waits for an acknowledgement");
    outbox.handle(deadline, Input::Tick);
    assert_eq!(outbox.poll(), Some(Output::LinkStuck { session: 1 }));
    outbox.handle(deadline, Input::Tick);
    assert_eq!(outbox.poll(), None);
}
