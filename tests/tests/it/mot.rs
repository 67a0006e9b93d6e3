//! Trackers on tracking sequences with ground truth.
//!
//! Needs the folder of footage; without it, each test says so and passes.

use std::collections::BTreeMap;

use watchkeeper_tests::daemons::data;
use watchkeeper_tests::mot::files::{Sequence, read_truth};
use watchkeeper_tests::mot::follow::{Setting, run_tracker};
use watchkeeper_tests::mot::score::{Figures, Score, score};

/// Computes the figures by group; `None` without sequences.
fn figures(setting: Setting) -> anyhow::Result<Option<BTreeMap<String, Figures>>> {
    let Some(data) = data("tracking sequences") else {
        return Ok(None);
    };
    let folder = data.join("mot");
    let mut groups: BTreeMap<String, Score> = BTreeMap::new();
    for sequence in Sequence::read_all(&folder)? {
        let sequence = sequence?;
        let truth = read_truth(&folder.join(&sequence.name), sequence.info.frames)?;
        let tracked = run_tracker(&sequence, setting).tracked;
        let group = groups.entry(sequence.info.set.clone()).or_default();
        group.add(&score(&sequence.info.set, &truth, &tracked));
    }
    Ok(Some(
        groups
            .iter()
            .map(|(g, s)| (g.clone(), s.figures()))
            .collect(),
    ))
}

/// Scores by TrackEval of supervision 0.30.9 on these sequences: HOTA, MOTA, IDF1, switches.
const PEER: [(Setting, &str, [f64; 3], u64); 6] = [
    (Setting::ByteTrack, "MOT15", [33.0, 26.7, 42.1], 423),
    (Setting::ByteTrack, "MOT17", [50.2, 59.7, 59.8], 273),
    (
        Setting::ByteTrack,
        "KITTI-tracking-train",
        [87.1, 94.3, 95.3],
        82,
    ),
    (Setting::ByteTrackHigh, "MOT15", [33.3, 28.9, 43.5], 342),
    (Setting::ByteTrackHigh, "MOT17", [52.5, 64.0, 64.7], 136),
    (
        Setting::ByteTrackHigh,
        "KITTI-tracking-train",
        [85.5, 92.6, 94.1],
        69,
    ),
];

#[test]
fn our_byte_track_scores_what_the_peer_scores() -> anyhow::Result<()> {
    for setting in [Setting::ByteTrack, Setting::ByteTrackHigh] {
        let Some(found) = figures(setting)? else {
            return Ok(());
        };
        for (_, group, wanted, switches) in PEER.iter().filter(|row| row.0 == setting) {
            let f = found.get(*group).copied();
            let f = f.ok_or_else(|| anyhow::anyhow!("no group {group}"))?;
            for (found, wanted) in [f.hota, f.mota, f.idf1].iter().zip(wanted) {
                // The table has one decimal.
                assert!(
                    (found - wanted).abs() < 0.06,
                    "{group}: {f:?}, not {wanted:?}"
                );
            }
            assert_eq!(f.switches, *switches, "{group}");
        }
    }
    Ok(())
}

/// The best HOTA and the best IDF1 of a group of trackers, by TrackEval. The group has
/// supervision's ByteTrack (both activations), OC-SORT, C-BIoU and BoT-SORT of `trackers` 2.6.1,
/// and norfair 2.1.1.
const BEST_PEER: [(&str, f64, f64); 3] = [
    ("MOT15", 34.3, 45.5),
    ("MOT17", 52.5, 64.7),
    ("KITTI-tracking-train", 87.1, 95.3),
];

/// Points by which ours is above the best.
const MARGIN: f64 = 0.5;

#[test]
fn our_tracker_is_above_every_peer_in_each_group() -> anyhow::Result<()> {
    let Some(found) = figures(Setting::Default)? else {
        return Ok(());
    };
    for (group, hota, idf1) in BEST_PEER {
        let f = found.get(group).copied();
        let f = f.ok_or_else(|| anyhow::anyhow!("no group {group}"))?;
        let is_above = f.hota >= hota + MARGIN && f.idf1 >= idf1 + MARGIN;
        assert!(is_above, "{group}: {f:?}");
    }
    Ok(())
}
