//! Plans for requests in plain English, by rules and by templates.
//!
//! - [`plan`] plans a request only if every word of it is understood; what is not is named.
//! - The same words at the same time make the same plan.
//! - A [`PlanTemplate`] is used only for a request that differs in slots, all of which it can fill.
//!
//! Not here: where templates are kept ([`crate::template_store`]), language models.

mod arrangement;
mod camera_words;
mod chain;
mod condition_set;
mod conditions;
mod counts;
mod denials;
mod groupings;
mod hours;
mod job_request;
mod likeness;
mod normal_form;
mod not_understood;
mod objects;
mod outputs;
mod parts;
mod pattern;
mod refine;
mod request;
mod self_standing;
mod template;
#[cfg(test)]
mod tests;
mod times;
mod unread_words;
mod words;

use jiff::SignedDuration;
use jiff::civil::DateTime;
use serde_json::{Map, Value, json};

use arrangement::Selection;
use chain::Chain;
use condition_set::Conditions;
pub use job_request::is_job_request;
use likeness::{GROUP_ALIKE, Like, RANK_ALIKE, Sets, TAG};
pub use not_understood::NotUnderstood;
use objects::{BAR_CODE, CODE, ObjectCount, QR_CODE};
pub use pattern::absolute_folders;
pub use refine::Refinement;
use request::{Request, Source};
pub use template::{NotReusable, PlanTemplate, template_name};
use words::{LIKENESS, Range};

use crate::cameras::KnownNames;
use crate::plan::Plan;
use crate::tool::in_words;

/// Most pictures that a step keeps.
const MAX_COUNT: u64 = 10_000;
/// Name of the tool that brings pictures of events.
pub const EVENT_PICTURES: &str = "event_pictures";
/// Name of the tool that brings pictures of the archive.
pub const ARCHIVE_QUERY: &str = "archive_query";
/// Name of the tool that looks for objects of a class.
pub const FIND_OBJECTS: &str = "find_objects";
/// Name of the tool that reads codes.
const READ_CODES: &str = "read_codes";

/// Plans a request such as `organise last week's deliveries by bay and keep the three best of
/// each`. `now` is the local time, `names` what the request may name.
///
/// # Errors
/// If a word is not understood, or it is not said which pictures are meant.
pub fn plan(text: &str, now: DateTime, names: &KnownNames) -> Result<Plan, NotUnderstood> {
    let now = next_second(now);
    let requests = match Request::read(text, now, names) {
        _ if parts::names_rest(text) => {
            let rest = || NotUnderstood::words(vec!["rest".to_owned()], &names.cameras);
            parts::read(text, now, names).ok_or_else(rest)?
        }
        Ok(request) => vec![request],
        Err(refused) => parts::read(text, now, names).ok_or(refused)?,
    };
    Ok(build(text, &requests))
}

/// Rounds up to a whole second, or to the end of the day: a range up to now includes what happened
/// in this second.
fn next_second(now: DateTime) -> DateTime {
    let whole = now.with().subsec_nanosecond(0).build().unwrap_or(now);
    let next = whole.saturating_add(SignedDuration::from_secs(1));
    match whole == now {
        true => now,
        false => next.min(now.date().at(23, 59, 59, 999_999_999)),
    }
}

/// Plans a request of [`plan`] again with refinements, each with its own local time and applied to
/// the earlier ones. `now` is the time of the request, `title` the title of the album. `old` is the
/// plan before the last refinement: its number stays one of all pictures or of each group.
///
/// # Errors
/// If a word is not understood.
pub fn plan_refined<'r>(
    old: &Plan,
    text: &str,
    refinements: impl IntoIterator<Item = (&'r str, DateTime)>,
    now: DateTime,
    title: &str,
    names: &KnownNames,
) -> Result<Plan, NotUnderstood> {
    let mut request = Request::read(text, next_second(now), names)?;
    let mut refinements = refinements.into_iter().peekable();
    while let Some((words, at)) = refinements.next() {
        let is_last = refinements.peek().is_none();
        if is_last && !request.selection.by.is_empty() && request.selection.best.is_some() {
            request.selection.is_best_of_all = !refine::keeps_of_each(old);
        }
        let has_folder = matches!(request.source, Source::Folder(_));
        Refinement::read_for(words, next_second(at), names, has_folder)?.apply(&mut request);
        if let Some(month) = request.selection.conditions.month_beside(request.range) {
            return Err(NotUnderstood::two_times(month));
        }
    }
    Ok(build(title, &[request]))
}

