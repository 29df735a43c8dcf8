//! Which versions of a key are still needed, and what its operands come to early.

use crate::cursor::LastKey;
use crate::error::{Error, Result};
use crate::format::block::Entry;
use crate::key::{Kind, Sequence};
use crate::operator::Operator;

/// Operands of a key that wait to be combined, and bytes of them, at most: those so far are combined
/// then.
const WAITING_MAX: usize = 64;
const WAITING_BYTES_MAX: usize = 1 << 20;

/// Decides, version by version, which are kept.
///
/// Snapshots cut the versions of a key into *stripes*: of those in one stripe every reader sees all
/// or none. Of each stripe the newest is kept and, if that is an operand, the older ones down to the
/// first that is none. A tombstone that every reader sees and that hides nothing any more is not.
///
/// The operands of a stripe are combined, with a value or a tombstone below them in the stripe, or
/// with nothing where nothing older can be anywhere: then they become a value. The result has the
/// sequence of the newest. Operands that cannot be combined stay as they are.
///
/// So the newest version of a key that is above the oldest snapshot stays, whatever its kind, or
/// what takes its place has its sequence.
#[derive(Debug)]
pub(crate) struct Retain {
    /// Ascending.
    snapshots: Vec<Sequence>,
    key: LastKey,
    /// Sequence of the version before (the newer one) that was seen.
    newer: Sequence,
    /// The versions of the stripe so far are operands: the next one is part of what they come to.
    is_open: bool,
    waiting: Waiting,
    operator: Operator,
    /// The first refusal of the operator.
    refusal: Option<Error>,
}

/// Operands of one key and stripe that are not written yet, newest first.
#[derive(Debug, Default)]
struct Waiting {
    key: Vec<u8>,
    operands: Vec<(Sequence, Vec<u8>)>,
    bytes: usize,
    /// They could not be combined: those that follow are written as they are, too.
    is_refused: bool,
}

