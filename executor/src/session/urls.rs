//! Which scheduler to call next, and how long to wait before it.
use std::time::Duration;

/// Shortest pause between two attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Hints followed in a row without a pause. Two deposed leaders may point at each other.
const HINTS_IN_A_ROW: u32 = 3;

/// The known schedulers, in turn, and the one that the last answer pointed to.
#[derive(Debug)]
pub(super) struct SchedulerUrls {
    configured: Vec<String>,
    known: Vec<String>,
    next: usize,
    hint: Option<String>,
    hints_followed: u32,
    failures: u32,
}

impl SchedulerUrls {
    pub(super) fn new(configured: Vec<String>) -> Self {
        Self { known: configured.clone(), configured, next: 0, hint: None, hints_followed: 0, failures: 0 }
    }

    /// The URL to call now. Only the hint is out of turn.
    pub(super) fn pick(&mut self) -> String {
        if let Some(hint) = self.hint.take() {
            return hint;
        }
        let url = self.known[self.next % self.known.len()].clone();
        self.next = (self.next + 1) % self.known.len();
        url
    }

    /// The members that a scheduler named. The configured ones stay, at the end: they may be stable addresses in
    /// front of changing members.
    pub(super) fn learn(&mut self, members: &[String]) {
        let mut known: Vec<String> = Vec::new();
        for url in members.iter().chain(&self.configured) {
            if !url.is_empty() && !known.contains(url) {
                known.push(url.clone());
            }
        }
        if known != self.known {
            self.known = known;
            self.next = 0;
        }
    }

    /// A scheduler said who leads. Answers whether to go there at once.
    pub(super) fn redirect(&mut self, leader: &str) -> bool {
        if leader.is_empty() || self.hints_followed >= HINTS_IN_A_ROW {
            self.hints_followed = 0;
            return false;
        }
        self.hints_followed += 1;
        self.hint = Some(leader.to_owned());
        true
    }

    /// A session was opened.
    pub(super) fn welcomed(&mut self) {
        self.failures = 0;
        self.hints_followed = 0;
    }

    /// Pause before the next attempt: doubling, spread by `jitter` in 0..1 over the upper half, so that executors that
    /// lost one leader together do not all come back together.
    pub(super) fn pause(&mut self, jitter: f64) -> Duration {
        let whole = FIRST_PAUSE.saturating_mul(1 << self.failures.min(10)).min(LONGEST_PAUSE);
        self.failures = self.failures.saturating_add(1);
        whole.mul_f64(0.5 + 0.5 * jitter.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_followed_and_a_circle_of_hints_is_left() {
        let mut urls = SchedulerUrls::new(vec!["a".into(), "b".into()]);
        assert_eq!(urls.pick(), "a");
        assert!(urls.redirect("c"));
        assert_eq!((urls.pick(), urls.pick()), ("c".into(), "b".into()));
        assert!(urls.redirect("a") && urls.redirect("b"));
        assert!(!urls.redirect("a") && !urls.redirect(""));
    }

    #[test]
    fn learned_members_come_first_and_configured_ones_stay() {
        let mut urls = SchedulerUrls::new(vec!["seed".into()]);
        urls.learn(&["x".into(), "y".into(), "x".into(), String::new()]);
        assert_eq!([urls.pick(), urls.pick(), urls.pick(), urls.pick()], ["x", "y", "seed", "x"]);
    }

    #[test]
    fn pauses_grow_to_two_seconds_and_start_over() {
        let mut urls = SchedulerUrls::new(vec!["a".into()]);
        let pauses: Vec<u128> = (0..7).map(|_| urls.pause(1.0).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 2000, 2000]);
        urls.welcomed();
        assert_eq!(urls.pause(0.0).as_millis(), 50);
    }
}
