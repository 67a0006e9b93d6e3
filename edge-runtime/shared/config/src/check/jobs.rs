//! Checks the sections `[agent.jobs.NAME]`.
//!
//! - A section with an error is left out and named; the others are used.
//! - A schedule has one plan or request, and one trigger.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Zoned;
use watchkeeper_contract::id::{ChannelId, SourceId};

use super::values::{Values, is_spoilt, origin};
use crate::error::ConfigError;
use crate::jobs::{CronTimes, EventFilter, MAX_SCHEDULES, ScheduleConfig, ScheduledWork, Trigger};

/// Times for which the folder of the output is tried.
const TRIED_TIMES: usize = 60;

/// Reads the schedules of jobs, in the order of their names.
pub(super) fn schedules(values: &Values<'_>, errors: &mut Vec<ConfigError>) -> Vec<ScheduleConfig> {
    let mut schedules = Vec::new();
    for name in values
        .names("agent.jobs")
        .filter(|name| !name.contains('.'))
    {
        let section = format!("agent.jobs.{name}");
        let is_good = !is_spoilt(&section, errors);
        let before = errors.len();
        if ChannelId::new(name).is_err() {
            let problem = "is not a name: 1 to 40 of a-z, 0-9, '-' and '_'";
            let origin = origin(values.read, &section);
            errors.push(ConfigError::new(section.clone(), problem, origin));
        }
        let work = work(values, &section, errors);
        let trigger = trigger(values, &section, errors);
        let output = output(values, &section, trigger.as_ref(), errors);
        let (Some(work), Some(trigger)) = (work, trigger) else {
            continue;
        };
        if errors.len() > before || !is_good {
            continue;
        }
        let keep_last = values.whole(&format!("{section}.keep_last"));
        schedules.push(ScheduleConfig {
            name: name.to_owned(),
            work,
            trigger,
            output,
            keep_last: keep_last.and_then(|n| usize::try_from(n).ok()),
            notify_failure: values.switch(&format!("{section}.notify_failure")),
        });
    }
    if let Some(over) = schedules.get(MAX_SCHEDULES) {
        let key = format!("agent.jobs.{}", over.name);
        let problem = format!("is too many: there are {} schedules", schedules.len());
        let error = ConfigError::new(key.clone(), problem, origin(values.read, &key));
        errors.push(error.allowed(format!("{MAX_SCHEDULES} schedules at most")));
    }
    schedules
}

fn wrong_section(values: &Values<'_>, section: &str, problem: &str) -> ConfigError {
    ConfigError::new(section, problem, origin(values.read, section))
}

fn work(
    values: &Values<'_>,
    section: &str,
    errors: &mut Vec<ConfigError>,
) -> Option<ScheduledWork> {
    let plan = values.path(&format!("{section}.plan"));
    match (plan, values.text(&format!("{section}.request"))) {
        (Some(file), None) => {
            if !file.is_file() {
                let key = format!("{section}.plan");
                let error = values.error(&key, "is not a file");
                errors.push(error.found(file.display().to_string()));
                return None;
            }
            Some(ScheduledWork::Plan(file))
        }
        (None, Some(text)) => Some(ScheduledWork::Request(text)),
        (plan, _) => {
            let problem = match plan {
                Some(_) => "has both a plan and a request; keep one",
                None => "needs a plan or a request",
            };
            let is_spoilt = |last| is_spoilt(&format!("{section}.{last}"), errors);
            if !is_spoilt("plan") && !is_spoilt("request") {
                errors.push(wrong_section(values, section, problem));
            }
            None
        }
    }
}

fn trigger(values: &Values<'_>, section: &str, errors: &mut Vec<ConfigError>) -> Option<Trigger> {
    let key = |last: &str| format!("{section}.{last}");
    let on = key("on.");
    let mut written = values.read.values.keys();
    let has_filter = written.any(|path| path.starts_with(&on)) || is_spoilt(&key("on"), errors);
    let useless = match has_filter {
        true => key("catch_up"),
        false => key("min_interval_s"),
    };
    if values.found(&useless).is_some() {
        let problem = match has_filter {
            true => "has no effect without cron",
            false => "has no effect without on",
        };
        errors.push(values.error(&useless, problem));
    }
    match (values.text(&key("cron")), has_filter) {
        (Some(text), false) => match CronTimes::parse(&text) {
            Ok(times) => Some(Trigger::Cron {
                times,
                catch_up: values.switch(&key("catch_up")),
            }),
            Err(problem) => {
                let key = key("cron");
                let error = values.error(&key, problem);
                errors.push(
                    error
                        .found(text)
                        .allowed("five fields, such as \"0 6 * * MON\""),
                );
                None
            }
        },
        (None, true) => Some(Trigger::On(EventFilter {
            camera: values.name(&key("on.camera"), SourceId::new, errors),
            class: values.text(&key("on.class")),
            rule: values.text(&key("on.rule")),
            verdict: values.choice(&key("on.verdict")),
            min_interval: values.seconds(&key("min_interval_s")),
        })),
        (cron, _) => {
            let problem = match cron {
                Some(_) => "has both cron and on; keep one",
                None => "needs cron, or on with a camera, class, rule or verdict",
            };
            if !is_spoilt(&key("cron"), errors) && !is_spoilt(&key("on"), errors) {
                errors.push(wrong_section(values, section, problem));
            }
            None
        }
    }
}

