//! The progress line on standard error, drawn only where a person looks.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::numbers::grouped;
use crate::summary::Point;

/// How often the line changes.
const EVERY: Duration = Duration::from_millis(200);

/// A line; it erases itself when it is dropped.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    shown: Instant,
    before: Point,
    speed: f64,
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
            before: Point::default(),
            speed: 0.0,
        }
    }

    /// Where the crawl stands now.
    pub(crate) fn show(&mut self, point: &Point, hosts: usize) {
        let Some(bar) = &self.bar else { return };
        if self.shown.elapsed() < EVERY {
            return;
        }
        let took = point.at.saturating_sub(self.before.at).as_secs_f64();
        if took > 0.0 {
            self.speed = (point.pages - self.before.pages) as f64 / took;
        }
        (self.shown, self.before) = (Instant::now(), *point);
        let seen = &point.seen;
        bar.set_message(format!(
            "{} pages, {}/s, {} in the queue, {} hosts; {} links looked up, {} reads of files",
            grouped(point.pages),
            grouped(self.speed as u64),
            grouped(point.queue),
            grouped(hosts as u64),
            grouped(seen.checks),
            grouped(seen.disk_reads),
        ));
        bar.tick();
    }
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
