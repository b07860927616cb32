//! The sending direction: transmission and timers.

use super::clock::rings;
use super::congestion::Congestion;
use super::round_trip::RoundTrips;
use super::scoreboard::{News, Scoreboard, Sent};
use super::{Segment, TcpCounts, TcpOptions};
use quorate_types::Time;

/// Minimum ticks by which a probe or a loss check is later than the round trip requires.
const LEAST_TICKS: u64 = 2;

/// The running timer. There is one at a time, as in Linux.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Timer {
    /// Retransmission timeout.
    Timeout,
    /// Tail-loss probe.
    Probe,
    /// Time after which an overtaken segment is lost.
    Reordering,
}

/// Reason for retransmissions. It ends once everything before `until` is acknowledged.
#[derive(Clone, Copy, Debug)]
struct Recovery {
    until: u64,
    after_timeout: bool,
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    /// End of the data sent before it.
    until: u64,
    /// Whether it was a retransmission rather than new data.
    repeats: bool,
}

/// Sending direction of an endpoint.
#[derive(Clone, Debug)]
pub struct Sender {
    options: TcpOptions,
    pub trips: RoundTrips,
    congestion: Congestion,
    sent: Scoreboard,
    /// Positions of the first unacknowledged byte, the first unsent byte, and the end of the stream.
    first: u64,
    next: u64,
    end: u64,
    recovery: Option<Recovery>,
    probe: Option<Probe>,
    timer: Option<(Timer, Time)>,
    last: Time,
    pub counts: TcpCounts,
}

impl Sender {
    pub fn new(options: TcpOptions) -> Sender {
        Sender {
            options,
            trips: RoundTrips::new(options),
            congestion: Congestion::default(),
            sent: Scoreboard::default(),
            first: 0,
            next: 0,
            end: 0,
            recovery: None,
            probe: None,
            timer: None,
            last: Time(0),
            counts: TcpCounts::default(),
        }
    }

    /// Returns the number of unsent bytes.
    pub fn unsent(&self) -> u64 {
        self.end - self.next
    }

    /// Returns the number of unacknowledged bytes, sent or not.
    pub fn unacknowledged(&self) -> u64 {
        self.end - self.first
    }

    pub fn timer(&self) -> Option<Time> {
        self.timer.map(|(_, at)| at)
    }

    /// Appends bytes to the stream, and returns its end.
    pub fn write(&mut self, bytes: u64) -> u64 {
        self.end += bytes;
        self.end
    }

    /// Sends as much as the congestion window allows, lost segments first.
    pub fn transmit(&mut self, now: Time, out: &mut Vec<Segment>) {
        self.restart_if_rested(now);
        let (was_empty, mut sent_new) = (self.sent.is_empty(), false);
        while self.sent.in_flight() < self.congestion.window {
            if let Some((again, is_first)) = self.sent.repeat(now) {
                self.counts.retransmissions += 1;
                if is_first && !matches!(self.timer, Some((Timer::Reordering, _))) {
                    self.set_timer(now, Timer::Timeout, self.trips.timeout());
                }
                self.put(now, again.begin, again.bytes, out);
            } else if self.next < self.end {
                self.send_new(now, out);
                sent_new = true;
            } else {
                break;
            }
            self.congestion.sent();
        }
        let is_full = self.sent.in_flight() >= self.congestion.window;
        if sent_new || is_full {
            self.congestion.used(is_full, self.sent.len(), self.first, self.next);
        }
        if sent_new {
            if was_empty || matches!(self.timer, Some((Timer::Probe, _))) {
                self.set_timer(now, Timer::Timeout, self.timeout_left(now));
            }
            self.schedule_probe(now, false);
        }
    }

    /// Shrinks the window if nothing was sent for longer than a timeout (RFC 5681, 4.1).
    fn restart_if_rested(&mut self, now: Time) {
        let idle = now.0.saturating_sub(self.last.0);
        if self.sent.is_empty() && self.unsent() > 0 && idle > self.trips.timeout() {
            self.congestion.rested(idle / self.trips.timeout());
        }
    }

