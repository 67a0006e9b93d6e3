//! Schedules of rules.
//!
//! - A span that passes midnight belongs to the day on which it begins.

use watchkeeper_contract::rule::{Schedule, Weekday, end_minute, minute_of_day};

use super::moment::LocalTime;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ActiveSchedule {
    days: Vec<Weekday>,
    from: u16,
    to: u16,
}

impl ActiveSchedule {
    /// Parses a schedule, or returns the name of the field with an invalid time.
    pub(super) fn new(schedule: &Schedule) -> Result<Self, &'static str> {
        Ok(Self {
            days: schedule.days.clone(),
            from: minute_of_day(&schedule.from).ok_or("from")?,
            to: end_minute(&schedule.to).ok_or("to")?,
        })
    }

    /// Returns whether a span that began on one of the days covers this time.
    pub(super) fn at(&self, local: LocalTime) -> bool {
        let m = local.minute_of_day;
        let today = self.begins_on(local.weekday);
        if self.from < self.to {
            return today && (self.from..self.to).contains(&m);
        }
        today && m >= self.from || self.begins_on(before(local.weekday)) && m < self.to
    }

    fn begins_on(&self, day: Weekday) -> bool {
        self.days.is_empty() || self.days.contains(&day)
    }
}

/// Returns whether a schedule is active; `None` if one of its times is invalid.
pub fn is_awake(schedule: &Schedule, local: LocalTime) -> Option<bool> {
    ActiveSchedule::new(schedule)
        .ok()
        .map(|awake| awake.at(local))
}

fn before(day: Weekday) -> Weekday {
    let at = Weekday::ALL.iter().position(|&d| d == day).unwrap_or(0);
    Weekday::ALL[(at + 6) % 7]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn awake(days: &[Weekday], from: &str, to: &str) -> ActiveSchedule {
        let s = Schedule {
            days: days.to_vec(),
            from: from.into(),
            to: to.into(),
        };
        ActiveSchedule::new(&s).unwrap()
    }

    fn at(weekday: Weekday, h: u16, m: u16) -> LocalTime {
        LocalTime {
            weekday,
            minute_of_day: h * 60 + m,
        }
    }

    #[test]
    fn schedule_includes_from_and_excludes_to() {
        let a = awake(&[], "08:00", "17:30");
        assert!(a.at(at(Weekday::Wed, 8, 0)));
        assert!(a.at(at(Weekday::Wed, 17, 29)));
        assert!(!a.at(at(Weekday::Wed, 17, 30)));
        assert!(!a.at(at(Weekday::Wed, 7, 59)));
    }

    #[test]
    fn night_span_belongs_to_its_first_day() {
        let a = awake(&[Weekday::Fri], "22:00", "06:00");
        assert!(a.at(at(Weekday::Fri, 23, 0)));
        assert!(a.at(at(Weekday::Sat, 5, 59)));
        assert!(!a.at(at(Weekday::Sat, 22, 0)));
        assert!(!a.at(at(Weekday::Fri, 3, 0)));
    }

    #[test]
    fn sunday_night_span_ends_on_monday() {
        let a = awake(&[Weekday::Sun], "22:00", "06:00");
        assert!(a.at(at(Weekday::Mon, 1, 0)));
        assert!(!a.at(at(Weekday::Sun, 1, 0)));
    }

    #[test]
    fn equal_from_and_to_mean_all_day() {
        let a = awake(&[Weekday::Mon], "09:00", "09:00");
        assert!(a.at(at(Weekday::Mon, 9, 0)));
        assert!(a.at(at(Weekday::Tue, 8, 59)));
        assert!(!a.at(at(Weekday::Tue, 9, 0)));
    }

    #[test]
    fn midnight_as_24_00_ends_the_day() {
        let a = awake(&[Weekday::Mon], "22:00", "24:00");
        assert!(a.at(at(Weekday::Mon, 23, 59)));
        assert!(!a.at(at(Weekday::Tue, 0, 0)));
        let all = awake(&[Weekday::Mon], "00:00", "24:00");
        assert!(all.at(at(Weekday::Mon, 0, 0)) && all.at(at(Weekday::Mon, 23, 59)));
        let days: Schedule = serde_json::from_str(r#"{"days": ["mon"]}"#).unwrap();
        assert_eq!(ActiveSchedule::new(&days), Ok(all), "days alone");
    }

    #[test]
    fn invalid_time_names_its_field() {
        for bad in [
            "24:01", "25:00", "8:00", "08:60", "0800", "", "+8:00", "08:00 ",
        ] {
            let s = Schedule {
                days: vec![],
                from: "08:00".into(),
                to: bad.into(),
            };
            assert_eq!(ActiveSchedule::new(&s), Err("to"), "{bad}");
        }
    }
}
