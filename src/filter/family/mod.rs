//! The filters of the literature side by side, to use and to study.

pub(crate) mod frame;

pub use frame::Unreadable;
