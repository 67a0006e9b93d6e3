//! Requests that name a template: `use template crowd on the gate camera, number=7`.
//!
//! - The result is a request in plain words, read like any other.
//! - What the template needs and was not given is asked for.
//! - A word that is neither name nor value is never dropped.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::answer::{Missing, Question};
use crate::lexicon::{Lexicon, folded};
use crate::names::{self, Cameras};
use crate::reader::{Reader, left_over};
use crate::scene::Scene;
use crate::templates::{FillError, ParameterKind, Template, Templates};
use crate::token::Token;

/// What a request that names a template comes to.
pub(crate) enum Chosen {
    /// The request that the template makes.
    Request(String),
    /// What has to be known first.
    Ask(Question),
}

/// Reads a request that names a template. `None`: it names none.
pub(crate) fn chosen(
    tokens: &[Token],
    text: &str,
    scene: &Scene,
    lexicon: &Lexicon,
    templates: &Templates,
) -> Option<Chosen> {
    let mut r = Reader::new(tokens.to_vec());
    let (template, is_sure) = match named(&mut r, templates)? {
        Named::This(template, is_sure) => (template, is_sure),
        Named::None(written) => {
            let wrong = templates.fill(&written, &BTreeMap::new()).err()?;
            return Some(Chosen::Ask(ask(Missing::Meaning, &wrong.to_string(), text)));
        }
    };
    let mut values = values(&mut r, template);
    let cameras = names::cameras(&mut r, scene, lexicon);
    if !values.contains_key("camera") {
        values.extend(the_camera(&cameras, scene).map(|id| ("camera".to_owned(), id)));
    }
    r.take_all(&[
        "use|apply|start|run|take|make|create|set|deploy",
        "with|using|where",
    ]);
    let rest = left_over(&r, lexicon);
    // The name of a template alone is an everyday word: only with nothing but a camera is it meant.
    if !is_sure && (!rest.is_empty() || !values.contains_key("camera")) {
        return None;
    }
    if let Some(rest) = rest.first() {
        let known: Vec<&str> = template.parameters.keys().map(String::as_str).collect();
        let wrong = format!(
            "I did not understand \"{rest}\" beside the template {}. It takes {} as NAME=VALUE.",
            template.name,
            known.join(", ")
        );
        return Some(Chosen::Ask(ask(Missing::Meaning, &wrong, text)));
    }
    Some(fill(template, &values, text, scene, templates))
}

/// The camera that is named, or the only one.
fn the_camera(named: &Cameras, scene: &Scene) -> Option<String> {
    match named {
        Cameras::These(on) if on.len() == 1 => on.first().map(ToString::to_string),
        _ => match scene.cameras.as_slice() {
            [only] => Some(only.id.to_string()),
            _ => None,
        },
    }
}

/// Fills a template, or asks for the value that it lacks.
fn fill(
    template: &Template,
    values: &BTreeMap<String, String>,
    text: &str,
    scene: &Scene,
    templates: &Templates,
) -> Chosen {
    match templates.fill(&template.name, values) {
        Ok(request) => Chosen::Request(request),
        Err(FillError::Left {
            kind: ParameterKind::Camera,
            ..
        }) => {
            let wrong = format!("On which camera? There are {}.", names::listed(scene));
            let mut question = ask(Missing::Camera, &wrong, text);
            question.choices = names::choices(scene);
            Chosen::Ask(question)
        }
        Err(FillError::Left { name, .. }) => {
            let wrong = format!(
                "Where in the picture? The template {} needs a {name}: say it as a part of the picture (\"the left half\"), as \"rectangle 10%,20% to 50%,80%\", or by the \
                 name of a place.",
                template.name
            );
            // The sentence without it; the answer completes it like any other request.
            let request = sentence_without(template, &name, values);
            Chosen::Ask(ask(Missing::Place, &wrong, &request))
        }
        Err(wrong) => Chosen::Ask(ask(Missing::Meaning, &wrong.to_string(), text)),
    }
}

fn ask(about: Missing, question: &str, request: &str) -> Question {
    Question {
        about,
        text: question.to_owned(),
        choices: Vec::new(),
        request: request.trim().to_owned(),
    }
}

fn sentence_without(template: &Template, name: &str, values: &BTreeMap<String, String>) -> String {
    let mut request = template.request.replace(&format!("in {{{name}}} "), "");
    request = request.replace(&format!("{{{name}}} "), "");
    for (name, parameter) in &template.parameters {
        if let Some(value) = values.get(name).or(parameter.default.as_ref()) {
            request = request.replace(&format!("{{{name}}}"), value.trim());
        }
    }
    request
}

enum Named<'t> {
    /// This one, and whether the word `template` says so.
    This(&'t Template, bool),
    /// One that isn't there, as it was written.
    None(String),
}

/// The template that is named; its words are used then.
fn named<'t>(r: &mut Reader, templates: &'t Templates) -> Option<Named<'t>> {
    let known = |r: &Reader, at: usize| {
        let all = templates.all().iter();
        all.filter_map(|t| r.name_at(&folded(&t.name), at).map(|end| (t, at..end)))
            .max_by_key(|(_, at)| at.len())
    };
    let listed = r
        .find(&[
            "list|show|which|what|templates",
            "what|which templates|template",
        ])
        .is_some();
    let word = (0..r.tokens.len()).find(|i| r.word(*i) == "template");
    let Some(word) = word.filter(|_| !listed) else {
        // `loitering on street`
        let (template, at) = known(r, 0)?;
        r.mark(at);
        return Some(Named::This(template, false));
    };
    let behind = word + 1 + usize::from(matches!(r.word(word + 1), "called" | "named" | ":"));
    let before = (0..word).find_map(|at| known(r, at).filter(|(_, found)| found.end == word));
    let found: Option<(&Template, Range<usize>)> = known(r, behind).or(before);
    Some(match found {
        Some((template, at)) => {
            r.mark(at.start.min(word)..at.end.max(word + 1));
            Named::This(template, true)
        }
        None => {
            let written = r.written(behind..behind + 1);
            let verb = matches!(
                r.word(0),
                "use" | "apply" | "start" | "run" | "take" | "deploy"
            );
            if written.is_empty() || !verb {
                return None;
            }
            Named::None(written)
        }
    })
}

/// The values that are given as `name=value`; their words are used then.
fn values(r: &mut Reader, template: &Template) -> BTreeMap<String, String> {
    let key = |r: &Reader, at: usize| {
        let is = template.parameters.contains_key(r.word(at))
            || r.tokens.get(at).is_some_and(|t| t.is_word());
        is && r.word(at + 1) == "="
    };
    let keys: Vec<usize> = (0..r.tokens.len()).filter(|at| key(r, *at)).collect();
    let mut values = BTreeMap::new();
    for (nth, at) in keys.iter().enumerate() {
        let mut end = keys.get(nth + 1).copied().unwrap_or(r.tokens.len());
        while end > at + 2 && matches!(r.any_word(end - 1), "," | ";" | "." | "and" | "with" | "\n")
        {
            end -= 1;
        }
        let value: String = r.written(at + 2..end).replace('"', " ");
        values.insert(r.any_word(*at).to_owned(), value.trim().to_owned());
        r.mark(*at..end);
    }
    values
}
