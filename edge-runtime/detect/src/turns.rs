//! Decides whose turn it is at a shared network: fair rates, and the earliest deadline among the
//! waiting streams.
//!
//! - Sans-IO: requests, ends of turns and times go in, the next stream comes out.
//! - The network may serve several streams at a time, in lanes; a stream has one at most.
//! - The time of the network is divided by weighted max-min fairness over the streams that asked in
//!   the last [`ACTIVE_FOR`]. One that wants less than its share gets all it wants, and the rest
//!   goes to the others. So a stream that wants more than it can have delays only itself.
//! - A stream's deadline is one period of its fair rate after its request, or after its last
//!   deadline if that is later. This is the constant bandwidth server of Abeni and Buttazzo (1998).
//!   It runs ahead of the clock by at most one period, so idle time that a stream used is not held
//!   against it.
//! - Equal deadlines are served in the order of their requests.
//! - A stream asks again only after its turn, so where others wait it has every other turn at most.
//! - A waiting stream keeps its deadline while those of all others advance: none starves.

use std::time::Duration;

/// Silence after which a stream has no share.
pub(crate) const ACTIVE_FOR: Duration = Duration::from_secs(2);

/// Silence after which a stream is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// Interval of dividing the network's time.
const DIVISION_INTERVAL: Duration = Duration::from_millis(500);

/// Weight of the newest turn in the mean length of a stream's turns.
const LEARNING: f64 = 0.2;

/// Longest period: a stream gets a turn at least this often.
const MAX_PERIOD: Duration = Duration::from_secs(10);

/// Rate that a stream asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ClaimedRate {
    /// Turns a second.
    pub(crate) rate: f64,
    /// Relative share if not all streams can have the rate that they want; over 0.
    pub(crate) weight: f64,
}

#[derive(Debug, Clone, Copy)]
struct Stream {
    id: u64,
    claimed: ClaimedRate,
    /// Mean seconds of a turn.
    cost_s: f64,
    /// Turns a second that it may count on.
    fair_rate: f64,
    deadline: Duration,
    asked: Duration,
    /// Whether [`divide`] may still raise its share.
    is_open: bool,
}

/// A request that waits.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    ticket: u64,
    stream: u64,
    deadline: Duration,
}

/// The turns at one network.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    streams: Vec<Stream>,
    waiting: Vec<Waiting>,
    next_ticket: u64,
    /// The requests that are served, with their streams and starts.
    serving: Vec<(u64, u64, Duration)>,
    /// Requests served at a time, at least 1.
    lanes: usize,
    divided: Option<Duration>,
}

impl Turns {
    /// Sets how many requests are served at a time, from the next request or end of a turn on.
    pub(crate) fn set_lanes(&mut self, lanes: usize) {
        self.lanes = lanes;
    }

    /// Enters a request of `stream` and returns its ticket.
    pub(crate) fn request(&mut self, stream: u64, claimed: ClaimedRate, now: Duration) -> u64 {
        let place = self.place(stream, claimed, now);
        self.divide_when_due(now);
        let deadline = self.streams.get_mut(place).map_or(now, |stream| {
            stream.deadline = next_deadline(stream, now);
            stream.deadline
        });
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiting.push(Waiting {
            ticket,
            stream,
            deadline,
        });
        self.serve_next(now);
        ticket
    }

    /// Whether it is the turn of this ticket.
    #[must_use]
    pub(crate) fn is_served(&self, ticket: u64) -> bool {
        self.serving.iter().any(|(served, ..)| *served == ticket)
    }

    /// Ends the turn of a request.
    pub(crate) fn end(&mut self, ticket: u64, now: Duration) {
        let Some(place) = self.serving.iter().position(|(of, ..)| *of == ticket) else {
            return;
        };
        let (_, id, began) = self.serving.swap_remove(place);
        let took_s = now.saturating_sub(began).as_secs_f64();
        if let Some(stream) = self.streams.iter_mut().find(|stream| stream.id == id) {
            let weight = if stream.cost_s == 0.0 { 1.0 } else { LEARNING };
            stream.cost_s += (took_s - stream.cost_s) * weight;
        }
        self.serve_next(now);
    }

