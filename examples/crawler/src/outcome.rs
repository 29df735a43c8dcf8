//! What an answer means for a crawl. Pure: the answer in, the outcome out.

use std::time::Duration;

use crawl::Job;

use crate::address::Normal;
use crate::addresses::Addresses;
use crate::http::{Response, Trouble};
use crate::page::{self, Link, LinkKind, Said};
use crate::reason::Reason;
use crate::record::{Kind, Record, State};
use crate::sitemap;
use crate::sketch::Sketch;

/// Most bytes of a head that are kept.
const HEAD_KEPT_MAX: usize = 16 << 10;
/// Most bytes of a title that are kept.
const TITLE_KEPT_MAX: usize = 512;

/// How a fetch ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Nothing was sent: robots.txt forbids it, or a budget is spent.
    LeftOut(Reason),
    /// As it was when it was fetched before.
    Unchanged,
    /// It is done, and these links were found. What must not be followed is not among them.
    Done {
        record: Box<Record>,
        links: Box<Links>,
    },
    /// To be tried again, perhaps.
    Trouble {
        why: String,
        /// Status of the answer, if there was one.
        status: u16,
        /// The server asks for this pause.
        pause: Option<Duration>,
    },
}

/// Links of one page, each once, and what its text is like.
#[derive(Debug, Default)]
pub(crate) struct Links {
    pub(crate) pages: Addresses,
    pub(crate) sitemaps: Addresses,
    /// Left out because someone said `nofollow`.
    pub(crate) nofollow: Addresses,
    /// The page is a redirect by other means; see [`page::Page::forwards`].
    pub(crate) forwards: bool,
    /// Of the text of the page; empty if it has none.
    pub(crate) sketch: Sketch,
}

/// How answers are read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    pub(crate) normal: Normal,
    /// Follow what says `nofollow` all the same.
    pub(crate) follow_all: bool,
}

impl Reading {
    /// What an answer means. `now` is in milliseconds since 1970.
    pub(crate) fn outcome(
        &self,
        job: &Job,
        answer: &Result<Response, Trouble>,
        now: u64,
        room: &mut page::Room,
    ) -> Outcome {
        let response = match answer {
            Ok(response) => response,
            Err(trouble) => {
                return Outcome::Trouble {
                    why: trouble.to_string(),
                    status: 0,
                    pause: None,
                };
            }
        };
        let status = response.head.status;
        // Where nothing of the body is read, nothing can be wrong with it.
        let trouble = response.trouble();
        if let Some(trouble) = trouble.filter(|_| matches!(status, 200..=299)) {
            return Outcome::Trouble {
                why: trouble.to_string(),
                status,
                pause: None,
            };
        }
        match status {
            200..=299 if Kind::of(&job.entry) == Kind::Sitemap => self.sitemap(job, response, now),
            200..=299 => self.page(job, response, now, room),
            304 if job.entry.again => Outcome::Unchanged,
            301 | 302 | 303 | 307 | 308 => self.redirect(job, response, now),
            429 | 500..=599 => Outcome::Trouble {
                why: format!("status {status}"),
                status,
                pause: response.head.retry_after,
            },
            _ => Outcome::Done {
                record: Box::new(record(State::Refused, job, response, now)),
                links: Box::default(),
            },
        }
    }

    fn redirect(&self, job: &Job, response: &Response, now: u64) -> Outcome {
        let location = response.head.location.as_deref();
        let target = location.and_then(|location| self.normal.join(&job.url, location));
        let state = if target.is_some() {
            State::Redirect
        } else {
            State::Refused
        };
        let found = target.iter().collect();
        let links = match Kind::of(&job.entry) {
            Kind::Page => Links {
                pages: found,
                ..Links::default()
            },
            Kind::Sitemap => Links {
                sitemaps: found,
                ..Links::default()
            },
        };
        Outcome::Done {
            record: Box::new(record(state, job, response, now)),
            links: Box::new(links),
        }
    }

    fn sitemap(&self, job: &Job, response: &Response, now: u64) -> Outcome {
        // What stands before damage counts; the crawl does not depend on the rest.
        let (map, wrong) = sitemap::read(response.body(), response.truncated);
        let join = |hrefs: Vec<String>| {
            hrefs
                .iter()
                .filter_map(|href| self.normal.join(&job.url, href))
                .collect::<Addresses>()
        };
        let links = Links {
            pages: join(map.pages),
            sitemaps: join(map.maps),
            ..Links::default()
        };
        let mut record = record(State::Sitemap, job, response, now);
        record.title = shortened(wrong.unwrap_or_default());
        Outcome::Done {
            record: Box::new(record),
            links: Box::new(links),
        }
    }

    fn page(&self, job: &Job, response: &Response, now: u64, room: &mut page::Room) -> Outcome {
        let mut record = record(State::Fetched, job, response, now);
        let content_type = response.head.content_type.as_deref();
        let mut links = Links::default();
        if is_html(content_type) {
            let said = Said {
                content_type,
                robots_tag: response.head.robots_tag.as_deref(),
            };
            let page = page::read(response.body(), said, &job.url, self.normal, room);
            record.simhash = page.simhash;
            record.noindex = page.noindex;
            record.not_canonical = page.canonical.is_some_and(|url| url != job.url);
            record.title = shortened(page.title);
            (links.sketch, links.forwards) = (page.sketch, page.forwards);
            let follow = |link: &Link| self.follow_all || !(page.nofollow || link.nofollow);
            // Where a page itself leads is no recommendation that it could take back.
            let follow = |link: &Link| {
                follow(link) || matches!(link.kind, LinkKind::Canonical | LinkKind::Refresh)
            };
            if page.links.iter().all(follow) {
                links.pages = page.addresses;
            } else {
                for (address, link) in page.addresses.iter().zip(&page.links) {
                    match follow(link) {
                        true => links.pages.push(address),
                        false => links.nofollow.push(address),
                    }
                }
            }
        }
        Outcome::Done {
            record: Box::new(record),
            links: Box::new(links),
        }
    }
}

/// What has no type is taken for HTML, as browsers do.
fn is_html(content_type: Option<&str>) -> bool {
    let Some(content_type) = content_type else {
        return true;
    };
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("text/html")
        || essence.eq_ignore_ascii_case("application/xhtml+xml")
}

fn record(state: State, job: &Job, response: &Response, now: u64) -> Record {
    let head = &response.head;
    Record {
        status: head.status,
        head: head.raw[..head.raw.len().min(HEAD_KEPT_MAX)].to_vec(),
        content_hash: xxhash_rust::xxh3::xxh3_128(response.body()),
        truncated: response.truncated,
        bytes: response.body().len() as u64,
        wire_bytes: response.wire.len() as u64,
        ..Record::bare(state, &job.entry.url, job.entry.depth, now)
    }
}

fn shortened(mut title: String) -> String {
    if title.len() > TITLE_KEPT_MAX {
        let end = (0..=TITLE_KEPT_MAX)
            .rev()
            .find(|&end| title.is_char_boundary(end));
        title.truncate(end.unwrap_or_default());
    }
    title
}
