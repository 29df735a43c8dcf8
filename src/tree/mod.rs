//! One sorted set of keys: what each keyspace of a store will have one of.
//!
//! A [`Tree`] has memtables, a version and their measures. It answers lookups and scans, turns
//! memtables into segments, and plans and carries out merges. It knows no journal, no thread and no
//! other tree: a store calls it, and lends it what trees share ([`Services`](crate::services)).

mod age;
mod claims;
mod conflict;
mod counters;
mod demand;
mod estimate;
mod explain;
mod explain_range;
mod filter_budget;
mod flush;
mod idle;
mod insertion;
mod install;
mod lazy_merge;
mod lookup;
mod manual;
mod many;
mod moves;
mod operands;
mod planner_input;
mod read_set;
mod recovered;
mod scan;
mod state;
mod stop;
mod subcompaction;
mod tombstone_gaps;
mod traffic;
mod view;
mod work_times;
mod write_set;

pub(crate) use claims::{Claims, Reserved};
pub(crate) use conflict::{Examined, Rest, Watched};
pub use counters::LookupStats;
pub(crate) use estimate::{approximate_len, approximate_len_in, counted};
pub use explain::{Explanation, FilterOutcome, Outcome, Source, Step};
pub use explain_range::{RangeExplanation, RangeOutcome, RangeStep};
pub(crate) use flush::Destination;
pub(crate) use idle::Next;
pub(crate) use insertion::Insertion;
pub use lazy_merge::ScanStats;
pub(crate) use read_set::ReadSet;
pub(crate) use recovered::RecoveredTables;
pub(crate) use scan::Scan;
pub(crate) use state::Tree;
pub(crate) use subcompaction::{MergePlan, Merging, parts_max};
pub(crate) use view::View;
pub(crate) use write_set::{Write, WriteSet, Written};
