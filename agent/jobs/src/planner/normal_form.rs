//! The words of a request in the form that the rules read.
//!
//! - A phrase of a table is replaced by words of the rules; the longest phrase counts.
//! - Where the rules read one order of words only, the order is changed: "duplicates out" becomes
//!   "without duplicates".
//! - A clause that gives a reason, and one that defines a word of the request, are used up here.
//! - Any other word stays as it is typed.
//!
//! Not here: what the words mean ([`super::words`]), names of cameras, rules and zones.

use std::ops::Range;

use watchkeeper_english::{one_of, singular};

use super::words::{
    BETWEEN, BLURRED, DUPLICATES, GROUPINGS, Table, is_folder, is_maker, is_picture_noun,
    is_picture_word, tokens_with_commas,
};

/// A word with whether a comma follows.
pub(super) type Token = (String, bool);

/// Passes over the tables: a meaning may be a part of another phrase.
const PASSES: usize = 2;

/// Phrases of any place in a request. "Them" stands for words without a meaning.
const SYNONYMS: [Table; 6] = [LEFT_OUT, LOOKS, COPIES, OUTPUTS, GROUPS, OTHERS];

/// What pictures must not have or be.
const LEFT_OUT: Table = Table(
    "apart from=except|aside from=except|other than=except|with the exception of=except\
     |not counting=except|not including=except|but not=except|get rid of=remove|throw out=remove\
     |throw away=remove|sift out=remove|weed out=remove|kick out=remove|take out=remove\
     |filter out=remove|screen out=remove|discard=remove|cull=remove|eliminate=remove|ditch=remove\
     |toss=remove|dump=remove|reject=remove|leave out=without|leaving out=without\
     |leave aside=without|minus=without|have no=without|has no=without|having no=without\
     |carry no=without|show no=without|contain no=without|do not have=without|does not have=without\
     |lack=without|lacks=without|missing=without|left out=removed|taken out=removed\
     |thrown out=removed|filtered out=removed|weeded out=removed|sorted out=removed\
     |excluded=removed|omitted=removed|skipped=removed|dropped=removed|discarded=removed\
     |none from=not from|none of=not of|none in=not in|by cameras other than=not\
     |by a camera other than=not|with cameras other than=not|where no=without|on which no=without\
     |in which no=without|free of=without|nothing else=only|hand me=give me|not one of=not\
     |outside of=not in|stay out=removed",
);

/// What pictures look like.
const LOOKS: Table = Table(
    "out of focus=blurred|not sharp=blurred|not in focus=blurred|in focus=sharp|focused=sharp\
     |tack sharp=sharp|fuzzy=blurred|shaky=blurred|defocused=blurred|defocussed=blurred\
     |unfocused=blurred|soft=blurred|motion blurred=blurred|motion blur=blurred\
     |camera shake=blurred|least sharp=blurriest|most blurred=blurriest\
     |clearest=sharpest|dim=dark|too dim=too dark|poorly lit=too dark|badly lit=too dark\
     |under exposed=underexposed|too light=too bright|over exposed=overexposed\
     |washed out=overexposed|over- and underexposed=overexposed and underexposed\
     |crisp to fuzzy=sharpest to blurriest|sharp to blurred=sharpest to blurriest\
     |blown out=overexposed|burnt out=overexposed\
     |representative=best|single best=best|very best=best|whatever is=that are\
     |anything that is=that are|everything that is=that are|that is=that are|that were=that are\
     |which were=that are|which is=that are",
);

/// Copies and bursts. `PHOTOS` is any word for pictures.
const COPIES: Table = Table(
    "exact copies=identicals|exact duplicates=identicals|identical copies=identicals\
     |identical PHOTOS=identicals|nearly identical PHOTOS=duplicates\
     |near identical PHOTOS=duplicates|near duplicates=duplicates|duplicate PHOTOS=duplicates\
     |double PHOTOS=duplicates|doubles=duplicates|dupes=duplicates|look alikes=duplicates\
     |lookalikes=duplicates|set of duplicates=duplicate|sets of duplicates=duplicate\
     |one of each set of identicals=without identicals\
     |one of each pair of identicals=without identicals|with no two alike=without duplicates\
     |no two alike=without duplicates|each PHOTOS once=without duplicates\
     |every PHOTOS once=without duplicates|each motif once=without duplicates\
     |every motif once=without duplicates|that look the same=which are duplicates\
     |that look alike=which are duplicates|sequence=burst|sequences=bursts|burst sequences=bursts\
     |burst series=burst|of each motif=of each duplicate\
     |that exist twice=which are identicals|of every motif=of each duplicate\
     |that are there twice=which are identicals|that are there twice or more=which are identicals\
     |burst PHOTOS=bursts|PHOTOS bursts=bursts",
);

