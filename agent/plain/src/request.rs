//! One request to watch → one [`WatchFor`], or what has to be known first.
//!
//! Invariant: camera, objects and place are what the person said or what the notes say was assumed; a place that was named and
//! isn't known is asked for, never guessed.

use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::rule::{CountBound, CrossDirection, Severity};

use crate::answer::Missing;
use crate::hours;
use crate::intent::{NamedPlace, Objects, WatchFor, What};
use crate::lexicon::{Lexicon, folded};
use crate::names::{self, Cameras, Mention, Stand};
use crate::place::{self, Said, Way, Wrong};
use crate::reader::Reader;
use crate::scene::{Scene, Shape, nearest, quoted};
use crate::shape::{RESERVED, RESERVED_PREFIX};

/// What has to be known first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) about: Missing,
    pub(crate) text: String,
    pub(crate) choices: Vec<String>,
}

impl Need {
    pub(crate) fn new(about: Missing, text: impl Into<String>) -> Self {
        Self {
            about,
            text: text.into(),
            choices: Vec::new(),
        }
    }

    pub(crate) fn with(mut self, choices: Vec<String>) -> Self {
        self.choices = choices;
        self
    }
}

/// What is told beside what was understood.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Notes {
    pub(crate) assumed: Vec<String>,
    pub(crate) not_possible: Vec<String>,
    pub(crate) not_understood: Vec<String>,
}

const PLACE_REMEDY: &str = "Say it as a part of the picture (\"the left half\", \"the top right corner\", \"the whole picture\") or as \
    \"rectangle 10%,20% to 50%,80%\".";
const LINE_REMEDY: &str = "Say it as \"vertical line at 50%\", \"horizontal line at 40%\" or \"line from 10%,50% to 90%,50%\".";

/// Durations by what they are for.
#[derive(Debug, Default)]
struct Spans {
    cooldown_s: f64,
    hold_s: Option<f64>,
    stop_after_s: Option<f64>,
}

fn spans(r: &mut Reader, notes: &mut Notes) -> Spans {
    const COOLDOWN: [&str; 10] = [
        "at|no|not|max|maximum? most|more? than? once|one|1 alert|message|event|notification|warning? every|each|per|in|an|a <u>",
        "no|not more often|frequently than? once? every|each|per <u>",
        "cooldown|cool-down of|is|to|:? <d>",
        "cool down of|is|to? <d>",
        "<d> cooldown|cool-down",
        "with? <d> between alerts|events|messages|warnings|notifications",
        "wait <d> between|before alerts|events|messages|warnings|notifying|alerting|telling?",
        "quiet|silent for <d>",
        "not|don't|no? again for|within|before <d>",
        "once an|a? <u>",
    ];
    let mut spans = Spans::default();
    if let Some(found) = r.take(&COOLDOWN) {
        spans.cooldown_s = found.value(0);
    }
    // `every day` is about days, not about how often something is sent.
    let often = r.find(&["every|each|per <u>"]);
    if let Some(found) = often.filter(|found| found.value(0) < 86_400.0) {
        r.mark(found.at.clone());
        notes.not_possible.push(format!(
            "Nothing is sent every {}: the number stands in the pipeline's results at any time.",
            seconds(found.value(0))
        ));
    }
    if let Some(found) = r.take(&["for|during the? next <u>", "only for the? next <u>"]) {
        spans.stop_after_s = Some(found.value(0));
    }
    let hold = r.take(&[
        "for? at|more|over|longer|exceeding|exceeds|beyond least|than? <d>",
        "for|after|within|during|lasting a|full? <d>",
        "<d> or more|longer",
        "> <d>",
        "<d>",
    ]);
    spans.hold_s = hold.map(|found| found.value(0));
    spans
}

/// Seconds as a person says them.
pub(crate) fn seconds(seconds: f64) -> String {
    let (count, unit) = match seconds {
        s if s >= 3600.0 && s % 3600.0 == 0.0 => (s / 3600.0, "hour"),
        s if s >= 60.0 && s % 60.0 == 0.0 => (s / 60.0, "minute"),
        s => (s, "second"),
    };
    format!("{count} {unit}{}", if count == 1.0 { "" } else { "s" })
}

