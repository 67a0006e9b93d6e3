//! Fixes the class of each track.

use std::collections::BTreeMap;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::per_video::{FRAME, PerVideo};

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/track_class_lock@v1",
    summary: "Fixes the class of each track by votes, so that single frames cannot change it.",
    properties: &[
        FRAME,
        Property::data("detections", ANY_DETECTIONS).about("tracked detections"),
        Property::count("min_votes", 10).about("votes that decide"),
        Property::share("vote_confidence", 0.8).about("minimum score of a vote"),
        Property::value_or("lead_margin", Shape::at_least(0), Or::Int(3))
            .about("lead in votes that fixes a class"),
        Property::count("switch_after", 15)
            .about("votes in a row for another class that change the fixed one"),
        Property::value_or("state_ttl", Shape::Integer(1, MAX_COUNT), Or::Int(300))
            .about("frames without sighting after which a track is dropped"),
        Property::value_or("reattach_window", Shape::at_least(0), Or::Int(30))
            .about("frames within which a new track may continue a lost one"),
        Property::share("reattach_iou", 0.3)
            .about("minimum overlap of a new track with the lost one"),
    ],
    outputs: &[Output::new("tracked_detections", ANY_DETECTIONS)],
    build,
    ..Manifest::of("transformation")
}];

/// Maximum number of votes, and of frames without sighting.
const MAX_COUNT: i64 = 1_000_000;
/// Maximum number of tracks per video.
const MAX_TRACKS: usize = 4096;
/// Maximum number of classes per track.
const MAX_CLASSES: usize = 256;

#[derive(Debug, Clone, Copy)]
struct Settings {
    min_votes: i64,
    vote_confidence: f64,
    lead_margin: i64,
    switch_after: i64,
    state_ttl: i64,
    reattach_window: i64,
    reattach_iou: f64,
}

impl Settings {
    fn from_call(call: &Call<'_>) -> Result<Self, String> {
        let state_ttl = call.bounded_integer(arg!("state_ttl"))?;
        Ok(Self {
            min_votes: call.integer_in(arg!("min_votes"), 1..=MAX_COUNT)?,
            vote_confidence: call.bounded(arg!("vote_confidence"))?,
            lead_margin: call.integer_in(arg!("lead_margin"), 0..=MAX_COUNT)?,
            switch_after: call.integer_in(arg!("switch_after"), 1..=MAX_COUNT)?,
            state_ttl,
            reattach_window: call.integer_in(arg!("reattach_window"), 0..=state_ttl)?,
            reattach_iou: call.bounded(arg!("reattach_iou"))?,
        })
    }
}

fn build(setup: &Setup<'_>) -> Result<Box<dyn Instance>, String> {
    let number = |name: &str| setup.literals.get(name).and_then(serde_json::Value::as_i64);
    if let (Some(window), Some(ttl)) = (number("reattach_window"), number("state_ttl"))
        && window > ttl
    {
        return Err(format!(
            "reattach_window is {window} and has to be at most state_ttl, which is {ttl}"
        ));
    }
    Ok(stateful(run))
}

