//! A store of several keyspaces, of which one file is the input.

use super::bytes::set;
use super::exercise::{exercise, golden};
use super::{frame, is_written, repair};

const MANIFEST: &str = "MANIFEST-000002";
const JOURNAL: &str = "000004.journal";
const SEGMENTS: &str = "000005.seg";

/// Number, start and length of each segment of the shared file, and where the manifest has the
/// checksum of its footer.
const SECTIONS: [(u64, usize, usize, usize); 3] =
    [(5, 0, 360, 354), (6, 4096, 4617, 442), (7, 12288, 358, 534)];

/// A byte of choices, then the manifest, the journal or the file that segments share.
pub(super) fn keyspaces(input: &[u8]) {
    let Some((&choice, bytes)) = input.split_first() else {
        return;
    };
    let mut bytes = bytes.to_vec();
    let mut files = golden("keyspaces");
    let name = match choice % 3 {
        0 => {
            repair::manifest(&mut bytes, 2);
            MANIFEST
        }
        1 => {
            repair::journal(&mut bytes, 4, choice & 8 == 0);
            // The store was killed: nothing says where the journal ends.
            files.insert("CURRENT".into(), frame::current(2, None, 3));
            JOURNAL
        }
        _ => {
            let manifest = files.get_mut(MANIFEST).unwrap();
            for (number, start, len, known) in SECTIONS {
                let Some(section) = bytes.get_mut(start..start + len) else {
                    continue;
                };
                repair::segment(section, number);
                set(manifest, known, &section[len - 4..]);
            }
            repair::manifest(manifest, 2);
            SEGMENTS
        }
    };
    files.insert(name.into(), bytes);
    exercise(files, is_written(choice));
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let files = golden("keyspaces");
    let choices = [
        (0, MANIFEST),
        (225, MANIFEST),
        (1, JOURNAL),
        (226, JOURNAL),
        (2, SEGMENTS),
        (227, SEGMENTS),
    ];
    choices
        .map(|(choice, name)| [&[choice], &files[name][..]].concat())
        .into()
}