/// What is made of the pictures.
const OUTPUTS: Table = Table(
    "contact sheet|contact sheets|contact print=contact sheet|contact prints=contact sheets\
     |proof sheet=contact sheet|proof sheets=contact sheets|index sheet=contact sheet\
     |index print=contact sheet|page of thumbnails=contact sheet|sheet of thumbnails=contact sheet\
     |collage=contact sheet|gallery=album|galleries=albums|gallery page=album|slideshow=album\
     |slide show=album|web page=album|html page=album|web album=album|photo book=album\
     |PHOTOS album=album|new album=album|new folder=folder|chapter=folder|chapters=folders\
     |section=folder|subfolder=folder|subfolders=folders|sub folder=folder|directory=folder\
     |directories=folders|subdirectory=folder|subdirectories=folders|side by side=them\
     |its own folder=them|its own album=them|their own folders=them|separate folders=them\
     |separate album=album|separate albums=albums|with the date under each PHOTOS=them\
     |with the date under each=them|aside in=in|titled=called|labelled=called|by the name of=called\
     |album name=album called|album named=album called|folder named=folder called",
);

/// How pictures are grouped and ordered.
const GROUPS: Table = Table(
    "split up=split|divide up=divide|divided up=divided|break down=split|broken down=split\
     |daily=by day|weekly=by week|monthly=by month|yearly=by year|hourly=by hour|every group=each\
     |each group=each|each one=each|each individual=each|within each=each|inside each=each\
     |on each=of each|for each=each|for every=each|every PHOTOS=all|by the=by|on top=first\
     |at the top=first|very first=first|very last=last|day they were taken=day|day taken=day\
     |day of capture=day|capture date=day|shooting date=day|calendar day=day|calendar week=week\
     |calendar month=month|kind of thing=class|type of object=class|spot=place\
     |counts as the same place=them|counts as one place=them|that share a=by|and inside that=then\
     |and within that=then|inside that=then|in the order in which they were taken=chronologically\
     |in the order they were taken=chronologically|in order of time=chronologically\
     |in time order=chronologically|by capture time=chronologically|nobody took PHOTOS for=gap of\
     |nobody took a PHOTOS for=gap of|no PHOTOS were taken for=gap of|christmas eve=on 24 december\
     |christmas day=on 25 december|dark to bright=darkest to brightest\
     |bright to dark=brightest to darkest|old to new=oldest to newest|new to old=newest to oldest\
     |good to bad=best to worst|small to large=smallest to largest\
     |large to small=largest to smallest|better half=best 50 percent|better ones=best\
     |half a dozen=6|a dozen=12|a couple of=2|a pair of=2",
);

/// Words of other kinds that mean what one of the rules does.
const OTHERS: Table = Table(
    "out of=of|go into=into|go in=into|goes in=into|on them=them|delete nothing=them|goes into=into\
     |the rest=them|the remainder=them|the others=them|everything else=them|all other=all\
     |what remains=them|what is left=them|of each other=them|remaining=them|the remaining=them\
     |next to each other=them|or so=them|with the code they show=with code|code they show=code\
     |code on them=code|what their code says=code|content of the code=code|text of the code=code\
     |barcode or qr code=code|qr code or barcode=code|&=and|go through=show|look through=show\
     |lay out=show|i'm looking for=find|i am looking for=find|pick out=pick|look for=find\
     |looks like=look like|hand over=give|those with=ones with|those without=ones without\
     |how many=show|have i=them|do i have=them|did i take=taken|did we take=taken|are there=them\
     |that has=that have|which has=which have|that shows=that show|that contains=that contain\
     |camera model=camera|model=camera|search for=find|todays=today|yesterdays=yesterday\
     |would like=want|i'd like=want|i'd love=want|want to see=want|want to have=want|i took=taken\
     |we took=taken|photographed=taken|captured=taken|recorded=taken|snapped=taken|using=with\
     |clean up=clean|tidy up=tidy|tell me=show me|let me see=show me|let me have=show me\
     |place them=put them|on which=with|in which=with|can be read=them|can be seen=them\
     |is visible=them|is readable=them|are readable=them|a readable=a|no readable=no\
     |the readable=the|are visible=them|is seen=them|px=pixels|%=percent\
     |pixels in width=pixels wide|pixels in height=pixels high|pixels across=pixels wide\
     |in the mornings=mornings|in the evenings=evenings|in the afternoons=afternoons\
     |earlier than=before|later than=after|nothing but=only|a single=one|exactly one=one",
);