    /// Number of the served and waiting requests.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.serving.len()
    }

    fn serve_next(&mut self, now: Duration) {
        while self.serving.len() < self.lanes.max(1) {
            let waiting = self.waiting.iter().enumerate();
            let next = waiting.min_by_key(|(_, waiting)| (waiting.deadline, waiting.ticket));
            let Some((place, _)) = next else { return };
            let Waiting { ticket, stream, .. } = self.waiting.swap_remove(place);
            self.serving.push((ticket, stream, now));
        }
    }

    /// The place of a stream in the table; enters a new one.
    fn place(&mut self, id: u64, claimed: ClaimedRate, now: Duration) -> usize {
        let known = self.streams.iter().position(|stream| stream.id == id);
        let Some(place) = known else {
            self.streams
                .retain(|stream| now.saturating_sub(stream.asked) < FORGOTTEN_AFTER);
            self.divided = None;
            self.streams.push(Stream {
                id,
                claimed,
                cost_s: 0.0,
                fair_rate: claimed.rate,
                deadline: Duration::ZERO,
                asked: now,
                is_open: false,
            });
            return self.streams.len() - 1;
        };
        if let Some(stream) = self.streams.get_mut(place) {
            if now.saturating_sub(stream.asked) >= ACTIVE_FOR {
                self.divided = None;
            }
            (stream.claimed, stream.asked) = (claimed, now);
        }
        place
    }

    fn divide_when_due(&mut self, now: Duration) {
        let is_recent = |at: Duration| now.saturating_sub(at) < DIVISION_INTERVAL;
        if self.divided.is_some_and(is_recent) {
            return;
        }
        self.divided = Some(now);
        divide(&mut self.streams, self.lanes.max(1), now);
    }
}

/// The deadline of a request at `now`.
fn next_deadline(stream: &Stream, now: Duration) -> Duration {
    let period = Duration::try_from_secs_f64(1.0 / stream.fair_rate);
    let period = period.unwrap_or(MAX_PERIOD).min(MAX_PERIOD);
    stream.deadline.clamp(now, now + period) + period
}