/// Says in one line how a request was read, as its plan does it.
pub fn read_as(plan: &Plan) -> String {
    let inputs = plan.inputs.iter();
    let inputs = inputs.filter_map(|(name, value)| Some(format!("{name} {}", value.as_str()?)));
    let steps = plan.steps.iter().filter_map(|step| {
        let tool = step.call.tool.as_str();
        let params = match tool {
            "list_pictures" | "measure_quality" => return None,
            ARCHIVE_QUERY => Some(in_words(&step.call.params)).filter(|said| !said.is_empty())?,
            FIND_OBJECTS | READ_CODES => step.reason.clone(),
            _ => in_words(&step.call.params),
        };
        let said = format!("{} {params}", tool.replace('_', " "));
        Some(said.trim_end().to_owned())
    });
    inputs.chain(steps).collect::<Vec<_>>().join("; ")
}

/// Returns whether a text is a request to organise pictures that [`plan`] understands.
pub fn understands(text: &str, now: DateTime, names: &KnownNames) -> bool {
    // "How many cars per hour today" asks for numbers, and copies no picture.
    let asks = |request: &Request| {
        matches!(request.source, Source::Events { .. }) && job_request::asks_number(text)
    };
    let is_for_files = |request: Request| {
        let Selection {
            best, conditions, ..
        } = &request.selection;
        let narrows = best.is_some() || *conditions != Conditions::default();
        let is_of_folder = matches!(request.source, Source::Folder(_));
        !asks(&request) && (request.organises() || narrows && is_of_folder)
    };
    Request::read(text, now, names).is_ok_and(is_for_files)
}

fn build(text: &str, requests: &[Request]) -> Plan {
    let mut chain = Chain::default();
    for request in requests {
        chain.begin();
        choose(&mut chain, request);
        order(&mut chain, request);
        output(&mut chain, request, text);
    }
    Plan {
        name: "plan-of-words".to_owned(),
        description: text.to_owned(),
        inputs: chain.inputs,
        steps: chain.steps,
        rewards: None,
    }
}

/// The steps that bring the pictures of a request and keep what is wanted, in its groups.
fn choose(chain: &mut Chain, request: &Request) {
    let without = request.rest_of.as_ref().map(|former| {
        choose(chain, former);
        let chosen = chain.collection().replace(".groups}", ".pictures}");
        chain.begin();
        chosen
    });
    source(chain, request);
    clean(chain, request);
    if let Some(without) = without {
        let params = json!({"without": without});
        chain.add_on_pictures("rest", "combine", params, "what the part before has left");
    }
    like(chain, request);
    group_and_choose(chain, request);
}

