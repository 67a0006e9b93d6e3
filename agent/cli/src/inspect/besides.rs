//! What the file and the pipelines that were deployed by hand need of each other: channels, and
//! sources of chains.

use watchkeeper_config::{ChannelConfig, Config, SkippedSections};
use watchkeeper_contract::id::ChannelId;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::RuleSpec;

use super::chains;

/// Checks what pipelines that were deployed by hand need of the file: channels, and sources of
/// chains.
pub(crate) fn deployed(config: &Config, deployed: &[PipelineSpec]) -> Vec<String> {
    let mut notes = Vec::new();
    for spec in deployed {
        let rules = spec.rules.iter().flatten();
        for (rule, channel) in rules.flat_map(|rule| channels_of(rule).map(move |to| (rule, to))) {
            if !config.channels.iter().any(|known| known.id == *channel) {
                notes.push(format!(
                    "pipeline {} was deployed by hand, and its rule {} notifies {channel}, which is \
                     not a channel; add a section [channels.{channel}]",
                    spec.id, rule.name
                ));
            }
        }
    }
    let by_hand = Config {
        pipelines: deployed.to_vec(),
        ..config.clone()
    };
    let chains = chains::check(&by_hand, &SkippedSections::default());
    notes.extend(chains.iter().map(|error| {
        let found = error.found.as_deref().unwrap_or_default();
        format!("{}, deployed by hand: {found} {}", error.key, error.problem)
    }));
    notes.extend(chains::reference_notes(&by_hand));
    notes
}

fn channels_of(rule: &RuleSpec) -> impl Iterator<Item = &ChannelId> {
    rule.notify.iter().chain(&rule.on_act)
}

/// Lists the channels that get nothing by this file: no rule names them, and no severity suffices.
pub(super) fn unnamed_channels(config: &Config, skipped: &SkippedSections) -> Vec<String> {
    let drafts = skipped.pipelines.iter().map(|draft| &draft.spec);
    let pipelines = config.pipelines.iter().chain(drafts);
    let rules = pipelines.flat_map(|spec| spec.rules.iter().flatten());
    let named: Vec<&ChannelId> = rules.flat_map(channels_of).collect();
    let channels = config.channels.iter();
    let unnamed = channels.filter(|channel| {
        channel.min_severity.is_none() && !named.contains(&&channel.id) && !skipped.has_unread
    });
    let note = |channel: &ChannelConfig| {
        let id = &channel.id;
        format!(
            "channels.{id}: no rule of the file has notify = [\"{id}\"], and min_severity is \
             missing; only rules deployed by hand can notify it"
        )
    };
    unnamed.map(note).collect()
}
