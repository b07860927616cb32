//! The pool of bundles, compared with a naive model.

use crate::unit_pool::{OFFERED, pool};
use crate::unit_support::*;
use proptest::collection;
use proptest::prelude::*;
use quorate_consensus::data::pool::{Need, Offered, Pool};
use quorate_types::*;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
enum Step {
    Offer { number: usize, wanted: bool },
    Select { commands: usize, bytes: usize },
    Propose { numbers: Vec<usize> },
    SetAside { block: prop::sample::Index },
    TakeUp { block: prop::sample::Index },
    Execute { block: prop::sample::Index },
    Release { block: prop::sample::Index },
}

const BUNDLES: usize = 14;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..BUNDLES, prop::bool::weighted(0.2)).prop_map(|(number, wanted)| Step::Offer { number, wanted }),
        3 => (1..12usize, 1..400usize).prop_map(|(commands, bytes)| Step::Select { commands, bytes }),
        2 => collection::vec(0..BUNDLES, 1..4).prop_map(|numbers| Step::Propose { numbers }),
        2 => any::<prop::sample::Index>().prop_map(|block| Step::SetAside { block }),
        2 => any::<prop::sample::Index>().prop_map(|block| Step::TakeUp { block }),
        3 => any::<prop::sample::Index>().prop_map(|block| Step::Execute { block }),
        3 => any::<prop::sample::Index>().prop_map(|block| Step::Release { block }),
    ]
}

#[derive(Default)]
struct Held {
    /// Number of blocks that name it, set aside or not.
    blocks: usize,
    aside: usize,
    executed: bool,
}

/// Block of the tree, with its state.
struct Proposed {
    numbers: Vec<usize>,
    executed: bool,
    aside: bool,
}

struct Naive {
    bundles: Vec<Bundle>,
    held: BTreeMap<usize, Held>,
    /// The pending bundles, in the order in which they are to be proposed.
    line: Vec<usize>,
}

impl Naive {
    fn pending(&self) -> BTreeSet<usize> {
        let waits = |held: &Held| held.blocks == 0 && !held.executed;
        let pending = self.held.iter().filter(|(_, held)| waits(held)).map(|(number, _)| *number).collect();
        assert_eq!(self.line.iter().copied().collect::<BTreeSet<_>>(), pending, "the model's list and states agree");
        pending
    }

    fn commands(&self, numbers: &BTreeSet<usize>) -> usize {
        numbers.iter().map(|number| self.bundles[*number].len()).sum()
    }

    fn bytes(&self, numbers: &BTreeSet<usize>) -> usize {
        numbers.iter().map(|number| self.bundles[*number].body().len()).sum()
    }

    fn number(&self, digest: &Digest) -> usize {
        self.bundles.iter().position(|bundle| bundle.digest() == *digest).expect("the digest is of a known bundle")
    }

    fn propose(&mut self, pool: &mut Pool, numbers: &[usize]) -> Proposed {
        for number in numbers {
            pool.on_proposal(&self.bundles[*number].digest());
            self.held.get_mut(number).expect("the model holds the bundle").blocks += 1;
            self.line.retain(|other| other != number);
        }
        Proposed { numbers: numbers.to_vec(), executed: false, aside: false }
    }

    fn set_aside(&mut self, pool: &mut Pool, numbers: &[usize]) {
        for number in numbers {
            pool.set_aside(&self.bundles[*number].digest());
            let held = self.held.get_mut(number).expect("the model holds the bundle");
            (held.blocks, held.aside) = (held.blocks - 1, held.aside + 1);
            if held.blocks == 0 && !held.executed {
                self.line.insert(0, *number);
            }
        }
    }

    fn take_up(&mut self, pool: &mut Pool, numbers: &[usize]) {
        for number in numbers {
            pool.taken_up(&self.bundles[*number].digest());
            let held = self.held.get_mut(number).expect("the model holds the bundle");
            (held.blocks, held.aside) = (held.blocks + 1, held.aside - 1);
            self.line.retain(|other| other != number);
        }
    }

    fn execute(&mut self, pool: &mut Pool, numbers: &[usize]) {
        for number in numbers {
            assert_eq!(pool.on_execution(&self.bundles[*number].digest()), self.bundles[*number]);
            self.held.get_mut(number).expect("the model holds the bundle").executed = true;
        }
    }

    fn release(&mut self, pool: &mut Pool, block: Proposed) {
        for number in block.numbers {
            let held = self.held.get_mut(&number).expect("the model holds the bundle");
            if block.aside {
                pool.on_drop(&self.bundles[number].digest());
                held.aside -= 1;
            } else {
                pool.release(&self.bundles[number].digest());
                held.blocks -= 1;
                if held.blocks == 0 && !held.executed {
                    self.line.insert(0, number);
                }
            }
            if held.blocks + held.aside == 0 && held.executed {
                self.held.remove(&number);
            }
        }
    }

