//! The result of `watchkeeper events verify`: parts of the hash chain, and the gaps between them.
//!
//! - Fails only for a break: a record that does not follow, or a gap that nothing explains.
//! - Records that outlived deleted ones share a line with the gaps around them.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use watchkeeper_contract::event::{ChainGap, ChainPart, ChainReport, ChainStart, GapCause};
use watchkeeper_contract::id::EventSeq;

use super::exit::Failure;

/// The joined report of all pages that were verified.
#[derive(Debug)]
pub(super) struct HashChainSummary(pub(super) ChainReport);

/// Reason for missing numbers that retention deleted.
const DELETED: &str = "deleted by retention";

/// A part or a gap, in the order of numbers.
#[derive(Debug, Clone, Copy)]
enum Section<'a> {
    Part(&'a ChainPart),
    Gap(&'a ChainGap),
}

/// Records that outlived deleted ones, and the gaps around them.
#[derive(Debug, Clone, Copy)]
struct Thinned {
    first: EventSeq,
    last: EventSeq,
    records: u64,
}

impl HashChainSummary {
    fn last_checked(&self) -> EventSeq {
        self.0.next_after
    }

    /// The result as JSON.
    pub(super) fn object(&self, hash: Option<&str>) -> Value {
        json!({
            "type": "verified", "sound": self.failure().is_none(), "first": self.0.first,
            "last": self.last_checked(), "checked": self.0.checked, "hash": hash, "parts": self.0.parts,
            "gaps": self.0.gaps,
        })
    }

    /// The result as lines of text.
    pub(super) fn lines(&self, hash: Option<&str>) -> Vec<String> {
        let mut lines = Vec::new();
        let mut thinned: Option<Thinned> = None;
        let sections = self.sections();
        for (n, section) in sections.iter().enumerate() {
            let next = sections.get(n + 1);
            match (section, &mut thinned) {
                (Section::Gap(gap), Some(run)) if is_deleted(gap) => run.last = gap.last,
                (Section::Part(part), Some(run))
                    if part.broken.is_none()
                        && matches!(next, Some(Section::Gap(gap)) if is_deleted(gap)) =>
                {
                    run.last = part.last;
                    run.records += count(part.first, part.last);
                }
                (Section::Gap(gap), _) if is_deleted(gap) => {
                    lines.extend(thinned.take().map(describe_thinned));
                    thinned = Some(Thinned {
                        first: gap.first,
                        last: gap.last,
                        records: 0,
                    });
                }
                (section, _) => {
                    lines.extend(thinned.take().map(describe_thinned));
                    lines.push(describe(*section));
                }
            }
        }
        lines.extend(thinned.map(describe_thinned));
        match hash {
            Some(hash) => {
                lines.push(format!("{} hashes verified", self.0.checked));
                lines.push(format!("hash of event {}: {hash}", self.last_checked()));
            }
            None => lines.push("no events".to_owned()),
        }
        lines
    }

    /// The failure of the command, if the chain has a break.
    pub(super) fn failure(&self) -> Option<Failure> {
        if let Some(broken) = &self.0.broken {
            let sentence = format!(
                "event {}: hash mismatch; this event or the one before it was changed or removed",
                broken.seq
            );
            return Some(Failure::failed(sentence).with([
                format!("expected hash {}", broken.expected),
                format!("found hash    {}", broken.found),
            ]));
        }
        let mut gaps = self.0.gaps.iter();
        let gap = gaps.find(|gap| gap.cause == GapCause::Unexplained)?;
        let sentence = format!(
            "{} missing; nothing explains it",
            events(gap.first, gap.last)
        );
        Some(Failure::failed(sentence))
    }

    fn sections(&self) -> Vec<Section<'_>> {
        let parts = self
            .0
            .parts
            .iter()
            .map(|part| (part.first, Section::Part(part)));
        let gaps = self.0.gaps.iter().map(|gap| (gap.first, Section::Gap(gap)));
        let sorted: BTreeMap<_, _> = parts.chain(gaps).collect();
        sorted.into_values().collect()
    }
}

/// Returns whether a gap is what normal operation leaves.
fn is_deleted(gap: &ChainGap) -> bool {
    gap.cause == GapCause::Retention && gap.record.is_none()
}

fn count(first: EventSeq, last: EventSeq) -> u64 {
    last.0.saturating_sub(first.0).saturating_add(1)
}

fn events(first: EventSeq, last: EventSeq) -> String {
    if first == last {
        format!("event {first}")
    } else {
        format!("events {first} to {last}")
    }
}

fn describe(section: Section<'_>) -> String {
    match section {
        Section::Part(part) => describe_part(part),
        Section::Gap(gap) => format!("{}: {}", events(gap.first, gap.last), describe_gap(gap)),
    }
}

