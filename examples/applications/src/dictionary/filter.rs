//! A Bloom filter as a dictionary: it can be asked and added to, and errs when it says "maybe".

use criba_filters::{Classic, Design, Insert, Membership};

use super::Dictionary;
use crate::Result;
use crate::counted::add_steps;

/// Bits for each contact.
const BITS_PER_CONTACT: u64 = 10;

pub(super) struct Filter(Classic);

impl Filter {
    pub(super) fn create(contacts: &[String]) -> Result<Filter> {
        let count = contacts.len() as u64;
        let design = Design::for_bits(count, BITS_PER_CONTACT * count)?;
        let mut filter = Filter(Classic::new(design)?);
        for contact in contacts {
            filter.add(contact)?;
        }
        Ok(filter)
    }
}

impl Dictionary for Filter {
    fn contains(&self, contact: &str) -> Result<bool> {
        add_steps(self.0.probes_read(contact) as usize);
        Ok(self.0.may_contain(contact))
    }

    fn add(&mut self, contact: &str) -> Result<()> {
        add_steps(self.0.design().probes as usize);
        Ok(self.0.insert(contact)?)
    }

    fn rate(&self) -> f64 {
        self.0.expected_rate()
    }
}