pub(crate) fn confidence(r: &mut Reader, notes: &mut Notes) -> Result<Option<f64>, Need> {
    let found = r.take(&[
        "minimum|min? confidence|certainty|score|threshold of|at|over|above|is|to|from|=|:|>? least|than|equal|=? <p>",
        "at|over|above|with? least? <p> confidence|certainty|sure|certain|confident|score|probability",
    ]);
    let Some(found) = found else {
        return Ok(None);
    };
    let value = found.value(0);
    if !(0.0..=1.0).contains(&value) {
        let written = r.written(found.at);
        return Err(Need::new(
            Missing::Number,
            format!(
                "A confidence lies between 0 and 1 or 0 % and 100 %; \"{written}\" does not. Which one shall it be?"
            ),
        ));
    }
    if value == 0.0 {
        notes
            .assumed
            .push("A confidence of 0 lets everything through.".to_owned());
    }
    Ok(Some(value))
}

/// Understands one request to watch. `before` is the camera of the request before it.
pub(crate) fn watch(
    mut r: Reader,
    scene: &Scene,
    lexicon: &Lexicon,
    before: Option<&SourceId>,
    notes: &mut Notes,
) -> Result<Vec<WatchFor>, Need> {
    let heading: Vec<usize> = match r.tokens.iter().position(|t| t.text == ":") {
        Some(end) => (0..end).collect(),
        None => Vec::new(),
    };
    let severity = if r
        .find(&["critical|critically|urgent|urgently|emergency"])
        .is_some()
    {
        r.take_all(&["critical|critically|urgent|urgently|emergency"]);
        Severity::Critical
    } else if r.find(&["warn|warning|alarm|alert|alerts"]).is_some() {
        Severity::Warning
    } else {
        Severity::Info
    };
    let wished = wishes(&mut r, notes);
    let (told, counted) = verbs(&mut r, lexicon);
    let told = told || wished;
    let cameras = cameras_of(&mut r, scene, lexicon, before, notes)?;
    let known: Vec<_> = cameras.iter().filter_map(|id| scene.camera(id)).collect();
    let named = names::known_place(&mut r, &known).map(|(_, place)| place.clone());
    let way = place::way(&mut r);
    let spans = spans(&mut r, notes);
    let confidence = confidence(&mut r, notes)?;
    let schedules = hours::schedules(&mut r, &mut notes.assumed);
    let mut place = match named {
        Some(known) => Some(Said {
            text: format!("the place {}", quoted(&known.name)),
            name: Some(known.name),
            shape: known.shape,
        }),
        None => geometry(&mut r, &known, notes)?,
    };
    let bound = bound(&mut r)?;
    let mentions = names::classes(&mut r, scene, lexicon);
    let acts = acts(&mut r);
    let unknown_place = unknown_place(&r, &heading, lexicon);
    let (model, objects, none) = objects(
        &mut r,
        &mentions,
        unknown_place.as_deref(),
        scene,
        lexicon,
        notes,
        acts.empty || acts.occupied,
    )?;
    if let Some(written) = &unknown_place {
        match &mut place {
            // What was asked for was answered: the words are its name.
            Some(place) => place.name = place.name.take().or_else(|| Some(written.clone())),
            None => return Err(where_is(written, &known, &acts, scene)),
        }
        mark_words(&mut r, written);
    }
    let empty = acts.empty || none;
    let bound = match (bound, empty, acts.occupied) {
        (Some(bound), ..) => Some(bound),
        (None, true, _) => Some(CountBound::Under(1)),
        (None, false, true) => Some(CountBound::Over(0)),
        (None, false, false) => None,
    };
    let is_line = matches!(&place, Some(p) if matches!(p.shape, Shape::Line(..)));
    let mut conditions = Vec::new();
    if acts.crosses || is_line {
        let Some(line) = place.as_ref().and_then(|p| match p.shape {
            Shape::Line(a, b) => Some((a, b)),
            Shape::Zone(_) => None,
        }) else {
            return Err(Need::new(
                Missing::Line,
                format!("Where is the line that they cross? {LINE_REMEDY}"),
            ));
        };
        let direction = direction(way, line, notes)?;
        if told || !counted {
            conditions.push(What::Crosses(direction));
        }
    } else if let Some(bound) = bound {
        conditions.push(What::Count(bound, spans.hold_s.unwrap_or(0.0)));
    } else if acts.stays || (spans.hold_s.is_some() && told) {
        let Some(for_s) = spans.hold_s else {
            return Err(Need::new(
                Missing::Duration,
                "How long shall they stay before it counts? Say for example \"two minutes\".",
            ));
        };
        conditions.push(What::Stays(for_s));
    } else if told {
        if acts.enters {
            conditions.push(What::Enters);
        }
        if acts.leaves {
            conditions.push(What::Leaves);
        }
        if conditions.is_empty() {
            conditions.push(if place.is_some() {
                What::Enters
            } else {
                What::Appears
            });
        }
    }
    // These need a place; without one it is the whole picture.
    let needs_zone = conditions
        .iter()
        .any(|c| matches!(c, What::Leaves | What::Stays(_)));
    if place.is_none() && needs_zone {
        place = Some(whole_picture());
        notes
            .assumed
            .push("No place was said: the whole picture.".to_owned());
    } else if place.is_none() && conditions.contains(&What::Enters) {
        conditions = vec![What::Appears];
        notes
            .assumed
            .push("No place was said: whoever is seen for the first time has entered.".to_owned());
    }
    if let Some(way) = way
        && !acts.crosses
        && !is_line
        && way != Way::Any
    {
        notes
            .not_understood
            .push("the direction: there is no line".to_owned());
    }
    notes.not_understood.extend(left_over(&r, lexicon));
    let place = place.map(|said| named_place(said, is_line));
    let watch = |camera: SourceId| WatchFor {
        camera,
        model: model.clone(),
        objects: objects.clone(),
        conditions: conditions.clone(),
        place: place.clone(),
        counts: counted,
        confidence,
        schedules: schedules.clone(),
        cooldown_s: spans.cooldown_s,
        severity,
        stop_after_s: spans.stop_after_s,
    };
    Ok(cameras.into_iter().map(watch).collect())
}

