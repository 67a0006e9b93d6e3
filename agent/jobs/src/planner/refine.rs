//! Changes of a request or of a plan, in plain English: "only the two best, and by month".
//!
//! - Words that are not understood refuse the whole refinement; they are named.
//! - A plan of another author is changed only where exactly one step has the parameter.

use jiff::civil::DateTime;
use serde_json::{Value, json};

use super::arrangement::FEW;
use super::condition_set::Conditions;
use super::groupings::add_grouping;
use super::likeness::GROUP_ALIKE;
use super::not_understood::NotUnderstood;
use super::request::{BEGINNING, Request, Source};
use super::unread_words::Words;
use super::words::{IN_TOTAL, LIKENESS, Range, is_filler};
use crate::cameras::KnownNames;
use crate::plan::reference::{INPUTS, Text, parse};
use crate::plan::{Plan, Step};

/// Words of refinements without a meaning of their own. Beside a camera or a condition [`WIDENING`]
/// have one.
const FILLERS: [&str; 13] = [
    "but", "instead", "now", "also", "only", "same", "be", "it", "just", "again", "use", "per",
    "should",
];

/// "All but the gate" and "also the blurred ones" mean more pictures, which no plan can name.
const WIDENING: [&str; 2] = ["but", "also"];

/// Changes of a refinement; everything else stays.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Refinement {
    count: Option<u64>,
    order: Option<&'static str>,
    /// Whether the number counts all pictures, and not those of each group.
    is_of_all: Option<bool>,
    /// Whether a number of several pictures comes before the grouping, if there is one.
    is_number_first: bool,
    /// Order in which the pictures are shown.
    shown: Option<&'static str>,
    /// Empty: without groups.
    by: Option<Vec<&'static str>>,
    /// Whether the groupings divide the former groups.
    adds_groups: bool,
    /// Whether the sheet is made beside the former output.
    adds_sheet: bool,
    /// Whether the output takes the place of the former one.
    replaces_output: bool,
    name: Option<String>,
    conditions: Conditions,
    range: Range,
    cameras: Vec<String>,
    sheet: bool,
    album: bool,
}

impl Refinement {
    /// Reads a refinement; `now` is the local time from which relative times count.
    ///
    /// # Errors
    /// If a word is not understood, or nothing is to be changed.
    pub fn read(text: &str, now: DateTime, names: &KnownNames) -> Result<Self, NotUnderstood> {
        Self::read_for(text, now, names, false)
    }

    /// Reads a refinement of a request. In one of a folder, "Sunday" is any Sunday.
    pub(super) fn read_for(
        text: &str,
        now: DateTime,
        names: &KnownNames,
        has_folder: bool,
    ) -> Result<Self, NotUnderstood> {
        let mut words = Words::new(text, now);
        words.has_folder = has_folder;
        let ungrouped = [
            &["without", "groups"][..],
            &["not", "grouped"],
            &["ungrouped"],
        ];
        let is_ungrouped = ungrouped.iter().any(|phrase| words.take(phrase));
        let replaces_output = words.replaces_output();
        let has_instead_of = words.find(&["instead", "of"]).is_some();
        let added = words.find(&["also"]).map(|also| words.added_behind(also));
        let mut refinement = Self {
            adds_groups: matches!(added, Some(Some("by" | "per"))),
            adds_sheet: added == Some(Some("sheet")),
            name: words.made_name(true),
            range: words.range(&names.cameras),
            cameras: words.models(&names.cameras),
            conditions: words.conditions(names),
            sheet: words.sheet(),
            album: words.album(),
            shown: words.shown_order(),
            ..Self::default()
        };
        refinement.replaces_output = replaces_output && added.is_none();
        refinement.is_of_all = match words.take_one(IN_TOTAL).is_some() {
            true => Some(true),
            false => words.has_each().then_some(false),
        };
        let choice = words.choice(refinement.shown, names, &refinement.conditions);
        refinement.order = choice.and_then(|choice| choice.order.or(refinement.shown));
        refinement.count = choice.and_then(|choice| choice.count);
        let grouping = (!is_ungrouped).then(|| words.grouping(true)).flatten();
        let place = grouping.as_ref().map(|(place, _)| *place);
        refinement.is_number_first = choice.is_some_and(|choice| choice.counts_before(place));
        refinement.by = match is_ungrouped {
            true => Some(Vec::new()),
            false => grouping.map(|(_, by)| by),
        };
        if refinement.cameras.is_empty() {
            refinement.cameras = words.cameras(&names.cameras);
        }
        let mut left = words.left();
        // The condition of several dates would stay beside a later time.
        left.extend((words.spans.len() > 1).then(|| "and".to_owned()));
        // "Instead of the album" names what is not wanted.
        left.extend(has_instead_of.then(|| "instead of".to_owned()));
        // Beside groups or a sheet an "also" of something else may be of them.
        let is_unclear = added == Some(None) && (refinement.by.is_some() || refinement.sheet);
        left.extend(refinement.conditions.unknown.take());
        let narrows =
            !refinement.cameras.is_empty() || refinement.conditions != Conditions::default();
        left.retain(|word| {
            let word = word.to_lowercase();
            let widens = narrows && WIDENING.contains(&word.as_str());
            widens || is_unclear && word == "also" || !FILLERS.contains(&word.as_str())
        });
        if left.is_empty() {
            if refinement != Self::default() {
                return Ok(refinement);
            }
            left.push(text.to_owned());
        }
        Err(NotUnderstood::words(left, &names.cameras))
    }

