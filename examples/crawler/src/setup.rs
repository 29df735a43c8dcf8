//! From the command line to a crawl, and from a crawl to its files.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use crawl::{Entry, Error, Settings, Store, keys, now_ms};

use crate::address::Normal;
use crate::archive::Archive;
use crate::args::Args;
use crate::bounds::{Bounds, Pace};
use crate::broken;
use crate::budget;
use crate::core::Core;
use crate::crawl::{Crawl, Fetching};
use crate::failure::Failure;
use crate::hosts::HostSettings;
use crate::http::{Ask, Client, Limits, Tls};
use crate::keys::Kept;
use crate::left_out;
use crate::log::Log;
use crate::outcome::Reading;
use crate::output::Output;
use crate::patterns::Patterns;
use crate::progress::Progress;
use crate::record::{Kind, Record, State};
use crate::seeds;
use crate::seen;
use crate::summary::{Findings, Series, Summary};
use crate::survey::Survey;

/// URLs in the cache in front, unless the user says otherwise.
const FRONT: usize = 65_536;
/// Size of a memtable, unless the user says otherwise.
const MEMTABLE_MB: u64 = 4;
/// Size of the cache, unless the user says otherwise.
const CACHE_MB: u64 = 4;

/// A crawl that can begin.
pub(crate) struct Plan {
    pub(crate) args: Args,
    pub(crate) store: PathBuf,
    pub(crate) seeds: Vec<Url>,
}

impl Plan {
    /// A crawl of what the command line names.
    pub(crate) fn of(args: Args) -> Result<Plan, Failure> {
        let normal = Normal {
            strip_tracking: !args.keep_tracking,
        };
        let seed = |text: &String| {
            let url = normal.parse(text);
            url.map_err(|what| Failure::Usage(format!("{}: {what}", common::escape::Plain(text))))
        };
        let seeds = args.urls.iter().map(seed).collect::<Result<_, _>>()?;
        let store = args.store.clone().unwrap_or_else(|| "crawl-data".into());
        Ok(Plan { args, store, seeds })
    }

    fn pace(&self) -> Pace {
        let args = &self.args;
        let (connections, delay) = if args.fast { (4, 0) } else { (1, 1000) };
        Pace {
            connections: args.connections.map_or(connections, usize::from),
            delay: Duration::from_millis(args.delay.unwrap_or(delay)),
        }
    }