/// Whether a verb of watching and one of counting stood there; all of them are used.
fn verbs(r: &mut Reader, lexicon: &Lexicon) -> (bool, bool) {
    let mut take = |verbs: &[String]| {
        let mut any = false;
        for verb in verbs {
            any |= r.take_all(&[verb.as_str()]);
        }
        any
    };
    let counted = take(&lexicon.verbs.count);
    let told = take(&lexicon.verbs.watch);
    (told, counted)
}

/// What is wanted of an event. A picture is kept anyway; what nobody here can do is noted. Whether anything was wanted.
fn wishes(r: &mut Reader, notes: &mut Notes) -> bool {
    let clip = r.take_all(&[
        "save|record|keep|store|take? a|the? clip|clips|video|recording that|which? starts|begins <d> before|earlier",
        "save|record|keep|store|take? a|the? clip|clips with <d> of? pre-roll",
        "save|record|keep|store a|the? clip|clips|video|recording",
        "clip|clips",
    ]);
    if clip {
        notes
            .not_possible
            .push("Clips can't be kept by a rule yet; each event keeps two pictures.".to_owned());
    }
    let still = r.take_all(&[
        "save|take|keep|store|with|plus|and a|the still|snapshot|photo|stills|snapshots|picture",
        "save|take|keep|store|with|plus|and still|snapshot|stills|snapshots",
    ]);
    let mut channels = Vec::new();
    for i in 0..r.tokens.len() {
        if r.word(i) == "#" && !r.word(i + 1).is_empty() {
            channels.push(r.written(i..i + 2).replace(' ', ""));
            r.mark(i..i + 2);
        }
    }
    if let Some(found) = r.take(&["by|via|on|to slack|email|sms|whatsapp|telegram|webhook|mail"]) {
        channels.push(r.written(found.at));
    }
    if !channels.is_empty() {
        notes.not_possible.push(format!(
            "Where an event goes ({}) is not part of a watch: it is published over MQTT and kept in the journal.",
            channels.join(", ")
        ));
    }
    clip || still
}