    fn send_new(&mut self, now: Time, out: &mut Vec<Segment>) {
        let bytes = self.unsent().min(u64::from(self.options.segment_bytes)) as u32;
        self.sent.push(Sent::new(self.next, bytes, now));
        let begin = self.next;
        self.next += u64::from(bytes);
        self.put(now, begin, bytes, out);
    }

    fn put(&mut self, now: Time, begin: u64, bytes: u32, out: &mut Vec<Segment>) {
        self.last = now;
        let pushes = bytes < self.options.segment_bytes || begin + u64::from(bytes) == self.end;
        out.push(Segment { begin, bytes, pushes, ..Segment::default() });
    }

    fn set_timer(&mut self, now: Time, timer: Timer, ns: u64) {
        self.timer = Some((timer, rings(now, ns.max(1), self.options.tick_ns)));
    }

    /// Returns the remaining timeout of the first segment.
    fn timeout_left(&self, now: Time) -> u64 {
        let at = self.sent.first_at().unwrap_or(now);
        (at.0 + self.trips.timeout()).saturating_sub(now.0)
    }

    /// Arms the tail loss probe unless the conditions for one are not met. `advanced` is set if an acknowledgement has
    /// just restarted the timeout.
    fn schedule_probe(&mut self, now: Time, advanced: bool) -> bool {
        let is_calm = self.recovery.is_none() && !self.sent.has_gaps() && !self.sent.is_empty();
        if !self.options.tail_loss_probe || !is_calm {
            return false;
        }
        // The acknowledgement of a single segment may be delayed (RFC 8985, 7.2).
        let wait = match (self.trips.smoothed(), self.sent.len()) {
            (None, _) => self.options.rto_initial_ns,
            (Some(smoothed), 1) => 2 * smoothed + self.options.rto_min_ns,
            (Some(smoothed), _) => 2 * smoothed + LEAST_TICKS * self.options.tick_ns,
        };
        let timeout = if advanced { self.trips.timeout() } else { self.timeout_left(now) };
        self.set_timer(now, Timer::Probe, if timeout > 0 { wait.min(timeout) } else { wait });
        true
    }

    /// Handles the acknowledgement in a segment.
    pub fn on_acknowledged(&mut self, now: Time, segment: &Segment, out: &mut Vec<Segment>) {
        let upto = segment.acknowledges;
        if upto > self.next || (upto < self.first && segment.holds.is_empty()) {
            return;
        }
        let has_advanced = upto > self.first;
        self.first = self.first.max(upto);
        let news = self.sent.acknowledge(now, upto, &segment.holds, self.trips.smallest);
        self.measure(now, segment, news);
        self.answer_probe(segment, news.delivered == 0 && segment.bytes == 0);
        self.recovered();
        let found = if news.delivered > 0 { self.find_losses(now) } else { 0 };
        self.adapt_window(news, has_advanced && found == 0);
        if self.sent.is_empty() {
            self.timer = None;
        } else if news.delivered > 0 && !self.schedule_probe(now, true) {
            self.restart_timeout(now);
        }
        self.transmit(now, out);
    }

    fn measure(&mut self, now: Time, segment: &Segment, news: News) {
        let since = match news.measurable {
            Some(at) => at,
            None if news.after_repetition => segment.echo,
            None => return,
        };
        self.trips.measured(now.0.saturating_sub(since.0).max(1), self.first, self.next);
    }

    /// Halves the window if a probe has repaired a loss (RFC 8985, 7.4): newer data is acknowledged, and no duplicate
    /// was reported. `is_repeated` is set if the acknowledgement carries no new information.
    fn answer_probe(&mut self, segment: &Segment, is_repeated: bool) {
        let Some(Probe { until, repeats }) = self.probe.filter(|probe| segment.acknowledges >= probe.until) else {
            return;
        };
        let is_copy = !repeats || segment.tells_duplicate;
        if is_copy || segment.acknowledges > until || is_repeated {
            self.probe = None;
        }
        if !is_copy && segment.acknowledges > until {
            self.congestion.reduce_at_once();
        }
    }