    /// Changes a request that the rules have read.
    pub(super) fn apply(self, request: &mut Request) {
        self.drop_former(request);
        let selection = &mut request.selection;
        // A number of each group stays one, also with another grouping.
        let is_new = selection.by.is_empty() || selection.best.is_none();
        if self.count.is_some() && is_new {
            let is_first = self.by.is_some() || selection.by.is_empty();
            selection.is_best_of_all = self.is_number_first && is_first;
        }
        if self.count.is_some() || self.order.is_some() {
            let order = selection.order.unwrap_or("quality");
            let (count, order) = selection.best.unwrap_or((FEW, order));
            selection.best = Some((self.count.unwrap_or(count), self.order.unwrap_or(order)));
        }
        selection.is_best_of_all = self.is_of_all.unwrap_or(selection.is_best_of_all);
        selection.order = self.shown.or(selection.order);
        match self.by {
            Some(by) if self.adds_groups => {
                for by in by {
                    add_grouping(&mut selection.by, by);
                }
            }
            Some(by) => selection.by = by,
            None => {}
        }
        if let Source::Events { what, .. } = &mut request.source {
            let is_shown = |what: &String| {
                let mut shown = self.conditions.shown.iter();
                shown.any(|shown| shown.class.eq_ignore_ascii_case(what))
            };
            *what = what.take().filter(|what| !is_shown(what));
        }
        if !self.cameras.is_empty() {
            request.cameras = self.cameras;
        }
        selection.conditions.extend(self.conditions);
        // An old end that the new start leaves no time before is no longer meant, and vice versa.
        let (old, Range { since, until }) = (request.range, self.range);
        let old_since = old.since.filter(|old| until.is_none_or(|new| *old < new));
        let old_until = old.until.filter(|old| since.is_none_or(|new| new < *old));
        request.range = Range {
            since: since.or(old_since),
            until: until.or(old_until),
        };
        if let Source::Events { since, .. } = &mut request.source {
            *since = request.range.since.unwrap_or(BEGINNING);
        }
        request.name = self.name.or(request.name.take());
        if self.replaces_output {
            (request.sheet, request.album) = (false, false);
        }
        // An album is made where nothing is said.
        request.album |= self.album || self.adds_sheet && !request.sheet;
        request.sheet |= self.sheet;
    }

