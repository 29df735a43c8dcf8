//! Killed at any moment, it goes on where it was.

use std::time::Duration;

use super::{Place, noise, plant};
use crate::exit::Exit;

#[test]
fn kills_leave_a_store_that_goes_on() {
    for granularity in ["document", "line"] {
        let place = Place::new();
        plant(&place, 800);
        for n in 0..40 {
            place.write(&format!("big/{n}"), noise(n, 300_000));
        }
        super::pause();
        let arguments = [
            "ingest",
            place.tree.to_str().unwrap(),
            "--store",
            place.store.to_str().unwrap(),
            "--granularity",
            granularity,
        ];
        let mut killed = 0;
        for round in 0..12 {
            let after = Duration::from_millis(5 + 7 * round);
            killed += u64::from(super::is_killed(&arguments, after));
            if place.store.join("index/CURRENT").exists() {
                // Whatever is committed is whole. Before the first commit there is nothing yet.
                let checked = place.run(&["check"]);
                let exit = checked.unwrap_or_else(|failure| failure.exit);
                assert!(exit == Exit::Done || exit == Exit::Usage, "{exit:?}");
            }
        }
        assert!(killed > 0, "no round was fast enough");
        let ended = place.ingest(&["--granularity", granularity]);
        assert_eq!(ended.counts.troubles, 0);
        drop(ended);
        assert_eq!(place.run(&["check"]).unwrap(), Exit::Done);
        assert!(place.extract() == place.files());
    }
}
