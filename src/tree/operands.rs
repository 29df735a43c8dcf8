//! What the operands of a key come to when it is read.

use crate::error::{Error, Result};
use crate::operator::Operator;
use crate::slice::Slice;

use super::state::Tree;

/// Operands that a scan gathers of one key before it combines them: they hold the blocks in which
/// they lie.
const GATHERED_MAX: usize = 128;

impl Tree {
    /// What operands, newest first, make of the value below them.
    #[cold]
    pub(super) fn combine(
        &self,
        key: &[u8],
        base: Option<&Slice>,
        newest_first: &[Slice],
    ) -> Result<Slice> {
        let operands: Vec<&[u8]> = newest_first.iter().rev().map(|one| &**one).collect();
        let operator = self.operator();
        operator
            .merge(key, base.map(|base| &**base), &operands)
            .map(Slice::from)
    }
}

/// The operands of one key that a scan has met, and the value below them.
#[derive(Debug)]
pub(super) struct Gathered {
    base: Option<Slice>,
    /// In the order in which they came.
    operands: Vec<Slice>,
    is_newest_first: bool,
    /// Those so far could not be combined.
    failed: Option<Error>,
}

impl Gathered {
    /// Operands that will come newest first, the value last.
    pub(super) fn newest_first(operand: Slice) -> Gathered {
        Gathered {
            base: None,
            operands: vec![operand],
            is_newest_first: true,
            failed: None,
        }
    }

    /// Operands that will come oldest first, on a value if there is one.
    pub(super) fn oldest_first(base: Option<Slice>) -> Gathered {
        Gathered {
            base,
            operands: Vec::new(),
            is_newest_first: false,
            failed: None,
        }
    }

    pub(super) fn set_base(&mut self, base: Slice) {
        self.base = Some(base);
    }

    pub(super) fn push(&mut self, operator: &Operator, key: &[u8], operand: Slice) {
        self.operands.push(operand);
        if self.operands.len() < GATHERED_MAX {
            return;
        }
        let combined = self.combine(operator, key, None);
        self.operands.clear();
        match combined {
            Ok(combined) => self.operands.push(combined),
            Err(error) => self.failed = Some(error),
        }
    }

    /// What they come to.
    pub(super) fn finish(mut self, operator: &Operator, key: &[u8]) -> Result<Slice> {
        let base = self.base.take();
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.combine(operator, key, base.as_deref()),
        }
    }

    fn combine(&self, operator: &Operator, key: &[u8], base: Option<&[u8]>) -> Result<Slice> {
        let mut operands: Vec<&[u8]> = self.operands.iter().map(|one| &**one).collect();
        if self.is_newest_first {
            operands.reverse();
        }
        operator.merge(key, base, &operands).map(Slice::from)
    }
}