/// Beginnings of questions about the pictures of a folder, which an album answers.
const QUESTIONS: Table = Table(
    "what cameras are used=by camera|which cameras are used=by camera|what cameras=by camera\
     |which cameras=by camera|which camera=by camera|what devices=by camera\
     |which devices=by camera|where=by place|on which days=by day|which days=by day",
);

/// Purposes behind "for", which change nothing.
const PURPOSES: &str = "\
    album|archive|audit|blog|boss|brochure|calendar|catalogue|claim|client|customer|exhibition\
    |family|file|files|friends|grandparents|inspection|insurance|insurer|listing|manager|meeting\
    |newsletter|parents|portfolio|presentation|records|report|school|shop|team|website";

/// Words in front of `removed`.
const AUXILIARIES: &str = "all|are|be|being|can|have|is|must|should|to|were";

/// Words of what is removed, beside those for pictures and copies.
const DESCRIBED: &str = "\
    dark|bright|too|underexposed|overexposed|undated|png|pngs|jpeg|jpegs|webp|gif|and|or";

/// Splits a request into words and brings them into the form that the rules read.
pub(super) fn normal_form(text: &str) -> Vec<Token> {
    let tokens = tokens_with_commas(text).into_iter();
    let split = tokens.flat_map(|(word, has_comma)| {
        let words = without_contraction(&word);
        let words = words.or_else(|| without_unit(&word)).unwrap_or(vec![word]);
        let last = words.len() - 1;
        let words = words.into_iter().enumerate();
        words.map(move |(n, word)| (word, has_comma && n == last))
    });
    let mut words: Vec<Token> = split.collect();
    split_hyphens(&mut words);
    drop_reason(&mut words);
    resolve_definition(&mut words);
    if words.iter().any(|(word, _)| is_folder(word)) {
        let begin = words
            .iter()
            .position(|(word, _)| !one_of("please|and|so", &word.to_lowercase()));
        replace_at(&mut words, begin.unwrap_or(0), &[QUESTIONS]);
    }
    for _ in 0..PASSES {
        let mut at = 0;
        while at < words.len() {
            at += replace_at(&mut words, at, &SYNONYMS).max(1);
        }
    }
    drop_purpose(&mut words);
    same_noun_as_grouping(&mut words);
    removal_in_front(&mut words);
    words
}

/// Splits `aren't` into `are` and `not`.
fn without_contraction(word: &str) -> Option<Vec<String>> {
    let verbs = "are|is|was|were|do|does|did|have|has";
    let verb = word.strip_suffix("n't").or(word.strip_suffix("n’t"))?;
    one_of(verbs, &verb.to_lowercase()).then(|| vec![verb.to_owned(), "not".to_owned()])
}

/// Splits `100KB` into `100` and `KB`.
fn without_unit(word: &str) -> Option<Vec<String>> {
    let begin = word.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (digits, unit) = word.split_at(begin);
    let is_unit = one_of("kb|mb|mp|px|%|km", &unit.to_lowercase());
    (is_unit && !digits.is_empty()).then(|| vec![digits.to_owned(), unit.to_owned()])
}

/// The word at a place in lower case; empty outside.
fn word(words: &[Token], at: usize) -> String {
    words
        .get(at)
        .map_or_else(String::new, |(word, _)| word.to_lowercase())
}

/// Returns whether a word of a list stands at a place.
fn is_in(words: &[Token], at: usize, list: &str) -> bool {
    at < words.len() && one_of(list, &word(words, at))
}