    /// Drops the dates and cameras of a request that others replace.
    fn drop_former(&self, request: &mut Request) {
        let former = &mut request.selection.conditions;
        if self.conditions.date(&["day"]).is_some() {
            former.drop_dates(&["day", "month"]);
        } else if self.range != Range::default()
            || self.conditions.date(&["month", "weekday"]).is_some()
        {
            former.drop_dates(&["day"]);
        }
        if !self.cameras.is_empty() {
            former.tests.retain(|test| test.field != "camera");
        }
        let denied = |camera: &String| {
            let mut tests = self.conditions.tests.iter();
            tests.any(|test| {
                let mut names = test.value.split(" or ");
                let is_named = test.field == "camera" && names.any(|name| name == camera);
                is_named && !test.is_wanted
            })
        };
        request.cameras.retain(|camera| !denied(camera));
    }

    /// Changes a plan of any author.
    ///
    /// # Errors
    /// A sentence, if it has not exactly one step for each change: then only a person or a language
    /// model can say where it belongs.
    pub fn edit(&self, plan: &Plan) -> Result<Plan, String> {
        let mut plan = plan.clone();
        let mut rest = self.clone();
        let mut changes: Vec<(&str, &str, Value)> = Vec::new();
        if let Some(count) = rest.count.take() {
            changes.push(("select_best", "count", json!(count)));
        }
        if let Some(order) = rest.order.take() {
            changes.push(("select_best", "by", json!(order)));
        }
        if let Some(order) = rest.shown.take() {
            changes.push(("rank", "by", json!(order)));
        }
        let by = rest.by.as_deref().filter(|by| *by != [LIKENESS]);
        if let Some([by]) = by.filter(|_| !rest.adds_groups) {
            changes.push(("group", "by", json!(by)));
            rest.by = None;
        }
        if let Some(sharpness) = rest.conditions.least_sharpness() {
            rest.conditions.min_sharpness = None;
            changes.push(("filter", "min_sharpness", json!(sharpness)));
        }
        if let [camera] = rest.cameras.as_slice() {
            changes.push(("filter", "camera", json!(camera)));
            rest.cameras.clear();
        }
        if let Some(name) = rest.name.take() {
            changes.push(("album", "name", json!(name)));
        }
        rest.is_number_first = false;
        rest.replaces_output = false;
        if keeps_of_each(&plan) {
            rest.is_of_all = rest.is_of_all.filter(|is_of_all| *is_of_all);
        }
        if rest != Self::default() {
            return Err(format!(
                "this change needs another step in the plan; {BY_HAND}"
            ));
        }
        for (tool, param, value) in changes {
            set(&mut plan, tool, param, value)?;
        }
        Ok(plan)
    }
}

impl Words {
    /// Whether an output takes the place of another: "a contact sheet instead", or "only a contact
    /// sheet".
    fn replaces_output(&self) -> bool {
        let only = self
            .find(&["only"])
            .and_then(|only| self.added_behind(only));
        let behind = ["instead", "only"];
        let mut places = (0..self.len()).filter(|at| self.is_one(*at, &["sheet", "album"]));
        matches!(only, Some("sheet" | "album"))
            || places.any(|output| self.is_one(output + 1, &behind))
    }

    /// What "also" or "only" at a place adds: groups, behind "by" or "per", a "sheet" or an
    /// "album".
    fn added_behind(&self, also: usize) -> Option<&'static str> {
        let is_between = |at: &usize| {
            self.is_one(*at, &["on", "contact", "one"]) || self.get(*at).is_some_and(is_filler)
        };
        let behind = (also + 1..self.len()).find(|at| !is_between(at))?;
        let mut added = ["by", "per", "sheet", "album"].into_iter();
        added.find(|word| self.stands(behind, &[word]))
    }
}

/// Remedy for a plan that the rules don't change.
const BY_HAND: &str = "save the plan to a file, change it, and run `watchkeeper job run FILE`";

/// Returns whether each step that keeps the best takes the groups of a step that groups.
pub(super) fn keeps_of_each(plan: &Plan) -> bool {
    let with = |tool: &'static str| plan.steps.iter().filter(move |step| step.call.tool == tool);
    with("select_best").all(|best| {
        let from = best.call.params.get("from").and_then(Value::as_str);
        let mut groups = with("group").chain(with(GROUP_ALIKE));
        groups.any(|group| from == Some(&format!("${{{}.groups}}", group.name)))
    })
}

