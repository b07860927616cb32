//! Binomial distributions, compared with a library and by their properties.

use proptest::prelude::*;
use quorate_simulator::models::Chance;
use quorate_simulator::models::binomial::Binomials;
use statrs::distribution::{Binomial, Discrete, DiscreteCDF};

#[test]
fn tails_agree_with_a_library_where_it_is_precise() {
    for (n, loss) in [(10, 0.3), (100, 0.05), (1000, 0.01), (1000, 0.4)] {
        let (ours, theirs) = (Binomials::new(n), Binomial::new(1.0 - loss, n as u64).expect("parameters"));
        for k in 0..=n {
            let exactly = ours.ln_exactly(n, Chance::of_loss(loss), k).exp();
            let wanted = theirs.pmf(k as u64);
            assert!((exactly - wanted).abs() < 1e-9 * wanted + 1e-250, "{n} {loss} {k}: {exactly} {wanted}");
            let tail = ours.at_least(n, Chance::of_loss(loss), k);
            let wanted = if k == 0 { 1.0 } else { theirs.sf(k as u64 - 1) };
            assert!((tail.probability() - wanted).abs() < 1e-10, "{n} {loss} {k}: {} {wanted}", tail.probability());
        }
    }
}

/// The library's tail is 0 or 1 here; ours is precise: P(at least 1 of 1000) with loss 1e-3, to the power of 1000.
#[test]
fn tails_keep_their_digits() {
    let tables = Binomials::new(1000);
    let tail = tables.at_least(1000, Chance::of(1e-15), 2);
    let wanted = 1000.0 * 999.0 / 2.0 * 1e-30;
    assert!((tail.probability() / wanted - 1.0).abs() < 1e-9, "{}", tail.probability());
    let all_lost = tables.at_least(1000, Chance::of_loss(1e-3), 1);
    assert!((all_lost.ln_complement() / (1000.0 * 1e-3f64.ln()) - 1.0).abs() < 1e-12);
    assert_eq!(all_lost.probability(), 1.0);
}

#[test]
fn certain_and_impossible_events_are_no_special_case() {
    let tables = Binomials::new(5);
    assert_eq!(tables.at_least(5, Chance::ALWAYS, 5), Chance::ALWAYS);
    assert_eq!(tables.at_least(5, Chance::NEVER, 1), Chance::NEVER);
    assert_eq!(tables.at_least(5, Chance::of(0.5), 0), Chance::ALWAYS);
    assert_eq!(tables.at_least(3, Chance::ALWAYS, 4), Chance::NEVER);
    assert_eq!(tables.ln_exactly(3, Chance::of(0.5), 4), f64::NEG_INFINITY);
    assert_eq!(Chance::of_loss(1.0), Chance::NEVER);
    assert_eq!(Chance::of_loss(0.0), Chance::ALWAYS);
    assert_eq!(Chance::of(0.3).all_of(0), Chance::ALWAYS);
    assert_eq!(Chance::of(0.3).any_of(0), Chance::NEVER);
}

proptest! {
    #[test]
    fn a_tail_and_its_complement_make_one(n in 1usize..300, loss in 0.0f64..=1.0, k in 0usize..300) {
        let tail = Binomials::new(n).at_least(n, Chance::of_loss(loss), k);
        prop_assert!((tail.probability() + tail.loss() - 1.0).abs() < 1e-11);
    }

    #[test]
    fn copies_multiply_losses(loss in 0.0f64..=1.0, copies in 1u32..20) {
        let chance = Chance::of_loss(loss).any_of(copies);
        let wanted = loss.powi(copies as i32);
        prop_assert!((chance.loss() - wanted).abs() <= 1e-12 * wanted + 1e-300);
        prop_assert!((chance.probability() + chance.loss() - 1.0).abs() < 1e-12);
        let both = Chance::of_loss(loss).and(Chance::of_loss(loss));
        prop_assert!((both.probability() - (1.0 - loss) * (1.0 - loss)).abs() < 1e-12);
    }
}