/// The steps that leave pictures out. Those that need no pixels come first: the others then decode
/// fewer pictures. Duplicates are dropped among those that are left.
fn clean(chain: &mut Chain, request: &Request) {
    let selection = &request.selection;
    let wanted = conditions(request);
    if !wanted.is_empty() {
        let reason = match request.cameras.as_slice() {
            [camera] if wanted.contains_key("camera") => {
                format!("those that are meant; {camera} is a camera that EXIF names")
            }
            _ => "those that are meant".to_owned(),
        };
        chain.add_on_pictures("wanted", "filter", Value::Object(wanted), &reason);
    }
    let conditions = &selection.conditions;
    if let Some(sharpness) = conditions.least_sharpness() {
        chain.measure();
        let params = json!({"min_sharpness": sharpness});
        chain.add_on_pictures("sharp", "filter", params, "those that are not blurred");
    }
    let (either, all) = conditions.of_scores();
    if !all.is_empty() {
        chain.measure();
        let params = json!({"where": all});
        chain.add_on_pictures("measured", "filter", params, "those with the wanted scores");
    }
    if !either.is_empty() {
        chain.measure();
        let params = json!({"where": either, "any": true});
        chain.add_on_pictures("faulty", "filter", params, "those with one of the faults");
    }
    for shown in &conditions.shown {
        find(chain, shown);
    }
    let codes = conditions.of_codes();
    if !codes.is_empty() {
        let name = chain.add_on_pictures("texts", READ_CODES, json!({}), "the texts of codes");
        chain.pictures = format!("${{{name}.all}}");
        let params = json!({"where": codes});
        chain.add_on_pictures("coded", "filter", params, "those with the wanted code");
    }
    // Last: the picture that is kept of a burst must meet all conditions.
    if conditions.without_duplicates == Some(true) {
        let mut params = duplicate_params(request);
        if let Some(order) = selection.best_of_burst.filter(|order| *order != "quality") {
            params["by"] = json!(order);
        }
        let reason = match request.is_exact {
            true => "one file of each set of equal bytes",
            false => "one picture of each burst",
        };
        chain.add_on_pictures("unique", "find_duplicates", params, reason);
        chain.is_measured |= !request.is_exact;
    }
    let orders = [selection.order, selection.best.map(|(_, by)| by)];
    let groupings = selection.by.iter().copied();
    let by_score = |by: &str| by == "quality" || by == "sharpness";
    if orders.into_iter().flatten().chain(groupings).any(by_score) {
        chain.measure();
    }
}

/// The steps that look for objects and keep the pictures with the wanted number of them.
fn find(chain: &mut Chain, shown: &ObjectCount) {
    let ObjectCount {
        class,
        comparison,
        number,
    } = shown;
    let reason = format!("those with {comparison} {number} {class}");
    let (field, tool, params) = match class.as_str() {
        CODE => ("codes", READ_CODES, json!({})),
        QR_CODE => ("codes", READ_CODES, json!({"kind": "qr"})),
        BAR_CODE => ("codes", READ_CODES, json!({"kind": "bar"})),
        class => ("objects", FIND_OBJECTS, json!({"class": class})),
    };
    let name = chain.add_on_pictures(field, tool, params, &reason);
    match (*comparison, *number) {
        (">=", 1) => {}
        ("<", 1) => chain.pictures = format!("${{{name}.others}}"),
        _ => {
            chain.pictures = format!("${{{name}.all}}");
            let params = json!({"where": [format!("{field} {comparison} {number}")]});
            chain.add_on_pictures("number", "filter", params, &reason);
        }
    }
}

/// The steps that order pictures by their likeness to another one.
fn like(chain: &mut Chain, request: &Request) {
    let Some(Like { file, count }) = &request.like else {
        return;
    };
    let reason = "the picture to compare with";
    let target = chain.add("target", "list_pictures", json!({"folder": file}), reason);
    let mut params = json!({"to": format!("${{{target}.pictures}}")});
    if let Some(count) = count {
        params["count"] = json!(count);
    }
    let reason = format!("the most like {file} first");
    chain.add_on_pictures("alike", RANK_ALIKE, params, &reason);
}

/// The parameters of the step that finds duplicates.
fn duplicate_params(request: &Request) -> Value {
    match request.is_exact {
        true => json!({"exact": true}),
        false => json!({}),
    }
}