    fn fetching(&self, hosts: &HostSettings) -> Result<Fetching, Failure> {
        let args = &self.args;
        let tls = Tls::new(args.ca.as_deref())
            .map_err(|what| Failure::Usage(format!("--ca: {}", common::escape::Plain(&what))))?;
        let silence = Duration::from_secs(args.timeout);
        let workers = if args.fast {
            self.pace().connections
        } else {
            32
        };
        let normal = Normal {
            strip_tracking: !args.keep_tracking,
        };
        if args.agent.is_empty() || !args.agent.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            let what = "--agent takes printable ASCII, like `name/1.0 (+https://example.org/bot)`";
            return Err(Failure::Usage(what.into()));
        }
        let limits = Limits {
            silence,
            whole: 6 * silence,
            // One byte more is asked for, to see whether there is more.
            body_bytes: args.max_bytes.min(usize::MAX >> 1),
        };
        let extras = args
            .requests
            .extras(hosts, args.scope.into(), &self.seeds)?;
        Ok(Fetching {
            client: Client::new(tls, limits, Arc::clone(&extras)),
            // Archives keep bodies as they came; uncompressed ones can be read by everyone.
            ask: Ask {
                agent: args.agent.clone(),
                gzip: args.warc.is_none(),
                extras,
            },
            reading: Reading {
                normal,
                follow_all: args.follow_nofollow,
            },
            workers: args.workers.map_or(workers, usize::from),
        })
    }

    fn bounds(&self, hosts: HostSettings) -> Result<Bounds, Failure> {
        let args = &self.args;
        let patterns = Patterns::new(&args.include, &args.exclude);
        let patterns = patterns.map_err(Failure::Usage)?;
        let product = args.agent.split(['/', ' ']).next().unwrap_or_default();
        Ok(Bounds {
            seeds: self.seeds.clone(),
            scope: args.scope.into(),
            patterns,
            url_bytes: args.url_bytes,
            budgets: budget::Limits {
                trap_budget: args.trap_budget,
                host_pages: args.host_pages,
                directory_pages: args.directory_pages,
            },
            depth: args.depth,
            pages: args.pages,
            sitemaps: !args.no_sitemaps,
            attempts: args.attempts,
            backoff: Duration::from_millis(args.backoff),
            product: product.to_owned(),
            pace: self.pace(),
            hosts,
        })
    }

    fn seen(&self) -> Result<seen::Choice, Failure> {
        let args = &self.args;
        if !(0.0..=1.0).contains(&args.false_positives) {
            return Err(Failure::Usage(
                "--false-positives is a probability, 0 to 1".into(),
            ));
        }
        Ok(seen::Choice {
            mode: args.seen,
            front: args.front.unwrap_or(FRONT),
            filter_bits: args.filter_bits,
            false_positives: args.false_positives,
            sled_bytes: args.cache.unwrap_or(CACHE_MB) << 20,
        })
    }

    fn settings(&self) -> Settings {
        let megabytes = |number: u64| number << 20;
        Settings {
            partition: self.args.partition.into(),
            filter: self.args.filter.0,
            cache_bytes: megabytes(self.args.cache.unwrap_or(CACHE_MB)),
            memtable_bytes: megabytes(self.args.memtable.unwrap_or(MEMTABLE_MB)),
            filter_bytes: self.args.filter_cache.map(megabytes),
        }
    }

    fn open_store(&self) -> Result<(Store, Kept), Failure> {
        let store = Store::open(&self.store, self.settings());
        let store = store.map_err(|error| match error {
            Error::NotOurs { .. } => Failure::NotOurs(format!("{error} with --store")),
            Error::Partition { found } => Failure::Usage(format!(
                "this store was made with --partition {found}; say so again, or choose another --store"
            )),
            error => error.into(),
        });
        let mut store = store?;
        let kept = Kept::open(store.db())?;
        if self.args.recrawl {
            let waiting = store.totals().waiting;
            if waiting > 0 {
                return Err(Failure::Usage(format!(
                    "{waiting} URLs are still waiting; finish that crawl first, without --recrawl"
                )));
            }
            let pages = store.db().snapshot();
            let pages = pages.keyspace(&kept.pages);
            let pages = pages.iter().filter_map(|entry| again(entry).transpose());
            store.enter_again(pages, now_ms())?;
        }
        Ok((store, kept))
    }

    /// Crawls, leaves everything in the store, and writes the files that were asked for.
    pub(crate) fn run(&self) -> Result<(Summary, Series), Failure> {
        let ended = self.crawl()?;
        ended.written?;
        Ok((ended.summary, ended.series))
    }

    /// The same, and a file that could not be written takes nothing else away.
    pub(crate) fn crawl(&self) -> Result<Ended, Failure> {
        let hosts = self.args.requests.host_settings()?;
        let (fetching, seen) = (self.fetching(&hosts)?, self.seen()?);
        let bounds = self.bounds(hosts)?;
        let mut files = Files::open(&self.args)?;
        let (store, kept) = self.open_store()?;
        let (db, known) = (store.db().clone(), store.clone());
        let archive = self.args.warc.as_deref();
        let archive = archive.map(|path| Archive::open(path, &db)).transpose()?;
        let seen = seen.open(&store)?;
        let crawl = crawl::Crawl::open(store, seen, self.args.depth.is_some())?;
        let core = Core::open(crawl, kept.clone(), bounds, files.log.take())?;
        let mut progress = Progress::new(self.args.quiet);
        let crawl = Crawl::new(core, fetching, archive);
        let (summary, series) = crawl.run(|look| progress.show(look))?;
        drop(progress);
        let summary = Summary {
            no_seed: seeds::no_seed(&known, &kept, &self.seeds)?,
            ..self.surveyed(summary, &kept, &mut files)?
        };
        if let Some(out) = &mut files.left_out {
            left_out::list(&known, &kept, out)?;
        }
        let written = files.finish();
        let (store_bytes, filter_bytes) = kept.sizes(&known);
        let summary = Summary {
            seeds: self.seeds.iter().map(|seed| seed.to_string()).collect(),
            seen_mode: self.args.seen.name().into(),
            partition: crawl::Partition::from(self.args.partition).name().into(),
            store_bytes,
            filter_bytes,
            written_bytes: db.stats().written_bytes,
            peak_rss_bytes: common::memory::peak_bytes(),
            ..summary
        };
        let closed = db.close().map_err(Failure::from);
        Ok(Ended {
            summary,
            series,
            written: written.and(closed),
        })
    }

    /// Adds the counts over all pages, and writes the files that are made of them.
    fn surveyed(
        &self,
        summary: Summary,
        kept: &Kept,
        files: &mut Files,
    ) -> Result<Summary, Failure> {
        let has_report = self.args.html.is_some();
        let mut survey = Survey::of(&kept.pages, has_report, files.list.as_mut())?;
        let near_duplicates = survey.near_duplicates();
        let mut first_broken = Vec::new();
        if has_report || files.broken.is_some() {
            first_broken = broken::write(&kept.pages, &survey.broken, files.broken.as_mut())?;
        }
        Ok(Summary {
            near_duplicates,
            found: Findings {
                first_broken,
                ..survey.findings()
            },
            ..summary
        })
    }
}

/// A crawl that has ended, by itself or because it was asked to.
pub(crate) struct Ended {
    pub(crate) summary: Summary,
    pub(crate) series: Series,
    /// Whether the store and all files are whole and on disk.
    pub(crate) written: Result<(), Failure>,
}

/// The files that are open while the crawl runs, beside the archive.
struct Files {
    list: Option<Output>,
    broken: Option<Output>,
    left_out: Option<Output>,
    log: Option<Log>,
}

impl Files {
    fn open(args: &Args) -> Result<Files, Failure> {
        let create = |path: &Option<PathBuf>| path.as_deref().map(Output::create).transpose();
        Ok(Files {
            list: create(&args.list)?,
            broken: create(&args.broken)?,
            left_out: create(&args.left_out)?,
            log: args.log.as_deref().map(Log::open).transpose()?,
        })
    }

    /// All are tried, whatever becomes of the others.
    fn finish(self) -> Result<(), Failure> {
        let finish = |file: Option<Output>| file.map_or(Ok(()), Output::finish);
        let written = [self.list, self.broken, self.left_out].map(finish);
        written.into_iter().collect()
    }
}

/// A page of the store, to be fetched again. What was left out stays so.
fn again(
    entry: criba::Result<(criba::Slice, criba::Slice)>,
) -> Result<Option<(u64, Entry)>, Error> {
    let (key, value) = entry?;
    let record = Record::decode(&value)?;
    let id = keys::read_number(&key);
    let id = id.ok_or_else(|| Error::Damaged("a key of the pages is none".into()))?;
    let kind = match record.state {
        State::LeftOut => return Ok(None),
        State::Sitemap => Kind::Sitemap,
        _ => Kind::Page,
    };
    let entry = Entry {
        url: record.url,
        depth: record.depth,
        kind: kind as u8,
        ..Entry::default()
    };
    Ok(Some((id, entry)))
}
