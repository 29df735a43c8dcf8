//! The progress line on standard error, drawn only where a person looks.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::crawl::Look;
use crate::summary::Point;
use common::numbers::grouped;

/// How often the line changes.
const EVERY: Duration = Duration::from_millis(200);

/// How far back the speed is measured: a polite crawl fetches a page a second or less.
const SPEED_OVER: Duration = Duration::from_secs(10);

/// A line; it erases itself when it is dropped.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    shown: Instant,
    /// Points of the last seconds, the oldest first.
    recent: VecDeque<Point>,
}

impl Progress {
    pub(crate) fn new(quiet: bool) -> Progress {
        let bar = (!quiet).then(ProgressBar::no_length);
        if let (Some(bar), Ok(style)) = (&bar, ProgressStyle::with_template("{spinner} {wide_msg}"))
        {
            bar.set_style(style);
        }
        Progress {
            bar,
            shown: Instant::now(),
            recent: VecDeque::new(),
        }
    }

    /// Where the crawl stands now.
    pub(crate) fn show(&mut self, look: &Look) {
        let Some(bar) = &self.bar else { return };
        if self.shown.elapsed() < EVERY {
            return;
        }
        self.shown = Instant::now();
        let point = look.point;
        self.recent.push_back(point);
        while self.recent.len() > 2 && point.at.saturating_sub(self.recent[1].at) > SPEED_OVER {
            self.recent.pop_front();
        }
        let since = self.recent.front().copied().unwrap_or_default();
        bar.set_message(line(look, &since));
        bar.tick();
    }
}

/// The line; the speed is that since a moment before.
fn line(look: &Look, since: &Point) -> String {
    let point = &look.point;
    if look.is_stopping {
        return format!(
            "stopping: {} requests under way are being finished; once more ends at once",
            look.under_way
        );
    }
    let took = point.at.saturating_sub(since.at).as_secs_f64();
    let fetched = point.pages.saturating_sub(since.pages) as f64;
    let speed = if took > 0.0 { fetched / took } else { 0.0 };
    let speed = match speed {
        0.0..10.0 => format!("{speed:.1}"),
        _ => grouped(speed as u64),
    };
    format!(
        "{} pages, {speed}/s, {} waiting, {} under way; {} links looked up, {} new, {} reads of files",
        grouped(point.pages),
        grouped(point.queue),
        look.under_way,
        grouped(point.seen.checks),
        grouped(point.seen.new),
        grouped(point.seen.disk_reads),
    )
}

/// A bar over work whose length is known.
pub(crate) struct Bar(Option<ProgressBar>);

impl Bar {
    pub(crate) fn new(quiet: bool, length: u64, name: &'static str) -> Bar {
        let bar = (!quiet).then(|| ProgressBar::new(length).with_message(name));
        let style = "{msg:<14} {wide_bar} {human_pos} of {human_len} links";
        if let (Some(bar), Ok(style)) = (&bar, ProgressStyle::with_template(style)) {
            bar.set_style(style);
        }
        Bar(bar)
    }

    /// So much is done.
    pub(crate) fn show(&self, done: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(done);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use crawl::SeenCounts;

    use super::*;

    fn look(seconds: u64, pages: u64, is_stopping: bool) -> Look {
        Look {
            point: Point {
                at: Duration::from_secs(seconds),
                pages,
                queue: 1234,
                seen: SeenCounts {
                    checks: 5000,
                    new: 1300,
                    disk_reads: 7,
                    ..SeenCounts::default()
                },
            },
            under_way: 3,
            is_stopping,
        }
    }

    #[test]
    fn the_line_counts_what_was_done() {
        let since = look(10, 100, false).point;
        assert_eq!(
            line(&look(20, 105, false), &since),
            "105 pages, 0.5/s, 1,234 waiting, 3 under way; 5,000 links looked up, 1,300 new, \
             7 reads of files"
        );
        assert!(line(&look(20, 50_100, false), &since).contains(", 5,000/s, "));
        assert!(line(&look(10, 100, false), &since).contains(", 0.0/s, "));
        assert!(line(&look(20, 105, true), &since).starts_with("stopping: 3 requests"));
    }
}