    fn check_selection(&self, selected: &[Digest], commands: usize, bytes: usize) -> Vec<usize> {
        let pending = self.pending();
        let numbers: Vec<usize> = selected.iter().map(|digest| self.number(digest)).collect();
        assert_eq!(numbers, self.line[..numbers.len()], "the first pending bundles are selected");
        let taken: BTreeSet<usize> = numbers.iter().copied().collect();
        assert!(taken.is_subset(&pending), "only pending bundles are selected");
        assert_eq!(taken.is_empty(), pending.is_empty(), "at least one pending bundle is selected");
        let (taken_commands, taken_bytes) = (self.commands(&taken), self.bytes(&taken));
        assert!(
            taken.len() <= 1 || (taken_commands <= commands && taken_bytes <= bytes),
            "several selected bundles are within the limits"
        );
        let fits = |number: &usize| {
            taken_commands + self.bundles[*number].len() <= commands
                && taken_bytes + self.bundles[*number].body().len() <= bytes
        };
        assert!(
            !self.line.get(numbers.len()).is_some_and(fits),
            "selection stops only if the next bundle exceeds a limit"
        );
        numbers
    }

    fn check(&self, pool: &Pool) {
        let pending = self.pending();
        assert_eq!(pool.pending_commands(), self.commands(&pending));
        let listed: Vec<usize> =
            pool.oldest_pending(usize::MAX).iter().map(|bundle| self.number(&bundle.digest())).collect();
        assert_eq!(listed, self.line);
        for (number, bundle) in self.bundles.iter().enumerate() {
            assert_eq!(pool.contains(&bundle.digest()), self.held.contains_key(&number));
        }
        pool.invariants();
    }
}

proptest! {
    #[test]
    fn the_pool_agrees_with_a_naive_model(
        steps in collection::vec(step(), 1..150),
        max_bundles in 1..10usize,
        max_bytes in 30..900usize,
    ) {
        let bundles = (0..BUNDLES as u64).map(|number| bundle(number, 1 + number % 4, number as usize)).collect();
        let mut naive = Naive { bundles, held: BTreeMap::new(), line: Vec::new() };
        let mut pool = pool(max_bundles, max_bytes);
        let mut blocks: Vec<Proposed> = Vec::new();
        for step in steps {
            match step {
                Step::Offer { number, wanted } => {
                    let pending = naive.pending();
                    let bytes = naive.bytes(&pending) + naive.bundles[number].body().len();
                    let full = !wanted && (pending.len() >= max_bundles || bytes > max_bytes);
                    let expected = match naive.held.contains_key(&number) {
                        true => Offered::Known,
                        false if full => Offered::Full,
                        false => Offered::New,
                    };
                    if expected == Offered::New {
                        naive.held.insert(number, Held::default());
                        naive.line.push(number);
                    }
                    let need = if wanted { Need::Certified } else { OFFERED };
                    prop_assert_eq!(pool.offer(naive.bundles[number].clone(), need), expected);
                }
                Step::Select { commands, bytes } => {
                    let selected = pool.select(room(commands, bytes));
                    let numbers = naive.check_selection(&selected, commands, bytes);
                    blocks.push(naive.propose(&mut pool, &numbers));
                }
                Step::Propose { numbers } => {
                    let held = numbers.into_iter().filter(|number| naive.held.contains_key(number));
                    let numbers: Vec<usize> = held.collect();
                    blocks.push(naive.propose(&mut pool, &numbers));
                }
                _ if blocks.is_empty() => {}
                Step::SetAside { block } => {
                    let block = block.get_mut(&mut blocks);
                    if !block.executed && !block.aside {
                        naive.set_aside(&mut pool, &block.numbers);
                        block.aside = true;
                    }
                }
                Step::TakeUp { block } => {
                    let block = block.get_mut(&mut blocks);
                    if block.aside {
                        naive.take_up(&mut pool, &block.numbers);
                        block.aside = false;
                    }
                }
                Step::Execute { block } => {
                    let block = block.get_mut(&mut blocks);
                    if !block.executed && !block.aside {
                        naive.execute(&mut pool, &block.numbers);
                        block.executed = true;
                    }
                }
                Step::Release { block } => {
                    let block = blocks.swap_remove(block.index(blocks.len()));
                    naive.release(&mut pool, block);
                }
            }
            naive.check(&pool);
        }
    }
}