/// Returns whether a comma follows the word at a place.
fn has_comma(words: &[Token], at: usize) -> bool {
    words.get(at).is_some_and(|(_, has_comma)| *has_comma)
}

/// Replaces words; a comma behind the last of them stays.
fn replace(words: &mut Vec<Token>, places: Range<usize>, with: &str) {
    let comma = places.end > 0 && has_comma(words, places.end - 1);
    let count = with.split_whitespace().count();
    let with = with.split_whitespace().enumerate();
    let with = with.map(|(n, word)| (word.to_owned(), comma && n + 1 == count));
    drop(words.splice(places, with));
}

/// Returns whether the name of what is made stands at a place.
fn is_name(words: &[Token], at: usize) -> bool {
    let leads = "called|named|camera|collection|folder|zone|rule";
    at.checked_sub(1).is_some_and(|at| is_in(words, at, leads))
}

/// Splits `near-identical` and `landscape-format`: words that a table has with a space.
fn split_hyphens(words: &mut Vec<Token>) {
    for at in (0..words.len()).rev() {
        let spaced = word(words, at).replace('-', " ");
        let begins = |phrase: &str| {
            let behind = phrase.strip_prefix(spaced.as_str());
            behind.is_some_and(|behind| behind.is_empty() || behind.starts_with(' '))
        };
        let mut phrases = SYNONYMS.iter().flat_map(|table| table.phrases());
        let is_shape = one_of("landscape format|portrait format|upright format", &spaced);
        let is_split = spaced.contains(' ') && (is_shape || phrases.any(begins));
        if is_split && word(words, at).contains('-') && !is_name(words, at) {
            replace(words, at..at + 1, &spaced);
        }
    }
}

/// Words of a reason, beside those of [`PURPOSES`]. No rule reads one of them.
const REASON: &str = "\
    a|an|asks|because|can|could|give|has|have|he|i|in|it|me|must|my|need|needs|our|print|publish\
    |send|share|she|show|so|that|the|them|they|to|use|want|wants|we|you";

/// Drops `because I need them for the website`, up to a comma or the end. Another word keeps all.
fn drop_reason(words: &mut Vec<Token>) {
    let begins = |at: &usize| {
        is_in(words, *at, "because") || is_in(words, *at, "so") && is_in(words, at + 1, "that")
    };
    let Some(begin) = (0..words.len()).find(begins) else {
        return;
    };
    let end = (begin..words.len()).find(|at| has_comma(words, *at));
    let end = end.map_or(words.len(), |at| at + 1);
    let is_reason = |at: usize| {
        is_in(words, at, REASON) || is_in(words, at, "for") || is_in(words, at, PURPOSES)
    };
    if (begin..end).all(is_reason) {
        replace(words, begin..end, "");
    }
}

/// Replaces a word by the one that defines it: `the houses are the subfolders`, `(the drone is the
/// DJI)`. Such a clause ends the request or stands before a comma.
fn resolve_definition(words: &mut Vec<Token>) {
    let articles = "a|an|each|every|my|one|the";
    let is_known =
        |noun: &str| is_maker(noun) || noun == "subfolder" || GROUPINGS.get(noun) == Some("folder");
    let noun = |at: usize| singular(&word(words, at));
    let found = (0..words.len()).find_map(|begin| {
        let value = begin + 3 + usize::from(is_in(words, begin + 3, articles));
        let is_clause = is_in(words, begin, articles) && is_in(words, begin + 2, "are|is|means");
        let is_end = value + 1 == words.len() || has_comma(words, value);
        let outside = |wanted: &str| {
            let mut others = (0..begin).chain(value + 1..words.len());
            others.any(|at| noun(at) == wanted)
        };
        let (name, meaning) = (noun(begin + 1), noun(value));
        let pairs = [(name.clone(), meaning.clone()), (meaning, name)];
        let mut pairs = pairs.into_iter();
        let pair = pairs.find(|(from, to)| is_known(to.as_str()) && outside(from.as_str()));
        (is_clause && is_end).then_some((begin..value + 1, pair?))
    });
    let Some((clause, (from, to))) = found else {
        return;
    };
    replace(words, clause, "");
    for (word, _) in words {
        if singular(&word.to_lowercase()) == from {
            word.clone_from(&to);
        }
    }
}