/// Sets a parameter of the only step with this tool, or of those the only one that has it, or the
/// input that it takes.
fn set(plan: &mut Plan, tool: &str, param: &str, value: Value) -> Result<(), String> {
    let mut steps: Vec<_> = plan
        .steps
        .iter_mut()
        .filter(|step| step.call.tool == tool)
        .collect();
    let has = |step: &Step| step.call.params.contains_key(param);
    if steps.iter().any(|step| has(step)) {
        steps.retain(|step| has(step));
    }
    let [step] = steps.as_mut_slice() else {
        let number = if steps.is_empty() {
            "no step"
        } else {
            "several steps"
        };
        return Err(format!(
            "the plan has {number} {tool} to set {param} in; {BY_HAND}"
        ));
    };
    let params = &mut step.call.params;
    match params.get(param).and_then(Value::as_str).map(parse) {
        None | Some(Text::Plain) => params.insert(param.to_owned(), value),
        Some(Text::Reference(input)) if input.owner == INPUTS => {
            plan.inputs.insert(input.key, value)
        }
        Some(_) => {
            return Err(format!(
                "{param} of step {} comes from another step",
                step.name
            ));
        }
    };
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::super::{plan, plan_refined};
    use super::*;
    use crate::plan::{check, difference};
    use crate::tools::picture_tools;

    fn none() -> KnownNames {
        KnownNames::default()
    }

    fn gate() -> KnownNames {
        let mut names = none();
        names.cameras.add("gate", None);
        names
    }

    fn now() -> DateTime {
        "2026-11-28T15:00:00".parse().unwrap()
    }

    /// The plan of a request after refinements, one after the other.
    fn refined_plan(request: &str, words: &[&str]) -> Plan {
        let mut refined = plan(request, now(), &none()).unwrap();
        for end in 1..=words.len() {
            let words = words[..end].iter().map(|words| (*words, now()));
            refined = plan_refined(&refined, request, words, now(), request, &none())
                .unwrap_or_else(|e| panic!("{e}"));
        }
        check(refined.clone(), &picture_tools()).unwrap();
        refined
    }

    /// Difference that refinements make to a plan of the rules.
    fn refined(request: &str, words: &[&str]) -> Vec<String> {
        let refined = refined_plan(request, words);
        difference(&plan(request, now(), &none()).unwrap(), &refined)
    }

    const REQUEST: &str = "organise ./a by day and keep the 3 best of each";

    #[test]
    fn number_without_an_order_keeps_the_order() {
        let request = "the 2 sharpest of each day in ./a";
        let expected = [
            "step group: by: \"day\" → \"camera\"",
            "step best: count: 2 → 3",
        ];
        assert_eq!(refined(request, &["three of each and by camera"]), expected);
    }

    #[test]
    fn refinements_change_what_they_name_and_nothing_else() {
        for (words, expected) in [
            (
                "only the two best, and by month",
                &[
                    "step group: by: \"day\" → \"month\"",
                    "step best: count: 3 → 2",
                ][..],
            ),
            (
                "the newest",
                &[
                    "step best: by: \"quality\" → \"newest\"",
                    "- step measure",
                    "x",
                ],
            ),
            ("only 5", &["step best: count: 3 → 5"]),
            ("make it five", &["step best: count: 3 → 5"]),
            ("newest first", &["+ step order: rank (by: \"newest\""]),
            (
                "the 2 best, sharpest first",
                &[
                    "+ step order: rank (by: \"sharpness\"",
                    "step best: count: 3 → 2",
                ],
            ),
            (
                "call it \"best of spring\"",
                &["step album: name: \"album\" → \"best of spring\""],
            ),
            (
                "only 5, named spring",
                &[
                    "step best: count: 3 → 5",
                    "step album: name: \"album\" → \"spring\"",
                ],
            ),
            ("without blurred ones", &["+ step sharp: filter"]),
            ("only sharp ones", &["+ step sharp: filter"]),
            ("from 2026", &["+ step wanted: filter"]),
            ("sharpness at least 0.5", &["+ step sharp: filter"]),
            ("without groups", &["- step group"]),
            ("since 2026-03-01", &["+ step wanted: filter"]),
            (
                "without duplicates",
                &["+ step unique: find_duplicates", "- step measure"],
            ),
        ] {
            let found = refined(REQUEST, &[words]);
            for line in expected.iter().filter(|line| **line != "x") {
                assert!(
                    found.iter().any(|f| f.starts_with(line)),
                    "{words}: {found:#?}"
                );
            }
        }
    }

    #[test]
    fn output_that_is_also_wanted_is_made_beside_the_album() {
        let has_album = |words: &str| {
            let steps = refined_plan(REQUEST, &[words]).steps;
            steps.iter().any(|step| step.call.tool == "album")
        };
        assert!(has_album("also a contact sheet"));
        assert!(has_album("by month, also a contact sheet"));
        assert!(!has_album("on a contact sheet"));
        for words in [
            "a contact sheet instead",
            "only a contact sheet",
            "a contact sheet only",
        ] {
            let steps = refined_plan(REQUEST, &["as an album", words]).steps;
            assert!(
                !steps.iter().any(|step| step.call.tool == "album"),
                "{words}"
            );
        }
    }

    #[test]
    fn refinements_add_up_and_take_each_other_back() {
        let same: [String; 0] = [];
        assert_eq!(refined(REQUEST, &["only 5", "only 3"]), same);
        let orders = ["newest first", "oldest first"];
        assert_eq!(refined(REQUEST, &orders), refined(REQUEST, &orders[1..]));
        assert_eq!(
            refined(REQUEST, &["without duplicates", "with duplicates"]),
            same
        );
        assert_eq!(
            refined(REQUEST, &["without blurred ones", "with blurred ones"]),
            same
        );
    }

    #[test]
    fn later_condition_replaces_one_on_the_same_thing() {
        let mut names = none();
        names.classes = vec!["person".to_owned()];
        names.cameras.add("gate", None);
        let refine = |request: &str, words: &[&str]| {
            let old = plan(request, now(), &names).unwrap();
            let words = words.iter().map(|words| (*words, now()));
            plan_refined(&old, request, words, now(), request, &names)
        };
        let plan_of = |request: &str, words: &[&str]| refine(request, words).unwrap();
        for words in [
            &["in the morning", "in the evening instead"][..],
            &["with people", "without people"],
            &["only the blurred ones", "sharpness over 0.5"],
            &["sharpness over 0.5", "only the blurred ones"],
            &["PNG files", "only JPEG files"],
            &["on 28 November", "on 2026-11-27"],
            &["in November", "on 27 December"],
            &["from Saturday", "from Sunday"],
            &["on 28 November", "from Sunday"],
            &["not the gate", "only the gate"],
            &["only the gate", "not the gate"],
        ] {
            let last = &words[words.len() - 1..];
            assert_eq!(plan_of(REQUEST, words), plan_of(REQUEST, last), "{words:?}");
        }
        for words in [
            &["in November", "since 2026-03-01"],
            &["since 2026-03-01", "on 5 October"],
        ] {
            let refused = refine(REQUEST, words).unwrap_err().to_string();
            assert!(refused.contains("another time"), "{refused}");
        }
        let people = plan_of("yesterday's people by hour", &["without people"]);
        let shown = plan_of("yesterday's pictures by hour", &["without people"]);
        // The title of the album is the request.
        assert_eq!(people.steps[..3], shown.steps[..3]);
        // Another author's plan has its bound on sharpness in `min_sharpness`.
        let sharp = plan("only sharp photos in ./a", now(), &none()).unwrap();
        let refinement = Refinement::read("sharpness over 0.5", now(), &none()).unwrap();
        let edited = refinement.edit(&sharp).unwrap();
        let expected = ["step sharp: min_sharpness: 0.35 → 0.5"];
        assert_eq!(difference(&sharp, &edited), expected);
    }

    /// The steps of a plan that group and choose.
    fn choice(plan: &Plan) -> String {
        let steps = plan.steps.iter();
        let steps = steps.filter_map(|step| match step.call.tool.as_str() {
            "group" => Some(format!("by {}", step.call.params["by"])),
            "select_best" => Some(format!("{} best", step.call.params["count"])),
            _ => None,
        });
        steps.collect::<Vec<_>>().join(", ").replace('"', "")
    }

    #[test]
    fn number_of_a_refinement_counts_as_in_one_sentence() {
        for (request, words, expected) in [
            (
                "photos in ./a",
                &["by day, the best 3"][..],
                "by day, 3 best",
            ),
            ("photos in ./a", &["the 3 best by day"], "3 best, by day"),
            ("photos in ./a", &["the 3 best", "by day"], "3 best, by day"),
            ("photos in ./a", &["by day", "the 3 best"], "by day, 3 best"),
            ("photos in ./a by day", &["only 3"], "by day, 3 best"),
            (
                "photos in ./a by day",
                &["the 3 best by month"],
                "3 best, by month",
            ),
            ("the best 3 of ./a", &["by day"], "3 best, by day"),
            ("the best photo of ./a", &["by day"], "by day, 1 best"),
            ("the best of ./a", &["by day"], "by day, 10 best"),
            (
                REQUEST,
                &["only the two best, and by month"],
                "by month, 2 best",
            ),
            ("./a by week", &["also by camera"], "by week, by camera"),
            (
                "./a by day",
                &["by month, also a contact sheet"],
                "by month",
            ),
            ("./a by day", &["also by month"], "by day"),
            ("./a by month", &["also by day"], "by day"),
            (REQUEST, &["in total"], "3 best, by day"),
            (REQUEST, &["in total", "only 5"], "5 best, by day"),
            (
                "the best 3 of ./a by day",
                &["2 best of each month"],
                "by month, 2 best",
            ),
        ] {
            let plan = refined_plan(request, words);
            assert_eq!(choice(&plan), expected, "{request}; {words:?}");
        }
    }

    #[test]
    fn job_of_an_earlier_build_keeps_what_its_number_counts() {
        // Earlier builds kept the best of each group whatever the order of the words was.
        let old = plan("the best 10 of each month in ./a", now(), &none()).unwrap();
        let request = "the best 10 photos in ./a by month";
        let refine = |words: &str| {
            let words = [(words, now())];
            choice(&plan_refined(&old, request, words, now(), request, &none()).unwrap())
        };
        assert_eq!(refine("only 5"), "by month, 5 best");
        assert_eq!(refine("only 5 in total"), "5 best, by month");
    }

    #[test]
    fn times_of_a_refinement_count_from_the_refinement() {
        let at = |text: &str| text.parse::<DateTime>().unwrap();
        let refinements = [
            ("only today", at("2026-12-05T09:00:00")),
            ("only 5", at("2026-12-06T09:00:00")),
        ];
        let request = "the 3 best pictures of yesterday by camera";
        let old = plan(request, now(), &none()).unwrap();
        let refined = plan_refined(&old, request, refinements, now(), request, &none()).unwrap();
        let found = difference(&old, &refined);
        let expected = [
            "step events: since: \"2026-11-27T00:00:00\" → \"2026-12-05T00:00:00\"",
            "step events: until: \"2026-11-28T00:00:00\" → \"2026-12-05T09:00:00\"",
            "step best: count: 3 → 5",
        ];
        for line in expected {
            assert!(
                found.iter().any(|f| f.starts_with(line)),
                "{line}: {found:#?}"
            );
        }
    }

    #[test]
    fn new_start_or_end_clears_an_old_one_that_leaves_no_time() {
        let range = |request: &str, words: &str| {
            let words = [(words, now())];
            let old = plan(request, now(), &gate()).unwrap();
            let plan = plan_refined(&old, request, words, now(), request, &gate()).unwrap();
            let steps = plan.steps.iter();
            let params = steps.flat_map(|step| &step.call.params);
            let times = params.filter(|(name, _)| ["since", "until"].contains(&name.as_str()));
            let times = times.map(|(name, at)| format!("{name} {}", &at.as_str().unwrap()[..10]));
            times.collect::<Vec<_>>().join(", ")
        };
        for (request, words, expected) in [
            ("photos in ./a from 2022", "since 2023", "since 2023-01-01"),
            (
                "photos in ./a since 2023",
                "before 2022",
                "until 2022-01-01",
            ),
            (
                "photos in ./a from 2022",
                "since 2022-03",
                "since 2022-03-01, until 2023-01-01",
            ),
            (
                "photos of the gate of 2022",
                "since 2023",
                "since 2023-01-01",
            ),
            (
                "photos of the gate since 2023",
                "before 2022",
                "since 1970-01-01, until 2022-01-01",
            ),
        ] {
            assert_eq!(range(request, words), expected, "{request}; {words}");
        }
    }

    #[test]
    fn words_that_are_not_understood_are_named() {
        for (words, named) in [
            ("only the two best and by mood", "\"mood\""),
            ("delete the rest", "\"delete\""),
            ("only", "\"only\""),
            ("sharpness at least 7", "\"sharpness\""),
            ("all but the gate", "\"but\""),
            ("also the gate", "\"also\""),
            ("by camera also", "\"also\""),
            ("all but the blurred ones", "\"but\""),
            ("all but the PNG files", "\"but\""),
            ("also the blurred ones", "\"also\""),
            ("only the gat", "\"gat\" (did you mean the camera gate?)"),
        ] {
            let error = Refinement::read(words, now(), &gate())
                .unwrap_err()
                .to_string();
            assert!(error.contains(named), "{words}: {error}");
        }
    }

    #[test]
    fn plan_of_another_author_is_changed_where_one_step_is_meant() {
        let mut own = plan(REQUEST, now(), &none()).unwrap();
        own.inputs.insert("count".to_owned(), json!(3));
        own.steps[3].call.params["count"] = json!("${inputs.count}");
        let edit = |words: &str| Refinement::read(words, now(), &none()).unwrap().edit(&own);
        let edited = edit("only the two newest, by month").unwrap();
        let expected = [
            "input count: 3 → 2",
            "step group: by: \"day\" → \"month\"",
            "step best: by: \"quality\" → \"newest\"",
        ];
        assert_eq!(difference(&own, &edited), expected);
        let edited = edit("the two newest of each month").unwrap();
        assert_eq!(difference(&own, &edited), expected);
        // No step filters, and a step that finds duplicates must be put somewhere.
        for (words, why) in [
            (
                "without blurred ones",
                "the plan has no step filter to set min_sharpness in; save the plan",
            ),
            ("without duplicates", "needs another step"),
            ("the 2 best in total", "needs another step"),
        ] {
            let refused = edit(words).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn plan_for_best_of_all_is_not_edited_to_best_of_each() {
        let all = plan("the best 10 photos in ./a by month", now(), &none()).unwrap();
        let edit = |words: &str| Refinement::read(words, now(), &none()).unwrap().edit(&all);
        assert_eq!(choice(&edit("only 5").unwrap()), "5 best, by month");
        let refused = edit("the 3 best of each day").unwrap_err();
        assert!(refused.contains("needs another step"), "{refused}");
    }

    #[test]
    fn of_several_steps_the_one_that_has_the_parameter_is_changed() {
        let request = "only sharp photos in ./a since 2026";
        let two = plan(request, now(), &none()).unwrap();
        let edit = |words: &str| Refinement::read(words, now(), &none()).unwrap().edit(&two);
        let edited = edit("sharpness at least 0.5").unwrap();
        let expected = ["step sharp: min_sharpness: 0.35 → 0.5"];
        assert_eq!(difference(&two, &edited), expected);
        let refused = edit("of camera X100").unwrap_err();
        assert!(refused.contains("several steps filter"), "{refused}");
    }
}