fn cameras_of(
    r: &mut Reader,
    scene: &Scene,
    lexicon: &Lexicon,
    before: Option<&SourceId>,
    notes: &mut Notes,
) -> Result<Vec<SourceId>, Need> {
    let all = || scene.cameras.iter().map(|c| c.id.clone()).collect();
    if scene.cameras.is_empty() {
        return Err(Need::new(
            Missing::Camera,
            "There is no camera yet. Add one, then ask again.",
        ));
    }
    match names::cameras(r, scene, lexicon) {
        Cameras::These(cameras) => Ok(cameras),
        Cameras::All => Ok(all()),
        Cameras::Unknown(written) => {
            let near = names::nearest_camera(&written, scene);
            let hint = near
                .map(|c| format!(" Did you mean {c}?"))
                .unwrap_or_default();
            let text = format!(
                "There is no camera {}.{hint} The cameras are: {}.",
                quoted(&written),
                names::listed(scene)
            );
            Err(Need::new(Missing::Camera, text).with(names::choices(scene)))
        }
        Cameras::None => {
            // A place with a name is on one camera, which is meant then.
            let known: Vec<_> = scene.cameras.iter().collect();
            let with_place =
                names::known_place(&mut r.clone(), &known).map(|(camera, _)| camera.id.clone());
            if let Some(camera) = with_place.as_ref().or(before) {
                return Ok(vec![camera.clone()]);
            }
            if let [only] = scene.cameras.as_slice() {
                notes.assumed.push(format!(
                    "The camera is {}, the only one.",
                    names::shown(only)
                ));
                return Ok(vec![only.id.clone()]);
            }
            let text = format!("On which camera? There are {}.", names::listed(scene));
            Err(Need::new(Missing::Camera, text).with(names::choices(scene)))
        }
    }
}

fn geometry(
    r: &mut Reader,
    cameras: &[&crate::scene::Camera],
    notes: &mut Notes,
) -> Result<Option<Said>, Need> {
    let size = cameras.first().and_then(|c| c.size);
    if cameras.iter().any(|c| c.size != size) {
        // Pixels mean another place on each.
        return place::place(r, None, &mut notes.assumed).map_err(|wrong| match wrong {
            Wrong::Text(text) => place_wrong(text),
            Wrong::NoSize => place_wrong(
                "these cameras have pictures of different sizes, so pixels don't fit all of them"
                    .to_owned(),
            ),
        });
    }
    place::place(r, size, &mut notes.assumed).map_err(|wrong| match wrong {
        Wrong::Text(text) => place_wrong(text),
        Wrong::NoSize => place_wrong(
            "the size of the picture isn't known yet, so pixels can't be used".to_owned(),
        ),
    })
}

fn place_wrong(text: String) -> Need {
    let mut chars = text.chars();
    let first: String = chars
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .collect();
    Need::new(
        Missing::Meaning,
        format!(
            "{first}{}. Please say all of it again. {PLACE_REMEDY}",
            chars.as_str()
        ),
    )
}

fn bound(r: &mut Reader) -> Result<Option<CountBound>, Need> {
    const BOUNDS: [(&[&str], i64, bool); 6] = [
        (
            &[
                "no more than <n>",
                "not more than <n>",
                "at most <n>",
                "up to <n>",
                "maximum of? <n>",
            ],
            1,
            false,
        ),
        (
            &[
                "fewer|less than <n>",
                "drops|falls? under|below <n>",
                "< <n>",
            ],
            0,
            false,
        ),
        (
            &[
                "at least <n>",
                "<n> or more",
                "minimum of? <n>",
                "reaches|reach|hits <n>",
            ],
            -1,
            true,
        ),
        (
            &[
                "more than <n>",
                "exceeds|exceed|exceeding|over|above|beyond <n>",
                "> <n>",
            ],
            0,
            true,
        ),
        (&["fewer|less than"], 0, false),
        (&["there are <n>", "<n>"], -1, true),
    ];
    for (patterns, shift, over) in BOUNDS {
        let Some(found) = r.find(patterns) else {
            continue;
        };
        if found.held.is_empty() {
            return Err(Need::new(
                Missing::Number,
                "How many? Say for example \"fewer than 3\".",
            ));
        }
        let number = found.value(0);
        let written = r.written(found.at.clone());
        // `one` is a pronoun too.
        if patterns.contains(&"<n>")
            && (written.eq_ignore_ascii_case("one") || number.fract() != 0.0)
        {
            return Ok(None);
        }
        r.mark(found.at);
        let wrong = || {
            Need::new(
                Missing::Number,
                format!(
                    "\"{written}\" is no number of objects. How many shall it be? Say for example \"more than 5\"."
                ),
            )
        };
        if number.fract() != 0.0 || !(0.0..=1e6).contains(&number) {
            return Err(wrong());
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a whole number up to a million"
        )]
        let limit = u32::try_from(number as i64 + shift).map_err(|_| wrong())?;
        return Ok(Some(if over {
            CountBound::Over(limit)
        } else {
            CountBound::Under(limit)
        }));
    }
    Ok(None)
}