/// Divides the time of the network. Raises the shares of all active streams together, by their
/// weights, until each has what it wants or the time is used up.
fn divide(streams: &mut [Stream], lanes: usize, now: Duration) {
    let wanted_share = |stream: &Stream| (stream.claimed.rate * stream.cost_s).min(1.0);
    let by_weight = |stream: &Stream| wanted_share(stream) / stream.claimed.weight;
    let mut left = lanes as f64;
    for stream in streams.iter_mut() {
        stream.fair_rate = stream.claimed.rate;
        stream.is_open = now.saturating_sub(stream.asked) < ACTIVE_FOR;
    }
    // Each round satisfies a stream or is the last one.
    while streams.iter().any(|stream| stream.is_open) {
        let open = || streams.iter().filter(|stream| stream.is_open);
        let weights: f64 = open().map(|stream| stream.claimed.weight).sum();
        let lowest = open().map(by_weight).fold(f64::INFINITY, f64::min);
        let is_last = lowest * weights >= left;
        let room = left.max(0.0);
        for stream in streams.iter_mut().filter(|stream| stream.is_open) {
            if is_last && stream.cost_s > 0.0 {
                stream.fair_rate = room * stream.claimed.weight / weights / stream.cost_s;
            }
            stream.is_open = !is_last && by_weight(stream) > lowest;
            left -= if stream.is_open {
                0.0
            } else {
                wanted_share(stream)
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A camera of a simulation: a frame each period, and a slot of one for the newest.
    #[derive(Debug, Clone, Copy)]
    struct Camera {
        claimed: ClaimedRate,
        cost_s: f64,
    }

    const RUN: Duration = Duration::from_secs(40);

    /// Time before the turns are counted.
    const WARM_UP: Duration = Duration::from_secs(10);

    /// Simulates the network with so many lanes, and its cameras. Returns the turns a second of
    /// each.
    fn simulate(cameras: &[Camera], lanes: usize) -> Vec<f64> {
        let mut turns = Turns::default();
        turns.set_lanes(lanes);
        let mut now = Duration::ZERO;
        let mut served = vec![0_u32; cameras.len()];
        // Index of the last frame taken, the ticket that waits or is served, and the end of its
        // turn.
        let mut taken = vec![None; cameras.len()];
        let mut tickets: Vec<Option<u64>> = vec![None; cameras.len()];
        let mut ends: Vec<Option<Duration>> = vec![None; cameras.len()];
        let mut ask = |turns: &mut Turns, tickets: &mut [Option<u64>], now: Duration| {
            for (id, camera) in cameras.iter().enumerate() {
                let newest = (now.as_secs_f64() * camera.claimed.rate + 1e-6).floor() as u64;
                if tickets[id].is_none() && taken[id] != Some(newest) {
                    taken[id] = Some(newest);
                    tickets[id] = Some(turns.request(id as u64, camera.claimed, now));
                }
            }
        };
        while now < RUN {
            // Frames that come during a turn are asked for before it ends.
            ask(&mut turns, &mut tickets, now);
            for (id, end) in ends.iter_mut().enumerate() {
                if end.is_some_and(|end| end <= now)
                    && let Some(ticket) = tickets[id].take()
                {
                    *end = None;
                    served[id] += u32::from(now > WARM_UP);
                    turns.end(ticket, now);
                }
            }
            // A camera whose turn has ended takes the frame that came meanwhile.
            ask(&mut turns, &mut tickets, now);
            for (id, camera) in cameras.iter().enumerate() {
                let begins = tickets[id].is_some_and(|ticket| turns.is_served(ticket));
                if begins && ends[id].is_none() {
                    ends[id] = Some(now + Duration::from_secs_f64(camera.cost_s));
                }
            }
            assert!(ends.iter().flatten().count() <= lanes);
            let frames = cameras.iter().map(|camera| {
                let frame = (now.as_secs_f64() * camera.claimed.rate + 1e-6).floor() + 1.0;
                Duration::from_secs_f64(frame / camera.claimed.rate)
            });
            let next = frames.chain(ends.iter().copied().flatten()).min();
            now = next.unwrap_or(RUN).max(now + Duration::from_nanos(1));
        }
        let counted = (RUN - WARM_UP).as_secs_f64();
        served.iter().map(|n| f64::from(*n) / counted).collect()
    }

    /// Max-min fair rates by bisection of the common share: independent of [`divide`].
    fn fair_rates(cameras: &[Camera], lanes: usize) -> Vec<f64> {
        // A stream has one lane at most.
        let rate = |camera: &Camera, level: f64| {
            let share = (level * camera.claimed.weight).min(1.0);
            camera.claimed.rate.min(share / camera.cost_s)
        };
        let used = |level: f64| -> f64 { cameras.iter().map(|c| rate(c, level) * c.cost_s).sum() };
        let (mut low, mut high) = (0.0, 1e6);
        for _ in 0..200 {
            let middle = f64::midpoint(low, high);
            if used(middle) > lanes as f64 {
                high = middle;
            } else {
                low = middle;
            }
        }
        cameras.iter().map(|camera| rate(camera, low)).collect()
    }

    /// Cameras with one model, so that their turns take equally long.
    fn cameras(most: usize) -> impl Strategy<Value = Vec<Camera>> {
        let weight = prop_oneof![Just(0.5), Just(1.0), Just(2.0)];
        let wishes = prop::collection::vec((0.5..30.0_f64, weight), 1..=most);
        (wishes, 0.01..0.08_f64).prop_map(|(wishes, cost_s)| {
            let of = |(rate, weight)| Camera {
                claimed: ClaimedRate { rate, weight },
                cost_s,
            };
            wishes.into_iter().map(of).collect()
        })
    }

    proptest! {
        /// Each camera gets nine tenths of its fair share, less one turn of each other camera in
        /// ten seconds. A camera asks again only after its turn, so it has at most every other one.
        #[test]
        fn every_camera_gets_its_fair_share(cameras in cameras(8), lanes in 1..=2_usize) {
            let (got, fair) = (simulate(&cameras, lanes), fair_rates(&cameras, lanes));
            for ((got, fair), camera) in got.iter().zip(&fair).zip(&cameras) {
                let fair = fair.min(0.5 / camera.cost_s);
                let bound = fair * 0.9 - 0.1 * cameras.len() as f64;
                prop_assert!(*got >= bound, "{camera:?} got {got} of {fair} in {cameras:?}");
            }
        }

        /// A camera within half of its share loses at most a tenth to one that wants all there is.
        #[test]
        fn greedy_camera_takes_nothing_from_the_others(
            cameras in cameras(7), lanes in 1..=2_usize,
        ) {
            let load: f64 = cameras.iter().map(|c| c.claimed.rate * c.cost_s).sum();
            let weights: f64 = cameras.iter().map(|c| c.claimed.weight).sum::<f64>() + 1.0;
            let factor = cameras.iter().map(|c| c.claimed.weight / weights / (c.claimed.rate * c.cost_s));
            let factor = (factor.fold(f64::INFINITY, f64::min) / 2.0).min(0.5 / load);
            let mut all: Vec<Camera> = cameras.iter().map(|camera| Camera {
                claimed: ClaimedRate { rate: camera.claimed.rate * factor, ..camera.claimed },
                ..*camera
            }).collect();
            let greedy = ClaimedRate { rate: 1000.0, weight: 1.0 };
            all.push(Camera { claimed: greedy, cost_s: cameras[0].cost_s });
            let got = simulate(&all, lanes);
            for (camera, got) in all.iter().zip(&got).take(cameras.len()) {
                let bound = camera.claimed.rate * 0.9 - 0.1;
                prop_assert!(*got >= bound, "{camera:?} got {got} in {all:?}");
            }
        }
    }

    fn claimed(rate: f64, weight: f64) -> ClaimedRate {
        ClaimedRate { rate, weight }
    }

    #[test]
    fn earliest_deadline_is_served_first() {
        let (mut turns, now) = (Turns::default(), Duration::from_secs(1));
        let first = turns.request(0, claimed(1.0, 1.0), now);
        let slow = turns.request(1, claimed(1.0, 1.0), now);
        let fast = turns.request(2, claimed(25.0, 1.0), now);
        assert!(turns.is_served(first));
        turns.end(first, now + Duration::from_millis(10));
        assert!(turns.is_served(fast));
        turns.end(fast, now + Duration::from_millis(20));
        assert!(turns.is_served(slow));
    }

    #[test]
    fn two_lanes_serve_two_streams_at_a_time() {
        let (mut turns, now) = (Turns::default(), Duration::from_secs(1));
        turns.set_lanes(2);
        let [a, b, c] = [0, 1, 2].map(|stream| turns.request(stream, claimed(10.0, 1.0), now));
        assert!(turns.is_served(a) && turns.is_served(b) && !turns.is_served(c));
        turns.end(b, now + Duration::from_millis(10));
        assert!(turns.is_served(a) && turns.is_served(c));
        // One lane again: none begins before both turns have ended.
        turns.set_lanes(1);
        let b = turns.request(1, claimed(10.0, 1.0), now + Duration::from_millis(20));
        turns.end(a, now + Duration::from_millis(30));
        assert!(!turns.is_served(b));
        turns.end(c, now + Duration::from_millis(40));
        assert!(turns.is_served(b));
    }

    #[test]
    fn stream_that_used_idle_time_owes_one_period_at_most() {
        let mut turns = Turns::default();
        let mut now = Duration::ZERO;
        for _ in 0..1000 {
            let ticket = turns.request(0, claimed(30.0, 1.0), now);
            now += Duration::from_millis(50);
            turns.end(ticket, now);
        }
        let served = turns.request(1, claimed(1.0, 1.0), now);
        let greedy = turns.request(0, claimed(30.0, 1.0), now);
        now += Duration::from_millis(500);
        turns.request(1, claimed(1.0, 1.0), now);
        turns.end(served, now);
        assert!(turns.is_served(greedy));
    }

    #[test]
    fn heavier_stream_gets_more_of_a_full_network() {
        let camera = |weight| Camera {
            claimed: claimed(30.0, weight),
            cost_s: 0.1,
        };
        let got = simulate(&[camera(0.5), camera(1.0), camera(2.0)], 1);
        assert!(got[1] > got[0] * 1.3 && got[2] > got[1] * 1.3, "{got:?}");
    }
}
