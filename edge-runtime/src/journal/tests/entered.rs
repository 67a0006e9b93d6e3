//! Values that a person enters about an event.

use watchkeeper_contract::assessment::{AssessmentAnswer, ChainResult};
use watchkeeper_contract::review::NewAssessment;
use watchkeeper_contract::rule::DecideSpec;

use super::reviews::{channels, journal, of_chain, of_person, of_rule, stamp, waiting};
use super::*;

fn entering(fields: &[(&str, &str)]) -> NewAssessment {
    let mut new = of_person(AssessmentAnswer::Correct, None);
    let fields = fields.iter();
    new.assessment.fields = fields
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    new
}

/// A journal whose event 1 has a chain, the result of which names the field `plate`.
fn journal_with_chain(dir: &Path) -> Journal {
    let mut event = of_rule(Verdict::Escalate, Severity::Info);
    let spec: DecideSpec =
        serde_json::from_value(serde_json::json!({"chain": ["text", "vehicle", "person"]}))
            .unwrap();
    if let EventBody::Rule(rule) = &mut event.body {
        rule.decide = Some(Box::new(spec));
    }
    let journal = journal(dir);
    journal.append(vec![event]).unwrap();
    let left = of_chain(ChainResult::Unknown, Verdict::Review);
    journal.assess(EventSeq(1), left, &stamp()).unwrap();
    journal
}

#[test]
fn value_entered_by_a_person_is_a_link_and_settles_the_event() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal_with_chain(dir.path());
    let entered = entering(&[("plate", "AB123"), ("text", "AB 123")]);
    let given = journal.assess(EventSeq(1), entered.clone(), &stamp());
    let given = given.unwrap().event;
    let decision = &given.decision;
    assert_eq!(
        (decision.verdict, decision.confidence),
        (Verdict::Record, 1.0)
    );
    assert!(
        decision.reason.contains("plate = \"AB123\""),
        "{decision:?}"
    );
    let [link] = given.evidence.as_slice() else {
        panic!("{:?}", given.evidence);
    };
    assert_eq!((link.source.as_str(), link.confidence), ("person", 1.0));
    let data = serde_json::json!({"plate": "AB123", "text": "AB 123"});
    assert_eq!((&link.data, link.at), (&Some(data), Some(stamp().at)));
    assert!(channels(&given).is_empty(), "only an approval acts");
    assert_eq!(waiting(&journal), Vec::<u64>::new());
    drop(journal);

    let journal = self::journal(dir.path());
    let again = journal.assess(EventSeq(1), entered, &stamp()).unwrap();
    assert!(
        !again.is_new,
        "one record for the answer, over a restart too"
    );
    let other = journal.assess(EventSeq(1), entering(&[("plate", "AB124")]), &stamp());
    assert!(other.unwrap().is_new, "another value replaces it");
    let checked = journal.verify_after(EventSeq(0), 100).unwrap();
    assert!(checked.broken.is_none());
}

#[test]
fn entered_value_that_the_chain_does_not_read_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let journal = journal_with_chain(dir.path());
    let bare = of_rule(Verdict::Review, Severity::Info);
    let bare = journal.append(vec![bare]).unwrap()[0].seq;
    let refused = |seq, new| {
        let error = journal.assess(seq, new, &stamp()).unwrap_err();
        error.to_string()
    };
    let unknown = refused(EventSeq(1), entering(&[("owner", "Ada")]));
    assert!(unknown.ends_with("it reads text, plate"), "{unknown}");
    let unread = refused(EventSeq(1), entering(&[("code", "7")]));
    assert!(unread.contains("text, plate"), "{unread}");
    let chainless = refused(bare, entering(&[("plate", "AB123")]));
    assert!(chainless.contains("no chain has read"), "{chainless}");
    for value in ["", " ", "a\nb", "x".repeat(201).as_str()] {
        let wrong = refused(EventSeq(1), entering(&[("plate", value)]));
        assert!(wrong.starts_with("assessment.fields"), "{value:?}: {wrong}");
    }
    let mut both = entering(&[("plate", "AB123")]);
    both.assessment.label = Some("truck".to_owned());
    assert!(refused(EventSeq(1), both).contains("assessment.label"));
    let mut approved = entering(&[("plate", "AB123")]);
    approved.assessment.answer = AssessmentAnswer::Approve;
    assert!(refused(EventSeq(1), approved).contains("assessment.label"));
}