/// What happens, by the words for it.
#[derive(Debug, Clone, Copy, Default)]
struct Acts {
    crosses: bool,
    enters: bool,
    leaves: bool,
    stays: bool,
    empty: bool,
    occupied: bool,
}

fn acts(r: &mut Reader) -> Acts {
    const GO: &str = "comes|come|coming|came|goes|go|going|walks|walk|walking|gets|get|drives|drive|driving|steps|step|runs|run|running|moves|move|climbs|climb|breaks|break|passes|rides";
    let go = |ends: &str| format!("{GO} {ends}");
    let crosses = r.take_all(&[
        "cross|crosses|crossing|crossed|crossings over|through?",
        "passes|pass|passing over|through|across",
        &go("across|over|through"),
    ]) | r.take_all(&["the|a|my? line|tripwire"]);
    let leaves = r.take_all(&[
        "leave|leaves|leaving|exit|exits|exiting|depart|departs|departing",
        &go("out|away of?"),
    ]);
    let enters = r.take_all(&[
        "enter|enters|entering|entered|arrive|arrives|arriving|intrudes|trespasses",
        &go("in|into|inside|onto"),
    ]);
    let stays = r.take_all(&[
        "wait|waits|waiting|stay|stays|staying|stand|stands|standing|linger|lingers|lingering around?",
        "loiter|loiters|loitering|remain|remains|remaining|hangs|hang|hanging around|about?",
        "park|parks|parked|sit|sits|sitting|dwell|dwells|spend|spends|stop|stops|stopped|lies|lying|queues|queue|queueing",
    ]);
    let empty =
        r.take_all(&["becomes|is|gets? free|empty|vacant|unoccupied|unattended|unmanned|deserted"]);
    let occupied = r.take_all(&["occupied|taken|full|busy"]);
    r.take_all(&[
        "appear|appears|appearing|shows|show up?",
        "see|sees|seen|spotted|spot|present|visible|detected|moves|move|moving|seeing|happens",
    ]);
    Acts {
        crosses,
        enters,
        leaves,
        stays,
        empty,
        occupied,
    }
}

/// Words that name a place nobody has drawn: behind a preposition, before `is free`, or before a colon.
fn unknown_place(r: &Reader, heading: &[usize], lexicon: &Lexicon) -> Option<String> {
    let content = |i: usize| {
        let token = r.tokens.get(i).filter(|t| t.is_word());
        token.is_some_and(|_| !r.word(i).is_empty() && !lexicon.is_filler(r.word(i)))
    };
    let vague = |i: usize| lexicon.is_vague(r.any_word(i));
    let run = |start: usize| {
        let end = (start..r.tokens.len())
            .find(|i| !content(*i))
            .unwrap_or(r.tokens.len());
        (end > start && !(start..end).any(vague)).then(|| r.written(start..end))
    };
    if let Some(first) = heading.iter().copied().find(|i| content(*i)) {
        return run(first);
    }
    (0..r.tokens.len()).find_map(|i| {
        let preposition = matches!(
            r.any_word(i),
            "at" | "in"
                | "inside"
                | "into"
                | "on"
                | "near"
                | "by"
                | "through"
                | "within"
                | "around"
                | "behind"
                | "beside"
                | "outside"
                | "onto"
                | "towards"
                | "front"
        );
        let article = matches!(
            r.any_word(i + 1),
            "the" | "my" | "our" | "a" | "an" | "this" | "that" | "his" | "its" | "of"
        );
        if preposition {
            let skip = i + 1 + usize::from(article);
            let skip =
                skip + usize::from(article && matches!(r.any_word(skip), "the" | "my" | "our"));
            return run(skip);
        }
        // `watch the left parking bay`, `when the desk is empty`
        let the = matches!(r.any_word(i), "the" | "my" | "our");
        the.then(|| run(i + 1)).flatten()
    })
}

fn mark_words(r: &mut Reader, written: &str) {
    let count = written.split(' ').count();
    let at = (0..r.tokens.len()).find(|i| r.written(*i..*i + count) == written);
    if let Some(at) = at {
        r.mark(at..at + count);
    }
}

