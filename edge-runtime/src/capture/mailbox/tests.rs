//! Frames under load and at the end of a source.

use super::*;
use crate::capture::feed::testing::frame;

const SOON: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(20);

#[test]
fn unsubscribed_receiver_blocks_no_one_and_leaves_once() {
    let hub = Arc::new(Hub::default());
    let (stuck, other) = (hub.subscribe(), hub.subscribe());
    let unsubscriber = stuck.unsubscriber();
    for seq in 1..=QUEUE_SIZE as u64 {
        hub.deliver(&frame(seq), Policy::Lossless, 0);
        assert!(matches!(other.recv(SOON), Recv::Frame(_)));
    }
    std::thread::scope(|scope| {
        // Waits for `stuck`, which takes nothing, until it is unsubscribed.
        scope.spawn(|| hub.deliver(&frame(9), Policy::Lossless, 0));
        unsubscriber.unsubscribe();
    });
    assert_eq!(seq(other.recv(SOON)), Some(9));
    assert!(matches!(stuck.recv(LONG), Recv::Closed));
    drop(stuck);
    assert_eq!(hub.demand().departures, 0, "one subscriber is left");
    drop(other);
    assert_eq!(hub.demand().departures, 1);
}

fn seq(recv: Recv) -> Option<u64> {
    match recv {
        Recv::Frame(frame) => Some(frame.id.seq),
        _ => None,
    }
}

#[test]
fn untaken_live_frame_is_overwritten_and_counted() {
    let hub = Arc::new(Hub::default());
    let (slow, quick) = (hub.subscribe(), hub.subscribe());
    assert_eq!(hub.deliver(&frame(1), Policy::Newest, 0), 0);
    assert_eq!(seq(quick.recv(SOON)), Some(1));
    assert_eq!(hub.deliver(&frame(2), Policy::Newest, 0), 1);
    assert_eq!(seq(slow.recv(SOON)), Some(2));
    assert_eq!(seq(quick.recv(SOON)), Some(2));
    assert!(matches!(slow.recv(SOON), Recv::Timeout));
    let late = hub.subscribe();
    hub.deliver(&frame(9), Policy::Newest, 0);
    assert_eq!([slow.offered(), quick.offered(), late.offered()], [3, 3, 1]);
}

#[test]
fn recording_waits_for_its_slowest_subscriber() {
    let hub = Arc::new(Hub::default());
    let receivers = [hub.subscribe(), hub.subscribe()];
    let source = std::thread::spawn({
        let hub = hub.clone();
        move || {
            for n in 1..=50 {
                hub.deliver(&frame(n), Policy::Lossless, 0);
            }
            hub.finish(Outcome::Ended, 0);
        }
    });
    let readers = receivers.map(|receiver| {
        std::thread::spawn(move || {
            let mut seen = Vec::new();
            while let Some(n) = seq(receiver.recv(LONG)) {
                seen.push(n);
            }
            (seen, matches!(receiver.recv(SOON), Recv::Ended))
        })
    });
    for reader in readers {
        let (seen, ended) = reader.join().expect("reader lives");
        assert_eq!(seen, (1..=50).collect::<Vec<_>>());
        assert!(ended);
    }
    source.join().expect("source lives");
}

#[test]
fn dropping_a_stuck_receiver_frees_the_source() {
    let hub = Arc::new(Hub::default());
    let stuck = hub.subscribe();
    let source = std::thread::spawn({
        let hub = hub.clone();
        move || {
            for n in 1..=10 {
                hub.deliver(&frame(n), Policy::Lossless, 0);
            }
        }
    });
    drop(stuck);
    source.join().expect("source is free");
}

#[test]
fn closing_frees_a_waiting_source_and_subscriber() {
    let hub = Arc::new(Hub::default());
    let receiver = hub.subscribe();
    let source = std::thread::spawn({
        let hub = hub.clone();
        move || {
            for n in 1..=10 {
                hub.deliver(&frame(n), Policy::Lossless, 0);
            }
        }
    });
    hub.close();
    source.join().expect("source is free");
    while seq(receiver.recv(LONG)).is_some() {}
    assert!(matches!(receiver.recv(LONG), Recv::Closed));
}

#[test]
fn new_subscription_starts_without_the_old_outcome() {
    let hub = Arc::new(Hub::default());
    let first = hub.subscribe();
    let before = hub.demand();
    hub.finish(Outcome::Ended, before.departures);
    assert!(matches!(first.recv(SOON), Recv::Ended));
    drop(first);
    let second = hub.subscribe();
    assert!(matches!(second.recv(SOON), Recv::Timeout));
    assert_ne!(hub.demand(), before);
}

#[test]
fn late_end_does_not_reach_the_next_subscriber() {
    let hub = Arc::new(Hub::default());
    let first = hub.subscribe();
    let opened_for = hub.demand().departures;
    drop(first);
    hub.finish(Outcome::Ended, opened_for);
    let second = hub.subscribe();
    hub.finish(Outcome::Ended, opened_for);
    assert!(matches!(second.recv(SOON), Recv::Timeout));
    hub.finish(Outcome::Ended, hub.demand().departures);
    assert!(matches!(second.recv(SOON), Recv::Ended));
}

#[test]
fn late_frame_does_not_reach_the_next_subscriber() {
    for policy in [Policy::Newest, Policy::Lossless] {
        let hub = Arc::new(Hub::default());
        let first = hub.subscribe();
        let opened_for = hub.demand().departures;
        drop(first);
        let second = hub.subscribe();
        hub.deliver(&frame(7), policy, opened_for);
        assert!(matches!(second.recv(SOON), Recv::Timeout), "{policy:?}");
        hub.deliver(&frame(8), policy, hub.demand().departures);
        assert_eq!(seq(second.recv(LONG)), Some(8));
    }
}

#[test]
fn subscriber_of_a_dead_source_gets_its_error() {
    let hub = Arc::new(Hub::default());
    let first = hub.subscribe();
    hub.give_up(Outcome::Failed {
        cause: LossCause::Other,
        message: "gone".to_owned(),
    });
    assert!(matches!(first.recv(LONG), Recv::Failed { .. }));
    drop(first);
    assert!(matches!(hub.subscribe().recv(LONG), Recv::Failed { .. }));
}
