//! Ranking and selection.

use std::cmp::Ordering;

use crate::picture::Picture;
use crate::scores::Trait;

/// What pictures are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Best first; pictures without scores last.
    Score(Trait),
    /// Latest first; pictures without time last.
    Newest,
    /// Earliest first; pictures without time last.
    Oldest,
    /// Most pixels first.
    Largest,
    /// Order of the paths.
    Name,
}

/// Ranks pictures; equals are ordered by path.
pub fn rank(pictures: &mut [Picture], order: Order) {
    pictures.sort_by(|a, b| compare(a, b, order).then_with(|| a.file.cmp(&b.file)));
}

fn compare(a: &Picture, b: &Picture, order: Order) -> Ordering {
    let known_first = |a: bool, b: bool| b.cmp(&a);
    match order {
        Order::Score(part) => {
            let score = |p: &Picture| p.scores.map(|scores| scores.get(part));
            let (a, b) = (score(a), score(b));
            known_first(a.is_some(), b.is_some())
                .then_with(|| b.unwrap_or(0.0).total_cmp(&a.unwrap_or(0.0)))
        }
        Order::Newest => {
            known_first(a.taken.is_some(), b.taken.is_some()).then_with(|| b.taken.cmp(&a.taken))
        }
        Order::Oldest => {
            known_first(a.taken.is_some(), b.taken.is_some()).then_with(|| a.taken.cmp(&b.taken))
        }
        Order::Largest => {
            let pixels = |p: &Picture| u64::from(p.width) * u64::from(p.height);
            pixels(b).cmp(&pixels(a))
        }
        Order::Name => Ordering::Equal,
    }
}
