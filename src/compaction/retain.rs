//! Which versions of a key are still needed.

use crate::cursor::LastKey;
use crate::format::block::Entry;
use crate::key::{Kind, Sequence};

/// Decides, version by version, which are kept: the newest, and for each snapshot the newest
/// that it sees. A tombstone that every reader sees and that hides nothing any more is not.
#[derive(Debug)]
pub(crate) struct Retain {
    /// Ascending.
    snapshots: Vec<Sequence>,
    key: LastKey,
    /// Sequence of the version before (the newer one) that was seen.
    newer: Sequence,
}

impl Retain {
    pub(crate) fn new(snapshots: Vec<Sequence>) -> Retain {
        Retain {
            snapshots,
            key: LastKey::default(),
            newer: Sequence(0),
        }
    }

    /// Takes versions in order: keys ascending, newest first. `is_oldest` tells whether no older
    /// version of the key can be outside this merge; it is asked for tombstones only.
    pub(crate) fn keeps(
        &mut self,
        entry: &Entry<'_>,
        is_oldest: impl FnOnce(&[u8]) -> bool,
    ) -> bool {
        let newest = self.key.get() != Some(entry.key);
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
        if !(newest || seen) {
            return false;
        }
        // With all snapshots at or after the tombstone, nobody needs what it hides, and nothing
        // older of the key is kept here.
        let superfluous = entry.kind == Kind::Tombstone && first == 0 && is_oldest(entry.key);
        !superfluous
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

    #[test]
    fn keeps_the_newest_and_what_snapshots_see() {
        let kept = |snapshots: &[u64], versions: &[u64]| -> Vec<u64> {
            let mut retain = Retain::new(snapshots.iter().copied().map(Sequence).collect());
            let keeps = |version: &u64| retain.keeps(&entry(Kind::Value, *version), |_| true);
            versions.iter().copied().filter(keeps).collect()
        };
        assert_eq!(kept(&[], &[9, 7, 3]), [9]);
        assert_eq!(kept(&[8], &[9, 7, 3]), [9, 7]);
        assert_eq!(kept(&[7], &[9, 7, 3]), [9, 7]);
        assert_eq!(kept(&[6], &[9, 7, 3]), [9, 3]);
        assert_eq!(kept(&[3, 6, 8, 20], &[9, 7, 3]), [9, 7, 3]);
        assert_eq!(kept(&[2], &[9, 7, 3]), [9]);
        assert_eq!(kept(&[9], &[9, 7, 3]), [9]);
    }

    #[test]
    fn a_tombstone_goes_when_it_hides_nothing_from_anybody() {
        let kept = |snapshots: &[u64], is_oldest: bool| -> Vec<u64> {
            let mut retain = Retain::new(snapshots.iter().copied().map(Sequence).collect());
            let versions = [entry(Kind::Tombstone, 9), entry(Kind::Value, 7)];
            let keeps = |version: &&Entry<'_>| retain.keeps(version, |_| is_oldest);
            versions
                .iter()
                .filter(keeps)
                .map(|version| version.sequence.0)
                .collect()
        };
        assert_eq!(kept(&[], true), [0_u64; 0]);
        assert_eq!(kept(&[], false), [9]);
        assert_eq!(kept(&[9, 12], true), [0_u64; 0]);
        assert_eq!(kept(&[8], true), [9, 7], "the snapshot sees the value");
        assert_eq!(
            kept(&[3], true),
            [9],
            "an old snapshot may see older versions elsewhere"
        );
    }
}
