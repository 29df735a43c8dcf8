//! Transactions: what each level promises, and what they do in bad company.

mod calls;
mod history;
mod keyspaces;
mod model;
mod workload;
