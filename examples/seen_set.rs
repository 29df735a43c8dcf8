//! The memory of a crawler in one store: which addresses were seen, and which wait.
//!
//! `cargo run --release --example seen_set -- DIRECTORY` walks a made-up web of 200,000 pages. Stop
//! it with Ctrl-C or `kill -9` and run it again: it goes on where it was.
//!
//! A page has sixteen links, and of each the crawler asks whether it was seen. A new address must not
//! be taken for a seen one, or its page is lost. Filters alone do that now and then. Here a filter
//! only saves reads: "certainly new" is believed, and "maybe" is looked up.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program prints"
)]

use criba::{Batch, Db, FilterPolicy, Keyspace, Result};

/// Pages of the made-up web.
const PAGES: u64 = 200_000;

fn main() {
    if let Err(error) = run() {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<()> {
    let argument = std::env::args_os().nth(1);
    let crawler = Crawler::open(argument.unwrap_or_else(|| "seen-set-data".into()).into())?;
    let before = crawler.count("visited")?;
    println!("{before} pages were visited before");
    while crawler.visit_next()? {}
    let (visited, seen) = (crawler.count("visited")?, crawler.seen.len()?);
    println!("{visited} pages are visited and {seen} addresses seen, of {PAGES}");

    // What the answers have cost since the store was opened.
    let lookups = crawler.seen.stats().lookups;
    println!("{} links were looked up:", lookups.lookups);
    let (new, known) = (lookups.absent, lookups.segment_hits);
    let memtable = lookups.memtable_hits;
    println!("{new:>9} were new: {} reads", lookups.absent_block_reads);
    println!("{known:>9} were known: {} reads", lookups.hit_block_reads);
    println!("{memtable:>9} were known from memory");
    crawler.db.close()
}

/// Keyspaces of one store share its journal, so a batch can write to all of them at once.
struct Crawler {
    db: Db,
    /// Address to its number.
    seen: Keyspace,
    /// Number to address: a queue. New addresses come in at the end, and the first is next.
    queue: Keyspace,
}

impl Crawler {
    fn open(path: std::path::PathBuf) -> Result<Crawler> {
        // So little memory that the store has to do with files.
        let builder = Db::builder(path).memtable_bytes(1 << 20);
        let db = builder.cache_bytes(256 << 10).open()?;
        // Most questions to the seen set are about what is not there, or about where it is: the
        // default filter answers both. The queue is only walked, so a filter would be of no use.
        let seen = db.keyspace("seen")?;
        let queue = db.keyspace_with("queue", |options| options.filter(FilterPolicy::None))?;
        let crawler = Crawler { db, seen, queue };
        let mut batch = crawler.db.batch();
        crawler.discover(&mut batch, vec![address(0)])?;
        batch.commit()?;
        Ok(crawler)
    }

    /// Visits the page that has waited longest; whether there was one. All that this changes is one
    /// batch: after a kill, the page was visited and its links wait, or neither.
    fn visit_next(&self) -> Result<bool> {
        let Some((place, address)) = self.queue.first()? else {
            return Ok(false);
        };
        let links = fetch(&address);
        let mut batch = self.db.batch();
        batch.keyspace(&self.queue).delete(place);
        batch.put("visited", number(self.count("visited")? + 1));
        self.discover(&mut batch, links)?;
        batch.commit()?;
        Ok(true)
    }

    /// Puts the addresses that are new into the seen set and the queue.
    fn discover(&self, batch: &mut Batch, mut links: Vec<String>) -> Result<()> {
        links.sort_unstable();
        links.dedup();
        let mut next = self.count("discovered")?;
        for link in links {
            if self.seen.contains_key(&link)? {
                continue;
            }
            batch.keyspace(&self.seen).put(&link, number(next));
            batch.keyspace(&self.queue).put(number(next), &link);
            next += 1;
        }
        batch.put("discovered", number(next));
        Ok(())
    }

    /// A number of the default keyspace, zero if it was never written.
    fn count(&self, name: &str) -> Result<u64> {
        let value = self.db.get(name)?.unwrap_or_default();
        Ok(value
            .iter()
            .fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
    }
}

/// The most significant byte stands first, so keys are in the order of their numbers.
fn number(number: u64) -> [u8; 8] {
    std::array::from_fn(|at| (number >> (56 - 8 * at)) as u8)
}

/// The address of a page of the made-up web.
fn address(page: u64) -> String {
    let host = page % 997;
    format!("http://host{host}.example/articles/{page}.html")
}

/// The links of a page: four lead further, so that every page is found, and twelve anywhere.
fn fetch(address: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(address);
    let name = text.rsplit('/').next().unwrap_or_default();
    let page: u64 = name.trim_end_matches(".html").parse().unwrap_or(0);
    let further = (4 * page + 1..=4 * page + 4).filter(|&page| page < PAGES);
    let mut random = page + 1;
    let anywhere = (0..12).map(|_| {
        // The multiplier is Knuth's, for MMIX.
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % PAGES
    });
    further.chain(anywhere).map(self::address).collect()
}
