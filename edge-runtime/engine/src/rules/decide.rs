//! Turns evidence into a decision: compares its weighted mean with the confidence gates.
//!
//! `confidence = Σ weight · confidence / Σ weight`. The highest gate reached decides: act 0.90,
//! record 0.85, review 0.70, escalate 0.50 by default. Below the last gate the event is discarded
//! and counted.
//!
//! - The confidence is in `0.0..=1.0`; without evidence it is 0.

use watchkeeper_contract::event::{Decision, Verdict, confidence_text, gate_text};
use watchkeeper_contract::review::Calibration;
use watchkeeper_contract::rule::{Gates, Severity};

use super::calibration;
use super::evidence::{EvidenceItem, round};

/// Returns the weighted mean confidence of a chain.
pub fn confidence(chain: &[EvidenceItem]) -> f64 {
    let weight: f64 = chain.iter().map(EvidenceItem::weight).sum();
    if weight > 0.0 {
        let sum: f64 = chain.iter().map(|l| l.weight() * l.confidence()).sum();
        round((sum / weight).clamp(0.0, 1.0))
    } else {
        0.0
    }
}

pub fn verdict(confidence: f64, gates: &Gates) -> Verdict {
    match confidence {
        c if c >= gates.act => Verdict::Act,
        c if c >= gates.record => Verdict::Record,
        c if c >= gates.review => Verdict::Review,
        c if c >= gates.escalate => Verdict::Escalate,
        _ => Verdict::Discard,
    }
}

/// Returns the gate that decides about a verdict.
fn gate(verdict: Verdict, gates: &Gates) -> f64 {
    match verdict {
        Verdict::Act => gates.act,
        Verdict::Record => gates.record,
        Verdict::Review => gates.review,
        Verdict::Escalate | Verdict::Discard => gates.escalate,
    }
}

/// Returns the decision and its reason.
pub fn decide(chain: &[EvidenceItem], gates: &Gates) -> Decision {
    let confidence = confidence(chain);
    let verdict = verdict(confidence, gates);
    let (word, gate) = (verdict.name(), gate(verdict, gates));
    let by = |a: &&EvidenceItem, b: &&EvidenceItem| a.confidence().total_cmp(&b.confidence());
    let weighed = chain.iter().filter(|item| item.weight() > 0.0);
    let ends = weighed.clone().min_by(by).zip(weighed.max_by(by));
    let ends = ends.map_or_else(
        || "; there is no evidence".to_owned(),
        |(weakest, strongest)| {
            format!(
                "; strongest {} {:.2}, weakest {} {:.2}",
                strongest.name(),
                strongest.confidence(),
                weakest.name(),
                weakest.confidence()
            )
        },
    );
    Decision {
        verdict,
        confidence,
        raw_confidence: None,
        reason: format!("{word}: {}{ends}", gate_text(confidence, gate)),
        asks: None,
    }
}

/// Decides by the calibrated confidence what follows from an event. Whether there is an event the
/// evidence alone decides, because people answer about events only. The verdict of a critical rule
/// is at least that of the evidence.
pub fn calibrate(
    decision: Decision,
    gates: &Gates,
    severity: Severity,
    calibration: &Calibration,
) -> Decision {
    if decision.verdict == Verdict::Discard {
        return decision;
    }
    let raw = decision.confidence;
    let confidence = calibration::apply(calibration, raw);
    let by_answers = verdict(confidence, gates);
    let verdict = by_answers.max(match severity {
        Severity::Critical => decision.verdict,
        Severity::Info | Severity::Warning => Verdict::Escalate,
    });
    let word = verdict.name();
    let kept = match severity {
        Severity::Critical if by_answers < verdict => ", which never lower a critical rule",
        _ => "",
    };
    let answers = u64::from(calibration.approved) + u64::from(calibration.rejected);
    Decision {
        verdict,
        confidence,
        raw_confidence: Some(raw),
        reason: format!(
            "{word}: {} after {answers} answers of people{kept}; by evidence alone {}",
            confidence_text(confidence),
            decision.reason
        ),
        asks: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::evidence::{of_count, of_value};

    fn by_answers(offset: f64) -> Calibration {
        Calibration {
            approved: 5,
            rejected: 20,
            slope: 1.0,
            offset,
        }
    }

    #[test]
    fn confidence_equal_to_a_gate_passes_it() {
        let g = Gates::default();
        for (c, v) in [
            (1.0, Verdict::Act),
            (0.90, Verdict::Act),
            (0.8999, Verdict::Record),
            (0.85, Verdict::Record),
            (0.70, Verdict::Review),
            (0.50, Verdict::Escalate),
            (0.4999, Verdict::Discard),
            (f64::NAN, Verdict::Discard),
        ] {
            assert_eq!(verdict(c, &g), v, "{c}");
        }
    }

    #[test]
    fn empty_chain_has_confidence_zero() {
        let d = decide(&[], &Gates::default());
        assert_eq!((d.verdict, d.confidence), (Verdict::Discard, 0.0));
    }

    #[test]
    fn calibration_changes_verdicts_and_keeps_all_events() {
        let gates = Gates::default();
        let with = |offset: f64| {
            let calibration = by_answers(offset);
            let raw = decide(&of_count(&[0.5; 3], 1.0, 5.0), &gates);
            let info = Severity::Info;
            (raw.clone(), calibrate(raw, &gates, info, &calibration))
        };
        let (raw, lowered) = with(-9.0);
        assert_eq!(raw.verdict, Verdict::Record, "{raw:?}");
        assert_eq!(lowered.verdict, Verdict::Escalate);
        assert_eq!(lowered.raw_confidence, Some(raw.confidence));
        assert!(lowered.confidence < 0.01, "{lowered:?}");
        assert!(
            lowered
                .reason
                .starts_with("escalate: 0.00 after 25 answers"),
            "{}",
            lowered.reason
        );
        let (_, raised) = with(9.0);
        assert_eq!(raised.verdict, Verdict::Act);
        let discarded = decide(&[], &gates);
        for severity in [Severity::Info, Severity::Critical] {
            let same = calibrate(discarded.clone(), &gates, severity, &by_answers(9.0));
            assert_eq!(same, discarded);
        }
    }

    #[test]
    fn calibration_never_lowers_a_critical_rule_but_may_raise_it() {
        let gates = Gates::default();
        let raw = decide(&of_count(&[0.5; 3], 1.0, 5.0), &gates);
        let with = |offset| calibrate(raw.clone(), &gates, Severity::Critical, &by_answers(offset));
        assert_eq!(raw.verdict, Verdict::Record, "{raw:?}");
        let kept = with(-9.0);
        assert_eq!(kept.verdict, Verdict::Record);
        assert_eq!(kept.raw_confidence, Some(raw.confidence));
        let reason = "record: 0.00 after 25 answers of people, which never lower a critical rule;";
        assert!(kept.reason.starts_with(reason), "{}", kept.reason);
        assert_eq!(with(9.0).verdict, Verdict::Act);
    }

    #[test]
    fn reason_names_gate_strongest_and_weakest_evidence() {
        let d = decide(&of_value(None, 10.0), &Gates::default());
        assert_eq!(
            d.reason,
            "act: 1.00 is at or above the gate of 0.90; strongest workflow_value 1.00, weakest persistence 1.00"
        );
        let d = decide(&of_count(&[0.04; 2], 1.0, 0.0), &Gates::default());
        assert!(
            d.reason.contains("weakest persistence 0.00"),
            "{}",
            d.reason
        );
    }
}
