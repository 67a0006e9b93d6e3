//! Aggregates values over a time or a number of runs.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Map;

use super::super::uql::{Chain, DATA_OPERATIONS, apply_named};
use crate::workflow::block_api::prelude::*;
use crate::workflow::values::stored_value::StoredValue;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/data_aggregator@v1",
    summary: "Aggregates values over a time or a number of runs: sums, means, extremes, counts or \
              distinct values. An output is named after value and mode, such as cars_avg; in \
              between it is null.",
    properties: &[
        Property::value("data", Shape::Dict)
            .about("the values, by name")
            .of_selectors(),
        DATA_OPERATIONS,
        Property::literal(
            "aggregation_mode",
            Shape::Grammar(Grammar {
                what: "a dictionary of lists of modes",
                json: "object",
                check,
            }),
        )
        .about(
            "aggregations of each value: sum, avg, max, min, count, distinct, count_distinct, \
             values_counts or values_difference; max, min and values_difference ignore null",
        ),
        Property::literal_choice("interval_unit", &names_of(&UNITS), "seconds")
            .about("unit of the interval"),
        Property::literal("interval", Shape::at_least(1)).about("length of the interval"),
    ],
    outputs: &[Output::new("*", &[Kind::Any])],
    own_outputs: outputs,
    build,
    ..Manifest::of("analytics")
}];

/// Seconds of a unit; `None` for runs.
const UNITS: [(&str, Option<f64>); 4] = [
    ("seconds", Some(1.0)),
    ("minutes", Some(60.0)),
    ("hours", Some(3600.0)),
    ("runs", None),
];

const MODES: [&str; 9] = [
    "sum",
    "avg",
    "max",
    "min",
    "count",
    "distinct",
    "count_distinct",
    "values_counts",
    "values_difference",
];

type Modes = BTreeMap<String, Vec<String>>;

fn check(json: &Json) -> Result<(), String> {
    let modes = Modes::deserialize(json).map_err(|e| e.to_string())?;
    match modes
        .values()
        .flatten()
        .find(|mode| !MODES.contains(&mode.as_str()))
    {
        Some(wrong) => Err(format!("{wrong:?} is not one of {}", MODES.join(", "))),
        None => Ok(()),
    }
}

/// Name and mode of every output, in their order.
fn wanted(literals: &Map<String, Json>) -> Vec<(String, String)> {
    let modes = literals.get("aggregation_mode").map(Modes::deserialize);
    let modes = modes.and_then(Result::ok).unwrap_or_default();
    let names = literals.get("data").and_then(Json::as_object);
    let names = names.into_iter().flat_map(Map::keys);
    names
        .flat_map(|name| {
            let of_name = modes.get(name).into_iter().flatten();
            of_name.map(|mode| (name.clone(), mode.clone()))
        })
        .collect()
}

fn outputs(literals: &Map<String, Json>) -> Vec<StepOutput> {
    let each = wanted(literals).into_iter();
    each.map(|(name, mode)| {
        let kinds: &[Kind] = match mode.as_str() {
            "distinct" => &[Kind::ListOfValues],
            "values_counts" => &[Kind::Dictionary],
            _ => &[Kind::Float, Kind::Integer],
        };
        StepOutput::new(format!("{name}_{mode}"), kinds)
    })
    .collect()
}

struct Aggregate {
    operations: BTreeMap<String, Chain>,
    wanted: Vec<(String, String)>,
}

#[derive(Default, Serialize, Deserialize)]
struct Interval {
    /// One per output.
    tallies: Vec<Tally>,
    runs: i64,
    since: Option<Duration>,
}

fn build(setup: &Setup<'_>) -> Result<Box<dyn Instance>, String> {
    Ok(stateful_instance(Aggregate {
        operations: setup.parse("data_operations")?,
        wanted: wanted(setup.literals),
    }))
}

impl Stateful for Aggregate {
    type State = Interval;