/// Reads the pattern of the output folder, which must give a new one for each job.
fn output(
    values: &Values<'_>,
    section: &str,
    trigger: Option<&Trigger>,
    errors: &mut Vec<ConfigError>,
) -> Option<String> {
    let key = format!("{section}.output");
    let pattern = values.text(&key)?;
    let now = jiff::Zoned::now();
    let problem = match wrong_pattern(&pattern, trigger, &now) {
        None => return Some(pattern),
        Some(problem) => problem,
    };
    let error = values.error(&key, problem);
    errors.push(
        error
            .found(pattern)
            .allowed(format!("a path such as {}", example(trigger, &now))),
    );
    None
}

/// The shortest usual pattern that gives each of the next jobs a folder of its own.
fn example(trigger: Option<&Trigger>, now: &Zoned) -> &'static str {
    let usual = ["/srv/albums/%Y-%m-%d", "/srv/albums/%Y-%m-%d-%H%M"];
    let mut good = usual
        .into_iter()
        .filter(|pattern| wrong_pattern(pattern, trigger, now).is_none());
    good.next().unwrap_or("/srv/albums/%Y-%m-%d-%H%M%S")
}

/// Why a pattern gives no new folder for each of the next jobs.
fn wrong_pattern(pattern: &str, trigger: Option<&Trigger>, now: &Zoned) -> Option<String> {
    let mut folders = BTreeMap::new();
    for time in next_times(trigger, now) {
        let Ok(folder) = jiff::fmt::strtime::format(pattern, &time) else {
            return Some("has an unknown %; write a percent sign as %%".to_owned());
        };
        if !Path::new(&folder).is_absolute() {
            return Some("is not an absolute path".to_owned());
        }
        if let Some(before) = folders.insert(folder, time.clone()) {
            let (before, time) = (before.strftime("%F %H:%M:%S"), time.strftime("%F %H:%M:%S"));
            return Some(format!("is the same folder at {before} and at {time}"));
        }
    }
    None
}

/// Times at which jobs may begin: the next ones of a cron text, or as soon after each other as
/// events may start them.
fn next_times(trigger: Option<&Trigger>, now: &Zoned) -> Vec<Zoned> {
    let zone = now.time_zone();
    let next = |after: &Zoned| match trigger? {
        Trigger::Cron { times, .. } => {
            let time = times.next_after(after.timestamp(), zone)?;
            Some(time.to_zoned(zone.clone()))
        }
        Trigger::On(filter) => after.checked_add(filter.min_interval).ok(),
    };
    // Intervals begin with a day: the result must not depend on the time of the check.
    let first = match trigger {
        Some(Trigger::Cron { .. }) => next(now),
        Some(Trigger::On(_)) | None => Some(now.start_of_day().unwrap_or_else(|_| now.clone())),
    };
    let times = std::iter::successors(first, next);
    times.take(TRIED_TIMES).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use std::time::Duration;

    use super::*;

    fn wrong(pattern: &str, trigger: &Trigger) -> Option<String> {
        let now = "2026-11-28T14:15:00[UTC]".parse().unwrap();
        wrong_pattern(pattern, Some(trigger), &now)
    }

    #[test]
    fn folder_must_be_new_for_each_of_the_next_jobs() {
        let cron = |text: &str| Trigger::Cron {
            times: CronTimes::parse(text).unwrap(),
            catch_up: false,
        };
        let events = Trigger::On(EventFilter {
            camera: None,
            class: None,
            rule: None,
            verdict: None,
            min_interval: Duration::from_secs(600),
        });
        let (daily, hourly) = (cron("0 6 * * *"), cron("0 * * * *"));
        let now = "2026-11-28T14:15:00[UTC]".parse().unwrap();
        for (trigger, proposed) in [
            (&daily, "/srv/albums/%Y-%m-%d"),
            (&cron("* * * * *"), "/srv/albums/%Y-%m-%d-%H%M"),
            (&events, "/srv/albums/%Y-%m-%d-%H%M"),
        ] {
            assert_eq!(example(Some(trigger), &now), proposed);
        }
        for (pattern, trigger) in [
            ("/srv/%Y-%m-%d", &daily),
            ("/srv/%F-%H", &hourly),
            ("/srv/%F/%H%M", &events),
        ] {
            assert_eq!(wrong(pattern, trigger), None, "{pattern}");
        }
        for (pattern, trigger) in [
            ("/srv/%Y-%m-%d", &hourly),
            ("/srv/%Y-%m-%d", &events),
            ("/srv/%a", &daily),
            ("/srv/100%%", &daily),
            ("/srv/album", &daily),
        ] {
            let problem = wrong(pattern, trigger).unwrap();
            assert!(
                problem.contains("is the same folder"),
                "{pattern}: {problem}"
            );
        }
    }
}