/// The step that makes sets of pictures which belong together.
fn sets(chain: &mut Chain, sets: &Sets, request: &Request) {
    let (name, tool, params, reason) = match sets {
        Sets::Duplicates => {
            let reason = match request.is_exact {
                true => "sets of equal files",
                false => "sets of copies and bursts, the one to keep first",
            };
            let params = duplicate_params(request);
            ("duplicates", "find_duplicates", params, reason)
        }
        Sets::Tags(tags) => {
            let params = json!({"labels": tags});
            ("tags", TAG, params, "the word that fits each best")
        }
    };
    let name = chain.add_on_pictures(name, tool, params, reason);
    chain.groups = Some(format!("${{{name}.groups}}"));
}

/// The steps that group pictures and keep the best: of all before they are grouped, of each group
/// after that.
fn group_and_choose(chain: &mut Chain, request: &Request) {
    let selection = &request.selection;
    let is_grouped = !selection.by.is_empty() || selection.sets.is_some();
    let is_of_all = is_grouped && selection.is_best_of_all;
    if is_of_all {
        best(chain, selection);
        chain.pictures = chain.collection().replace(".groups}", ".pictures}");
    }
    chain.groups = None;
    if selection.by.contains(&CODE) && !selection.conditions.shown.iter().any(ObjectCount::is_code)
    {
        let params = json!({});
        let codes = chain.add_on_pictures("codes", READ_CODES, params, "the texts to group by");
        chain.pictures = format!("${{{codes}.all}}");
    }
    if let Some(wanted) = &selection.sets {
        sets(chain, wanted, request);
    }
    for (level, by) in selection.by.iter().enumerate() {
        let name = match level {
            0 => "group".to_owned(),
            1 => "subgroup".to_owned(),
            2 => "part".to_owned(),
            _ => format!("part{level}"),
        };
        let mut params = json!({"pictures": chain.collection()});
        let tool = match *by {
            LIKENESS => GROUP_ALIKE,
            by => {
                params["by"] = json!(by);
                if let Some(minutes) = selection.gap_minutes.filter(|_| by == "gap") {
                    params["gap_minutes"] = json!(minutes);
                }
                if let Some(metres) = selection.place_metres.filter(|_| by == "place") {
                    params["place_metres"] = json!(metres);
                }
                "group"
            }
        };
        let name = chain.add(&name, tool, params, "what belongs together");
        chain.groups = Some(format!("${{{name}.groups}}"));
    }
    if !is_of_all {
        best(chain, selection);
    }
}

fn best(chain: &mut Chain, selection: &Selection) {
    let Some((count, order)) = selection.best else {
        return;
    };
    let mut params = json!({"from": chain.collection(), "count": count, "by": order});
    if let Some(percent) = selection.percent {
        params["count"] = json!(MAX_COUNT);
        params["percent"] = json!(percent);
    }
    if let Some(total) = selection.total {
        params["total"] = json!(total);
    }
    let by = selection.by.join(" and ");
    let reason = match () {
        () if by.is_empty() => "the best ones".to_owned(),
        () if selection.is_best_of_all => {
            format!("the best of all; for as many of each {by}, say \"of each\"")
        }
        () => format!("the best of each {by}; for as many of all, say \"in total\""),
    };
    let best = chain.add("best", "select_best", params, &reason);
    chain.groups = Some(format!("${{{best}.groups}}"));
}

/// The conditions of a request that are checked without pixels.
fn conditions(request: &Request) -> Map<String, Value> {
    let mut conditions = Map::new();
    let mut texts = request.selection.conditions.of_metadata();
    // Of events the tool brings only those of a time and of one camera.
    let is_of_events = matches!(request.source, Source::Events { .. });
    match request.cameras.as_slice() {
        [one] if !is_of_events => {
            conditions.insert("camera".to_owned(), json!(one));
        }
        [] | [_] => {}
        several => texts.push(format!("camera is {}", several.join(" or "))),
    }
    if !is_of_events {
        let Range { since, until } = request.range;
        let times = [("since", since), ("until", until)];
        let times = times
            .iter()
            .filter_map(|(name, at)| Some((*name, (*at)?.to_string())));
        conditions.extend(times.map(|(name, at)| (name.to_owned(), Value::from(at))));
    }
    if is_of_events {
        let unwanted = request
            .selection
            .conditions
            .shown
            .iter()
            .filter(|shown| shown.is_none() && !shown.is_code());
        texts.extend(unwanted.map(|shown| format!("class is not {}", shown.class)));
    }
    conditions.extend((!texts.is_empty()).then(|| ("where".to_owned(), json!(texts))));
    conditions
}