    fn run(&self, state: &mut Self::State, call: &mut Call<'_>) -> Result<(), String> {
        let since = *state.since.get_or_insert(call.now);
        state.runs += 1;
        state.tallies.resize_with(self.wanted.len(), Tally::default);
        let mut data = call.arg(arg!("data")).clone();
        apply_named(&self.operations, &mut data, "data", call.ids)?;
        let mut added = Ok(());
        let mut is_barred = false;
        for ((name, mode), tally) in self.wanted.iter().zip(&mut state.tallies) {
            let value = data.get(name).unwrap_or(&Value::Null);
            let one = tally.add(mode, value).map_err(|unfit| {
                is_barred |= matches!(unfit, AggregationError::Beside(_));
                let (AggregationError::Itself(why) | AggregationError::Beside(why)) = unfit;
                format!("{mode} of {name}: {why}")
            });
            added = added.and(one);
        }
        let interval = call.integer(arg!("interval"))?;
        let is_over = match call.choice(arg!("interval_unit"), &UNITS)? {
            Some(unit_s) => {
                call.now.saturating_sub(since).as_secs_f64() >= interval as f64 * unit_s
            }
            None => state.runs >= interval,
        };
        if let Err(why) = added {
            // As in the peer, a value that can't be added does not end the interval; unless the
            // kept values would refuse every later one.
            if is_over && is_barred {
                *state = Interval {
                    since: Some(call.now),
                    ..Interval::default()
                };
            }
            return Err(why);
        }
        if is_over {
            for (i, ((_, mode), tally)) in self.wanted.iter().zip(&mut state.tallies).enumerate() {
                call.put(i, std::mem::take(tally).result(mode));
            }
            state.runs = 0;
            state.since = Some(call.now);
        }
        Ok(())
    }
}

/// State of one output.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Tally {
    whole: i64,
    real: Option<f64>,
    count: i64,
    least: Option<StoredValue>,
    most: Option<StoredValue>,
    distinct: Vec<(StoredValue, i64)>,
}

/// Maximum distinct values of one output.
const MAX_DISTINCT: usize = 10_000;

/// Why a value can't be added.
#[derive(Debug)]
enum AggregationError {
    /// It is of the wrong type.
    Itself(String),
    /// It does not fit the values kept so far.
    Beside(String),
}

impl Tally {
    fn add(&mut self, mode: &str, value: &Value) -> Result<(), AggregationError> {
        match mode {
            "sum" | "avg" => {
                match value {
                    Value::Int(_) | Value::Bool(_) if self.real.is_none() => {
                        self.whole = self.whole.saturating_add(value.as_i64().unwrap_or(0));
                    }
                    number => {
                        let n = number.as_f64().ok_or_else(|| no_number(value))?;
                        *self.real.get_or_insert_with(|| {
                            Value::Int(self.whole).as_f64().unwrap_or(0.0)
                        }) += n;
                    }
                }
                self.count += 1;
            }
            "max" | "min" | "values_difference" => {
                extreme(&mut self.least, value, Ordering::Less)?;
                extreme(&mut self.most, value, Ordering::Greater)?;
            }
            "count" => {
                let length = match value {
                    Value::List(items) => items.len(),
                    Value::Dict(map) => map.len(),
                    Value::Text(text) => text.chars().count(),
                    Value::Detections(all) => all.boxes.len(),
                    _ => 1,
                };
                self.count = self
                    .count
                    .saturating_add(i64::try_from(length).unwrap_or(i64::MAX));
            }
            _ => match value {
                Value::List(items) => items.iter().try_for_each(|item| self.note(item))?,
                one => self.note(one)?,
            },
        }
        Ok(())
    }

    fn note(&mut self, value: &Value) -> Result<(), AggregationError> {
        if let Some((_, count)) = self
            .distinct
            .iter_mut()
            .find(|(known, _)| known.value().same(value))
        {
            *count += 1;
            return Ok(());
        }
        if self.distinct.len() >= MAX_DISTINCT {
            let why = format!("there are more than {MAX_DISTINCT} distinct values");
            return Err(AggregationError::Beside(why));
        }
        self.distinct.push((StoredValue::copied(value), 1));
        Ok(())
    }

