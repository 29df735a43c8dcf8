//! One interface, six structures behind it: the dictionary of the textbook.
//!
//! The keys are [`Counted`](crate::counted::Counted), so comparisons and hashes count themselves. A
//! structure adds what keys do not see: elements that move or are walked over, bits that a filter reads
//! or sets. The store counts blocks, as comparisons are cheap where a disk is asked.

mod filter;
mod memory;
mod store;

use crate::counted::{reset, steps};
use crate::growth::Order::{self, Constant, Linear, Linearithmic, Logarithmic};
use crate::{Error, Result};

/// Two contacts, where there are any.
pub type Pair = (Option<String>, Option<String>);

/// A set of contacts. What a structure cannot do is an error.
pub trait Dictionary {
    /// Whether it has the contact; a filter may err when it says that it has.
    ///
    /// # Errors
    ///
    /// If the store fails.
    fn contains(&self, contact: &str) -> Result<bool>;

    /// Puts in a contact that it does not have.
    ///
    /// # Errors
    ///
    /// If the store or the filter fails.
    fn add(&mut self, contact: &str) -> Result<()>;

    /// Takes out a contact that it has.
    ///
    /// # Errors
    ///
    /// If the store fails, or if the structure cannot.
    fn remove(&mut self, _contact: &str) -> Result<()> {
        cannot("remove")
    }

    /// All contacts in order.
    ///
    /// # Errors
    ///
    /// If the store fails, or if the structure cannot.
    fn sorted(&self) -> Result<Vec<String>> {
        cannot("list")
    }

    /// The least and the greatest.
    ///
    /// # Errors
    ///
    /// If the store fails, or if the structure cannot.
    fn ends(&self) -> Result<Pair> {
        cannot("find the ends of")
    }

    /// The predecessor and the successor of a contact.
    ///
    /// # Errors
    ///
    /// If the store fails, or if the structure cannot.
    fn neighbours(&self, _contact: &str) -> Result<Pair> {
        cannot("find neighbours among")
    }

    /// Probability that a contact is found that it does not have, by theory.
    fn rate(&self) -> f64 {
        0.0
    }

    /// The steps since [`Kind::create`] began, in the unit of the structure. Only the dictionary that
    /// was created last counts.
    fn steps(&self) -> u64 {
        steps()
    }
}

fn cannot<T>(what: &str) -> Result<T> {
    Err(Error::Usage(format!(
        "this structure cannot {what} contacts"
    )))
}

/// What is asked of a dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A dictionary of `n` contacts that come in random order.
    Create,
    /// A contact that it has.
    Find,
    /// One that it has not.
    FindAbsent,
    /// All, in order.
    List,
    /// The least and the greatest.
    Ends,
    /// The predecessor and the successor of one that it has.
    Neighbours,
    /// One that it has not.
    Add,
    /// One that it has.
    Remove,
}

impl Operation {
    /// All of them.
    pub const ALL: [Operation; 8] = [
        Operation::Create,
        Operation::Find,
        Operation::FindAbsent,
        Operation::List,
        Operation::Ends,
        Operation::Neighbours,
        Operation::Add,
        Operation::Remove,
    ];

    /// For tables.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Create => "create",
            Operation::Find => "find",
            Operation::FindAbsent => "find, absent",
            Operation::Add => "add",
            Operation::Remove => "remove",
            Operation::List => "sorted list",
            Operation::Ends => "least and greatest",
            Operation::Neighbours => "predecessor and successor",
        }
    }
}

/// A structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `Vec`
    Unsorted,
    /// `Vec`, always in order
    Sorted,
    /// `BTreeSet`
    Tree,
    /// `HashSet`
    Table,
    /// `criba_filters::Classic`
    Filter,
    /// `criba::Db`
    Store,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 6] = [
        Kind::Unsorted,
        Kind::Sorted,
        Kind::Tree,
        Kind::Table,
        Kind::Filter,
        Kind::Store,
    ];

    /// For tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Unsorted => "unsorted array",
            Kind::Sorted => "sorted array",
            Kind::Tree => "balanced tree",
            Kind::Table => "hash table",
            Kind::Filter => "Bloom filter",
            Kind::Store => "store on disk",
        }
    }

    /// What a step is.
    pub fn step(self) -> &'static str {
        match self {
            Kind::Unsorted | Kind::Sorted => "a comparison, or an element that moves or is read",
            Kind::Tree => "a comparison, or an element that is read",
            Kind::Table => "a hash, a comparison, or an element that is read",
            Kind::Filter => "a bit that is read or set",
            Kind::Store => "a data block that is read or written",
        }
    }

    /// The order that the textbook promises, if the structure can do it at all. Adding to a hash table
    /// and to the store is in the mean over many. The store is one sorted run.
    pub fn promised(self, operation: Operation) -> Option<Order> {
        Some(match (self, operation) {
            (Kind::Unsorted, Operation::Add) => Constant,
            (Kind::Unsorted | Kind::Table, Operation::List) => Linearithmic,
            (Kind::Unsorted, _) => Linear,
            (Kind::Sorted | Kind::Tree, Operation::Create) => Linearithmic,
            (Kind::Sorted | Kind::Tree | Kind::Store, Operation::List) => Linear,
            (Kind::Sorted, Operation::Add | Operation::Remove) => Linear,
            (Kind::Sorted, Operation::Ends) => Constant,
            (Kind::Sorted | Kind::Tree, _) => Logarithmic,
            (Kind::Table, Operation::Create | Operation::Ends | Operation::Neighbours) => Linear,
            (Kind::Filter | Kind::Store, Operation::Create) => Linear,
            (Kind::Filter, Operation::List | Operation::Ends) => return None,
            (Kind::Filter, Operation::Neighbours | Operation::Remove) => return None,
            (Kind::Table | Kind::Filter | Kind::Store, _) => Constant,
        })
    }

    /// A dictionary of these contacts, which are distinct and in no order.
    ///
    /// # Errors
    ///
    /// If the store or the filter fails.
    pub fn create(self, contacts: &[String]) -> Result<Box<dyn Dictionary>> {
        reset();
        Ok(match self {
            Kind::Unsorted => Box::new(memory::Unsorted::create(contacts)),
            Kind::Sorted => Box::new(memory::Sorted::create(contacts)),
            Kind::Tree => Box::new(memory::Tree::create(contacts)),
            Kind::Table => Box::new(memory::Table::create(contacts)),
            Kind::Filter => Box::new(filter::Filter::create(contacts)?),
            Kind::Store => Box::new(store::Store::create(contacts)?),
        })
    }
}
