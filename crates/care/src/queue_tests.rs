use super::*;
use proptest::prelude::*;

/// The same promises by the most obvious means: a list that is sorted whenever something is taken.
#[derive(Default)]
struct Naive {
    waiting: Vec<(usize, SegmentId)>,
    working: Vec<(SegmentId, Option<usize>)>,
}

impl Naive {
    fn apply(&mut self, event: Event) {
        match event {
            Event::Found { segment, margin } => {
                if let Some(entry) = self.working.iter_mut().find(|(id, _)| *id == segment) {
                    entry.1 = Some(margin);
                } else {
                    self.waiting.retain(|(_, id)| *id != segment);
                    self.waiting.push((margin, segment));
                }
            }
            Event::Ended(segment) => {
                let again = self.working.iter().find(|(id, _)| *id == segment).and_then(|(_, again)| *again);
                self.working.retain(|(id, _)| *id != segment);
                if let Some(margin) = again {
                    self.apply(Event::Found { segment, margin });
                }
            }
            Event::Gone(segment) => {
                self.working.retain(|(id, _)| *id != segment);
                self.waiting.retain(|(_, id)| *id != segment);
            }
        }
    }

    fn next(&mut self) -> Option<SegmentId> {
        self.waiting.sort();
        if self.waiting.is_empty() {
            return None;
        }
        let (_, segment) = self.waiting.remove(0);
        self.working.push((segment, None));
        Some(segment)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Apply(Event),
    Next,
}

fn step() -> impl Strategy<Value = Step> {
    let segment = (0u128..12).prop_map(SegmentId);
    prop_oneof![
        (segment.clone(), 0usize..4).prop_map(|(segment, margin)| Step::Apply(Event::Found { segment, margin })),
        segment.clone().prop_map(|segment| Step::Apply(Event::Ended(segment))),
        segment.prop_map(|segment| Step::Apply(Event::Gone(segment))),
        Just(Step::Next),
    ]
}

proptest! {
    #[test]
    fn gives_out_what_a_sort_would(steps in proptest::collection::vec(step(), 0..200)) {
        let (mut queue, mut naive) = (Queue::default(), Naive::default());
        for step in steps {
            match step {
                Step::Apply(event) => {
                    queue.apply(event);
                    naive.apply(event);
                }
                Step::Next => prop_assert_eq!(queue.next(), naive.next()),
            }
            prop_assert_eq!(queue.waiting_count(), naive.waiting.len());
        }
    }
}

#[test]
fn most_at_risk_first_then_oldest() {
    let mut queue = Queue::default();
    for (id, margin) in [(1, 2), (2, 0), (3, 1), (4, 0)] {
        queue.apply(Event::Found { segment: SegmentId(id), margin });
    }
    let order: Vec<u128> = std::iter::from_fn(|| queue.next()).map(|segment| segment.0).collect();
    assert_eq!(order, [2, 4, 3, 1]);
}

#[test]
fn found_again_while_worked_on_comes_again_once_it_ended() {
    let mut queue = Queue::default();
    let segment = SegmentId(7);
    queue.apply(Event::Found { segment, margin: 1 });
    assert_eq!(queue.next(), Some(segment));
    queue.apply(Event::Found { segment, margin: 0 });
    assert_eq!(queue.next(), None);
    queue.apply(Event::Ended(segment));
    assert_eq!(queue.next(), Some(segment));
    queue.apply(Event::Ended(segment));
    assert_eq!(queue.next(), None);
}
