//! Flags of `watchkeeper watch`.

use std::collections::BTreeMap;

use clap::Args;
use clap::builder::PossibleValuesParser;
use watchkeeper_plain::templates::names;

use super::value::count;

#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  watchkeeper watch intruder --hours \"between 20:00 and 06:00\"
  watchkeeper watch loitering --camera gate --zone \"the left half\" --for \"90 seconds\"
  watchkeeper watch line-crossing --class trucks --direction \"from right to left\"")]
pub(crate) struct WatchArgs {
    /// Template of the watch; `--list` describes them.
    #[arg(required_unless_present = "list", value_parser = PossibleValuesParser::new(names()))]
    pub template: Option<String>,
    /// List the templates, their flags and defaults.
    #[arg(long, conflicts_with = "template")]
    pub list: bool,
    /// ID or name of the camera [default: the only one].
    #[arg(long, value_name = "CAMERA")]
    pub camera: Option<String>,
    /// Objects to watch for, such as "people or cars".
    #[arg(long, value_name = "CLASS")]
    pub class: Option<String>,
    /// Part of the picture, such as "the left half", or the name of a zone.
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,
    /// Line in the picture, such as "vertical line at 50%".
    #[arg(long, value_name = "LINE")]
    pub line: Option<String>,
    /// Direction over the line, such as "from left to right".
    #[arg(long, value_name = "DIRECTION")]
    pub direction: Option<String>,
    /// How long it has to be so, such as "2 minutes".
    #[arg(long = "for", value_name = "DURATION")]
    pub time: Option<String>,
    /// Smallest number of objects that is too many, such as "5".
    #[arg(long, value_name = "NUMBER", value_parser = count::<u32>)]
    pub number: Option<u32>,
    /// Hours of the watch, such as "between 22:00 and 06:00".
    #[arg(long, value_name = "HOURS")]
    pub hours: Option<String>,
    /// Shortest time between two events, such as "5 minutes".
    #[arg(long, value_name = "DURATION")]
    pub quiet: Option<String>,
    /// Apply without confirmation.
    #[arg(long)]
    pub yes: bool,
}

/// Parameters of templates, which are the names of their flags.
pub(crate) const PARAMETERS: [&str; 9] = [
    "camera",
    "class",
    "zone",
    "line",
    "direction",
    "for",
    "number",
    "hours",
    "quiet",
];

impl WatchArgs {
    /// Values that were given, by the parameters of templates.
    pub(crate) fn values(&self) -> BTreeMap<String, String> {
        let number = self.number.map(|number| number.to_string());
        // With the article a name that is also a class, such as `bench`, is a place.
        let with_article = |zone: &String| match zone.starts_with("the ") {
            true => zone.clone(),
            false => format!("the {zone}"),
        };
        let zone = self.zone.as_ref().map(with_article);
        let given = [
            &self.camera,
            &self.class,
            &zone,
            &self.line,
            &self.direction,
            &self.time,
            &number,
            &self.hours,
            &self.quiet,
        ];
        let named = PARAMETERS.iter().zip(given);
        named
            .filter_map(|(name, value)| Some(((*name).to_owned(), value.clone()?)))
            .collect()
    }
}