fn where_is(written: &str, cameras: &[&crate::scene::Camera], acts: &Acts, scene: &Scene) -> Need {
    let places = cameras
        .iter()
        .flat_map(|c| &c.places)
        .map(|p| p.name.as_str());
    let choices: Vec<String> = places.clone().map(str::to_owned).collect();
    let near = nearest(&written.to_lowercase(), places).map(quoted);
    let camera = names::nearest_camera(written, scene).map(|c| format!("the camera {c}"));
    let hint = near
        .or(camera)
        .map(|n| format!(" Did you mean {n}?"))
        .unwrap_or_default();
    if acts.crosses {
        let text = format!("Where is {}?{hint} {LINE_REMEDY}", quoted(written));
        return Need::new(Missing::Line, text).with(choices);
    }
    let text = format!(
        "Where in the picture is {}?{hint} {PLACE_REMEDY}",
        quoted(written)
    );
    Need::new(Missing::Place, text).with(choices)
}

/// The objects, the model that knows them, and whether there are to be none of them.
fn objects(
    r: &mut Reader,
    mentions: &[Mention],
    place: Option<&str>,
    scene: &Scene,
    lexicon: &Lexicon,
    notes: &mut Notes,
    occupancy: bool,
) -> Result<(String, Objects, bool), Need> {
    let Some(first) = scene.models.first() else {
        return Err(Need::new(
            Missing::Class,
            "There is no model to look with. Add one, then ask again.",
        ));
    };
    let mentions = missing_equipment(r, mentions, scene)?;
    let none = mentions.iter().any(|m| {
        m.stand == Stand::None
            || matches!(
                m.said.to_lowercase().as_str(),
                "nobody" | "no one" | "noone"
            )
    });
    let (excluded, wanted): (Vec<&Mention>, Vec<&Mention>) =
        mentions.iter().partition(|m| m.stand == Stand::Excluded);
    if let Some(vague) = (0..r.tokens.len()).find(|i| lexicon.is_vague(r.word(*i))) {
        let text = format!(
            "What do you mean by \"{}\"? Say what to look for and what it does, such as \"a person enters at night\".",
            r.written(vague..vague + 1)
        );
        return Err(Need::new(Missing::Meaning, text));
    }
    if let Some(unknown) = coordinated(r, &mentions, lexicon) {
        return Err(unknown_class(&unknown, scene, lexicon));
    }
    if wanted.is_empty() && excluded.is_empty() {
        let usual = (0..r.tokens.len()).find_map(|i| lexicon.occupants(r.any_word(i)));
        if let (Some(labels), true) = (usual, occupancy) {
            let known = |m: &&crate::scene::Model| labels.iter().any(|l| m.labels.contains(l));
            let model = scene.models.iter().find(known).unwrap_or(first);
            let labels: Vec<String> = labels
                .iter()
                .filter(|l| model.labels.contains(l))
                .cloned()
                .collect();
            let said = labels.join(", ");
            notes.assumed.push(format!(
                "What takes the place was not said: {}.",
                if said.is_empty() { "anything" } else { &said }
            ));
            return Ok((model.name.clone(), Objects { labels, said }, none));
        }
        let in_place =
            |word: &str| place.is_some_and(|p| p.to_lowercase().split(' ').any(|w| w == word));
        let strange = (0..r.tokens.len()).find(|i| {
            let word = r.word(*i);
            !word.is_empty()
                && r.tokens.get(*i).is_some_and(|t| t.is_word())
                && !lexicon.is_filler(word)
                && !in_place(word)
        });
        return Err(match strange {
            Some(i) => unknown_class(&r.written(i..i + 1), scene, lexicon),
            None => Need::new(
                Missing::Class,
                "What shall be watched for? Say for example \"people\", \"vehicles\" or \"anything\".",
            ),
        });
    }
    let said: Vec<String> = wanted.iter().map(|m| m.said.to_lowercase()).collect();
    let mut said = dedup(said).join(" or ");
    if first.labels.is_empty() && scene.models.len() == 1 {
        notes.assumed.push(format!(
            "The model {} tells no classes apart: everything that moves counts.",
            first.name
        ));
        return Ok((
            first.name.clone(),
            Objects {
                labels: Vec::new(),
                said: "anything".to_owned(),
            },
            none,
        ));
    }
    let all = wanted.iter().all(|m| m.labels.is_empty());
    let pick = |model: &crate::scene::Model, mention: &Mention| -> Vec<String> {
        let has = |label: &&String| mention.labels.iter().any(|l| folded(l) == folded(label));
        model.labels.iter().filter(has).cloned().collect()
    };
    let knows = |model: &&crate::scene::Model| {
        let named: Vec<_> = mentions.iter().filter(|m| !m.labels.is_empty()).collect();
        named.iter().all(|m| !pick(model, m).is_empty())
    };
    let Some(model) = scene.models.iter().find(knows) else {
        let missing = mentions.iter().find(|m| {
            !m.labels.is_empty() && scene.models.iter().all(|model| pick(model, m).is_empty())
        });
        return Err(match missing {
            Some(mention) => unknown_class(&mention.said, scene, lexicon),
            None => Need::new(
                Missing::Class,
                "No single model knows all of these. Ask for them one at a time.",
            ),
        });
    };
    let mut labels: Vec<String> = if all && excluded.is_empty() {
        Vec::new()
    } else if all {
        model.labels.clone()
    } else {
        wanted.iter().flat_map(|m| pick(model, m)).collect()
    };
    let left_out: Vec<String> = excluded.iter().flat_map(|m| pick(model, m)).collect();
    labels.retain(|l| !left_out.contains(l));
    if !left_out.is_empty() {
        if labels.is_empty() {
            return Err(Need::new(
                Missing::Class,
                "Nothing is left to watch for. What shall be watched for?",
            ));
        }
        said = format!(
            "{} but not {}",
            if all { "anything" } else { &said },
            left_out.join(" or ")
        );
    }
    Ok((
        model.name.clone(),
        Objects {
            labels: dedup(labels),
            said,
        },
        none,
    ))
}