    fn result(self, mode: &str) -> Value {
        let sum = self.real.map_or(Value::Int(self.whole), Value::Float);
        match mode {
            "sum" => sum,
            "avg" if self.count == 0 => Value::Null,
            "avg" => {
                let count = Value::Int(self.count).as_f64().unwrap_or(1.0);
                Value::Float(sum.as_f64().unwrap_or(0.0) / count)
            }
            "max" => self.most.map_or(Value::Null, StoredValue::into_value),
            "min" => self.least.map_or(Value::Null, StoredValue::into_value),
            "count" => Value::Int(self.count),
            "distinct" => Value::list(
                self.distinct
                    .into_iter()
                    .map(|(value, _)| value.into_value())
                    .collect(),
            ),
            "count_distinct" => Value::from(self.distinct.len()),
            "values_counts" => {
                let counts = self.distinct.iter();
                Value::dict(
                    counts.map(|(value, count)| (value.value().python_str(), Value::Int(*count))),
                )
            }
            _ => match [self.least, self.most].map(|kept| kept.map(StoredValue::into_value)) {
                [Some(Value::Int(least)), Some(Value::Int(most))] => {
                    Value::Int(most.saturating_sub(least))
                }
                [Some(least), Some(most)] => match (least.as_f64(), most.as_f64()) {
                    (Some(least), Some(most)) => Value::Float(most - least),
                    _ => Value::Null,
                },
                _ => Value::Null,
            },
        }
    }
}

/// Keeps the more extreme value. Null is skipped; state of an older version may hold it.
fn extreme(
    kept: &mut Option<StoredValue>,
    value: &Value,
    way: Ordering,
) -> Result<(), AggregationError> {
    let order = match (value, kept.as_ref().map(StoredValue::value)) {
        (Value::Null, _) => return Ok(()),
        (Value::Text(_), None | Some(Value::Null)) => way,
        (Value::Text(a), Some(Value::Text(b))) => a.cmp(b),
        (Value::Text(_), Some(other)) => return Err(beside(value, other)),
        (number, other) => {
            let n = number.as_f64().ok_or_else(|| no_number(value))?;
            match other {
                None | Some(Value::Null) => way,
                Some(other) => {
                    let kept = other.as_f64().ok_or_else(|| beside(value, other))?;
                    n.partial_cmp(&kept).unwrap_or(Ordering::Equal)
                }
            }
        }
    };
    if order == way {
        *kept = Some(StoredValue::copied(value));
    }
    Ok(())
}

fn no_number(value: &Value) -> AggregationError {
    AggregationError::Itself(format!("a number expected, got {}", value.what()))
}

