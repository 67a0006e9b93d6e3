//! Ranking and selection.

use std::cmp::Ordering;
use std::collections::VecDeque;

use jiff::tz::TimeZone;

use crate::picture::Picture;
use crate::scores::Trait;

/// Criterion by which pictures are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Best first; pictures without scores last.
    Score(Trait),
    /// Least first; pictures without scores last.
    Least(Trait),
    /// Latest first; pictures without time last.
    Newest,
    /// Earliest first; pictures without time last.
    Oldest,
    /// Most pixels first.
    Largest,
    /// Fewest pixels first.
    Smallest,
    /// Most columns of pixels first.
    Widest,
    /// Most rows of pixels first.
    Tallest,
    /// Most bytes of the file first; files that are gone last.
    MostBytes,
    /// Fewest bytes of the file first; files that are gone last.
    FewestBytes,
    /// The earliest, the latest, the next after the earliest and so on; those without time last.
    Ends,
    /// Order of the paths.
    Name,
}

/// Ranks pictures; equals are ordered by path. Local times without an instant are those of `zone`.
pub fn rank(pictures: &mut [Picture], order: Order, zone: &TimeZone) {
    pictures.sort_by(|a, b| compare(a, b, order, zone).then_with(|| a.file.cmp(&b.file)));
    if order == Order::Ends {
        let timed = pictures.iter().filter(|one| one.instant(zone).is_some());
        let mut rest: VecDeque<Picture> = timed.cloned().collect();
        for (place, slot) in pictures.iter_mut().enumerate() {
            let is_early = place % 2 == 0;
            let next = if is_early {
                rest.pop_front()
            } else {
                rest.pop_back()
            };
            let Some(next) = next else { break };
            *slot = next;
        }
    }
}

/// Compares two pictures; the one that comes first is less.
pub fn compare(a: &Picture, b: &Picture, order: Order, zone: &TimeZone) -> Ordering {
    let known_first = |a: bool, b: bool| b.cmp(&a);
    match order {
        Order::Score(part) | Order::Least(part) => {
            let score = |p: &Picture| p.scores.and_then(|scores| scores.get(part));
            let (a, b) = (score(a), score(b));
            let most_first = b.unwrap_or(0.0).total_cmp(&a.unwrap_or(0.0));
            known_first(a.is_some(), b.is_some()).then(match order {
                Order::Score(_) => most_first,
                _ => most_first.reverse(),
            })
        }
        Order::Newest | Order::Oldest | Order::Ends => {
            let (a, b) = (a.instant(zone), b.instant(zone));
            let earliest = a.cmp(&b);
            known_first(a.is_some(), b.is_some()).then(match order {
                Order::Newest => earliest.reverse(),
                _ => earliest,
            })
        }
        Order::Largest | Order::Smallest => {
            let pixels = |p: &Picture| u64::from(p.width) * u64::from(p.height);
            match order {
                Order::Largest => pixels(b).cmp(&pixels(a)),
                _ => pixels(a).cmp(&pixels(b)),
            }
        }
        Order::Widest => b.width.cmp(&a.width),
        Order::Tallest => b.height.cmp(&a.height),
        Order::MostBytes | Order::FewestBytes => {
            let (a, b) = (a.file_bytes(), b.file_bytes());
            known_first(a.is_some(), b.is_some()).then(match order {
                Order::MostBytes => b.cmp(&a),
                _ => a.cmp(&b),
            })
        }
        Order::Name => Ordering::Equal,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::picture::testing::picture;

    #[test]
    fn order_is_one_of_instants_where_an_hour_comes_twice() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let event = |at: &str, taken: &str| Picture {
            at: Some(at.parse::<Timestamp>().unwrap()),
            ..picture(at, Some(taken))
        };
        let (first, second) = ("2026-10-25T00:30:00Z", "2026-10-25T01:10:00Z");
        let mut pictures = [
            picture("a", None),
            event(second, "2026-10-25T02:10:00"),
            // A camera's local time is taken for the first pass.
            picture("local", Some("2026-10-25T02:40:00")),
            event(first, "2026-10-25T02:30:00"),
        ];
        for (order, expected) in [
            (Order::Oldest, [first, "local", second, "a"]),
            (Order::Newest, [second, "local", first, "a"]),
        ] {
            rank(&mut pictures, order, &zone);
            let files = pictures.iter().map(|picture| picture.file.as_str());
            assert!(files.eq(expected), "{order:?}");
        }
    }
}