fn describe_part(part: &ChainPart) -> String {
    let events = events(part.first, part.last);
    match (&part.broken, part.start) {
        (Some(_), _) => format!(
            "{events}: BREAK before event {}; what follows is ok",
            part.first
        ),
        (None, ChainStart::Previous) => format!("{events}: ok"),
        (None, ChainStart::LossRecord) => {
            format!("{events}: ok, begins with a hash of the loss record")
        }
        (None, ChainStart::Unproven) => format!(
            "{events}: ok, but the content of event {} is unproven, because the event before it is missing",
            part.first
        ),
    }
}

fn describe_gap(gap: &ChainGap) -> String {
    let record = gap.record.map_or_else(
        || "a loss record that is not stored yet".to_owned(),
        |seq| format!("event {seq}"),
    );
    match (gap.cause, gap.record) {
        (GapCause::Lost, _) => format!("lost by damage, named by {record}"),
        (GapCause::AtMostLost, _) => format!(
            "at most these are lost by damage, named by {record}; which of the numbers were given is unknown"
        ),
        (GapCause::Retention, None) => DELETED.to_owned(),
        (GapCause::Retention, Some(_)) => {
            format!("{DELETED}; {record} reports how many of them are lost")
        }
        (GapCause::Unexplained, None) => "MISSING, nothing explains it".to_owned(),
        (GapCause::Unexplained, Some(_)) => {
            format!("MISSING, {record} reports it, nothing explains it")
        }
    }
}

fn describe_thinned(run: Thinned) -> String {
    let events = events(run.first, run.last);
    match run.records {
        0 => format!("{events}: {DELETED}"),
        1 => format!("{events}: 1 record ok, the others {DELETED}"),
        records => format!("{events}: {records} records ok, the others {DELETED}"),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;
    use crate::exit::Exit;

    fn part(first: u64, last: u64, start: ChainStart) -> ChainPart {
        ChainPart {
            first: EventSeq(first),
            last: EventSeq(last),
            start,
            broken: None,
        }
    }

    fn gap(first: u64, last: u64, cause: GapCause, record: Option<u64>) -> ChainGap {
        ChainGap {
            first: EventSeq(first),
            last: EventSeq(last),
            cause,
            record: record.map(EventSeq),
        }
    }

    fn summary(parts: Vec<ChainPart>, gaps: Vec<ChainGap>) -> HashChainSummary {
        HashChainSummary(ChainReport {
            first: EventSeq(1),
            last: EventSeq(40),
            checked: 29,
            next_after: EventSeq(40),
            broken: None,
            parts,
            gaps,
        })
    }

    #[test]
    fn every_part_and_gap_has_its_line() {
        let chain = summary(
            vec![
                part(3, 3, ChainStart::Unproven),
                part(6, 20, ChainStart::Unproven),
                part(24, 40, ChainStart::LossRecord),
            ],
            vec![
                gap(1, 2, GapCause::Retention, None),
                gap(4, 5, GapCause::Retention, None),
                gap(21, 23, GapCause::Lost, Some(30)),
            ],
        );
        let wanted = [
            "events 1 to 5: 1 record ok, the others deleted by retention",
            "events 6 to 20: ok, but the content of event 6 is unproven, because the event before it is missing",
            "events 21 to 23: lost by damage, named by event 30",
            "events 24 to 40: ok, begins with a hash of the loss record",
            "29 hashes verified",
            "hash of event 40: ab",
        ];
        assert_eq!(chain.lines(Some("ab")), wanted);
        assert_eq!(chain.failure(), None);
        let object = chain.object(Some("ab"));
        assert_eq!(object["sound"], true);
        assert_eq!(object["gaps"][2]["cause"], "lost");
        assert_eq!(object["parts"][2]["start"], "loss_record");
    }

    #[test]
    fn unexplained_gap_fails_the_command() {
        let chain = summary(
            vec![part(1, 20, ChainStart::Previous)],
            vec![gap(21, 40, GapCause::Unexplained, Some(7))],
        );
        let failure = chain.failure().unwrap();
        assert_eq!(failure.exit, Exit::Failed);
        assert_eq!(
            failure.sentence,
            "events 21 to 40 missing; nothing explains it"
        );
        assert_eq!(chain.object(None)["sound"], false);
        let lines = chain.lines(None);
        assert_eq!(lines[0], "events 1 to 20: ok");
        assert!(
            lines[1].contains("MISSING, event 7 reports it"),
            "{lines:?}"
        );
    }

    #[test]
    fn part_that_a_page_cut_is_one_part() {
        let mut chain = summary(vec![part(1, 40, ChainStart::Previous)], Vec::new());
        chain.0.join(ChainReport {
            first: EventSeq(1),
            last: EventSeq(60),
            checked: 20,
            next_after: EventSeq(60),
            broken: None,
            parts: vec![part(41, 60, ChainStart::Previous)],
            gaps: Vec::new(),
        });
        let lines = chain.lines(Some("ab"));
        assert_eq!(lines[0], "events 1 to 60: ok");
        assert_eq!(lines[1], "49 hashes verified");
    }
}
