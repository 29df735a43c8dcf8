//! How far a crawl goes where nothing new is found.
//!
//! A trap is a part of a site without end, and no address shows that it belongs to one. Its pages
//! do: what they say was said before. So every page is *new* or *old* (`novelty.rs`), and these
//! rules follow from it:
//!
//! 1. Links on a new page are followed.
//! 2. Links on an old page are followed as long as no group of that page (`groups.rs`) is *spent*.
//! 3. An address with a query is asked for as long as no group of it is spent. Paths lead to pages
//!    of their own, queries often to the same page under another address.
//! 4. A group is spent when its old pages are more than the budget, and more than [`GAIN`] for each
//!    new page. Of the pages without a query, only those count that led to addresses not seen
//!    before: an old page that leads nowhere else is the end of a path, and no trap.
//!
//! So a crawl asks in vain at most as often as the budget says, and some times for each new page.
//! A part of a site is never left out because of what lies beside it, as long as a new page links
//! to it.
//!
//! Real pages repeat each other, too. Nearly all of the 5,000 pages of `core::arch::x86_64` consist
//! of what others say, and `core::arch::x86` says it all again. If every old page counted, that
//! documentation would need a budget of 7,157 pages. But all these pages are named by one page each
//! time, and lead nowhere else; with rule 4 the worst directory of 33,000 pages needs a budget
//! of 32 (`calibration.rs`). A trap lives on its own old pages.
//!
//! Not stopped are pages made of random words: they are new. `--host-pages` and
//! `--directory-pages` are limits for that case.

#[cfg(test)]
mod calibration;
mod groups;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use common::codec::{Malformed, Reader, put_number};
use url::Url;

use self::groups::Groups;
use crate::by_host::ByHost;
use crate::novelty::{Known, Verdict};
use crate::reason::Reason;
use crate::sketch::Sketch;

/// Old pages of a group that a new one of it pays for.
pub(crate) const GAIN: u64 = 4;

/// Old pages that a group may have beyond that, unless the user says otherwise.
pub(crate) const TRAP_BUDGET: u64 = 200;

/// A host has this many times the budget of a directory: several parts of it may be traps, and each
/// of these is charged to it.
const HOST_BUDGETS: u64 = 8;

/// Groups in memory. With their names they take 5 MiB at most.
const GROUPS_MAX: usize = 1024;

/// The limits that the user sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Old pages that a directory may have for nothing; 0 for no limit.
    pub(crate) trap_budget: u64,
    /// Pages of one host.
    pub(crate) host_pages: Option<u64>,
    /// Pages of one directory, without those in directories below. All queries of one path count
    /// as a directory.
    pub(crate) directory_pages: Option<u64>,
}

/// The counts of a group. They are exact, whatever happens to the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    /// Pages of all groups within, too.
    pages: u64,
    /// Pages that have no narrower group.
    own_pages: u64,
    new: u64,
    /// Old pages that count (rule 4).
    old: u64,
}

impl Counts {
    fn encode(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(8);
        for number in [self.pages, self.own_pages, self.new, self.old] {
            put_number(&mut out, number);
        }
        out
    }

    fn decode(bytes: &[u8]) -> Result<Counts, Malformed> {
        let mut reader = Reader(bytes);
        let counts = Counts {
            pages: reader.number()?,
            own_pages: reader.number()?,
            new: reader.number()?,
            old: reader.number()?,
        };
        reader.end()?;
        Ok(counts)
    }

    fn is_spent(&self, budget: u64) -> bool {
        budget > 0 && self.old > budget.saturating_add(GAIN.saturating_mul(self.new))
    }
}

/// A group in memory.
#[derive(Debug, Default)]
struct Group {
    counts: Counts,
    /// The shingles that were seen in it; `None` until a page is judged.
    known: Option<Known>,
    /// `known` differs from what is in the store.
    has_changed: bool,
    /// Its pages that are being fetched, counted only with limits for pages.
    under_way: u64,
    /// When it was used last, in terms of `Budgets::clock`.
    used: u64,
}

/// An entry for the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// A page that was read, until its links are entered.
#[derive(Debug)]
pub(crate) struct Read {
    groups: Groups,
    sketch: Sketch,
    verdict: Verdict,
    /// Why its links are left out; `None` if they are followed.
    pub(crate) left_out: Option<Reason>,
}