/// Where versions go that are kept.
pub(crate) type Keep<'a> = &'a mut dyn FnMut(&Entry<'_>) -> Result<()>;

impl Retain {
    pub(crate) fn new(snapshots: Vec<Sequence>, operator: Operator) -> Retain {
        Retain {
            snapshots,
            key: LastKey::default(),
            newer: Sequence(0),
            is_open: false,
            waiting: Waiting::default(),
            operator,
            refusal: None,
        }
    }

    /// Takes versions in order: keys ascending, newest first. `is_oldest` tells whether no older
    /// version of the key can be outside this merge; it is asked for tombstones and operands only.
    #[inline]
    pub(crate) fn take(
        &mut self,
        entry: &Entry<'_>,
        is_oldest: &impl Fn(&[u8]) -> bool,
        keep: &mut impl FnMut(&Entry<'_>) -> Result<()>,
    ) -> Result<()> {
        let newest = self.key.get() != Some(entry.key);
        if newest && self.is_open {
            self.end_key(is_oldest, keep)?;
        }
        if newest {
            self.key.set(entry.key);
        }
        // A snapshot between this version and the newer one sees this one.
        let first = self
            .snapshots
            .partition_point(|snapshot| *snapshot < entry.sequence);
        let seen = self
            .snapshots
            .get(first)
            .is_some_and(|snapshot| *snapshot < self.newer);
        self.newer = entry.sequence;
        if self.is_open || entry.kind == Kind::Operand {
            return self.take_with_operands(entry, newest || seen, keep);
        }
        if !(newest || seen) {
            return Ok(());
        }
        // With all snapshots at or after the tombstone, nobody needs what it hides, and nothing
        // older of the key is kept here.
        let superfluous = entry.kind == Kind::Tombstone && first == 0 && is_oldest(entry.key);
        match superfluous {
            true => Ok(()),
            false => keep(entry),
        }
    }

    /// Ends with the last version; returns why operands could not be combined, if any could not.
    pub(crate) fn finish(
        mut self,
        is_oldest: &impl Fn(&[u8]) -> bool,
        keep: &mut impl FnMut(&Entry<'_>) -> Result<()>,
    ) -> Result<Option<Error>> {
        if self.is_open {
            self.end_key(is_oldest, keep)?;
        }
        Ok(self.refusal)
    }

    /// Takes an operand, or what comes behind operands of its key.
    #[cold]
    fn take_with_operands(
        &mut self,
        entry: &Entry<'_>,
        begins_stripe: bool,
        keep: Keep<'_>,
    ) -> Result<()> {
        if begins_stripe && self.is_open {
            // The versions that a snapshot sees stay apart.
            self.combine(None, keep)?;
        }
        let is_needed = begins_stripe || self.is_open;
        let stands_below = self.is_open && !begins_stripe;
        self.is_open = is_needed && entry.kind == Kind::Operand;
        match entry.kind {
            _ if !is_needed => Ok(()),
            Kind::Operand => self.wait(entry, begins_stripe, keep),
            Kind::Value | Kind::Tombstone if stands_below => self.combine(Some(entry), keep),
            Kind::Value | Kind::Tombstone => keep(entry),
        }
    }

    /// The key ends with operands: what they stand on is elsewhere, or nowhere.
    #[cold]
    fn end_key(&mut self, is_oldest: &dyn Fn(&[u8]) -> bool, keep: Keep<'_>) -> Result<()> {
        self.is_open = false;
        let nothing = Entry {
            key: &[],
            sequence: Sequence(0),
            kind: Kind::Tombstone,
            value: &[],
        };
        let is_lowest = is_oldest(&self.waiting.key);
        self.combine(is_lowest.then_some(&nothing), keep)
    }

    fn wait(&mut self, entry: &Entry<'_>, begins_stripe: bool, keep: Keep<'_>) -> Result<()> {
        let waiting = &mut self.waiting;
        if begins_stripe {
            waiting.key.clear();
            waiting.key.extend_from_slice(entry.key);
            waiting.is_refused = !self.operator.is_set();
        }
        if waiting.is_refused {
            return keep(entry);
        }
        waiting.bytes += entry.value.len();
        waiting
            .operands
            .push((entry.sequence, entry.value.to_vec()));
        if waiting.operands.len() < WAITING_MAX && waiting.bytes < WAITING_BYTES_MAX {
            return Ok(());
        }
        let Some((sequence, merged)) = self.merged(None) else {
            return self.write_waiting(keep);
        };
        self.waiting.bytes = merged.len();
        self.waiting.operands.clear();
        self.waiting.operands.push((sequence, merged));
        Ok(())
    }

    /// Writes the operands that wait, combined with what is below them, if that is known.
    fn combine(&mut self, base: Option<&Entry<'_>>, keep: Keep<'_>) -> Result<()> {
        // One by itself is what it comes to.
        let is_combined = !self.waiting.operands.is_empty()
            && (base.is_some() || self.waiting.operands.len() > 1);
        let merged = is_combined.then(|| self.merged(base)).flatten();
        let Some((sequence, value)) = merged else {
            self.write_waiting(keep)?;
            // `end_key` says by one of sequence 0 that there is nothing.
            return match base.filter(|base| base.sequence > Sequence(0)) {
                Some(base) => keep(base),
                None => Ok(()),
            };
        };
        let key = std::mem::take(&mut self.waiting.key);
        self.waiting.operands.clear();
        self.waiting.bytes = 0;
        let kind = match base {
            Some(_) => Kind::Value,
            None => Kind::Operand,
        };
        keep(&Entry {
            key: &key,
            sequence,
            kind,
            value: &value,
        })
    }

    /// What the operands that wait come to, and the sequence of the newest.
    fn merged(&mut self, base: Option<&Entry<'_>>) -> Option<(Sequence, Vec<u8>)> {
        let waiting = &self.waiting;
        let (newest, _) = waiting.operands.first()?;
        let oldest_first = waiting.operands.iter().rev();
        let operands: Vec<&[u8]> = oldest_first.map(|(_, operand)| &**operand).collect();
        let base = base.filter(|base| base.kind == Kind::Value);
        let base = base.map(|base| base.value);
        match self.operator.merge(&waiting.key, base, &operands) {
            Ok(merged) => Some((*newest, merged)),
            Err(error) => {
                self.refusal.get_or_insert(error);
                None
            }
        }
    }

    /// Writes the operands that wait as they are.
    fn write_waiting(&mut self, keep: Keep<'_>) -> Result<()> {
        let waiting = &mut self.waiting;
        waiting.is_refused = true;
        waiting.bytes = 0;
        for (sequence, value) in waiting.operands.drain(..) {
            keep(&Entry {
                key: &waiting.key,
                sequence,
                kind: Kind::Operand,
                value: &value,
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: Kind, sequence: u64) -> Entry<'static> {
        Entry {
            key: b"key",
            sequence: Sequence(sequence),
            kind,
            value: b"",
        }
    }

    type Kept = (Kind, u64, Vec<u8>);

    /// What is kept of these versions of a key.
    fn kept_by<'a>(
        operator: &Operator,
        snapshots: &[u64],
        versions: impl IntoIterator<Item = Entry<'a>>,
        is_oldest: bool,
    ) -> (Vec<Kept>, Option<Error>) {
        let snapshots = snapshots.iter().copied().map(Sequence).collect();
        let mut retain = Retain::new(snapshots, operator.clone());
        let mut kept = Vec::new();
        let mut keep = |entry: &Entry<'_>| {
            kept.push((entry.kind, entry.sequence.0, entry.value.to_vec()));
            Ok(())
        };
        let is_oldest = |_: &[u8]| is_oldest;
        for version in versions {
            retain.take(&version, &is_oldest, &mut keep).unwrap();
        }
        let refusal = retain.finish(&is_oldest, &mut keep).unwrap();
        (kept, refusal)
    }

    fn kept<'a>(
        snapshots: &[u64],
        versions: impl IntoIterator<Item = Entry<'a>>,
        is_oldest: bool,
    ) -> Vec<u64> {
        let (kept, _) = kept_by(&Operator::default(), snapshots, versions, is_oldest);
        kept.into_iter().map(|one| one.1).collect()
    }

    /// Versions as `v9` (value), `t7` (tombstone) and `o3` (operand), whose bytes are the same; joined by
    /// the operator.
    fn combined(operator: &Operator, snapshots: &[u64], versions: &str, is_oldest: bool) -> String {
        let of = |version: &'static str| {
            let kind = match &version[..1] {
                "v" => Kind::Value,
                "o" => Kind::Operand,
                _ => Kind::Tombstone,
            };
            let value = if kind.has_value() {
                version.as_bytes()
            } else {
                b""
            };
            let sequence = Sequence(version[1..].parse().unwrap());
            Entry {
                key: b"key",
                sequence,
                kind,
                value,
            }
        };
        let versions: Vec<&'static str> = versions.to_owned().leak().split(' ').collect();
        let (kept, _) = kept_by(operator, snapshots, versions.into_iter().map(of), is_oldest);
        let shown = kept.iter().map(|(kind, sequence, value)| {
            let kind = ["t", "v", "o"][usize::from(kind.to_u8())];
            format!("{kind}{sequence}={}", value.escape_ascii())
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn operands_are_combined_between_snapshots() {
        let append = Operator::new(crate::operator::Append::with_delimiter("+"));
        let below = |snapshots: &[u64], versions| combined(&append, snapshots, versions, false);
        let lowest = |snapshots: &[u64], versions| combined(&append, snapshots, versions, true);
        // Onto a value or a tombstone; onto nothing only where nothing is.
        assert_eq!(below(&[], "o9 o7 v3 o2"), "v9=v3+o7+o9");
        assert_eq!(below(&[], "o9 o7 t3 v2"), "v9=o7+o9");
        assert_eq!(below(&[], "o9 o7"), "o9=o7+o9");
        assert_eq!(below(&[], "o9"), "o9=o9");
        assert_eq!(lowest(&[], "o9 o7"), "v9=o7+o9");
        assert_eq!(lowest(&[], "o9"), "v9=o9");
        // Never across a snapshot, and nothing below what decides.
        assert_eq!(below(&[7], "o9 o7 v3"), "o9=o9 v7=v3+o7");
        assert_eq!(below(&[8], "o9 o7 o5 v3"), "o9=o9 v7=v3+o5+o7");
        assert_eq!(below(&[6], "o9 o7 o5 v3 o1"), "o9=o7+o9 v5=v3+o5");
        assert_eq!(below(&[4, 6], "o9 o7 o5 o3"), "o9=o7+o9 o5=o5 o3=o3");
        assert_eq!(lowest(&[4, 6], "o9 o7 o5 o3"), "o9=o7+o9 o5=o5 v3=o3");
        assert_eq!(below(&[5], "v9 o7 o5 v3"), "v9=v9 v5=v3+o5");
        assert_eq!(
            below(&[2], "o9 v3"),
            "v9=v3+o9",
            "the newest keeps its sequence"
        );
        // The tombstone that a snapshot sees stays apart.
        assert_eq!(below(&[8], "o9 t7 v3"), "o9=o9 t7=");
    }

    #[test]
    fn many_operands_wait_in_parts() {
        let append = Operator::new(crate::operator::Append::new());
        let all: Vec<String> = (1..=200).rev().map(|n| format!("o{n}")).collect();
        let whole: Vec<String> = (1..=200).map(|n| format!("o{n}")).collect();
        let expected = format!("v200={}", whole.concat());
        assert_eq!(combined(&append, &[], &all.join(" "), true), expected);
    }

    #[test]
    fn operands_that_cannot_be_combined_stay_as_they_are() {
        // Without an operator, and with one that takes numbers.
        let add = Operator::new(crate::operator::Add::i64());
        for operator in [&Operator::default(), &add] {
            let kept = |snapshots: &[u64], versions| combined(operator, snapshots, versions, true);
            assert_eq!(kept(&[], "o9 o7 v3 o2"), "o9=o9 o7=o7 v3=v3");
            assert_eq!(kept(&[8], "o9 o7 t3 v2"), "o9=o9 o7=o7 t3=");
            assert_eq!(kept(&[], "o9"), "o9=o9");
            let all: Vec<String> = (1..=200).rev().map(|n| format!("o{n}")).collect();
            let as_they_are: Vec<String> = (1..=200).rev().map(|n| format!("o{n}=o{n}")).collect();
            assert_eq!(kept(&[], &all.join(" ")), as_they_are.join(" "));
        }
        let operand = Entry {
            kind: Kind::Operand,
            ..entry(Kind::Value, 9)
        };
        let (_, refusal) = kept_by(&add, &[], [operand], true);
        assert!(
            matches!(refusal, Some(Error::Operator { .. })),
            "{refusal:?}"
        );
        let (_, refusal) = kept_by(&Operator::default(), &[], [operand], true);
        assert!(refusal.is_none(), "nothing was tried");
    }

    #[test]
    fn keeps_the_newest_and_what_snapshots_see() {
        let check = |snapshots: &[u64], versions: &[u64]| -> Vec<u64> {
            let versions = versions.iter().map(|version| entry(Kind::Value, *version));
            kept(snapshots, versions, true)
        };
        assert_eq!(check(&[], &[9, 7, 3]), [9]);
        assert_eq!(check(&[8], &[9, 7, 3]), [9, 7]);
        assert_eq!(check(&[7], &[9, 7, 3]), [9, 7]);
        assert_eq!(check(&[6], &[9, 7, 3]), [9, 3]);
        assert_eq!(check(&[3, 6, 8, 20], &[9, 7, 3]), [9, 7, 3]);
        assert_eq!(check(&[2], &[9, 7, 3]), [9]);
        assert_eq!(check(&[9], &[9, 7, 3]), [9]);
    }

    #[test]
    fn a_tombstone_goes_when_it_hides_nothing_from_anybody() {
        let check = |snapshots: &[u64], is_oldest: bool| -> Vec<u64> {
            let versions = [entry(Kind::Tombstone, 9), entry(Kind::Value, 7)];
            kept(snapshots, versions, is_oldest)
        };
        assert_eq!(check(&[], true), [0_u64; 0]);
        assert_eq!(check(&[], false), [9]);
        assert_eq!(check(&[9, 12], true), [0_u64; 0]);
        assert_eq!(check(&[8], true), [9, 7], "the snapshot sees the value");
        assert_eq!(
            check(&[3], true),
            [9],
            "an old snapshot may see older versions elsewhere"
        );
    }
}
