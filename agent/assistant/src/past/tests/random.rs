//! Random days, compared minute by minute with what happened.

use proptest::prelude::*;
use watchkeeper_contract::rule::Schedule;

use super::*;

const MINUTE_MS: i64 = 60_000;
/// Minutes of a random day.
const MINUTES: i64 = 240;
const START: &str = "Wed 06:00";
const CLASSES: [&str; 3] = ["person", "car", "dog"];

/// A pipeline during one interruption-free time.
#[derive(Debug, Clone)]
struct Watching {
    from: i64,
    to: i64,
    /// Bit mask of the classes that its detector distinguishes; 0: none.
    classes: usize,
    /// Whether its rule is awake only in the second hour.
    second_hour: bool,
    /// Whether the clock of the box was wrong meanwhile.
    is_undated: bool,
}

impl Watching {
    fn names(&self) -> Vec<String> {
        let set = CLASSES
            .iter()
            .enumerate()
            .filter(|(n, _)| self.classes >> n & 1 == 1);
        set.map(|(_, name)| (*name).to_owned()).collect()
    }

    fn is_awake(&self, minute: i64) -> bool {
        (self.from..self.to).contains(&minute) && (!self.second_hour || (60..120).contains(&minute))
    }

    fn span(&self) -> CoverageSpan {
        let when = |minute: i64| Wall {
            unix_ms: at(START).as_millisecond() + minute * MINUTE_MS,
            quality: if self.is_undated {
                TimeQuality::Unsynced
            } else {
                TimeQuality::Synced
            },
        };
        let schedule = self.second_hour.then(|| Schedule {
            days: Vec::new(),
            from: "07:00".to_owned(),
            to: "08:00".to_owned(),
        });
        CoverageSpan {
            from: when(self.from),
            to: when(self.to),
            frames: 100,
            end: SpanEnd::Stopped,
            watch: Watched {
                source: SourceId::new("yard").unwrap(),
                pipeline: "p".parse().unwrap(),
                renames_classes: false,
                rules: vec![WatchedRule {
                    schedule,
                    detectors: vec![WatchedDetector {
                        model: "m".to_owned(),
                        classes: self.names(),
                    }],
                    ..rule("appears", None)
                }],
            },
        }
    }
}

fn watching() -> impl Strategy<Value = Watching> {
    (
        0..MINUTES,
        1..120_i64,
        0..8_usize,
        any::<bool>(),
        proptest::bool::weighted(0.1),
    )
        .prop_map(
            |(from, length, classes, second_hour, is_undated)| Watching {
                from,
                to: (from + length).min(MINUTES),
                classes,
                second_hour,
                is_undated,
            },
        )
}

proptest! {
    /// An object is recorded only while a watch watches for it. An answer is "no" only if nobody
    /// came, and it is "no" wherever watching had no gap.
    #[test]
    fn no_is_said_exactly_where_it_is_known(
        days in proptest::collection::vec(watching(), 0..6),
        visits in proptest::collection::vec((0..MINUTES, 0..3_usize), 0..8),
        asked in 0..3_usize,
        (from, length) in (0..MINUTES, 1..90_i64),
        forgotten in proptest::option::weighted(0.2, 0..MINUTES),
    ) {
        let to = (from + length).min(MINUTES);
        let moment = |minute: i64| Timestamp::from_millisecond(at(START).as_millisecond() + minute * MINUTE_MS).unwrap();
        let told = |minute: i64, class: usize| {
            forgotten.is_none_or(|until| minute >= until)
                && days.iter().any(|d| !d.is_undated && d.is_awake(minute) && d.classes >> class & 1 == 1)
        };
        let mut visits = visits;
        visits.sort_unstable();
        let recorded = visits.iter().filter(|(minute, class)| told(*minute, *class));
        let recorded = recorded.zip(1..).map(|((minute, class), seq)| {
            let JournalRecord::Known(mut known) = event(seq, START, ("yard", "p"), "appears", CLASSES[*class]) else {
                panic!("an event is known");
            };
            known.at.unix_ms = moment(*minute).as_millisecond();
            JournalRecord::Known(known)
        });
        let recorded: Vec<JournalRecord> = recorded.collect();
        let report = CoverageReport {
            from_ms: 0,
            to_ms: moment(MINUTES).as_millisecond(),
            source: None,
            events_waiting: 0,
            events_waiting_since_ms: None,
            at: wall(moment(MINUTES)),
            spans: days.iter().map(Watching::span).collect(),
            spans_since_ms: None,
            events_since_ms: forgotten.map(|minute| moment(minute).as_millisecond()),
            head: None,
        };
        let wanted = EventsWanted {
            camera: Some(SourceId::new("yard").unwrap()),
            labels: vec![CLASSES[asked].to_owned()],
            from: Some(moment(from)),
            to: Some(moment(to)),
            ..EventsWanted::default()
        };
        let answer = answer_to(&wanted, &report, with_ends(recorded));
        let came = visits.iter().any(|(minute, class)| *class == asked && (from..to).contains(minute));
        let is_known = (from..to).all(|minute| told(minute, asked));
        let text = answer.sentence(&zone());
        prop_assert_eq!(answer.knowledge.is_whole(), is_known, "{}", text);
        prop_assert_eq!(answer.knowledge.is_none(), !(from..to).any(|minute| told(minute, asked)), "{}", text);
        prop_assert_eq!(text.starts_with("No event:"), is_known && !came, "{}", text);
        if answer.found.number > 0 {
            prop_assert!(came, "{}", text);
        }
        // Each moment is known or has its reason, and never both.
        let [camera] = answer.knowledge.cameras.as_slice() else { panic!("one camera") };
        let unknown: Intervals = camera.unknown.iter().map(|gap| (gap.from_ms, gap.to_ms)).collect();
        prop_assert!(unknown.intersection(&camera.known).is_empty());
        let range = Intervals::one(moment(from).as_millisecond(), moment(to).as_millisecond());
        prop_assert_eq!(unknown.union(&camera.known), range);
    }
}
