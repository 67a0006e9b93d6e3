//! The verbs of a request: that it watches or counts, what happens in the picture, what is wanted of an event.
//!
//! Invariant: a word that was used is marked, so that no other phrase takes it; what nobody here can do is noted, never dropped.

use crate::lexicon::Lexicon;
use crate::need::Notes;
use crate::reader::Reader;

/// Whether a verb of watching and one of counting stood there; all of them are used.
pub(super) fn verbs(r: &mut Reader, lexicon: &Lexicon) -> (bool, bool) {
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
pub(super) fn wishes(r: &mut Reader, notes: &mut Notes) -> bool {
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
    clip || still
}

/// What happens, by the words for it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Acts {
    pub(super) crosses: bool,
    pub(super) enters: bool,
    pub(super) leaves: bool,
    pub(super) stays: bool,
    pub(super) empty: bool,
    pub(super) occupied: bool,
}

/// Takes the words for what happens.
pub(super) fn acts(r: &mut Reader) -> Acts {
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