/// Replaces the longest phrase at a place by its meaning; returns the number of words of that.
fn replace_at(words: &mut Vec<Token>, at: usize, tables: &[Table]) -> usize {
    if is_name(words, at) {
        return 0;
    }
    let stands = |phrase: &str| {
        let count = phrase.split(' ').count();
        let mut pairs = phrase.split(' ').zip(at..);
        let is_there = pairs.all(|(word, n)| {
            let found = words.get(n);
            found.is_some_and(|(found, has_comma)| {
                let is_photo = word == "PHOTOS" && is_photo(found);
                let is_word = is_photo || found.eq_ignore_ascii_case(word);
                is_word && (!has_comma || n + 1 == at + count)
            })
        });
        is_there.then_some(count)
    };
    let entries = tables.iter().flat_map(|table| table.entries());
    let found = entries.filter_map(|(phrase, meaning)| Some((stands(phrase)?, meaning)));
    let Some((count, meaning)) = found.max_by_key(|(count, _)| *count) else {
        return 0;
    };
    replace(words, at..at + count, meaning);
    meaning.split(' ').count()
}

fn is_photo(word: &str) -> bool {
    is_picture_noun(word) || one_of("file|files|ones", &word.to_lowercase())
}

/// Drops `for my report`.
fn drop_purpose(words: &mut Vec<Token>) {
    let is_purpose = |at: &usize| {
        let article = at + 1;
        let noun = article + usize::from(is_in(words, article, "a|an|my|our|the"));
        is_in(words, *at, "for") && noun > article && is_in(words, noun, PURPOSES)
    };
    if let Some(at) = (0..words.len()).find(is_purpose) {
        replace(words, at..at + 3, "");
    }
}

/// Reads `taken on the same day` and `day by day` as `by day`.
fn same_noun_as_grouping(words: &mut Vec<Token>) {
    for at in 1..words.len() {
        let noun = word(words, at);
        if GROUPINGS.get(&singular(&noun)).is_none() {
            continue;
        }
        if is_in(words, at - 1, "same") {
            let begin = at - 1 - usize::from(at > 1 && is_in(words, at - 2, "the"));
            let leads = ["at|by|from|in|of|on|with", "made|shot|taken"];
            let begin = leads.iter().fold(begin, |begin, list| {
                begin - usize::from(begin > 0 && is_in(words, begin - 1, list))
            });
            replace(words, begin..at, "by");
        } else if is_in(words, at - 1, "by") && at > 1 && word(words, at - 2) == noun {
            replace(words, at - 2..at, "by");
        }
    }
}

/// Reads `duplicates removed` and `the blurred ones should go` as `without` them. "The dark ones go
/// into an album" removes nothing.
fn removal_in_front(words: &mut Vec<Token>) {
    let mut at = 1;
    while at < words.len() {
        let ends = at + 1 == words.len() || has_comma(words, at) || is_in(words, at + 1, "and");
        let is_verb = is_in(words, at, "removed") || ends && is_in(words, at, "out|go");
        let is_helper = |n: &usize| is_in(words, *n, AUXILIARIES);
        let end = (0..at).rev().find(|n| !is_helper(n)).map_or(0, |n| n + 1);
        let is_part = |n: &usize| {
            let ends = n + 1 == end || !has_comma(words, *n);
            ends && is_described(&word(words, *n))
        };
        let begin = (0..end).rev().take_while(is_part).last().unwrap_or(end);
        let is_bare = |n: usize| one_of(BETWEEN, &word(words, n));
        if is_verb && !is_name(words, at) && !(begin..end).all(is_bare) {
            replace(words, end - 1..at + 1, &word(words, end - 1));
            let with = usize::from(begin > 0 && is_in(words, begin - 1, "with|and"));
            replace(words, begin - with..begin, "without");
            at = end;
        }
        at += 1;
    }
}

/// Returns whether a word may be one of what is removed.
fn is_described(word: &str) -> bool {
    let lists = [BETWEEN, DESCRIBED];
    let is_listed = lists.iter().any(|list| one_of(list, word));
    is_listed || is_picture_word(word) || BLURRED.contains(&word) || DUPLICATES.contains(&word)
}