/// The budgets of all hosts and directories.
///
/// Counts are written with each page. Shingles are written when the pages of a group have
/// doubled, and when the group leaves memory. After a kill, a page may look newer than it is, never
/// older.
///
/// Functions that take `load` ask it for the value under a key that an earlier [`Write`] had. They
/// fail as it does, or with [`Malformed`].
#[derive(Debug)]
pub(crate) struct Budgets {
    limits: Limits,
    /// Pages of single hosts, in place of those of all.
    host_pages: ByHost<Option<u64>>,
    has_page_limits: bool,
    groups: HashMap<Box<str>, Group>,
    clock: u64,
    /// Entries of groups that have left memory.
    writes: Vec<Write>,
}

impl Budgets {
    pub(crate) fn new(limits: Limits) -> Budgets {
        Budgets {
            limits,
            host_pages: ByHost::default(),
            has_page_limits: limits.host_pages.is_some() || limits.directory_pages.is_some(),
            groups: HashMap::new(),
            clock: 0,
            writes: Vec::new(),
        }
    }

    /// Sets limits for the pages of single hosts; for the others, that of all holds.
    pub(crate) fn with_host_pages(mut self, pages: ByHost<Option<u64>>) -> Budgets {
        self.has_page_limits |= pages.any(Option::is_some);
        self.host_pages = pages;
        self
    }