fn dedup(words: Vec<String>) -> Vec<String> {
    let mut seen = Vec::new();
    for word in words {
        if !seen.contains(&word) {
            seen.push(word);
        }
    }
    seen
}

/// `without a helmet` and `needs a helmet` → the class that stands for its absence, where a model has one.
fn missing_equipment(
    r: &mut Reader,
    mentions: &[Mention],
    scene: &Scene,
) -> Result<Vec<Mention>, Need> {
    let required = r
        .take_all(&["needs|need|must|required|mandatory|compulsory|missing|without wear|wearing?"])
        || mentions.iter().any(|m| m.stand == Stand::Missing);
    if !required {
        return Ok(mentions.to_vec());
    }
    let labels: Vec<&String> = scene.models.iter().flat_map(|m| &m.labels).collect();
    let absent = |mention: &Mention| -> Vec<String> {
        let is_absence = |label: &&&String| {
            let label = folded(label);
            let of = label
                .strip_prefix("no ")
                .or_else(|| label.strip_prefix("without "));
            of.is_some_and(|of| mention.labels.iter().any(|l| folded(l) == of))
        };
        labels
            .iter()
            .filter(is_absence)
            .map(|l| (*l).clone())
            .collect()
    };
    let turned: Vec<Mention> = mentions
        .iter()
        .filter_map(|mention| {
            let labels = absent(mention);
            let said = format!("no {}", mention.said);
            (!labels.is_empty()).then(|| Mention {
                said,
                labels,
                stand: Stand::Wanted,
                ..mention.clone()
            })
        })
        .collect();
    if let Some(lost) = mentions
        .iter()
        .find(|m| m.stand == Stand::Missing && absent(m).is_empty())
    {
        return Err(Need::new(
            Missing::Class,
            format!(
                "No model here sees that something is missing on somebody (\"without {}\"). What shall be watched for instead?",
                lost.said
            ),
        ));
    }
    if turned.is_empty() {
        return Ok(mentions.to_vec());
    }
    Ok(turned)
}

/// A word that stands beside a class as if it were one: `a dog or a forklift`.
fn coordinated(r: &Reader, mentions: &[Mention], lexicon: &Lexicon) -> Option<String> {
    mentions.iter().find_map(|mention| {
        let at = mention.at.end;
        if !matches!(r.any_word(at), "or" | "and") {
            return None;
        }
        let article = matches!(r.any_word(at + 1), "a" | "an");
        let next = at + 1 + usize::from(article);
        let word = r.word(next);
        let strange = r.tokens.get(next).is_some_and(|t| t.is_word())
            && !word.is_empty()
            && !lexicon.is_filler(word);
        strange.then(|| r.written(next..next + 1))
    })
}

