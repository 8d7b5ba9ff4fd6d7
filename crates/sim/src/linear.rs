//! Is a history of calls that overlap linearizable: is there an order of them, each at one moment between its begin and its end, in which a
//! sequential model answers as they were answered? Wing and Gong's search (1993) with the memory of Lowe (2017), as Porcupine has it.

use std::collections::HashSet;
use std::hash::Hash;

/// A sequential model.
pub trait Model: Clone + Eq + Hash {
    /// What is asked.
    type Operation;
    /// What is answered.
    type Answer: PartialEq;

    /// Does it, and answers.
    fn apply(&mut self, operation: &Self::Operation) -> Self::Answer;
}

/// One call.
#[derive(Clone, Debug)]
pub struct Call<O, A> {
    /// When it began.
    pub began: u64,
    /// When it was answered, or from when on it cannot be done any more.
    pub ended: u64,
    /// What was asked.
    pub operation: O,
    /// `None`: nobody knows whether it was done.
    pub answer: Option<A>,
}

/// What was linearized, and the state after it.
type Known<M> = HashSet<(Vec<u64>, M)>;

struct Search<'c, M: Model> {
    calls: &'c [Call<M::Operation, M::Answer>],
    known: Known<M>,
}

/// Is there such an order?
pub fn is_linearizable<M: Model>(start: &M, calls: &[Call<M::Operation, M::Answer>]) -> bool {
    let mut search = Search { calls, known: HashSet::new() };
    let mut done = vec![0; calls.len().div_ceil(64)];
    search.goes_on(&mut done, start)
}

impl<M: Model> Search<'_, M> {
    fn goes_on(&mut self, done: &mut Vec<u64>, state: &M) -> bool {
        let is_done = |done: &[u64], index: usize| done[index / 64] >> (index % 64) & 1 == 1;
        let open = || (0..self.calls.len()).filter(|index| !is_done(done, *index));
        // One that must be done is done before whatever began after its end.
        let first_end =
            open().filter(|index| self.calls[*index].answer.is_some()).map(|index| self.calls[index].ended).min();
        let Some(first_end) = first_end else { return true };
        if !self.known.insert((done.clone(), state.clone())) {
            return false;
        }
        let candidates: Vec<usize> = open().filter(|index| self.calls[*index].began <= first_end).collect();
        for index in candidates {
            let call = &self.calls[index];
            let mut next = state.clone();
            let answer = next.apply(&call.operation);
            if call.answer.as_ref().is_some_and(|expected| *expected != answer) {
                continue;
            }
            done[index / 64] |= 1 << (index % 64);
            // What came too late for one that may be done, was not.
            let is_in_time = open_begins_after(self.calls, done, call.ended);
            if is_in_time && self.goes_on(done, &next) {
                return true;
            }
            done[index / 64] &= !(1 << (index % 64));
        }
        false
    }
}

/// Nothing that is linearized already began after `end`.
fn open_begins_after<O, A>(calls: &[Call<O, A>], done: &[u64], end: u64) -> bool {
    let is_done = |index: &usize| done[index / 64] >> (index % 64) & 1 == 1;
    (0..calls.len()).filter(is_done).all(|index| calls[index].began <= end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A register.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct Register(u32);

    #[derive(Clone, Debug)]
    enum Operation {
        Write(u32),
        Read,
    }

    impl Model for Register {
        type Operation = Operation;
        type Answer = u32;

        fn apply(&mut self, operation: &Operation) -> u32 {
            if let Operation::Write(value) = operation {
                self.0 = *value;
            }
            self.0
        }
    }

    fn call(began: u64, ended: u64, operation: Operation, answer: Option<u32>) -> Call<Operation, u32> {
        Call { began, ended, operation, answer }
    }

    fn holds(calls: &[Call<Operation, u32>]) -> bool {
        is_linearizable(&Register(0), calls)
    }

    #[test]
    fn calls_that_overlap_have_some_order_and_others_have_theirs() {
        use Operation::{Read, Write};
        let write = call(0, 10, Write(1), Some(1));
        assert!(holds(&[write.clone(), call(2, 3, Read, Some(0)), call(5, 6, Read, Some(1))]));
        assert!(!holds(&[write.clone(), call(2, 3, Read, Some(1)), call(5, 6, Read, Some(0))]), "it was read before");
        assert!(!holds(&[write, call(11, 12, Read, Some(0))]), "it was answered");
    }

    #[test]
    fn one_without_an_answer_is_done_or_not_and_not_after_its_end() {
        use Operation::{Read, Write};
        let lost = call(0, 10, Write(7), None);
        assert!(holds(&[lost.clone(), call(20, 21, Read, Some(0)), call(30, 31, Read, Some(0))]));
        assert!(holds(&[lost.clone(), call(20, 21, Read, Some(7))]));
        assert!(!holds(&[lost, call(20, 21, Read, Some(0)), call(30, 31, Read, Some(7))]), "it came too late");
    }
}