/// The step that brings the pictures.
fn source(chain: &mut Chain, request: &Request) {
    match &request.source {
        Source::Folder(folder) => {
            let reason = "the pictures of the folder";
            let mut list = |name: String, folder: &String| {
                let params = json!({"folder": format!("${{inputs.{name}}}")});
                chain.inputs.insert(name, json!(folder));
                chain.add("list", "list_pictures", params, reason)
            };
            let first = list("folder".to_owned(), folder);
            let more = request.more_folders.iter().zip(2..);
            let more = more.map(|(folder, n)| list(format!("folder{n}"), folder));
            let more: Vec<String> = more.collect();
            chain.pictures_of(&first);
            for list in more {
                let params = json!({"more": format!("${{{list}.pictures}}")});
                chain.add_on_pictures("all", "combine", params, "the pictures of all folders");
            }
        }
        Source::Collection(name, params) => {
            chain.inputs.insert("collection".to_owned(), json!(name));
            let mut params = params.clone();
            params.insert("collection".to_owned(), json!("${inputs.collection}"));
            params.insert("folder".to_owned(), json!("pictures"));
            let params = Value::Object(params);
            let reason = "the pictures of the collection in the archive";
            let archive = chain.add("archive", ARCHIVE_QUERY, params, reason);
            chain.pictures_of(&archive);
        }
        Source::Events { what, since } => {
            let mut params = json!({"since": since.to_string(), "folder": "events"});
            let camera = request
                .cameras
                .first()
                .filter(|_| request.cameras.len() == 1);
            let more = [
                ("what", what.clone()),
                ("until", request.range.until.map(|until| until.to_string())),
                ("camera", camera.cloned()),
            ];
            for (name, value) in more {
                if let Some(value) = value {
                    params[name] = json!(value);
                }
            }
            let of = what
                .as_ref()
                .map(|what| format!(" of the class or rule {what}"));
            let kept = format!(
                "the pictures that events{} have kept",
                of.unwrap_or_default()
            );
            let reason = match camera {
                Some(camera) => format!("{kept}; {camera} is the ID of a camera of the box"),
                None => kept,
            };
            let events = chain.add("events", EVENT_PICTURES, params, &reason);
            chain.pictures_of(&events);
        }
    }
}

/// The step that orders what is shown, if an order is wanted.
fn order(chain: &mut Chain, request: &Request) {
    let Some(order) = request.selection.order else {
        return;
    };
    let params = json!({"pictures": chain.collection(), "by": order});
    let order = chain.add("order", "rank", params, "the order that is wanted");
    match &mut chain.groups {
        Some(groups) => *groups = format!("${{{order}.groups}}"),
        None => chain.pictures_of(&order),
    }
}

/// The steps that write what was asked for; an album if nothing was.
fn output(chain: &mut Chain, request: &Request, text: &str) {
    let name = request.name.as_deref();
    if request.sheet {
        let file = format!("{}.jpg", name.unwrap_or("sheet"));
        let mut params = json!({"from": chain.collection(), "file": file});
        if request.is_sheet_of_each {
            params["each"] = json!(true);
        }
        chain.add("sheet", "contact_sheet", params, "all at a glance");
    }
    if request.album || !request.sheet {
        let title = name.unwrap_or(text);
        let name = name.unwrap_or("album");
        let params = json!({"from": chain.collection(), "name": name, "title": title});
        chain.add("album", "album", params, "a folder and a page to look at");
    }
}