fn unknown_class(written: &str, scene: &Scene, lexicon: &Lexicon) -> Need {
    let near = names::nearest_class(&written.to_lowercase(), scene, lexicon);
    let hint = near
        .as_ref()
        .map(|n| format!(" Did you mean \"{n}\"?"))
        .unwrap_or_default();
    let models: Vec<&str> = scene.models.iter().map(|m| m.name.as_str()).collect();
    let text = format!(
        "No model here ({}) knows {}.{hint} What shall be watched for? Ask \"what objects can you detect\" for all classes.",
        models.join(", "),
        quoted(written)
    );
    Need::new(Missing::Class, text).with(near.into_iter().collect())
}

fn direction(
    way: Option<Way>,
    (a, b): ([f64; 2], [f64; 2]),
    notes: &mut Notes,
) -> Result<CrossDirection, Need> {
    let [x, y] = match way {
        None | Some(Way::Any) => return Ok(CrossDirection::Any),
        Some(Way::In) => {
            notes.assumed.push(
                "In is to the left hand, looking from the line's start to its end.".to_owned(),
            );
            return Ok(CrossDirection::In);
        }
        Some(Way::Out) => {
            notes.assumed.push(
                "Out is to the right hand, looking from the line's start to its end.".to_owned(),
            );
            return Ok(CrossDirection::Out);
        }
        Some(Way::Along(way)) => way,
    };
    // The left hand of a line, in a picture whose y grows downwards: to it is in.
    let (left_x, left_y) = (b[1] - a[1], -(b[0] - a[0]));
    let along = x * left_x + y * left_y;
    if along.abs() < 1e-9 {
        return Err(Need::new(
            Missing::Direction,
            "That direction runs along the line, so nothing crosses it that way. Which way shall count: left to right, right to left, upwards or downwards?",
        ));
    }
    Ok(if along > 0.0 {
        CrossDirection::In
    } else {
        CrossDirection::Out
    })
}

fn whole_picture() -> Said {
    Said {
        shape: Shape::Zone(vec![[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]),
        text: "the whole picture".to_owned(),
        name: Some("picture".to_owned()),
    }
}

fn named_place(said: Said, is_line: bool) -> NamedPlace {
    let fallback = if is_line { "line" } else { "zone" };
    NamedPlace {
        name: said
            .name
            .as_deref()
            .map_or_else(|| fallback.to_owned(), |name| step_name(name, fallback)),
        said: said.text,
        shape: said.shape,
    }
}

/// A name that a step of a workflow may have.
fn step_name(name: &str, fallback: &str) -> String {
    let slug = slug(name);
    let head_ok = slug.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    if !head_ok {
        return fallback.to_owned();
    }
    let taken = RESERVED.contains(&slug.as_str())
        || slug.starts_with(RESERVED_PREFIX)
        || slug.starts_with("count-")
        || matches!(slug.as_str(), "tracked" | "annotated");
    if taken {
        format!("{fallback}-{slug}")
    } else {
        slug
    }
}

/// Lower case letters and digits with hyphens between, at most 30.
pub(crate) fn slug(text: &str) -> String {
    let mut slug = String::new();
    for c in text.to_lowercase().chars() {
        if c.is_ascii_alphanumeric() {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
        if slug.len() >= 30 {
            break;
        }
    }
    slug.trim_end_matches('-').to_owned()
}

/// Words that no phrase used and that mean something.
pub(crate) fn left_over(r: &Reader, lexicon: &Lexicon) -> Vec<String> {
    let mut found = Vec::new();
    let mut start = None;
    for i in 0..=r.tokens.len() {
        let content = r.tokens.get(i).is_some_and(|t| {
            let counts = t.is_word()
                || t.text
                    .chars()
                    .all(|c| c.is_ascii_digit() || c == '.' || c == ':')
                    && t.text != "."
                    && t.text != ":";
            counts && !r.word(i).is_empty() && !lexicon.is_filler(&t.text)
        });
        match (content, start) {
            (true, None) => start = Some(i),
            (false, Some(from)) => {
                found.push(r.written(from..i));
                start = None;
            }
            _ => {}
        }
    }
    found
}