fn beside(value: &Value, kept: &Value) -> AggregationError {
    let (value, kept) = (value.what(), kept.what());
    AggregationError::Beside(format!(
        "{value} can't be compared with {kept}, the earlier value"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::tests::bench::Bench;
    use super::{Json, Kind, Value};

    fn bench(modes: &Json, unit: &str, interval: i64) -> Bench {
        let step = json!({
            "type": "roboflow_core/data_aggregator@v1", "data": {"n": "$inputs.n"},
            "aggregation_mode": {"n": modes}, "interval": interval, "interval_unit": unit
        });
        Bench::new(step, &[("n", Kind::Any)])
    }

    #[test]
    fn values_are_aggregated_over_runs_then_restart() {
        let modes = json!([
            "sum",
            "avg",
            "max",
            "min",
            "count",
            "distinct",
            "values_counts",
            "values_difference"
        ]);
        let mut bench = bench(&modes, "runs", 3);
        let mut feed = |n: i64| bench.feed(&[("n", n.into())]).unwrap();
        assert_eq!(feed(4)["n_sum"], Json::Null);
        feed(1);
        let out = feed(4);
        assert_eq!((&out["n_sum"], &out["n_avg"]), (&json!(9), &json!(3.0)));
        assert_eq!(
            (&out["n_max"], &out["n_min"], &out["n_count"]),
            (&json!(4), &json!(1), &json!(3))
        );
        assert_eq!(out["n_distinct"], json!([4, 1]));
        assert_eq!(out["n_values_counts"], json!({"4": 2, "1": 1}));
        assert_eq!(out["n_values_difference"], 3);
        assert_eq!(feed(7)["n_sum"], Json::Null);
    }

    #[test]
    fn values_are_aggregated_over_time() {
        let mut bench = bench(&json!(["count_distinct"]), "minutes", 1);
        let list = || Value::list(vec!["a".into(), "b".into(), "a".into()]);
        assert_eq!(
            bench.feed(&[("n", list())]).unwrap()["n_count_distinct"],
            Json::Null
        );
        bench.wait(60.0);
        assert_eq!(bench.feed(&[("n", list())]).unwrap()["n_count_distinct"], 2);
    }

    #[test]
    fn too_many_values_fail_until_the_interval_ends() {
        let mut bench = bench(&json!(["count_distinct"]), "minutes", 1);
        let all: Vec<Value> = (0..10_001i64).map(Value::from).collect();
        let (some, one_more) = all.split_at(10_000);
        let fed = |bench: &mut Bench, values: &[Value]| {
            bench.feed(&[("n", Value::list(values.to_vec()))])
        };
        fed(&mut bench, some).unwrap();
        fed(&mut bench, one_more).unwrap_err();
        bench.wait(60.0);
        fed(&mut bench, one_more).unwrap_err();
        bench.wait(60.0);
        let out = fed(&mut bench, one_more).unwrap();
        assert_eq!(out["n_count_distinct"], 1);
    }

    /// As for the largest confidence in a picture without objects.
    #[test]
    fn null_is_skipped_anywhere() {
        let step = json!({
            "type": "roboflow_core/data_aggregator@v1", "data": {"n": "$inputs.n"},
            "data_operations": {"n": [{"type": "NumericSequenceAggregate", "function": "max"}]},
            "aggregation_mode": {"n": ["max", "min", "values_difference"]}, "interval": 2, "interval_unit": "runs"
        });
        let mut bench = Bench::new(step, &[("n", Kind::Any)]);
        let mut feed = |seen: &[f64]| {
            let seen = seen.iter().map(|one| Value::from(*one)).collect();
            bench.feed(&[("n", Value::list(seen))]).unwrap()
        };
        for (first, second, expected) in [
            (&[][..], &[0.5][..], [json!(0.5), json!(0.5), json!(0.0)]),
            (&[0.5], &[], [json!(0.5), json!(0.5), json!(0.0)]),
            (&[], &[], [Json::Null, Json::Null, Json::Null]),
            (&[0.75], &[0.5], [json!(0.75), json!(0.5), json!(0.25)]),
        ] {
            assert_eq!(feed(first)["n_max"], Json::Null);
            let out = feed(second);
            let told = [&out["n_max"], &out["n_min"], &out["n_values_difference"]];
            assert_eq!(told, expected.each_ref(), "{first:?} {second:?}");
        }
    }

    #[test]
    fn incomparable_value_fails_until_the_interval_ends() {
        let mut bench = bench(&json!(["max"]), "runs", 2);
        let mut feed = |value: Value| bench.feed(&[("n", value)]);
        feed("a".into()).unwrap();
        let why = feed(Value::from(5i64)).unwrap_err();
        assert!(
            why.contains("max of n: a number can't be compared with a string"),
            "{why}"
        );
        feed(Value::from(6i64)).unwrap();
        assert_eq!(feed(Value::from(7i64)).unwrap()["n_max"], 7);
        // Such a value is not kept and blocks nothing.
        let why = feed(Value::list(Vec::new())).unwrap_err();
        assert!(why.contains("a number expected, got a list"), "{why}");
        assert_eq!(feed(Value::from(1i64)).unwrap()["n_max"], 1);
    }

    #[test]
    fn sum_of_texts_fails_and_unknown_mode_is_refused() {
        let why = bench(&json!(["sum"]), "runs", 1)
            .feed(&[("n", "a".into())])
            .unwrap_err();
        assert!(why.contains("sum of n"), "{why}");
        let why = Bench::refusal(json!({
            "type": "roboflow_core/data_aggregator@v1", "data": {"n": "$inputs.n"}, "aggregation_mode": {"n": ["median"]}, "interval": 1
        }));
        assert!(why.contains("median"), "{why}");
    }
}