    fn recovered(&mut self) {
        if self.recovery.is_some_and(|recovery| self.first >= recovery.until) {
            self.recovery = None;
            self.congestion.end_reduction();
        }
    }

    /// Detects lost segments, and begins to retransmit them. Returns their number.
    fn find_losses(&mut self, now: Time) -> u32 {
        if !self.options.fast_retransmit {
            return 0;
        }
        let smoothed = self.trips.smoothed().unwrap_or(0);
        let reordering = (self.trips.smallest / 4).min(smoothed);
        let (found, look_again) = self.sent.find_losses(now, reordering, self.recovery.is_some());
        if found > 0 && self.recovery.is_none() {
            self.recovery = Some(Recovery { until: self.next, after_timeout: false });
            self.congestion.begin_reduction();
            self.probe = None;
        }
        if let Some(wait) = look_again {
            self.set_timer(now, Timer::Reordering, wait + LEAST_TICKS * self.options.tick_ns);
        }
        found
    }

    fn adapt_window(&mut self, news: News, advanced_without_loss: bool) {
        match self.recovery {
            Some(Recovery { after_timeout: false, .. }) => {
                self.congestion.reduce(news.delivered, self.sent.in_flight(), advanced_without_loss);
            }
            _ if news.advanced > 0 => self.congestion.grow(news.delivered),
            _ => {}
        }
    }

    /// Restarts the timeout after an acknowledgement, unless a loss check is due earlier.
    fn restart_timeout(&mut self, now: Time) {
        match self.timer {
            Some((Timer::Reordering, at)) if at > now => {}
            _ => self.set_timer(now, Timer::Timeout, self.trips.timeout()),
        }
    }

    /// Performs the due actions.
    pub fn on_timer(&mut self, now: Time, out: &mut Vec<Segment>) {
        let Some((timer, _)) = self.timer.filter(|(_, at)| *at <= now) else { return };
        self.timer = None;
        match timer {
            Timer::Timeout => self.on_timeout(now, out),
            Timer::Probe => self.on_probe(now, out),
            Timer::Reordering => {
                if self.find_losses(now) > 0 {
                    self.adapt_window(News { delivered: 1, ..News::default() }, false);
                }
                self.transmit(now, out);
                if self.timer.is_none() && !self.sent.is_empty() {
                    self.set_timer(now, Timer::Timeout, self.timeout_left(now));
                }
            }
        }
    }

    fn on_probe(&mut self, now: Time, out: &mut Vec<Segment>) {
        if self.probe.is_none() {
            let until = self.next;
            if self.unsent() > 0 {
                self.send_new(now, out);
                self.probe = Some(Probe { until, repeats: false });
            } else if let Some(last) = self.sent.probe(now) {
                self.counts.retransmissions += 1;
                self.put(now, last.begin, last.bytes, out);
                self.probe = Some(Probe { until, repeats: true });
            }
            self.counts.tail_loss_probes += 1;
        }
        self.set_timer(now, Timer::Timeout, self.timeout_left(now));
    }

    /// Retransmits the first segment, and treats the others as lost (RFC 6298, 5.4 to 5.6).
    fn on_timeout(&mut self, now: Time, out: &mut Vec<Segment>) {
        if self.sent.is_empty() {
            return;
        }
        self.counts.rto_events += 1;
        let is_first = !self.recovery.is_some_and(|recovery| recovery.after_timeout);
        self.sent.lose_all(now);
        self.congestion.restart(self.sent.in_flight(), is_first);
        self.recovery = Some(Recovery { until: self.next, after_timeout: true });
        self.probe = None;
        self.trips.back_off();
        self.transmit(now, out);
        self.set_timer(now, Timer::Timeout, self.trips.timeout());
    }
}
