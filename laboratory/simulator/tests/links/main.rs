//! Tests of the loss models and of measured delays.

mod matrices;

use quorate_simulator::links::{Loss, LossProcess, Purpose, Random};

const PACKETS: usize = 200_000;

/// Returns, for each of many packets, whether a process loses it.
fn losses(loss: Loss) -> Vec<bool> {
    let (mut process, mut random) = (LossProcess::new(loss), Random::new(7, Purpose::Links, 0));
    (0..PACKETS).map(|_| !process.passes(&mut random, 1)).collect()
}

fn share(losses: &[bool]) -> f64 {
    losses.iter().filter(|lost| **lost).count() as f64 / losses.len() as f64
}

#[test]
fn independent_loss_has_its_share_and_no_memory() {
    let lost = losses(Loss::Independent { probability: 0.05 });
    assert!((share(&lost) - 0.05).abs() < 0.003, "{}", share(&lost));
    let after_a_loss: Vec<bool> = lost.windows(2).filter(|pair| pair[0]).map(|pair| pair[1]).collect();
    assert!((share(&after_a_loss) - 0.05).abs() < 0.01, "{}", share(&after_a_loss));
}

#[test]
fn bursts_have_their_share_and_their_mean_length() {
    let lost = losses(Loss::Bursts { enter: 0.01, leave: 0.25, good: 0.0, bad: 1.0 });
    // The stationary share of the bad state is enter / (enter + leave).
    assert!((share(&lost) - 0.01 / 0.26).abs() < 0.004, "{}", share(&lost));
    let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
    let mean = lost.iter().filter(|lost| **lost).count() as f64 / bursts as f64;
    assert!((mean - 4.0).abs() < 0.3, "a burst lasts 1/leave packets, not {mean}");
}

#[test]
fn a_process_without_loss_draws_nothing() {
    let (mut process, mut random) = (LossProcess::new(Loss::default()), Random::new(7, Purpose::Links, 0));
    assert!(process.passes(&mut random, 1000) && !Loss::default().loses());
    assert_eq!(random.bits(), Random::new(7, Purpose::Links, 0).bits(), "traces without loss stay the same");
}
