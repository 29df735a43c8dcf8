//! The structures of the textbook: two arrays, a tree, a hash table.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashSet};
use std::hash::BuildHasherDefault;
use std::ops::Bound::{Excluded, Unbounded};

use super::{Dictionary, Pair};
use crate::Result;
use crate::counted::{Counted, add_steps};

fn counted(contact: &str) -> Counted {
    Counted(contact.into())
}

fn text(contact: &Counted) -> String {
    contact.0.clone()
}

/// The elements, each of which is read.
fn read<'a>(contacts: impl Iterator<Item = &'a Counted>) -> impl Iterator<Item = &'a Counted> {
    contacts.inspect(|_| add_steps(1))
}

/// The neighbours among contacts in no order.
fn neighbours_among<'a>(
    contacts: impl Iterator<Item = &'a Counted> + Clone,
    contact: &Counted,
) -> Pair {
    let before = read(contacts.clone())
        .filter(|other| *other < contact)
        .max();
    let after = read(contacts).filter(|other| *other > contact).min();
    (before.map(text), after.map(text))
}

/// The ends of contacts in no order.
fn ends_of<'a>(contacts: impl Iterator<Item = &'a Counted> + Clone) -> Pair {
    let (least, greatest) = (read(contacts.clone()).min(), read(contacts).max());
    (least.map(text), greatest.map(text))
}

fn sorted_of<'a>(contacts: impl Iterator<Item = &'a Counted>) -> Vec<String> {
    let mut all: Vec<&Counted> = read(contacts).collect();
    all.sort();
    all.into_iter().map(text).collect()
}

/// One by one, so that there is room for more at the end.
fn pushed(contacts: &[String]) -> Vec<Counted> {
    let mut all = Vec::new();
    for contact in contacts {
        all.push(counted(contact));
    }
    all
}

pub(super) struct Unsorted(Vec<Counted>);

impl Unsorted {
    pub(super) fn create(contacts: &[String]) -> Unsorted {
        add_steps(contacts.len());
        Unsorted(pushed(contacts))
    }
}

impl Dictionary for Unsorted {
    fn contains(&self, contact: &str) -> Result<bool> {
        Ok(self.0.contains(&counted(contact)))
    }

    fn add(&mut self, contact: &str) -> Result<()> {
        add_steps(1);
        self.0.push(counted(contact));
        Ok(())
    }

    fn remove(&mut self, contact: &str) -> Result<()> {
        let contact = counted(contact);
        if let Some(place) = self.0.iter().position(|other| *other == contact) {
            // The last one takes its place.
            add_steps(1);
            self.0.swap_remove(place);
        }
        Ok(())
    }

    fn sorted(&self) -> Result<Vec<String>> {
        Ok(sorted_of(self.0.iter()))
    }

    fn ends(&self) -> Result<Pair> {
        Ok(ends_of(self.0.iter()))
    }

    fn neighbours(&self, contact: &str) -> Result<Pair> {
        Ok(neighbours_among(self.0.iter(), &counted(contact)))
    }
}

pub(super) struct Sorted(Vec<Counted>);

impl Sorted {
    pub(super) fn create(contacts: &[String]) -> Sorted {
        let mut all = pushed(contacts);
        all.sort();
        Sorted(all)
    }

    /// Where it is, or where it belongs.
    fn place(&self, contact: &str) -> std::result::Result<usize, usize> {
        self.0.binary_search(&counted(contact))
    }
}

impl Dictionary for Sorted {
    fn contains(&self, contact: &str) -> Result<bool> {
        Ok(self.place(contact).is_ok())
    }

    fn add(&mut self, contact: &str) -> Result<()> {
        if let Err(place) = self.place(contact) {
            add_steps(1 + self.0.len() - place);
            self.0.insert(place, counted(contact));
        }
        Ok(())
    }

    fn remove(&mut self, contact: &str) -> Result<()> {
        if let Ok(place) = self.place(contact) {
            self.0.remove(place);
            add_steps(self.0.len() - place);
        }
        Ok(())
    }

    fn sorted(&self) -> Result<Vec<String>> {
        Ok(read(self.0.iter()).map(text).collect())
    }

    fn ends(&self) -> Result<Pair> {
        let ends = (
            read(self.0.first().into_iter()),
            read(self.0.last().into_iter()),
        );
        Ok((ends.0.map(text).next(), ends.1.map(text).next()))
    }

    fn neighbours(&self, contact: &str) -> Result<Pair> {
        let (before, after) = match self.place(contact) {
            Ok(place) => (place, place + 1),
            Err(place) => (place, place),
        };
        let before = before.checked_sub(1).and_then(|place| self.0.get(place));
        Ok((before.map(text), self.0.get(after).map(text)))
    }
}

pub(super) struct Tree(BTreeSet<Counted>);

impl Tree {
    pub(super) fn create(contacts: &[String]) -> Tree {
        let mut all = BTreeSet::new();
        for contact in contacts {
            all.insert(counted(contact));
        }
        Tree(all)
    }
}

impl Dictionary for Tree {
    fn contains(&self, contact: &str) -> Result<bool> {
        Ok(self.0.contains(&counted(contact)))
    }

    fn add(&mut self, contact: &str) -> Result<()> {
        self.0.insert(counted(contact));
        Ok(())
    }

    fn remove(&mut self, contact: &str) -> Result<()> {
        self.0.remove(&counted(contact));
        Ok(())
    }

    fn sorted(&self) -> Result<Vec<String>> {
        Ok(read(self.0.iter()).map(text).collect())
    }

    fn ends(&self) -> Result<Pair> {
        // The way down the tree compares nothing, so a key cannot count it.
        let ends = (
            read(self.0.first().into_iter()),
            read(self.0.last().into_iter()),
        );
        Ok((ends.0.map(text).next(), ends.1.map(text).next()))
    }

    fn neighbours(&self, contact: &str) -> Result<Pair> {
        let contact = counted(contact);
        let before = self.0.range((Unbounded, Excluded(&contact))).next_back();
        let after = self.0.range((Excluded(&contact), Unbounded)).next();
        Ok((before.map(text), after.map(text)))
    }
}

/// The hash function is the same in every run, so that counts repeat.
pub(super) struct Table(HashSet<Counted, BuildHasherDefault<DefaultHasher>>);

impl Table {
    pub(super) fn create(contacts: &[String]) -> Table {
        let mut all = HashSet::default();
        for contact in contacts {
            all.insert(counted(contact));
        }
        Table(all)
    }
}

impl Dictionary for Table {
    fn contains(&self, contact: &str) -> Result<bool> {
        Ok(self.0.contains(&counted(contact)))
    }

    fn add(&mut self, contact: &str) -> Result<()> {
        self.0.insert(counted(contact));
        Ok(())
    }

    fn remove(&mut self, contact: &str) -> Result<()> {
        self.0.remove(&counted(contact));
        Ok(())
    }

    fn sorted(&self) -> Result<Vec<String>> {
        Ok(sorted_of(self.0.iter()))
    }

    fn ends(&self) -> Result<Pair> {
        Ok(ends_of(self.0.iter()))
    }

    fn neighbours(&self, contact: &str) -> Result<Pair> {
        Ok(neighbours_among(self.0.iter(), &counted(contact)))
    }
}
