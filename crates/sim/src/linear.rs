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

    /// Does an operation that was answered so change nothing, in whatever state?
    fn only_reads(operation: &Self::Operation, answer: &Self::Answer) -> bool;
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
        let open = indices(self.calls, done, false);
        // One that must be done is done before whatever began after its end.
        let ends = open.iter().map(|index| &self.calls[*index]).filter(|call| call.answer.is_some());
        let Some(first_end) = ends.map(|call| call.ended).min() else { return true };
        if !self.known.insert((done.clone(), state.clone())) {
            return false;
        }
        let latest =
            indices(self.calls, done, true).into_iter().map(|index| self.calls[index].began).max().unwrap_or(0);
        for (index, next) in self.nexts(&open, first_end, latest, state) {
            done[index / 64] |= 1 << (index % 64);
            if self.goes_on(done, &next) {
                return true;
            }
            done[index / 64] &= !(1 << (index % 64));
        }
        false
    }

    /// Which of the `open` ones may be done next, and the state after each: first those that end first and are answered. `latest`: when the last
    /// of those that are done began.
    fn nexts(&self, open: &[usize], first_end: u64, latest: u64, state: &M) -> Vec<(usize, M)> {
        let mut nexts = Vec::new();
        for &index in open.iter().filter(|index| self.calls[**index].began <= first_end) {
            let call = &self.calls[index];
            // What came too late for one that may be done, was not.
            if latest.max(call.began) > call.ended {
                continue;
            }
            let mut next = state.clone();
            let answer = next.apply(&call.operation);
            match &call.answer {
                Some(expected) if *expected != answer => {}
                // Whether it is done at this moment makes no difference.
                None if next == *state => {}
                // It only reads, and what it read is right: done now, it is in no other's way, but for those that came too late then.
                Some(answer) if M::only_reads(&call.operation, answer) && self.all_in_time(open, call.began) => {
                    return vec![(index, next)];
                }
                _ => nexts.push((index, next)),
            }
        }
        nexts.sort_by_key(|(index, _)| (self.calls[*index].answer.is_none(), self.calls[*index].ended));
        nexts
    }

    /// May all of these be done after something that began at `began`?
    fn all_in_time(&self, open: &[usize], began: u64) -> bool {
        open.iter().all(|index| self.calls[*index].ended >= began)
    }
}

/// Of the calls that are done, or that are not.
fn indices<O, A>(calls: &[Call<O, A>], done: &[u64], is_done: bool) -> Vec<usize> {
    (0..calls.len()).filter(|index| (done[index / 64] >> (index % 64) & 1 == 1) == is_done).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

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

        fn only_reads(operation: &Operation, _answer: &u32) -> bool {
            matches!(operation, Operation::Read)
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

    /// All orders of all subsets, one after the other.
    fn holds_for_some_order(calls: &[Call<Operation, u32>], order: &mut Vec<usize>, register: &Register) -> bool {
        let is_left = |index: &usize| !order.contains(index);
        if (0..calls.len()).filter(is_left).all(|index| calls[index].answer.is_none()) {
            return true;
        }
        for index in (0..calls.len()).filter(is_left).collect::<Vec<_>>() {
            let call = &calls[index];
            let mut next = register.clone();
            let answer = next.apply(&call.operation);
            let is_right = call.answer.is_none_or(|expected| expected == answer);
            let is_in_time = order.iter().all(|before| calls[*before].began <= call.ended);
            order.push(index);
            let holds = is_right && is_in_time && holds_for_some_order(calls, order, &next);
            order.pop();
            if holds {
                return true;
            }
        }
        false
    }

    #[test]
    fn it_finds_an_order_where_there_is_one() {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let mut held = 0;
        for case in 0..4000 {
            let calls: Vec<_> = (0..random.random_range(1..=6))
                .map(|_| {
                    let (began, value) = (random.random_range(0..12), random.random_range(0..3));
                    let operation = if random.random() { Operation::Write(value) } else { Operation::Read };
                    let answer = match operation {
                        Operation::Write(value) => value,
                        Operation::Read => random.random_range(0..3),
                    };
                    call(began, began + random.random_range(0..8), operation, random.random_bool(0.7).then_some(answer))
                })
                .collect();
            let holds_slowly = holds_for_some_order(&calls, &mut Vec::new(), &Register(0));
            assert_eq!(holds(&calls), holds_slowly, "case {case}: {calls:?}");
            held += usize::from(holds_slowly);
        }
        assert!((500..3500).contains(&held), "{held} of 4000 have an order");
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