#[derive(Default, Serialize, Deserialize)]
struct Tracks {
    frame: i64,
    by_id: BTreeMap<i64, Voting>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Voting {
    /// In the order of their first vote.
    votes: Vec<Tally>,
    decided: Option<Tally>,
    challenger: Option<Tally>,
    last_seen: i64,
    last_box: BBox,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Tally {
    class: Arc<str>,
    class_id: i64,
    votes: i64,
    scores: f64,
}

impl Tally {
    fn first(d: &Detection) -> Self {
        Self {
            class: Arc::clone(&d.class),
            class_id: d.class_id,
            votes: 1,
            scores: d.confidence,
        }
    }

    fn add(&mut self, d: &Detection) {
        self.votes += 1;
        self.scores += d.confidence;
    }

    fn confidence(&self) -> f64 {
        let votes = Value::Int(self.votes.max(1)).as_f64().unwrap_or(1.0);
        (self.scores / votes).min(1.0)
    }
}

impl Voting {
    /// Adds a sighting of the track.
    fn vote(&mut self, d: &Detection, settings: &Settings) {
        let counts = d.confidence >= settings.vote_confidence;
        let Some(decided) = &self.decided else {
            if counts {
                let known = self.votes.iter_mut().find(|t| t.class == d.class);
                if let Some(tally) = known {
                    tally.add(d);
                    tally.class_id = d.class_id;
                } else if self.votes.len() < MAX_CLASSES {
                    self.votes.push(Tally::first(d));
                }
            }
            // Of equal ones the first leads.
            let best = self.votes.iter().rev().max_by_key(|t| t.votes);
            if let Some(best) = best.filter(|t| t.votes >= settings.min_votes) {
                let others = self.votes.iter().filter(|t| t.class != best.class);
                let runner_up = others.map(|t| t.votes).max().unwrap_or(0);
                if best.votes - runner_up >= settings.lead_margin {
                    self.decided = Some(best.clone());
                }
            }
            return;
        };
        if !counts || decided.class == d.class {
            self.challenger = None;
            return;
        }
        match &mut self.challenger {
            Some(tally) if tally.class == d.class => tally.add(d),
            other => *other = Some(Tally::first(d)),
        }
        if self
            .challenger
            .as_ref()
            .is_some_and(|t| t.votes >= settings.switch_after)
        {
            self.decided = self.challenger.take();
        }
    }
}

fn run(videos: &mut PerVideo<Tracks>, call: &mut Call<'_>) -> Result<(), String> {
    let settings = Settings::from_call(call)?;
    let all = call.tracked(arg!("detections"))?;
    let video = &call.video(arg!("image"))?.video_identifier;
    let tracks = videos.get(video, || Ok(Tracks::default()))?;
    tracks.frame += 1;
    let here: Vec<i64> = all.boxes.iter().filter_map(|d| Some(d.track?.0)).collect();
    let mut lost = tracks.lost(&here, settings.reattach_window);
    let mut out = Detections::clone(all);
    for d in &mut out.boxes {
        let Some(id) = d.track.map(|t| t.0).filter(|id| *id >= 0) else {
            continue;
        };
        if !tracks.by_id.contains_key(&id)
            && let Some(from) = nearest(&lost, &d.bbox, settings.reattach_iou)
            && let Some(taken) = tracks.by_id.remove(&lost.remove(from).0)
        {
            tracks.by_id.insert(id, taken);
        }
        let frame = tracks.frame;
        let voting = tracks.by_id.entry(id).or_default();
        (voting.last_seen, voting.last_box) = (frame, d.bbox);
        voting.vote(d, &settings);
        if let Some(decided) = &voting.decided {
            d.class = Arc::clone(&decided.class);
            d.class_id = decided.class_id;
            d.confidence = decided.confidence();
        }
    }
    tracks.forget(settings.state_ttl);
    call.finish(out)
}

impl Tracks {
    /// Decided tracks that are absent and were seen recently, with their position.
    fn lost(&self, here: &[i64], window: i64) -> Vec<(i64, BBox)> {
        let each = self.by_id.iter();
        let is_lost = |id: &i64, v: &Voting| {
            let gap = self.frame - v.last_seen;
            v.decided.is_some() && (1..=window).contains(&gap) && !here.contains(id)
        };
        each.filter(|(id, v)| is_lost(id, v))
            .map(|(id, v)| (*id, v.last_box))
            .collect()
    }

    fn forget(&mut self, ttl: i64) {
        let frame = self.frame;
        self.by_id.retain(|_, v| frame - v.last_seen <= ttl);
        while self.by_id.len() > MAX_TRACKS {
            let oldest = self
                .by_id
                .iter()
                .min_by_key(|(_, v)| v.last_seen)
                .map(|(id, _)| *id);
            if let Some(oldest) = oldest {
                self.by_id.remove(&oldest);
            }
        }
    }
}

/// Index of the lost track that overlaps a box most, by at least `least`.
fn nearest(lost: &[(i64, BBox)], b: &BBox, least: f64) -> Option<usize> {
    let overlaps = lost.iter().map(|(_, last)| last.iou(b)).enumerate();
    let good = overlaps.filter(|(_, overlap)| *overlap >= least && *overlap > 0.0);
    good.rev()
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(i, _)| i)
}