    /// Why an address is not to be asked for. If it is, [`Budgets::finish`] or [`Budgets::release`]
    /// must follow.
    pub(crate) fn admit<E: From<Malformed>>(
        &mut self,
        url: &Url,
        load: &mut impl FnMut(&[u8]) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<Option<Reason>, E> {
        if self.are_off() || url.query().is_none() && !self.has_page_limits {
            return Ok(None);
        }
        let groups = Groups::of(url);
        let pages = |group: &Group| group.counts.pages + group.under_way;
        let own_pages = |group: &Group| group.counts.own_pages + group.under_way;
        let of_host = self.host_pages.get(url.host_str().unwrap_or_default());
        let host_pages = of_host.copied().flatten().or(self.limits.host_pages);
        let directory_pages = self.limits.directory_pages;
        let host = self.group(groups.host(), load)?;
        if host_pages.is_some_and(|most| pages(host) >= most) {
            return Ok(Some(Reason::HostPages));
        }
        let own = self.group(groups.own(), load)?;
        if directory_pages.is_some_and(|most| own_pages(own) >= most) {
            return Ok(Some(Reason::DirectoryPages));
        }
        if groups.is_query
            && let Some(reason) = self.spent(&groups, load)?
        {
            return Ok(Some(reason));
        }
        self.add_under_way(&groups, 1);
        self.forget_old_ones();
        Ok(None)
    }

    /// An address that was admitted has brought no page.
    pub(crate) fn release(&mut self, url: &Url) {
        if self.has_page_limits {
            self.add_under_way(&Groups::of(url), -1);
        }
    }

    /// Judges a page before its links are entered.
    pub(crate) fn read<E: From<Malformed>>(
        &mut self,
        url: &Url,
        sketch: &Sketch,
        load: &mut impl FnMut(&[u8]) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<Read, E> {
        let groups = Groups::of(url);
        let mut verdict = Verdict::Unknown;
        if self.limits.trap_budget > 0 {
            for name in groups.iter() {
                let known = self.known(name, load)?;
                verdict = match (verdict, known.judge(sketch)) {
                    (Verdict::Old, _) | (_, Verdict::Old) => Verdict::Old,
                    (Verdict::New, _) | (_, Verdict::New) => Verdict::New,
                    _ => Verdict::Unknown,
                };
            }
        }
        let left_out = match verdict {
            Verdict::Old => self.spent(&groups, load)?,
            Verdict::New | Verdict::Unknown => None,
        };
        Ok(Read {
            groups,
            sketch: *sketch,
            verdict,
            left_out,
        })
    }

    /// Counts a page. `leads_on`: addresses were found on it that were not seen before. Returns what
    /// is to be written with the page.
    pub(crate) fn finish<E: From<Malformed>>(
        &mut self,
        page: &Read,
        leads_on: bool,
        load: &mut impl FnMut(&[u8]) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<Vec<Write>, E> {
        if self.are_off() {
            return Ok(Vec::new());
        }
        let groups = &page.groups;
        let (is_new, is_old) = (page.verdict == Verdict::New, page.verdict == Verdict::Old);
        let counts_as_old = is_old && (groups.is_query || leads_on);
        let mut writes = std::mem::take(&mut self.writes);
        for (rank, name) in groups.iter().enumerate() {
            let has_changed =
                self.limits.trap_budget > 0 && self.known(name, load)?.add(&page.sketch);
            let group = self.group(name, load)?;
            group.has_changed |= has_changed;
            let counts = &mut group.counts;
            counts.pages += 1;
            counts.own_pages += u64::from(rank == 0);
            counts.new += u64::from(is_new);
            counts.old += u64::from(counts_as_old);
            writes.push(Write {
                key: key(COUNTS, name),
                value: counts.encode(),
            });
            if counts.pages.is_power_of_two() {
                writes.extend(group.save(name));
            }
        }
        if self.has_page_limits {
            self.add_under_way(groups, -1);
        }
        self.forget_old_ones();
        Ok(writes)
    }

    /// Returns, at the end of a run, all that is not in the store yet.
    pub(crate) fn flush(&mut self) -> Vec<Write> {
        let mut writes = std::mem::take(&mut self.writes);
        let all = self.groups.iter_mut();
        writes.extend(all.filter_map(|(name, group)| group.save(name)));
        writes
    }

    fn are_off(&self) -> bool {
        self.limits.trap_budget == 0 && !self.has_page_limits
    }

    /// Whether one of the groups is spent, and which kind it is.
    fn spent<E: From<Malformed>>(
        &mut self,
        groups: &Groups,
        load: &mut impl FnMut(&[u8]) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<Option<Reason>, E> {
        let budget = self.limits.trap_budget;
        for name in groups.iter() {
            let is_host = name == groups.host();
            let factor = if is_host { HOST_BUDGETS } else { 1 };
            let counts = self.group(name, load)?.counts;
            if counts.is_spent(budget.saturating_mul(factor)) {
                return Ok(Some(match is_host {
                    true => Reason::NothingNewInHost,
                    false => Reason::NothingNewInDirectory,
                }));
            }
        }
        Ok(None)
    }

    /// A group, brought into memory if it is not there.
    fn group<E: From<Malformed>>(
        &mut self,
        name: &str,
        load: &mut impl FnMut(&[u8]) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<&mut Group, E> {
        if !self.groups.contains_key(name) {
            let value = load(&key(COUNTS, name))?;
            let counts = value.map(|value| Counts::decode(&value)).transpose()?;
            let group = Group {
                counts: counts.unwrap_or_default(),
                ..Group::default()
            };
            self.groups.insert(name.into(), group);
        }
        self.clock += 1;
        // It is there now, so this does not fail.
        let group = self.groups.get_mut(name).ok_or(Malformed)?;
        group.used = self.clock;
        Ok(group)
    }

    /// The shingles that were seen in a group.
    fn known<E: From<Malformed>>(
        &mut self,
        name: &str,
        load: &mut impl FnMut(&[u8]) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<&mut Known, E> {
        let group = self.group(name, load)?;
        if group.known.is_none() && group.counts.pages > 0 {
            let value = load(&key(SEEN, name))?;
            group.known = value.map(|value| Known::decode(&value)).transpose()?;
        }
        Ok(group.known.get_or_insert_default())
    }

    fn add_under_way(&mut self, groups: &Groups, change: i64) {
        if !self.has_page_limits {
            return;
        }
        let (own, host) = (groups.own(), groups.host());
        for name in [own, host]
            .into_iter()
            .take(if own == host { 1 } else { 2 })
        {
            // It is there: a group stays in memory while something is under way.
            if let Some(group) = self.groups.get_mut(name) {
                group.under_way = group.under_way.saturating_add_signed(change);
            }
        }
    }

    /// Makes room by a quarter at a time, so that it is rarely done.
    fn forget_old_ones(&mut self) {
        if self.groups.len() <= GROUPS_MAX {
            return;
        }
        let mut times: Vec<u64> = self.groups.values().map(|group| group.used).collect();
        let (_, &mut limit, _) = times.select_nth_unstable(GROUPS_MAX / 4);
        let writes = &mut self.writes;
        self.groups.retain(|name, group| {
            let stays = group.used >= limit || group.under_way > 0;
            if !stays {
                writes.extend(group.save(name));
            }
            stays
        });
    }
}

impl Group {
    /// An entry with its shingles, if the store does not have them yet.
    fn save(&mut self, name: &str) -> Option<Write> {
        let known = self.known.as_ref()?;
        std::mem::take(&mut self.has_changed).then(|| Write {
            key: key(SEEN, name),
            value: known.encode(),
        })
    }
}

/// Keys of counts begin with it.
const COUNTS: u8 = b'c';
/// Keys of what was seen begin with it.
const SEEN: u8 = b's';

fn key(kind: u8, name: &str) -> Vec<u8> {
    [&[kind], name.as_bytes()].concat()
}
