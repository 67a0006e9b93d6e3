//! Events that a follower of one message reads.

use serde_json::json;
use tokio::sync::Semaphore;

use super::*;
use crate::api::feed::END;

/// A follower of this turn only.
fn reads(feed: &Arc<Feed>, turn: u64) -> Follower {
    let places = Arc::new(Semaphore::new(1));
    Follower {
        advances: feed.subscribe(),
        over: watch::channel(false).1,
        closing: watch::channel(false).1,
        feed: Arc::clone(feed),
        after: feed.last(),
        turn: Some(turn),
        is_over: false,
        page: VecDeque::new(),
        _place: places.try_acquire_owned().unwrap(),
    }
}

fn turn(feed: &Feed, turn: u64, notes: usize) {
    feed.begin(turn);
    for _ in 0..notes {
        feed.push(json!({"type": "note"}));
    }
    feed.push(json!({"type": END}));
}

async fn read_all(mut follower: Follower) -> Vec<(u64, bool)> {
    let mut entries = Vec::new();
    while let Some(entry) = follower.next().await {
        entries.push((entry.turn, entry.is_end));
    }
    entries
}

#[tokio::test]
async fn stream_of_a_message_ends_with_its_last_event() {
    let feed = Arc::new(Feed::default());
    turn(&feed, 1, 1);
    let follower = reads(&feed, 2);
    turn(&feed, 2, 2);
    turn(&feed, 3, 1);
    assert_eq!(
        read_all(follower).await,
        [(2, false), (2, false), (2, true)]
    );
}

#[tokio::test]
async fn slow_follower_gets_no_event_of_later_messages() {
    let feed = Arc::new(Feed::default());
    let mut follower = reads(&feed, 1);
    turn(&feed, 1, FOLLOW_PAGE);
    assert!(follower.next().await.is_some());
    turn(&feed, 2, MAX_EVENTS);
    // Only the page that it already read, and no later event.
    let rest = vec![(1, false); FOLLOW_PAGE - 1];
    assert_eq!(read_all(follower).await, rest);
}
